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
	       (ds_caps()->pebs_baseline ? PERFEVTSEL_ADAPTIVE : 0);
}

/* By how many events the next sample is late, as far as one period can make up for it. */
static int64_t to_make_up(const struct pebs_tracer *tracer)
{
	int64_t late = tracer->late + !tracer->left, most = (int64_t)tracer->options.period - 1;

	return late < most ? late : most;
}

static void load_counter(struct cpu *cpu, struct pebs_tracer *tracer, unsigned counter)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);

	tracer->taken = 0;
	pmu_load(&cpu->trace->pmu, counter, &tracer->owner, event_select(tracer),
		 tracer->left ? tracer->left : 1);
	pebs->loaded[counter] = tracer;
	pebs->counters |= 1ull << counter;
	if (tracer->options.view & TRACE_KERNEL)
		pebs->kernel |= 1ull << counter;
}

/* A tracer on this CPU that this one cannot be beside, or NULL. */
static const struct pebs_tracer *find_rival(const struct cpu *cpu, const struct pebs_tracer *tracer)
{
	for (unsigned i = 0; pebs_must_count_the_same() && i < PEBS_COUNTERS; i++) {
		const struct pebs_tracer *loaded = pebs_cpu(cpu)->loaded[i];

		if (loaded && pebs_counted(loaded) != pebs_counted(tracer))
			return loaded;
	}
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
	for (unsigned counter = 0; counter < PEBS_COUNTERS; counter++) {
		if (!(tracer->counters >> counter & 1))
			continue;
		if (!pmu_request(&cpu->trace->pmu, counter, &tracer->owner)) {
			load_counter(cpu, tracer, counter);
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
		const struct pebs_tracer *tracer = pebs->loaded[i];

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
		struct pebs_tracer *tracer = pebs->loaded[i];

		if (tracer)
			tracer->reset =
				tracer->options.period - (uint64_t)(same ? to_make_up(tracer) : 0);
	}
}

/* Those that have no choice choose first. */
void pebs_take_counters(struct cpu *cpu)
{
	struct trace_context *of[] = {cpu->trace->running, cpu->trace->own};

	for (unsigned i = 0; i < 4; i++)
		for (struct pebs_tracer *at = pebs_first(of[i % 2]); at; at = pebs_next(at))
			if (pebs_records(at) && pebs_has_no_choice(at->counters) == (i < 2))
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

void pebs_give_counters(struct cpu *cpu, uint64_t overflowed)
{
	struct pebs_cpu *pebs = pebs_cpu(cpu);

	for (unsigned counter = 0; counter < PEBS_COUNTERS; counter++) {
		struct pebs_tracer *tracer = pebs->loaded[counter];

		if (!tracer)
			continue;
		keep_place(tracer, pmu_left(counter), overflowed >> counter & 1);
		pmu_release(&cpu->trace->pmu, counter, &tracer->owner);
		pebs->loaded[counter] = NULL;
	}
	pebs->counters = pebs->kernel = 0;
}
