/* SPDX-License-Identifier: MIT */
/* Whether what ran gave its memory back; pages of the kernel that a test changes. */
#pragma once

#include <stdint.h>

/* Free pages, and those of page tables, which stay where addresses were used once. Any context. */
uint64_t pages_left(void);

/*
 * Waits until as many are left for some milliseconds: stacks of tasks that ended are freed in their
 * own time, by whichever CPU is idle. Task context.
 */
void pages_settle(void);

/*
 * Waits, some seconds at most, until as many are left as `before`: tasks that ended may still be on
 * their way out. How many are missing. Task context.
 */
int64_t pages_missing(uint64_t before);

/*
 * How many runs of the largest order there are, at most so many: takes them and gives them back.
 * One page of a page table may take one away permanently. Task context; nothing else allocates.
 */
enum { PAGES_MOST_RUNS = 1024 };
uint64_t pages_largest_runs(void);

/* Changes the rights of one mapped page; makes one not present, mapped or not. */
void page_protect(uint64_t linear, unsigned flags);
void page_unmap(uint64_t linear);

/* The first two of these pages of test_area() get physical pages that do not follow each other. */
void page_part(uint8_t *pages);
