// SPDX-License-Identifier: MIT
// Stamps are in the same stream as branches, with a `from` in the last 16 bytes of the address
// space. Passing means: no branch that software can make is taken for a stamp, not even one from
// there.
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/trace/record.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/walker.h"

#define START 0x10000000ul
#define JUMPS 16

/* Ring 3 jumps to the last 16 addresses there are, which is where stamps claim to come from. */
static void jump(void *argument)
{
	(void)argument;
	for (unsigned i = 0; i < JUMPS; i++) {
		struct trap_frame frame = {.rip = START, .rax = STAMP_ESCAPE + i};

		user_run(&frame);
	}
}

static void trace(enum trace_overflow overflow)
{
	static struct ptrace_bts_record records[4096];
	struct trace_options options = walker_options(4096);
	struct task *task = task_create_stopped("jumper", jump, NULL);
	struct tracer *tracer = NULL;
	size_t count, stamps = 0, faults = 0;

	options.overflow = overflow;
	if (!task || trace_attach(task, &options, &tracer))
		test_error("the task cannot be started and traced");
	task_start(task);
	task_join(task);
	count = trace_read(tracer, records, 4096);
	for (size_t i = 0; i < count; i++) {
		stamps += records[i].qualifier != PTRACE_BTS_BRANCH;
		faults += records[i].from == STAMP_ESCAPE + faults;
	}
	EXPECT_EQ(stamps, 0);
	EXPECT_EQ(faults, JUMPS);
	EXPECT(trace_detach(tracer));
	task_put(task);
}

TEST(bts_stamps_no_branch_is_one, .group = "A", .ids = "A2", .needs = NEED_BTS,
     .claim = "no branch is taken for a stamp, not even from the addresses that stamps carry",
     .source = "docs/design.md#stamps")
{
	static const uint8_t jmp_rax[] = {0xff, 0xe0};
	uint8_t *page = test_area(1);

	memcpy(page, jmp_rax, sizeof(jmp_rax));
	code_map(START, page, VM_USER);
	trace(TRACE_STOP);
	trace(TRACE_WRAP);
	code_unmap(START);
}
