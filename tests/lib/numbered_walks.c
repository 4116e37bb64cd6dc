// SPDX-License-Identifier: MIT
// All walks end at the same site: where one stands is told by how far it is from there.
#include "tests/lib/numbered_walks.h"

#include "kernel/mm/vm.h"

#define DIGITS	 4 /* of base 64, behind a mark; the lowest first */
#define GROUP	 (DIGITS + 1)
#define SHORTEST 3
#define LONGEST	 (SHORTEST + 64) /* the mark */
#define LAST	 (LONGEST - 2)	 /* place of the branch that ends a walk */

uint64_t numbered_length(uint64_t walk)
{
	uint64_t digit = walk % GROUP;

	return digit ? SHORTEST + (walk / GROUP >> 6 * (digit - 1)) % 64 : LONGEST;
}

void numbered_begin(struct numbered *reader, const struct user_chain *user, bool gaps)
{
	*reader = (struct numbered){.chain = &user->chain, .gaps = gaps};
}

/* The branch at `place` of the longest walk; shorter ones begin later. */
static bool is_at(const struct numbered *reader, const struct ptrace_bts_record *record,
		  uint64_t place)
{
	struct branch branch = chain_branch(reader->chain, LONGEST, place + 1);

	return record->from == branch.from &&
	       record->to == (place == LAST ? (uint64_t)reader->chain->end : branch.to);
}

static bool find(struct numbered *reader, const struct ptrace_bts_record *record)
{
	for (reader->at = 0; reader->at <= LAST; reader->at++)
		if (is_at(reader, record, reader->at))
			return true;
	return false;
}

static void begin_walk(struct numbered *reader, bool *right)
{
	uint64_t length = LONGEST - reader->at;

	if (reader->known)
		*right &= length == numbered_length(reader->walk);
	else if (length == LONGEST) {
		reader->digits = 1;
		reader->number = 0;
	} else if (reader->digits)
		reader->number |= (length - SHORTEST) << 6 * (reader->digits++ - 1);
	if (!reader->known && reader->digits == GROUP) {
		reader->known = true;
		reader->walk = reader->number * GROUP + DIGITS;
	}
}

static void count_wrong(struct numbered *reader, const struct ptrace_bts_record *record)
{
	if (!reader->gaps && !reader->wrong++)
		reader->first_wrong = *record;
	reader->next = NUMBERED_ANYWHERE;
	reader->known = false;
	reader->digits = 0;
}

void numbered_feed(struct numbered *reader, const struct ptrace_bts_record *record)
{
	const struct chain *chain = reader->chain;
	bool right;

	if (record->qualifier != PTRACE_BTS_BRANCH || record->from >> 63 || record->to >> 63)
		return;
	if (record->from < (uint64_t)chain->start || record->from >= (uint64_t)chain->end) {
		reader->foreign++;
		return;
	}
	reader->seen++;
	right = reader->next == NUMBERED_INSIDE ? is_at(reader, record, reader->at)
						: find(reader, record);
	if (right && reader->next == NUMBERED_BETWEEN)
		begin_walk(reader, &right);
	if (!right) {
		count_wrong(reader, record);
		return;
	}
	reader->next = NUMBERED_INSIDE;
	if (reader->at++ == LAST) {
		reader->next = NUMBERED_BETWEEN;
		reader->walk++;
	}
}
