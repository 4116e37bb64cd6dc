/* SPDX-License-Identifier: MIT */
/* Between the files of this driver. */
#ifndef SPOOR_DRIVERS_ACPI_TABLES_H
#define SPOOR_DRIVERS_ACPI_TABLES_H

#include "drivers/acpi/acpi.h"

/* Reads what acpi_power() will return. */
void acpi_read_power(void);

struct acpi_s5 {
	uint8_t type_a, type_b;
};
/* Looks for the package \_S5 in AML bytecode. */
bool acpi_s5_in(const struct acpi_header *table, struct acpi_s5 *s5);

#endif
