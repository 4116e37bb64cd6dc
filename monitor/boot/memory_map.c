/* SPDX-License-Identifier: MIT */
#include "monitor/boot/memory_map.h"

static struct range region_range(const struct boot_region *region)
{
	return (struct range){region->base, region->base + region->length};
}

bool memory_usable(const struct boot_info *info, struct range range)
{
	uint64_t reached = range.start;

	for (unsigned i = 0; i < info->region_count; i++) {
		struct range region = region_range(&info->regions[i]);

		if (!ranges_overlap(region, range))
			continue;
		if (info->regions[i].type != MEMORY_USABLE)
			return false;
		/* Sorted by base: a region that starts behind `reached` leaves a hole. */
		if (region.start <= reached && region.end > reached)
			reached = region.end;
	}
	return reached >= range.end;
}

uint64_t memory_top(const struct boot_info *info)
{
	uint64_t top = 0;

	for (unsigned i = 0; i < info->region_count; i++) {
		struct range region = region_range(&info->regions[i]);

		if (info->regions[i].type == MEMORY_USABLE && region.end > top)
			top = region.end;
	}
	return top;
}

void memory_avoid(struct memory_request *request, struct range range)
{
	if (request->avoided < MEMORY_MOST_AVOIDED)
		request->avoid[request->avoided++] = range;
}

static bool fits(const struct boot_info *info, const struct memory_request *request, uint64_t start)
{
	struct range block = {start, start + request->size};

	if (block.end < block.start || start < request->within.start ||
	    block.end > request->within.end || !memory_usable(info, block))
		return false;
	for (unsigned i = 0; i < request->avoided; i++) {
		if (ranges_overlap(block, request->avoid[i]))
			return false;
	}
	return true;
}

struct search {
	const struct boot_info *info;
	const struct memory_request *request;
	bool found;
	uint64_t best;
};

/* A best place always touches something: an end of a region, of a range to avoid, or of `within`.
 */
static void try_at(struct search *search, struct range edge)
{
	bool from_top = search->request->from_top;
	uint64_t start =
		from_top ? page_down(edge.start - search->request->size) : page_up(edge.end);

	if (from_top && edge.start < search->request->size)
		return;
	if (!fits(search->info, search->request, start))
		return;
	if (!search->found || (from_top ? start > search->best : start < search->best))
		search->best = start;
	search->found = true;
}

bool memory_find(const struct boot_info *info, const struct memory_request *request,
		 uint64_t *start)
{
	struct search search = {.info = info, .request = request};

	/* As an edge, each limit is an obstacle: what lies outside it. */
	try_at(&search, (struct range){request->within.end, request->within.start});
	for (unsigned i = 0; i < info->region_count; i++) {
		struct range region = region_range(&info->regions[i]);

		try_at(&search, region);
		try_at(&search, (struct range){region.end, region.start});
	}
	for (unsigned i = 0; i < request->avoided; i++)
		try_at(&search, request->avoid[i]);
	*start = search.best;
	return search.found;
}

static void insert(struct boot_info *info, unsigned at, struct range range, uint32_t type)
{
	for (unsigned i = info->region_count; i > at; i--)
		info->regions[i] = info->regions[i - 1];
	info->regions[at] = (struct boot_region){range.start, range.end - range.start, type};
	info->region_count++;
}

static void delete (struct boot_info *info, unsigned at)
{
	info->region_count--;
	for (unsigned i = at; i < info->region_count; i++)
		info->regions[i] = info->regions[i + 1];
}

/* Takes `range` out of region `i`, which it overlaps. True if the region at `i` is gone. */
static bool cut(struct boot_info *info, unsigned i, struct range range)
{
	struct range region = region_range(&info->regions[i]);
	uint32_t type = info->regions[i].type;

	if (region.start < range.start)
		info->regions[i].length = range.start - region.start;
	else
		delete (info, i);
	if (region.end > range.end) {
		struct range rest = {range.end, region.end};
		unsigned at = 0;

		while (at < info->region_count && info->regions[at].base < rest.start)
			at++;
		insert(info, at, rest, type);
	}
	return region.start >= range.start;
}

bool memory_reserve(struct boot_info *info, struct range range)
{
	unsigned at = 0;

	/* Cutting one region in two and adding one makes two more, if the regions do not overlap
	   each other; where they do, only one more each. */
	if (info->region_count + 2 > BOOT_MAX_REGIONS)
		return false;
	for (unsigned i = 0; i < info->region_count;) {
		bool overlaps = info->regions[i].type == MEMORY_USABLE &&
				ranges_overlap(region_range(&info->regions[i]), range);

		if (!overlaps || !cut(info, i, range))
			i++;
	}
	while (at < info->region_count && info->regions[at].base < range.start)
		at++;
	insert(info, at, range, MEMORY_RESERVED);
	return true;
}
