/* SPDX-License-Identifier: MIT */
/*
 * The memory accesses of the Debug Store: linear, through the guest's page tables, as the
 * supervisor at any CPL.
 */
#ifndef SPOOR_MONITOR_DS_MEMORY_H
#define SPOOR_MONITOR_DS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/vcpu.h"

#define DS_PAGE_BYTES 4096u
#define DS_PAGE_MASK  0xfffull

/* Forgets what was used before. */
void ds_forget(struct vcpu *vcpu);

/* To be called before the accesses of a branch. */
static inline void ds_refresh(struct vcpu *vcpu)
{
	if (vcpu->ds.window_translations != vcpu->translations)
		ds_forget(vcpu);
}

/* NULL: not within one page, or not used since ds_forget(). */
static inline uint8_t *ds_known(const struct ds_window *window, uint64_t linear, unsigned bytes)
{
	unsigned odd = linear / DS_PAGE_BYTES & 1;
	uint64_t offset = linear - window->page[odd].linear;

	if (offset > DS_PAGE_BYTES - bytes)
		return NULL;
	return window->page[odd].host + offset;
}

/* Quadword n from `at`, which ds_known() gave. */
static inline uint64_t ds_get(const uint8_t *at, unsigned n)
{
	uint64_t value;

	__builtin_memcpy(&value, at + n * 8, 8);
	return value;
}

static inline void ds_put(uint8_t *at, unsigned n, uint64_t value)
{
	__builtin_memcpy(at + n * 8, &value, 8);
}

/*
 * `count` quadwords at any alignment, in whatever pages. False: a page is not mapped for the
 * access; nothing was changed.
 */
bool ds_load(struct vcpu *vcpu, struct ds_window *window, uint64_t linear, uint64_t *values,
	     unsigned count);
bool ds_store(struct vcpu *vcpu, struct ds_window *window, uint64_t linear, const uint64_t *values,
	      unsigned count);

#endif
