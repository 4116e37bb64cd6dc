// SPDX-License-Identifier: MIT
/*
 * Counts the host's instructions for each branch that the monitor interprets and records, by BTS
 * and by Intel PT. The monitor's objects, linked into a program of the build machine, run loops of
 * guest code. The parent process steps through them (PTRACE_SINGLESTEP) and counts.
 * The numbers are the same on every run. Prints lines of `make bench`.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/pt/rules.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"
#include "tests/host/interp_rig.h"

enum { ROUNDS = 40, MOST_BRANCHES = 6, AREA = RIG_DATA, BUFFER = RIG_DATA + 0x1000 };
enum { SLOTS = 2 * ROUNDS * MOST_BRANCHES, RANGE = 0x200000, RANGE_BYTES = 0x4000 };
enum {
	INSTRUCTIONS_A_ROUND = 25, /* of `mixed` */
	PACKET_BYTES_A_ROUND = 4
}; /* seven bits of TNT; TIP with two bytes */
enum traced { BTS, PT };

void platform_performance_interrupt(struct vcpu *vcpu)
{
}

/*
 * RBX points to data, RCX counts rounds. `mixed`: six taken branches a round and four that are not,
 * between instructions of a compiler's mix; RSI points to `callee`. `registers` is the loop of
 * bts_bench_branch. `memory` has seven operands in memory for each branch, `indexed` three
 * addresses with an index in five instructions, `calls` three branches in seven.
 */
__asm__(".pushsection .rodata\n"
	"mixed: movl (%rbx), %eax\n\t addl $1, %eax\n\t movl %eax, (%rbx)\n\t testl %eax, %eax\n\t"
	"je end\n\t call callee\n\t testq %rcx, %rcx\n\t js end\n\t jmp 2f\n\t nop\n"
	"2: leaq 8(%rdx), %rdx\n\t call *%rsi\n\t decq %rcx\n\t jnz mixed\n"
	"end: hlt\n"
	"callee: push %rbp\n\t movq %rsp, %rbp\n\t cmpl %eax, %eax\n\t jne end\n\t"
	"pop %rbp\n\t ret\n"
	"registers: addq $3, %rax\n\t xorq %rax, %rdx\n\t leaq 5(%rdx), %rdx\n\t"
	"decq %rcx\n\t jnz registers\n\t hlt\n"
	"memory: movq (%rbx), %rax\n\t addq 8(%rbx), %rax\n\t movq %rax, 16(%rbx)\n\t"
	"addl $1, 24(%rbx)\n\t movzbl 32(%rbx), %edx\n\t cmpq %rdx, 40(%rbx)\n\t"
	"movl $7, 48(%rbx)\n\t leaq 8(%rdx), %rdx\n\t decq %rcx\n\t jnz memory\n\t hlt\n"
	"indexed: movq (%rbx,%rcx,8), %rax\n\t cmpb %al, 8(%rbx,%rcx)\n\t"
	"leaq 2(%rdx,%rcx,4), %rdx\n\t decq %rcx\n\t jnz indexed\n\t hlt\n"
	"calls: call 1f\n\t decq %rcx\n\t jnz calls\n\t hlt\n"
	"1: push %rbp\n\t movq %rsp, %rbp\n\t pop %rbp\n\t ret\n"
	"loops_end: .popsection");
extern const uint8_t mixed[], callee[], registers[], memory[], indexed[], calls[], loops_end[];

struct loop {
	const uint8_t *start;
	unsigned branches; /* taken in a round, the last of the loop among them */
};

static void record_by_bts(void)
{
	uint64_t *area = (void *)(rig.memory + AREA);

	area[BTS_BASE] = area[BTS_INDEX] = RIG_BASE + BUFFER;
	area[BTS_MAXIMUM] = area[BTS_BASE] + SLOTS * RECORD_BYTES;
	area[BTS_THRESHOLD] = area[BTS_MAXIMUM] + RECORD_BYTES;
	ds_write_msr(&rig.vcpu, MSR_DS_AREA, RIG_BASE + AREA);
	ds_write_msr(&rig.vcpu, MSR_DEBUGCTL, 0xc0);
}

/* Into one range; packets of branches alone, with returns compressed, as a tracer has by default.
 */
static void record_by_pt(void)
{
	struct retired wrmsr = {.from = rig.vcpu.rip, .rip = rig.vcpu.rip, .kind = RETIRED};

	pt_write_msr(&rig.vcpu, MSR_RTIT_OUTPUT_BASE, RANGE);
	pt_write_msr(&rig.vcpu, MSR_RTIT_OUTPUT_MASK_PTRS, RANGE_BYTES - 1);
	pt_write_msr(&rig.vcpu, MSR_RTIT_CTL, CTL_TRACE_EN | CTL_OS | CTL_USER | CTL_BRANCH_EN);
	pt_retired(&rig.vcpu, &wrmsr);
}

static void prepare(enum traced unit)
{
	static struct silicon silicon;

	rig_reset();
	silicon_make(&silicon, profile_find("icelake"), &(struct behaviour){0});
	unit_find("pt")->add(&silicon);
	silicon.physical_bits = 36;
	trace_reset(&rig.vcpu, &silicon);
	rig_code(RIG_CODE, mixed, (size_t)(loops_end - mixed));
	rig_code(RIG_HANDLERS + VECTOR_GP * 16, "\xf4", 1);
	rig.vcpu.gpr[RBX] = RIG_BASE + RIG_DATA + 0x800;
	rig.vcpu.gpr[RSI] = RIG_BASE + RIG_CODE + (uint64_t)(callee - mixed);
	rig.vcpu.gpr[RCX] = ROUNDS;
	unit == BTS ? record_by_bts() : record_by_pt();
}

/* Bytes that the unit has written. */
static uint64_t bytes_written(enum traced unit)
{
	const uint64_t *area = (void *)(rig.memory + AREA);
	uint64_t pointers = 0;

	if (unit == BTS)
		return area[BTS_INDEX] - area[BTS_BASE];
	pt_read_msr(&rig.vcpu, MSR_RTIT_OUTPUT_MASK_PTRS, &pointers);
	return pointers >> 32;
}

static bool is_recorded(enum traced unit, const struct loop *loop, uint64_t bytes)
{
	if (unit == BTS)
		return bytes == (ROUNDS * loop->branches - 1) * RECORD_BYTES;
	return bytes / PACKET_BYTES_A_ROUND >= ROUNDS - 1 &&
	       bytes < 2 * ROUNDS * PACKET_BYTES_A_ROUND;
}

/* With PT in ring 3, where it takes branches alone; there HLT leads to another one, the handler. */
static void run_loop(enum traced unit, const struct loop *loop)
{
	if (unit == PT)
		rig_to_user();
	rig.vcpu.halted = false;
	rig.vcpu.rip = RIG_BASE + RIG_CODE + (uint64_t)(loop->start - mixed);
	rig.vcpu.gpr[RCX] = ROUNDS;
	while (interp_run(&rig.vcpu, 200) != INTERP_HALTED)
		;
}

/* The child: the loop once to decode it, then between two signals; bytes to `pipe`. */
static _Noreturn void child(enum traced unit, const struct loop *loop, int pipe)
{
	uint64_t before, bytes;

	prepare(unit);
	run_loop(unit, loop);
	before = bytes_written(unit);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	kill(getpid(), SIGSTOP);
	run_loop(unit, loop);
	kill(getpid(), SIGSTOP);
	bytes = bytes_written(unit) - before;
	_exit(!is_recorded(unit, loop, bytes) ||
	      write(pipe, &bytes, sizeof(bytes)) != sizeof(bytes));
}

static void stopped(pid_t pid, int *status)
{
	if (waitpid(pid, status, 0) == pid && WIFSTOPPED(*status))
		return;
	fprintf(stderr, "branch_cost: the loop did not run\n");
	exit(2);
}

/* Host instructions for a branch of the loop, and in `bytes` those that the unit wrote meanwhile.
 */
static double measure(enum traced unit, struct loop loop, uint64_t *bytes)
{
	unsigned long steps = 0;
	int status, ends[2];
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		exit(2);
	if (!pid)
		child(unit, &loop, ends[1]);
	stopped(pid, &status);
	do {
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
		stopped(pid, &status);
		steps++;
	} while (WSTOPSIG(status) == SIGTRAP);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) ||
	    read(ends[0], bytes, sizeof(*bytes)) != sizeof(*bytes)) {
		fprintf(stderr, "branch_cost: the loop was not recorded\n");
		exit(2);
	}
	return (double)steps / (ROUNDS * loop.branches);
}

static void print_figure(const char *name, double value, const char *unit)
{
	printf("# bench name=%s val=%.*f unit=%s\n", name, value < 10 ? 2 : 1, value, unit);
}

int main(void)
{
	uint64_t bytes;
	double bts, pt;

	bts = measure(BTS, (struct loop){mixed, 6}, &bytes);
	print_figure("branch_instructions", bts, "instructions");
	print_figure("branch_instructions_registers",
		     measure(BTS, (struct loop){registers, 1}, &bytes), "instructions");
	print_figure("branch_instructions_memory", measure(BTS, (struct loop){memory, 1}, &bytes),
		     "instructions");
	print_figure("branch_instructions_indexed", measure(BTS, (struct loop){indexed, 1}, &bytes),
		     "instructions");
	print_figure("branch_instructions_calls", measure(BTS, (struct loop){calls, 3}, &bytes),
		     "instructions");
	pt = measure(PT, (struct loop){mixed, 6}, &bytes);
	print_figure("branch_instructions_pt", pt, "instructions");
	print_figure("branch_pt_over_bts", pt / bts, "ratio");
	print_figure("pt_instruction_bits", 8.0 * (double)bytes / (ROUNDS * INSTRUCTIONS_A_ROUND),
		     "bits");
	return 0;
}
