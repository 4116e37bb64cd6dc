// SPDX-License-Identifier: MIT
/* sources: kernel/code.c lib/format.c lib/frame.c third_party/qrcodegen/qrcodegen.c */
#include "kernel/code.h"

#include "drivers/console/screen.h"
#include "drivers/smbios/smbios.h"
#include "kernel/cpu.h"
#include "kernel/main.h"
#include "kernel/mm/page.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "kernel/trace/unit.h"
#include "lib/frame.h"
#include "lib/version.h"
#include "tests/host/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* RFC 9285, table 1. */
static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:";

static const char done[] = "silicon=guest rehearsal=yes pass=3 fail=1 skip=2 error=1 xfail=1 obs=1 "
			   "rc=1 slow=0";

/* The machine that the code tells of. */
struct options options = {.seed = 77, .machine = "hall 3"};
const char spoor_version[] = "0.1", spoor_git[] = "v0_9-3-gabc-dirty";
const uint64_t image_checksum[] = {0x0123456789abcdef};

void banner_processor(struct processor *processor)
{
	*processor =
		(struct processor){{6, 0x1a, 5}, 0x1d, "GenuineIntel", "Intel(R) Core(TM) i7 CPU"};
}

const char *silicon_hypervisor(void)
{
	return "KVMKVMKVM";
}

const char *smbios_text(enum smbios_text text)
{
	return text == SMBIOS_PRODUCT_NAME ? "Standard PC" : "another text";
}

unsigned cpu_count(void)
{
	return 4;
}

uint64_t page_total(void)
{
	return 1024 << 8;
}

static bool yes(void)
{
	return true;
}

static bool no(void)
{
	return false;
}

static const struct trace_unit there = {.is_present = yes}, not_there = {.is_present = no};
const struct trace_unit *const trace_units[TRACE_UNITS] = {&there, &not_there, &there, &not_there};

static unsigned most_modules, drawn_modules;

unsigned screen_code_most(void)
{
	return most_modules;
}

/* ISO/IEC 18004, 6.3.3: three corners have a square of 7, 5 and 3 modules, dark, light and dark. */
static bool in_finder(unsigned x, unsigned y)
{
	unsigned ring = (unsigned)abs((int)x - 3), down = (unsigned)abs((int)y - 3);

	ring = ring > down ? ring : down;
	return ring != 2;
}

void screen_code(const struct screen_code *code)
{
	unsigned far = code->modules - 7;

	drawn_modules = code->modules;
	for (unsigned y = 0; y < 7; y++)
		for (unsigned x = 0; x < 7; x++) {
			assert_int_equal(code->is_dark(x, y), in_finder(x, y));
			assert_int_equal(code->is_dark(far + x, y), in_finder(x, y));
			assert_int_equal(code->is_dark(x, far + y), in_finder(x, y));
		}
}

static struct boot_info info;

static int reset(void **state)
{
	code_set_results(NULL);
	snprintf(info.command_line, sizeof(info.command_line), "seed=77 test=a*,b");
	code_set_boot(&info);
	return 0;
}

/* The bytes of base45, by RFC 9285; returns how many. */
static size_t bytes_of(const char *text, size_t length, uint8_t *bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < length; i += 3) {
		size_t left = length - i < 3 ? length - i : 3;
		unsigned value = 0;

		assert_int_not_equal(left, 1);
		for (size_t d = left; d--;
		     value = value * 45 + (unsigned)(strchr(digits, text[i + d]) - digits))
			assert_non_null(strchr(digits, text[i + d]));
		assert_in_range(value, 0, left == 3 ? 0xffff : 0xff);
		if (left == 3)
			bytes[count++] = (uint8_t)(value >> 8);
		bytes[count++] = (uint8_t)value;
	}
	return count;
}

/* RFC 9285, 4.3 and 4.4: the examples, for the reader that these tests have. */
UNIT(reads_base45_as_the_rfc_has_it)
{
	static const char *const examples[][2] = {{"AB", "BB8"},
						  {"Hello!!", "%69 VD92EX0"},
						  {"base-45", "UJCLQE7W581"},
						  {"ietf!", "QED8WEX0"}};

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		uint8_t bytes[16];
		size_t size = bytes_of(examples[i][1], strlen(examples[i][1]), bytes);

		assert_int_equal(size, strlen(examples[i][0]));
		assert_memory_equal(bytes, examples[i][0], size);
	}
}

/* The bytes after the first '$', whose length and checksum the text has right; the facts go to
 * `facts`. */
static size_t take_apart(const char *text, char *facts, uint8_t *bytes)
{
	const char *dollar = strchr(text, '$');
	char head[32], sum[9];

	assert_non_null(dollar);
	assert_int_equal(strspn(text, digits), strlen(text));
	snprintf(head, sizeof(head), "SPOOR1 %05zu ", strlen(text));
	assert_memory_equal(text, head, strlen(head));
	snprintf(sum, sizeof(sum), "%08X", crc32c(0, text, strlen(text) - 8));
	assert_string_equal(text + strlen(text) - 8, sum);
	memcpy(facts, text + strlen(head), (size_t)(dollar - text) - strlen(head));
	facts[(size_t)(dollar - text) - strlen(head)] = '\0';
	return bytes_of(dollar + 1, strlen(dollar + 1) - 8, bytes);
}

static const char *const strings_of_all[] = {"GenuineIntel", "Intel(R) Core(TM) i7 CPU",
					     "KVMKVMKVM",    "Standard PC",
					     "hall 3",	     "seed=77 test=a*,b"};

/* Returns the place after the texts, the last of which is `why`. */
static size_t expect_strings(const uint8_t *bytes, const char *why)
{
	size_t at = 0;

	for (size_t i = 0; i < 6; at += strlen((const char *)bytes + at) + 1, i++)
		assert_string_equal((const char *)bytes + at, strings_of_all[i]);
	assert_string_equal((const char *)bytes + at, why);
	return at + strlen(why) + 1;
}

static unsigned bits_at(const uint8_t *bytes, size_t *bit, unsigned count)
{
	unsigned value = 0;

	for (; count--; ++*bit)
		value = value << 1 | (bytes[*bit / 8] >> (7 - *bit % 8) & 1);
	return value;
}

UNIT(tells_machine_and_end, .setup_func = reset)
{
	char facts[600];
	uint8_t bytes[600];
	size_t count =
		take_apart(code_text("silicon=none pass=0 rc=4", "#GP on CPU 3"), facts, bytes);

	assert_string_equal(facts,
			    "VERSION:0.1 GIT:V0/9-3-GABC-DIRTY IMAGE:0123456789ABCDEF "
			    "FAMILY:06 MODEL:1A STEPPING:5 MICROCODE:1D CPUS:4 "
			    "MEMORY/MB:1024 SEED:77 UNITS:1010 DONE SILICON:NONE PASS:0 RC:4");
	assert_int_equal(expect_strings(bytes, "#GP on CPU 3"), count);
}

static bool is_even(unsigned place)
{
	return place % 2 == 0;
}

UNIT(tells_results_in_their_order, .setup_func = reset)
{
	static const uint8_t results[] = {CODE_PASS, CODE_FAIL, CODE_SKIP,  CODE_ERROR, CODE_OBS,
					  CODE_PASS, CODE_SKIP, CODE_XFAIL, CODE_PASS};
	struct code_results run = {0xabcd, 21, is_even, 11, sizeof(results), results};
	size_t bit, count;
	uint8_t bytes[600];
	char facts[600];

	code_set_results(&run);
	count = take_apart(code_text(done, NULL), facts, bytes);
	assert_non_null(strstr(facts, " LIST:0000ABCD PLAN:11 RESULTS:9 CHOSEN:1 DONE "));
	assert_non_null(strstr(facts, " DONE SILICON:GUEST REHEARSAL:YES PASS:3 FAIL:1 SKIP:2 "
				      "ERROR:1 XFAIL:1 OBS:1 RC:1 SLOW:0"));
	bit = 8 * expect_strings(bytes, "");
	for (unsigned i = 0; i < 21; i++)
		assert_int_equal(bits_at(bytes, &bit, 1), i % 2 == 0);
	for (unsigned i = 0; i < sizeof(results); i++)
		assert_int_equal(bits_at(bytes, &bit, 2), results[i] & 3);
	assert_int_equal(bits_at(bytes, &bit, 2), 0); /* ERROR */
	assert_int_equal(bits_at(bytes, &bit, 2), 2); /* OBS */
	assert_int_equal(bits_at(bytes, &bit, 2), 1); /* XFAIL */
	assert_int_equal((bit + 7) / 8, count);
	run.is_selected = NULL;
	count = take_apart(code_text(done, NULL), facts, bytes);
	assert_non_null(strstr(facts, " CHOSEN:0 "));
	bit = 8 * expect_strings(bytes, "");
	assert_int_equal(bits_at(bytes, &bit, 18), 0x09f1c);
}

/* A text that would be too long is cut, and too many results are no code. */
UNIT(has_a_longest_text, .setup_func = reset)
{
	static uint8_t results[8192];
	struct code_results run = {1, 1, NULL, sizeof(results), sizeof(results), results};
	char why[400], facts[600];
	uint8_t bytes[2048];

	memset(info.command_line, 'c', sizeof(info.command_line) - 1);
	memset(why, 'w', sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	code_set_results(&run);
	assert_null(code_text(done, why));
	run.count = 4000;
	take_apart(code_text(done, why), facts, bytes);
	memset(results, CODE_OBS, sizeof(results));
	run.count = 3000;
	take_apart(code_text(done, why), facts, bytes);
	run.count = 3300;
	assert_null(code_text(done, why));
}

/* A code with the results of this boot alone would be of a run that began in its middle. */
UNIT(a_boot_that_goes_on_draws_none, .setup_func = reset)
{
	drawn_modules = 0;
	options.from = 2;
	assert_string_equal(code_draw(done, NULL),
			    "an earlier boot has the first results of this run");
	options.from = 1;
	assert_int_equal(drawn_modules, 0);
}

/* 593 results at 640 by 480: 80 columns of which 40 are for the code, 3 pixels a module. */
UNIT(draws_once, .setup_func = reset)
{
	static uint8_t results[593];
	struct code_results run = {1, 640, NULL, sizeof(results), sizeof(results), results};

	code_set_results(&run);
	most_modules = 40 * 8 / 3 - 8;
	assert_null(code_draw(done, NULL));
	assert_in_range(drawn_modules, 21, most_modules);
	drawn_modules = 0;
	assert_string_equal(code_draw(done, NULL), "the first attempt at it ended in a panic");
	assert_int_equal(drawn_modules, 0);
}
