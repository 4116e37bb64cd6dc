/* SPDX-License-Identifier: MIT */
/*
 * An interrupt descriptor table of the test's own, for handlers whose every instruction the test
 * knows. It begins as a copy of the kernel's, so that whatever else happens is served as usual. On
 * this CPU only, from own_idt_load() to own_idt_unload(), preemption off; nothing in between may
 * end the test.
 *
 * A handler is reached through an interrupt gate, on the stack that the kernel's handler of that
 * vector would get.
 */
#ifndef SPOOR_TESTS_LIB_OWN_IDT_H
#define SPOOR_TESTS_LIB_OWN_IDT_H

#include <stdbool.h>
#include <stdint.h>

/* What a #DB handler of the test's own leaves for the test to put back. SDM Vol 3, table 9-1. */
#define DR6_RESET 0xffff0ff0ul

/* Begins a new copy of the kernel's table. Not while the own one is loaded. */
void own_idt_copy(void);

/* Sends `vector` to `handler`; `user`: ring 3 may call it with INT n. */
void own_idt_set(unsigned vector, const void *handler, bool user);

/* Makes a gate of the own table a trap gate. */
void own_idt_make_trap(unsigned vector);

/* Makes a gate of the own table one to a data segment. */
void own_idt_break(unsigned vector);

void own_idt_load(void);
void own_idt_unload(void);

/* The operand of the LIDT that own_idt_unload() is, for code that has to do it itself. */
struct idt_pointer {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));
const struct idt_pointer *own_idt_kernel(void);

/*
 * Handlers without a branch of their own but the IRETQ at their end, whose address is known. The
 * first returns; the others, the last of them for exceptions with an error code, return to RBX.
 */
extern const char own_handler_return[];
extern const char own_handler_resume[], own_handler_resume_iret[];
extern const char own_handler_resume_error[], own_handler_resume_error_iret[];

#endif
