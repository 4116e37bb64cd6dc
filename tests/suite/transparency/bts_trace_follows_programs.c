// SPDX-License-Identifier: MIT
#include "tests/lib/random_programs/steps.h"
#include "tests/lib/rig.h"

#define INSTRUCTIONS 10000
#define PROGRAMS     2
#define SLOTS	     32768

static struct machine machine;

static void start(struct program *program, uint64_t seed)
{
	program_fill_data(program, seed);
	machine_randomize(&machine, &(struct random){seed});
	machine.registers[R15] = (uint64_t)program->data;
}

static void check(struct program *program, struct steps *steps, struct rig *rig, uint64_t seed)
{
	test_note("seed %lx, code at %lx", seed, (uint64_t)program->code);
	program_generate(program, seed, INSTRUCTIONS);
	start(program, seed);
	steps_run(steps, program, &machine, 0);
	EXACTLY (rig) {
		start(program, seed);
		machine_run(&machine, program->code + program->entry, rig_all());
	}
	EXPECT(rig_count(rig) < SLOTS);
	steps_expect(steps, program, rig);
}

TEST(bts_trace_follows_programs, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "the records of a random program are exactly the branches that single-stepping shows",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: each taken branch")
{
	struct program program;
	struct steps steps;
	struct rig rig;

	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&steps, 20 * INSTRUCTIONS);
	rig_open(&rig, SLOTS);
	machine_open();
	for (uint64_t i = test_scaled(PROGRAMS); i; i--)
		check(&program, &steps, &rig, test_random());
	machine_close();
	rig_close(&rig);
}
