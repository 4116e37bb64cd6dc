// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "kernel/process/program.h"
#include "lib/elf.h"

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

int program_load(struct space *space, const void *image, size_t size, uint64_t *entry)
{
	struct elf_image elf;
	struct elf_segment segment;
	unsigned cursor = 0;

	if (elf_open(&elf, image, size))
		return -ENOEXEC;
	while (elf_next_segment(&elf, &cursor, &segment)) {
		int error = load_segment(space, &segment);

		if (error)
			return error;
	}
	*entry = elf.entry;
	return space_map(space, STACK_TOP - STACK_PAGES * PAGE_SIZE, STACK_PAGES, VM_WRITE);
}
