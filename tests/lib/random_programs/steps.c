// SPDX-License-Identifier: MIT
#include "tests/lib/random_programs/steps.h"

#include "kernel/mm/page.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/own_tables.h"

#define TF 0x100u

extern const char steps_handler[];
extern uint32_t *steps_cursor, *steps_end;

/* At the end of the room the last place is written again and again. */
__asm__(".pushsection .text\n"
	"steps_handler: pushq %rax\n\tpushq %rcx\n\t"
	"movq steps_cursor(%rip), %rax\n\tmovl 16(%rsp), %ecx\n\tmovl %ecx, (%rax)\n\t"
	"leaq 4(%rax), %rcx\n\tcmpq steps_end(%rip), %rcx\n\tcmovbq %rcx, %rax\n\t"
	"movq %rax, steps_cursor(%rip)\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
	".popsection\n"
	".pushsection .bss\n\t.balign 8\n"
	"steps_cursor: .skip 8\nsteps_end: .skip 8\n"
	".popsection");

void steps_open(struct steps *steps, size_t most)
{
	steps->most = most;
	steps->count = 0;
	steps->noted = test_area((most * sizeof(uint32_t) + PAGE_SIZE - 1) / PAGE_SIZE);
}

void steps_begin(struct steps *steps)
{
	own_idt_set(VECTOR_DB, steps_handler, false);
	steps_cursor = steps->noted;
	steps_end = steps->noted + steps->most;
}

void steps_finish(struct steps *steps)
{
	steps->count = (size_t)(steps_cursor - steps->noted);
	if (steps->count + 1 >= steps->most)
		test_error("the program takes more than %zu steps", steps->most);
}

void steps_run(struct steps *steps, const struct program *program, struct machine *machine,
	       uint64_t debugctl)
{
	uint64_t dr6;

	__asm__ volatile("movq %%dr6, %0" : "=r"(dr6));
	own_idt_copy();
	steps_begin(steps);
	machine->flags |= TF;
	own_idt_load();
	machine_run(machine, program->code + program->entry, debugctl);
	own_idt_unload();
	machine->flags &= ~(uint64_t)TF;
	__asm__ volatile("movq %0, %%dr6" : : "r"(dr6));
	steps_finish(steps);
}

extern const char steps_probe[];
enum { PROBE_ITERATIONS = 2, PROBE_STEPS = 100 };

__asm__(".pushsection .text\n"
	"steps_probe: rep lodsb\n\tret\n"
	".popsection");

bool steps_repeat_last(void)
{
	static const uint8_t bytes[PROBE_ITERATIONS];
	static struct machine machine;
	struct program program = {.code = (uint8_t *)(uint64_t)steps_probe};
	struct steps steps;
	unsigned at_probe = 0;

	machine_randomize(&machine, &(uint64_t){1});
	machine.registers[RSI] = (uint64_t)bytes;
	machine.registers[RCX] = PROBE_ITERATIONS;
	steps_open(&steps, PROBE_STEPS);
	steps_run(&steps, &program, &machine, 0);
	for (size_t i = 0; i < steps.count; i++)
		at_probe += steps.noted[i] == (uint32_t)(uint64_t)steps_probe;
	return at_probe == PROBE_ITERATIONS + 1;
}

size_t steps_drop_repeated(struct steps *steps, const struct steps *other)
{
	size_t kept = 0, before = steps->count;

	for (size_t i = 0; i < before; i++) {
		uint32_t at = steps->noted[i];
		bool ends_run = i + 1 == before || steps->noted[i + 1] != at;
		bool repeated = kept && steps->noted[kept - 1] == at && ends_run;

		if (!repeated || (kept < other->count && other->noted[kept] == at))
			steps->noted[kept++] = at;
	}
	steps->count = kept;
	return before - kept;
}

/* The branch that begins at `offset`, if one does. */
static const struct program_branch *branch_at(const struct program *program, uint32_t offset)
{
	const struct program_branch *branch = program_branch_from(program, offset);

	return branch && branch->from == offset ? branch : NULL;
}

/* Whether the step from `from` to `to` is a taken branch of the program. */
static bool is_branch(const struct program *program, uint32_t from, uint32_t to)
{
	const struct program_branch *branch = branch_at(program, from);

	return branch && (branch->kind != BRANCH_CONDITIONAL || to == branch->to);
}

size_t steps_branches(const struct steps *steps, const struct program *program)
{
	uint32_t code = (uint32_t)(uint64_t)program->code;
	size_t branches = 0;

	for (size_t i = 0; i < steps->count; i++) {
		uint32_t offset = steps->noted[i] - code;

		branches += offset < program->size && branch_at(program, offset);
	}
	return branches;
}

bool steps_next_branch(const struct steps *steps, const struct program *program,
		       struct step_branch *branch)
{
	uint32_t code = (uint32_t)(uint64_t)program->code;

	for (size_t i = branch->step; i + 1 < steps->count; i++) {
		uint32_t from = steps->noted[i] - code, to = steps->noted[i + 1] - code;

		if (from >= program->size || !is_branch(program, from, to))
			continue;
		*branch =
			(struct step_branch){.from = (uint64_t)program->code + from,
					     .to = to < program->size ? (uint64_t)program->code + to
								      : (uint64_t)machine_back,
					     .step = i + 1};
		return true;
	}
	return false;
}

void steps_expect(const struct steps *steps, const struct program *program, const struct rig *rig)
{
	struct step_branch branch = {0};
	size_t slot = 1;

	rig_expect(rig, 0, machine_call, program->code + program->entry);
	for (; steps_next_branch(steps, program, &branch); slot++) {
		struct bts_struct record = rig_record(rig, slot);

		if (record.from == branch.from && record.to == branch.to)
			continue;
		rig_expect(rig, slot, (void *)branch.from, (void *)branch.to);
		return;
	}
	EXPECT_EQ(rig_count(rig), slot);
	EXPECT_EQ(rig_record(rig, slot - 1).to, machine_back);
}
