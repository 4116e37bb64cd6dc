/* SPDX-License-Identifier: MIT */
/*
 * Counts the host's instructions for each branch that the monitor interprets and records: the
 * monitor's own objects, linked into a program of the build machine, run a loop of guest code while
 * the parent process steps through it (PTRACE_SINGLESTEP) and counts. The number is the same on
 * every run. Prints a line of `make bench`.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/silicon.h"
#include "monitor/trace.h"
#include "tests/host/interp_rig.h"

enum { ROUNDS = 40, BRANCHES_A_ROUND = 6, AREA = RIG_DATA, BUFFER = RIG_DATA + 0x1000 };
enum { SLOTS = ROUNDS * BRANCHES_A_ROUND + 4 };

void platform_performance_interrupt(struct vcpu *vcpu)
{
}

/* Six taken branches a round and three that are not, between instructions of a compiler's mix. RBX
   points to data, RSI to `callee`. */
__asm__(".pushsection .rodata\n"
	"loop: movl (%rbx), %eax\n\t addl $1, %eax\n\t movl %eax, (%rbx)\n\t testl %eax, %eax\n\t"
	"je end\n\t call callee\n\t testq %rcx, %rcx\n\t js end\n\t jmp 2f\n\t nop\n"
	"2: leaq 8(%rdx), %rdx\n\t call *%rsi\n\t decq %rcx\n\t jnz loop\n"
	"end: hlt\n"
	"callee: push %rbp\n\t movq %rsp, %rbp\n\t cmpl %eax, %eax\n\t jne end\n\t"
	"pop %rbp\n\t ret\n"
	"loop_end: .popsection");
extern const uint8_t loop[], callee[], loop_end[];

static void prepare(void)
{
	static struct silicon silicon;
	uint64_t *area;

	rig_reset();
	silicon.profile = profile_get(0);
	silicon.pmu = pmu_clean;
	silicon.pt = pt_clean;
	silicon.pebs = pebs_clean;
	ds_make(&silicon.ds, &(struct ds_behaviour){0});
	trace_reset(&rig.vcpu, &silicon);
	area = (void *)(rig.memory + AREA);
	area[BTS_BASE] = area[BTS_INDEX] = RIG_BASE + BUFFER;
	area[BTS_MAXIMUM] = area[BTS_BASE] + SLOTS * RECORD_BYTES;
	area[BTS_THRESHOLD] = area[BTS_MAXIMUM] + RECORD_BYTES;
	ds_write_msr(&rig.vcpu, MSR_DS_AREA, RIG_BASE + AREA);
	ds_write_msr(&rig.vcpu, MSR_DEBUGCTL, 0xc0);
	rig_code(RIG_CODE, loop, (size_t)(loop_end - loop));
	rig.vcpu.gpr[RBX] = RIG_BASE + RIG_DATA + 0x800;
	rig.vcpu.gpr[RSI] = RIG_BASE + RIG_CODE + (uint64_t)(callee - loop);
	rig.vcpu.gpr[RCX] = ROUNDS;
}

static uint64_t records(void)
{
	const uint64_t *area = (void *)(rig.memory + AREA);

	return (area[BTS_INDEX] - area[BTS_BASE]) / RECORD_BYTES;
}

/* The child: the loop once to decode it, then between two signals. Its status: 0 if all branches
   were recorded. */
static void child(void)
{
	prepare();
	while (interp_run(&rig.vcpu, 200) != INTERP_HALTED)
		;
	rig.vcpu.halted = false;
	rig.vcpu.rip = RIG_BASE + RIG_CODE;
	rig.vcpu.gpr[RCX] = ROUNDS;
	((uint64_t *)(void *)(rig.memory + AREA))[BTS_INDEX] = RIG_BASE + BUFFER;
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	kill(getpid(), SIGSTOP);
	while (interp_run(&rig.vcpu, 200) != INTERP_HALTED)
		;
	kill(getpid(), SIGSTOP);
	_exit(records() != ROUNDS * BRANCHES_A_ROUND - 1);
}

int main(void)
{
	pid_t pid = fork();
	unsigned long steps = 0;
	int status;

	if (!pid)
		child();
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return 2;
	do {
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			return 2;
		steps++;
	} while (WSTOPSIG(status) == SIGTRAP);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "branch_cost: the loop was not recorded\n");
		return 2;
	}
	printf("# bench name=branch_instructions val=%.1f unit=instructions\n",
	       (double)steps / (ROUNDS * BRANCHES_A_ROUND));
	return 0;
}
