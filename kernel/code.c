// SPDX-License-Identifier: MIT
#include "kernel/code.h"

#include "drivers/console/screen.h"
#include "drivers/smbios/smbios.h"
#include "kernel/cpu.h"
#include "kernel/main.h"
#include "kernel/mm/page.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "kernel/trace/unit.h"
#include "lib/format.h"
#include "lib/frame.h"
#include "lib/string.h"
#include "lib/version.h"
#include "third_party/qrcodegen/qrcodegen.h"

enum { MOST_BYTES = 2000, MOST_TEXT = 4000, HEAD = 12, MOST_VERSION = 33 };
enum { MOST_NAME = 48, MOST_LINE = 160 }; /* of a text that the code has */

extern const uint64_t image_checksum[]; /* linker.ld */

static const struct code_results *results;
static const char *command_line = "";

static uint8_t bytes[MOST_BYTES];
static unsigned bits; /* in `bytes`; more than it has room for: the others are lost */
static char text[MOST_TEXT];
static size_t used;

void code_set_results(const struct code_results *of_run)
{
	results = of_run;
}

void code_set_boot(const struct boot_info *info)
{
	command_line = info->command_line;
}

/* The most significant bit first. */
static void put_bits(unsigned value, unsigned count)
{
	while (count--) {
		if (bits < MOST_BYTES * 8 && value >> count & 1)
			bytes[bits / 8] |= (uint8_t)(0x80 >> bits % 8);
		bits++;
	}
}

/* With a NUL at its end, and without what is beyond `most`. */
static void put_string(const char *string, size_t most)
{
	for (size_t i = 0; i < most && string[i]; i++)
		put_bits((uint8_t)string[i], 8);
	put_bits(0, 8);
}

static void put_results(const struct code_results *of_run)
{
	for (unsigned i = 0; of_run->is_selected && i < of_run->tests; i++)
		put_bits(of_run->is_selected(i), 1);
	for (unsigned i = 0; i < of_run->count; i++)
		put_bits(of_run->result[i] & 3, 2);
	for (unsigned i = 0; i < of_run->count; i++)
		if ((of_run->result[i] & 3) == 3)
			put_bits(of_run->result[i] >> 2, 2);
}

static void put_bytes(const struct processor *processor, const char *why)
{
	memset(bytes, 0, sizeof(bytes));
	bits = 0;
	put_string(processor->vendor, MOST_NAME);
	put_string(processor->name, MOST_NAME);
	put_string(silicon_hypervisor(), MOST_NAME);
	put_string(smbios_text(SMBIOS_PRODUCT_NAME), MOST_NAME);
	put_string(options.machine, MOST_NAME);
	put_string(command_line, MOST_LINE);
	put_string(why ? why : "", MOST_LINE);
	if (results)
		put_results(results);
}

/* A character of a log's line as one of the code's, of which no other has the same. */
static char code_character(char c)
{
	if (c >= 'a' && c <= 'z')
		return (char)(c - 'a' + 'A');
	if (c == '=' || c == '_')
		return c == '=' ? ':' : '/';
	if (c == ',')
		return '*';
	return (c >= '0' && c <= '9') || c == ' ' || c == '.' || c == '+' || c == '$' ? c : '-';
}

static void put_facts(const char *template, ...) __attribute__((format(printf, 1, 2)));
static void put_facts(const char *template, ...)
{
	va_list arguments;
	size_t from = used;

	va_start(arguments, template);
	used += (size_t)vformat(text + used, sizeof(text) - used, template, arguments);
	va_end(arguments);
	for (; from < used; from++)
		text[from] = code_character(text[from]);
}

static void put_machine(const struct processor *is)
{
	put_facts(" version=%s git=%s image=%016lx", spoor_version, spoor_git, *image_checksum);
	put_facts(" family=%02x model=%02x stepping=%x microcode=%lx", is->signature.family,
		  is->signature.model, is->signature.stepping, is->microcode);
	put_facts(" cpus=%u memory_mb=%lu seed=%lu units=", cpu_count(),
		  page_total() * PAGE_SIZE >> 20, options.seed);
	for (unsigned i = 0; i < TRACE_UNITS; i++)
		put_facts("%d", trace_units[i]->is_present());
}

/* RFC 9285: three digits of two bytes, two of a last one, the least first. */
static void put_base45(const uint8_t *from, size_t count)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:";

	for (size_t i = 0; i < count; i += 2) {
		bool last = i + 1 == count;
		unsigned value = last ? from[i] : from[i] * 256u + from[i + 1];

		for (unsigned digit = 0; digit < (last ? 2 : 3); digit++, value /= 45)
			text[used++] = digits[value % 45];
	}
}

/* Its length, which is not known before, follows the first word. */
const char *code_text(const char *done, const char *why)
{
	struct processor processor;
	char head[HEAD + 1];

	banner_processor(&processor);
	put_bytes(&processor, why);
	used = HEAD;
	put_machine(&processor);
	if (results)
		put_facts(" list=%08x plan=%u results=%u chosen=%d", results->list, results->plan,
			  results->count, results->is_selected != NULL);
	put_facts(" done %s$", done);
	if (bits > MOST_BYTES * 8 || used + MOST_BYTES / 2 * 3 + 9 > sizeof(text))
		return NULL;
	put_base45(bytes, (bits + 7) / 8);
	format(head, sizeof(head), "SPOOR1 %05zu", used + 8);
	memcpy(text, head, HEAD);
	put_facts("%08x", crc32c(0, text, used));
	return text;
}

static uint8_t code[qrcodegen_BUFFER_LEN_FOR_VERSION(MOST_VERSION)];

static bool is_dark(unsigned x, unsigned y)
{
	return qrcodegen_getModule(code, (int)x, (int)y);
}

/* More correction of errors where the code does not grow by it. */
static bool encode_text(const char *alphanumeric, unsigned most_modules)
{
	static uint8_t work[qrcodegen_BUFFER_LEN_FOR_VERSION(MOST_VERSION)];
	static uint8_t data[MOST_TEXT * 11 / 16 + 1];
	struct qrcodegen_Segment segment = qrcodegen_makeAlphanumeric(alphanumeric, data);
	int most = ((int)most_modules - 17) / 4;

	most = most < MOST_VERSION ? most : MOST_VERSION;
	return most >= 1 &&
	       qrcodegen_encodeSegmentsAdvanced(&segment, 1, qrcodegen_Ecc_LOW, 1, most,
						qrcodegen_Mask_AUTO, true, work, code);
}

const char *code_draw(const char *done, const char *why)
{
	unsigned most = screen_code_most();
	struct screen_code drawn = {.is_dark = is_dark};
	static bool once;
	const char *is;

	if (options.from > 1)
		return "an earlier boot has the first results of this run";
	if (once)
		return "the first attempt at it ended in a panic";
	once = true;
	if (!most)
		return "a text screen has no room for it";
	is = code_text(done, why);
	if (!is || !encode_text(is, most))
		return "this run has more results than it has room for";
	drawn.modules = (unsigned)qrcodegen_getSize(code);
	screen_code(&drawn);
	return NULL;
}
