/* SPDX-License-Identifier: MIT */
#ifndef SPOOR_MONITOR_BOOT_RSDP_H
#define SPOOR_MONITOR_BOOT_RSDP_H

#include "abi/boot_info.h"

/*
 * Looks for the ACPI RSDP where a BIOS leaves it (ACPI specification, 5.2.5.1) if the loader gave
 * none. Leaves rsdp_size at 0 where there is none.
 */
void rsdp_find(struct boot_info *info);

#endif
