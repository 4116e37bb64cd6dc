// SPDX-License-Identifier: MIT
// Branches of random programs: forward, counted loops, calls. Each is entered in the table.
#include "tests/lib/random_programs/program.h"

#include "lib/string.h"
#include "tests/framework/test.h"

#define LEAPT	   4 /* at most so much straight code */
#define MOST_TURNS 6

static struct operand base(unsigned reg)
{
	return (struct operand){.base = (uint8_t)reg};
}

/* The newest instruction, which began at `from`, is a branch. */
static struct program_branch *enter(struct program *p, size_t from, enum program_branch_kind kind)
{
	struct program_branch *branch = &p->branches[p->branch_count];

	if (p->branch_count++ == p->most_branches)
		test_error("a random program has more than %zu branches", p->most_branches);
	*branch = (struct program_branch){
		.from = (uint32_t)from, .next = (uint32_t)p->size, .kind = kind};
	return branch;
}

/* A branch whose last byte or last four bytes are its displacement. */
static struct program_branch *branch(struct program *p, enum program_branch_kind kind,
				     const void *opcode, size_t opcode_bytes, bool near)
{
	uint8_t bytes[8] = {0};
	size_t from = p->size;

	memcpy(bytes, opcode, opcode_bytes);
	program_add_bytes(p, bytes, opcode_bytes + (near ? 4 : 1));
	return enter(p, from, kind);
}

static void set_target(struct program *p, struct program_branch *branch, size_t to, bool near)
{
	int32_t displacement = (int32_t)(to - branch->next);
	size_t bytes = near ? 4 : 1;

	branch->to = (uint32_t)to;
	if (!near && (displacement < -128 || displacement > 127))
		test_error("a random program's short branch is too far");
	memcpy(p->code + branch->next - bytes, &displacement, bytes);
}

static void straight(struct program *p, unsigned most)
{
	for (unsigned i = program_pick(p, most + 1); i; i--)
		program_straight(p);
}

/* Not of length 0: whether it was taken must show in where it leads. */
static void conditional(struct program *p)
{
	uint8_t near[] = {0x0f, (uint8_t)(0x80 + program_pick(p, 16))};
	struct program_branch *leap = branch(p, BRANCH_CONDITIONAL, near, 2, true);

	program_straight(p);
	straight(p, LEAPT - 1);
	set_target(p, leap, p->size, true);
}

/* Jcc rel8, LOOPNE, LOOPE, LOOP, JRCXZ. */
static void conditional_short(struct program *p)
{
	unsigned kind = program_pick(p, 20);
	uint8_t opcode = (uint8_t)(kind < 16 ? 0x70 + kind : 0xe0 + kind - 16);
	struct program_branch *leap = branch(p, BRANCH_CONDITIONAL, &opcode, 1, false);

	program_define_flags(p);
	set_target(p, leap, p->size, false);
}

static void jump(struct program *p)
{
	bool near = program_pick(p, 2);
	struct program_branch *leap = branch(p, BRANCH_JUMP, near ? "\xe9" : "\xeb", 1, near);

	if (near)
		straight(p, LEAPT);
	else
		program_define_flags(p);
	set_target(p, leap, p->size, near);
}

/* LEA of an address in the code, whose displacement is filled in later. */
static size_t load_address(struct program *p, unsigned reg)
{
	uint8_t bytes[] = {
		(uint8_t)(0x48 | (reg >> 3) << 2), 0x8d, (uint8_t)((reg & 7) << 3 | 5), 0, 0, 0, 0};

	program_add_bytes(p, bytes, sizeof(bytes));
	return p->size;
}

static void set_address(struct program *p, size_t next, size_t to)
{
	memcpy(p->code + next - 4, &(int32_t){(int32_t)(to - next)}, 4);
}

/* JMP of a register, or PUSH and RET. */
static void jump_indirect(struct program *p)
{
	unsigned reg = program_register(p);
	size_t after_lea = load_address(p, reg), from;
	struct program_branch *leap;

	if (program_pick(p, 2)) {
		from = p->size;
		program_add(p, (struct instruction){
				       .opcode = 0xff, .size = 4, .reg = 4, .rm = base(reg)});
	} else {
		program_add(p, (struct instruction){
				       .opcode = 0xff, .size = 4, .reg = 6, .rm = base(reg)});
		from = p->size;
		program_add_bytes(p, "\xc3", 1);
	}
	leap = enter(p, from, BRANCH_JUMP);
	straight(p, LEAPT);
	leap->to = (uint32_t)p->size;
	set_address(p, after_lea, p->size);
}

/* R14 counts; nothing else writes it. */
static void loop(struct program *p)
{
	uint8_t near[] = {0x0f, 0x85};
	size_t top;

	program_add(p, (struct instruction){.opcode = 0xc7,
					    .size = 8,
					    .rm = base(R14),
					    .immediate_size = 4,
					    .immediate = 1 + program_pick(p, MOST_TURNS)});
	top = p->size;
	straight(p, LEAPT);
	if (program_pick(p, 2))
		conditional_short(p);
	program_add(p, (struct instruction){.opcode = 0xff, .size = 8, .reg = 1, .rm = base(R14)});
	set_target(p, branch(p, BRANCH_CONDITIONAL, near, 2, true), top, true);
}

static void call(struct program *p)
{
	size_t to = p->functions[program_pick(p, PROGRAM_FUNCTIONS)], from;
	unsigned reg = program_register(p);

	if (program_pick(p, 2)) {
		set_target(p, branch(p, BRANCH_CALL, "\xe8", 1, true), to, true);
		return;
	}
	set_address(p, load_address(p, reg), to);
	from = p->size;
	program_add(p, (struct instruction){.opcode = 0xff, .size = 4, .reg = 2, .rm = base(reg)});
	enter(p, from, BRANCH_CALL)->to = (uint32_t)to;
}

void program_return(struct program *p)
{
	size_t from = p->size;

	program_add_bytes(p, "\xc3", 1);
	enter(p, from, BRANCH_RETURN);
}

void program_function(struct program *p)
{
	p->functions[p->function_count++] = (uint32_t)p->size;
	straight(p, LEAPT);
	conditional(p);
	program_return(p);
}

void program_control(struct program *p)
{
	static void (*const kinds[])(struct program *) = {
		conditional, conditional, conditional_short, jump, jump_indirect, loop, call};

	kinds[program_pick(p, sizeof(kinds) / sizeof(kinds[0]))](p);
}
