/* SPDX-License-Identifier: MIT */
/* sources: monitor/boot/information.c lib/boot_info.c lib/multiboot1.c lib/multiboot2.c */
#include <string.h>

#include "abi/multiboot.h"
#include "lib/boot_info.h"
#include "monitor/boot/information.h"
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
	assert_string_equal(result.command_line, "test=bts_* end=exit");
	assert_string_equal(result.loader_name, "qemu");
	assert_int_equal(result.region_count, 2);
	assert_memory_equal(result.regions, written.regions, 2 * sizeof(written.regions[0]));
	assert_int_equal(result.module_count, 1);
	assert_int_equal(result.modules[0].start, 0x200000);
	assert_int_equal(result.modules[0].end, 0x212345);
	assert_string_equal(result.modules[0].string, "data");
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

static void says_when_it_does_not_fit(void **state)
{
	size_t needed = information_build(buffer, sizeof(buffer), &written);

	assert_int_equal(information_build(buffer, needed, &written), needed);
	assert_int_equal(information_build(buffer, needed - 1, &written), 0);
	assert_int_equal(information_build(buffer, 0, &written), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(reads_back_as_written, fill),
		cmocka_unit_test_setup(carries_the_framebuffer, fill),
		cmocka_unit_test_setup(carries_either_rsdp, fill),
		cmocka_unit_test_setup(carries_the_efi_system_table, fill),
		cmocka_unit_test_setup(says_when_it_does_not_fit, fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
