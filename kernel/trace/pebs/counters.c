// SPDX-License-Identifier: MIT
// Which tracer has which counter of a CPU, and where each is in its period.
#include "drivers/pmu/registers.h"
#include "kernel/sched/task.h"
#include "kernel/trace/pebs/private.h"

void pebs_block(struct pebs_tracer *tracer, const char *holder)
{
	tracer->blocked = true;
	pebs_copy_name(tracer->holder, holder);
}

static uint64_t event_select(const struct pebs_tracer *tracer)
{
	return tracer->event.code | (tracer->options.view & TRACE_USER ? PMU_USR : 0) |
	       (tracer->options.view & TRACE_KERNEL ? PMU_OS : 0) |
	       (ds_caps()->pebs_baseline && pebs_is_precise(&tracer->options) ? PERFEVTSEL_ADAPTIVE
									      : 0);
}

/* By how many events the next sample is late, as far as one period can make up for it. */
static int64_t to_make_up(const struct pebs_tracer *tracer)
{
	int64_t late = tracer->late + !tracer->left, most = (int64_t)tracer->options.period - 1;

	return late < most ? late : most;
}

/* A fixed counter has its event already. */
static void load_counter(struct cpu *cpu, struct pebs_tracer *tracer, unsigned slot)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);
	uint64_t counter = 1ull << pebs_counter(slot), event = event_select(tracer);

	tracer->taken = 0;
	pmu_load(&cpu->trace->pmu, pebs_counter(slot), &tracer->owner,
		 slot < PEBS_FIXED ? event & ~(uint64_t)PTRACE_PEBS_RAW_BITS : event,
		 tracer->left ? tracer->left : 1);
	pebs->loaded[slot] = tracer;
	pebs->counters |= counter;
	pebs->sampling |= pebs_is_precise(&tracer->options) ? counter : 0;
	pebs->kernel |= tracer->options.view & TRACE_KERNEL ? counter : 0;
}

/* A tracer that this one cannot be beside, or NULL. Those of a CPU wait while the task has one. */
static const struct pebs_tracer *find_rival(const struct cpu *cpu, const struct pebs_tracer *tracer)
{
	for (const struct pebs_tracer *at = pebs_first(cpu->trace->running); at; at = pebs_next(at))
		if (pebs_records(at) && pebs_are_rivals(pebs_counted(at), pebs_counted(tracer)))
			return at;
	return NULL;
}

static void take_counter(struct cpu *cpu, struct pebs_tracer *tracer)
{
	const struct pebs_tracer *rival = find_rival(cpu, tracer);
	unsigned first = PMU_COUNTERS_MOST;

	if (rival) {
		pebs_block(tracer, rival->name);
		return;
	}
	for (unsigned slot = 0; slot < PEBS_COUNTERS; slot++) {
		unsigned counter = pebs_counter(slot);

		if (!(tracer->counters >> counter & 1))
			continue;
		if (!pmu_request(&cpu->trace->pmu, counter, &tracer->owner)) {
			load_counter(cpu, tracer, slot);
			return;
		}
		first = first < counter ? first : counter;
	}
	pebs_block(tracer, pmu_owner(&cpu->trace->pmu, first));
}

static bool count_all_the_same(const struct pebs_cpu *pebs)
{
	const struct pebs_tracer *first = NULL;

	for (unsigned i = 0; i < PEBS_COUNTERS; i++) {
		const struct pebs_tracer *tracer = pebs_sampler(pebs, i);

		if (tracer && first && pebs_counted(tracer) != pebs_counted(first))
			return false;
		first = tracer ? tracer : first;
	}
	return true;
}

/*
 * A period of another length needs an interrupt at the next record. If another event is more
 * frequent, that interrupts at each of its records: then nothing is made up for.
 */
static void choose_periods(const struct pebs_cpu *pebs)
{
	bool same = count_all_the_same(pebs);

	for (unsigned i = 0; i < PEBS_COUNTERS; i++) {
		struct pebs_tracer *tracer = pebs_sampler(pebs, i);

		if (tracer)
			tracer->reset =
				tracer->options.period - (uint64_t)(same ? to_make_up(tracer) : 0);
	}
}

/* The task's choose first, of those of each that have no choice. */
void pebs_take_counters(struct cpu *cpu)
{
	struct trace_context *of[] = {cpu->trace->running, cpu->trace->own};

	for (unsigned i = 0; i < 4; i++)
		for (struct pebs_tracer *at = pebs_first(of[i / 2]); at; at = pebs_next(at))
			if (pebs_records(at) && pebs_has_no_choice(at->counters) == (i % 2 == 0))
				take_counter(cpu, at);
	choose_periods(pebs_cpu(cpu));
}

/*
 * Where the period goes on. One that reached zero and took no sample has had all its events; one
 * that was brought back to one event before zero, and is there still, is where it was.
 */
static void keep_place(struct pebs_tracer *tracer, uint64_t left, bool overflowed)
{
	bool brought_back = !tracer->left, moved = tracer->taken || overflowed;
	int64_t made_up = (int64_t)(tracer->options.period - tracer->reset);

	if (brought_back && moved)
		tracer->late++;
	tracer->late -= made_up * (int64_t)tracer->taken;
	if (brought_back && !moved)
		return;
	tracer->left = left <= PMU_LARGEST_PERIOD ? left : tracer->options.period;
	if (overflowed)
		tracer->left = 0;
}

/* Modulo what the counter holds. */
static void keep_events(struct pebs_tracer *tracer, unsigned counter)
{
	tracer->events += (tracer->left - pmu_left(counter)) & pmu_value(counter, 1);
}

/* The counter went on from zero: those events are of the next period. */
static void keep_rest(struct pebs_tracer *tracer, unsigned counter, bool overflowed)
{
	uint64_t distance = pebs_distance(&tracer->options), gone = pmu_read(counter);

	tracer->left = !overflowed ? pmu_left(counter) : gone < distance ? distance - gone : 1;
}

void pebs_give_counters(struct cpu *cpu, uint64_t counters, uint64_t overflowed)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);

	for (unsigned slot = 0; slot < PEBS_COUNTERS; slot++) {
		struct pebs_tracer *tracer = pebs->loaded[slot];
		unsigned counter = pebs_counter(slot);

		if (!tracer || !(counters >> counter & 1))
			continue;
		if (tracer->options.count)
			keep_events(tracer, counter);
		else if (tracer->options.interrupt)
			keep_rest(tracer, counter, overflowed >> counter & 1);
		else
			keep_place(tracer, pmu_left(counter), overflowed >> counter & 1);
		pmu_release(&cpu->trace->pmu, counter, &tracer->owner);
		pebs->loaded[slot] = NULL;
	}
	pebs->counters &= ~counters;
	pebs->sampling &= ~counters;
	pebs->kernel &= ~counters;
}
