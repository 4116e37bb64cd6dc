/* SPDX-License-Identifier: MIT */
/*
 * Areas: runs of zeroed pages, contiguous in linear memory only, each with a not-present page
 * before and behind it, so that an overrun faults instead of spreading. Stacks, DS areas and trace
 * buffers are areas. Task context; takes locks.
 */
#ifndef SPOOR_KERNEL_MM_AREA_H
#define SPOOR_KERNEL_MM_AREA_H

#include "kernel/mm/vm.h"

/* NULL when memory is out; nothing is kept then. */
void *area_alloc(size_t pages, unsigned flags);

/* `area` NULL is allowed. `pages` as it was asked for. */
void area_free(void *area, size_t pages);

#endif
