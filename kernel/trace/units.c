// SPDX-License-Identifier: MIT
// The trace units, and what is done to all of them at once.
#include "kernel/cpu.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/trace.h"
#include "kernel/trace/unit.h"

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

	for (unsigned i = 0; this_cpu()->trace && i < TRACE_UNITS; i++)
		paused.unit[i] = trace_units[i]->pause();
	return paused;
}

void trace_resume_cpu(struct trace_paused paused)
{
	for (unsigned i = 0; this_cpu()->trace && i < TRACE_UNITS; i++)
		trace_units[i]->resume(paused.unit[i]);
}

void trace_stop_cpu(void)
{
	struct cpu *cpu = this_cpu();

	for (unsigned i = 0; cpu->trace && i < TRACE_UNITS; i++)
		trace_units[i]->end(cpu);
}
