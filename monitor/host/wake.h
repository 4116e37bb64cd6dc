/* SPDX-License-Identifier: MIT */
/* The way of another processor from real mode to processor_arrive(). */
#pragma once

#include <stdint.h>

/* Makes the page at `page`, below 1 MiB, one to start processors at, under the page tables `root`:
   the vector of a start-up IPI is its number. */
void wake_prepare(uint64_t page, uint64_t root);

/*
 * Where a processor arrives from start-up: in long mode, with IF = 0, on a stack that it has for
 * itself until wake_to_stack(). No IDT is loaded.
 */
_Noreturn void processor_arrive(void);

/* Calls run(argument) on the stack of STACK_BYTES at `stack`, and lets the next processor in. The
   first one calls this too. */
_Noreturn void wake_to_stack(void *stack, void (*run)(void *argument), void *argument);

/* start.asm: the page's code and data, and whether a processor is on its way. */
extern const char wake_start[];
extern const char wake_data[];
extern const char wake_end[];
extern uint32_t start_busy;
