// SPDX-License-Identifier: MIT
// view panic: lines `ADDRESS -> ADDRESS` and packets of Intel PT in a console log, as branches
// with functions, files and lines.
#include "tools/view/code.h"
#include "tools/view/pt.h"
#include "tools/view/stack.h"
#include "tools/view/view.h"

#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_DIGITS 6 /* of an address: "12 -> 13" is something else */
#define MOST_DIGITS  16

struct branch {
	uint64_t from, to;
	unsigned line;	     /* of the log */
	const char *from_is; /* "name+0x1f" as the log has it; "" if it has none */
	const char *to_is;
};

/* The branches of consecutive lines. */
struct group {
	struct branch *branches;
	size_t count, room;
};

struct options {
	const char *elf, *program;
	bool oldest_first;
};

/* The hexadecimal number that ends before `end`, not before `begin`; 0: none of an address' size.
 */
static uint64_t number_before(const char *begin, const char *end)
{
	const char *start;

	while (end > begin && end[-1] == ' ')
		end--;
	for (start = end; start > begin && isxdigit((unsigned char)start[-1]);)
		start--;
	if (end - start < LEAST_DIGITS || end - start > MOST_DIGITS)
		return 0;
	return strtoull(start, NULL, 16);
}

/* As number_before(), after `start`; `*after` is where it ends. */
static uint64_t number_after(const char *start, const char **after)
{
	size_t digits;

	start += strspn(start, " ");
	if (start[0] == '0' && (start[1] == 'x' || start[1] == 'X'))
		start += 2;
	digits = strspn(start, "0123456789abcdefABCDEF");
	*after = start + digits;
	if (digits < LEAST_DIGITS || digits > MOST_DIGITS)
		return 0;
	return strtoull(start, NULL, 16);
}

/* The word at `*text`, ended by a 0 in place of the blank after it, in printable characters;
 * `*text` goes on after that. */
static const char *cut_word(char **text)
{
	char *word = *text + strspn(*text, " \t"), *end = word + strcspn(word, " \t\r");

	*text = *end ? end + 1 : end;
	*end = 0;
	return make_printable(word, (size_t)(end - word));
}

/* False: this line of a log has no branch. The names in it are cut out. */
static bool read_branch(char *line, struct branch *branch)
{
	for (char *arrow = strstr(line, "->"); arrow; arrow = strstr(arrow + 2, "->")) {
		const char *after;
		char *rest;

		branch->from = number_before(line, arrow);
		branch->to = number_after(arrow + 2, &after);
		if (!branch->from || !branch->to)
			continue;
		rest = arrow + (after - arrow);
		branch->from_is = branch->to_is = "";
		if (strstr(rest, "->")) {
			branch->from_is = cut_word(&rest);
			cut_word(&rest);
			branch->to_is = cut_word(&rest);
		}
		return true;
	}
	return false;
}

static void add(struct group *group, struct branch branch)
{
	if (group->count == group->room) {
		group->room = group->room ? 2 * group->room : 64;
		group->branches =
			reallocate(group->branches, group->room, sizeof(*group->branches));
	}
	group->branches[group->count++] = branch;
}

static void reverse(struct group *group)
{
	for (size_t i = 0, j = group->count; i + 1 < j--; i++) {
		struct branch swapped = group->branches[i];

		group->branches[i] = group->branches[j];
		group->branches[j] = swapped;
	}
}

/* A name that the log has and the file has elsewhere: it is not the file that ran. */
static void check_name(const char *log, const struct space *space, const struct branch *branch,
		       uint64_t address, const char *is)
{
	char text[256];

	if (!strchr(is, '+') || !strcmp(space_describe(space, address, text, sizeof(text)), is))
		return;
	fail("%s:%u: %llx is %s in the log, but %s in %s: this is not the file that ran", log,
	     branch->line, (unsigned long long)address, is, text,
	     code_path(space_code(space, address)));
}

static void print_place(const struct space *space, uint64_t address, int width)
{
	char name[256], whole[512];
	struct line line = space_line(space, address);

	space_describe(space, address, name, sizeof(name));
	if (line.file)
		snprintf(whole, sizeof(whole), "%s (%s:%d)", name, line.file, line.number);
	else
		snprintf(whole, sizeof(whole), "%s", name);
	printf("%-*s", width, whole);
}

static bool is_same(const struct branch *a, const struct branch *b)
{
	return a->from == b->from && a->to == b->to;
}

static void print_branches(const struct group *group, const struct space *space)
{
	for (size_t i = 0, next; i < group->count; i = next) {
		const struct branch *branch = &group->branches[i];

		for (next = i + 1; next < group->count && is_same(branch, branch + (next - i));)
			next++;
		printf("  ");
		print_place(space, branch->from, 50);
		printf(" -> ");
		print_place(space, branch->to, 0);
		if (next - i > 1)
			printf(", times %zu", next - i);
		putchar('\n');
	}
}

/* The frames that were open below the one that is entered were printed before it. */
static void print_frame(void *space, const struct stack *stack, size_t depth)
{
	static const char *const kinds[] = {[FRAME_ROOT] = "",
					    [FRAME_CALL] = "",
					    [FRAME_UNSEEN] = "",
					    [FRAME_TAIL] = " (jumped to)",
					    [FRAME_EVENT] =
						    " (interrupt, exception or system call)"};
	const struct frame *frame = &stack->frames[depth];

	printf("  %*s", (int)(2 * (depth < 40 ? depth : 40)), "");
	print_place(space, frame->entered, 0);
	printf("%s\n", kinds[frame->kind]);
}

/* Where interrupts and exceptions enter the kernel: kernel/trap/entry.asm. */
#define VECTORS	   256
#define STUB_BYTES 16

static void find_entries(struct stack *stack, uint64_t entries[VECTORS])
{
	uint64_t stubs = code_symbol(stack->space->kernel, "trap_stubs");

	for (unsigned i = 0; stubs && i < VECTORS; i++)
		entries[i] = stubs + i * STUB_BYTES;
	stack->entries = entries;
	stack->entry_count = stubs ? VECTORS : 0;
}

static void print_tree(const struct group *group, const struct space *space)
{
	struct stack_observer observer = {.entered = print_frame, .argument = (void *)space};
	uint64_t entries[VECTORS];
	struct stack stack;

	stack_init(&stack, space);
	find_entries(&stack, entries);
	stack.observer = &observer;
	for (size_t i = 0; i < group->count; i++)
		stack_branch(&stack, group->branches[i].from, group->branches[i].to);
	stack_free(&stack);
}

static void print_group(struct group *group, const char *log, const struct space *space,
			const struct options *options)
{
	unsigned line = group->count ? group->branches[0].line : 0;

	if (!group->count)
		return;
	for (size_t i = 0; i < group->count; i++) {
		const struct branch *branch = &group->branches[i];

		check_name(log, space, branch, branch->from, branch->from_is);
		check_name(log, space, branch, branch->to, branch->to_is);
	}
	if (!options->oldest_first)
		reverse(group);
	printf("%s:%u: %zu branches, oldest first:\n", log, line, group->count);
	print_branches(group, space);
	printf("%s:%u: calls, oldest first:\n", log, line);
	print_tree(group, space);
	group->count = 0;
}

/* --- Packets of Intel PT ------------------------------------------------------------------------
 */

#define MOST_OF_PACKETS 256 /* branches, the newest */

/* Consecutive lines of bytes. */
struct packets {
	bool begun;    /* the line before them was read */
	unsigned line; /* the first */
	uint8_t *bytes;
	size_t size, room;
};

static bool is_byte(const char *begin, const char *end)
{
	return end - begin >= 3 && isxdigit((unsigned char)end[-1]) &&
	       isxdigit((unsigned char)end[-2]) && end[-3] == ' ';
}

/* The bytes at the end of a line, "... 02 82"; false: it has none. */
static bool read_bytes(struct packets *packets, const char *line)
{
	const char *end = line + strcspn(line, "\r"), *at = end;

	while (is_byte(line, at))
		at -= 3;
	for (const char *byte = at; byte < end; byte += 3) {
		if (packets->size == packets->room) {
			packets->room = packets->room ? 2 * packets->room : 4096;
			packets->bytes = reallocate(packets->bytes, packets->room, 1);
		}
		packets->bytes[packets->size++] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return at < end;
}

static void print_packets(struct packets *packets, const char *log, const struct space *space)
{
	const struct options oldest_first = {.oldest_first = true};
	const struct trace_frame header = {.type = TRACE_FRAME_PACKETS};
	struct trace_stream stream = {.id = TRACE_STREAM_CPU | TRACE_STREAM_PT,
				      .taken.records = packets->size,
				      .space = *space};
	struct pt_decoded decoded;
	struct group group = {0};
	size_t first;

	packets->begun = false;
	if (!packets->size)
		return;
	trace_add_part(&stream.packets, &header, packets->bytes, packets->size, 0);
	decoded = pt_decode(&stream, PT_INSTRUCTIONS);
	if (decoded.errors)
		warn("%s:%u: %s before byte %llu of these packets", log, packets->line,
		     decoded.error, (unsigned long long)decoded.error_at);
	first = decoded.count > MOST_OF_PACKETS ? decoded.count - MOST_OF_PACKETS : 0;
	for (const struct trace_record *record = &decoded.records[first];
	     record < &decoded.records[decoded.count]; record++)
		if (!record_is_stamp(record))
			add(&group,
			    (struct branch){record->from, record->to, packets->line, "", ""});
	print_group(&group, log, space, &oldest_first);
	free(group.branches);
	free(decoded.records);
	free(decoded.cuts);
	free((void *)stream.packets.part->payload);
	free(stream.packets.part);
	packets->size = 0;
}

/* True: this line is of packets, or begins some. */
static bool take_packets(struct packets *packets, const char *line, unsigned number,
			 const char *log, const struct space *space)
{
	bool begins = strstr(line, "packets of CPU ") != NULL;

	if (packets->begun && !begins && read_bytes(packets, line))
		return true;
	if (packets->begun)
		print_packets(packets, log, space);
	packets->begun = begins;
	packets->line = number;
	return begins;
}

static int read_log(const char *log, const struct space *space, const struct options *options)
{
	struct packets packets = {0};
	struct group group = {0};
	size_t size, groups = 0;
	char *text = read_file(log, &size);
	unsigned number = 1;

	for (char *line = text, *next; line < text + size; line = next, number++) {
		struct branch branch = {.line = number};

		next = line + strcspn(line, "\n");
		*next++ = 0;
		if (read_branch(line, &branch)) {
			groups += !group.count;
			add(&group, branch);
			continue;
		}
		print_group(&group, log, space, options);
		groups += take_packets(&packets, line, number, log, space);
	}
	print_group(&group, log, space, options);
	print_packets(&packets, log, space);
	free(packets.bytes);
	free(group.branches);
	free(text);
	if (!groups)
		fail("%s: no line has a branch, 'ADDRESS -> ADDRESS'", log);
	return 0;
}

static void usage(void)
{
	puts("usage: view panic [options] LOG\n\n"
	     "Prints the branches that a console log has (\"# last branches of this CPU\" of a\n"
	     "panic, or any lines ADDRESS -> ADDRESS) with function, file and line, oldest first,\n"
	     "and the calls that they were. The log may have been pasted: what is before an\n"
	     "address does not matter. Packets of Intel PT in it are decoded. '-' is standard\n"
	     "input.\n\n"
	     "  -e, --elf FILE       the kernel that ran (default build/spoor.elf)\n"
	     "  -p, --program FILE   what is in the lower half: a program of ring 3\n"
	     "  -o, --oldest-first   the log has the oldest branch first; a panic has the newest\n"
	     "  -h, --help");
}

static struct code *open_code(const char *path)
{
	char error[512];
	struct code *code = code_open(path, error, sizeof(error));

	if (!code)
		fail("%s", error);
	if (!code_has_symbols(code))
		fail("%s has no symbols: was it stripped?", path);
	return code;
}

int view_panic(int argc, char **argv)
{
	static const struct option words[] = {{"elf", required_argument, NULL, 'e'},
					      {"program", required_argument, NULL, 'p'},
					      {"oldest-first", no_argument, NULL, 'o'},
					      {"help", no_argument, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	struct options options = {.elf = "build/spoor.elf"};
	struct code *kernel, *program;
	int option;

	while ((option = getopt_long(argc, argv, "e:p:oh", words, NULL)) != -1)
		switch (option) {
		case 'e':
			options.elf = optarg;
			break;
		case 'p':
			options.program = optarg;
			break;
		case 'o':
			options.oldest_first = true;
			break;
		case 'h':
			usage();
			return 0;
		default:
			return EXIT_USAGE;
		}
	if (argc - optind != 1)
		fail_usage("panic", "panic needs one log");
	kernel = open_code(options.elf);
	program = options.program ? open_code(options.program) : NULL;
	read_log(argv[optind], &(struct space){.kernel = kernel, .program = program}, &options);
	code_close(program);
	code_close(kernel);
	return 0;
}
