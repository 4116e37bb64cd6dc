// SPDX-License-Identifier: MIT
// How often each instruction of a stream ran, with disassembly and source lines.
#define _GNU_SOURCE
#include "tools/view/listing.h"

#include "tools/view/packed.h"
#include "tools/view/view.h"

#include <Zydis/Zydis.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SKIPPED	    4096 /* bytes of a function in which nothing ran are left out from here on */
#define ROWS_MOST   (1u << 20)	/* instructions of a stream that a page shows */
#define LINES_MOST  (1u << 20)	/* of a source file */
#define SOURCE_MOST (32l << 20) /* bytes of a source file */

struct block {
	const struct space *space;
	const struct code *code;
	uint64_t at, from, count;
	bool executed;
};

struct listing {
	struct block *blocks;
	size_t count, room;
};

/* From `address` on instructions ran `change` times more often. */
struct mark {
	const struct space *space;
	const struct code *code;
	uint64_t address;
	int64_t change;
};

struct source {
	const char *name; /* of names_keep() */
	const struct code *code;
	uint8_t *used; /* by line: whether a row is of it */
	size_t room;
};

/* A listing on its way into the page. */
struct writer {
	FILE *to;
	long (*frame_of)(void *argument, const char *name, uint64_t address);
	void *argument;
	const struct mark *mark, *end; /* that are to come, of one file */
	int64_t running;	       /* how often the instruction that is next ran */
	struct source *sources;
	size_t source_count;
	size_t rows, functions;
};

struct listing *listing_new(void)
{
	return allocate(1, sizeof(struct listing));
}

void listing_free(struct listing *listing)
{
	free(listing->blocks);
	free(listing);
}

bool listing_is_empty(const struct listing *listing)
{
	return !listing->count;
}

static struct block *find_block(const struct listing *listing, const struct block *key)
{
	size_t slot = hash_of(key->at * 2 + key->executed, key->from) & (listing->room - 1);
	struct block *block;

	for (;; slot = (slot + 1) & (listing->room - 1)) {
		block = &listing->blocks[slot];
		if (!block->count || (block->at == key->at && block->from == key->from &&
				      block->executed == key->executed && block->code == key->code))
			return block;
	}
}

static void grow(struct listing *listing)
{
	struct listing larger = {.room = listing->room ? 2 * listing->room : 1024,
				 .count = listing->count};

	larger.blocks = allocate(larger.room, sizeof(*larger.blocks));
	for (size_t i = 0; i < listing->room; i++)
		if (listing->blocks[i].count)
			*find_block(&larger, &listing->blocks[i]) = listing->blocks[i];
	free(listing->blocks);
	*listing = larger;
}

void listing_add(struct listing *listing, const struct space *space, uint64_t at, uint64_t from,
		 bool executed)
{
	struct block key = {space, space_code(space, from), at, from, 0, executed}, *block;

	if (!key.code || (at == from && !executed))
		return;
	if (2 * listing->count >= listing->room)
		grow(listing);
	block = find_block(listing, &key);
	if (!block->count) {
		*block = key;
		listing->count++;
	}
	block->count++;
}

static int compare_marks(const void *left, const void *right)
{
	const struct mark *a = left, *b = right;

	if (a->code != b->code)
		return code_serial(a->code) < code_serial(b->code) ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

/* Two for each block, sorted. */
static struct mark *make_marks(const struct listing *listing, size_t *count)
{
	struct mark *marks = allocate(2 * listing->count + 1, sizeof(*marks));

	*count = 0;
	for (size_t i = 0; i < listing->room; i++) {
		const struct block *block = &listing->blocks[i];
		struct instruction last;

		if (!block->count)
			continue;
		last = space_instruction(block->space, block->from);
		if (last.flow == FLOW_UNKNOWN)
			continue;
		marks[(*count)++] =
			(struct mark){block->space, block->code, block->at, (int64_t)block->count};
		marks[(*count)++] = (struct mark){block->space, block->code,
						  block->executed ? last.next : block->from,
						  -(int64_t)block->count};
	}
	qsort(marks, *count, sizeof(*marks), compare_marks);
	return marks;
}

static void use_line(struct source *source, size_t line)
{
	if (line >= LINES_MOST)
		return;
	if (line >= source->room) {
		size_t room = 2 * line + 64;

		source->used = reallocate(source->used, room, 1);
		memset(source->used + source->room, 0, room - source->room);
		source->room = room;
	}
	source->used[line] = 1;
}

/* The number of a source; -1: it is not known. */
static long source_of(struct writer *writer, const struct code *code, struct line line)
{
	size_t at = writer->source_count;

	if (!line.file || line.number <= 0)
		return -1;
	while (at-- > 0 && writer->sources[at].name != line.file)
		;
	if (at == SIZE_MAX) {
		at = writer->source_count++;
		writer->sources =
			reallocate(writer->sources, writer->source_count, sizeof(*writer->sources));
		writer->sources[at] = (struct source){.name = line.file, .code = code};
	}
	use_line(&writer->sources[at], (size_t)line.number);
	return (long)at;
}

/* In Intel's syntax, with the name of what it goes to. */
static void disassemble(const struct space *space, uint64_t address, unsigned length, char *text,
			size_t size)
{
	static const ZydisFormatterProperty plain[] = {ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
						       ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE,
						       ZYDIS_FORMATTER_PROP_DISP_PADDING,
						       ZYDIS_FORMATTER_PROP_IMM_PADDING};
	static ZydisDecoder decoder;
	static ZydisFormatter formatter;
	static bool ready;
	ZydisDecodedInstruction decoded;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	struct instruction instruction = space_instruction(space, address);
	size_t left, used;
	const uint8_t *bytes = code_bytes(space_code(space, address), address, &left);

	if (!ready) {
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
		for (unsigned i = 0; i < sizeof(plain) / sizeof(*plain); i++)
			ZydisFormatterSetProperty(&formatter, plain[i], ZYDIS_PADDING_DISABLED);
		ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, 0);
		ready = true;
	}
	if (!bytes || left < length || instruction.length != length ||
	    ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, bytes, length, &decoded, operands)) ||
	    ZYAN_FAILED(ZydisFormatterFormatInstruction(&formatter, &decoded, operands,
							decoded.operand_count_visible, text, size,
							address, NULL))) {
		snprintf(text, size, "(%u bytes)", length);
		return;
	}
	used = strlen(text);
	if (!instruction.direct || !space_function(space, instruction.target) || used + 4 > size)
		return;
	used += (size_t)snprintf(text + used, size - used, " <");
	space_describe(space, instruction.target, text + used, size - used - 1);
	strcat(text, ">");
}

/* Goes past the marks at `address`. */
static void take_marks(struct writer *writer, uint64_t address)
{
	for (; writer->mark < writer->end && writer->mark->address <= address; writer->mark++)
		writer->running += writer->mark->change;
}

/* One instruction, up to the next mark at most; returns where the next one is. */
static uint64_t put_row(struct writer *writer, const struct space *space, uint64_t start,
			uint64_t at, const char *comma)
{
	struct instruction instruction = space_instruction(space, at);
	unsigned length = instruction.length ? instruction.length : 1;
	struct line line = space_line(space, at);
	char text[512];

	if (writer->mark < writer->end && writer->mark->address - at < length)
		length = (unsigned)(writer->mark->address - at);
	disassemble(space, at, length, text, sizeof(text));
	fprintf(writer->to, "%s[%llu,%lld,%ld,%d,", comma, (unsigned long long)(at - start),
		(long long)writer->running, source_of(writer, space_code(space, at), line),
		line.number);
	packed_string(writer->to, text);
	fputc(']', writer->to);
	writer->rows++;
	return at + length;
}

/*
 * The rows of `function` from `at` on; NULL: of what ran outside of any. Returns where they end:
 * there another function begins, or nothing more of this one ran.
 */
static uint64_t put_rows(struct writer *writer, const struct space *space,
			 const struct function *function, uint64_t start, uint64_t at)
{
	const char *comma = "";

	while (writer->rows < ROWS_MOST && space_function(space, at) == function) {
		uint64_t next;

		take_marks(writer, at);
		next = writer->mark < writer->end ? writer->mark->address : UINT64_MAX;
		if (!writer->running && !function)
			break;
		if (!writer->running && next < function->end && next - at > SKIPPED) {
			at = next;
			continue;
		}
		if (!writer->running && next >= function->end && function->end - at > SKIPPED)
			break;
		at = put_row(writer, space, start, at, comma);
		comma = ",";
	}
	return at;
}

/* The function at `at`, of which nothing was put before `done`; returns where it ends. */
static uint64_t put_function(struct writer *writer, uint64_t at, uint64_t done)
{
	const struct space *space = writer->mark->space;
	const struct function *function = space_function(space, at);
	uint64_t start = function ? function->start : at, begin = start > done ? start : done;
	const char *path = code_path(writer->mark->code), *slash = strrchr(path, '/');
	long frame = writer->frame_of(writer->argument, function ? function->name : NULL, at);

	if (frame < 0 || writer->rows == ROWS_MOST) {
		begin = function ? function->end : writer->mark[1].address;
		take_marks(writer, begin - 1);
		return begin;
	}
	if (space_function(space, begin) != function)
		begin = at;
	fprintf(writer->to,
		"%s\n{\"frame\":%ld,\"start\":\"0x%llx\",\"file\":", writer->functions++ ? "," : "",
		frame, (unsigned long long)start);
	packed_string(writer->to, slash ? slash + 1 : path);
	fputs(",\"rows\":[", writer->to);
	begin = put_rows(writer, space, function, start, begin);
	fputs("]}", writer->to);
	return begin;
}

static void put_functions(struct writer *writer, const struct mark *marks, size_t count)
{
	fputs("{\"functions\":[", writer->to);
	for (size_t i = 0; i < count;) {
		uint64_t at = 0;

		writer->mark = &marks[i];
		while (i < count && marks[i].code == writer->mark->code)
			i++;
		writer->end = &marks[i];
		while (writer->mark < writer->end) {
			at = put_function(writer, writer->running ? at : writer->mark->address, at);
			take_marks(writer, at);
		}
	}
	fputc(']', writer->to);
}

/* A file that a compiler reads: of another name it is nobody's business. */
static bool is_source(const char *name)
{
	static const char *const endings[] = {"c",   "h",  "cc", "cpp", "cxx", "hh",  "hpp", "hxx",
					      "tcc", "rs", "s",	 "S",	"asm", "inc", "go",  "l",
					      "y",   "d",  "C",	 "H",	"ipp", "def"};
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof(endings) / sizeof(*endings); i++)
		if (!strcmp(dot + 1, endings[i]))
			return true;
	return false;
}

/* NULL: it is none, or not there. */
static FILE *open_source(const struct source *source, bool *newer)
{
	struct stat status, code;
	int fd = is_source(source->name)
			 ? open(source->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
			 : -1;
	FILE *file;

	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) ||
	    status.st_size > SOURCE_MOST || !(file = fdopen(fd, "r"))) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*newer = !stat(code_path(source->code), &code) && status.st_mtime > code.st_mtime;
	return file;
}

/* Whether a line is one of a row, or close after one and before another. */
static bool is_shown(const struct source *source, size_t line)
{
	size_t before = line, after = line;

	while (before > 0 && line - before < LISTING_HOLE && !source->used[before])
		before--;
	while (after < source->room - 1 && after - line < LISTING_HOLE && !source->used[after])
		after++;
	return source->used[before] && source->used[after] && after - before <= LISTING_HOLE + 1;
}

static void put_source(const struct source *source, FILE *to)
{
	bool newer = false;
	FILE *file = open_source(source, &newer);
	char *text = NULL;
	size_t room = 0, shown = 0;
	ssize_t size;

	fputs("{\"name\":", to);
	packed_string(to, source->name);
	fprintf(to, ",\"newer\":%s,\"lines\":[", newer ? "true" : "false");
	for (size_t line = 1;
	     file && line < source->room && (size = getline(&text, &room, file)) >= 0; line++) {
		if (!is_shown(source, line))
			continue;
		while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
			text[--size] = '\0';
		fprintf(to, "%s[%zu,", shown++ ? "," : "", line);
		packed_string(to, text);
		fputc(']', to);
	}
	fputs("]}", to);
	free(text);
	if (file)
		fclose(file);
}

void listing_put(const struct listing *listing, FILE *to,
		 long (*frame_of)(void *argument, const char *name, uint64_t address),
		 void *argument)
{
	struct writer writer = {.to = to, .frame_of = frame_of, .argument = argument};
	size_t count;
	struct mark *marks = make_marks(listing, &count);

	put_functions(&writer, marks, count);
	fputs(",\"sources\":[", to);
	for (size_t i = 0; i < writer.source_count; i++) {
		fputs(i ? ",\n" : "\n", to);
		put_source(&writer.sources[i], to);
		free(writer.sources[i].used);
	}
	fputs("]}", to);
	free(writer.sources);
	free(marks);
}
