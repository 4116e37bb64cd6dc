// SPDX-License-Identifier: MIT
/* sources: monitor/boot/information.c lib/boot_info.c */
/* sources: monitor/boot/information.c */
#include "abi/multiboot.h"
#include "lib/boot_info.h"
#include "monitor/boot/information.h"
#include "tests/host/host.h"

#include <string.h>

static _Alignas(8) uint8_t buffer[4096];
static size_t built;
static struct boot_info written, result;

static const void *memory(uint64_t physical, uint64_t bytes)
{
	return physical + bytes <= built ? buffer + physical : NULL;
}

static int fill(void **state)
{
	memset(&written, 0, sizeof(written));
	strcpy(written.command_line, "test=bts_* end=exit");
	strcpy(written.loader_name, "qemu");
	written.region_count = 2;
	written.regions[0] = (struct boot_region){0, 0x9fc00, MEMORY_USABLE};
	written.regions[1] = (struct boot_region){0x100000000, 0x40000000, MEMORY_RESERVED};
	written.module_count = 1;
	written.modules[0].start = 0x200000;
	written.modules[0].end = 0x212345;
	strcpy(written.modules[0].string, "data");
	return 0;
}

/* As both formats give it back. */
static void expect_written(void)
{
	assert_string_equal(result.command_line, "test=bts_* end=exit");
	assert_string_equal(result.loader_name, "qemu");
	assert_int_equal(result.region_count, 2);
	assert_memory_equal(result.regions, written.regions, 2 * sizeof(written.regions[0]));
	assert_int_equal(result.module_count, 1);
	assert_int_equal(result.modules[0].start, 0x200000);
	assert_int_equal(result.modules[0].end, 0x212345);
	assert_string_equal(result.modules[0].string, "data");
}

static void build_and_read(void)
{
	built = information_build(buffer, sizeof(buffer), &written);
	assert_true(built > 0);
	memset(&result, 0, sizeof(result));
	assert_null(boot_info_read(&result, MULTIBOOT2_LOADER_MAGIC, 0, memory));
}

static void reads_back_as_written(void **state)
{
	build_and_read();
	expect_written();
	assert_int_equal(result.rsdp_size, 0);
	assert_int_equal(result.info_end - result.info_start, built);
}

static void carries_the_framebuffer(void **state)
{
	const struct boot_framebuffer fb = {0xfd00000000, 7777,	  1280,	 800, 24, 1,
					    {16, 8},	  {8, 7}, {1, 6}};

	build_and_read();
	assert_int_equal(result.framebuffer.width, 0);
	written.framebuffer = fb;
	build_and_read();
	assert_int_equal(result.framebuffer.address, fb.address);
	assert_int_equal(result.framebuffer.pitch, fb.pitch);
	assert_int_equal(result.framebuffer.width, fb.width);
	assert_int_equal(result.framebuffer.height, fb.height);
	assert_int_equal(result.framebuffer.bits, fb.bits);
	assert_int_equal(result.framebuffer.type, fb.type);
	assert_memory_equal(&result.framebuffer.red, &fb.red, 6);
}

static void carries_either_rsdp(void **state)
{
	memset(written.rsdp, 0x5a, sizeof(written.rsdp));
	for (unsigned size = 20; size <= 36; size += 16) {
		written.rsdp_size = size;
		build_and_read();
		assert_int_equal(result.rsdp_size, size);
		assert_memory_equal(result.rsdp, written.rsdp, size);
	}
}

static void carries_the_efi_system_table(void **state)
{
	build_and_read();
	assert_int_equal(result.efi_system_table, 0);
	written.efi_system_table = 0x3f5ec018;
	build_and_read();
	assert_int_equal(result.efi_system_table, 0x3f5ec018);
}

/* Where a kernel puts its start-up code: Multiboot2 specification 2.0, 3.6.2. */
static void carries_the_memory_sizes(void **state)
{
	uint32_t at = 8, tag[4];

	written.regions[1] = (struct boot_region){0x100000, 0x700000, MEMORY_USABLE};
	build_and_read();
	for (memcpy(tag, buffer + at, 16); tag[0] != 4 && tag[0]; memcpy(tag, buffer + at, 16))
		at += (tag[1] + 7) & ~7u;
	assert_int_equal(tag[1], 16);
	assert_int_equal(tag[2], 0x9fc00 >> 10);
	assert_int_equal(tag[3], 0x700000 >> 10);
}

static void says_when_it_does_not_fit(void **state)
{
	size_t needed = information_build(buffer, sizeof(buffer), &written);

	assert_int_equal(information_build(buffer, needed, &written), needed);
	assert_int_equal(information_build(buffer, needed - 1, &written), 0);
	assert_int_equal(information_build(buffer, 0, &written), 0);
}

static void build_and_read_1(void)
{
	built = information_build_1(buffer, sizeof(buffer), 0, &written);
	assert_true(built > 0);
	memset(&result, 0, sizeof(result));
	assert_null(boot_info_read(&result, MULTIBOOT1_LOADER_MAGIC, 0, memory));
}

static void multiboot_1_reads_back_as_written(void **state)
{
	build_and_read_1();
	expect_written();
}

/* A kernel that asks for no memory map takes all that mem_upper says. */
static void multiboot_1_says_how_much_memory_has_no_gap(void **state)
{
	const struct multiboot1_info *info = (const void *)buffer;

	written.region_count = 4;
	written.regions[1] = (struct boot_region){0x100000, 0x700000, MEMORY_USABLE};
	written.regions[2] = (struct boot_region){0x800000, 0x100000, MEMORY_RESERVED};
	written.regions[3] = (struct boot_region){0x900000, 0x100000, MEMORY_USABLE};
	build_and_read_1();
	assert_int_equal(info->mem_lower, 0x9fc00 >> 10);
	assert_int_equal(info->mem_upper, 0x700000 >> 10);
	assert_int_equal(info->flags & MULTIBOOT1_HAS_MEMORY, MULTIBOOT1_HAS_MEMORY);
}

static void multiboot_1_says_when_it_does_not_fit(void **state)
{
	size_t needed = information_build_1(buffer, sizeof(buffer), 0, &written);

	assert_int_equal(information_build_1(buffer, needed, 0, &written), needed);
	assert_int_equal(information_build_1(buffer, needed - 1, 0, &written), 0);
}

static void a_kernel_has_the_information_of_its_header(void **state)
{
	const uint32_t one[] = {MULTIBOOT1_HEADER_MAGIC, 3, -(MULTIBOOT1_HEADER_MAGIC + 3)};
	const uint32_t two = MULTIBOOT2_HEADER_MAGIC;
	static uint32_t file[MULTIBOOT2_HEADER_WITHIN / 4];

	memset(file, 0, sizeof(file));
	assert_false(information_wanted_1(file, sizeof(file)));
	memcpy(&file[MULTIBOOT1_HEADER_WITHIN / 4 - 1], one, sizeof(one));
	assert_true(information_wanted_1(file, sizeof(file)));
	assert_false(information_wanted_1(file, MULTIBOOT1_HEADER_WITHIN));
	file[MULTIBOOT1_HEADER_WITHIN / 4]++; /* the checksum is wrong */
	assert_false(information_wanted_1(file, sizeof(file)));
	memcpy(&file[MULTIBOOT1_HEADER_WITHIN / 4], one, sizeof(one));
	assert_false(information_wanted_1(file, sizeof(file)));
	memcpy(&file[1], one, sizeof(one));
	assert_true(information_wanted_1(file, sizeof(file)));
	file[100] = two; /* and Multiboot 2 is preferred */
	assert_false(information_wanted_1(file, sizeof(file)));
}

#define MIB (1ull << 20)

static struct boot_info info;

static void add(uint64_t base, uint64_t end, uint32_t type)
{
	info.regions[info.region_count++] = (struct boot_region){base, end - base, type};
}

/* Like a PC with 128 MiB, and some above 4 GiB. */
static int pc(void **state)
{
	memset(&info, 0, sizeof(info));
	add(0, 0x9fc00, MEMORY_USABLE);
	add(0x9fc00, 0xa0000, MEMORY_RESERVED);
	add(0xf0000, MIB, MEMORY_RESERVED);
	add(MIB, 0x7fe0000, MEMORY_USABLE);
	add(0x7fe0000, 0x8000000, MEMORY_RESERVED);
	add(4 * GIB, 5 * GIB, MEMORY_USABLE);
	return 0;
}

static bool usable(uint64_t start, uint64_t end)
{
	return memory_usable(&info, (struct range){start, end});
}

static void knows_what_is_usable(void **state)
{
	assert_true(usable(MIB, 0x7fe0000));
	assert_true(usable(0, 0x9fc00));
	assert_false(usable(0, 0x9fc01));
	assert_false(usable(MIB - 1, MIB + 1));
	assert_false(usable(0x7fdffff, 0x7fe0001));
	assert_false(usable(0xb0000, 0xb1000));
	assert_false(usable(6 * GIB, 6 * GIB + 1));
	assert_int_equal(memory_top(&info), 5 * GIB);
}

static void neighbours_make_one_piece_and_overlaps_do_not_count(void **state)
{
	memset(&info, 0, sizeof(info));
	add(0, 2 * MIB, MEMORY_USABLE);
	add(MIB, MIB + 4096, MEMORY_RESERVED);
	add(2 * MIB, 3 * MIB, MEMORY_USABLE);
	assert_true(usable(MIB + 4096, 3 * MIB));
	assert_false(usable(0, 3 * MIB));
}

enum { LISTED = 300 };

static uint8_t sum_of(const uint8_t *bytes, size_t size)
{
	uint8_t sum = 0;

	for (size_t i = 0; i < size; i++)
		sum += bytes[i];
	return sum;
}

/* Every processor by an x2APIC entry, those below 16 by a local APIC entry before that as well. */
static uint32_t make_madt(uint8_t *madt)
{
	uint32_t used = 44;

	memset(madt, 0, 44);
	for (unsigned id = 0; id < LISTED; id++) {
		const uint8_t lapic[8] = {0, 8, 0, (uint8_t)id, 1};
		const uint8_t x2apic[16] = {9, 16, 0, 0, (uint8_t)id, (uint8_t)(id >> 8), 0, 0, 3};

		if (id < 16) {
			memcpy(madt + used, lapic, sizeof(lapic));
			used += sizeof(lapic);
		}
		memcpy(madt + used, x2apic, sizeof(x2apic));
		used += sizeof(x2apic);
	}
	madt[9] = (uint8_t)-sum_of(madt, used);
	return used;
}

static void hides_processors_that_cannot_start(void **state)
{
	static uint8_t madt[44 + LISTED * 24];
	uint32_t used = make_madt(madt), at = 44;
	unsigned listed = 0, flags_of[LISTED] = {0}, enabled = 0;

	/* The boot processor is the tenth: the first seven stay with it. */
	assert_int_equal(information_limit_processors(madt, used, 8, 9, &listed), 8);
	assert_int_equal(listed, LISTED);
	assert_int_equal(sum_of(madt, used), 0);
	for (; at < used; at += madt[at + 1])
		flags_of[madt[at] ? madt[at + 4] | madt[at + 5] << 8 : madt[at + 3]] |=
			madt[at + (madt[at] ? 8 : 4)];
	for (unsigned id = 0; id < LISTED; id++) {
		enabled += flags_of[id] & 1;
		assert_int_equal(flags_of[id], id < 7 || id == 9 ? 3 : 0);
	}
	assert_int_equal(enabled, 8);
	/* Again: all that are listed now stay; no entry is looked for beyond a length of 0. */
	assert_int_equal(information_limit_processors(madt, used, 8, 9, &listed), 8);
	assert_int_equal(listed, 8);
	madt[45] = 0;
	assert_int_equal(information_limit_processors(madt, used, 8, 9, &listed), 1);
	assert_int_equal(listed, 0);
}

static void hides_ids_that_only_x2apic_reaches(void **state)
{
	static uint8_t madt[44 + LISTED * 24];
	uint32_t used = make_madt(madt);
	unsigned listed = 0;

	assert_int_equal(information_limit_processors(madt, used, 1000, 0, &listed), 255);
	assert_int_equal(listed, LISTED);
}

static void finds_the_highest_and_the_lowest_place(void **state)
{
	struct memory_request request = {.size = MIB, .within = {MIB, 4 * GIB}, .from_top = true};
	uint64_t start;

	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, 0x7fe0000 - MIB);
	memory_avoid(&request, (struct range){0x7f00000, 0x7f01234});
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, 0x7f00000 - MIB);
	request.from_top = false;
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, MIB);
	memory_avoid(&request, (struct range){MIB, MIB + 5});
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, MIB + 4096);
}

static void finds_nothing_where_nothing_is(void **state)
{
	struct memory_request request = {.size = 1 * GIB, .within = {0, 4 * GIB}};
	uint64_t start;

	assert_false(memory_find(&info, &request, &start));
	request.within.end = UINT64_MAX;
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, 4 * GIB);
	request.size++;
	assert_false(memory_find(&info, &request, &start));
}

static void reserving_splits_a_region(void **state)
{
	struct range hidden = {0x7000000, 0x7100000};

	assert_true(memory_reserve(&info, hidden));
	assert_int_equal(info.region_count, 8);
	assert_true(usable(MIB, 0x7000000));
	assert_true(usable(0x7100000, 0x7fe0000));
	assert_false(usable(0x7000000, 0x7000001));
	assert_false(usable(0x70fffff, 0x7100000));
	for (unsigned i = 1; i < info.region_count; i++)
		assert_true(info.regions[i - 1].base <= info.regions[i].base);
	for (unsigned i = 0; i < info.region_count; i++)
		assert_true(info.regions[i].length > 0);
}

static void reserving_at_the_end_or_all_of_a_region(void **state)
{
	assert_true(memory_reserve(&info, (struct range){0x7e00000, 0x7fe0000}));
	assert_int_equal(info.region_count, 7);
	assert_true(usable(MIB, 0x7e00000));
	assert_false(usable(0x7e00000, 0x7e00001));
	assert_true(memory_reserve(&info, (struct range){4 * GIB, 5 * GIB}));
	assert_int_equal(info.region_count, 7);
	assert_int_equal(memory_top(&info), 0x7e00000);
}

static void reserving_needs_room_in_the_map(void **state)
{
	while (info.region_count < BOOT_MAX_REGIONS)
		add(10 * GIB, 10 * GIB + 1, MEMORY_RESERVED);
	assert_false(memory_reserve(&info, (struct range){0x7000000, 0x7100000}));
	assert_true(usable(MIB, 0x7fe0000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(reads_back_as_written, fill),
		cmocka_unit_test_setup(carries_the_framebuffer, fill),
		cmocka_unit_test_setup(carries_either_rsdp, fill),
		cmocka_unit_test_setup(carries_the_efi_system_table, fill),
		cmocka_unit_test_setup(carries_the_memory_sizes, fill),
		cmocka_unit_test_setup(says_when_it_does_not_fit, fill),
		cmocka_unit_test_setup(multiboot_1_reads_back_as_written, fill),
		cmocka_unit_test_setup(multiboot_1_says_how_much_memory_has_no_gap, fill),
		cmocka_unit_test_setup(multiboot_1_says_when_it_does_not_fit, fill),
		cmocka_unit_test_setup(a_kernel_has_the_information_of_its_header, fill),
		cmocka_unit_test_setup(knows_what_is_usable, pc),
		cmocka_unit_test(neighbours_make_one_piece_and_overlaps_do_not_count),
		cmocka_unit_test_setup(finds_the_highest_and_the_lowest_place, pc),
		cmocka_unit_test(hides_processors_that_cannot_start),
		cmocka_unit_test(hides_ids_that_only_x2apic_reaches),
		cmocka_unit_test_setup(finds_nothing_where_nothing_is, pc),
		cmocka_unit_test_setup(reserving_splits_a_region, pc),
		cmocka_unit_test_setup(reserving_at_the_end_or_all_of_a_region, pc),
		cmocka_unit_test_setup(reserving_needs_room_in_the_map, pc),
	};

	return cmocka_run_group_tests_name("monitor_boot", tests, NULL, NULL);
}
