/* SPDX-License-Identifier: MIT */
/*
 * Firmware's ACPI tables (ACPI 6.5 chapter 5). Everything in them is checked: addresses, lengths,
 * checksums, entry sizes; what fails is passed over as if it were not there. No allocation and no
 * AML interpreter. acpi_init() belongs to the boot of the first CPU; all others only read, in any
 * context.
 */
#pragma once

#include "lib/acpi.h"

/*
 * Maps every table of the machine (lib/acpi.h), from the first RSDP that is valid: the loader's,
 * or the one in BIOS memory, which is copied to `boot`. False: no ACPI here; every other function
 * then finds nothing.
 */
bool acpi_init(struct boot_info *boot);

/* The valid table with this signature, header->length bytes of it; NULL if there is none. */
const struct acpi_header *acpi_find(const char signature[4]);
/* The `index`th of them, from 0: there may be several SSDTs. */
const struct acpi_header *acpi_find_nth(const char signature[4], unsigned index);

/* MADT. Each *cursor starts at 0; false after the last entry. */

struct acpi_cpu {
	uint32_t apic_id;
	bool enabled; /* ready to be started */
};
/* A CPU listed twice, as local APIC and as local x2APIC, is returned once. */
bool acpi_next_cpu(unsigned *cursor, struct acpi_cpu *cpu);
/* How many of them are enabled; 1 without a MADT. */
unsigned acpi_cpu_count(void);
/* The highest APIC id of an enabled one; 0 without a MADT. */
uint32_t acpi_highest_apic_id(void);

struct acpi_ioapic {
	uint32_t address, first_gsi;
};
bool acpi_next_ioapic(unsigned *cursor, struct acpi_ioapic *ioapic);

/* True if the PC has 8259 interrupt controllers, or if the MADT is missing. */
bool acpi_has_8259(void);

/* HPET: where its registers are. False if there is no HPET in memory space. */
bool acpi_hpet_address(uint64_t *physical);

/* FADT: what this kernel uses of it. A port of 0 means that the register does not exist. */
struct acpi_power {
	uint16_t smi_command_port;
	uint8_t acpi_enable; /* written to smi_command_port takes the machine to ACPI mode; 0: it is
			      */
	uint16_t pm1a_control_port, pm1b_control_port;
	uint16_t pm_timer_port;
	bool pm_timer_32_bit; /* else it counts 24 bits */
	bool has_reset;
	struct acpi_address reset_register;
	uint8_t reset_value;
	bool has_s5; /* soft off: values for SLP_TYPa and SLP_TYPb */
	uint8_t s5_type_a, s5_type_b;
};
/* As acpi_init() found it; without a FADT no register exists. */
const struct acpi_power *acpi_power(void);
