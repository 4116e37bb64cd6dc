// SPDX-License-Identifier: MIT
#include "monitor/host/wake.h"

#include "lib/string.h"
#include "monitor/host/paging.h"
#include "monitor/host/traps.h"

/* As start.asm lays it out. */
struct wake_data {
	uint32_t root;
	uint32_t long_mode; /* far pointer */
	uint16_t selector;
	uint16_t table_limit;
	uint32_t table;
};
_Static_assert(sizeof(struct wake_data) == 16, "wake_data");

void wake_prepare(uint64_t page, uint64_t root)
{
	struct wake_data *data = direct(page + (uint64_t)(wake_data - wake_start));

	memcpy(direct(page), wake_start, (size_t)(wake_end - wake_start));
	data->root = (uint32_t)root;
	data->long_mode += (uint32_t)page;
	data->table += (uint32_t)page;
	map_page(root, page, page, 0);
}

void wake_to_stack(void *stack, void (*run)(void *argument), void *argument)
{
	__asm__ volatile("movq %0, %%rsp\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "movl $0, %1\n\t"
			 "call *%2"
			 :
			 : "r"((char *)stack + STACK_BYTES), "m"(start_busy), "r"(run),
			   "D"(argument)
			 : "memory");
	__builtin_unreachable();
}
