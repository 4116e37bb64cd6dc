// SPDX-License-Identifier: MIT
// "How did I get here": the founding use of BTS.
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/panic.h"
#include "kernel/symbols.h"

#define MOST 32

static void print_branch(const struct bts_struct *record)
{
	uint64_t from_offset = 0, to_offset = 0;
	const char *from = symbol_name(record->from, &from_offset);
	const char *to = symbol_name(record->to, &to_offset);

	printk("#   %016lx -> %016lx  %s+0x%lx -> %s+0x%lx\n", record->from, record->to,
	       from ? from : "?", from_offset, to ? to : "?", to_offset);
}

void print_last_branches(void)
{
	struct ds_lease *lease = this_cpu()->ds.loaded;
	size_t end, index;

	if (!lease || ds_is_lent(&this_cpu()->ds))
		return;
	end = ds_get_bts_end(lease->area);
	index = ds_get_bts_index(lease->area);
	printk("# last branches of this CPU, newest first:\n");
	for (size_t i = 0; i < MOST && i < end; i++) {
		struct bts_struct record;

		if (index == 0 && lease->overflow != DS_O_WRAP)
			break;
		index = (index ? index : end) - 1;
		if (ds_read_bts(lease->area, index, &record) == 0 &&
		    record.qualifier != BTS_INVALID)
			print_branch(&record);
	}
}
