// SPDX-License-Identifier: MIT
#include "kernel/trace/pause.h"

#include "kernel/cpu.h"

struct trace_paused trace_pause_cpu(void)
{
	return (struct trace_paused){.debugctl = ds_pause()};
}

void trace_resume_cpu(struct trace_paused paused)
{
	ds_resume(paused.debugctl);
}

void trace_stop_cpu(void)
{
	ds_panic_stop(&this_cpu()->ds);
}
