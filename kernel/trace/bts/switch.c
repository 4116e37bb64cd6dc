// SPDX-License-Identifier: MIT
// Where branches begin and cease to be recorded, and in which shape; the unit's row.
#include "kernel/console.h"
#include "kernel/end.h"
#include "kernel/sched/task.h"
#include "kernel/trace/bts/private.h"
#include "kernel/trace/bts/record.h"
#include "kernel/trace/memory.h"

/* Only a test that keeps MSRs which it borrowed, or a bug, makes the driver refuse. */
static void check_switch(int error)
{
	if (__builtin_expect(error < 0, 0))
		panic("CPU %u cannot switch its Debug Store: error %d", this_cpu()->index, error);
}

/* --- The buffer that the hardware writes in the linear shape: there from boot on --- */

/* The rest is room for what the CPU goes on to record while interrupts are off. */
#define STAGING_THRESHOLD (STAGING_RECORDS / 2)

/*
 * Nearer, and the branches of the interrupt's own way back could reach the threshold again before
 * the task has got on: some 60, and some 190 where the sanitizer's checks are among them. Of those,
 * hardware that records ring 3 only still stores the last.
 */
#define LEAST	      256
#define LEAST_OF_USER 16

_Static_assert(STAGING_RECORDS - STAGING_THRESHOLD >= DS_DEFAULT_MARGIN,
	       "room after the threshold");

/*
 * A lease holds one view; a staging has one for each that the hardware knows, all of the same
 * memory. A CPU has one loaded at a time, and leaves it empty.
 */
static void create_staging(struct cpu *cpu)
{
	struct ds_request request = {
		.area = trace_memory_alloc(DS_AREA_SIZE),
		.buffer = trace_memory_alloc(STAGING_RECORDS * ds_configuration->record_size),
		.bytes = STAGING_RECORDS * ds_configuration->record_size,
		.overflow = DS_O_SIGNAL,
		.margin = STAGING_RECORDS - STAGING_THRESHOLD,
	};

	if (!request.area || !request.buffer)
		panic("no memory to trace CPU %u", cpu->index);
	for (unsigned view = TRACE_USER; view <= (TRACE_USER | TRACE_KERNEL); view++) {
		request.filter = hardware_filter(view);
		if (ds_request_bts(&bts_cpu(cpu)->staging[view], &request))
			panic("no lease to trace CPU %u", cpu->index);
	}
	/* With the maximum of the manual a buffer that has room left never looks full. */
	ds_set(request.area, DS_BTS_ABSOLUTE_MAXIMUM,
	       (uintptr_t)request.buffer + request.bytes + 1);
}

static void set_threshold(struct bts_cpu *bts, unsigned view, size_t records)
{
	size_t least = view == TRACE_USER ? LEAST_OF_USER : LEAST;

	if (records < least)
		records = least;
	if (records > STAGING_THRESHOLD)
		records = STAGING_THRESHOLD;
	ds_set_overflow(bts->staging[TRACE_USER].area, DS_O_SIGNAL, STAGING_RECORDS - records);
}

/* --- Stamps and ends --- */

/* The idle task gets no stamps. */
static void stamp_one(struct bts_tracer *tracer, unsigned qualifier, const struct cpu *cpu)
{
	if (tracer->options.stamps && cpu->current != &cpu->idle)
		tracer_stamp(tracer, qualifier, cpu->current->pid, cpu->index);
}

static bool at_threshold(const struct bts_tracer *tracer)
{
	return tracer->options.overflow == TRACE_SIGNAL && !tracer->options.paused &&
	       (tracer->ring.used >= tracer->options.threshold || tracer_is_full(tracer));
}

/* Ends what has come to its end for a tracer; the others are not concerned. */
static void check_ends(struct cpu *cpu, struct trace_context *context)
{
	for (struct bts_tracer *at = bts_first(context); at; at = bts_next(at)) {
		if (at_threshold(at) && !at->base.held)
			trace_hold(cpu, &at->base);
		if (cpu->trace->departs || at->full || at->base.held)
			stamp_one(at, PTRACE_BTS_TASK_DEPARTS, cpu);
		if (at->stays_full && tracer_wants(at)) {
			at->ring.lost_more = true;
			tracer_put_gap(at, GAP_UNKNOWN);
		}
		at->stays_full = at->full;
	}
}

/* --- From staging to the rings --- */

static void mark_truncated(struct bts_tracer *tracer)
{
	if (tracer->options.no_branches)
		return;
	tracer->truncated |= tracer_wants(tracer);
	tracer_put_gap(tracer, GAP_UNKNOWN);
}

static void take_records(void *argument, const void *area, size_t count, bool full)
{
	const struct cpu *cpu = argument;

	for (struct bts_tracer *to = NULL; (count || full) && (to = bts_next_of(cpu, to));) {
		struct ds_cursor cursor = ds_cursor_at(area, 0, count);

		for (size_t at = 0; at < count; at++) {
			struct bts_struct record = ds_cursor_read(&cursor);

			record.flags = 0; /* a branch: see record.h */
			if (record_enters_kernel(&record)) {
				cpu->current->entered.from = record.from;
				cpu->current->entered.to = record.to;
			}
			tracer_put(to, &record);
		}
		if (full)
			mark_truncated(to);
	}
}

static void empty_staging(struct cpu *cpu)
{
	struct ds_lease *lease = cpu->trace->ds.loaded;

	bts_cpu(cpu)->reached +=
		lease->overflowed || ds_get(lease->area, DS_BTS_INDEX) >=
					     ds_get(lease->area, DS_BTS_INTERRUPT_THRESHOLD);
	ds_drain(&cpu->trace->ds, lease, take_records, cpu);
}

/*
 * The branch to the address in the kernel's half where ring 3 has just faulted, for the tracers
 * that see ring 3 only; the others have it. It is ring 3's last: before anything ends for a tracer.
 */
static void show_jump(const struct cpu *cpu)
{
	struct task *task = cpu->current;
	struct bts_struct jump = {.qualifier = BTS_BRANCH,
				  .from = task->entered.from,
				  .to = cpu->trace->fault,
				  .flags = BRANCH_SHOWN};

	for (struct bts_tracer *at = NULL; (at = bts_next_of(cpu, at));)
		if (task->entered.to == jump.to && at->options.view == TRACE_USER)
			tracer_put(at, &jump);
	task->entered.to = 0;
}

/* Not inlined: the circular shape would save its registers as well. */
static __attribute__((noinline)) void depart_linear(struct cpu *cpu)
{
	struct trace_cpu *trace = cpu->trace;

	if (trace->ds.loaded)
		empty_staging(cpu);
	if (trace->fault)
		show_jump(cpu);
	check_ends(cpu, trace->running);
	check_ends(cpu, trace->own);
}

/* A circular ring never ends, and no other tracer wants its records. */
static void depart_circular(struct cpu *cpu, struct bts_tracer *tracer)
{
	ring_return(&tracer->ring);
	ds_let_go(&cpu->trace->ds);
	if (cpu->trace->departs)
		stamp_one(tracer, PTRACE_BTS_TASK_DEPARTS, cpu);
	bts_cpu(cpu)->circular = NULL;
}

static void stop(struct cpu *cpu)
{
	check_switch(ds_switch_out(&cpu->trace->ds));
}

static void depart(struct cpu *cpu)
{
	struct bts_tracer *circular = bts_cpu(cpu)->circular;

	if (circular)
		depart_circular(cpu, circular);
	else
		depart_linear(cpu);
}

/* --- Which shape --- */

/* A tracer that is alone and for which the circular shape will do, or NULL. */
static struct bts_tracer *only_wrapping(const struct trace_context *context)
{
	struct bts_tracer *tracer = bts_first(context);

	return tracer && !bts_next(tracer) && tracer_wraps(tracer) &&
			       tracer->options.view == (TRACE_USER | TRACE_KERNEL) &&
			       !tracer->options.no_branches && tracer_records(tracer)
		       ? tracer
		       : NULL;
}

static struct ds_lease *prepare_circular(struct cpu *cpu, struct bts_tracer *tracer)
{
	stamp_one(tracer, PTRACE_BTS_TASK_ARRIVES, cpu);
	tracer->programmed = TRACE_USER | TRACE_KERNEL;
	tracer->circular = true;
	bts_cpu(cpu)->circular = tracer;
	ring_lend(&tracer->ring);
	return &tracer->lease;
}

/* How many records until the first tracer in TRACE_SIGNAL has come to its threshold. */
static size_t room_to_threshold(const struct bts_tracer *tracer)
{
	size_t used = tracer->ring.used, threshold = tracer->options.threshold;

	if (tracer->options.overflow != TRACE_SIGNAL || !tracer_records(tracer))
		return SIZE_MAX;
	return threshold > used ? threshold - used : 1;
}

/* The context is recorded by filter `view`; `*least` is the least room of all tracers. */
static void take_up(struct cpu *cpu, struct trace_context *context, unsigned view, size_t *least)
{
	for (struct bts_tracer *at = bts_first(context); at; at = bts_next(at)) {
		size_t room;

		stamp_one(at, PTRACE_BTS_TASK_ARRIVES, cpu);
		room = room_to_threshold(at);
		*least = room < *least ? room : *least;
		at->programmed = view;
		at->circular = false;
	}
}

/* Staging is empty, with the threshold furthest away. Not inlined: as depart_linear(). */
static __attribute__((noinline)) struct ds_lease *prepare_linear(struct cpu *cpu)
{
	struct trace_context *of[] = {cpu->trace->running, cpu->trace->own};
	struct bts_cpu *bts = bts_cpu(cpu);
	size_t least = SIZE_MAX;
	unsigned wishes[] = {wished_view(of[0]), wished_view(of[1])}, view;

	if (!wishes[0] && !wishes[1])
		return NULL;
	view = hardware_filter(wishes[0] | wishes[1]);
	for (unsigned i = 0; i < 2; i++)
		if (wishes[i])
			take_up(cpu, of[i], view, &least);
	if (least != SIZE_MAX)
		set_threshold(bts, view, least);
	return &bts->staging[view];
}

static void arrive(struct cpu *cpu)
{
	struct bts_tracer *alone =
		bts_first(cpu->trace->own) ? NULL : only_wrapping(cpu->trace->running);
	struct ds_lease *next = alone ? prepare_circular(cpu, alone) : prepare_linear(cpu);

	check_switch(ds_switch_in(&cpu->trace->ds, next));
}

/* --- The row --- */

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
	if (!ds_has_bts())
		printk("# bts=absent why=\"%s\"\n", bts_missing());
	else
		printk("# bts=present layout=%s record=%u\n", ds_configuration->name,
		       ds_configuration->record_size);
}

const struct trace_unit bts_unit = {
	.name = "bts",
	.is_present = ds_has_bts,
	.init_cpu = create_staging,
	.print = print_unit,
	.pause = pause_recording,
	.resume = resume_recording,
	.end = end_recording,
	.newest = get_newest,
	.interrupt = interrupt,
	.stop = stop,
	.depart = depart,
	.arrive = arrive,
	.go_on = go_on,
	.clear = tracer_clear,
	.free = tracer_free,
	.requests = &ptrace_bts_unit,
	.stream = &export_bts,
};
