// SPDX-License-Identifier: MIT
/*
 * test_stack PROGRAM [TRACE.spt RECORDS [COUNTS]]: steps through a static program and records its
 * branches as BTS would: those of ring 3, and into and out of a kernel of which there is no file,
 * with interrupts at random places. After each branch it compares what tools/view/stack.c makes of
 * it with a stack that is kept by RSP, and the instructions walked with those executed. Prints TAP;
 * writes the trace, its records as they are, and how often each instruction ran up to the last
 * branch: a line "address count" each.
 */
#include "abi/ptrace_bts.h"
#include "lib/frame.h"
#include "tools/view/stack.h"
#include "tools/view/view.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRY	    0xffffffff80001000ull
#define MOST	    4096
#define FEWEST	    15000	/* branches: a program that has fewer shows nothing */
#define CODE	    0x400000ull /* where a static program is linked */
#define CODE_BYTES  (1u << 20)
#define INTERRUPTED 300 /* one instruction of so many */

/* A call by RSP: it is over when RSP is above `top`. */
struct shadow {
	uint64_t top, resume;
};

static struct shadow shadows[MOST];
static size_t depth, deepest;
static struct stack stack;
static struct space space;
static uint64_t branches, wrong_depth, wrong_return, interrupts, signals;
static bool unwinding; /* longjmp() has moved RSP, and not yet jumped */
static uint64_t executed, executed_then, walked, at; /* `then`: up to the last branch */
static char first_wrong[512];
static struct frame_line line;
static struct frame_block block;
static uint32_t sum;
static FILE *out, *raw;
static uint64_t ran[CODE_BYTES]; /* by address from CODE on, up to the last branch */
static uint64_t since[MOST];	 /* instructions since then */
static size_t since_count;

static void put(void *argument, const uint8_t *bytes, size_t count)
{
	(void)argument;
	if (out && fwrite(bytes, 1, count, out) != count)
		fail("the trace cannot be written");
}

static void send(uint64_t from, uint64_t to)
{
	struct trace_record record = {from, to, branches % 16 ? TRACE_PREDICTED : 0};

	sum = crc32c(sum, &record, sizeof(record));
	if (raw && fwrite(&record, sizeof(record), 1, raw) != 1)
		fail("the records cannot be written");
	if (frame_add(&line, &block, &record))
		return;
	frame_flush(&line, &block, 0, branches);
	frame_add(&line, &block, &record);
}

static void send_hello(const char *program)
{
	static uint8_t payload[TRACE_PAYLOAD_BYTES];
	uint32_t cpus = 1, view = PTRACE_BTS_USER | PTRACE_BTS_KERNEL;
	uint64_t entry = ENTRY;
	const char *name = strrchr(program, '/');
	size_t used = 0;

	frame_item(payload, &used, TRACE_ITEM_NAME, "none", 4);
	frame_item(payload, &used, TRACE_ITEM_SILICON, "none", 4);
	frame_item(payload, &used, TRACE_ITEM_CPUS, &cpus, sizeof(cpus));
	frame_item(payload, &used, TRACE_ITEM_ENTRIES, &entry, sizeof(entry));
	frame_send(&line, (struct trace_frame){.type = TRACE_FRAME_HELLO}, payload, used);
	used = 0;
	name = name ? name + 1 : program;
	frame_item(payload, &used, TRACE_ITEM_PROGRAM, name, strlen(name));
	frame_item(payload, &used, TRACE_ITEM_VIEW, &view, sizeof(view));
	frame_send(&line, (struct trace_frame){.type = TRACE_FRAME_STREAM, .stream = 1}, payload,
		   used);
	frame_block_init(&block, 1);
}

static void send_end(void)
{
	frame_flush(&line, &block, 0, branches);
	frame_send(&line, (struct trace_frame){.type = TRACE_FRAME_SUM, .stream = 1}, &sum,
		   sizeof(sum));
	frame_send(&line, (struct trace_frame){.type = TRACE_FRAME_END, .count = 1}, &block.total,
		   sizeof(block.total));
}

static void count(uint64_t rip)
{
	executed++;
	if (rip - CODE >= CODE_BYTES || since_count == MOST)
		fail("%llx is no place to count, or too far from a branch",
		     (unsigned long long)rip);
	since[since_count++] = rip;
}

/* A branch tells what was executed before it; the first one, that of the instruction it is from. */
static void count_branch(uint64_t from)
{
	size_t told = branches > 1 ? 0 : since_count - (since[since_count - 1] == from);

	for (size_t i = told; i < since_count; i++)
		ran[since[i] - CODE]++;
	since_count = 0;
}

static void branch(uint64_t from, uint64_t to)
{
	uint64_t count;

	if (at && !(from >> 63) && !(at >> 63)) {
		if (space_walk(&space, at, from, &count) == WALK_WHOLE)
			walked += count;
		else
			fail("no way from %llx to %llx", (unsigned long long)at,
			     (unsigned long long)from);
	}
	at = to;
	branches++;
	count_branch(from);
	stack_branch(&stack, from, to);
	send(from, to);
}

/* The calls of a stack: a tail call's frame ends with the one below it. */
static size_t count_calls(uint64_t *resume)
{
	size_t count = 0;

	*resume = 0;
	for (size_t i = 0; i < stack.depth; i++)
		if (stack.frames[i].kind == FRAME_CALL || stack.frames[i].kind == FRAME_EVENT) {
			count++;
			*resume = stack.frames[i].resume;
		}
	return count;
}

static void compare(uint64_t from, uint64_t to)
{
	uint64_t resume, expected = depth ? shadows[depth - 1].resume : 0;
	size_t calls = count_calls(&resume);

	if (calls == depth && (resume == expected || !depth))
		return;
	wrong_depth += calls != depth;
	wrong_return += calls == depth;
	if (!first_wrong[0])
		snprintf(first_wrong, sizeof(first_wrong),
			 "branch %llu, %llx -> %llx: %zu calls, %zu by RSP; resumes %llx, %llx",
			 (unsigned long long)branches, (unsigned long long)from,
			 (unsigned long long)to, calls, depth, (unsigned long long)resume,
			 (unsigned long long)expected);
}

static void push_shadow(uint64_t top, uint64_t resume)
{
	if (depth == MOST)
		fail("more than %d calls", MOST);
	shadows[depth++] = (struct shadow){top, resume};
	deepest = depth > deepest ? depth : deepest;
}

static void pop_shadows(uint64_t rsp)
{
	while (depth && rsp > shadows[depth - 1].top)
		depth--;
}

/* Into the kernel and out of it. */
static void by_kernel(uint64_t from, uint64_t to)
{
	branch(from, ENTRY);
	branch(ENTRY + 0x80, to);
}

static struct instruction instruction_at(uint64_t rip)
{
	struct instruction instruction = space_instruction(&space, rip);

	if (instruction.flow == FLOW_UNKNOWN)
		fail("no instruction at %llx", (unsigned long long)rip);
	return instruction;
}

/*
 * What the instruction at before->rip did. A hypervisor that emulates it, as CPUID, may lose the
 * trap that follows: the step has then executed the next instruction as well.
 */
static void executed_one(struct user_regs_struct *before, const struct user_regs_struct *after)
{
	struct instruction instruction = instruction_at(before->rip);
	size_t deep = depth;

	pop_shadows(after->rsp);
	if (after->rip == before->rip && instruction.flow == FLOW_REPEAT)
		return;
	if (instruction.flow == FLOW_NONE && after->rip != instruction.next) {
		count(before->rip);
		before->rip = instruction.next;
		instruction = instruction_at(before->rip);
	}
	count(before->rip);
	if (instruction.flow == FLOW_INTERRUPT) {
		walked++; /* an instruction that a branch is from */
		by_kernel(before->rip, after->rip);
	} else if (instruction.flow == FLOW_CALL) {
		walked++;
		push_shadow(after->rsp, instruction.next);
		branch(before->rip, after->rip);
	} else if (after->rip != instruction.next || instruction.flow == FLOW_RETURN ||
		   instruction.flow == FLOW_JUMP) {
		walked++;
		branch(before->rip, after->rip);
	} else {
		unwinding |= depth < deep;
		return;
	}
	unwinding = false;
	executed_then = executed;
	compare(before->rip, after->rip);
}

static void interrupt(const struct user_regs_struct *registers)
{
	interrupts++;
	branch(registers->rip, ENTRY);
	branch(ENTRY + 0x90, registers->rip);
	compare(registers->rip, registers->rip);
}

/* A signal's handler is called by the kernel: it returns to the place that was interrupted. */
static void deliver(const struct user_regs_struct *before, const struct user_regs_struct *after)
{
	signals++;
	push_shadow(before->rsp - 1, before->rip);
	by_kernel(before->rip, after->rip);
	compare(before->rip, after->rip);
}

static void get(pid_t child, struct user_regs_struct *registers)
{
	if (ptrace(PTRACE_GETREGS, child, NULL, registers))
		fail("PTRACE_GETREGS");
}

/* One step; `signal` is delivered by it. False: the program has ended. */
static bool step(pid_t child, int *signal)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, child, NULL, *signal) || waitpid(child, &status, 0) != child)
		fail("PTRACE_SINGLESTEP");
	if (WIFEXITED(status) || WIFSIGNALED(status))
		return false;
	*signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
	return true;
}

static void follow(pid_t child)
{
	struct user_regs_struct before, after;
	int signal = 0;

	get(child, &before);
	at = before.rip;
	for (;;) {
		int delivered = signal;

		/* Not before SYSCALL: no record tells that from the SYSCALL itself. */
		if (!delivered && !unwinding && rand() % INTERRUPTED == 0 &&
		    instruction_at(before.rip).flow != FLOW_INTERRUPT)
			interrupt(&before);
		if (!step(child, &signal))
			break;
		get(child, &after);
		if (delivered)
			deliver(&before, &after);
		else if (!signal || after.rip != before.rip)
			executed_one(&before, &after);
		before = after;
	}
}

static int failed, number;

static void result(bool right, const char *claim)
{
	printf("%sok %d - %s\n", right ? "" : "not ", ++number, claim);
	failed |= !right;
}

static void report(void)
{
	puts("1..5");
	result(branches >= FEWEST && deepest >= 15 && signals == 8 && interrupts > 50 &&
		       stack.counts.unwound >= 40 && stack.counts.tail_calls >= 80,
	       "calls, tail calls, longjmp(), signals and interrupts are there");
	result(wrong_depth == 0, "the depth is that by RSP after each branch");
	result(wrong_return == 0, "the innermost return address is that by RSP");
	result(stack.counts.repairs == 0 && stack.counts.discontinuities == 0,
	       "nothing was repaired");
	result(executed_then == walked, "the instructions walked are those executed");
	printf("# %llu branches, %llu instructions, %zu calls deep, %llu signals, %llu interrupts\n",
	       (unsigned long long)branches, (unsigned long long)executed_then, deepest,
	       (unsigned long long)signals, (unsigned long long)interrupts);
	printf("# %llu tail calls, %llu unwound, %llu unmatched, %llu repairs, %llu walked\n",
	       (unsigned long long)stack.counts.tail_calls,
	       (unsigned long long)stack.counts.unwound,
	       (unsigned long long)stack.counts.unmatched_returns,
	       (unsigned long long)stack.counts.repairs, (unsigned long long)walked);
	printf("# %llu of other depth, %llu of other return; %s\n", (unsigned long long)wrong_depth,
	       (unsigned long long)wrong_return, first_wrong);
}

static pid_t start(char **argv)
{
	pid_t child = fork();

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execve(argv[0], argv, (char *[]){NULL});
		_exit(127);
	}
	if (waitpid(child, NULL, 0) != child)
		fail("waitpid");
	return child;
}

static void write_counts(const char *path)
{
	FILE *counts = fopen(path, "w");

	for (size_t i = 0; counts && i < CODE_BYTES; i++)
		if (ran[i])
			fprintf(counts, "%llx %llu\n", CODE + i, (unsigned long long)ran[i]);
	if (!counts || fclose(counts))
		fail("the counts cannot be written");
}

int main(int argc, char **argv)
{
	static uint64_t entries[] = {ENTRY};
	char error[256];
	struct code *code = argc > 1 ? code_open(argv[1], error, sizeof(error)) : NULL;

	if (!code)
		fail("usage: test_stack PROGRAM [TRACE.spt RECORDS [COUNTS]]");
	if (argc > 3) {
		out = fopen(argv[2], "wb");
		raw = fopen(argv[3], "wb");
	}
	line.put = put;
	space.program = code;
	stack_init(&stack, &space);
	stack.entries = entries;
	stack.entry_count = 1;
	send_hello(argv[1]);
	follow(start((char *[]){argv[1], NULL}));
	send_end();
	report();
	if (argc > 4)
		write_counts(argv[4]);
	if ((out && fclose(out)) || (raw && fclose(raw)))
		fail("the trace cannot be written");
	stack_free(&stack);
	code_close(code);
	return failed;
}
