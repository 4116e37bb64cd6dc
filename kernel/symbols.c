// SPDX-License-Identifier: MIT
#include "kernel/symbols.h"

#include "kernel/image.h"

#include <stddef.h>

const char *symbol_name(uint64_t address, uint64_t *offset)
{
	const struct symbol *best = NULL;

	if (address < (uint64_t)text_start || address >= (uint64_t)text_end)
		return NULL;
	for (const struct symbol *s = symbols; s->name && s->address <= address; s++)
		best = s;
	if (!best)
		return NULL;
	*offset = address - best->address;
	return best->name;
}
