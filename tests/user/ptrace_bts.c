// SPDX-License-Identifier: MIT
// The requests for branches, one subject by argument; tests/suite/ptrace/ has the list.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define MOST 4096

static struct ptrace_bts_record records[MOST], again[MOST];

/* A child that stops, by INT3, after each walk of the rounds that it finds in RBX. */
static void walker(uint64_t rounds)
{
	for (;;) {
		__asm__ volatile("int3" : "+b"(rounds));
		walk(rounds);
	}
}

static long start_walker(uint64_t rounds)
{
	long pid = traced_child(walker, rounds);

	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	return pid;
}

/* One more walk. */
static void let_walk(long pid)
{
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
}

static struct ptrace_bts_config status(long pid)
{
	struct ptrace_bts_config config;

	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&config, sizeof(config)) == sizeof(config));
	return config;
}

static bool is_lossy(long pid)
{
	return status(pid).flags & PTRACE_BTS_LOST;
}

static long size(long pid)
{
	return ptrace(PTRACE_BTS_SIZE, pid, 0, 0);
}

static long copy(long request, long pid, struct ptrace_bts_record *to, uint64_t most)
{
	return ptrace(request, pid, (uint64_t)to, most * RECORD);
}

static void expect_walks(const struct ptrace_bts_record *from, long count, uint64_t rounds,
			 uint64_t walks)
{
	struct walk_reader reader = {.rounds = rounds};

	for (long i = 0; i < count; i++)
		CHECK(from[i].qualifier == PTRACE_BTS_BRANCH && walk_feed(&reader, &from[i]));
	CHECK(reader.walks == walks && reader.place == 0);
}

static bool same(const struct ptrace_bts_record *a, const struct ptrace_bts_record *b, long count)
{
	for (long i = 0; i < count; i++)
		if (a[i].qualifier != b[i].qualifier || a[i].from != b[i].from ||
		    a[i].to != b[i].to)
			return false;
	return true;
}

/* Rounded down, as it was accepted, kept while the size stays, gone with size 0. */
static void sizes(void)
{
	long pid = start_walker(5), count;
	struct ptrace_bts_config config = {4000 * RECORD + 23, PTRACE_BTS_TRACE, 0, 0}, now;

	now = status(pid);
	CHECK(!now.size && !now.flags && !now.signal && !now.bts_size);
	CHECK(ptrace(PTRACE_BTS_CONFIG, pid, (uint64_t)&config, 24) == sizeof(config));
	now = status(pid);
	CHECK(now.size == 4000 * RECORD && now.bts_size == RECORD && !now.signal);
	CHECK((now.flags & PTRACE_BTS_SETTABLE) == (PTRACE_BTS_TRACE | PTRACE_BTS_USER));
	CHECK(size(pid) == 0);
	let_walk(pid);
	count = size(pid);
	CHECK(count > 0 && copy(PTRACE_BTS_READ, pid, records, MOST) == count);
	/* The same size: the buffer stays, recording stops, and goes on. */
	CHECK(trace_branches(pid, 4000, PTRACE_BTS_CUT_SIZE, 0) == sizeof(config));
	CHECK((status(pid).flags & PTRACE_BTS_SETTABLE) == (PTRACE_BTS_CUT_SIZE | PTRACE_BTS_USER));
	let_walk(pid);
	CHECK(size(pid) == count && copy(PTRACE_BTS_READ, pid, again, MOST) == count);
	CHECK(same(records, again, count));
	CHECK(trace_branches(pid, 4000, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, 0) > 0);
	CHECK(status(pid).signal == SIGIO);
	let_walk(pid);
	CHECK(copy(PTRACE_BTS_READ, pid, again, MOST) == 2 * count && same(records, again, count));
	CHECK(trace_branches(pid, 4000, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
	let_walk(pid);
	CHECK(copy(PTRACE_BTS_READ, pid, again, MOST) == 3 * count);
	expect_walks(again, 3 * count, 5, 3);
	/* Another size: a new one. Size 0: none. */
	CHECK(trace_branches(pid, 3999, PTRACE_BTS_TRACE, 0) > 0 && size(pid) == 0);
	CHECK(trace_branches(pid, 0, 0, 0) > 0 && size(pid) == -ENXIO);
	now = status(pid);
	CHECK(!now.size && !now.flags && !now.signal && !now.bts_size);
	end_child(pid);
}

#define PAGE 4096ul

/* Records of the largest buffer for which `pages` are charged: two of them are not the buffer's,
 * nor are two records of it. */
static uint32_t largest(uint32_t pages)
{
	return (uint32_t)(((pages - 2) * PAGE - 64) / RECORD) - 2;
}

static void set_limit(uint64_t pages)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	limit.current = pages * PAGE;
	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

/* The limit of all buffers of a process together; a replaced one does not count. */
static void limits(void)
{
	const uint32_t trace = PTRACE_BTS_TRACE, cut = trace | PTRACE_BTS_CUT_SIZE;
	long a = start_walker(2), b = start_walker(2), child;

	set_limit(20);
	CHECK(trace_branches(a, largest(20) + 1, trace, 0) == -ENOMEM);
	CHECK(trace_branches(a, largest(20) + 1, cut, 0) > 0);
	CHECK(status(a).size == largest(20) * RECORD);
	child = fork();
	if (!child) /* nothing is charged to it */
		exit(trace_branches(getpid(), largest(20), trace, 0) <= 0);
	CHECK(next_stop(child) == WAIT_EXITED(0));
	CHECK(trace_branches(b, 2, trace, 0) == -ENOMEM);
	CHECK(trace_branches(b, 2, cut, 0) == -ENOMEM && size(b) == -ENXIO);
	CHECK(trace_branches(a, largest(15), trace, 0) > 0);
	CHECK(trace_branches(b, largest(5) + 1, trace, 0) == -ENOMEM);
	CHECK(trace_branches(b, largest(5) + 1, cut, 0) > 0);
	CHECK(status(b).size == largest(5) * RECORD);
	CHECK(trace_branches(a, largest(15) + 1, trace, 0) == -ENOMEM);
	CHECK(status(a).size == largest(15) * RECORD);
	end_child(a);
	/* What is past the buffer of one that stops at its threshold. */
	CHECK(trace_branches(b, largest(5), trace | PTRACE_BTS_SIGNAL, 0) > 0);
	CHECK(trace_branches(b, largest(20), trace | PTRACE_BTS_SIGNAL, 0) == -ENOMEM);
	set_limit(10);
	CHECK(trace_branches(b, largest(5), trace, 0) > 0);
	CHECK(trace_branches(b, largest(5), trace | PTRACE_BTS_SIGNAL, 0) == -ENOMEM);
	CHECK(trace_branches(b, 2, trace | PTRACE_BTS_SIGNAL, 0) == -ENOMEM);
	CHECK(trace_branches(b, largest(10), trace, 0) > 0);
	let_walk(b);
	CHECK(size(b) > 0);
	/* Lowered: what there is stays, nothing is added. */
	set_limit(0);
	let_walk(b);
	CHECK(status(b).size == largest(10) * RECORD && size(b) > 0);
	CHECK(trace_branches(getpid(), 2, cut, 0) == -ENOMEM);
	CHECK(trace_branches(b, 2, cut, 0) == -ENOMEM);
	end_child(b);
}

static void spin(uint64_t argument)
{
	(void)argument;
	for (;;)
		;
}

static long configure(long pid, const struct ptrace_bts_config *config)
{
	return ptrace(PTRACE_BTS_CONFIG, pid, (uint64_t)config, sizeof(*config));
}

/* CONFIG takes the structure of STATUS, in every state of the buffer, and changes nothing. */
static void repeat_status(long pid)
{
	struct ptrace_bts_config before = status(pid), after;
	long count = size(pid);

	CHECK(configure(pid, &before) == sizeof(before));
	after = status(pid);
	CHECK(after.size == before.size && after.flags == before.flags);
	CHECK(after.signal == before.signal && after.bts_size == before.bts_size);
	CHECK(size(pid) == count);
}

/* The same request again, that was cut to what the limit allowed, keeps the records. */
static void repeat_cut(long pid)
{
	const uint32_t most = 100000, flags = PTRACE_BTS_TRACE | PTRACE_BTS_CUT_SIZE;
	long count;

	CHECK(trace_branches(pid, most, flags, 0) > 0 && status(pid).size < most * RECORD);
	let_walk(pid);
	count = size(pid);
	CHECK(count > 0 && trace_branches(pid, most, flags, 0) > 0 && size(pid) == count);
	CHECK(trace_branches(pid, most, PTRACE_BTS_CUT_SIZE, 0) > 0 && size(pid) == count);
	CHECK(trace_branches(pid, most, PTRACE_BTS_TRACE, 0) == -ENOMEM && size(pid) == count);
	repeat_status(pid);
	CHECK(trace_branches(pid, most + 1, flags, 0) > 0 && size(pid) == 0);
}

/* Stamps alone: where it arrives on a CPU and departs, in turns. */
static void stamps_alone(long pid, uint32_t overflow)
{
	long count;

	CHECK(trace_branches(pid, 1000, PTRACE_BTS_SCHED | overflow, 0) > 0);
	for (unsigned i = 0; i < 3; i++)
		let_walk(pid);
	count = copy(PTRACE_BTS_DRAIN, pid, records, MOST);
	CHECK(count >= 6 && count % 2 == 0 && !is_lossy(pid));
	for (long i = 0; i < count; i++) {
		CHECK(records[i].qualifier ==
		      (i % 2 ? PTRACE_BTS_TASK_DEPARTS : PTRACE_BTS_TASK_ARRIVES));
		CHECK((uint32_t)records[i].pid_cpu == (uint32_t)pid);
		CHECK(i == 0 || records[i].pid_cpu != records[i - 1].pid_cpu ||
		      records[i].tsc > records[i - 1].tsc);
	}
}

static void idioms(void)
{
	static const struct ptrace_bts_config none[] = {
		{0, PTRACE_BTS_TRACE, 0, 0},
		{0, UINT64_MAX, 0, 0},
		{0, PTRACE_BTS_KERNEL, SIGKILL, 24},
		{0, 0, 1000, 77},
	};
	long pid = start_walker(30);
	struct ptrace_bts_config now;

	repeat_status(pid);
	CHECK(trace_branches(pid, 40, PTRACE_BTS_TRACE, 0) > 0);
	let_walk(pid);
	CHECK(is_lossy(pid));
	repeat_status(pid);
	CHECK(trace_branches(pid, 40, PTRACE_BTS_SIGNAL, 0) > 0 && is_lossy(pid));
	CHECK(trace_branches(pid, 40, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
	let_walk(pid);
	CHECK(status(pid).flags & PTRACE_BTS_FULL);
	repeat_status(pid);
	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		CHECK(trace_branches(pid, 40, PTRACE_BTS_TRACE, 0) > 0);
		CHECK(configure(pid, &none[i]) == sizeof(none[i]) && size(pid) == -ENXIO);
	}
	/* Less a flag: nothing stops it any more. */
	CHECK(trace_branches(pid, 40, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, 0) > 0);
	now = status(pid);
	now.flags &= ~(uint64_t)PTRACE_BTS_SIGNAL;
	CHECK(now.signal == SIGIO && configure(pid, &now) == sizeof(now) && !status(pid).signal);
	now.signal = SIGKILL;
	CHECK(configure(pid, &now) == sizeof(now) && !status(pid).signal);
	let_walk(pid);
	repeat_cut(pid);
	stamps_alone(pid, 0);
	stamps_alone(pid, PTRACE_BTS_STOP);
	end_child(pid);
}

/* Newest first, oldest first, over the end of the buffer, twice, and nothing more. */
static void reads(void)
{
	static const uint64_t rounds[] = {1, 10, 22, 23, 24, 25, 26, 27, 28, 29, 30, 100, 1000};
	long pid = start_walker(0), count, all, most, first;
	struct ptrace_registers registers;

	for (unsigned i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
		CHECK(trace_branches(pid, MOST, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
		CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
		registers.rbx = rounds[i];
		CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == 0);
		let_walk(pid);
		all = copy(PTRACE_BTS_DRAIN, pid, records, MOST);
		expect_walks(records, all, rounds[i], 1);
		CHECK(!is_lossy(pid));
		/* Again into a buffer of 80. */
		CHECK(trace_branches(pid, 80, PTRACE_BTS_TRACE, 0) > 0);
		let_walk(pid);
		most = all < 80 ? all : 80;
		count = size(pid);
		CHECK(all > 0 && count == most && is_lossy(pid) == (all > 80));
		for (long at = 0; at < count; at++) {
			CHECK(ptrace(PTRACE_BTS_GET, pid, (uint64_t)again, (uint64_t)at) == RECORD);
			CHECK(same(again, &records[all - 1 - at], 1));
		}
		CHECK(ptrace(PTRACE_BTS_GET, pid, (uint64_t)again, (uint64_t)count) == -EINVAL);
		CHECK(copy(PTRACE_BTS_READ, pid, again, 1ul << 32) == count);
		CHECK(same(again, &records[all - count], count));
		/* In two pieces. */
		first = copy(PTRACE_BTS_DRAIN, pid, again, 3);
		CHECK(first == (count < 3 ? count : 3));
		CHECK(copy(PTRACE_BTS_DRAIN, pid, again + first, MOST - 3) == count - first);
		CHECK(same(again, &records[all - count], count));
		CHECK(size(pid) == 0 && copy(PTRACE_BTS_DRAIN, pid, again, MOST) == 0);
		let_walk(pid);
		CHECK(ptrace(PTRACE_BTS_CLEAR, pid, 0, 0) == 0);
		CHECK(size(pid) == 0 && ptrace(PTRACE_BTS_GET, pid, (uint64_t)again, 0) == -EINVAL);
		CHECK(!is_lossy(pid));
	}
	end_child(pid);
}

/* Keeps the oldest; making room lets it record again. */
static void stops(void)
{
	long pid = start_walker(30), all;

	CHECK(trace_branches(pid, MOST, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
	let_walk(pid);
	all = copy(PTRACE_BTS_DRAIN, pid, records, MOST);
	CHECK(all > 60 && trace_branches(pid, 40, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
	for (unsigned i = 0; i < 3; i++) {
		let_walk(pid);
		CHECK(status(pid).flags & PTRACE_BTS_FULL && size(pid) == 40 && is_lossy(pid));
		let_walk(pid);
		CHECK(copy(PTRACE_BTS_READ, pid, again, MOST) == 40 && same(records, again, 40));
		CHECK(i == 1 ? ptrace(PTRACE_BTS_CLEAR, pid, 0, 0) == 0
			     : copy(PTRACE_BTS_DRAIN, pid, again, MOST) == 40);
		CHECK(!(status(pid).flags & PTRACE_BTS_FULL));
	}
	end_child(pid);
}

/* Its trace outlives the tracee until wait4() has reported the end, or until it is detached. In the
   linear shape: where the kernel filters a circular buffer keeps fewer of its records. */
static void outlives(void)
{
	const uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_SCHED | PTRACE_BTS_STOP;

	for (unsigned detach = 0; detach < 2; detach++) {
		long pid = start_walker(3), count, branches = 0;

		CHECK(trace_branches(pid, 1000, flags, 0) > 0);
		let_walk(pid);
		CHECK(go_on(pid, SIGKILL) == 0 && peek_stop(pid) == WAIT_KILLED(SIGKILL));
		CHECK(wait4(-1, NULL, WNOHANG | WNOWAIT) == pid);
		CHECK(trace_branches(pid, 5, PTRACE_BTS_TRACE, 0) == -ESRCH);
		count = copy(PTRACE_BTS_READ, pid, records, MOST);
		CHECK(count > 2 && size(pid) == count);
		CHECK(records[0].qualifier == PTRACE_BTS_TASK_ARRIVES);
		CHECK(records[count - 1].qualifier == PTRACE_BTS_TASK_DEPARTS);
		for (long i = 1; i < count; i++)
			branches += records[i].qualifier == PTRACE_BTS_BRANCH;
		CHECK(branches > 0);
		CHECK((uint32_t)records[0].pid_cpu == (uint32_t)pid && records[0].tsc);
		if (detach)
			CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0 && size(pid) == -ESRCH);
		CHECK(next_stop(pid) == WAIT_KILLED(SIGKILL) && size(pid) == -ESRCH);
		CHECK(wait4(pid, NULL, 0) == -ECHILD);
	}
}

/* The trace of a CPU on which its reader does not run, nor anything else but this. */
static void other_cpu(void)
{
	const uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_SCHED | PTRACE_BTS_STOP;
	long cpu = PTRACE_BTS_CPU(1), error = trace_branches(cpu, 400, flags, 0), pid;
	struct walk_reader reader = {.rounds = 100};

	if (error == -ESRCH) /* there is one CPU only */
		return;
	CHECK(error > 0);
	pid = fork();
	if (!pid) {
		CHECK(set_affinity(0, 2) == 0);
		for (;;)
			walk(100);
	}
	while (!(status(cpu).flags & PTRACE_BTS_FULL))
		sleep_us(100);
	CHECK(copy(PTRACE_BTS_READ, cpu, records, MOST) == 400);
	CHECK(copy(PTRACE_BTS_DRAIN, cpu, again, MOST) == 400 && same(records, again, 398));
	CHECK(records[0].qualifier == PTRACE_BTS_TASK_ARRIVES);
	for (unsigned i = 0; i < 400; i++)
		if (records[i].qualifier == PTRACE_BTS_BRANCH)
			CHECK(walk_feed(&reader, &records[i]));
		else if (records[i].qualifier == PTRACE_BTS_GAP)
			CHECK(i >= 398); /* nothing but the stamp of departure is after it */
		else
			CHECK(records[i].pid_cpu == ((uint64_t)pid | 1ul << 32));
	CHECK(reader.round > 0 || reader.walks > 0);
	CHECK(status(cpu).flags & PTRACE_BTS_LOST);
	kill(pid, SIGKILL);
	CHECK(wait4(pid, NULL, 0) == pid);
}

/* With the right to it. */
static void cpus(void)
{
	long cpu = PTRACE_BTS_CPU(0);
	struct ptrace_bts_config now = status(cpu);

	CHECK(!now.size && size(cpu) == -ENXIO);
	CHECK(trace_branches(cpu, 50, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, 0) == -EOPNOTSUPP);
	CHECK(trace_branches(PTRACE_BTS_CPU(64), 50, PTRACE_BTS_TRACE, 0) == -ESRCH);
	CHECK(trace_branches(cpu, 50, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
	CHECK(set_affinity(0, 1) == 0);
	walk(100);
	CHECK(size(cpu) == 50 && status(cpu).flags & PTRACE_BTS_FULL);
	CHECK(copy(PTRACE_BTS_READ, cpu, records, MOST) == 50);
	CHECK(copy(PTRACE_BTS_DRAIN, cpu, again, MOST) == 50 && same(records, again, 50));
	walk(100);
	CHECK(size(cpu) == 50);
	CHECK(ptrace(PTRACE_DETACH, cpu, 0, 0) == -ESRCH && go_on(cpu, 0) == -ESRCH);
	CHECK(trace_branches(cpu, 0, 0, 0) > 0 && size(cpu) == -ENXIO);
	CHECK(trace_branches(cpu, 60, PTRACE_BTS_TRACE, 0) > 0);
	/* and ends with it */
	other_cpu();
}

/* Memory runs out while this process is stopped, and is back when it has stopped again. */
static void no_memory(void)
{
	long pid = start_walker(3), other = fork();

	if (!other)
		spin(0);
	CHECK(trace_branches(pid, 100, PTRACE_BTS_TRACE, 0) > 0);
	kill(getpid(), SIGSTOP);
	CHECK(trace_branches(pid, 1000, PTRACE_BTS_TRACE, 0) == -ENOMEM);
	CHECK(trace_branches(pid, 100, PTRACE_BTS_SIGNAL, 0) == -ENOMEM);
	CHECK(status(pid).size == 100 * RECORD && status(pid).flags & PTRACE_BTS_TRACE);
	CHECK(ptrace(PTRACE_SEIZE, other, 0, 0) == -ENOMEM);
	CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == -ENOMEM);
	kill(getpid(), SIGSTOP);
	CHECK(trace_branches(pid, 1000, PTRACE_BTS_TRACE, 0) > 0);
	CHECK(ptrace(PTRACE_SEIZE, other, 0, 0) == 0);
	end_child(pid);
	end_child(other);
}

static void work(uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++) {
		walk(random_next(&seed) % 8 + 1);
		getpid();
	}
}

/* Branches until both run on one CPU: on two, each step waits for the other. */
#define ACROSS 10

/* Each step is a branch that was recorded, or leads to the next instruction and was not. */
static void stepped(void)
{
	long pid = traced_child(work, 1), count, branches = 0;
	struct ptrace_registers before, now;
	int stop;

	CHECK(trace_branches(pid, 4000, PTRACE_BTS_TRACE, 0) > 0);
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&before) == 0);
	for (;; before = now) {
		CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
		stop = next_stop(pid);
		if (stop == WAIT_EXITED(0))
			break;
		CHECK(stop == WAIT_STOPPED(SIGTRAP));
		CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&now) == 0);
		count = copy(PTRACE_BTS_DRAIN, pid, records, MOST);
		branches += count;
		if (branches == ACROSS)
			CHECK(set_affinity(pid, 1) == 0 && set_affinity(0, 1) == 0);
		if (count)
			CHECK(count == 1 && records[0].from == before.rip &&
			      records[0].to == now.rip);
		else
			CHECK(now.rip > before.rip && now.rip <= before.rip + 15);
	}
	CHECK(branches >= 100 && size(pid) == -ESRCH);
}

int main(uint64_t argument)
{
	static void (*const subjects[])(void) = {sizes, limits,	   reads,   stops, outlives,
						 cpus,	no_memory, stepped, idioms};

	subjects[argument]();
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}
