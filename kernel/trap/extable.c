// SPDX-License-Identifier: MIT
#include "kernel/trap/extable.h"

struct entry {
	uint64_t at, go_on;
};

extern const struct entry exception_table_start[], exception_table_end[];

uint64_t extable_find(uint64_t rip)
{
	for (const struct entry *entry = exception_table_start; entry < exception_table_end;
	     entry++)
		if (entry->at == rip)
			return entry->go_on;
	return 0;
}
