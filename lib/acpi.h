/* SPDX-License-Identifier: MIT */
/*
 * ACPI tables (ACPI 6.5 chapter 5) as early code needs them: from the root pointer to each table,
 * and the serial ports that SPCR and DBG2 name. Everything is checked: addresses, lengths,
 * checksums. No allocation, no AML. One CPU at boot; the functions without a `boot_memory`: any
 * context.
 */
#pragma once

#include "lib/boot_info.h"
#include <stdbool.h>
#include <stdint.h>

struct acpi_header {
	char signature[4];
	uint32_t length; /* of the whole table, this header included */
	uint8_t revision;
	uint8_t checksum; /* makes the sum of all bytes 0 */
	char oem_id[6];
	char oem_table_id[8];
	uint32_t oem_revision;
	uint32_t creator_id;
	uint32_t creator_revision;
} __attribute__((packed));
_Static_assert(sizeof(struct acpi_header) == 36, "ACPI 6.5 table 5.4");

/* Generic Address Structure, ACPI 6.5 section 5.2.3.2. */
enum acpi_space { ACPI_MEMORY = 0, ACPI_IO_PORT = 1 };

struct acpi_address {
	uint8_t space;	     /* enum acpi_space, or one that is not known here */
	uint8_t bit_width;   /* of the register */
	uint8_t bit_offset;  /* of the register */
	uint8_t access_size; /* 0 as the register, 1 byte, 2 word, 3 dword, 4 qword */
	uint64_t address;
} __attribute__((packed));
_Static_assert(sizeof(struct acpi_address) == 12, "ACPI 6.5 table 5.1");

/*
 * True if info->rsdp is a valid RSDP: the loader's, else one found in BIOS memory (section 5.2.5.1)
 * and copied there. False: no ACPI here, and what the loader gave is unchanged.
 */
bool acpi_find_rsdp(struct boot_info *info, boot_memory memory);

/* The valid table at `physical`, or NULL; mapped whole by `memory`. */
const struct acpi_header *acpi_table_at(boot_memory memory, uint64_t physical);

#define ACPI_MOST_TABLES 128 /* more are not looked at */

struct acpi_tables {
	unsigned count;
	const struct acpi_header *table[ACPI_MOST_TABLES]; /* valid ones */
	char damaged[5]; /* signature of the last one whose length or checksum is wrong; else "" */
};

/* Fills `tables` from the XSDT, else the RSDT, of info->rsdp. False: there is neither. */
bool acpi_read_tables(const struct boot_info *info, boot_memory memory, struct acpi_tables *tables);

struct acpi_console {
	uint8_t space;	       /* enum acpi_space */
	uint64_t address;      /* port or physical address of the first register; 0: none */
	uint8_t register_size; /* bytes from one register to the next: 1, 2 or 4 */
	uint32_t baud;	       /* 0: not said */
};

/*
 * The `index`th serial port, from 0, that an SPCR or DBG2 `table` names. False after the last one
 * and for any other table. A port that cannot be driven leaves address 0, and a sentence in `fault`
 * if it is not one that firmware has switched off.
 */
bool acpi_console(const struct acpi_header *table, unsigned index, struct acpi_console *console,
		  const char **fault);
