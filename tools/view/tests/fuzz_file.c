// SPDX-License-Identifier: MIT
/*
 * For libFuzzer: bytes as an ELF file, in which every kind of question is asked, as perf.data of
 * the program that $FUZZ_CODE names, and as a console log that `view panic` reads. The first byte
 * chooses. What ends `view` with a sentence goes on with the next input: the linker gives fail()
 * another meaning (--wrap).
 */
#define _GNU_SOURCE
#include "tools/view/follow.h"
#include "tools/view/inlined.h"
#include "tools/view/perf_file.h"
#include "tools/view/pt.h"
#include "tools/view/view.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static jmp_buf failed;
static uint64_t sum;

_Noreturn void __wrap_fail(const char *format, ...);

void __wrap_fail(const char *format, ...)
{
	(void)format;
	longjmp(failed, 1);
}

static void ask(const struct code *code)
{
	struct space space = {.program = code}, kernel = {.kernel = code};
	struct segment segment;
	char text[64];
	size_t size;

	sum += code_checksum(code) + code_has_symbols(code) + code_symbol(code, "main");
	if (code_build_id(code, &size))
		sum += size;
	for (unsigned i = 0; code_segment(code, i, &segment); i++)
		for (uint64_t at = 0; at < 64; at++) {
			uint64_t address = segment.address + at * (segment.file_size / 64 + 1),
				 count = 0;
			const struct inline_frame *inlined = code_inlined(code, address);

			space_walk(&space, address, address + 100, &count);
			space_describe(address >> 63 ? &kernel : &space, address, text,
				       sizeof(text));
			sum += inlined ? strlen(inlined->name) + inlined->depth : 0;
			sum += count + (uint64_t)code_line(code, address).number + strlen(text);
		}
}

static void read_elf(const char *path)
{
	char error[256];
	struct code *code = code_open(path, error, sizeof(error));

	if (!code)
		return;
	ask(code);
	code_close(code);
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	(void)argument;
	sum += item->record.from + stack->depth + position;
}

/* No file of this machine is read but the program. */
static void read_perf(const uint8_t *bytes, size_t size)
{
	struct filter filter = {.cpu = -1, .to = UINT64_MAX, .depth = UINT32_MAX};
	const struct follow_events events = {.branch = branch};
	struct trace *trace = allocate(1, sizeof(*trace));
	char *file = allocate(size + 1, 1), text[256];

	memcpy(file, bytes, size);
	trace->path = "perf.data";
	if (!perf_is_data(file, size))
		fail("no perf.data");
	perf_load(trace, file, size);
	trace_open_code(trace, "none", getenv("FUZZ_CODE"), "/nowhere");
	pt_decode_trace(trace);
	if (trace_flaw(trace, text, sizeof(text)))
		sum += strlen(text);
	for (size_t i = 0; i < trace->stream_count; i++)
		follow(&filter, trace, &trace->streams[i], &events, NULL);
	trace_free(trace);
}

static void read_log(char *path)
{
	char *arguments[] = {(char *)"view panic", (char *)"-e",
			     (char *)"build/view-test/example.elf", path, NULL};

	optind = 0;
	view_panic(4, arguments);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return freopen("/dev/null", "w", stdout) ? 0 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int file = memfd_create("input", 0);
	char path[64];

	if (!size)
		return 0;
	if (file < 0 || write(file, bytes + 1, size - 1) != (ssize_t)size - 1)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (!setjmp(failed)) {
		if (bytes[0] & 2)
			read_perf(bytes + 1, size - 1);
		else if (bytes[0] & 1)
			read_elf(path);
		else
			read_log(path);
	}
	close(file);
	return 0;
}
