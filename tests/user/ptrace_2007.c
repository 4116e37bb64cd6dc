// SPDX-License-Identifier: MIT
// A tracer written from the comments of the patch of 2007-12-14 to Linux and nothing else: two
// longs in the structure, DATA ignored where the comments say so. What it passes there is
// `argument`. Each call works, or is refused; none is taken for another request. Records are
// ptrace_bts_record.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

struct config_2007 {
	unsigned long size, flags;
};

#define GUARD 0xfeedfacecafebeef

static struct {
	struct config_2007 config;
	unsigned long guard;
} cell = {.guard = GUARD};

static struct ptrace_bts_record records[1000];
static uint64_t ignored;

static long config(long pid, unsigned long bytes, unsigned long flags)
{
	cell.config = (struct config_2007){bytes, flags};
	return ptrace(PTRACE_BTS_CONFIG, pid, (uint64_t)&cell.config, ignored);
}

static void expect_status(long pid, unsigned long bytes, unsigned long flags)
{
	cell.config = (struct config_2007){1, 1};
	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&cell.config, ignored) >= 0);
	CHECK(cell.config.size == bytes && cell.guard == GUARD);
	CHECK((cell.config.flags & 0xf) == flags);
}

static void walks(uint64_t rounds)
{
	for (;;) {
		walk(rounds);
		__asm__ volatile("int3");
	}
}

static void let_walk(long pid)
{
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
}

/* Newest first, by GET; the same again by DRAIN, unless that is refused. */
static void read_both_ways(long pid)
{
	long count = ptrace(PTRACE_BTS_SIZE, pid, ignored, ignored), drained;
	struct walk_reader reader = {.rounds = 9};
	struct ptrace_bts_record record;

	CHECK(count > 9 && count < 1000);
	for (long i = count - 1; i >= 0; i--) {
		CHECK(ptrace(PTRACE_BTS_GET, pid, (uint64_t)&record, (uint64_t)i) >= 0);
		CHECK(record.qualifier == PTRACE_BTS_BRANCH && walk_feed(&reader, &record));
	}
	CHECK(reader.walks == 1);
	drained = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, ignored);
	if (drained < 0) {
		CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) == count);
		CHECK(ptrace(PTRACE_BTS_CLEAR, pid, ignored, ignored) == 0);
	} else {
		CHECK(drained == count);
	}
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, ignored, ignored) == 0);
}

int main(uint64_t argument)
{
	long pid = traced_child(walks, 9);

	ignored = argument;
	expect_status(pid, 0, 0);
	CHECK(config(pid, 24000, 0) == 0);
	expect_status(pid, 24000, 0);
	let_walk(pid);
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, ignored, ignored) == 0);
	CHECK(config(pid, 24000, PTRACE_BTS_O_TRACE) == 0);
	expect_status(pid, 24000, PTRACE_BTS_O_TRACE);
	let_walk(pid);
	read_both_ways(pid);
	CHECK(config(pid, 24000, PTRACE_BTS_O_SCHED) == 0);
	expect_status(pid, 24000, PTRACE_BTS_O_SCHED);
	let_walk(pid);
	CHECK(ptrace(PTRACE_BTS_GET, pid, (uint64_t)records, 0) >= 0);
	CHECK(records[0].qualifier == PTRACE_BTS_TASK_DEPARTS);
	CHECK(config(pid, 1ul << 40, PTRACE_BTS_O_TRACE) == -ENOMEM);
	CHECK(config(pid, 1ul << 40, PTRACE_BTS_O_TRACE | PTRACE_BTS_O_CUT_SIZE) == 0);
	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&cell.config, ignored) >= 0);
	CHECK(cell.config.size > 24000 && cell.config.size < 1ul << 40);
	CHECK(config(pid, 24000, PTRACE_BTS_O_TRACE | PTRACE_BTS_O_SIGNAL) == 0);
	expect_status(pid, 24000, PTRACE_BTS_O_TRACE | PTRACE_BTS_O_SIGNAL);
	CHECK(config(pid, 24000, 1ul << 60) == -EINVAL);
	CHECK(config(pid, 0, PTRACE_BTS_O_TRACE) == 0);
	expect_status(pid, 0, 0);
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, ignored, ignored) == -ENXIO);
	CHECK(cell.guard == GUARD);
	end_child(pid);
	return 0;
}
