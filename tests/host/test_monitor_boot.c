// SPDX-License-Identifier: MIT
/* sources: monitor/boot/information.c monitor/boot/linux.c lib/boot_info.c lib/format.c */
#include <string.h>

#include "abi/multiboot.h"
#include "lib/boot_info.h"
#include "monitor/boot/information.h"
#include "monitor/boot/linux.h"
#include "tests/host/host.h"

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

UNIT(reads_back_as_written, .setup_func = fill)
{
	build_and_read();
	expect_written();
	assert_int_equal(result.rsdp_size, 0);
	assert_int_equal(result.info_end - result.info_start, built);
}

UNIT(carries_the_framebuffer, .setup_func = fill)
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

UNIT(carries_either_rsdp, .setup_func = fill)
{
	memset(written.rsdp, 0x5a, sizeof(written.rsdp));
	for (unsigned size = 20; size <= 36; size += 16) {
		written.rsdp_size = size;
		build_and_read();
		assert_int_equal(result.rsdp_size, size);
		assert_memory_equal(result.rsdp, written.rsdp, size);
	}
}

UNIT(carries_the_efi_system_table, .setup_func = fill)
{
	build_and_read();
	assert_int_equal(result.efi_system_table, 0);
	written.efi_system_table = 0x3f5ec018;
	build_and_read();
	assert_int_equal(result.efi_system_table, 0x3f5ec018);
}

/* Where a kernel puts its start-up code: Multiboot2 specification 2.0, 3.6.2. */
UNIT(carries_the_memory_sizes, .setup_func = fill)
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

UNIT(says_when_it_does_not_fit, .setup_func = fill)
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

UNIT(multiboot_1_reads_back_as_written, .setup_func = fill)
{
	build_and_read_1();
	expect_written();
}

/* A kernel that asks for no memory map takes all that mem_upper says. */
UNIT(multiboot_1_says_how_much_memory_has_no_gap, .setup_func = fill)
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

UNIT(multiboot_1_says_when_it_does_not_fit, .setup_func = fill)
{
	size_t needed = information_build_1(buffer, sizeof(buffer), 0, &written);

	assert_int_equal(information_build_1(buffer, needed, 0, &written), needed);
	assert_int_equal(information_build_1(buffer, needed - 1, 0, &written), 0);
}

UNIT(a_kernel_has_the_information_of_its_header, .setup_func = fill)
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

UNIT(knows_what_is_usable, .setup_func = pc)
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

UNIT(neighbours_make_one_piece_and_overlaps_do_not_count)
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

UNIT(hides_processors_that_cannot_start)
{
	static uint8_t madt[44 + LISTED * 24];
	uint32_t used = make_madt(madt), at = 44;
	unsigned listed = 0, flags_of[LISTED] = {0}, enabled = 0;

	assert_int_equal(information_count_processors(madt, used), LISTED + 16);
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
	/* A disabled processor may be plugged in. */
	assert_int_equal(information_count_processors(madt, used), LISTED + 16);
	madt[45] = 0;
	assert_int_equal(information_count_processors(madt, used), 0);
	assert_int_equal(information_limit_processors(madt, used, 8, 9, &listed), 1);
	assert_int_equal(listed, 0);
}

UNIT(hides_ids_that_only_x2apic_reaches)
{
	static uint8_t madt[44 + LISTED * 24];
	uint32_t used = make_madt(madt);
	unsigned listed = 0;

	assert_int_equal(information_limit_processors(madt, used, 1000, 0, &listed), 255);
	assert_int_equal(listed, LISTED);
}

UNIT(finds_the_highest_and_the_lowest_place, .setup_func = pc)
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

UNIT(finds_nothing_where_nothing_is, .setup_func = pc)
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

UNIT(reserving_splits_a_region, .setup_func = pc)
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

UNIT(reserving_at_the_end_or_all_of_a_region, .setup_func = pc)
{
	assert_true(memory_reserve(&info, (struct range){0x7e00000, 0x7fe0000}));
	assert_int_equal(info.region_count, 7);
	assert_true(usable(MIB, 0x7e00000));
	assert_false(usable(0x7e00000, 0x7e00001));
	assert_true(memory_reserve(&info, (struct range){4 * GIB, 5 * GIB}));
	assert_int_equal(info.region_count, 7);
	assert_int_equal(memory_top(&info), 0x7e00000);
}

UNIT(reserving_needs_room_in_the_map, .setup_func = pc)
{
	while (info.region_count < BOOT_MAX_REGIONS)
		add(10 * GIB, 10 * GIB + 1, MEMORY_RESERVED);
	assert_false(memory_reserve(&info, (struct range){0x7000000, 0x7100000}));
	assert_true(usable(MIB, 0x7fe0000));
}

#define SETUP	    (2 * 512)
#define PAYLOAD	    (3 * 4096)
#define MEMORY	    (40 * MIB)
#define ORIGIN	    (16 * MIB)
#define ALIGNED	    (2 * MIB)
#define INITRD_LAST 0x7fffffffull

static uint8_t image[SETUP + PAYLOAD], page[LINUX_PARAMETERS_BYTES];
static struct linux_image kernel;
static struct linux_places places;
static char error[200];

static const struct range taken = {200 * MIB, 256 * MIB};
static const struct range initrd = {201 * MIB, 203 * MIB + 5};

static void put(void *to, unsigned at, uint64_t value, unsigned bytes)
{
	memcpy((uint8_t *)to + at, &value, bytes);
}

static uint64_t get(unsigned at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, page + at, bytes);
	return value;
}

static void region(uint64_t base, uint64_t end, uint32_t type)
{
	info.regions[info.region_count++] = (struct boot_region){base, end - base, type};
}

/* Offsets: boot.rst, "The Real-Mode Kernel Header". A PC with 256 MiB. */
static int fill_header(void **state)
{
	memset(image, 0x5a, sizeof(image));
	memset(image, 0, SETUP);
	put(image, 0x1f1, SETUP / 512 - 1, 1);
	put(image, 0x1f4, PAYLOAD / 16, 4);
	put(image, 0x1fe, 0xaa55, 2);
	put(image, 0x200, 0x66eb, 2);
	memcpy(image + 0x202, "HdrS", 4);
	put(image, 0x206, 0x20f, 2);
	put(image, 0x211, 1, 1);
	put(image, 0x22c, INITRD_LAST, 4);
	put(image, 0x230, ALIGNED, 4);
	put(image, 0x234, 1, 1);
	put(image, 0x238, 2047, 4);
	put(image, 0x258, ORIGIN, 8);
	put(image, 0x260, MEMORY, 4);
	memset(&info, 0, sizeof(info));
	region(0, 0x9fc00, MEMORY_USABLE);
	region(MIB, 256 * MIB, MEMORY_USABLE);
	memset(&kernel, 0, sizeof(kernel));
	memset(error, 0, sizeof(error));
	return 0;
}

static bool open_it(void)
{
	return linux_open(&kernel, image, sizeof(image), error, sizeof(error));
}

static bool place(struct range now)
{
	assert_true(open_it());
	return linux_place(&places, &kernel, &info, taken, now, error, sizeof(error));
}

UNIT(recognises_a_setup_header, .setup_func = fill_header)
{
	assert_true(linux_recognised(image, sizeof(image)));
	assert_false(linux_recognised(image, 0x207));
	image[0x205] = 's';
	assert_false(linux_recognised(image, sizeof(image)));
	fill_header(NULL);
	image[0x1ff] = 0;
	assert_false(linux_recognised(image, sizeof(image)));
}

UNIT(reads_the_header, .setup_func = fill_header)
{
	assert_true(open_it());
	assert_int_equal(kernel.setup_size, SETUP);
	assert_int_equal(kernel.payload_size, PAYLOAD);
	assert_int_equal(kernel.memory_size, MEMORY);
	assert_int_equal(kernel.preferred, ORIGIN);
	assert_int_equal(kernel.alignment, ALIGNED);
	assert_int_equal(kernel.initrd_end, INITRD_LAST + 1);
	assert_int_equal(kernel.words_most, 2047);
	assert_true(kernel.relocatable);
}

UNIT(refuses_an_old_protocol, .setup_func = fill_header)
{
	put(image, 0x206, 0x209, 2);
	assert_false(open_it());
	assert_string_equal(error,
			    "the Linux kernel has boot protocol 2.09; 2.10 (Linux 2.6.31) is "
			    "the oldest that can be booted");
	put(image, 0x206, 0x20a, 2);
	assert_true(open_it());
}

/* Memtest86+ 6.10: its file ends within the last paragraph. */
UNIT(takes_a_last_paragraph_in_part, .setup_func = fill_header)
{
	assert_true(linux_open(&kernel, image, sizeof(image) - 15, error, sizeof(error)));
	assert_int_equal(kernel.payload_size, PAYLOAD - 15);
}

UNIT(refuses_what_is_cut_off, .setup_func = fill_header)
{
	assert_false(linux_open(&kernel, image, sizeof(image) - 16, error, sizeof(error)));
	assert_string_equal(error, "the Linux kernel is cut off: it has 13296 bytes");
	assert_false(linux_open(&kernel, image, 0x267, error, sizeof(error)));
	put(image, 0x1f4, 0x10000000, 4); /* 4 GiB: more than 32 bits of bytes */
	assert_false(open_it());
	assert_string_equal(error, "the Linux kernel is cut off: it has 13312 bytes");
}

UNIT(refuses_a_damaged_header, .setup_func = fill_header)
{
	static const struct {
		unsigned at, bytes;
		uint64_t value;
	} damage[] = {
		{0x211, 1, 0},		 /* loaded low: a zImage */
		{0x1f4, 4, 0},		 /* nothing to run */
		{0x260, 4, PAYLOAD - 1}, /* less memory than it has bytes */
		{0x230, 4, 0},		 /* an alignment of nothing */
		{0x230, 4, 3 * 4096},	 /* and of no power of two */
	};

	for (unsigned i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		fill_header(NULL);
		put(image, damage[i].at, damage[i].value, damage[i].bytes);
		assert_false(open_it());
		assert_string_equal(
			error, "the Linux kernel is no bzImage, or its setup header is damaged");
	}
}

UNIT(goes_where_it_prefers_to_be, .setup_func = fill_header)
{
	assert_true(place(initrd));
	assert_int_equal(places.kernel.start, ORIGIN);
	assert_int_equal(places.kernel.end, ORIGIN + MEMORY);
	/* The initrd is reached where it is. */
	assert_int_equal(places.initrd.start, initrd.start);
	assert_int_equal(places.initrd.end, initrd.end);
}

UNIT(goes_elsewhere_if_it_is_relocatable, .setup_func = fill_header)
{
	info.regions[1].base += 16 * MIB;
	info.regions[1].length -= 16 * MIB;
	assert_true(place(initrd));
	assert_int_equal(places.kernel.start, 18 * MIB);
	info.regions[1].base = 180 * MIB; /* 20 MiB below `taken` */
	info.regions[1].length = 76 * MIB;
	assert_false(place(initrd));
	assert_string_equal(error, "the Linux kernel needs 40960 KiB of free memory in one piece "
				   "below 4 GiB; there is too little memory");
	fill_header(NULL);
	image[0x234] = 0;
	info.regions[1].base += 16 * MIB;
	assert_false(place(initrd));
	assert_string_equal(error, "the Linux kernel needs 40960 KiB of free memory in one piece "
				   "where it was linked; there is too little memory");
	fill_header(NULL);
	put(image, 0x260, 0xfffff000, 4); /* with its alignment above 32 bits */
	assert_false(place(initrd));
	assert_string_equal(error, "the Linux kernel needs 4194300 KiB of free memory in one piece "
				   "below 4 GiB; there is too little memory");
}

UNIT(moves_an_initrd_that_is_too_high, .setup_func = fill_header)
{
	put(image, 0x22c, 0x3ffffff, 4); /* 64 MiB */
	assert_true(place(initrd));
	assert_int_equal(places.initrd.start, 62 * MIB - 4096);
	assert_int_equal(places.initrd.end, places.initrd.start + 2 * MIB + 5);
	assert_false(ranges_overlap(places.initrd, places.kernel));
	put(image, 0x22c, 0x38fffff, 4); /* a MiB above the kernel, 15 below it */
	assert_true(place(initrd));
	assert_int_equal(places.initrd.start, 14 * MIB - 4096);
	assert_false(place((struct range){201 * MIB, 217 * MIB}));
	assert_string_equal(error,
			    "the initrd of 16384 KiB does not fit: the Linux kernel wants it in "
			    "one piece below 0x3900000");
	assert_true(place((struct range){0, 0}));
}

/* Offsets: zero-page.rst. */
UNIT(writes_boot_parameters, .setup_func = fill_header)
{
	put(image, 0x264, 0x12345678, 4);
	assert_true(place(initrd));
	linux_parameters(page, &kernel, &places, &info, 0x123456, 0x654321);
	assert_int_equal(get(0x202, 4), 0x53726448);
	assert_int_equal(get(0x206, 2), 0x20f);
	assert_int_equal(get(0x210, 1), 0xff);
	assert_int_equal(get(0x214, 4), ORIGIN);
	assert_int_equal(get(0x218, 4), initrd.start);
	assert_int_equal(get(0x21c, 4), 2 * MIB + 5);
	assert_int_equal(get(0x228, 4), 0x123456);
	assert_int_equal(get(0x070, 8), 0x654321);
	assert_int_equal(get(0x264, 4), 0x12345678);
	assert_int_equal(get(0x268, 4), 0); /* the header's end, which its jump says */
	assert_int_equal(get(0x1e8, 1), 2);
	assert_int_equal(get(0x2d0 + 8, 8), 0x9fc00);
	assert_int_equal(get(0x2d0 + 20, 8), MIB);
	assert_int_equal(get(0x2d0 + 28, 8), 255 * MIB);
	assert_int_equal(get(0x2d0 + 36, 4), MEMORY_USABLE);
}

UNIT(passes_on_all_of_a_longer_header, .setup_func = fill_header)
{
	memset(image + 0x268, 0x77, 0x60);
	image[0x201] = 0x6a; /* of protocol 2.15: it ends at 26CH */
	assert_true(place(initrd));
	linux_parameters(page, &kernel, &places, &info, 0x1000, 0);
	assert_int_equal(get(0x268, 8), 0x77777777);
	image[0x201] = 0xff;
	linux_parameters(page, &kernel, &places, &info, 0x1000, 0);
	assert_int_equal(get(0x2c8, 8), 0);
	assert_int_equal(get(0x2c0, 8), 0x7777777777777777);
	assert_int_equal(get(0x2d0, 8), 0);
}
