/* SPDX-License-Identifier: MIT */
/* sources: monitor/options.c lib/cmdline.c lib/format.c lib/string.c */
#include <string.h>

#include "monitor/options.h"
#include "tests/host/host.h"

const uint16_t uart_com_bases[4] = {0x3f8, 0x2f8, 0x3e8, 0x2e8};

static struct options options;
static char error[300];

static bool parse(const char *line)
{
	error[0] = '\0';
	return options_parse(&options, line, error, sizeof(error));
}

static void has_defaults(void **state)
{
	assert_true(parse(""));
	assert_int_equal(options.vbts, VBTS_AUTO);
	assert_false(options.end_exit);
	assert_int_equal(options.console_port, 0x3f8);
	assert_int_equal(options.baud, 115200);
}

static void reads_every_word(void **state)
{
	assert_true(parse("vbts=on console=com2 baud=9600 end=exit"));
	assert_int_equal(options.vbts, VBTS_ON);
	assert_int_equal(options.console_port, 0x2f8);
	assert_int_equal(options.baud, 9600);
	assert_true(options.end_exit);
	assert_true(parse("vbts=off console=none end=halt"));
	assert_int_equal(options.vbts, VBTS_OFF);
	assert_int_equal(options.console_port, 0);
	assert_false(options.end_exit);
}

static void unknown_words_are_named_and_the_others_applied(void **state)
{
	assert_false(parse("vbst=on end=exit"));
	assert_non_null(strstr(error, "vbst"));
	assert_non_null(strstr(error, "vbts"));
	assert_true(options.end_exit);
	assert_false(parse("vbst=on console=com3"));
	assert_int_equal(options.console_port, 0x3e8);
	assert_false(parse("vbts=maybe"));
	assert_false(options.end_exit);
	assert_false(parse("vbts=maybe the-end=exit"));
	assert_false(options.end_exit);
}

static const char *words_from(enum boot_protocol protocol, const char *loader, const char *string)
{
	static struct boot_info info;

	info.protocol = protocol;
	strcpy(info.loader_name, loader);
	return loader_words(&info, string);
}

static void file_names_are_not_words(void **state)
{
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "qemu", "build/spoor.elf a b"), "a b");
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "qemu", "build/spoor.elf"), "");
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "qemu", ""), "");
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "GRUB 2.06", "a b"), "a b");
	assert_string_equal(words_from(BOOT_MULTIBOOT2, "GRUB 2.06", "a b"), "a b");
	assert_string_equal(words_from(BOOT_MULTIBOOT2, "", "a b"), "a b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_defaults),
		cmocka_unit_test(reads_every_word),
		cmocka_unit_test(unknown_words_are_named_and_the_others_applied),
		cmocka_unit_test(file_names_are_not_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
