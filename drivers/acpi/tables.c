// SPDX-License-Identifier: MIT
/* The tables of this machine, each mapped once, and those that say where a device is. */
#include "drivers/acpi/acpi.h"
#include "drivers/mmio.h"
#include "lib/string.h"

static struct acpi_tables tables;

const struct acpi_header *acpi_find_nth(const char signature[4], unsigned index)
{
	for (unsigned i = 0; i < tables.count; i++) {
		if (memcmp(tables.table[i]->signature, signature, 4) == 0 && index-- == 0)
			return tables.table[i];
	}
	return NULL;
}

const struct acpi_header *acpi_find(const char signature[4])
{
	return acpi_find_nth(signature, 0);
}

/* IA-PC HPET 1.0a section 3.2.4. */
struct hpet_table {
	struct acpi_header header;
	uint32_t event_timer_block_id;
	struct acpi_address base;
	uint8_t number;
	uint16_t minimum_tick;
	uint8_t page_protection;
} __attribute__((packed));
_Static_assert(sizeof(struct hpet_table) == 56, "IA-PC HPET 1.0a table 3");

bool acpi_hpet_address(uint64_t *physical)
{
	struct hpet_table hpet;
	const struct acpi_header *table = acpi_find("HPET");
	if (!table || table->length < sizeof(hpet))
		return false;
	memcpy(&hpet, table, sizeof(hpet));
	if (hpet.base.space != ACPI_MEMORY || !hpet.base.address)
		return false;
	*physical = hpet.base.address;
	return true;
}

/* Fixed ACPI Description Table, ACPI 6.5 section 5.2.9. */
struct fadt {
	struct acpi_header header;
	uint32_t firmware_control, dsdt;
	uint8_t unused_44[4];
	uint32_t smi_command;
	uint8_t acpi_enable;
	uint8_t unused_53[11];
	uint32_t pm1a_control, pm1b_control;
	uint32_t pm2_control, pm_timer;
	uint8_t unused_80[32];
	uint32_t flags;
	struct acpi_address reset_register;
	uint8_t reset_value;
	uint8_t unused_129[3];
	uint64_t x_firmware_control, x_dsdt;
	struct acpi_address x_pm1a_event, x_pm1b_event, x_pm1a_control, x_pm1b_control;
	struct acpi_address x_pm2_control, x_pm_timer;
} __attribute__((packed));
_Static_assert(offsetof(struct fadt, smi_command) == 48, "ACPI 6.5 table 5.9");
_Static_assert(offsetof(struct fadt, pm_timer) == 76, "ACPI 6.5 table 5.9");
_Static_assert(offsetof(struct fadt, flags) == 112, "ACPI 6.5 table 5.9");
_Static_assert(offsetof(struct fadt, reset_register) == 116, "ACPI 6.5 table 5.9");
_Static_assert(offsetof(struct fadt, x_dsdt) == 140, "ACPI 6.5 table 5.9");
_Static_assert(offsetof(struct fadt, x_pm_timer) == 208, "ACPI 6.5 table 5.9");

/* Fixed feature flags, table 5.10. */
#define TMR_VAL_EXT   (1u << 8)
#define RESET_REG_SUP (1u << 10)

/*
 * The sleep types of \_S5 without an AML interpreter: firmware writes them as a constant package,
 * `Name (_S5, Package () {SLP_TYPa, SLP_TYPb, ...})`, whose bytes can be found as they are
 * (ACPI 6.5 sections 7.4.2 and 20.2).
 */

enum {
	AML_ZERO = 0x00,
	AML_ONE = 0x01,
	AML_NAME = 0x08,
	AML_BYTE = 0x0a, /* WORD is between: 1 << (prefix - AML_BYTE) bytes follow */
	AML_DWORD = 0x0c,
	AML_PACKAGE = 0x12,
};

struct aml {
	const uint8_t *at, *end;
};

static bool take(struct aml *aml, uint8_t *byte)
{
	if (aml->at >= aml->end)
		return false;
	*byte = *aml->at++;
	return true;
}

/* An integer constant; SLP_TYP has three bits, so the lowest byte is enough. */
static bool take_integer(struct aml *aml, uint8_t *value)
{
	uint8_t prefix;
	size_t size;

	if (!take(aml, &prefix))
		return false;
	*value = prefix;
	if (prefix == AML_ZERO || prefix == AML_ONE)
		return true;
	if (prefix < AML_BYTE || prefix > AML_DWORD)
		return false;
	size = 1u << (prefix - AML_BYTE);
	if ((size_t)(aml->end - aml->at) < size)
		return false;
	*value = aml->at[0];
	aml->at += size;
	return true;
}

static bool take_package(struct aml aml, struct acpi_power *power)
{
	uint8_t op, lead, ignored, elements, a, b;
	if (!take(&aml, &op) || op != AML_PACKAGE || !take(&aml, &lead))
		return false;
	/* PkgLength: bits 7:6 of its first byte count the bytes that follow. */
	for (unsigned more = lead >> 6; more; more--) {
		if (!take(&aml, &ignored))
			return false;
	}
	if (!take(&aml, &elements) || elements < 1 || !take_integer(&aml, &a))
		return false;
	/* Some firmware packs both types into one element, or gives only the first. */
	if (elements < 2 || !take_integer(&aml, &b))
		b = a;
	if (a > 7 || b > 7)
		return false;
	power->s5_type_a = a;
	power->s5_type_b = b;
	return true;
}

static bool s5_in(const struct acpi_header *table, struct acpi_power *power)
{
	const uint8_t *start = (const uint8_t *)(table + 1);
	const uint8_t *end = (const uint8_t *)table + table->length;
	for (const uint8_t *name = start; end - name >= 4; name++) {
		if (name[0] != '_' || memcmp(name, "_S5_", 4) != 0)
			continue;
		const bool named = (name - start >= 1 && name[-1] == AML_NAME) ||
				   (name - start >= 2 && name[-1] == '\\' && name[-2] == AML_NAME);
		if (named && take_package((struct aml){name + 4, end}, power))
			return true;
	}
	return false;
}

static struct acpi_power power;

/* A register's port: the extended field counts where it is filled in. */
static uint16_t port(uint32_t address, const struct acpi_address *extended)
{
	if (extended && extended->address && extended->space == ACPI_IO_PORT)
		return extended->address <= 0xffff ? (uint16_t)extended->address : 0;
	return address <= 0xffff ? (uint16_t)address : 0;
}

/* \_S5 is in the DSDT, or, where firmware chose so, in one of the SSDTs. */
static bool find_s5(const struct fadt *fadt)
{
	const struct acpi_header *dsdt = acpi_table_at(physical_map, fadt->x_dsdt);
	if (!dsdt)
		dsdt = acpi_table_at(physical_map, fadt->dsdt);
	if (dsdt && s5_in(dsdt, &power))
		return true;
	const struct acpi_header *ssdt;
	for (unsigned i = 0; (ssdt = acpi_find_nth("SSDT", i)); i++) {
		if (s5_in(ssdt, &power))
			return true;
	}
	return false;
}

static void read_power(void)
{
	/* Older tables end earlier: what they do not have, and all without one, stays 0. */
	struct fadt fadt = {0};
	const struct acpi_header *table = acpi_find("FACP");
	if (table)
		memcpy(&fadt, table, table->length < sizeof(fadt) ? table->length : sizeof(fadt));

	power = (struct acpi_power){
		.smi_command_port = port(fadt.smi_command, NULL),
		.acpi_enable = fadt.acpi_enable,
		.pm1a_control_port = port(fadt.pm1a_control, &fadt.x_pm1a_control),
		.pm1b_control_port = port(fadt.pm1b_control, &fadt.x_pm1b_control),
		.pm_timer_port = port(fadt.pm_timer, &fadt.x_pm_timer),
		.pm_timer_32_bit = fadt.flags & TMR_VAL_EXT,
		.has_reset = (fadt.flags & RESET_REG_SUP) && fadt.reset_register.address,
		.reset_register = fadt.reset_register,
		.reset_value = fadt.reset_value,
	};
	power.has_s5 = find_s5(&fadt);
}

const struct acpi_power *acpi_power(void)
{
	return &power;
}

bool acpi_init(struct boot_info *boot)
{
	bool found = acpi_find_rsdp(boot, physical_map);

	found = acpi_read_tables(boot, physical_map, &tables) && found;
	read_power();
	return found;
}
