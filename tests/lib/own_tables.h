/* SPDX-License-Identifier: MIT */
/*
 * Descriptor tables of the test's own, and an interrupt that waits for a place of the test's
 * choice. A table is loaded on this CPU only, from own_gdt_load() to own_gdt_unload(), or from
 * own_idt_load() to own_idt_unload(), preemption off; nothing in between may end the test.
 */
#pragma once

#include "drivers/processor.h"
#include "tests/lib/rig.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel's GDT, and after it segments of base 0 but the last; limits 4 GiB, or 64 KiB for 16
 * bits. */
enum {
	OWN_CODE_32 = 0x80,
	OWN_DATA_32 = 0x88,
	OWN_CODE_16 = 0x90,
	OWN_DATA_16 = 0x98,
	OWN_CODE_64 = 0xa0,
	OWN_USER_CODE_32 = 0xa8 | 3,
	OWN_USER_DATA_32 = 0xb0 | 3,
	OWN_USER_CODE_16 = 0xb8 | 3,
	OWN_USER_DATA_16 = 0xc0 | 3,
	/* Six in the order of SYSENTER and SYSEXIT, and of SYSCALL and SYSRET: code of 64 bits,
	   data; of ring 3 code of 32 bits, data, code of 64 bits, data. SDM Vol 3, 5.8.7 and 5.8.8.
	 */
	OWN_FAST = 0xc8,
	OWN_FAST_USER = OWN_FAST + 16,
	OWN_FAST_USER_64 = (OWN_FAST + 32) | 3,
	OWN_CODE_32_BASED = OWN_FAST + 48, /* of base OWN_BASE */
	/* Code of 64 bits and data of ring 1, and of ring 2 after them. The first code is
	   conforming and of ring 0: CPL is 1 there all the same (SDM Vol 3, 5.8.1). */
	OWN_RING_1 = OWN_CODE_32_BASED + 8,
	OWN_RING_2 = OWN_RING_1 + 16,
	OWN_DATA_DOWN = OWN_RING_2 + 16, /* of ring 0, expand-down, of no bytes */
};
/* F0000000H: an address is the sum modulo 2^32, which with this is that modulo 2^64. */
#define OWN_BASE (-0x10000000ul)

void own_gdt_load(void);
void own_gdt_unload(void);

/*
 * In ring 1 or 2: 16 jumps of two bytes from own_ring_jumps on, each to the next, then INT n. The
 * MSR has `value` from the IRETQ that leads there on, and `off` once the handler has written that,
 * seven instructions later. IF is 0 meanwhile. The caller has loaded the own GDT; this function
 * loads an own IDT.
 */
enum { OWN_RING_JUMPS = 16 };
extern const char own_ring_jumps[];
void own_ring_run(unsigned ring, uint32_t msr, uint64_t value, uint64_t off);

/*
 * In ring 1 or 2, the own GDT loaded and the MSR = `value`, which is 0 after: whether the code at
 * `at` raises #GP. That is RDPMC of counter 0, RDMSR of IA32_DS_AREA, WRMSR of IA32_DEBUGCTL, a far
 * RET to ring 0, and CLI after an IRETQ with IOPL = 3. The last is CLI in the handler of an INT n,
 * in a conforming segment, where CS has an RPL other than 0.
 */
extern const char own_ring_rdpmc[], own_ring_rdmsr[], own_ring_wrmsr[], own_ring_lret[],
	own_ring_iretq[], own_ring_int[];
bool own_ring_refuses(const char *at, unsigned ring, uint32_t msr, uint64_t value);

static inline bool own_ring_has(uint64_t address)
{
	return address - (uint64_t)own_ring_jumps < 2 * OWN_RING_JUMPS;
}

/* Gives the TSS of this CPU another limit, in the kernel's GDT, and returns the one it had. */
uint16_t own_tss_limit(uint16_t limit);

/* The table as it was loaded last, cut or filled with 0. */
void own_gdt_copy(void *to, size_t bytes);

/*
 * The own IDT is for handlers whose every instruction the test knows. It begins as a copy of the
 * kernel's, so that whatever else happens is served as usual.
 *
 * A handler is reached through an interrupt gate, on the stack that the kernel's handler of that
 * vector would get.
 */

/* The DR6 that a test puts back after its own #DB handler. SDM Vol 3, table 9-1. */
#define DR6_RESET 0xffff0ff0ul

/* Begins a new copy of the kernel's table. Not while the own one is loaded. */
void own_idt_copy(void);

/* Sends `vector` to `handler`; `user`: ring 3 may call it with INT n. */
void own_idt_set(unsigned vector, const void *handler, bool user);

/* own_idt_copy() and own_idt_set(). */
void own_idt_begin(unsigned vector, const void *handler, bool user);

/* Makes a gate of the own table a trap gate. */
void own_idt_make_trap(unsigned vector);

/* Gives a gate of the own table the stack of this IST field; 0: that of RSP0, or none. */
void own_idt_set_stack(unsigned vector, uint8_t ist);

/* Makes a gate of the own table one to a data segment, or one that is not present. */
void own_idt_break(unsigned vector);
void own_idt_make_absent(unsigned vector);

void own_idt_load(void);
void own_idt_unload(void);

/* The operand of the LIDT that own_idt_unload() is, for code that has to do it itself. */
const struct table_pointer *own_idt_kernel(void);

/*
 * Handlers without a branch of their own but the IRETQ at their end, whose address is known. The
 * first returns; the others, the last of them for exceptions with an error code, return to RBX.
 */
extern const char own_handler_return[];
extern const char own_handler_resume[], own_handler_resume_iret[];
extern const char own_handler_resume_error[], own_handler_resume_error_iret[];

/*
 * One external interrupt, of VECTOR_TEST, that waits for IF = 1 while all the kernel's own wait
 * for the task priority. For code that is to be interrupted at a place of its choice.
 *
 *	struct pending pending;
 *	EXACTLY (&rig) {
 *		pending_raise(&pending);
 *		TRACED(rig_all(), "sti\n\tnop\n\t");
 *		pending_settle();
 *	}
 */
struct pending {
	unsigned count; /* interrupts that came */
	uint64_t rip;	/* the RIP that the newest one saved */
};

/* The local APIC has that interrupt on return. IF = 0, or the task priority holds it back. */
void own_raise_interrupt(void);

/* Leaves IF = 0 and the interrupt pending in the local APIC. Preemption off. */
void pending_raise(struct pending *pending);

/* Task priority and IF as usual again; an interrupt that is still pending arrives now. */
void pending_settle(void);

/*
 * Fails the test unless slot `slot` is the interrupt, from its saved RIP to the kernel's entry,
 * and the newest record is an IRETQ back to there. pending_expect_way() leaves out where it came
 * from.
 */
void pending_expect_way(const struct rig *rig, size_t slot, const struct pending *pending);
void pending_expect(const struct rig *rig, size_t slot, const struct pending *pending);
