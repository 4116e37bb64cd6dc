// SPDX-License-Identifier: MIT
#include "tests/lib/walker.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/bts/private.h"
#include "tests/framework/test.h"

#define BATCH 64

static bool within(const struct chain *chain, uint64_t address)
{
	return address >= (uint64_t)chain->start && address < (uint64_t)chain->end;
}

const struct chain *walker_other_chain(const struct chain *chain)
{
	return chain == &chain_a ? &chain_b : &chain_a;
}

static void feed(struct walker *walker, const struct ptrace_bts_record *record)
{
	const struct chain *other = walker_other_chain(walker->chain);

	if (within(walker->chain, record->from) && within(walker->chain, record->to))
		chain_feed(&walker->reader, &(struct bts_struct){.qualifier = BTS_BRANCH,
								 .from = record->from,
								 .to = record->to});
	else if (within(other, record->from) || within(other, record->to))
		walker->foreign++;
	else
		walker->others++;
}

/* In one go: a walker that goes on in between could be the faster one. */
void walker_read(struct walker *walker)
{
	struct ptrace_bts_record records[BATCH];
	size_t count;

	preemption_disable();
	while ((count = bts_read(walker->tracer, records, BATCH)) > 0)
		for (size_t i = 0; i < count; i++)
			feed(walker, &records[i]);
	preemption_enable();
}

static void walk(void *argument)
{
	struct walker *walker = argument;

	while (walker->walked < walker->walks) {
		chain_walk(walker->chain, chain_length(walker->walked));
		if (walker->user)
			user_chain_walk(walker->user, chain_length(walker->walked));
		walker->walked++;
		if (walker->between)
			walker->between(walker);
	}
}

static void prepare(struct walker *walker)
{
	int error = 0;

	walker->reader.chain = walker->chain;
	walker->task = test_task(walker->name, walk, walker);
	if (walker->options.size)
		error = bts_attach(walker->task, 0, &walker->options, &walker->tracer);
	if (error)
		test_error("task %s cannot be traced: %d", walker->name, error);
}

void walkers_create(struct walker *walkers, size_t count)
{
	test_pin();
	for (size_t i = 0; i < count; i++)
		prepare(&walkers[i]);
}

void walkers_start(struct walker *walkers, size_t count)
{
	walkers_create(walkers, count);
	for (size_t i = 0; i < count; i++)
		task_start(walkers[i].task);
}

void walkers_join(struct walker *walkers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		task_join(walkers[i].task);
}

void walker_run(struct walker *walker)
{
	task_start(walker->task);
	walkers_join(walker, 1);
}

void walkers_join_reading(struct walker *walkers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		while (!walkers[i].task->ended) {
			for (size_t at = 0; at < count; at++)
				walker_read(&walkers[at]);
			task_yield();
		}
	walkers_join(walkers, count);
}

void walker_end(struct walker *walker)
{
	if (walker->tracer)
		EXPECT(trace_detach(walker->tracer));
	test_task_put(walker->task);
}

static void check(struct walker *walker)
{
	struct bts_status status;

	if (walker->tracer) {
		bts_status(walker->tracer, &status);
		EXPECT(!status.truncated);
		EXPECT(!status.full);
		EXPECT(!status.lost_more);
		EXPECT_EQ(status.lost, 0);
		walker_read(walker);
		EXPECT_EQ(walker->foreign, 0);
		chain_expect_walks(&walker->reader, walker->walks, walker->name);
	}
	walker_end(walker);
}

void walkers_check(struct walker *walkers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check(&walkers[i]);
}

struct bts_options walker_options(size_t records)
{
	return (struct bts_options){
		.view = TRACE_USER | TRACE_KERNEL,
		.privileged = true,
		.overflow = TRACE_STOP,
		.size = records * sizeof(struct ptrace_bts_record),
	};
}

struct trace_ring *ring_of(const struct tracer *tracer)
{
	return &bts_of(tracer)->ring;
}

struct ds_lease *lease_of(const struct tracer *tracer)
{
	return &bts_of(tracer)->lease;
}

size_t threshold_of(const struct tracer *tracer)
{
	return bts_of(tracer)->options.threshold;
}

void set_threshold(struct tracer *tracer, size_t threshold)
{
	bts_of(tracer)->options.threshold = threshold;
}

/* One for all views. */
void *staging_area(void)
{
	return bts_cpu(this_cpu())->staging[TRACE_USER].area;
}

size_t staging_records(void)
{
	return STAGING_RECORDS;
}

uint64_t staging_reached(void)
{
	return bts_cpu(this_cpu())->reached;
}

static atomic_ulong halted; /* after so many walks; 0: it runs */

void stage_halt(struct walker *walker)
{
	if (walker->walked % STAGE || walker->walked == walker->walks)
		return;
	atomic_store(&halted, walker->walked);
	while (atomic_load(&halted))
		task_yield();
}

struct walker stage_walker(struct user_chain *user, uint64_t walks)
{
	return (struct walker){.name = "watched",
			       .chain = &chain_a,
			       .walks = walks,
			       .user = user,
			       .between = stage_halt};
}

void stage_next(struct walker *walker, uint64_t walks)
{
	atomic_store(&halted, 0);
	if (!walker->task->switches)
		task_start(walker->task);
	while (atomic_load(&halted) != walks)
		task_yield();
}

void stage_last(struct walker *walker)
{
	atomic_store(&halted, 0);
	walkers_join(walker, 1);
}
