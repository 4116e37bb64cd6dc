/* SPDX-License-Identifier: MIT */
/*
 * Code that a test writes itself. A page is never writable and executable at one address: it is
 * written at one and runs at another, or one after the other. Task context.
 */
#pragma once

#include "kernel/mm/page.h"
#include "lib/string.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Lets the page of test_area() at `page` be executed at `linear` as well, in ring 3 if `flags` has
 * VM_USER. It stays until code_unmap(), which must come before the test is over.
 */
void code_map(uint64_t linear, const void *page, unsigned flags);
/* The same of a page of data, to be written there. */
void code_map_data(uint64_t linear, const void *page, unsigned flags);
void code_unmap(uint64_t linear);

/* Makes an area of test_area() executable, and writable again. */
void code_seal(void *area, size_t pages);
void code_unseal(void *area, size_t pages);

/*
 * Every encoding of a branch: operands of near JMP and CALL in each register and each form of ModRM
 * and SIB, relative branches forwards, backwards and over nothing, returns, far branches. Each has
 * the prefixes that change it, and those that do not. Form by form, from 0 on:
 * code_branches_build() makes code of as many as have room.
 */
enum { BRANCHES_MOST = 64 };

/* What LBR_SELECT has a bit for: SDM Vol 3, table 17-9. */
enum code_branch_kind {
	CODE_JCC = 2,
	CODE_CALL,
	CODE_CALL_INDIRECT,
	CODE_RETURN,
	CODE_JUMP_INDIRECT,
	CODE_JUMP,
	CODE_FAR
};

struct code_branch {
	uint64_t from, to;
	enum code_branch_kind kind;
	unsigned form;
};

struct code_branches {
	uint32_t msr;	      /* that code_branches_run() sets; 0: IA32_DEBUGCTL */
	uint8_t *code, *data; /* where they are written */
	size_t size, count;
	struct code_branch branch[BRANCHES_MOST]; /* in the order that they are taken */
};

/* Maps code and data below 4 GiB, until code_branches_close(). */
void code_branches_open(struct code_branches *branches);
void code_branches_close(void);

/* Code of the forms from `form` on whose branches are not more than `most`, at least 3. Returns the
   form that follows, 0 after the last one. */
unsigned code_branches_build(struct code_branches *branches, unsigned form, size_t most);

/* Runs them with `value` in the MSR and IF = 0, and no other branch; the MSR is 0 then. It is the
   caller's, and preemption is off. */
void code_branches_run(uint64_t value);

/* Instructions in the kernel's own code, for addresses that a record has. Any context. */

/* False also where `address` is not in the kernel's code at all. */
static inline bool text_is(uint64_t address, const uint8_t *bytes, size_t size)
{
	return address >= (uint64_t)text_start && address < (uint64_t)text_end &&
	       !memcmp((const void *)address, bytes, size);
}

static inline bool text_is_iretq(uint64_t address)
{
	return text_is(address, (const uint8_t[]){0x48, 0xcf}, 2);
}

static inline bool text_is_sysretq(uint64_t address)
{
	return text_is(address, (const uint8_t[]){0x48, 0x0f, 0x07}, 3);
}
