/* SPDX-License-Identifier: MIT */
/*
 * The sleep types of \_S5 without an AML interpreter: firmware writes them as a constant package,
 * `Name (_S5, Package () {SLP_TYPa, SLP_TYPb, ...})`, whose bytes can be found as they are
 * (ACPI 6.5 sections 7.4.2 and 20.2).
 */
#include "drivers/acpi/tables.h"
#include "lib/string.h"

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
