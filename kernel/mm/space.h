/* SPDX-License-Identifier: MIT */
/*
 * Address spaces: the lower half is a process's own, the upper half the kernel's and the same
 * everywhere. Every page is there from when it is mapped, and writable or executable, never both.
 * One task changes a space at a time; what another CPU may have cached is flushed before a page is
 * used again. Task context.
 */
#pragma once

#include "kernel/mm/vm.h"

/*
 * The addresses of ring 3: not the lowest 64 KiB, where a NULL pointer leads, nor the last page
 * below the addresses that are not canonical.
 */
#define USER_START 0x0000000000010000ul
#define USER_END   0x00007ffffffff000ul

#define SPACE_MOST_PAGES 1024 /* that one space may hold, tables not counted */

struct space {
	uint64_t root; /* the physical address of its top-level table */
	size_t pages;
};

/* Whether [address, address + bytes) is ring 3's. */
static inline bool is_user_range(uint64_t address, uint64_t bytes)
{
	return address >= USER_START && address <= USER_END && bytes <= USER_END - address;
}

/* An empty one. -ENOMEM. */
int space_create(struct space *space);

/* Frees all of it; no CPU may have it loaded. */
void space_destroy(struct space *space);

/* The same, except the page of `root`, which it returns for the caller to free; or 0. */
uint64_t space_clear(struct space *space);

/*
 * Maps `pages` zeroed pages from `linear` on with the rights `flags`, of which VM_USER is implied.
 * -EINVAL: not page-aligned, outside ring 3's half, or both VM_WRITE and VM_EXECUTE; -EEXIST:
 * something is there; -ENOMEM. A failure keeps nothing.
 */
int space_map(struct space *space, uint64_t linear, size_t pages, unsigned flags);

/* Unmaps and frees what is mapped of these pages, all within ring 3's half. Not under a lock. */
void space_unmap(struct space *space, uint64_t linear, size_t pages);

/* The lowest address in [start, end) with `pages` pages unmapped; 0 if there is none. */
uint64_t space_find_gap(const struct space *space, uint64_t start, uint64_t end, size_t pages);

/* Copies all pages of `from` to `to`, which is empty. -ENOMEM: `to` is then to be destroyed. */
int space_copy(struct space *to, const struct space *from);

/*
 * Copies between `buffer` and the pages at `address`, whatever their rights, whether the space is
 * loaded or not. -EFAULT, with nothing copied, if a page is missing. Any context but NMI, while
 * nobody unmaps.
 */
int space_read(const struct space *space, uint64_t address, void *buffer, size_t bytes);
int space_write(const struct space *space, uint64_t address, const void *buffer, size_t bytes);

/*
 * Copies from and to the memory of ring 3 in the address space that is loaded. A range of 0 bytes
 * may be anywhere; another is checked before anything is touched. A page that is not there, or has
 * not the rights, is -EFAULT, and what was copied until then stays. The task of a process.
 */
int copy_from_user(void *to, uint64_t from, size_t bytes);
int copy_to_user(uint64_t to, const void *from, size_t bytes);

/* Copies a string of less than `size` characters and its NUL. -EINVAL if it is longer. */
int strncpy_from_user(char *to, uint64_t from, size_t size);
