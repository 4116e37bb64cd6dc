/* SPDX-License-Identifier: MIT */
#ifndef SPOOR_MONITOR_BOOT_HANDOVER_H
#define SPOOR_MONITOR_BOOT_HANDOVER_H

#include "monitor/boot/kernel.h"

/* Gives the processor to the kernel and ends the monitor. `root`: the page tables in use. */
_Noreturn void handover(const struct kernel_entry *kernel, uint64_t root);

#endif
