// SPDX-License-Identifier: MIT
// The trace units, and what is done to all of them at once.
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"

const struct trace_unit *const trace_units[TRACE_UNITS] = {
	[TRACE_BTS] = &bts_unit,
	[TRACE_PEBS] = &pebs_unit,
	[TRACE_PT] = &pt_unit,
	[TRACE_LBR] = &lbr_unit,
};

bool trace_is_present(void)
{
	bool present = false;

	for (unsigned i = 0; i < TRACE_UNITS; i++)
		present |= trace_units[i]->is_present();
	return present;
}

struct trace_paused trace_pause_cpu(void)
{
	struct trace_paused paused = {{0}};

	if (!this_cpu()->trace)
		return paused;
	EACH_UNIT_WITH (pause)
		paused.unit[i] = trace_units[i]->pause();
	return paused;
}

void trace_resume_cpu(struct trace_paused paused)
{
	struct cpu *cpu = this_cpu();

	if (!cpu->trace || trace_is_frozen(cpu))
		return;
	EACH_UNIT_WITH (resume)
		trace_units[i]->resume(paused.unit[i]);
	trace_freeze_units(cpu);
}

/* BTS first: only to its records does the way here add; its end would give up the DS area. */
void trace_freeze_units(struct cpu *cpu)
{
	for (unsigned i = 0; trace_is_frozen(cpu) && i < TRACE_UNITS; i++)
		if (i == TRACE_BTS)
			trace_units[i]->pause();
		else
			trace_units[i]->end(cpu);
}

void trace_stop_cpu(void)
{
	struct cpu *cpu = this_cpu();

	if (!cpu->trace)
		return;
	EACH_UNIT_WITH (end)
		trace_units[i]->end(cpu);
	EACH_UNIT_WITH (keep)
		trace_units[i]->keep(cpu);
}
