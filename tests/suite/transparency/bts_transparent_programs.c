// SPDX-License-Identifier: MIT
#include "drivers/processor.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/random_programs/program.h"
#include "tests/lib/random_programs/steps.h"
#include "tests/lib/rig.h"

#define INSTRUCTIONS 10000
#define PROGRAMS     3

struct outcome {
	struct machine machine;
	uint8_t data[PROGRAM_DATA_BYTES];
};

static struct machine start;
static struct outcome untraced, again, traced;

static void run(struct program *program, uint64_t seed, uint64_t debugctl, struct outcome *outcome)
{
	program_fill_data(program, seed);
	outcome->machine = start;
	machine_run(&outcome->machine, program->code + program->entry, debugctl);
	memcpy(outcome->data, program->data, PROGRAM_DATA_BYTES);
}

static bool same(const struct outcome *a, const struct outcome *b)
{
	size_t at = 0;

	while (at < PROGRAM_DATA_BYTES && a->data[at] == b->data[at])
		at++;
	if (at < PROGRAM_DATA_BYTES)
		test_note("data at %zx: %02x and %02x", at, a->data[at], b->data[at]);
	return machine_same(&a->machine, &b->machine) && at == PROGRAM_DATA_BYTES;
}

/* True if tracing made no difference to the program of `seed`, or to the beginning of it. */
static bool transparent(struct program *program, uint64_t seed, unsigned instructions)
{
	program_generate(program, seed, instructions);
	machine_randomize(&start, &(struct random){seed});
	start.registers[R15] = (uint64_t)program->data;
	run(program, seed, 0, &untraced);
	run(program, seed, 0, &again);
	if (!same(&untraced, &again))
		test_error("the program of seed %lx ends differently each time", seed);
	run(program, seed, rig_all(), &traced);
	return same(&untraced, &traced);
}

/* The shortest beginning that fails, whose newest instructions are to blame: from `back` on. */
static void shrink(struct program *program, uint64_t seed)
{
	unsigned passes = 0, fails = INSTRUCTIONS, back = 40;

	while (fails - passes > 1) {
		unsigned middle = passes + (fails - passes) / 2;

		*(transparent(program, seed, middle) ? &passes : &fails) = middle;
	}
	transparent(program, seed, fails);
	test_note("seed %lx, the first %u instructions, at %lx; the last ones are:", seed, fails,
		  (uint64_t)program->code);
	for (size_t at = program->size - back; at + 8 <= program->size; at += 8) {
		const uint8_t *b = program->code + at;

		test_note("%04zx: %02x %02x %02x %02x %02x %02x %02x %02x", at, b[0], b[1], b[2],
			  b[3], b[4], b[5], b[6], b[7]);
	}
}

static void check(struct program *program, struct rig *rig, uint64_t seed)
{
	bool is_transparent = transparent(program, seed, INSTRUCTIONS);

	EXPECT(rig_record(rig, 0).from != 0);
	if (!is_transparent)
		shrink(program, seed);
	EXPECT(is_transparent);
	rig_reset(rig);
}

TEST(bts_transparent_programs, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "a random program ends in the same registers, flags and memory traced and untraced",
     .source = "SDM Vol 3, 17.4.5: BTS stores records, and does nothing else")
{
	struct program program;
	struct rig rig;

	program_open(&program, INSTRUCTIONS + 100);
	rig_open(&rig, 4096);
	machine_open();
	for (uint64_t i = test_scaled(PROGRAMS); i; i--)
		check(&program, &rig, test_random());
	machine_close();
	rig_close(&rig);
}

#define FOLLOWED 2
#define SLOTS	 32768

static struct machine followed;

static void start_followed(struct program *program, uint64_t seed)
{
	program_fill_data(program, seed);
	machine_randomize(&followed, &(struct random){seed});
	followed.registers[R15] = (uint64_t)program->data;
}

static void check_followed(struct program *program, struct steps *steps, struct rig *rig,
			   uint64_t seed)
{
	test_note("seed %lx, code at %lx", seed, (uint64_t)program->code);
	program_generate(program, seed, INSTRUCTIONS);
	start_followed(program, seed);
	steps_run(steps, program, &followed, 0);
	EXACTLY (rig) {
		start_followed(program, seed);
		machine_run(&followed, program->code + program->entry, rig_all());
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
	for (uint64_t i = test_scaled(FOLLOWED); i; i--)
		check_followed(&program, &steps, &rig, test_random());
	machine_close();
	rig_close(&rig);
}
