// SPDX-License-Identifier: MIT
#include "tools/view/inlined.h"

#include "tools/view/code.h"
#include "tools/view/view.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>

#define DIES_MOST   (1u << 24) /* of a file that are read */
#define NESTED_MOST 256	       /* of entries in entries */
#define RANGES_MOST (1u << 20) /* of a unit */

struct range {
	uint64_t low, high;
	const struct inline_frame *frame; /* NULL: of a unit */
	struct unit *unit;
};

struct ranges {
	struct range *range;
	size_t count, room;
};

/* From `address` on the code is that of `frame`; NULL: of the function itself. */
struct segment_start {
	uint64_t address;
	const struct inline_frame *frame;
};

struct unit {
	Dwarf_Die die;
	bool read;
	struct segment_start *starts;
	size_t start_count;
};

/* Frames are freed together. */
struct kept {
	struct inline_frame frame;
	struct kept *next;
};

struct inlined {
	Dwarf *dwarf;
	void **names;
	bool listed; /* the units are known */
	struct ranges units;
	struct unit **unit;
	size_t unit_count;
	struct kept *kept;
	unsigned dies;
};

struct inlined *inlined_open(Dwarf *dwarf, void **names)
{
	struct inlined *inlined = allocate(1, sizeof(*inlined));

	inlined->dwarf = dwarf;
	inlined->names = names;
	return inlined;
}

void inlined_free(struct inlined *inlined)
{
	if (!inlined)
		return;
	while (inlined->kept) {
		struct kept *next = inlined->kept->next;

		free(inlined->kept);
		inlined->kept = next;
	}
	for (size_t i = 0; i < inlined->unit_count; i++) {
		free(inlined->unit[i]->starts);
		free(inlined->unit[i]);
	}
	free(inlined->unit);
	free(inlined->units.range);
	free(inlined);
}

/* Adds where the code of `die` is. */
static void add_ranges(struct ranges *ranges, Dwarf_Die *die, const struct inline_frame *frame,
		       struct unit *unit)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t offset = 0;

	while (ranges->count < RANGES_MOST &&
	       (offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0) {
		if (low >= high)
			continue;
		if (ranges->count == ranges->room) {
			ranges->room = ranges->room ? 2 * ranges->room : 64;
			ranges->range =
				reallocate(ranges->range, ranges->room, sizeof(*ranges->range));
		}
		ranges->range[ranges->count++] = (struct range){low, high, frame, unit};
	}
}

/* The lowest first; of two that begin at one place the outer one first. */
static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	if (a->high != b->high)
		return a->high > b->high ? -1 : 1;
	return a->frame && b->frame ? (int)a->frame->depth - (int)b->frame->depth : 0;
}

static void list_units(struct inlined *inlined)
{
	Dwarf_Off offset = 0, next;
	size_t header_size;

	inlined->listed = true;
	while (inlined->dwarf &&
	       !dwarf_nextcu(inlined->dwarf, offset, &next, &header_size, NULL, NULL, NULL)) {
		struct unit *unit = allocate(1, sizeof(*unit));

		inlined->unit =
			reallocate(inlined->unit, inlined->unit_count + 1, sizeof(*inlined->unit));
		inlined->unit[inlined->unit_count++] = unit;
		if (dwarf_offdie(inlined->dwarf, offset + header_size, &unit->die))
			add_ranges(&inlined->units, &unit->die, NULL, unit);
		offset = next;
	}
	if (inlined->units.range)
		qsort(inlined->units.range, inlined->units.count, sizeof(*inlined->units.range),
		      compare_ranges);
}

/* As the table of symbols would have it. */
static const char *name_of(struct inlined *inlined, Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *linked =
		dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
	const char *plain = dwarf_diename(die), *name = linked ? functions_demangle(linked) : plain;
	char text[1024];

	snprintf(text, sizeof(text), "%.900s [inlined]", name ? name : "a function");
	return names_keep(inlined->names, text);
}

static const struct inline_frame *add_frame(struct inlined *inlined, Dwarf_Die *die,
					    const struct inline_frame *outer)
{
	struct kept *kept = allocate(1, sizeof(*kept));

	kept->frame =
		(struct inline_frame){name_of(inlined, die), outer, outer ? outer->depth + 1 : 1};
	kept->next = inlined->kept;
	inlined->kept = kept;
	return &kept->frame;
}

/* All that are inlined within `die`. */
static void read_children(struct inlined *inlined, struct ranges *ranges, Dwarf_Die *die,
			  const struct inline_frame *outer, unsigned nested)
{
	Dwarf_Die child;

	if (nested == NESTED_MOST || dwarf_child(die, &child))
		return;
	do {
		const struct inline_frame *frame = outer;

		if (inlined->dies++ >= DIES_MOST)
			return;
		switch (dwarf_tag(&child)) {
		case DW_TAG_inlined_subroutine:
			frame = add_frame(inlined, &child, outer);
			add_ranges(ranges, &child, frame, NULL);
			read_children(inlined, ranges, &child, frame, nested + 1);
			break;
		case DW_TAG_subprogram:
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
			read_children(inlined, ranges, &child, frame, nested + 1);
			break;
		default:
			break;
		}
	} while (!dwarf_siblingof(&child, &child));
}

static void add_start(struct unit *unit, uint64_t address, const struct inline_frame *frame)
{
	if (unit->start_count && unit->starts[unit->start_count - 1].address == address)
		unit->start_count--;
	unit->starts[unit->start_count++] = (struct segment_start){address, frame};
}

/* Ends the ranges that end at or before `address`. */
static void end_ranges(struct unit *unit, const struct range *open, size_t *depth, uint64_t address)
{
	while (*depth && open[*depth - 1].high <= address) {
		uint64_t end = open[--*depth].high;

		add_start(unit, end, *depth ? open[*depth - 1].frame : NULL);
	}
}

/* Ranges within ranges become segments, one after the other. */
static void flatten(struct unit *unit, struct ranges *ranges)
{
	struct range *open = allocate(ranges->count + 1, sizeof(*open));
	size_t depth = 0;

	unit->starts = allocate(2 * ranges->count + 1, sizeof(*unit->starts));
	if (ranges->range)
		qsort(ranges->range, ranges->count, sizeof(*ranges->range), compare_ranges);
	for (size_t i = 0; i < ranges->count; i++) {
		struct range range = ranges->range[i];

		end_ranges(unit, open, &depth, range.low);
		if (depth && range.high > open[depth - 1].high)
			range.high = open[depth - 1].high;
		add_start(unit, range.low, range.frame);
		open[depth++] = range;
	}
	end_ranges(unit, open, &depth, UINT64_MAX);
	free(open);
}

static void read_unit(struct inlined *inlined, struct unit *unit)
{
	struct ranges ranges = {0};

	unit->read = true;
	read_children(inlined, &ranges, &unit->die, NULL, 0);
	flatten(unit, &ranges);
	free(ranges.range);
}

const struct inline_frame *inlined_at(struct inlined *inlined, uint64_t address)
{
	size_t at, low = 0, high;
	struct unit *unit;

	if (!inlined->listed)
		list_units(inlined);
	for (high = inlined->units.count; low < high;) {
		at = low + (high - low) / 2;
		if (inlined->units.range[at].low <= address)
			low = at + 1;
		else
			high = at;
	}
	if (!low || address >= inlined->units.range[low - 1].high)
		return NULL;
	unit = inlined->units.range[low - 1].unit;
	if (!unit->read)
		read_unit(inlined, unit);
	for (low = 0, high = unit->start_count; low < high;) {
		at = low + (high - low) / 2;
		if (unit->starts[at].address <= address)
			low = at + 1;
		else
			high = at;
	}
	return low ? unit->starts[low - 1].frame : NULL;
}
