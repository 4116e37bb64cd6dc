// SPDX-License-Identifier: MIT
// REP MOVS returns to itself until RCX is 0, and an interrupt can come between two iterations: to
// an interpreter that looks like a branch. Passing means: it leaves no record, however many
// iterations.
#include "kernel/mm/page.h"
#include "lib/string.h"
#include "tests/lib/exact.h"

TEST(bts_string_instructions, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim = "the iterations of REP MOVS, STOS, CMPS and SCAS leave no records",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 2, REP")
{
	uint8_t *from = test_area(1), *to = test_area(1);
	uint64_t compared = 0, scanned = 0;
	struct rig rig;

	for (size_t i = 0; i < PAGE_SIZE; i++)
		from[i] = (uint8_t)(i * 5 + i / 256);
	rig_open(&rig, 16);
	EXACTLY (&rig) {
		const uint8_t *source = from;
		uint8_t *target = to;

		TRACED_WITH(rig_all(),
			    "movl $4096, %%ecx\n\trep movsb\n\t"
			    "subq $4096, %%rsi\n\tsubq $4096, %%rdi\n\t"
			    "movl $512, %%ecx\n\trepe cmpsq\n\tmovq %%rcx, %[compared]\n\t"
			    "subq $4096, %%rdi\n\tmovb 77(%%rdi), %%al\n\tmovl $4096, %%ecx\n\t"
			    "repne scasb\n\tmovq %%rcx, %[scanned]\n\t"
			    "movl $0x11223344, %%eax\n\tmovl $16, %%ecx\n\trep stosl\n\t",
			    AND([compared] "=&r"(compared), [scanned] "=&r"(scanned), "+&S"(source),
				"+&D"(target)), );
	}
	EXPECT_EQ(rig_count(&rig), 0);
	EXPECT_EQ(compared, 0);
	EXPECT_EQ(scanned, PAGE_SIZE - 78);
	EXPECT(!memcmp(&to[78], "\x44\x33\x22\x11", 4));
	EXPECT_EQ(to[PAGE_SIZE - 1], from[PAGE_SIZE - 1]);
	rig_close(&rig);
}
