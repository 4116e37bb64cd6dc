/* SPDX-License-Identifier: MIT */
/*
 * A virtual processor with a Debug Store in front of a few pages of memory, for the tests of the
 * monitor's BTS rules. Linear page n is physical page PAGES - 1 - n, so that neighbours are not.
 */
#pragma once

#include <string.h>

#include "monitor/silicon.h"
#include "monitor/unit.h"
#include "tests/host/host.h"

enum { RIG_PAGES = 8, RIG_PAGE = 4096, RIG_RECORD = 24 };
enum { RIG_TR = 0x40, RIG_BTS = 0x80, RIG_BTINT = 0x100, RIG_OFF_OS = 0x200, RIG_OFF_USR = 0x400 };
enum { RIG_ON = RIG_TR | RIG_BTS, RIG_DEBUGCTL = 0x1d9, RIG_DS_AREA = 0x600 };
#define RIG_LINEAR 0xffff800000000000ull

extern struct ds_rig {
	struct vcpu vcpu;
	struct silicon silicon;
	uint8_t memory[RIG_PAGES][RIG_PAGE];
	bool absent[RIG_PAGES], device[RIG_PAGES];
	unsigned access; /* of the last write that was translated */
	unsigned interrupts, translations;
	uint8_t told[8 * sizeof(struct told)]; /* through the port of stack=on */
	unsigned told_bytes;
	uint64_t area, base;
} rig;
uint8_t *rig_at(uint64_t linear);
uint64_t rig_get(uint64_t linear);
void rig_put(uint64_t linear, uint64_t value);

/* Field n of the DS area: base, index, absolute maximum, threshold. */
uint64_t rig_field(unsigned n);
void rig_set_index(uint64_t index);

/* `maximum` and `threshold` are bytes from the base. */
void rig_configure(uint64_t maximum, uint64_t threshold, uint64_t debugctl);

/* As the interpreter reports one. */
void rig_branch(uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl);

/* `count` branches of the kernel, numbered from `first`: from n to n + 0x1000. */
void rig_branches(uint64_t first, unsigned count);
uint64_t rig_slot(unsigned n);

/* Records stored so far, as far as the index tells. */
unsigned rig_index(void);

/* The processor is of `profile`, with this behaviour, and has just been reset. */
void rig_make(const char *profile, const struct behaviour *behaviour,
	      void (*break_rules)(struct silicon *silicon));
int rig_reset(void **state);
