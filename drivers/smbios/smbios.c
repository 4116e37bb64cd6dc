// SPDX-License-Identifier: MIT
#include "drivers/smbios/smbios.h"

#include "drivers/mmio.h"
#include "lib/string.h"

#include <stdbool.h>
#include <stddef.h>

#define BIOS_START  0xf0000 /* DSP0134 5.2.1: on a multiple of 16 here */
#define BIOS_SIZE   0x10000
#define TABLE_LIMIT (1u << 20) /* a table that says it is larger is not believed */

/* UEFI 2.10 section 4.3. */
struct efi_system_table {
	char signature[8]; /* "IBI SYST" */
	uint8_t unused[96];
	uint64_t table_count;
	uint64_t tables;
};
_Static_assert(offsetof(struct efi_system_table, tables) == 112, "UEFI 2.10 section 4.3");

struct efi_table {
	uint8_t guid[16];
	uint64_t address;
};
_Static_assert(sizeof(struct efi_table) == 24, "UEFI 2.10 section 4.6");

#define EFI_TABLES_LIMIT  1000
#define ENTRY_POINT_BYTES 0x20 /* of either form, and some more */
#define END_OF_TABLE	  127  /* DSP0134 7.45 */

static const uint8_t smbios3_guid[16] = {0x44, 0x15, 0xfd, 0xf2, 0x94, 0x97, 0x2c, 0x4a,
					 0x99, 0x2e, 0xe5, 0xbb, 0xcf, 0x20, 0xe3, 0x94};
static const uint8_t smbios_guid[16] = {0x31, 0x2d, 0x9d, 0xeb, 0x88, 0x2d, 0xd3, 0x11,
					0x9a, 0x16, 0x00, 0x90, 0x27, 0x3f, 0xc1, 0x4d};

/* The two entry points, DSP0134 5.2: where the length, the table's size and its address are. */
static const struct entry_point {
	const char *anchor;
	uint8_t anchor_bytes, length_at, least_length;
	uint8_t size_at, size_bytes, address_at, address_bytes;
} entry_points[] = {
	{"_SM3_", 5, 6, 0x18, 0x0c, 4, 0x10, 8},
	{"_SM_", 4, 5, 0x1e, 0x16, 2, 0x18, 4},
};

/* Where each text is: type of the structure (DSP0134 7.1 to 7.3), offset of the string's number. */
static const struct {
	uint8_t type, offset;
} places[SMBIOS_TEXTS] = {{0, 4}, {0, 5}, {0, 8}, {1, 4}, {1, 5}, {1, 7}, {2, 4}, {2, 5}};

static char texts[SMBIOS_TEXTS][64];

static uint64_t value_at(const uint8_t *bytes, unsigned size)
{
	uint64_t value = 0;

	memcpy(&value, bytes, size);
	return value;
}

/* The `number`th of the strings in [at, end), from 1, cleaned. */
static void copy_string(char *to, const char *at, const char *end, unsigned number)
{
	size_t length = 0;

	for (; number > 1 && at < end; at++)
		number -= !*at;
	while (at < end && *at == ' ')
		at++;
	for (; number && at < end && *at && length < sizeof(texts[0]) - 1; at++)
		to[length++] = *at >= ' ' && *at <= '~' && *at != '"' ? *at : '?';
	while (length && to[length - 1] == ' ')
		length--;
	to[length] = '\0';
}

static void read_structure(const uint8_t *structure, const char *strings, const char *end)
{
	for (unsigned i = 0; i < SMBIOS_TEXTS; i++)
		if (places[i].type == structure[0] && places[i].offset < structure[1])
			copy_string(texts[i], strings, end, structure[places[i].offset]);
}

/* Structures of a formatted part and strings, which two NULs end (DSP0134 6.1). */
static void read_table(const uint8_t *table, size_t size)
{
	uint8_t seen = 0;
	size_t at = 0;

	while (size - at >= 6 && table[at] != END_OF_TABLE && table[at + 1] >= 4 &&
	       table[at + 1] < size - at) {
		size_t strings = at + table[at + 1], end = strings;

		while (end + 1 < size && (table[end] || table[end + 1]))
			end++;
		/* The first one of a type counts: the next board is an adapter. */
		if (table[at] < 8 && !(seen & 1u << table[at])) {
			seen |= (uint8_t)(1u << table[at]);
			read_structure(table + at, (const char *)table + strings,
				       (const char *)table + end);
		}
		at = end + 2 < size ? end + 2 : size;
	}
}

static bool sums_to_zero(const uint8_t *bytes, unsigned count)
{
	uint8_t sum = 0;

	while (count--)
		sum = (uint8_t)(sum + *bytes++);
	return !sum;
}

/* True if an entry point with a table that can be read is at `at`, `available` bytes of it. */
static bool read_entry_point(const uint8_t *at, size_t available)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct entry_point *form = &entry_points[i];
		const uint8_t *table;
		uint64_t size;

		if (available < form->least_length ||
		    memcmp(at, form->anchor, form->anchor_bytes) != 0 ||
		    at[form->length_at] < form->least_length || at[form->length_at] > available ||
		    !sums_to_zero(at, at[form->length_at]))
			continue;
		size = value_at(at + form->size_at, form->size_bytes);
		if (size > TABLE_LIMIT)
			continue;
		table = physical_map(value_at(at + form->address_at, form->address_bytes), size);
		if (table)
			read_table(table, size);
		return table;
	}
	return false;
}

static bool read_efi_table(const struct efi_table *tables, uint64_t count, const uint8_t *guid)
{
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *entry;

		if (memcmp(tables[i].guid, guid, 16) != 0)
			continue;
		entry = physical_map(tables[i].address, ENTRY_POINT_BYTES);
		if (entry && read_entry_point(entry, ENTRY_POINT_BYTES))
			return true;
	}
	return false;
}

static bool read_by_efi(uint64_t address)
{
	const struct efi_system_table *system =
		address ? physical_map(address, sizeof(*system)) : NULL;
	const struct efi_table *tables;

	if (!system || memcmp(system->signature, "IBI SYST", 8) != 0 ||
	    system->table_count > EFI_TABLES_LIMIT)
		return false;
	tables = physical_map(system->tables, system->table_count * sizeof(*tables));
	return tables && (read_efi_table(tables, system->table_count, smbios3_guid) ||
			  read_efi_table(tables, system->table_count, smbios_guid));
}

void smbios_init(const struct boot_info *boot)
{
	const uint8_t *bios;

	memset(texts, 0, sizeof(texts));
	if (read_by_efi(boot->efi_system_table))
		return;
	bios = physical_map(BIOS_START, BIOS_SIZE);
	for (size_t at = 0; bios && at < BIOS_SIZE; at += 16)
		if (bios[at] == '_' && read_entry_point(bios + at, BIOS_SIZE - at))
			return;
}

const char *smbios_text(enum smbios_text text)
{
	return texts[text];
}
