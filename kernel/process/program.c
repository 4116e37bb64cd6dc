// SPDX-License-Identifier: MIT
#include "kernel/process/program.h"

#include "kernel/end.h"
#include "kernel/mm/area.h"
#include "lib/string.h"
#include "lib/unpack.h"

extern const uint8_t user_programs_start[], user_programs_end[]; /* linker.ld */

static const uint8_t *first;
static size_t total;

void programs_init(void)
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
}

const struct program *program_find(const char *name)
{
	const struct program *program;

	for (size_t at = 0; at < total; at += sizeof(*program) + ((program->size + 7) & ~7ul)) {
		program = (const struct program *)(first + at);
		if (!strcmp(program->name, name))
			return program;
	}
	return NULL;
}
