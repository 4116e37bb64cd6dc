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

/* The branches of a round in order; after the last round the loop is left. */
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

/* Over the instruction that raised `signal`; true after the last one. */
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

MAIN(ptrace_exact)
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

// PTRACE_SINGLEBLOCK in a program whose branches are known. argument: 0: alone; 1: beside BTS; 2:
// by turns with SINGLESTEP, drawn by the seed in bits 63:8; 3: over blocks that outlast a time
// slice; 4: until the tracer ends, in the middle of a block.

#define STRING 65536 /* bytes */

extern const char blocks_top[], blocks_je[], blocks_even[], blocks_call[], blocks_back[],
	blocks_indirect[], blocks_spin[], blocks_syscall[], blocks_after[], blocks_int3[],
	blocks_behind[], blocks_again[], blocks_last[], blocks_end[], blocks_leaf[], blocks_ret[],
	long_jump[], long_end[], orphan_called[], orphan_trap[];
uint32_t orphan_bytes; /* of each string in its block */
void blocks(uint64_t string);
void long_blocks(uint64_t string);
void orphan(uint64_t string);

/* Branches that are taken and that are not; REP, which steps show at the same place, is none. INT3
   stops each step, and ends none. */
__asm__("blocks:\n\t"
	"mov $3, %ebx\n\t"
	"int3\n"
	"blocks_top:\n\t"
	"cmp $2, %ebx\n"
	"blocks_je:\n\t"
	"je blocks_even\n\t"
	"nop\n"
	"blocks_even:\n\t"
	"mov %rdi, %rsi\n\t"
	"mov $4, %ecx\n\t"
	"rep lodsb\n"
	"blocks_call:\n\t"
	"call blocks_leaf\n"
	"blocks_back:\n\t"
	"mov $3, %ecx\n"
	"blocks_spin:\n\t"
	"loop blocks_spin\n\t"
	"mov $39, %eax\n" /* getpid */
	"blocks_syscall:\n\t"
	"syscall\n"
	"blocks_after:\n\t"
	"dec %ebx\n"
	"blocks_int3:\n\t"
	"int3\n"
	"blocks_behind:\n\t"
	"test %ebx, %ebx\n"
	"blocks_again:\n\t"
	"jnz blocks_top\n"
	"blocks_last:\n\t"
	"jmp blocks_end\n"
	"blocks_leaf:\n\t"
	"lea blocks_ret(%rip), %rax\n"
	"blocks_indirect:\n\t"
	"jmp *%rax\n\t"
	"ud2\n"
	"blocks_ret:\n\t"
	"ret\n"
	"blocks_end:\n\t"
	"int3\n"
	"long_blocks:\n\t"
	"int3\n\t"
	".rept 8\n\t"
	"mov %rdi, %rsi\n\t"
	"mov $65536, %ecx\n\t"
	"rep lodsb\n\t"
	".endr\n"
	"long_jump:\n\t"
	"jmp long_end\n\t"
	"nop\n"
	"long_end:\n\t"
	"jmp long_blocks\n"
	"orphan:\n\t"
	"int3\n\t"
	".rept 200\n\t"
	"mov %rdi, %rsi\n\t"
	"mov orphan_bytes(%rip), %ecx\n\t"
	"rep lodsb\n\t"
	".endr\n\t"
	"mov $39, %eax\n\t"
	"syscall\n"
	"orphan_called:\n\t"
	"pushf\n\t"
	"orl $0x100, (%rsp)\n\t" /* TF, which traps after the instruction after POPF */
	"popf\n\t"
	"nop\n"
	"orphan_trap:\n\t"
	"nop\n"
	"orphan_end:\n\t"
	"jmp orphan_end");

static const char *const edges[][2] = {
	{blocks_je, blocks_even},	{blocks_call, blocks_leaf}, {blocks_indirect, blocks_ret},
	{blocks_ret, blocks_back},	{blocks_spin, blocks_spin}, {blocks_again, blocks_top},
	{blocks_syscall, blocks_after}, {blocks_last, blocks_end},  {blocks_int3, blocks_behind},
};

static bool is_branch(uint64_t from, uint64_t to)
{
	for (unsigned i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		if (from == (uint64_t)edges[i][0] && to == (uint64_t)edges[i][1])
			return true;
	return false;
}

static uint64_t rip_of(long pid)
{
	uint64_t rip;

	CHECK(ptrace(PTRACE_PEEKUSR, pid, offsetof(struct ptrace_registers, rip), (uint64_t)&rip) ==
	      0);
	return rip;
}

static uint64_t step_by(long request, long pid)
{
	CHECK(ptrace(request, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	return rip_of(pid);
}

/* A child after its INT3. */
static long blocks_child(void (*body)(uint64_t string))
{
	long pid = traced_child(body, (uint64_t)map(STRING, PROT_READ));

	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	return pid;
}

static uint64_t path[200]; /* where single-stepping stops; a branch goes from one to the next */
static unsigned path_length;

static void find_path(void)
{
	long pid = blocks_child(blocks);

	path[path_length++] = rip_of(pid);
	do {
		CHECK(path_length < sizeof(path) / sizeof(path[0]));
		path[path_length] = step_by(PTRACE_SINGLESTEP, pid);
	} while (path[path_length++] != (uint64_t)blocks_end);
	end_child(pid);
}

/* The only record is that of this branch; none, if it is SYSCALL or INT3, which go to the kernel.
 */
static void check_record(long pid, uint64_t from, uint64_t to)
{
	struct ptrace_bts_record record;

	if (from == (uint64_t)blocks_syscall || from == (uint64_t)blocks_int3) {
		CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) == 0);
		return;
	}
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) == 1);
	CHECK(ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)&record, RECORD) == 1);
	CHECK(record.from == from && record.to == to);
}

static void walk_path(bool branches, bool steps, uint64_t seed)
{
	long pid = blocks_child(blocks);
	unsigned at = 0, counts[2] = {0};

	if (branches)
		CHECK(trace_branches(pid, 10, PTRACE_BTS_TRACE, 0) > 0);
	while (at + 1 < path_length) {
		bool step = steps && random_next(&seed) & 1;

		counts[step]++;
		do
			at++;
		while (!step && !is_branch(path[at - 1], path[at]));
		CHECK(step_by(step ? PTRACE_SINGLESTEP : PTRACE_SINGLEBLOCK, pid) == path[at]);
		if (branches)
			check_record(pid, path[at - 1], path[at]);
	}
	CHECK(counts[0] > 3 && !counts[1] == !steps);
	end_child(pid);
}

static void outlast_slices(void)
{
	long pid = blocks_child(long_blocks), other = fork();

	while (!other)
		;
	CHECK(set_affinity(pid, 1) == 0 && set_affinity(other, 1) == 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK(step_by(PTRACE_SINGLEBLOCK, pid) == (uint64_t)long_end);
		CHECK(step_by(PTRACE_SINGLEBLOCK, pid) == (uint64_t)long_blocks);
		CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	}
	end_child(pid);
	CHECK(kill(other, SIGKILL) == 0 && wait4(other, NULL, 0) == other);
}

/* Another tracer of a stopped child, which has let it go on by `request`, and is stopped itself. */
static long second_tracer(long request, long pid)
{
	long other = fork();

	if (!other) {
		CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
		CHECK(ptrace(request, pid, 0, 0) == 0);
		kill(getpid(), SIGSTOP);
		CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
		exit(0);
	}
	CHECK(wait4(other, NULL, WUNTRACED) == other);
	return other;
}

/* Nobody waits for the block that the other tracer began. Returns whether the block outlasted it.
 */
static bool outlasts_tracer(void)
{
	long pid = blocks_child(orphan), other = second_tracer(PTRACE_SINGLEBLOCK, pid);
	uint64_t rip;

	CHECK(set_affinity(getpid(), 1) == 0 && set_affinity(other, 1) == 0);
	CHECK(set_affinity(pid, 2) == 0); /* alone on its CPU: no switch clears BTF */
	CHECK(go_on(pid, 0) == 0 && sleep_us(1000) == 0); /* it runs */
	CHECK(kill(other, SIGKILL) == 0);
	CHECK(next_stop(other) == WAIT_KILLED(SIGKILL));
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	rip = rip_of(pid);
	CHECK(rip == (uint64_t)orphan_trap || rip == (uint64_t)orphan_called);
	end_child(pid);
	return rip == (uint64_t)orphan_trap;
}

/* A host may look away from one CPU while the other goes on. */
static void tracer_is_killed(void)
{
	orphan_bytes = 2048;
	while (!outlasts_tracer())
		orphan_bytes = orphan_bytes < STRING ? 2 * orphan_bytes : STRING;
}

static void block_and_step(long of_other, long own)
{
	long pid = blocks_child(blocks), other = second_tracer(of_other, pid);

	CHECK(step_by(own, pid) == path[1] && !is_branch(path[0], path[1]));
	CHECK(kill(other, SIGCONT) == 0 && next_stop(other) == WAIT_EXITED(0));
	end_child(pid);
}

MAIN(ptrace_blocks)
{
	unsigned mode = argument & 0xff;

	if (mode == 3) {
		outlast_slices();
	} else if (mode == 4) {
		tracer_is_killed();
	} else if (mode == 5) {
		find_path();
		block_and_step(PTRACE_SINGLESTEP, PTRACE_SINGLEBLOCK);
		block_and_step(PTRACE_SINGLEBLOCK, PTRACE_SINGLESTEP);
	} else {
		find_path();
		walk_path(mode == 1, mode == 2, argument >> 8);
	}
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}
