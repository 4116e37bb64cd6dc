// SPDX-License-Identifier: MIT
/*
 * check_branches: reads lines on standard input, and judges the branches by the code; linked with
 * Zydis.
 *
 *	text ADDRESS BYTES	code, in hexadecimal
 *	entry ADDRESS		where exceptions and interrupts of ring 0 begin
 *	expect FROM TO		the branches of ring 3 are these and no others, in this order
 *	branch FROM TO		a record, in order
 *	part			the program was stopped: the last of them may have no record
 *	start ADDRESS		straight code leads from there to the first source
 *	stop ADDRESS		straight code leads there from the last target
 *
 * Where the branches are all that a program takes from start to stop, what a counter says of it:
 *
 *	count EVENT NUMBER	instructions:u, branches:u: as many as retire
 *	every NUMBER		one of so many branches that retire is sampled
 *	source ADDRESS		a sample: a branch
 *	target ADDRESS		a sample: where a branch leads, taken or not
 *	calls			of the branches the stacks have calls alone
 *	open			of the calls the stacks have those that have not returned
 *	stack FROM/TO/... ...	a sample of the LBR stack: the newest first
 *
 * Every source is a branch instruction or, at a change of the privilege level and where an event
 * begins, any instruction; a direct branch goes to its target; between a target and the next source
 * is straight code. A trace may pause at a WRMSR of ring 0. Prints what it counted; leaves with 1,
 * and the first errors, if one is wrong.
 */
#include <Zydis/Zydis.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
	uint64_t start, bytes;
	uint8_t *data;
};

struct branch {
	uint64_t from, to;
};

static struct text *texts;
static size_t text_count;
static struct branch *branches, *expected;
static size_t branch_count, expected_count;
static uint64_t *entries;
static size_t entry_count;
static unsigned errors, pauses;
static uint64_t first, stop;
static bool part, calls_alone, open_alone;
static size_t ring_3, ring_0, instructions, next_expected;
static ZydisDecoder decoder;

enum sample_kind { SOURCE, TARGET };
struct sample {
	enum sample_kind kind;
	uint64_t address;
};

static struct branch *retired; /* taken or not, in order */
static struct sample *samples;
static struct branch *stacks; /* newest first; a source of 0 ends one */
static size_t retired_count, sample_count, samples_of_ring_3, stacked_count, stack_count, every;
static size_t counted_instructions, counted_branches;

enum { ERRORS_SHOWN = 10, STRAIGHT_MOST = 4096, CALL_STACKS_LEAST = 8 };

static void error(const struct branch *branch, const char *why)
{
	if (errors++ < ERRORS_SHOWN)
		printf("%" PRIx64 " => %" PRIx64 ": %s\n", branch->from, branch->to, why);
}

static void *grown(void *array, size_t count, size_t size)
{
	if (count & (count - 1))
		return array;
	array = realloc(array, (count ? count * 2 : 1) * size);
	if (!array)
		exit(2);
	return array;
}

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

static const uint8_t *code_at(uint64_t address)
{
	static size_t last;

	for (size_t n = 0; n < text_count; n++) {
		size_t i = (last + n) % text_count;

		if (address - texts[i].start < texts[i].bytes) {
			last = i;
			return texts[i].data + (address - texts[i].start);
		}
	}
	return NULL;
}

struct instruction {
	ZydisMnemonic mnemonic;
	uint64_t next;
	bool branch, direct, goes_on, call, returns;
	uint64_t target;
};

static bool decode(uint64_t address, struct instruction *out)
{
	ZydisDecodedInstruction decoded;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
	unsigned bytes = 0;
	const uint8_t *byte;

	while (bytes < sizeof(code) && (byte = code_at(address + bytes)))
		code[bytes++] = *byte;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, bytes, &decoded, operands)))
		return false;
	*out = (struct instruction){.mnemonic = decoded.mnemonic, .next = address + decoded.length};
	out->call = decoded.meta.category == ZYDIS_CATEGORY_CALL;
	out->returns = decoded.meta.category == ZYDIS_CATEGORY_RET;
	switch (decoded.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		out->goes_on = true;
		out->branch = true;
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
		out->branch = true;
		break;
	case ZYDIS_CATEGORY_SYSCALL: /* its records have an end in ring 0 */
		out->branch = out->goes_on = true;
		break;
	default:
		out->goes_on = decoded.mnemonic != ZYDIS_MNEMONIC_UD2;
	}
	if (out->branch && operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
	    operands[0].imm.is_relative)
		out->direct = ZYAN_SUCCESS(
			ZydisCalcAbsoluteAddress(&decoded, &operands[0], address, &out->target));
	return true;
}

static bool is_entry(uint64_t address)
{
	for (size_t i = 0; i < entry_count; i++)
		if (entries[i] == address)
			return true;
	return false;
}

static void add_branch(struct branch **array, size_t *count, uint64_t from, uint64_t to)
{
	*array = grown(*array, *count, sizeof(**array));
	(*array)[(*count)++] = (struct branch){from, to};
}

static void retire(uint64_t address, const struct instruction *instruction, uint64_t to)
{
	instructions++;
	if (instruction->branch)
		add_branch(&retired, &retired_count, address, to);
}

/* From the last target to this source nothing branches. */
static void check_straight(const struct branch *branch, uint64_t at)
{
	struct instruction now;

	for (unsigned n = 0; at != branch->from; at = now.next) {
		if (n++ == STRAIGHT_MOST || !decode(at, &now)) {
			error(branch, "no straight code leads to the source");
			return;
		}
		retire(at, &now, now.next);
		if (now.mnemonic == ZYDIS_MNEMONIC_WRMSR) {
			pauses++;
			return;
		}
		if (!now.goes_on) {
			error(branch, "an instruction before the source branches");
			return;
		}
	}
}

static void check_source(const struct branch *branch)
{
	struct instruction source;

	if (!decode(branch->from, &source)) {
		error(branch, "the source is no instruction");
		return;
	}
	retire(branch->from, &source, branch->to);
	if (is_kernel(branch->from) != is_kernel(branch->to) || is_entry(branch->to))
		return;
	if (!source.branch)
		error(branch, "the source does not branch");
	else if (source.direct && source.target != branch->to)
		error(branch, "the direct branch goes elsewhere");
}

static void check_expected(const struct branch *branch)
{
	const struct branch *due = &expected[next_expected];

	if (next_expected == expected_count)
		error(branch, "more records than the program has branches");
	else if (due->from != branch->from || due->to != branch->to)
		error(branch, "not the record that the program makes next");
	if (next_expected < expected_count)
		next_expected++;
}

static void check(void)
{
	uint64_t at = first; /* the last target, if the code at it is known */

	for (const struct branch *branch = branches; branch < branches + branch_count; branch++) {
		bool user = !is_kernel(branch->from) && !is_kernel(branch->to);

		ring_3 += user;
		ring_0 += is_kernel(branch->from) && is_kernel(branch->to);
		if (user && expected_count)
			check_expected(branch);
		if (code_at(branch->from)) {
			if (at && is_kernel(at) == is_kernel(branch->from))
				check_straight(branch, at);
			check_source(branch);
		} else if (is_kernel(branch->from) == is_kernel(branch->to)) {
			error(branch, "there is no code at the source");
		}
		at = code_at(branch->to) ? branch->to : 0;
	}
	if (stop)
		check_straight(&(struct branch){stop, 0}, at);
}

static bool is_explained(const struct sample *sample)
{
	if (sample->kind == TARGET && is_entry(sample->address))
		return true;
	for (size_t i = 0; i < retired_count; i++)
		if (sample->address == (sample->kind == SOURCE ? retired[i].from : retired[i].to))
			return true;
	return false;
}

static void check_samples(void)
{
	for (size_t i = 0; i < sample_count; i++) {
		samples_of_ring_3 += !is_kernel(samples[i].address);
		if (!is_explained(&samples[i]))
			error(&(struct branch){samples[i].address, 0},
			      "the sample is not of this program");
	}
	/* Of those at the end, and when Linux takes the processor away, some have no sample. */
	if (every && (sample_count > retired_count / every ||
		      sample_count < retired_count / every * 9 / 10)) {
		printf("%zu samples, one of %zu of %zu branches\n", sample_count, every,
		       retired_count);
		errors++;
	}
}

/* The stack's entries, from the oldest at `oldest` back to `newest`, are branches in a row, the
   oldest at or after the place `*at` of the list. */
static bool follows(const struct branch *newest, const struct branch *oldest, size_t *at)
{
	size_t count = (size_t)(oldest - newest) + 1, i;

	for (; *at + count <= expected_count; ++*at) {
		for (i = 0; i < count; i++)
			if (oldest[-(ptrdiff_t)i].from != expected[*at + i].from ||
			    oldest[-(ptrdiff_t)i].to != expected[*at + i].to)
				break;
		if (i == count)
			return true;
	}
	return false;
}

static void keep_calls(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < expected_count; i++) {
		struct instruction source;

		if (decode(expected[i].from, &source) && source.call)
			expected[kept++] = expected[i];
	}
	expected_count = kept;
}

/* Whether these are the calls without a return after some branch, of those from `*at` on. */
static bool are_open(const struct branch *newest, const struct branch *oldest, size_t *at)
{
	static struct branch open[64];
	size_t count = (size_t)(oldest - newest) + 1, depth = 0, i;

	for (size_t n = 0; n < expected_count; n++) {
		struct instruction source;

		if (!decode(expected[n].from, &source))
			return false;
		if (source.call && depth < sizeof(open) / sizeof(open[0]))
			open[depth++] = expected[n];
		else if (source.returns && depth)
			depth--;
		for (i = 0; i < count && depth == count; i++)
			if (newest[i].from != open[depth - 1 - i].from ||
			    newest[i].to != open[depth - 1 - i].to)
				break;
		if (n >= *at && depth == count && i == count) {
			*at = n;
			return true;
		}
	}
	return false;
}

static void check_stacks(void)
{
	const struct branch *newest = stacks;
	size_t at = 0;

	if (calls_alone)
		keep_calls();
	for (size_t i = 0; i < stacked_count; i++) {
		if (stacks[i].from)
			continue;
		if (newest == &stacks[i] ||
		    !(open_alone ? are_open : follows)(newest, &stacks[i] - 1, &at)) {
			error(newest, "the stack's branches are not branches in a row");
			at = 0;
		}
		newest = &stacks[i + 1];
		stack_count++;
	}
	/* Of the program's branches one of seven is in a call. */
	if ((calls_alone || open_alone) && stack_count < CALL_STACKS_LEAST) {
		printf("%zu LBR stacks of calls: too few\n", stack_count);
		errors++;
	}
}

static void check_counts(void)
{
	if (!counted_instructions && !counted_branches)
		return;
	printf("instructions:u %zu of %zu, branches:u %zu of %zu\n", counted_instructions,
	       instructions, counted_branches, retired_count);
	errors += counted_instructions != instructions || counted_branches != retired_count;
}

static void add_text(uint64_t address, const char *hex)
{
	struct text *text;

	texts = grown(texts, text_count, sizeof(*texts));
	text = &texts[text_count++];
	*text = (struct text){.start = address, .data = malloc(strlen(hex) / 2 + 1)};
	if (!text->data)
		exit(2);
	for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2)
		text->data[text->bytes++] = (uint8_t)byte;
}

static void add_sample(enum sample_kind kind, uint64_t address)
{
	samples = grown(samples, sample_count, sizeof(*samples));
	samples[sample_count++] = (struct sample){kind, address};
}

/* FROM/TO/ and flags of each entry, a space after each. */
static void add_stack(const char *text)
{
	struct branch entry;

	for (text += strspn(text, " ");
	     sscanf(text, "%" SCNx64 "/%" SCNx64, &entry.from, &entry.to) == 2;
	     text += strspn(text, " ")) {
		add_branch(&stacks, &stacked_count, entry.from, entry.to);
		text += strcspn(text, " ");
	}
	add_branch(&stacks, &stacked_count, 0, 0);
}

static bool read_sample(const char *line)
{
	uint64_t address;

	if (sscanf(line, "source %" SCNx64, &address) == 1)
		add_sample(SOURCE, address);
	else if (sscanf(line, "target %" SCNx64, &address) == 1)
		add_sample(TARGET, address);
	else if (!strncmp(line, "stack ", 6))
		add_stack(line + 6);
	else
		return sscanf(line, "every %zu", &every) == 1 ||
		       sscanf(line, "count instructions:u %zu", &counted_instructions) == 1 ||
		       sscanf(line, "count branches:u %zu", &counted_branches) == 1;
	return true;
}

static void read_lines(void)
{
	static char line[65536], hex[65536];
	uint64_t a, b;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "text %" SCNx64 " %65535[0-9a-f]", &a, hex) == 2)
			add_text(a, hex);
		else if (sscanf(line, "branch %" SCNx64 " %" SCNx64, &a, &b) == 2)
			add_branch(&branches, &branch_count, a, b);
		else if (sscanf(line, "expect %" SCNx64 " %" SCNx64, &a, &b) == 2)
			add_branch(&expected, &expected_count, a, b);
		else if (!strcmp(line, "part\n"))
			part = true;
		else if (!strcmp(line, "calls\n"))
			calls_alone = true;
		else if (!strcmp(line, "open\n"))
			open_alone = true;
		else if (sscanf(line, "start %" SCNx64, &first) == 1 ||
			 sscanf(line, "stop %" SCNx64, &stop) == 1 || read_sample(line))
			continue;
		else if (sscanf(line, "entry %" SCNx64, &a) == 1) {
			entries = grown(entries, entry_count, sizeof(*entries));
			entries[entry_count++] = a;
		} else {
			fprintf(stderr, "check_branches: not a line of the format: %s", line);
			exit(2);
		}
	}
}

int main(void)
{
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	read_lines();
	check();
	if (next_expected < expected_count && !part) {
		printf("%zu branches of the program have no record\n",
		       expected_count - next_expected);
		errors++;
	}
	check_counts();
	check_samples();
	check_stacks();
	if (sample_count || stack_count)
		printf("%zu samples, %zu of ring 3, %zu LBR stacks of %zu branches, %u errors\n",
		       sample_count, samples_of_ring_3, stack_count, stacked_count - stack_count,
		       errors);
	printf("%zu records, %zu of ring 3, %zu of ring 0, %zu instructions, %u pauses, %u errors\n",
	       branch_count, ring_3, ring_0, instructions, pauses, errors);
	return errors || (!branch_count && !part);
}
