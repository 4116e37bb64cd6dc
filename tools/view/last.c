// SPDX-License-Identifier: MIT
#include "tools/view/last.h"

#include "tools/view/packed.h"

void last_add(struct last *last, const struct space *space, uint64_t from, uint64_t to)
{
	size_t at = last->count++ % LAST_MOST;

	last->branches[at].space = space;
	last->branches[at].from = from;
	last->branches[at].to = to;
}

static void put_place(FILE *to, const struct space *space, uint64_t address)
{
	struct line line = space_line(space, address);
	char name[512], whole[1024];

	space_describe(space, address, name, sizeof(name));
	if (line.file)
		snprintf(whole, sizeof(whole), "%s (%.400s:%d)", name, line.file, line.number);
	else
		snprintf(whole, sizeof(whole), "%s", name);
	packed_string(to, whole);
}

void last_put(const struct last *last, FILE *to)
{
	uint64_t first = last->count > LAST_MOST ? last->count - LAST_MOST : 0;

	fputc('[', to);
	for (uint64_t i = first; i < last->count; i++) {
		size_t at = i % LAST_MOST;

		fputs(i > first ? ",\n[" : "[", to);
		put_place(to, last->branches[at].space, last->branches[at].from);
		fputc(',', to);
		put_place(to, last->branches[at].space, last->branches[at].to);
		fputc(']', to);
	}
	fputc(']', to);
}
