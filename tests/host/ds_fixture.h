/* SPDX-License-Identifier: MIT */
/* A CPU with BTS and two buffers to trace into, for the tests of leases, switches and interrupts.
 */
#pragma once

#include <string.h>

#include "drivers/ds/ds.h"
#include "drivers/ds/record.h"
#include "drivers/ds/registers.h"
#include "tests/host/fake_cpu.h"

enum { TR = 0x40, BTS = 0x80, BTINT = 0x100, OFF_OS = 0x200, OFF_USR = 0x400 };
enum { RECORDS = 64, MARGIN = 16 };

struct trace_memory {
	_Alignas(64) unsigned char area[DS_AREA_SIZE];
	_Alignas(64) unsigned char buffer[RECORDS * 24];
};

extern struct ds_idle idle;
extern struct ds_cpu cpu;
extern struct debugctl debugctl;
extern struct ds_lease a, b;
extern struct trace_memory memory_a, memory_b;

/* Requests a lease on this memory with a margin of MARGIN records. */
int request(struct ds_lease *lease, struct trace_memory *memory, enum ds_overflow overflow,
	    unsigned filter);

/* As setup of a test: a Nehalem with nothing loaded, and a clear log. */
int start(void **state);

/* The overflow method that the threshold says. */
enum ds_overflow threshold_says(const void *area);

/* Acts as the hardware for one record; the index is back at the base after the last slot, or
 * stays past it. */
void store_record(void *area, uint64_t from);

/* Acts as the hardware for `count` branches, if it records at all. */
void branches(unsigned count);

uint64_t area_of(const struct ds_lease *lease);
