// SPDX-License-Identifier: MIT
/*
 * test_shadow TRACE.spt ACCOUNT KERNEL PROGRAM: compares the calls that tools/view finds after each
 * branch of a trace with a stack that is kept by RSP. Virtual silicon writes ACCOUNT in the same
 * run (stack=on): each branch that it records, and each CALL, RET and event meanwhile, with RSP.
 * Nothing here asks the code, its symbols, or the stamps for the calls. Prints TAP.
 */
#include "tools/view/follow.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

#define DEEPEST	    1024
#define STACK_BYTES 8192 /* two kernel stacks are farther apart, and none is as deep */
#define CALL	    0x08 /* bits of told.kind */
#define RETURN	    0x10
#define FAR	    0x40

/* As virtual silicon writes it. */
struct told {
	uint64_t rsp;
	uint32_t from, to, processor;
	uint16_t kind; /* 0: an interrupt or exception */
	uint8_t cpl, recorded;
};

/* A call, or an event: it is over when RSP of the same stack is above `top`. */
struct shadow {
	uint64_t top;
	uint32_t from;
	bool kernel, from_program, recorded, event;
};

/* The calls of a task. It has one kernel stack, by which it is known. */
struct task {
	uint64_t kernel_stack; /* an RSP in it */
	size_t depth, base;    /* calls; those that the trace cannot know of */
	bool seen;	       /* a branch of it is recorded */
	struct shadow shadows[DEEPEST];
};

/* What tools/view makes of a branch. */
struct row {
	uint64_t arrived, order; /* the stamp before it, of a task's stream; its place in all */
	uint32_t from, to, resume;
	int cpu;
	unsigned calls;
};

struct processor {
	uint32_t id;
	size_t next, end; /* rows */
	struct task *task;
	const struct told *last;
};

static struct row *rows;
static size_t row_count, row_room;
static struct processor processors[8];
static size_t processor_count;
static struct task **tasks;
static size_t task_count;
static uint64_t arrived, compared, wrong, events, interrupts, deepest, in_program, unwound;
static char first_wrong[256];

/* --- The account --- */

static bool is_near(uint64_t a, uint64_t b)
{
	return a - b + STACK_BYTES < 2 * STACK_BYTES;
}

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

/* Whether RSP is in a stack of the kernel that the task uses: its own, that of an NMI, say. */
static bool uses(const struct task *task, uint64_t rsp)
{
	for (size_t i = 0; i < task->depth; i++)
		if (is_near(task->shadows[i].top, rsp))
			return true;
	return is_near(task->kernel_stack, rsp);
}

static struct task *task_on(struct task *current, uint64_t rsp)
{
	if (current && (!is_kernel(rsp) || uses(current, rsp)))
		return current;
	for (size_t i = 0; i < task_count; i++)
		if (is_near(tasks[i]->kernel_stack, rsp))
			return tasks[i];
	tasks = reallocate(tasks, task_count + 1, sizeof(struct task *));
	tasks[task_count] = allocate(1, sizeof(struct task));
	tasks[task_count]->kernel_stack = rsp;
	return tasks[task_count++];
}

static void push(struct task *task, const struct told *told, bool event, bool recorded)
{
	if (task->depth == DEEPEST)
		fail("more than %d calls", DEEPEST);
	task->shadows[task->depth++] = (struct shadow){.top = told->rsp,
						       .from = told->from,
						       .kernel = !(told->cpl >> 4),
						       .from_program = told->cpl == 3,
						       .recorded = recorded,
						       .event = event};
	deepest = task->depth > deepest ? task->depth : deepest;
}

static bool is_over(const struct task *task, const struct shadow *shadow, const struct told *told)
{
	uint64_t rsp = told->rsp;

	if (told->cpl >> 4)
		return shadow->kernel || rsp > shadow->top;
	if (!shadow->kernel || shadow->from_program || !uses(task, rsp))
		return false;
	return is_near(shadow->top, rsp) ? rsp > shadow->top : true;
}

static void pop(struct task *task, const struct told *told)
{
	size_t before = task->depth;

	while (task->depth && is_over(task, &task->shadows[task->depth - 1], told))
		task->depth--;
	unwound += before > task->depth + 1 && told->cpl == 0x33;
}

static bool is_event(const struct told *told)
{
	return !told->kind || (told->kind & FAR && told->cpl == 3);
}

static struct task *take(struct task *current, const struct told *told, bool recorded)
{
	bool event = is_event(told);
	/* Where a jump finds RSP in no stack of the task, the kernel is about to leave for ring 3.
	 */
	bool jumps = told->kind && !(told->kind & (CALL | RETURN | FAR));
	struct task *task = current && (event || jumps) ? current : task_on(current, told->rsp);

	if (!event)
		pop(task, told);
	if (recorded && (!task->seen || task->depth < task->base)) {
		task->base = task->depth;
		task->seen = true;
	}
	if (event || told->kind & CALL)
		push(task, told, event, recorded);
	events += event && recorded;
	interrupts += !told->kind && recorded;
	return task;
}

/* --- The comparison --- */

static bool is_same(const struct task *task, const struct row *row)
{
	const struct shadow *top = task->depth ? &task->shadows[task->depth - 1] : NULL;

	if (row->calls != task->depth - task->base)
		return false;
	if (!row->calls || !top->recorded)
		return true;
	return top->event ? row->resume == top->from : row->resume - top->from <= 15;
}

static void compare(const struct task *task, const struct row *row)
{
	compared++;
	in_program += !(row->from >> 31);
	if (is_same(task, row) || wrong++)
		return;
	snprintf(first_wrong, sizeof(first_wrong),
		 "branch %llu, %x -> %x: %u calls, %zu by RSP; resumes %x, called at %x",
		 (unsigned long long)row->order, row->from, row->to, row->calls,
		 task->depth - task->base, row->resume,
		 task->depth ? task->shadows[task->depth - 1].from : 0);
}

static struct processor *processor_of(uint32_t id)
{
	for (size_t i = 0; i < processor_count; i++)
		if (processors[i].id == id)
			return &processors[i];
	if (processor_count == sizeof(processors) / sizeof(processors[0]))
		fail("too many processors");
	processors[processor_count].id = id;
	return &processors[processor_count++];
}

/* The CPU whose first branch this is. The kernel tries the hardware before it records for a trace.
 */
static void find_rows(struct processor *processor, const struct told *told)
{
	for (size_t i = 0; i < row_count; i++)
		if ((!i || rows[i].cpu != rows[i - 1].cpu) && rows[i].from == told->from &&
		    rows[i].to == told->to) {
			processor->next = processor->end = i;
			while (processor->end < row_count &&
			       rows[processor->end].cpu == rows[i].cpu)
				processor->end++;
			return;
		}
}

/* True: the branch is the next one of the trace. */
static bool is_next(struct processor *processor, const struct told *told)
{
	const struct row *row;

	if (!told->recorded)
		return false;
	if (!processor->end)
		find_rows(processor, told);
	if (!processor->end)
		return false;
	row = &rows[processor->next];
	if (processor->next < processor->end && row->from == told->from && row->to == told->to)
		return true;
	/* The kernel leaves it out of a trace of ring 3 alone. */
	if (told->cpl != 0 && told->cpl != 0x33)
		return false;
	fail("branch %zu of the trace is not what was recorded, %x -> %x", processor->next,
	     told->from, told->to);
}

static void read_account(const struct told *told, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct processor *processor = processor_of(told[i].processor);
		const struct told *last = processor->last;
		bool next;

		processor->last = &told[i];
		/* INT n is an event, and then an instruction that is complete. */
		if (told[i].kind & FAR && last && !last->kind && last->rsp == told[i].rsp &&
		    last->to == told[i].to)
			continue;
		next = is_next(processor, &told[i]);
		processor->task = take(processor->task, &told[i], next);
		if (next)
			compare(processor->task, &rows[processor->next++]);
	}
}

/* --- The trace --- */

static void stamp(void *argument, const struct cursor_item *item, uint64_t position)
{
	(void)argument;
	(void)position;
	if (!item->of_cpu)
		arrived = item->record.to;
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	struct row row = {.arrived = arrived,
			  .order = row_count,
			  .from = (uint32_t)item->record.from,
			  .to = (uint32_t)item->record.to,
			  .cpu = item->cpu};

	(void)argument;
	(void)position;
	for (size_t i = 0; i < stack->depth; i++)
		if (stack->frames[i].kind != FRAME_ROOT && stack->frames[i].kind != FRAME_TAIL) {
			row.calls++;
			row.resume = (uint32_t)stack->frames[i].resume;
		}
	if (row_count == row_room) {
		row_room = row_room ? 2 * row_room : 4096;
		rows = reallocate(rows, row_room, sizeof(*rows));
	}
	rows[row_count++] = row;
}

static int by_cpu_and_time(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	if (left->cpu != right->cpu)
		return left->cpu < right->cpu ? -1 : 1;
	if (left->arrived != right->arrived)
		return left->arrived < right->arrived ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static int failed, number;

static void result(bool right, const char *claim)
{
	printf("%sok %d - %s\n", right ? "" : "not ", ++number, claim);
	failed |= !right;
}

int main(int argc, char **argv)
{
	struct filter filter = {.cpu = -1, .to = UINT64_MAX, .depth = UINT32_MAX};
	const struct follow_events follow_events = {.stamp = stamp, .branch = branch};
	struct stack_counts counts = {0};
	struct trace *trace;
	struct told *told;
	size_t size;

	if (argc != 5)
		fail("usage: test_shadow TRACE.spt ACCOUNT KERNEL PROGRAM");
	told = (struct told *)read_file(argv[2], &size);
	trace = trace_load(argv[1], false);
	trace_open_code(trace, argv[3], argv[4], ".");
	for (size_t i = 0; i < trace->stream_count; i++) {
		arrived = 0;
		follow(&filter, trace, &trace->streams[i], &follow_events, &counts);
	}
	qsort(rows, row_count, sizeof(*rows), by_cpu_and_time);
	read_account(told, size / sizeof(*told));
	puts("1..2");
	result(compared == row_count && compared >= 5000, "each branch is compared");
	result(wrong == 0, "the calls are those by RSP after each");
	printf("# %llu branches, %llu of them in programs; %zu tasks, %llu events, %llu interrupts or exceptions, %llu deep, %llu unwound\n",
	       (unsigned long long)compared, (unsigned long long)in_program, task_count,
	       (unsigned long long)events, (unsigned long long)interrupts,
	       (unsigned long long)deepest, (unsigned long long)unwound);
	printf("# %llu wrong; %llu tail calls, %llu unwound, %llu unmatched, %llu repairs; %s\n",
	       (unsigned long long)wrong, (unsigned long long)counts.tail_calls,
	       (unsigned long long)counts.unwound, (unsigned long long)counts.unmatched_returns,
	       (unsigned long long)counts.repairs, first_wrong);
	for (size_t i = 0; i < task_count; i++)
		free(tasks[i]);
	free(tasks);
	free(rows);
	free(told);
	trace_free(trace);
	return failed;
}
