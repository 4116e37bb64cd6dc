// SPDX-License-Identifier: MIT
// The kernel and the programs whose branches a trace has.
#define _GNU_SOURCE
#include "tools/view/perf_file.h"
#include "tools/view/trace.h"
#include "tools/view/view.h"

#include <limits.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void keep_code(struct trace *trace, struct code *code)
{
	trace->codes = reallocate(trace->codes, trace->code_count + 1, sizeof(*trace->codes));
	trace->codes[trace->code_count++] = code;
}

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
	keep_code(trace, code);
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

const struct trace_root *trace_root(const struct trace *trace, uint64_t cr3, uint32_t sequence)
{
	const struct trace_root *root = trace ? trace->roots : NULL;
	size_t before = COUNT_FIRST(trace ? trace->root_count : 0, at,
				    root[at].cr3 < cr3 ||
					    (root[at].cr3 == cr3 && root[at].sequence < sequence));

	return before && root[before - 1].cr3 == cr3 ? &root[before - 1] : NULL;
}

bool trace_has_root(const struct trace *trace, uint32_t first, uint32_t last)
{
	size_t count = trace ? trace->root_count : 0;
	size_t before = COUNT_FIRST(count, at, trace->root_sequences[at] <= first);

	return before < count && trace->root_sequences[before] < last;
}

void trace_open_code(struct trace *trace, const char *elf, const char *program,
		     const char *directory)
{
	struct code *kernel;

	if (trace->perf) {
		perf_open_code(trace, program, directory);
		return;
	}
	if (!directory)
		directory = "build/user";
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

/* --- Files that tasks of Linux had in memory ----------------------------------------------------
 */

struct mapped_file {
	char *path;
	uint8_t build_id[20];
	size_t build_id_size;
	struct code *code; /* NULL: not known */
};

static int compare_files(const void *left, const void *right)
{
	const struct mapped_file *a = left, *b = right;
	int order = strcmp(a->path, b->path);

	return order ? order : memcmp(a->build_id, b->build_id, sizeof(a->build_id));
}

const struct mapped_file *files_add(void **files, const char *path, const uint8_t *build_id,
				    size_t size)
{
	struct mapped_file key = {.path = (char *)path, .build_id_size = size}, *file, **found;

	if (size)
		memcpy(key.build_id, build_id, size);
	found = tfind(&key, files, compare_files);
	if (found)
		return *found;
	file = allocate(1, sizeof(*file));
	*file = key;
	file->path = strdup(path);
	if (!file->path || !tsearch(file, files, compare_files))
		fail("no memory for the names of files");
	return file;
}

struct opening {
	struct trace *trace;
	const char *program, *directory;
};

static bool has_build_id(const struct code *code, const struct mapped_file *file)
{
	size_t size;
	const uint8_t *id = code_build_id(code, &size);

	return !file->build_id_size ||
	       (size == file->build_id_size && !memcmp(id, file->build_id, size));
}

/* Names in /proc and the like do not end when they are read. */
static bool is_readable(const char *path)
{
	static const char *const others[] = {"/proc/", "/sys/", "/dev/"};
	char *real = realpath(path, NULL);
	struct stat is;
	bool well = real && !stat(real, &is) && S_ISREG(is.st_mode);

	for (size_t i = 0; real && i < sizeof(others) / sizeof(others[0]); i++)
		well &= strncmp(real, others[i], strlen(others[i])) != 0;
	free(real);
	return well;
}

/* Whether it is the file; `*other`: it is there, and is another. */
static bool try_file(struct trace *trace, struct mapped_file *file, const char *path, bool *other)
{
	char error[512];
	struct code *code = NULL;

	for (size_t i = 0; i < trace->code_count; i++)
		if (!strcmp(code_path(trace->codes[i]), path))
			code = trace->codes[i];
	if (!code && is_readable(path)) {
		code = code_open(path, error, sizeof(error));
		*other |= !code;
		if (code)
			keep_code(trace, code);
	}
	if (!code)
		return false;
	if (!has_build_id(code, file)) {
		*other = true;
		return false;
	}
	file->code = code;
	return true;
}

static bool try_format(struct trace *trace, struct mapped_file *file, bool *other,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));

static bool try_format(struct trace *trace, struct mapped_file *file, bool *other,
		       const char *format, ...)
{
	va_list arguments;
	char *path;
	bool well;

	va_start(arguments, format);
	if (vasprintf(&path, format, arguments) < 0)
		fail("no memory for the name of a file");
	va_end(arguments);
	well = try_file(trace, file, path, other);
	free(path);
	return well;
}

/* What perf keeps below `home` of each file that it has seen: by build-id. */
static bool try_cache(struct trace *trace, struct mapped_file *file, const char *home, bool *other)
{
	char id[2 * sizeof(file->build_id) + 1];

	if (!home || file->build_id_size < 2)
		return false;
	for (size_t i = 0; i < file->build_id_size; i++)
		snprintf(id + 2 * i, 3, "%02x", file->build_id[i]);
	return try_format(trace, file, other, "%s/.debug/.build-id/%.2s/%s/elf", home, id,
			  id + 2) ||
	       try_format(trace, file, other, "%s/.debug/.build-id/%.2s/%s/vdso", home, id, id + 2);
}

/* Where `view record` keeps what its guest had: the build directory, which this program is in. */
static const char *guest_directory(void)
{
	static char path[PATH_MAX + sizeof("/linux")];
	char *last;

	if (readlink("/proc/self/exe", path, PATH_MAX) < 0)
		return NULL;
	last = strrchr(path, '/');
	strcpy(last ? last : path, "/linux");
	return path;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void open_file(struct mapped_file *file, const struct opening *opening)
{
	struct trace *trace = opening->trace;
	const char *program = opening->program, *directory = opening->directory,
		   *name = name_of(file->path);
	bool other = false, well = false;

	if (program && !strcmp(name_of(program), name))
		well = try_file(trace, file, program, &other);
	else if (directory && file->path[0] == '/')
		well = try_format(trace, file, &other, "%s%s", directory, file->path) ||
		       try_format(trace, file, &other, "%s/%s", directory, name);
	else if (file->path[0] == '/')
		well = try_file(trace, file, file->path, &other);
	if (!well && !try_cache(trace, file, directory, &other) &&
	    !try_cache(trace, file, getenv("HOME"), &other) &&
	    !try_cache(trace, file, guest_directory(), &other)) {
		make_printable(file->path, strlen(file->path));
		if (other)
			warn("%s is not the file that ran, by its build-id: its code is unknown",
			     file->path);
		else if (file->path[0] == '/')
			warn("%s is not there: its code is unknown", file->path);
	}
}

static void visit_file(const void *node, VISIT visit, void *opening)
{
	if (visit == postorder || visit == leaf)
		open_file(*(struct mapped_file *const *)node, opening);
}

void files_open(struct trace *trace, void *files, const char *program, const char *directory)
{
	struct opening opening = {trace, program, directory};

	twalk_r(files, visit_file, &opening);
}

const struct code *kernel_open(struct trace *trace)
{
	char error[512], *path;
	struct code *code = NULL;
	size_t size = trace->inside ? strlen(trace->inside) : 0;

	if (!size)
		return NULL;
	if (asprintf(&path, "%.*s/kcore_dir/kcore", (int)(size - strlen("/data")), trace->inside) <
	    0)
		fail("no memory for the name of a file");
	if (is_readable(path)) {
		code = code_open(path, error, sizeof(error));
		if (code)
			keep_code(trace, code);
		else
			warn("%s: the kernel's code is unknown", error);
	}
	free(path);
	return code;
}

const struct code *file_code(const struct mapped_file *file, uint64_t address, uint64_t offset)
{
	return file && file->code ? code_mapped(file->code, address, offset) : NULL;
}

static void free_file(void *node)
{
	struct mapped_file *file = node;

	free(file->path);
	free(file);
}

void files_free(void *files)
{
	tdestroy(files, free_file);
}
