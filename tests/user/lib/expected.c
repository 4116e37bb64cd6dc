// SPDX-License-Identifier: MIT
#include "tests/user/lib/expected.h"

#include "tests/user/lib/ptrace.h"

/* Each block is counted by an instruction, and so is what ends it. */
#define MOST_BLOCKS (2 * EXPECTED_MOST)

static struct {
	uint64_t from, to;
} branches[EXPECTED_MOST];
static uint32_t count;

/* How many branches were taken when the block of that number began; the first one is number 1. */
static uint16_t before_block[MOST_BLOCKS + 1];
static uint32_t blocks;

static void arrive(uint64_t rip)
{
	if (!(generated_part(rip) & PART_BLOCK))
		return;
	CHECK(blocks < MOST_BLOCKS);
	before_block[++blocks] = (uint16_t)count;
}

/* One step led from `from` to `to`. */
static void step(uint64_t from, uint64_t to)
{
	if (to == from)
		return; /* a string instruction that goes on, or one that faulted */
	if (to != generated_next(from)) {
		CHECK(count < EXPECTED_MOST);
		branches[count].from = from;
		branches[count++].to = to;
	}
	arrive(to);
}

static bool is_fault(int status)
{
	return status == WAIT_STOPPED(SIGSEGV) || status == WAIT_STOPPED(SIGILL) ||
	       status == WAIT_STOPPED(SIGFPE);
}

static void step_to_end(long pid)
{
	struct ptrace_registers registers;
	uint64_t at = (uint64_t)generated_area + 1;

	count = blocks = 0;
	arrive(at);
	for (;;) {
		int status;

		CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
		status = next_stop(pid);
		if (status == WAIT_EXITED(GENERATED_EXIT))
			return;
		CHECK((status & 0xff) == 0x7f);
		CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
		step(at, registers.rip);
		if (is_fault(status)) {
			generated_skip_fault(&registers);
			CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == 0);
			arrive(registers.rip);
		}
		at = registers.rip;
		if (generated_is_end(at))
			break;
	}
	end_child(pid);
}

/* On one CPU: on two of them, each step would wait for both. */
void expected_find(void)
{
	CHECK(set_affinity(0, 1ul << cpu_now()) == 0);
	step_to_end(generated_child());
	CHECK(set_affinity(0, UINT64_MAX) == 0);
}

uint32_t expected_count(void)
{
	return count;
}

struct ptrace_bts_record expected_branch(uint32_t number)
{
	CHECK(number < count);
	return (struct ptrace_bts_record){.qualifier = PTRACE_BTS_BRANCH,
					  .from = branches[number].from,
					  .to = branches[number].to};
}

uint32_t expected_taken(const struct ptrace_registers *registers)
{
	uint64_t block = registers->r15 + (generated_part(registers->rip) & PART_BLOCK ? 1 : 0);

	CHECK(block >= 1 && block <= blocks);
	return before_block[block] + (registers->rip >> 63 ? 1u : 0u);
}
