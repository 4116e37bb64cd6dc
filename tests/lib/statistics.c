// SPDX-License-Identifier: MIT
#include "tests/lib/statistics.h"

struct distribution distribution(uint64_t *values, size_t count)
{
	if (!count)
		return (struct distribution){0};
	for (size_t i = 1; i < count; i++)
		for (size_t at = i; at > 0 && values[at - 1] > values[at]; at--) {
			uint64_t larger = values[at - 1];

			values[at - 1] = values[at];
			values[at] = larger;
		}
	return (struct distribution){values[0], values[count / 2], values[count - 1]};
}
