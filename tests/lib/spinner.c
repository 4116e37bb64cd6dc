// SPDX-License-Identifier: MIT
#include "tests/lib/spinner.h"

#include "drivers/ds/ds.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/symbols.h"
#include "kernel/time.h"
#include "kernel/trace/trace.h"
#include "kernel/trap/user.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"

#define RECORDS	   16384
#define USER_START 0x10000000ul
#define SLICE	   100 /* microseconds; 1000 is what the kernel starts with */
#define TURNS	   8
#define MOST_TIME  5000000 /* microseconds */

extern const char spinner_spin[];

static void spin_in_kernel(void *argument)
{
	(void)argument;
	__asm__ volatile("spinner_spin:\n\tjmp spinner_spin");
}

static void spin_in_user(void *argument)
{
	struct trap_frame frame = {.rip = USER_START};

	(void)argument;
	user_run(&frame);
}

static bool inside(uint64_t address, const void *function)
{
	return symbol_start(address) == (uint64_t)function;
}

/* The WRMSR that turns recording on is inside ds_switch_in(), or in a function that it calls. */
static bool begins_arrival(const struct ptrace_bts_record *records, size_t at)
{
	const void *arrival = (const void *)ds_switch_in;
	bool from = inside(records[at].from, arrival), to = inside(records[at].to, arrival);

	return from != to && !inside(records[at - 1].to, arrival);
}

/* `at` is the first record of an arrival. False: the spinner was not spinning before or after. */
static bool measure(const struct ptrace_bts_record *records, size_t count, size_t at, uint64_t spin,
		    struct preemption *preemption)
{
	size_t first = at, last = at;

	while (first > 0 && records[first].from != spin)
		first--;
	while (last < count && records[last].to != spin)
		last++;
	if (records[first].from != spin || last == count ||
	    records[first].to != trap_entry(VECTOR_TIMER))
		return false;
	*preemption = (struct preemption){(uint32_t)(at - first), (uint32_t)(last - at + 1)};
	return true;
}

/*
 * Adds to the `found` preemptions what the ring holds: nothing, if a late timer let the spinner
 * spin all round it.
 */
static size_t collect(struct tracer *tracer, struct ptrace_bts_record *records, uint64_t spin,
		      struct preemption preemptions[SPINNER_MOST], size_t found)
{
	size_t count = trace_peek(tracer, &(uint64_t){0}, records, RECORDS);

	for (size_t at = 1; at < count && found < SPINNER_MOST; at++)
		if (records[at].from != spin && begins_arrival(records, at) &&
		    measure(records, count, at, spin, &preemptions[found]))
			found++;
	return found;
}

/* Each time that it is the test's turn, the spinner has been preempted once more. */
static size_t preempt(const struct task *task, struct tracer *tracer, uint64_t spin,
		      struct preemption preemptions[SPINNER_MOST])
{
	struct ptrace_bts_record *records = test_area(RECORDS * sizeof(*records) / PAGE_SIZE);
	uint64_t end = time_now() + MOST_TIME, turns = 0;
	size_t found = 0;

	sched_set_slice(SLICE);
	while ((task->switches < TURNS || !found) && time_now() < end) {
		if (task->switches == turns)
			continue;
		turns = task->switches;
		found = collect(tracer, records, spin, preemptions, found);
	}
	sched_set_slice(1000);
	return found;
}

size_t spinner_run(bool in_user, struct preemption preemptions[SPINNER_MOST])
{
	const struct trace_options options = {.view = TRACE_USER | TRACE_KERNEL,
					      .privileged = true,
					      .size = RECORDS * sizeof(struct ptrace_bts_record)};
	uint8_t *code = test_area(1);
	struct tracer *tracer = NULL;
	struct task *task;
	size_t count = 0;

	code[0] = 0xeb; /* jmp to itself */
	code[1] = 0xfe;
	code_map(USER_START, code, VM_USER);
	test_pin();
	task = task_create_stopped("spinner", in_user ? spin_in_user : spin_in_kernel, NULL);
	if (!task || trace_attach(task, &options, &tracer))
		test_error("the spinner cannot be started and traced");
	task_start(task);
	count = preempt(task, tracer, in_user ? USER_START : (uint64_t)spinner_spin, preemptions);
	task_kill(task);
	EXPECT(trace_detach(tracer));
	task_put(task);
	code_unmap(USER_START);
	return count;
}
