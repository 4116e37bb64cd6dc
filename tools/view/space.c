// SPDX-License-Identifier: MIT
// What lies at an address: a function, a line, an instruction.
#include "tools/view/code.h"

#include "tools/view/view.h"

#include <Zydis/Zydis.h>
#include <stdio.h>
#include <string.h>

/* How many of them end at or before `address`. */
static size_t count_before(const struct maps *maps, uint64_t address)
{
	return COUNT_FIRST(maps->count, at, maps->map[at].end <= address);
}

const struct map *maps_find(const struct maps *maps, uint64_t address)
{
	size_t at = count_before(maps, address);

	return at < maps->count && maps->map[at].start <= address ? &maps->map[at] : NULL;
}

bool maps_has_other(const struct maps *maps, const struct map *map)
{
	bool other = false;

	for (size_t at = count_before(maps, map->start);
	     at < maps->count && maps->map[at].start < map->end; at++)
		other |= maps->map[at].file && maps->map[at].file != map->file;
	return other;
}

static void insert_map(struct maps *maps, size_t at, struct map map)
{
	if (maps->count == maps->room) {
		maps->room = maps->room ? 2 * maps->room : 16;
		maps->map = reallocate(maps->map, maps->room, sizeof(*maps->map));
	}
	memmove(&maps->map[at + 1], &maps->map[at], (maps->count - at) * sizeof(*maps->map));
	maps->map[at] = map;
	maps->count++;
}

/* Takes what is between two addresses out; returns the place where a map of them belongs. */
static size_t cut_out(struct maps *maps, uint64_t start, uint64_t end)
{
	size_t at = count_before(maps, start), kept;

	if (!maps->count)
		return 0;
	if (at < maps->count && maps->map[at].start < start) {
		struct map rest = maps->map[at];

		maps->map[at++].end = start;
		if (rest.end > end) {
			rest.offset += end - rest.start;
			rest.start = end;
			insert_map(maps, at, rest);
		}
	}
	for (kept = at; kept < maps->count && maps->map[kept].end <= end; kept++)
		;
	if (kept < maps->count && maps->map[kept].start < end) {
		maps->map[kept].offset += end - maps->map[kept].start;
		maps->map[kept].start = end;
	}
	memmove(&maps->map[at], &maps->map[kept], (maps->count - kept) * sizeof(*maps->map));
	maps->count -= kept - at;
	return at;
}

void maps_add(struct maps *maps, struct map map)
{
	insert_map(maps, cut_out(maps, map.start, map.end), map);
}

/* The lower half is the program's; without one it holds what the kernel runs before paging. */
const struct code *space_code(const struct space *space, uint64_t address)
{
	const struct map *map;

	if (space->maps && !(address >> 63)) {
		map = maps_find(space->maps, address);
		return map ? map->code : NULL;
	}
	return address >> 63 || !space->program ? space->kernel : space->program;
}

const struct function *space_function(const struct space *space, uint64_t address)
{
	const struct code *code = space_code(space, address);

	return code ? code_function(code, address) : NULL;
}

struct line space_line(const struct space *space, uint64_t address)
{
	const struct code *code = space_code(space, address);

	return code ? code_line(code, address) : (struct line){0};
}

const struct inline_frame *space_inlined(const struct space *space, uint64_t address)
{
	const struct code *code = space_code(space, address);

	return code ? code_inlined(code, address) : NULL;
}

bool space_is_entry(const struct space *space, uint64_t address)
{
	const struct code *code = space_code(space, address);

	return code && code_entry(code) == address;
}

static enum flow flow_of(const ZydisDecodedInstruction *decoded)
{
	switch (decoded->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return FLOW_CONDITIONAL;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return FLOW_JUMP;
	case ZYDIS_CATEGORY_CALL:
		return FLOW_CALL;
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSCALL:
		return FLOW_INTERRUPT;
	case ZYDIS_CATEGORY_RET:
		return decoded->mnemonic == ZYDIS_MNEMONIC_RET ? FLOW_RETURN
							       : FLOW_INTERRUPT_RETURN;
	case ZYDIS_CATEGORY_SYSRET:
		return FLOW_INTERRUPT_RETURN;
	default:
		return decoded->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
					      ZYDIS_ATTRIB_HAS_REPNE)
			       ? FLOW_REPEAT
			       : FLOW_NONE;
	}
}

static const ZydisDecoder *decoder(void)
{
	static ZydisDecoder machine;
	static bool ready;

	if (!ready)
		ZydisDecoderInit(&machine, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ready = true;
	return &machine;
}

static struct instruction decode(const struct code *code, uint64_t address)
{
	struct instruction result = {.flow = FLOW_UNKNOWN};
	ZydisDecodedInstruction decoded;
	ZydisDecoderContext context;
	size_t left;
	const uint8_t *bytes = code ? code_bytes(code, address, &left) : NULL;

	if (!bytes ||
	    ZYAN_FAILED(ZydisDecoderDecodeInstruction(decoder(), &context, bytes, left, &decoded)))
		return result;
	result.flow = flow_of(&decoded);
	result.length = decoded.length;
	result.next = address + decoded.length;
	if (decoded.raw.imm[0].is_relative) {
		result.direct = true;
		result.target = result.next + (uint64_t)decoded.raw.imm[0].value.s;
	}
	return result;
}

/* A trace has the same places again and again. */
#define CACHED (1u << 16)

static size_t cache_slot(uint64_t a, uint64_t b)
{
	return (a * 0x9e3779b97f4a7c15 ^ b * 0xc2b2ae3d27d4eb4f) >> 48 & (CACHED - 1);
}

struct instruction space_instruction(const struct space *space, uint64_t address)
{
	static struct {
		uint64_t code, address;
		struct instruction instruction;
	} cache[CACHED];
	const struct code *code = space_code(space, address);
	size_t slot = cache_slot(address, 0);

	if (!code)
		return (struct instruction){.flow = FLOW_UNKNOWN};
	if (cache[slot].code != code_serial(code) || cache[slot].address != address) {
		cache[slot].code = code_serial(code);
		cache[slot].address = address;
		cache[slot].instruction = decode(code, address);
	}
	return cache[slot].instruction;
}

#define WRMSR_MOST 4096 /* bytes of code that are looked at */

static bool goes_on(enum flow flow)
{
	return flow == FLOW_NONE || flow == FLOW_REPEAT || flow == FLOW_CONDITIONAL ||
	       flow == FLOW_INTERRUPT;
}

static enum walk walk(const struct space *space, uint64_t at, uint64_t from, uint64_t *count)
{
	for (*count = 0; at < from; ++*count) {
		struct instruction instruction = space_instruction(space, at);

		if (instruction.flow == FLOW_UNKNOWN)
			return WALK_UNKNOWN;
		if (!goes_on(instruction.flow))
			return WALK_BROKEN;
		at = instruction.next;
	}
	return at == from ? WALK_WHOLE : WALK_BROKEN;
}

bool space_has_wrmsr(const struct space *space, uint64_t at, uint64_t from)
{
	static const uint8_t wrmsr[] = {0x0f, 0x30};
	uint64_t first = at;

	while (at != from && at - first < WRMSR_MOST) {
		struct instruction instruction = space_instruction(space, at);
		size_t left;

		if (instruction.flow == FLOW_UNKNOWN || !(goes_on(instruction.flow)))
			return false;
		if (instruction.length == sizeof(wrmsr) &&
		    !memcmp(code_bytes(space_code(space, at), at, &left), wrmsr, sizeof(wrmsr)))
			return true;
		at = instruction.next;
	}
	return false;
}

enum walk space_walk(const struct space *space, uint64_t at, uint64_t from, uint64_t *count)
{
	static struct {
		uint64_t code, at, from, count;
		enum walk result;
	} cache[CACHED];
	const struct code *code = space_code(space, at);
	size_t slot = cache_slot(at, from);

	*count = 0;
	if (!code)
		return WALK_UNKNOWN;
	if (cache[slot].code != code_serial(code) || cache[slot].at != at ||
	    cache[slot].from != from) {
		cache[slot].code = code_serial(code);
		cache[slot].at = at;
		cache[slot].from = from;
		cache[slot].result = walk(space, at, from, &cache[slot].count);
	}
	*count = cache[slot].count;
	return cache[slot].result;
}

const char *space_describe(const struct space *space, uint64_t address, char *text, size_t size)
{
	const struct function *function = space_function(space, address);

	if (function)
		snprintf(text, size, "%s+0x%llx", function->name,
			 (unsigned long long)(address - function->start));
	else
		snprintf(text, size, "0x%llx", (unsigned long long)address);
	return text;
}
