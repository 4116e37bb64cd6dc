// SPDX-License-Identifier: MIT
/* sources: lib/cmdline.c lib/format.c */
#include "lib/cmdline.h"

#include <string.h>

#include "tests/host/host.h"

static bool list;
static uint64_t scale;
static int end;
static char test[8];
static char error[256];

static const char *const ends[] = {"exit", "halt", NULL};
static const struct option options[] = {
	{.name = "list", .kind = OPTION_FLAG, .target = &list},
	{.name = "scale", .kind = OPTION_NUMBER, .target = &scale, .min = 1, .max = 1000},
	{.name = "end", .kind = OPTION_CHOICE, .target = &end, .choices = ends},
	{.name = "test", .kind = OPTION_TEXT, .target = test, .size = sizeof(test)},
};

static int reset(void **state)
{
	list = false;
	scale = 0;
	end = -1;
	memset(test, 0, sizeof(test));
	memset(error, 0, sizeof(error));
	return 0;
}

static bool parse(const char *line)
{
	return cmdline_parse(line, options, sizeof(options) / sizeof(options[0]), error,
			     sizeof(error));
}

static void refuses(const char *line, const char *sentence)
{
	assert_false(parse(line));
	assert_string_equal(error, sentence);
}

UNIT(applies_every_kind, .setup_func = reset)
{
	assert_true(parse("  list scale=0x10\ttest=a,-b end=halt "));
	assert_true(list);
	assert_int_equal(scale, 16);
	assert_int_equal(end, 1);
	assert_string_equal(test, "a,-b");
}

UNIT(an_empty_line_changes_nothing, .setup_func = reset)
{
	assert_true(parse(""));
	assert_true(parse(" \t\r\n"));
	assert_int_equal(end, -1);
}

UNIT(the_last_word_counts, .setup_func = reset)
{
	assert_true(parse("list scale=1 list=0 scale=2"));
	assert_false(list);
	assert_int_equal(scale, 2);
}

UNIT(quotes, .setup_func = reset)
{
	assert_true(parse("test=\"a b\" list"));
	assert_string_equal(test, "a b");
	assert_true(list);
	assert_true(parse("\"test=c d\"")); /* as GRUB writes it */
	assert_string_equal(test, "c d");
	assert_true(parse("test=\\\"\\\\\\x"));
	assert_string_equal(test, "\"\\\\x");
	assert_true(parse("test=\"\""));
	assert_string_equal(test, "");
	refuses("\"test=a list", "\"test=a list\" has an open quote");
}

UNIT(names_the_word_at_fault, .setup_func = reset)
{
	refuses("lists", "\"lists\" is unknown; the words are: list scale end test");
	refuses("lis", "\"lis\" is unknown; the words are: list scale end test");
	refuses("=x", "\"=x\" is unknown; the words are: list scale end test");
	refuses("list=yes", "\"list=yes\" takes no value, or 0 or 1");
	refuses("end=exits", "\"end=exits\" needs one of: exit halt");
	refuses("end", "\"end\" needs one of: exit halt");
	refuses("test=12345678", "\"test=12345678\" needs a value of at most 7 characters");
	refuses("test", "\"test\" needs a value of at most 7 characters");
}

UNIT(bounds_numbers, .setup_func = reset)
{
	const char *const bad[] = {"scale",
				   "scale=",
				   "scale=0",
				   "scale=1001",
				   "scale=0x",
				   "scale=1x",
				   "scale=-1",
				   "scale=1 0",
				   "scale=a",
				   "scale=0x1g",
				   "scale=18446744073709551617",
				   "scale= 1",
				   "scale=+1"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse(bad[i]));
	refuses("scale=1001", "\"scale=1001\" needs a number from 1 to 1000");
	assert_true(parse("scale=1000"));
	assert_int_equal(scale, 1000);
}

UNIT(a_fault_spoils_no_other_word, .setup_func = reset)
{
	refuses("scale=3 nonsense end=halt list=x",
		"\"nonsense\" is unknown; the words are: list scale end test");
	assert_int_equal(scale, 3);
	assert_int_equal(end, 1);
	refuses("test=\"a scale=4 end=exit", "\"test=a scale=4 end=exit\" has an open quote");
	assert_int_equal(scale, 4);
	assert_int_equal(end, 0);
}

UNIT(a_word_that_is_too_long, .setup_func = reset)
{
	char line[1536];

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	memcpy(line + sizeof(line) - 10, " end=halt", 10);
	refuses(line, "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" is too long");
	assert_int_equal(end, 1);
}

UNIT(a_small_error_buffer, .setup_func = reset)
{
	char small[12];

	assert_false(cmdline_parse("nonsense", options, 4, small, sizeof(small)));
	assert_string_equal(small, "\"nonsense\" ");
}

UNIT(skips_the_file_name)
{
	/* QEMU -kernel, iPXE, GRUB Legacy */
	assert_string_equal(cmdline_skip_file_name("build/spoor.elf32 list end=exit"),
			    "list end=exit");
	assert_string_equal(cmdline_skip_file_name("http://lab/spoor?a=b list"), "list");
	assert_string_equal(cmdline_skip_file_name(" spoor.elf"), "");
	assert_string_equal(cmdline_skip_file_name("(hd0,0)/spoor end=exit"), "end=exit");
	/* GRUB 2 */
	assert_string_equal(cmdline_skip_file_name("list end=exit"), "list end=exit");
	assert_string_equal(cmdline_skip_file_name("test=bts/w.1 list"), "test=bts/w.1 list");
	assert_string_equal(cmdline_skip_file_name("list a/b"), "list a/b");
	assert_string_equal(cmdline_skip_file_name("\"test=a b/c\""), "\"test=a b/c\"");
	assert_string_equal(cmdline_skip_file_name(""), "");
}

UNIT(whole_numbers)
{
	uint64_t value;

	assert_true(parse_number("18446744073709551615", 20, &value));
	assert_true(value == UINT64_MAX);
	assert_true(parse_number("0xFFFFffffFFFFffff", 18, &value));
	assert_true(value == UINT64_MAX);
	assert_false(parse_number("18446744073709551616", 20, &value));
	assert_false(parse_number("0x10000000000000000", 19, &value));
	assert_true(parse_number("12345", 2, &value));
	assert_int_equal(value, 12);
	assert_false(parse_number("", 0, &value));
}
