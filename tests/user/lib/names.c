// SPDX-License-Identifier: MIT
#include "tests/user/lib/names.h"

#define LONGEST 4096 /* bytes of a function; what is further from its start is in no function */

const struct name *find_name(uint64_t address)
{
	const struct name *best = NULL;

	for (const struct name *at = names; at->start; at++)
		if ((uint64_t)at->start <= address && address - (uint64_t)at->start < LONGEST &&
		    (!best || at->start > best->start))
			best = at;
	return best;
}

void say_place(uint64_t address)
{
	const struct name *best = find_name(address);

	say(best ? best->name : "");
	say(best ? "+0x" : "0x");
	say_number(best ? address - (uint64_t)best->start : address, 16);
}
