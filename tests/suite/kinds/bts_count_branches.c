// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char count_rcxz[], count_ecxz[], count_loop[], count_loope[], count_loopne[];
extern const char count_rcxz_to[], count_ecxz_to[], count_loop_to[], count_loope_to[],
	count_loopne_to[];

TEST(bts_count_branches, .group = "K", .ids = "K1", .needs = NEED_BTS,
     .claim = "JRCXZ, JECXZ, LOOP, LOOPE and LOOPNE are recorded if taken, and else not",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 2, Jcc and LOOP")
{
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(),
		       "movl $1, %%ecx\n\tjrcxz 1f\n\tjecxz 1f\n\tnop\n1:\t"
		       "xorl %%ecx, %%ecx\n"
		       "count_rcxz: jrcxz count_rcxz_to\n\tud2\n"
		       "count_rcxz_to: movabsq $0x100000000, %%rcx\n\tjrcxz 1f\n\tnop\n1:\n"
		       "count_ecxz: jecxz count_ecxz_to\n\tud2\n"
		       "count_ecxz_to: movl $1, %%ecx\n\tloop 1f\n\tnop\n1:\tmovl $2, %%ecx\n"
		       "count_loop: loop count_loop_to\n\tud2\n"
		       "count_loop_to: movl $5, %%ecx\n\ttestl %%ecx, %%ecx\n\tloope 1f\n\tnop\n"
		       "1:\tcmpl %%ecx, %%ecx\n"
		       "count_loope: loope count_loope_to\n\tud2\n"
		       "count_loope_to: movl $5, %%ecx\n\tcmpl %%ecx, %%ecx\n\tloopne 1f\n\tnop\n"
		       "1:\ttestl %%ecx, %%ecx\n"
		       "count_loopne: loopne count_loopne_to\n\tud2\n"
		       "count_loopne_to:\n\t");
	EXPECT_EQ(rig_count(&rig), 5);
	rig_expect(&rig, 0, count_rcxz, count_rcxz_to, "jrcxz");
	rig_expect(&rig, 1, count_ecxz, count_ecxz_to, "jecxz");
	rig_expect(&rig, 2, count_loop, count_loop_to, "loop");
	rig_expect(&rig, 3, count_loope, count_loope_to, "loope");
	rig_expect(&rig, 4, count_loopne, count_loopne_to, "loopne");
	rig_close(&rig);
}
