/* SPDX-License-Identifier: MIT */
/*
 * The kernel starts itself again where it cannot go on: from a copy of its image, which with the
 * boot information is in memory that page_alloc() never gives out; it is mapped read-only.
 */
#pragma once

#include "lib/boot_info.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESTART_STATE 12288 /* bytes that the payload may hand to the kernel that follows */

/*
 * True if the image that runs is whole: its checksum is that of what was built. Keeps its data as
 * it was loaded. Boot, before anything is written to.
 */
bool restart_begin(void);

/*
 * True if EAX and EBX, `magic` and `physical`, are those of a restart: `info` is then what the
 * first start has from its loader. `memory` is as for boot_info_read(). Boot.
 */
bool restart_continues(uint32_t magic, uint64_t physical, boot_memory memory,
		       struct boot_info *info);

/*
 * Takes memory for the copy out of `info`, and makes it. There is none with restart=0 or export=,
 * or if memory is short. Boot, before page_init(); restart_map() maps the copy, after vm_init().
 */
void restart_keep(struct boot_info *info);
void restart_map(void);

/* What the payload handed to restart_kernel() before this start; NULL at the first one. */
const void *restart_state(void);

/*
 * Starts the kernel again, on the boot CPU, which gets `size` <= RESTART_STATE bytes of `state` for
 * its payload. Other CPUs are stopped first, by NMI and by INIT, and turn their trace units off:
 * none of these writes memory any more. Returns only where there is no restart: NULL, and a line
 * printed, if the limit of restart= is reached, there is no copy, or the boot CPU answers no NMI; a
 * sentence if the copy is damaged. Any context, whatever is locked.
 */
const char *restart_kernel(const void *state, size_t size);
const void *restart_copy(void); /* of the image; NULL: there is none. For tests */
