/* SPDX-License-Identifier: MIT */
#include "monitor/boot/kernel.h"

#include "lib/elf.h"
#include "lib/string.h"
#include "monitor/boot/information.h"
#include "monitor/boot/memory_map.h"
#include "monitor/console.h"
#include "monitor/options.h"

#define INFORMATION_BYTES (3 * PAGE_SIZE)

/* What the kernel's segments occupy, first to last. */
static struct range loaded;

uint64_t modules_size(const struct boot_info *info)
{
	uint64_t size = 0;

	for (unsigned i = 0; i < info->module_count; i++)
		size += page_up(info->modules[i].end - info->modules[i].start);
	return size;
}

void modules_copy(struct boot_info *info, uint64_t to)
{
	for (unsigned i = 0; i < info->module_count; i++) {
		struct boot_module *module = &info->modules[i];
		uint64_t size = module->end - module->start;

		memcpy(direct(to), direct(module->start), size);
		module->start = to;
		module->end = to + size;
		to += page_up(size);
	}
}

static struct range segment_range(const struct elf_segment *segment)
{
	return (struct range){segment->physical_address,
			      segment->physical_address + segment->memory_size};
}

static void check_segment(const struct boot_info *info, struct range segment, struct range taken)
{
	unsigned long long start = segment.start, end = segment.end;

	if (segment.end > memory_top(info) || segment.end > 4 * GIB)
		end_run(VERDICT_ERROR,
			"the kernel needs memory up to 0x%llx; this machine has it up to 0x%llx",
			end, (unsigned long long)memory_top(info));
	if (!memory_usable(info, segment))
		end_run(VERDICT_ERROR,
			"the kernel's segment 0x%llx to 0x%llx is not all usable memory", start,
			end);
	if (ranges_overlap(segment, taken))
		end_run(VERDICT_ERROR,
			"the kernel's segment 0x%llx to 0x%llx leaves no room for the monitor",
			start, end);
}

static void load_segments(const struct boot_info *info, const struct elf_image *elf,
			  struct range taken)
{
	struct elf_segment segment;

	loaded = (struct range){UINT64_MAX, 0};
	for (unsigned cursor = 0; elf_next_segment(elf, &cursor, &segment);) {
		struct range range = segment_range(&segment);
		uint8_t *to = direct(range.start);

		if (range.start == range.end)
			continue;
		check_segment(info, range, taken);
		memcpy(to, segment.data, segment.file_size);
		memset(to + segment.file_size, 0, segment.memory_size - segment.file_size);
		if (range.start < loaded.start)
			loaded.start = range.start;
		if (range.end > loaded.end)
			loaded.end = range.end;
	}
}

uint32_t kernel_load(struct boot_info *info, struct range taken)
{
	struct boot_module *module = &info->modules[0];
	struct elf_image elf;
	const char *fault, *words;

	fault = elf_open(&elf, direct(module->start), module->end - module->start);
	if (fault)
		end_run(VERDICT_ERROR, "the first module cannot be run as a kernel: %s", fault);
	load_segments(info, &elf, taken);
	if (elf.entry_physical < loaded.start || elf.entry_physical >= loaded.end)
		end_run(VERDICT_ERROR, "the kernel's entry point is in none of its segments");
	words = loader_words(info, module->string);
	memmove(info->command_line, words, strlen(words) + 1);
	info->module_count--;
	memmove(&info->modules[0], &info->modules[1], info->module_count * sizeof(*module));
	return (uint32_t)elf.entry_physical;
}

uint64_t low_page_reserve(struct boot_info *info)
{
	const struct memory_request request = {
		.size = PAGE_SIZE,
		.within = {PAGE_SIZE, 1 << 20},
		.from_top = true,
		.avoided = 1,
		.avoid = {loaded},
	};
	uint64_t page;

	if (!memory_find(info, &request, &page) ||
	    !memory_reserve(info, (struct range){page, page + PAGE_SIZE}))
		return 0;
	return page;
}

struct kernel_entry kernel_inform(const struct boot_info *info, struct range taken, uint32_t entry)
{
	struct memory_request request = {
		.size = PAGE_SIZE + INFORMATION_BYTES,
		.within = {1 << 20, 4 * GIB},
		.avoided = 2,
		.avoid = {taken, loaded},
	};
	uint64_t place;

	/* Kernels like to use the first MiB for their own purposes: only if there is nothing
	   else, and never the first page, which the BIOS uses. */
	if (!memory_find(info, &request, &place)) {
		request.within.start = PAGE_SIZE;
		if (!memory_find(info, &request, &place))
			end_run(VERDICT_ERROR, "no memory left for the kernel's boot information");
	}
	if (!information_build(direct(place + PAGE_SIZE), INFORMATION_BYTES, info))
		end_run(VERDICT_ERROR, "the kernel's boot information is too large");
	return (struct kernel_entry){entry, (uint32_t)(place + PAGE_SIZE), (uint32_t)place};
}
