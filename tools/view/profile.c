// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tools/view/profile.h"

#include "tools/view/inlined.h"
#include "tools/view/packed.h"
#include "tools/view/view.h"

#include <stdlib.h>

/* The viewer needs some 400 bytes for each, and a browser gives a page 4 GiB. */
#define CALLS_MOST (8u << 20)

#define BLOCKS (1u << 16) /* that are remembered */

/* A function, or one that is inlined in the one below it. */
struct profile_open {
	const struct inline_frame *inlined; /* NULL: a function */
	size_t number;
};

static size_t *find_slot(const struct profile *profile, const char *name)
{
	size_t slot = ((uintptr_t)name * 0x9e3779b97f4a7c15 >> 32) & (profile->slot_count - 1);

	while (profile->slots[slot] && profile->frames[profile->slots[slot] - 1].name != name)
		slot = (slot + 1) & (profile->slot_count - 1);
	return &profile->slots[slot];
}

static void grow_slots(struct profile *profile)
{
	profile->slot_count = profile->slot_count ? 2 * profile->slot_count : 256;
	free(profile->slots);
	profile->slots = allocate(profile->slot_count, sizeof(*profile->slots));
	for (size_t i = 0; i < profile->frame_count; i++)
		*find_slot(profile, profile->frames[i].name) = i + 1;
}

/* The number of a frame, which is made with `line` and `within` if it is new. */
static size_t frame_number(struct profile *profile, const char *name, struct line line, long within)
{
	if (2 * profile->frame_count >= profile->slot_count)
		grow_slots(profile);
	if (*find_slot(profile, name))
		return *find_slot(profile, name) - 1;
	profile->frames =
		reallocate(profile->frames, profile->frame_count + 1, sizeof(*profile->frames));
	profile->frames[profile->frame_count] = (struct profile_frame){name, line, within};
	*find_slot(profile, name) = profile->frame_count + 1;
	return profile->frame_count++;
}

static void put_number(FILE *to, uint64_t number)
{
	for (; number >> 7; number >>= 7)
		putc_unlocked((int)(number & 127) | 128, to);
	putc_unlocked((int)number, to);
}

uint64_t profile_place(struct profile *profile, uint64_t position)
{
	if (!profile->based)
		profile->base = profile->cut ? position : 0;
	profile->based = true;
	return position - profile->base + profile->shift;
}

/* `entered`: one more than the number of a frame; 0: a return. */
static void put_event(struct profile *profile, size_t entered, uint64_t position)
{
	uint64_t at = profile_place(profile, position);

	put_number(profile->packed, entered);
	put_number(profile->packed, at - profile->end);
	profile->end = at;
}

long profile_frame(const struct profile *profile, const char *name)
{
	return profile->slot_count ? (long)*find_slot(profile, name) - 1 : -1;
}

static void open_frame(struct profile *profile, struct profile_open frame, uint64_t position)
{
	if (profile->depth == profile->room) {
		profile->room = profile->room ? 2 * profile->room : 64;
		profile->open = reallocate(profile->open, profile->room, sizeof(*profile->open));
	}
	profile->open[profile->depth++] = frame;
	put_event(profile, frame.number + 1, position);
}

static void close_frame(struct profile *profile, uint64_t position)
{
	profile->depth--;
	put_event(profile, 0, position);
}

bool profile_enter(struct profile *profile, const struct frame *frame, uint64_t position)
{
	struct line line = {0};
	const char *name = frame_name(frame);

	if (profile->calls++ + profile->inlined >= CALLS_MOST)
		return false;
	if (frame->function && frame->space && profile_frame(profile, name) < 0)
		line = space_line(frame->space, frame->function->start);
	open_frame(profile, (struct profile_open){NULL, frame_number(profile, name, line, -1)},
		   position);
	return true;
}

void profile_leave(struct profile *profile, uint64_t position)
{
	while (profile->open[profile->depth - 1].inlined)
		close_frame(profile, position);
	close_frame(profile, position);
}

void profile_gap(struct profile *profile, uint64_t wide, uint64_t position)
{
	static const char name[] = "[gap: as many records as it is wide, or an unknown number]";

	put_event(profile, frame_number(profile, name, (struct line){0}, -1) + 1, position);
	profile->shift += wide;
	put_event(profile, 0, position);
}

/* In the function `depth` - 1 the code of `inlined` runs: it and those that it is in are open. */
static void open_inlined(struct profile *profile, size_t depth, const struct inline_frame *inlined,
			 uint64_t position)
{
	const struct inline_frame *common = inlined;
	long within = (long)profile->open[depth - 1].number;

	while (common && !(depth + common->depth <= profile->depth &&
			   profile->open[depth + common->depth - 1].inlined == common))
		common = common->outer;
	while (profile->depth > depth + (common ? common->depth : 0))
		close_frame(profile, position);
	while (inlined && profile->depth < depth + inlined->depth) {
		const struct inline_frame *next = inlined;

		while (depth + next->depth > profile->depth + 1)
			next = next->outer;
		profile->inlined++;
		open_frame(profile,
			   (struct profile_open){next, frame_number(profile, next->name,
								    (struct line){0}, within)},
			   position);
	}
}

/* The one whose code all of a block is: a trace has the same blocks again and again. */
static bool is_of_one(const struct follow_block *block, const struct inline_frame **one)
{
	static struct {
		uint64_t code, at, from;
		const struct inline_frame *one;
		bool whole;
	} cache[BLOCKS];
	const struct code *code = space_code(block->space, block->from);
	size_t slot = hash_of(block->at, block->from) % BLOCKS;
	uint64_t at = block->at;

	if (!code)
		return false;
	if (cache[slot].code != code_serial(code) || cache[slot].at != at ||
	    cache[slot].from != block->from) {
		cache[slot].code = code_serial(code);
		cache[slot].at = at;
		cache[slot].from = block->from;
		cache[slot].one = space_inlined(block->space, at);
		while (at < block->from && space_inlined(block->space, at) == cache[slot].one)
			at = space_instruction(block->space, at).next;
		cache[slot].whole = at >= block->from &&
				    space_inlined(block->space, block->from) == cache[slot].one;
	}
	*one = cache[slot].one;
	return cache[slot].whole;
}

void profile_block(struct profile *profile, const struct follow_block *block)
{
	uint64_t position = block->position, at = block->at;
	const struct inline_frame *one;
	size_t depth = profile->depth;

	while (depth && profile->open[depth - 1].inlined)
		depth--;
	if (!depth || (at == block->from && !block->executed))
		return;
	if (is_of_one(block, &one)) {
		open_inlined(profile, depth, one, position);
		return;
	}
	while (at < block->from || (at == block->from && block->executed)) {
		struct instruction instruction = space_instruction(block->space, at);
		const struct inline_frame *inlined = space_inlined(block->space, at);

		if (instruction.flow == FLOW_UNKNOWN)
			break;
		open_inlined(profile, depth, inlined, position++);
		at = instruction.next;
	}
}

void profile_put_frames(const struct profile *profile, FILE *page)
{
	fputs(",\"frames\":[", page);
	for (size_t i = 0; i < profile->frame_count; i++) {
		fprintf(page, "%s\n{\"name\":", i ? "," : "");
		packed_string(page, profile->frames[i].name);
		if (profile->frames[i].line.file) {
			fputs(",\"file\":", page);
			packed_string(page, profile->frames[i].line.file);
			fprintf(page, ",\"line\":%d", profile->frames[i].line.number);
		}
		if (profile->frames[i].within >= 0)
			fprintf(page, ",\"within\":%ld", profile->frames[i].within);
		fputc('}', page);
	}
	fputc(']', page);
}

void profile_free(struct profile *profile)
{
	free(profile->frames);
	free(profile->slots);
	free(profile->open);
}
