// SPDX-License-Identifier: MIT
#include "drivers/acpi/tables.h"
#include "drivers/mmio.h"
#include "lib/string.h"

/* Fixed ACPI Description Table, ACPI 6.5 section 5.2.9. */

struct fadt {
	struct acpi_header header;
	uint32_t firmware_control;
	uint32_t dsdt;
	uint8_t reserved_44;
	uint8_t preferred_profile;
	uint16_t sci_interrupt;
	uint32_t smi_command;
	uint8_t acpi_enable, acpi_disable;
	uint8_t s4bios_request;
	uint8_t pstate_control;
	uint32_t pm1a_event, pm1b_event;
	uint32_t pm1a_control, pm1b_control;
	uint32_t pm2_control;
	uint32_t pm_timer;
	uint8_t unused_80[32];
	uint32_t flags;
	struct acpi_address reset_register;
	uint8_t reset_value;
	uint8_t unused_129[3];
	uint64_t x_firmware_control;
	uint64_t x_dsdt;
	struct acpi_address x_pm1a_event, x_pm1b_event;
	struct acpi_address x_pm1a_control, x_pm1b_control;
	struct acpi_address x_pm2_control;
	struct acpi_address x_pm_timer;
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

static struct acpi_power found;
static bool present;

/* A register's port: the extended field counts where it is filled in. */
static uint16_t port(uint32_t address, const struct acpi_address *extended)
{
	if (extended && extended->address && extended->space == ACPI_IO_PORT)
		return extended->address <= 0xffff ? (uint16_t)extended->address : 0;
	return address <= 0xffff ? (uint16_t)address : 0;
}

/* \_S5 is in the DSDT, or, where firmware chose so, in one of the SSDTs. */
static bool find_s5(const struct fadt *fadt, struct acpi_s5 *s5)
{
	const struct acpi_header *dsdt = acpi_table_at(physical_map, fadt->x_dsdt);
	if (!dsdt)
		dsdt = acpi_table_at(physical_map, fadt->dsdt);
	if (dsdt && acpi_s5_in(dsdt, s5))
		return true;
	const struct acpi_header *ssdt;
	for (unsigned i = 0; (ssdt = acpi_find_nth("SSDT", i)); i++) {
		if (acpi_s5_in(ssdt, s5))
			return true;
	}
	return false;
}

void acpi_read_power(void)
{
	/* Older tables end earlier: what they do not have stays 0. */
	struct fadt fadt = {0};
	const struct acpi_header *table = acpi_find("FACP");
	present = table != NULL;
	if (!table)
		return;
	memcpy(&fadt, table, table->length < sizeof(fadt) ? table->length : sizeof(fadt));

	struct acpi_s5 s5 = {0};
	const bool has_s5 = find_s5(&fadt, &s5);
	found = (struct acpi_power){
		.smi_command_port = port(fadt.smi_command, NULL),
		.acpi_enable = fadt.acpi_enable,
		.pm1a_control_port = port(fadt.pm1a_control, &fadt.x_pm1a_control),
		.pm1b_control_port = port(fadt.pm1b_control, &fadt.x_pm1b_control),
		.pm_timer_port = port(fadt.pm_timer, &fadt.x_pm_timer),
		.pm_timer_32_bit = fadt.flags & TMR_VAL_EXT,
		.has_reset = (fadt.flags & RESET_REG_SUP) && fadt.reset_register.address,
		.reset_register = fadt.reset_register,
		.reset_value = fadt.reset_value,
		.has_s5 = has_s5,
		.s5_type_a = s5.type_a,
		.s5_type_b = s5.type_b,
	};
}

const struct acpi_power *acpi_power(void)
{
	return present ? &found : NULL;
}

/*
 * The sleep types of \_S5 without an AML interpreter: firmware writes them as a constant package,
 * `Name (_S5, Package () {SLP_TYPa, SLP_TYPb, ...})`, whose bytes can be found as they are
 * (ACPI 6.5 sections 7.4.2 and 20.2).
 */

enum {
	AML_ZERO = 0x00,
	AML_ONE = 0x01,
	AML_NAME = 0x08,
	AML_BYTE = 0x0a,
	AML_WORD = 0x0b,
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

static bool take_byte_of(struct aml *aml, unsigned size, uint8_t *low)
{
	if ((size_t)(aml->end - aml->at) < size)
		return false;
	*low = aml->at[0];
	aml->at += size;
	return true;
}

/* An integer constant; SLP_TYP has three bits, so the lowest byte is enough. */
static bool take_integer(struct aml *aml, uint8_t *value)
{
	uint8_t prefix;
	if (!take(aml, &prefix))
		return false;
	switch (prefix) {
	case AML_ZERO:
	case AML_ONE:
		*value = prefix;
		return true;
	case AML_BYTE:
		return take_byte_of(aml, 1, value);
	case AML_WORD:
		return take_byte_of(aml, 2, value);
	case AML_DWORD:
		return take_byte_of(aml, 4, value);
	default:
		return false;
	}
}

static bool take_package(struct aml aml, struct acpi_s5 *s5)
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
	*s5 = (struct acpi_s5){a, b};
	return true;
}

bool acpi_s5_in(const struct acpi_header *table, struct acpi_s5 *s5)
{
	const uint8_t *start = (const uint8_t *)(table + 1);
	const uint8_t *end = (const uint8_t *)table + table->length;
	for (const uint8_t *name = start; end - name >= 4; name++) {
		if (name[0] != '_' || memcmp(name, "_S5_", 4) != 0)
			continue;
		const bool named = (name - start >= 1 && name[-1] == AML_NAME) ||
				   (name - start >= 2 && name[-1] == '\\' && name[-2] == AML_NAME);
		if (named && take_package((struct aml){name + 4, end}, s5))
			return true;
	}
	return false;
}
