/* SPDX-License-Identifier: MIT */
#pragma once

#include "abi/boot_info.h"
#include "monitor/memory.h"

/* Where the monitor is once it has moved. */
struct residence {
	struct range hidden; /* its image and its page tables */
	struct range copies; /* just below: what the caller wants kept while the kernel is loaded */
	uint64_t root;	     /* its own page tables */
};

/*
 * Moves the monitor to the top of the memory below 4 GiB, under new page tables in which nothing is
 * both writable and executable. Leaves `copies` bytes below itself, and `spare` bytes in the pool
 * beside what page tables need. Returns there, at the same virtual addresses. Ends the run if there
 * is no such memory.
 */
struct residence relocate(const struct boot_info *info, uint64_t copies, uint64_t spare);
