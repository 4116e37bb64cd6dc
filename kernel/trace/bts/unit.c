// SPDX-License-Identifier: MIT
// The row of BTS in the table of trace units.
#include "kernel/trace/unit.h"

#include "kernel/console.h"
#include "kernel/trace/bts/private.h"

/* A CPU without a lease records nothing, and reads no MSR, which a hypervisor would intercept. */
static uint64_t pause_recording(void)
{
	const struct trace_cpu *trace = this_cpu()->trace;

	return trace && trace->ds.loaded ? ds_pause() : 0;
}

static void resume_recording(uint64_t paused)
{
	if (paused)
		ds_resume(&this_cpu()->trace->ds, paused);
}

static void end_recording(struct cpu *cpu)
{
	ds_panic_stop(&cpu->trace->ds);
}

/* Counted back from the index: at the first slot a ring goes on at its last. */
static bool get_newest(struct cpu *cpu, size_t n, struct trace_branch *branch)
{
	const struct ds_lease *lease = cpu->trace->ds.loaded;
	struct bts_struct record;
	size_t index, end;

	if (!lease || !lease->area)
		return false;
	index = ds_get_bts_index(lease->area);
	end = ds_get_bts_end(lease->area);
	if (n >= (lease->overflow == DS_O_WRAP ? end : index) ||
	    ds_read_bts(lease->area, (index + end - 1 - n) % end, &record) ||
	    record.qualifier == BTS_INVALID)
		return false;
	*branch = (struct trace_branch){record.from, record.to};
	return true;
}

static bool interrupt(struct cpu *cpu)
{
	return ds_pmi(&cpu->trace->ds);
}

static void go_on(struct tracer *tracer)
{
	struct bts_tracer *going = bts_of(tracer);

	going->full = going->stays_full = tracer_is_stopped(going);
	tracer_put_gap(going, 0);
}

static void print_unit(void)
{
	const struct ds_caps *caps = ds_caps();

	if (!ds_has_bts())
		printk("# bts=absent why=\"%s\"\n", bts_missing());
	else
		printk("# bts=present layout=%s record=%u\n", caps->configuration->name,
		       caps->configuration->record_size);
}

const struct trace_unit bts_unit = {
	.name = "BTS",
	.is_present = ds_has_bts,
	.init_cpu = staging_create,
	.print = print_unit,
	.pause = pause_recording,
	.resume = resume_recording,
	.end = end_recording,
	.newest = get_newest,
	.interrupt = interrupt,
	.stop = bts_stop,
	.depart = bts_depart,
	.arrive = bts_arrive,
	.go_on = go_on,
	.clear = tracer_clear,
	.free = tracer_free,
	.requests = &ptrace_bts_unit,
	.stream = &export_bts,
};
