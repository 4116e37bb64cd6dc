// SPDX-License-Identifier: MIT
// A jump into the kernel's half of the address space faults there. Its record says where it came
// from, and has no address of the kernel but the one that the tracer finds in RIP.
// argument: 0: records of BTS; 1: the LBR stack.
#include "abi/ptrace_lbr.h"
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define MOST	400
#define STEPPED 16 /* added to a way: without walks */

static struct ptrace_bts_record records[MOST];
static uint64_t target;

extern const char jump_site[], call_site[], return_site[];

static _Noreturn void jump(void)
{
	__asm__ volatile("jump_site: jmp *%0" : : "r"(target));
	__builtin_unreachable();
}

static _Noreturn void call(void)
{
	__asm__ volatile("call_site: call *%0" : : "r"(target));
	__builtin_unreachable();
}

static _Noreturn void leave(void)
{
	__asm__ volatile("push %0\n\treturn_site: ret" : : "r"(target));
	__builtin_unreachable();
}

static const struct way {
	void (*go)(void);
	const char *site;
} ways[] = {{jump, jump_site}, {call, call_site}, {leave, return_site}};

/* With system calls on the way, so that there are transitions that must not show. */
static void body(uint64_t way)
{
	for (unsigned i = 0; i < 5 && way < STEPPED; i++) {
		walk(10);
		getpid();
	}
	getpid();
	ways[way % STEPPED].go();
}

static uint64_t rip(long pid)
{
	struct ptrace_registers registers;

	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	return registers.rip;
}

/* It is the newest record; no other has an end in the kernel's half. */
static void expect_shown(long pid, const struct way *way, long size)
{
	long count = ptrace(PTRACE_BTS_READ, pid, (uint64_t)records, sizeof(records));

	CHECK(rip(pid) == target && count > 0 && count <= size);
	CHECK(records[count - 1].from == (uint64_t)way->site);
	CHECK(records[count - 1].to == target);
	for (long i = 0; i < count - 1; i++)
		CHECK(!(records[i].from >> 63) && !(records[i].to >> 63));
}

static void crash(uint64_t way, uint32_t size, bool step)
{
	long pid = traced_child(body, step ? way + STEPPED : way);
	int status;

	CHECK(trace_branches(pid, size, PTRACE_BTS_TRACE, 0) > 0);
	if (step) {
		do {
			CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
			status = next_stop(pid);
			CHECK(status == WAIT_STOPPED(SIGTRAP) || status == WAIT_STOPPED(SIGSEGV));
		} while (status == WAIT_STOPPED(SIGTRAP) && rip(pid) != target);
		expect_shown(pid, &ways[way], size);
	}
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGSEGV));
	expect_shown(pid, &ways[way], size);
	end_child(pid);
}

/* The buffer reaches its threshold with the branches before the jump, and the child is to stop. */
static void crash_at_threshold(uint64_t way, uint32_t size)
{
	long pid = traced_child(body, way + STEPPED);
	unsigned stops = 0;
	int status;

	CHECK(trace_branches(pid, size, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, SIGUSR2) > 0);
	while (go_on(pid, 0) == 0 && (status = next_stop(pid)) != WAIT_STOPPED(SIGSEGV)) {
		CHECK(status == (int)(EVENT(PTRACE_EVENT_BTS) | WAIT_STOPPED(SIGUSR2)));
		stops++;
	}
	CHECK(stops > 0 || !(target >> 63));
	expect_shown(pid, &ways[way], MOST);
	end_child(pid);
}

#define ENTRIES 32

static void crash_newest(uint64_t way)
{
	static struct ptrace_lbr_branch branches[ENTRIES];
	const struct ptrace_lbr_config config = {.entries = ENTRIES};
	long pid = traced_child(body, way), count;

	CHECK(ptrace(PTRACE_LBR_CONFIG, pid, (uint64_t)&config, sizeof(config)) > 0);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGSEGV));
	count = ptrace(PTRACE_LBR_READ, pid, (uint64_t)branches, sizeof(branches));
	CHECK(rip(pid) == target && count > 1);
	CHECK(branches[0].from == (uint64_t)ways[way].site && branches[0].to == target);
	for (long i = 1; i < count; i++)
		CHECK(!(branches[i].from >> 63) && !(branches[i].to >> 63));
	end_child(pid);
}

/* A jump that stays in ring 3's half, where nothing is mapped, needs nothing of this. */
int main(uint64_t argument)
{
	static const uint64_t targets[] = {
		0xffffffff80000000,
		0xffff800000000000,
		0xfffffffffffffff8,
		0x123456789000,
	};

	for (unsigned i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		for (uint64_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
			target = targets[i];
			if (argument) {
				crash_newest(way);
				continue;
			}
			crash(way, MOST, false);
			crash(way, 1, i == way);
			crash_at_threshold(way, 1 + i);
		}
	return 0;
}
