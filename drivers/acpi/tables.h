/* SPDX-License-Identifier: MIT */
/* Between the files of this driver. */
#ifndef SPOOR_DRIVERS_ACPI_TABLES_H
#define SPOOR_DRIVERS_ACPI_TABLES_H

#include "drivers/acpi/acpi.h"

struct acpi_roots {
	uint64_t rsdt, xsdt; /* physical; 0: not there */
};

bool acpi_find_roots(const struct boot_info *boot, struct acpi_roots *roots);

bool acpi_sum_is_zero(const void *bytes, uint64_t size);

/* A valid table of any signature at `physical`, or NULL. */
const struct acpi_header *acpi_table_at(uint64_t physical);

/* Reads what acpi_power() will return. */
void acpi_read_power(void);

struct acpi_s5 {
	uint8_t type_a, type_b;
};
/* Looks for the package \_S5 in AML bytecode. */
bool acpi_s5_in(const struct acpi_header *table, struct acpi_s5 *s5);

#endif
