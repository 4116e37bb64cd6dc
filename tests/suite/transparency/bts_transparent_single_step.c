// SPDX-License-Identifier: MIT
#include "tests/lib/steps.h"

#define INSTRUCTIONS 10000
#define SLOTS	     4096 /* less than there are steps */

static struct machine start, untraced, traced;

static void run(struct program *program, uint64_t seed, struct steps *steps, uint64_t debugctl,
		struct machine *machine)
{
	program_fill_data(program, seed);
	*machine = start;
	steps_run(steps, program, machine, debugctl);
}

static size_t first_difference(const struct steps *a, const struct steps *b)
{
	size_t i = 0;

	while (i < a->count && i < b->count && a->noted[i] == b->noted[i])
		i++;
	return i;
}

TEST(bts_transparent_single_step, .group = "transparency", .ids = "K10", .needs = NEED_BTS,
     .claim = "code that single-steps takes the same steps traced and untraced, and ends the same",
     .source = "SDM Vol 3, 17.3.1.4 and 17.4.2: #DB after each instruction, TR or not")
{
	uint64_t seed = test_random();
	struct steps plain, recorded;
	struct program program;
	struct rig rig;
	size_t same;

	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&plain, 20 * INSTRUCTIONS);
	steps_open(&recorded, 20 * INSTRUCTIONS);
	program_generate(&program, seed, INSTRUCTIONS);
	machine_randomize(&start, &(struct random){seed});
	start.registers[R15] = (uint64_t)program.data;
	rig_open(&rig, SLOTS);
	machine_open();
	run(&program, seed, &plain, 0, &untraced);
	run(&program, seed, &recorded, rig_all(), &traced);
	machine_close();
	EXPECT(rig_record(&rig, SLOTS - 2).from !=
	       0); /* the handler's IRETQ is recorded each time */
	rig_close(&rig);
	test_note("seed %lx: %zu steps, code at %lx", seed, plain.count, (uint64_t)program.code);
	EXPECT(plain.count > INSTRUCTIONS / 2);
	EXPECT_EQ(recorded.count, plain.count);
	same = first_difference(&plain, &recorded);
	if (same < plain.count)
		test_note("step %zu: to %08x untraced, to %08x traced", same, plain.noted[same],
			  recorded.noted[same]);
	EXPECT_EQ(same, plain.count);
	EXPECT(machine_same(&untraced, &traced));
}
