/* SPDX-License-Identifier: MIT */
/*
 * The memory accesses of the Debug Store: linear, through the guest's page tables, as the
 * supervisor at any CPL. Every branch passes here, so what lies within a page that was used before
 * is reached without a call.
 */
#ifndef SPOOR_MONITOR_DS_MEMORY_H
#define SPOOR_MONITOR_DS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/vcpu.h"

#define DS_PAGE_BYTES 4096u
#define DS_PAGE_MASK  0xfffull

/* NULL: not within one page, or not used since translations were last forgotten. */
static inline uint8_t *ds_known(const struct vcpu *vcpu, const struct ds_window *window,
				uint64_t linear, unsigned bytes)
{
	unsigned odd = linear / DS_PAGE_BYTES & 1;
	uint64_t offset = linear - window->page[odd].linear;

	if (offset > DS_PAGE_BYTES - bytes || vcpu->ds.window_translations != vcpu->translations)
		return NULL;
	return window->page[odd].host + offset;
}

/* Forgets what was used before. */
void ds_forget(struct vcpu *vcpu);

/* The general case of the two below. */
bool ds_load_slowly(struct vcpu *vcpu, struct ds_window *window, uint64_t linear, uint64_t *values,
		    unsigned count);
bool ds_store_slowly(struct vcpu *vcpu, struct ds_window *window, uint64_t linear,
		     const uint64_t *values, unsigned count);

/* Quadwords at any alignment. False: a page is not mapped for the access; nothing was changed. */
static inline bool ds_load(struct vcpu *vcpu, struct ds_window *window, uint64_t linear,
			   uint64_t *values, unsigned count)
{
	const uint8_t *from = ds_known(vcpu, window, linear, count * 8);

	if (!from)
		return ds_load_slowly(vcpu, window, linear, values, count);
	__builtin_memcpy(values, from, count * 8);
	return true;
}

static inline bool ds_store(struct vcpu *vcpu, struct ds_window *window, uint64_t linear,
			    const uint64_t *values, unsigned count)
{
	uint8_t *to = ds_known(vcpu, window, linear, count * 8);

	if (!to)
		return ds_store_slowly(vcpu, window, linear, values, count);
	__builtin_memcpy(to, values, count * 8);
	return true;
}

#endif
