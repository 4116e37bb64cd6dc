// SPDX-License-Identifier: MIT
/* sources: monitor/boot/linux.c monitor/boot/information.c lib/format.c */
#include <string.h>

#include "monitor/boot/linux.h"
#include "tests/host/host.h"

#define MIB	    (1ull << 20)
#define SETUP	    (2 * 512)
#define PAYLOAD	    (3 * 4096)
#define MEMORY	    (40 * MIB)
#define ORIGIN	    (16 * MIB)
#define ALIGNED	    (2 * MIB)
#define INITRD_LAST 0x7fffffffull

static uint8_t image[SETUP + PAYLOAD], page[LINUX_PARAMETERS_BYTES];
static struct boot_info info;
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
static int fill(void **state)
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

static void recognises_a_setup_header(void **state)
{
	assert_true(linux_recognised(image, sizeof(image)));
	assert_false(linux_recognised(image, 0x207));
	image[0x205] = 's';
	assert_false(linux_recognised(image, sizeof(image)));
	fill(NULL);
	image[0x1ff] = 0;
	assert_false(linux_recognised(image, sizeof(image)));
}

static void reads_the_header(void **state)
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

static void refuses_an_old_protocol(void **state)
{
	put(image, 0x206, 0x209, 2);
	assert_false(open_it());
	assert_string_equal(error,
			    "the Linux kernel has boot protocol 2.09; 2.10 (Linux 2.6.31) is "
			    "the oldest that can be booted");
	put(image, 0x206, 0x20a, 2);
	assert_true(open_it());
}

static void refuses_what_is_cut_off(void **state)
{
	assert_false(linux_open(&kernel, image, sizeof(image) - 1, error, sizeof(error)));
	assert_string_equal(error, "the Linux kernel is cut off: it has 13311 bytes");
	assert_false(linux_open(&kernel, image, 0x267, error, sizeof(error)));
	put(image, 0x1f4, 0x10000000, 4); /* 4 GiB: more than 32 bits of bytes */
	assert_false(open_it());
	assert_string_equal(error, "the Linux kernel is cut off: it has 13312 bytes");
}

static void refuses_a_damaged_header(void **state)
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
		fill(NULL);
		put(image, damage[i].at, damage[i].value, damage[i].bytes);
		assert_false(open_it());
		assert_string_equal(
			error, "the Linux kernel is no bzImage, or its setup header is damaged");
	}
}

static void goes_where_it_prefers_to_be(void **state)
{
	assert_true(place(initrd));
	assert_int_equal(places.kernel.start, ORIGIN);
	assert_int_equal(places.kernel.end, ORIGIN + MEMORY);
	/* The initrd is reached where it is. */
	assert_int_equal(places.initrd.start, initrd.start);
	assert_int_equal(places.initrd.end, initrd.end);
}

static void goes_elsewhere_if_it_is_relocatable(void **state)
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
	fill(NULL);
	image[0x234] = 0;
	info.regions[1].base += 16 * MIB;
	assert_false(place(initrd));
	assert_string_equal(error, "the Linux kernel needs 40960 KiB of free memory in one piece "
				   "where it was linked; there is too little memory");
	fill(NULL);
	put(image, 0x260, 0xfffff000, 4); /* with its alignment above 32 bits */
	assert_false(place(initrd));
	assert_string_equal(error, "the Linux kernel needs 4194300 KiB of free memory in one piece "
				   "below 4 GiB; there is too little memory");
}

static void moves_an_initrd_that_is_too_high(void **state)
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
static void writes_boot_parameters(void **state)
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

static void passes_on_all_of_a_longer_header(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(recognises_a_setup_header, fill),
		cmocka_unit_test_setup(reads_the_header, fill),
		cmocka_unit_test_setup(refuses_an_old_protocol, fill),
		cmocka_unit_test_setup(refuses_what_is_cut_off, fill),
		cmocka_unit_test_setup(refuses_a_damaged_header, fill),
		cmocka_unit_test_setup(goes_where_it_prefers_to_be, fill),
		cmocka_unit_test_setup(goes_elsewhere_if_it_is_relocatable, fill),
		cmocka_unit_test_setup(moves_an_initrd_that_is_too_high, fill),
		cmocka_unit_test_setup(writes_boot_parameters, fill),
		cmocka_unit_test_setup(passes_on_all_of_a_longer_header, fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
