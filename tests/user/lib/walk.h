/* SPDX-License-Identifier: MIT */
/*
 * Branches that are known beforehand. walk(rounds) is a loop with a call in it and a jump that is
 * taken in some rounds and not in others, so that no part of it looks like another.
 */
#pragma once

#include "abi/ptrace_bts.h"
#include "tests/user/lib/user.h"

void walk(uint64_t rounds);

struct walk_reader {
	uint64_t rounds; /* of each walk that is expected */
	uint64_t walks;	 /* that were complete */
	uint64_t round;	 /* of the one under way */
	unsigned place;
	uint64_t others; /* records with no end in walk() */
};

/* The next record of a trace; false: it is not what has to come next. */
bool walk_feed(struct walk_reader *reader, const struct ptrace_bts_record *record);
