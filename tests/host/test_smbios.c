// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c drivers/smbios/smbios.c */
#include <stdlib.h>
#include <string.h>

#include "drivers/mmio.h"
#include "drivers/smbios/smbios.h"
#include "tests/framework/random.h"
#include "tests/host/host.h"

enum { BIOS = 0xf0000, BIOS_SIZE = 0x10000, ENTRY = 0x730, TABLE = 0x1000 };
enum { SYSTEM = 0x3f000018, EFI_TABLES = 0x3f001000, EFI_ENTRY = 0x3f002000, HIGH = 0x3f000000 };

static uint8_t bios[BIOS_SIZE], high[0x4000];
static void *copies[1 << 10];
static unsigned copy_count;
static struct boot_info boot;

/* A copy of exactly what was asked for, so that ASan sees any read beyond it. */
const void *physical_map(uint64_t physical, uint64_t bytes)
{
	const uint8_t *from = physical >= HIGH ? high : bios;
	uint64_t base = physical >= HIGH ? HIGH : BIOS;
	uint64_t size = physical >= HIGH ? sizeof(high) : sizeof(bios);
	void *copy;

	assert_true(bytes <= 1 << 20);
	if (!bytes || physical < base || bytes > size || physical - base > size - bytes)
		return NULL;
	copy = malloc(bytes);
	memcpy(copy, from + (physical - base), bytes);
	assert_true(copy_count < sizeof(copies) / sizeof(copies[0]));
	return copies[copy_count++] = copy;
}

static int clear(void **state)
{
	while (copy_count)
		free(copies[--copy_count]);
	memset(bios, 0, sizeof(bios));
	memset(high, 0, sizeof(high));
	memset(&boot, 0, sizeof(boot));
	return 0;
}

static void seal(uint8_t *bytes, unsigned size, unsigned where)
{
	uint8_t sum = 0;

	bytes[where] = 0;
	for (unsigned i = 0; i < size; i++)
		sum = (uint8_t)(sum + bytes[i]);
	bytes[where] = (uint8_t)-sum;
}

static void put(uint8_t *at, uint64_t value, unsigned size)
{
	memcpy(at, &value, size);
}

/* The texts are in another order than their numbers; structure 1 has one string without a use. */
static unsigned store_table(uint8_t *to)
{
	static const char table[] =
		"\x00\x09\x00\x00\x02\x01\x00\xe8\x03"
		"1.16.2\0SeaBIOS\0"
		"04/01/2014\0\0"
		"\x01\x1b\x00\x01\x01\x02\x04\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		"Maker\0 Board \"17\"\x07  \0S1\0v1\0\0"
		"\x02\x08\x00\x02\x01\x00\x00\x00"
		"Second\0\0"
		"\x02\x08\x00\x03\x01\x01\x00\x00"
		"Third\0\0"
		"\x7f\x04\x00\x04\0\0"
		"\0\0"; /* not of the table */

	memcpy(to, table, sizeof(table));
	return sizeof(table);
}

static void store_entry(uint8_t *to, uint64_t address, unsigned size)
{
	memcpy(to, "_SM_", 4);
	to[5] = 0x1f;
	put(to + 0x16, size, 2);
	put(to + 0x18, address, 4);
	seal(to, 0x1f, 4);
}

static void store_entry_3(uint8_t *to, uint64_t address, unsigned size)
{
	memcpy(to, "_SM3_", 5);
	to[6] = 0x18;
	put(to + 0x0c, size, 4);
	put(to + 0x10, address, 8);
	seal(to, 0x18, 5);
}

static void expect_all(void)
{
	smbios_init(&boot);
	assert_string_equal(smbios_text(SMBIOS_BIOS_VENDOR), "SeaBIOS");
	assert_string_equal(smbios_text(SMBIOS_BIOS_VERSION), "1.16.2");
	assert_string_equal(smbios_text(SMBIOS_BIOS_DATE), "04/01/2014");
	assert_string_equal(smbios_text(SMBIOS_SYS_VENDOR), "Maker");
	assert_string_equal(smbios_text(SMBIOS_PRODUCT_NAME), "Board ?17??");
	assert_string_equal(smbios_text(SMBIOS_PRODUCT_SERIAL), "S1");
	assert_string_equal(smbios_text(SMBIOS_BOARD_VENDOR), "Second");
	assert_string_equal(smbios_text(SMBIOS_BOARD_NAME), "");
}

static void expect_none(void)
{
	smbios_init(&boot);
	for (unsigned i = 0; i < SMBIOS_TEXTS; i++)
		assert_string_equal(smbios_text(i), "");
}

UNIT(reads_either_entry_point, .setup_func = clear, .teardown_func = clear)
{
	unsigned size = store_table(bios + TABLE);

	store_entry(bios + ENTRY, BIOS + TABLE, size);
	expect_all();
	memset(bios + ENTRY, 0, 0x20);
	store_entry_3(bios + ENTRY, BIOS + TABLE, size);
	expect_all();
}

static void store_efi(const char *guid, void (*entry)(uint8_t *, uint64_t, unsigned))
{
	memcpy(high + (SYSTEM - HIGH), "IBI SYST", 8);
	put(high + (SYSTEM - HIGH) + 104, 2, 8);
	put(high + (SYSTEM - HIGH) + 112, EFI_TABLES, 8);
	memcpy(high + (EFI_TABLES - HIGH) + 24, guid, 16);
	put(high + (EFI_TABLES - HIGH) + 40, EFI_ENTRY, 8);
	entry(high + (EFI_ENTRY - HIGH), HIGH + 0x3000, store_table(high + 0x3000));
	boot.efi_system_table = SYSTEM;
}

UNIT(finds_them_by_efi, .setup_func = clear, .teardown_func = clear)
{
	store_efi("\x44\x15\xfd\xf2\x94\x97\x2c\x4a\x99\x2e\xe5\xbb\xcf\x20\xe3\x94",
		  store_entry_3);
	expect_all();
	clear(state);
	store_efi("\x31\x2d\x9d\xeb\x88\x2d\xd3\x11\x9a\x16\x00\x90\x27\x3f\xc1\x4d", store_entry);
	expect_all();
	put(high + (SYSTEM - HIGH) + 104, 1ull << 60, 8);
	expect_none();
	put(high + (SYSTEM - HIGH) + 104, 2, 8);
	high[SYSTEM - HIGH] = 'X';
	expect_none();
	boot.efi_system_table = 0x1234;
	expect_none();
}

UNIT(broken_tables_are_passed_over, .setup_func = clear, .teardown_func = clear)
{
	unsigned size = store_table(bios + TABLE);

	expect_none();
	for (unsigned i = 0; i < 0x1f; i++) {
		store_entry(bios + ENTRY, BIOS + TABLE, size);
		bios[ENTRY + i] ^= 0x20;
		expect_none();
	}
	store_entry(bios + ENTRY, 0x12345678, size);
	expect_none();
	memset(bios + ENTRY, 0, 0x20);
	store_entry_3(bios + ENTRY, BIOS + TABLE, (1u << 20) + 1);
	expect_none();
	memset(bios + ENTRY, 0, 0x20);
	store_entry(bios + ENTRY, BIOS + TABLE, size); /* half of it, at the end of memory */
	memmove(bios + BIOS_SIZE - 16, bios + ENTRY, 16);
	memset(bios + ENTRY, 0, 0x20);
	expect_none();
	store_entry(bios + BIOS_SIZE - 32, BIOS + TABLE, size);
	bios[BIOS_SIZE - 32 + 5] = 0xff;
	expect_none();
}

UNIT(nothing_is_after_the_end, .setup_func = clear, .teardown_func = clear)
{
	static const char table[] = "\x7f\x04\x00\x04\0\0"
				    "\x02\x08\x00\x05\x01\x01\x00\x00"
				    "After the end\0";

	memcpy(bios + TABLE, table, sizeof(table));
	store_entry(bios + ENTRY, BIOS + TABLE, sizeof(table));
	expect_none();
}

/* Whatever the bytes, nothing beyond the table is read, and a text stays printable and whole. */
UNIT(damage_is_survived, .setup_func = clear, .teardown_func = clear)
{
	unsigned size = store_table(bios + TABLE);
	uint64_t random = 1;

	for (unsigned cut = 0; cut <= size; cut++) {
		store_entry(bios + ENTRY, BIOS + TABLE, cut);
		smbios_init(&boot);
		clear(NULL);
		store_table(bios + TABLE);
	}
	for (unsigned turn = 0; turn < 20000; turn++) {
		store_table(bios + TABLE);
		store_entry(bios + ENTRY, BIOS + TABLE, size);
		for (unsigned i = 0; i <= turn % 4; i++)
			bios[TABLE + random_below(&random, size)] = (uint8_t)random_next(&random);
		smbios_init(&boot);
		for (unsigned i = 0; i < SMBIOS_TEXTS; i++) {
			const char *text = smbios_text(i);

			assert_true(strlen(text) < 64 && text[0] != ' ');
			for (; *text; text++)
				assert_true(*text >= ' ' && *text <= '~' && *text != '"');
		}
		clear(NULL);
	}
}
