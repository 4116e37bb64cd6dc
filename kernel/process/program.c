// SPDX-License-Identifier: MIT
#include "kernel/process/program.h"
#include "abi/errno.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/mm/vm.h"
#include "lib/elf.h"
#include "lib/format.h"
#include "lib/frame.h"
#include "lib/string.h"
#include "lib/unpack.h"

extern const uint8_t user_programs_start[], user_programs_end[]; /* linker.ld */

static const uint8_t *first;
static size_t total;
static struct program *given;
static uint64_t given_argument;

/* "dir/name.elf 17": the name without directory and ending, and the number. */
static void read_words(const char *words)
{
	size_t length = 0, start = 0, dot;

	for (; words[length] && words[length] != ' '; length++)
		if (words[length] == '/')
			start = length + 1;
	for (dot = length; dot > start && words[dot] != '.';)
		dot--;
	format(given->name, sizeof(given->name), "%.*s",
	       (int)((dot > start ? dot : length) - start), words + start);
	for (words += length; *words == ' ';)
		words++;
	for (; *words >= '0' && *words <= '9'; words++)
		given_argument = 10 * given_argument + (uint64_t)(*words - '0');
}

static void take_given(const struct boot_module *module)
{
	size_t size = module->end - module->start;

	given = area_alloc((sizeof(*given) + size + PAGE_SIZE - 1) / PAGE_SIZE, VM_WRITE);
	if (!given)
		refuse("no memory for the program %s", module->string);
	given->size = size;
	memcpy(given->image, direct(module->start), size);
	read_words(module->string);
}

const struct program *program_given(uint64_t *argument)
{
	*argument = given_argument;
	return given;
}

void programs_init(const struct boot_info *info)
{
	const uint8_t *packed = user_programs_start;
	size_t size = (size_t)(user_programs_end - packed);
	uint32_t bytes;
	void *area;

	if (size < sizeof(bytes))
		return;
	memcpy(&bytes, packed, sizeof(bytes));
	area = area_alloc((bytes + PAGE_SIZE - 1) / PAGE_SIZE, VM_WRITE);
	if (!area)
		refuse("no memory for %u bytes of programs", bytes);
	if (unpack(packed + sizeof(bytes), size - sizeof(bytes), area, bytes) != bytes)
		refuse("the programs in the kernel's image are damaged");
	first = area;
	total = bytes;
	if (info->module_count)
		take_given(&info->modules[0]);
}

const struct program *program_find(const char *name)
{
	const struct program *program;

	if (given && !strcmp(given->name, name))
		return given;
	for (size_t at = 0; at < total; at += sizeof(*program) + ((program->size + 7) & ~7ul)) {
		program = (const struct program *)(first + at);
		if (!strcmp(program->name, name))
			return program;
	}
	return NULL;
}

uint32_t program_checksum(const char *name)
{
	const struct program *program = program_find(name);
	struct elf_image elf;
	struct elf_segment segment;
	unsigned cursor = 0;
	uint32_t crc = 0;

	if (!program || elf_open(&elf, program->image, program->size))
		return 0;
	while (elf_next_segment(&elf, &cursor, &segment))
		crc = crc32c(crc, segment.data, segment.file_size);
	return crc;
}

static int load_segment(struct space *space, const struct elf_segment *segment)
{
	uint64_t start = segment->virtual_address & ~(PAGE_SIZE - 1);
	uint64_t offset = segment->virtual_address - start;
	unsigned flags =
		(segment->writable ? VM_WRITE : 0u) | (segment->executable ? VM_EXECUTE : 0u);
	int error;

	if (!is_user_range(segment->virtual_address, segment->memory_size))
		return -ENOEXEC;
	error = space_map(space, start, (offset + segment->memory_size + PAGE_SIZE - 1) / PAGE_SIZE,
			  flags);
	if (!error)
		error = space_write(space, segment->virtual_address, segment->data,
				    segment->file_size);
	return error == -EINVAL || error == -EEXIST ? -ENOEXEC : error;
}

int program_load(struct space *space, const void *image, size_t size, struct trap_frame *frame)
{
	struct elf_image elf;
	struct elf_segment segment;
	unsigned cursor = 0;
	uint64_t top;

	if (elf_open(&elf, image, size))
		return -ENOEXEC;
	while (elf_next_segment(&elf, &cursor, &segment)) {
		int error = load_segment(space, &segment);

		if (error)
			return error;
	}
	top = elf.is_32 ? STACK_TOP_32 : STACK_TOP;
	frame->rip = elf.entry;
	frame->cs = elf.is_32 ? USER_CODE_32 : USER_CODE;
	/* As after a CALL: the return address is the zero of the new page. */
	frame->rsp = top - sizeof(uint64_t);
	return space_map(space, top - STACK_PAGES * PAGE_SIZE, STACK_PAGES, VM_WRITE);
}
