// SPDX-License-Identifier: MIT
// "How did I get here": the founding use of BTS.
#include "kernel/console.h"
#include "kernel/end.h"
#include "kernel/symbols.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"

#define MOST 32

static void print_branch(const struct bts_struct *record)
{
	char from[64], to[64];

	symbol_describe(record->from, from, sizeof(from));
	symbol_describe(record->to, to, sizeof(to));
	printk("#   %016lx -> %016lx  %s -> %s\n", record->from, record->to, from, to);
}

/* The record before the one in slot `at`; false: there is none. */
static bool step_back(const struct ds_lease *lease, size_t *at, struct bts_struct *record)
{
	if (*at == 0 && lease->overflow != DS_O_WRAP)
		return false;
	*at = (*at ? *at : ds_get_bts_end(lease->area)) - 1;
	return ds_read_bts(lease->area, *at, record) == 0 && record->qualifier != BTS_INVALID;
}

/* The slot after the record of the event that made `frame`, or the index if it is not there. */
static size_t find_event(const struct ds_lease *lease, const struct trap_frame *frame)
{
	size_t index = ds_get_bts_index(lease->area), at = index;
	struct bts_struct record;

	for (size_t i = ds_get_bts_end(lease->area); i > 0 && step_back(lease, &at, &record); i--)
		if (record.to == trap_entry((unsigned)frame->vector))
			return at + 1;
	return index;
}

static void print_branches(const struct cpu *cpu, const struct trap_frame *frame)
{
	struct ds_lease *lease = cpu->trace ? cpu->trace->ds.loaded : NULL;
	struct bts_struct record;
	size_t at, end;

	if (!lease || !lease->area)
		return;
	at = frame ? find_event(lease, frame) : ds_get_bts_index(lease->area);
	end = ds_get_bts_end(lease->area);
	printk("# last branches of %s CPU, newest first:\n", cpu == this_cpu() ? "this" : "that");
	for (size_t i = 0; i < MOST && i < end && step_back(lease, &at, &record); i++)
		print_branch(&record);
}

/* The others stopped by NMI. */
void print_last_branches(const struct trap_frame *frame)
{
	const struct trap_frame nmi = {.vector = VECTOR_NMI};

	print_branches(this_cpu(), frame);
	for (unsigned i = 0; i < cpu_count(); i++)
		if (freeze_say(i) && i != this_cpu()->index)
			print_branches(cpu_by_index(i), &nmi);
}
