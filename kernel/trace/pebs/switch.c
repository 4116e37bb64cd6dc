// SPDX-License-Identifier: MIT
// Where events begin and cease to be counted and sampled.
#include "drivers/clock/tsc.h"
#include "kernel/console.h"
#include "kernel/end.h"
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/memory.h"
#include "kernel/trace/pebs/private.h"
#include "kernel/trace/unit.h"

/* Records after the threshold: what an interrupt that is late finds stored besides. */
#define MARGIN 4

/* --- From staging to the tracers --- */

/*
 * Which counter a record is of, as bits. Formats 1 and 2 say which counters had reached zero before
 * it: the one that has not any more after it (`next`) is the one. 0: that cannot be told.
 */
static uint64_t find_counters(const struct pebs_cpu *pebs, const struct ds_sample *sample,
			      uint64_t next)
{
	uint64_t bits = sample->counters & pebs->sampling;

	if (!(pebs->sampling & (pebs->sampling - 1)))
		return pebs->sampling;
	if (sample->has & DS_SAMPLE_COUNTERS)
		return bits;
	if (bits & (bits - 1))
		bits &= ~next;
	return bits & (bits - 1) ? 0 : bits;
}

static void give_sample(const struct cpu *cpu, const struct ds_sample *sample, uint64_t next)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	uint64_t counters = find_counters(pebs, sample, next);

	for (unsigned i = 0; i < PEBS_COUNTERS; i++) {
		struct pebs_tracer *tracer = pebs_sampler(pebs, i);

		if (tracer && counters >> pebs_counter(i) & 1)
			pebs_put(tracer, sample, cpu);
		else if (tracer && !counters)
			tracer->lost++;
	}
}

static void empty_staging(struct cpu *cpu, uint64_t overflowed)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	struct ds_cpu *ds = &cpu->trace->ds;
	long count = ds_get_pebs_index(ds, &pebs->lease);
	struct ds_sample sample, next;

	if (count > 0)
		ds_read_sample(ds_read_pebs(ds, &pebs->lease, 0), &next);
	for (long at = 0; at < count; at++) {
		sample = next;
		next.counters = overflowed;
		if (at + 1 < count)
			ds_read_sample(ds_read_pebs(ds, &pebs->lease, (size_t)at + 1), &next);
		give_sample(cpu, &sample, next.counters);
	}
	for (unsigned i = 0; (size_t)count >= pebs->records && i < PEBS_COUNTERS; i++)
		if (pebs_sampler(pebs, i))
			pebs->loaded[i]->truncated = true;
}

static void check_ends(struct cpu *cpu, struct trace_context *context)
{
	for (struct pebs_tracer *at = pebs_first(context); at; at = pebs_next(at))
		if (pebs_at_threshold(at) && !at->base.held)
			trace_hold(cpu, &at->base);
}

static void stop(struct cpu *cpu)
{
	if (pebs_cpu(cpu)->counters)
		pmu_run(pebs_cpu(cpu)->counters, false);
}

/* Where an interrupt is late no registers are known: what it will interrupt is not the task. */
static void give_interrupted(struct cpu *cpu, uint64_t late)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	uint64_t counters = pebs->interrupted | late;

	if (!counters)
		return;
	if (!pebs->interrupted)
		pebs->sample = (struct ds_sample){.has = DS_SAMPLE_TSC, .tsc = tsc_read()};
	pebs->interrupted = 0;
	branch_stack_depart(cpu);
	for (unsigned slot = 0; slot < PEBS_COUNTERS; slot++)
		if (pebs->loaded[slot] && counters >> pebs_counter(slot) & 1)
			pebs_put(pebs->loaded[slot], &pebs->sample, cpu);
}

static void depart(struct cpu *cpu)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	uint64_t overflowed, interrupting = pebs->counters & cpu->trace->pmu.interrupting;

	if (!pebs->counters)
		return;
	if (pebs->sampling)
		ds_pebs_start(&cpu->trace->ds, &pebs->lease, 0);
	overflowed = pmu_take_overflows(pebs->counters) | pebs->interrupted;
	give_interrupted(cpu, overflowed & interrupting);
	if (pebs->sampling) {
		empty_staging(cpu, overflowed);
		ds_release_pebs(&cpu->trace->ds, &pebs->lease);
	}
	pebs_give_counters(cpu, pebs->counters, overflowed);
	check_ends(cpu, cpu->trace->running);
	check_ends(cpu, cpu->trace->own);
}

/* --- Arrival --- */

/*
 * The interrupt may come no later than a tracer needs it: at its end, or at the first record if its
 * next period alone is of another length.
 */
static size_t find_threshold(const struct pebs_cpu *pebs, size_t records)
{
	size_t least = records - MARGIN;

	for (unsigned i = 0; i < PEBS_COUNTERS; i++) {
		const struct pebs_tracer *tracer = pebs_sampler(pebs, i);
		size_t room = tracer ? pebs_room(tracer) : least;

		if (tracer && tracer->reset != tracer->options.period)
			return 1;
		least = room < least ? room : least;
	}
	return least;
}

static void stop_at_threshold(struct ds_pebs_lease *lease, void *argument)
{
	struct pebs_cpu *pebs = argument;

	(void)lease;
	pmu_run(pebs->counters, false);
	pebs->reached = true;
}

/* All records have as many as the most that one tracer wants. */
static unsigned find_branches(const struct pebs_cpu *pebs)
{
	unsigned most = 0;

	for (unsigned i = 0; i < PEBS_COUNTERS; i++)
		if (pebs_sampler(pebs, i) && pebs->loaded[i]->options.branches > most)
			most = pebs->loaded[i]->options.branches;
	return most;
}

/* No more of them than a tracer has room for beyond its threshold. */
static size_t staging_records(unsigned branches)
{
	size_t most;

	if (!branches)
		return STAGING_BYTES / ds_pebs_record_size();
	most = STAGING_BYTES_ADAPTIVE / ds_pebs_record_size_with(branches);
	return most < STAGING_MOST ? most : STAGING_MOST;
}

static int take_half(struct cpu *cpu)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	unsigned branches = find_branches(pebs);
	size_t records = staging_records(branches);
	struct ds_pebs_request request = {
		.buffer = pebs->staging,
		.bytes = records * ds_pebs_record_size_with(branches),
		.margin = records - find_threshold(pebs, records),
		.branches = branches,
		.name = "tracers of samples",
		.tell = stop_at_threshold,
		.argument = pebs,
	};

	pebs->records = records;
	return ds_request_pebs(&cpu->trace->ds, &pebs->lease, &request);
}

/* Blocks them where another has the half of the DS area. */
static void start_samplers(struct cpu *cpu)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	bool blocked = take_half(cpu);

	for (unsigned i = 0; i < PEBS_COUNTERS; i++)
		if (pebs_sampler(pebs, i) && blocked)
			pebs_block(pebs->loaded[i], ds_pebs_holder(&cpu->trace->ds));
		else if (pebs_sampler(pebs, i))
			ds_set_pebs_reset(&cpu->trace->ds, &pebs->lease, pebs_counter(i),
					  pmu_value(pebs_counter(i), pebs->loaded[i]->reset));
	if (blocked)
		pebs_give_counters(cpu, pebs->sampling, 0);
	else
		ds_pebs_start(&cpu->trace->ds, &pebs->lease, pebs->sampling);
}

static void arrive(struct cpu *cpu)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);

	pebs->reached = false;
	pebs_take_counters(cpu);
	if (pebs->sampling)
		start_samplers(cpu);
	if (pebs->counters)
		pmu_run(pebs->counters, true);
}

/* --- The row --- */

static void create_staging(struct cpu *cpu)
{
	pebs_cpu(cpu)->staging = trace_memory_alloc(
		ds_caps()->pebs_baseline ? STAGING_BYTES_ADAPTIVE : STAGING_BYTES);
	if (!pebs_cpu(cpu)->staging)
		panic("no memory to take samples on CPU %u", cpu->index);
}

static void print_unit(void)
{
	if (pebs_present())
		printk("# pebs=present format=%u record=%zu\n", ds_caps()->pebs_format,
		       ds_pebs_record_size());
}

/* Counters of ring 3 alone need no pause. */
static uint64_t pause_counters(void)
{
	uint64_t kernel = pebs_cpu(this_cpu())->kernel, running = kernel ? pmu_running(kernel) : 0;

	if (running)
		pmu_run(running, false);
	return running;
}

static void resume_counters(uint64_t paused)
{
	const struct pebs_cpu *pebs = pebs_cpu(this_cpu());

	if (paused && !pebs->lease.overflowed && !pebs->interrupted)
		pmu_run(paused, true);
}

/* ds_pmi(), which bts_unit has called, served this half too: TRACE_BTS precedes TRACE_PEBS. */
static bool was_reached(struct cpu *cpu)
{
	bool reached = pebs_cpu(cpu)->reached;

	pebs_cpu(cpu)->reached = false;
	return reached;
}

static void go_on(struct tracer *tracer)
{
	pebs_of(tracer)->full = pebs_is_full(pebs_of(tracer));
}

const struct trace_unit pebs_unit = {
	.name = "pebs",
	.is_present = pebs_present,
	.init_cpu = create_staging,
	.print = print_unit,
	.pause = pause_counters,
	.resume = resume_counters,
	.end = stop,
	.interrupt = was_reached,
	.stop = stop,
	.depart = depart,
	.arrive = arrive,
	.go_on = go_on,
	.clear = pebs_forget,
	.free = pebs_free,
	.requests = &ptrace_pebs_unit,
};
