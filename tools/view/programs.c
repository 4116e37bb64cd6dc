// SPDX-License-Identifier: MIT
// The kernel and the programs whose branches a trace has.
#define _GNU_SOURCE
#include "tools/view/trace.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NULL, with a warning, if there is no such file. */
static struct code *open_code(struct trace *trace, const char *path)
{
	char error[512];
	struct code *code;

	for (size_t i = 0; i < trace->code_count; i++)
		if (!strcmp(code_path(trace->codes[i]), path))
			return trace->codes[i];
	if (access(path, F_OK)) {
		warn("%s is not there: its code is unknown", path);
		return NULL;
	}
	code = code_open(path, error, sizeof(error));
	if (!code)
		fail("%s", error);
	trace->codes = reallocate(trace->codes, trace->code_count + 1, sizeof(*trace->codes));
	trace->codes[trace->code_count++] = code;
	return code;
}

static void open_kernel(struct trace *trace, const char *elf, struct code **kernel)
{
	size_t size;
	const uint8_t *id;

	*kernel = open_code(trace, elf);
	if (!*kernel || !trace->build_id_size)
		return;
	id = code_build_id(*kernel, &size);
	if (size != trace->build_id_size || memcmp(id, trace->build_id, size))
		fail("%s is not the kernel that ran: its build-id differs from the trace's", elf);
}

/* A name from a stream leads nowhere but into the directory; NULL, with a warning: it is not there.
 */
static struct code *open_program(struct trace *trace, const char *name, const char *directory)
{
	struct code *code;
	char *path;

	if (strchr(name, '/'))
		fail("%s: a task has the program '%s': a file's name without a directory has to be there (--program: that file for all tasks)",
		     trace->path, name);
	if (asprintf(&path, "%s/%s.elf", directory, name) < 0)
		fail("no memory for the name of a file");
	code = open_code(trace, path);
	free(path);
	return code;
}

static int compare_roots(const void *left, const void *right)
{
	const struct trace_root *a = left, *b = right;

	if (a->cr3 != b->cr3)
		return a->cr3 < b->cr3 ? -1 : 1;
	return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static int compare_sequences(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static void arrange_roots(struct trace *trace)
{
	size_t count = trace->root_count;

	if (!count)
		return;
	qsort(trace->roots, count, sizeof(*trace->roots), compare_roots);
	trace->root_sequences = allocate(count, sizeof(*trace->root_sequences));
	for (size_t i = 0; i < count; i++)
		trace->root_sequences[i] = trace->roots[i].sequence;
	qsort(trace->root_sequences, count, sizeof(*trace->root_sequences), compare_sequences);
}

void trace_open_code(struct trace *trace, const char *elf, const char *program,
		     const char *directory)
{
	struct code *kernel;

	arrange_roots(trace);
	open_kernel(trace, elf, &kernel);
	for (size_t i = 0; i < trace->stream_count; i++) {
		struct trace_stream *stream = &trace->streams[i];
		struct code *code;

		stream->space.kernel = kernel;
		stream->trace = trace;
		if (!stream->program[0] && !program)
			continue;
		code = program ? open_code(trace, program)
			       : open_program(trace, stream->program, directory);
		stream->space.program = code;
		if (code && stream->checksum && stream->checksum != code_checksum(code))
			fail("%s is not the program that ran: its segments' checksum is %08x, not %08x",
			     code_path(code), code_checksum(code), stream->checksum);
	}
}

const struct space *trace_space(const struct trace_stream *stream, uint32_t pid)
{
	const struct trace_stream *task = stream->id & TRACE_STREAM_CPU && stream->trace
						  ? trace_find(stream->trace, pid)
						  : NULL;

	return &(task ? task : stream)->space;
}
