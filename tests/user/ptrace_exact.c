// SPDX-License-Identifier: MIT
// Traces a child over system calls, interrupts, faults and signals, and compares with what it did.
// argument: 1: with the kernel's branches; 2: the kernel makes the choice; << 8: rounds.
#include "tests/user/lib/ptrace.h"

#define MOST 4096
#define SPIN 40

extern const char trek_start[], trek_call[], trek_after[], trek_leaf[], trek_back[],
	trek_undefined[], trek_fault[], trek_jump[], trek_over[], trek_spin[], trek_again[],
	trek_top[], trek_end[];
void trek(uint64_t rounds);

__asm__(".globl trek\n"
	"trek:\n\t"
	"int3\n"
	"trek_start:\n"
	"trek_top:\n\t"
	"mov $39, %eax\n" /* getpid */
	"trek_call:\n\t"
	"syscall\n"
	"trek_after:\n\t"
	"call trek_leaf\n"
	"trek_back:\n\t"
	"int3\n"
	"trek_undefined:\n\t"
	"ud2\n"
	"trek_fault:\n\t"
	"movb 0, %al\n" /* seven bytes */
	"trek_jump:\n\t"
	"jmp trek_over\n\t"
	"nop\n"
	"trek_over:\n\t"
	"mov $40, %ecx\n"
	"trek_spin:\n\t"
	"loop trek_spin\n\t"
	"dec %rdi\n"
	"trek_again:\n\t"
	"jnz trek_top\n\t"
	"int3\n"
	"trek_end:\n"
	"trek_leaf:\n\t"
	"ret");

static struct ptrace_bts_record records[MOST];
static uint64_t kernel, calls, undefined, faults, returns;

/* The branches of a round in order; behind the last round the loop is left. */
static void feed_user(const struct ptrace_bts_record *record)
{
	static const char *const edges[][2] = {{trek_after, trek_leaf},
					       {trek_leaf, trek_back},
					       {trek_jump, trek_over},
					       {trek_spin, trek_spin},
					       {trek_again, trek_top}};
	static unsigned place, spins;

	CHECK(record->from == (uint64_t)edges[place][0]);
	CHECK(record->to == (uint64_t)edges[place][1]);
	if (place == 3 && ++spins < SPIN - 1)
		return;
	spins = 0;
	place = (place + 1) % 5;
}

static void feed(const struct ptrace_bts_record *record, bool privileged)
{
	bool from_kernel = record->from >> 63, to_kernel = record->to >> 63;

	CHECK(record->qualifier == PTRACE_BTS_BRANCH);
	if (!from_kernel && !to_kernel) {
		feed_user(record);
		return;
	}
	CHECK(privileged);
	kernel += from_kernel && to_kernel;
	if (to_kernel) {
		calls += record->from == (uint64_t)trek_call;
		undefined += record->from == (uint64_t)trek_undefined;
		faults += record->from == (uint64_t)trek_fault;
	}
	returns += !to_kernel && record->to == (uint64_t)trek_after;
}

static uint64_t drain(long pid, bool privileged)
{
	struct ptrace_bts_config config;
	uint64_t users = 0;
	long count;

	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&config, sizeof(config)) > 0);
	CHECK(!(config.flags & (PTRACE_BTS_LOST | PTRACE_BTS_TRUNCATED)));
	while ((count = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records))) > 0)
		for (long i = 0; i < count; i++) {
			feed(&records[i], privileged);
			users += !(records[i].from >> 63 | records[i].to >> 63);
		}
	CHECK(count == 0);
	return users;
}

/* Over the instruction that raised `signal`; true behind the last one. */
static bool skip(long pid, int signal)
{
	struct ptrace_registers registers;

	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	if (signal != SIGILL && signal != SIGSEGV)
		return signal == SIGTRAP && registers.rip == (uint64_t)trek_end;
	CHECK(registers.rip == (uint64_t)(signal == SIGILL ? trek_undefined : trek_fault));
	registers.rip = (uint64_t)(signal == SIGILL ? trek_fault : trek_jump);
	CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == 0);
	return false;
}

/* Signals from elsewhere, at any time, which the tracer averts. */
static long pester(long pid)
{
	long child = fork();

	if (child)
		return child;
	for (unsigned i = 0; i < 100 && kill(pid, SIGUSR1) == 0; i++)
		sleep_us(3000);
	exit(0);
}

int main(uint64_t argument)
{
	uint64_t rounds = argument >> 8, users = 0;
	uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL;
	bool privileged = argument & 1, at_end;
	struct ptrace_bts_config config;
	long pid = traced_child(trek, rounds), other;
	int status;

	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	if (privileged)
		flags |= PTRACE_BTS_USER | PTRACE_BTS_KERNEL;
	CHECK(trace_branches(pid, privileged ? 2000 : 30, flags, SIGUSR2) > 0);
	other = pester(pid);
	do {
		CHECK(go_on(pid, 0) == 0);
		status = next_stop(pid);
		CHECK((status & 0xff) == 0x7f);
		users += drain(pid, privileged);
		at_end = status >> 16 == 0 && skip(pid, status >> 8);
	} while (!at_end);
	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&config, sizeof(config)) > 0);
	CHECK(privileged || !(argument & 2) == !(config.flags & PTRACE_BTS_SOFTWARE));
	CHECK(users == rounds * (4 + SPIN - 1) - 1);
	if (privileged)
		CHECK(kernel > rounds && calls >= rounds && undefined >= rounds &&
		      faults >= rounds && returns >= rounds);
	end_child(pid);
	kill(other, SIGKILL);
	next_stop(other);
	return 0;
}
