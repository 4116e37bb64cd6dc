/* SPDX-License-Identifier: MIT */
/*
 * The machine's name from firmware (System Management BIOS, DSP0134 3.6). Nothing in its tables
 * is trusted: addresses, lengths and checksums are checked, and what fails is passed over. No
 * allocation.
 */
#pragma once

#include "abi/boot_info.h"

/* Named as in Linux' /sys/class/dmi/id. */
enum smbios_text {
	SMBIOS_BIOS_VENDOR,
	SMBIOS_BIOS_VERSION,
	SMBIOS_BIOS_DATE,
	SMBIOS_SYS_VENDOR,
	SMBIOS_PRODUCT_NAME,
	SMBIOS_PRODUCT_SERIAL,
	SMBIOS_BOARD_VENDOR,
	SMBIOS_BOARD_NAME,
	SMBIOS_TEXTS,
};

/*
 * Reads the tables that the UEFI system table leads to or, without one, those of BIOS memory. Boot
 * of the first CPU.
 */
void smbios_init(const struct boot_info *boot);

/*
 * The text, printable ASCII without quotes and without blanks at its ends, at most 63 bytes; empty
 * if firmware gives none. Any context after smbios_init().
 */
const char *smbios_text(enum smbios_text text);
