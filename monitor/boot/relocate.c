// SPDX-License-Identifier: MIT
#include "monitor/boot/relocate.h"

#include "monitor/boot/information.h"
#include "monitor/console.h"
#include "monitor/host/paging.h"

extern const char image_start[], rodata_start[], data_start[], image_end[];

#define LOADED_AT 0x100000ull

/* A virtual address of the image less the physical one: changes with the move. */
static uint64_t image_offset = IMAGE_BASE;
static uint64_t mapped_end = 4 * GIB;

uint64_t image_physical(const void *object)
{
	return (uint64_t)object - image_offset;
}

uint64_t direct_end(void)
{
	return mapped_end;
}

static uint64_t find_place(const struct boot_info *info, uint64_t size)
{
	struct memory_request request = {
		.size = size,
		.within = {LOADED_AT, 4 * GIB},
		.from_top = true,
	};
	uint64_t start;

	memory_avoid(&request, (struct range){LOADED_AT, image_physical(image_end)});
	for (unsigned i = 0; i < info->module_count; i++)
		memory_avoid(&request,
			     (struct range){info->modules[i].start, info->modules[i].end});
	if (!memory_find(info, &request, &start))
		end_run(VERDICT_ERROR, "no %llu KiB of free memory below 4 GiB for the monitor",
			(unsigned long long)size >> 10);
	return start;
}

static void map_section(uint64_t root, uint64_t image, const char *start, const char *end,
			uint64_t flags)
{
	for (const char *page = start; page < end; page += PAGE_SIZE)
		map_page(root, (uint64_t)page, image + (uint64_t)(page - image_start), flags);
}

static uint64_t build_tables(const struct boot_info *info, uint64_t image, uint64_t end)
{
	uint64_t root = page_allocate();

	map_section(root, image, image_start, rodata_start, 0);
	map_section(root, image, rodata_start, data_start, PAGE_NX);
	map_section(root, image, data_start, image_end, PAGE_NX | PAGE_WRITABLE);
	for (uint64_t at = 0; at < end; at += LARGE_PAGE_SIZE)
		map_page(root, DIRECT_BASE + at, at,
			 PAGE_LARGE | PAGE_NX | PAGE_WRITABLE | cache_flags(info, at));
	return root;
}

struct residence relocate(const struct boot_info *info, uint64_t copies, uint64_t spare)
{
	uint64_t end = memory_end(info), size = (uint64_t)(image_end - image_start);
	uint64_t pool = paging_pool_pages(info, end) * PAGE_SIZE + spare;
	uint64_t start = find_place(info, copies + size + pool), image = start + copies;
	uint64_t root;

	paging_pool_init((struct range){image + size, image + size + pool});
	root = build_tables(info, image, end);
	/* One statement: what the compiler kept on the old stack would be lost in between. */
	{
		const void *from = image_start;
		void *to = direct(image);
		uint64_t quadwords = size / 8;

		__asm__ volatile("rep movsq; mov %3, %%cr3"
				 : "+S"(from), "+D"(to), "+c"(quadwords)
				 : "r"(root)
				 : "memory");
	}
	image_offset = (uint64_t)image_start - image;
	mapped_end = end;
	return (struct residence){
		.hidden = {image, image + size + pool},
		.copies = {start, image},
		.root = root,
	};
}
