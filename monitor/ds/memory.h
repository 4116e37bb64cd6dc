/* SPDX-License-Identifier: MIT */
/*
 * The memory accesses of the Debug Store: linear, through the guest's page tables, as the
 * supervisor at any CPL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/vcpu.h"

#define DS_PAGE_BYTES 4096u
#define DS_PAGE_MASK  0xfffull

/* To be called when something has changed that the short way of a record depends on: quick.h. */
static inline void ds_forget_fields(struct vcpu *vcpu)
{
	for (unsigned cpl = 0; cpl < 4; cpl++)
		vcpu->ds.seen.fields[cpl] = NULL;
}

/* Forgets what was used before. */
void ds_forget(struct vcpu *vcpu);

/* To be called before the accesses of a branch. */
static inline void ds_refresh(struct vcpu *vcpu)
{
	if (vcpu->ds.seen.translations != vcpu->translations)
		ds_forget(vcpu);
}

/* The place in `window` for the page that holds `linear`. */
static inline struct ds_page *ds_page_of(struct ds_window *window, uint64_t linear)
{
	return &window->page[linear / DS_PAGE_BYTES & 1];
}

static inline bool ds_is_within(const struct ds_page *page, uint64_t linear, unsigned bytes)
{
	return linear - page->linear <= DS_PAGE_BYTES - bytes;
}

/* NULL: not within one page, or not used since ds_forget(). */
static inline uint8_t *ds_known(struct ds_window *window, uint64_t linear, unsigned bytes)
{
	const struct ds_page *page = ds_page_of(window, linear);

	return ds_is_within(page, linear, bytes) ? page->host + (linear - page->linear) : NULL;
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
