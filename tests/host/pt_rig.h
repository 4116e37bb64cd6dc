/* SPDX-License-Identifier: MIT */
/*
 * Virtual Intel PT against libipt: the interpreter runs a random program, the packets that
 * monitor/pt writes to the guest's memory are decoded, and the addresses of the instructions must
 * be those that were executed. What libipt leaves out is left out of the expected list as well: an
 * instruction that faults, INT n, and the WRMSR that turns tracing on or off.
 */
#pragma once

#include "monitor/pt/rules.h"
#include "monitor/silicon.h"
#include "tests/host/pt_program.h"

enum { TOPA = 0x80000, REGIONS = 0x200000, MOST = 400000, APIC = 0xfee00000 };
enum { CTL_DEFAULT = CTL_TRACE_EN | CTL_OS | CTL_USER | CTL_TOPA | CTL_BRANCH_EN };

/* Enumerations of CPUID leaf 14H, the processor, instructions as they were executed and as they are
 * decoded. */
extern const struct pt_enumeration everything, least;
extern struct silicon silicon;
extern uint64_t expected[MOST], decoded[MOST];
extern unsigned executed;

/* MSRs, which have to take and give the value; entry `entry` of the table. */
void write_msr(uint32_t index, uint64_t value);
uint64_t read_msr(uint32_t index);
uint64_t *topa(unsigned entry);

/* Another processor of this enumeration, in front of cleared memory. */
void of(const struct pt_enumeration *pt);

/* `count` regions of 4 KiB << order, one after the other, then END to the first. */
void make_topa(unsigned count, unsigned order, uint64_t last);

/* As WRMSR in the guest does; it lies somewhere ahead of the code. */
void write_ctl(uint64_t value);

/* The addresses that libipt finds in `bytes`; a negative error, the last one. */
int decode_packets(uint8_t *bytes, size_t size, unsigned *count);

/* Where the next byte goes, from the start of the regions of 4 KiB << order. */
size_t bytes_out(unsigned order);

/* What was decoded is what was executed: of `count` instructions in decoded[]; of the regions. */
void assert_same(unsigned count);
void assert_decodes(unsigned order);

/* Executes so many instructions, with an NMI now and then. */
void run(unsigned instructions, bool nmis);

/* At least about so many, in blocks where that is possible: expected[] lacks most of them then. */
void run_blocks(unsigned instructions);
