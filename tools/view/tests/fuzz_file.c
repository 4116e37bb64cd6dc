// SPDX-License-Identifier: MIT
/*
 * For libFuzzer: bytes as an ELF file, in which every kind of question is asked, and as a console
 * log that `view panic` reads. The first byte chooses. What ends `view` with a sentence goes on
 * with the next input: the linker gives fail() another meaning (--wrap).
 */
#define _GNU_SOURCE
#include "tools/view/code.h"
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
	struct space space = {NULL, code}, kernel = {code, NULL};
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

			space_walk(&space, address, address + 100, &count);
			space_describe(address >> 63 ? &kernel : &space, address, text,
				       sizeof(text));
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
		if (bytes[0] & 1)
			read_elf(path);
		else
			read_log(path);
	}
	close(file);
	return 0;
}
