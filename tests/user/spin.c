// SPDX-License-Identifier: MIT
// Counts in memory for ever: argument 0 alone, else with so many children that do the same.
#include "tests/user/lib/user.h"

static volatile uint64_t counter;

int main(uint64_t argument)
{
	while (argument--)
		if (fork() == 0)
			break;
	for (;;)
		counter++;
}
