// SPDX-License-Identifier: MIT
#include "kernel/symbols.h"

#include "kernel/mm/page.h"
#include "lib/format.h"
#include "lib/string.h"

#define DISTANCE 2 /* bytes before a name */

/* The entry of the function that holds `address`, and where that begins. */
static const uint8_t *find(uint64_t address, uint64_t *start)
{
	const uint8_t *best = NULL;
	uint64_t at = (uint64_t)text_start;

	if (address < (uint64_t)text_start || address >= (uint64_t)text_end)
		return NULL;
	for (const uint8_t *s = symbols; s[DISTANCE];
	     s += DISTANCE + strlen((const char *)s + DISTANCE) + 1) {
		at += s[0] | (uint64_t)s[1] << 8;
		if (at > address)
			break;
		best = s;
		*start = at;
	}
	return best;
}

size_t symbol_unpack(uint8_t byte, char *text, size_t size, size_t used)
{
	if (byte >= SYMBOL_PAIR) {
		const uint8_t *pair = symbol_pairs[byte - SYMBOL_PAIR];

		used = symbol_unpack(pair[0], text, size, used);
		return symbol_unpack(pair[1], text, size, used);
	}
	if (used + 1 < size)
		text[used++] = (char)byte;
	return used;
}

void symbol_describe(uint64_t address, char *text, size_t size)
{
	uint64_t start;
	const uint8_t *symbol = find(address, &start);
	size_t used = 0;

	if (!symbol) {
		format(text, size, "?");
		return;
	}
	for (const uint8_t *name = symbol + DISTANCE; *name; name++)
		used = symbol_unpack(*name, text, size, used);
	format(text + used, size - used, "+0x%lx", address - start);
}

uint64_t symbol_start(uint64_t address)
{
	uint64_t start;

	return find(address, &start) ? start : 0;
}
