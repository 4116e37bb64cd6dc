// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

#define ROUNDS	  1000
#define PREDICTED (1ull << 4)

extern const char predicted_top[], predicted_branch[], predicted_taken[], predicted_loop[];

/*
 * One branch a round goes where bit 0 of a byte of `choices` says; the loop's own branch comes
 * after it. Returns how many records of the first branch have the flag set; `taken`: how many
 * there are; `others`: all further flags that were seen.
 */
static size_t run(struct rig *rig, const uint8_t *choices, size_t *taken, uint64_t *others)
{
	size_t set = 0, expected = ROUNDS - 1;

	for (size_t i = 0; i < ROUNDS; i++)
		expected += choices[i] & 1;
	EXACTLY (rig)
		TRACED_WITH(rig_all(),
			    "xorl %%ecx, %%ecx\n"
			    "predicted_top: testb $1, (%[choices], %%rcx)\n"
			    "predicted_branch: jnz predicted_taken\n\tnop\n"
			    "predicted_taken: incl %%ecx\n\tcmpl %[rounds], %%ecx\n"
			    "predicted_loop: jb predicted_top\n\t",
			    , AND([choices] "r"(choices), [rounds] "i"(ROUNDS)));
	EXPECT_EQ(rig_count(rig), expected);
	*taken = 0;
	for (size_t slot = 0; slot < rig_count(rig); slot++) {
		struct bts_struct record = rig_record(rig, slot);

		*others |= record.flags & ~PREDICTED;
		if (record.from != (uint64_t)predicted_branch)
			continue;
		++*taken;
		set += (record.flags & PREDICTED) != 0;
	}
	EXPECT_EQ(*taken, expected - (ROUNDS - 1));
	return set;
}

/* Only NetBurst supports the flag; what others leave in it is worth comparing, no more. */
TEST(bts_predicted_flag, .group = "R", .ids = "R4", .needs = NEED_BTS,
     .claim = "NetBurst: the flag is set for predictable branches and mixed for random ones",
     .source = "SDM Vol 3, 17.4.9.1: branch predicted, which Core and Atom do not support")
{
	uint8_t *choices = test_area(1);
	size_t taken, predictable, set;
	uint64_t others = 0;
	struct rig rig;

	rig_open(&rig, 2 * ROUNDS + 2);
	for (size_t i = 0; i < ROUNDS; i++)
		choices[i] = 1;
	predictable = run(&rig, choices, &taken, &others);
	test_observe("predictable", "%zu_of_%zu", predictable, taken);
	for (size_t i = 0; i < ROUNDS; i++)
		choices[i] = (uint8_t)(test_random() >> 32);
	set = run(&rig, choices, &taken, &others);
	test_observe("random", "%zu_of_%zu", set, taken);
	test_observe("other_flags", "%lx", others);
	if (ds_configuration->predicted) {
		EXPECT(predictable > ROUNDS * 9 / 10);
		EXPECT(set > 0 && set < taken);
	}
	rig_close(&rig);
}
