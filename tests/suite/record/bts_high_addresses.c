// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/exact.h"

extern const char high_call[], high_back[];

/* A jump whose last byte is the page's last, over the boundary to a RET in the next. */
#define JUMP_AT (PAGE_SIZE - 5) /* in the first page */
#define RET_AT	4u		/* in the second */

static const uint8_t jump[] = {0xe9, RET_AT, 0, 0, 0};

/* `linear`: where the second page begins. */
static void check(struct rig *rig, uint8_t *pages, uint64_t linear)
{
	uint64_t from = linear - PAGE_SIZE + JUMP_AT, to = linear + RET_AT;

	code_map(linear - PAGE_SIZE, pages, VM_READ);
	code_map(linear, pages + PAGE_SIZE, VM_READ);
	EXACTLY (rig)
		TRACED_WITH(rig_all(), "high_call: call *%[from]\nhigh_back:\n\t", ,
			    AND([from] "r"(from)));
	code_unmap(linear);
	code_unmap(linear - PAGE_SIZE);
	EXPECT_EQ(rig_count(rig), 3);
	rig_expect(rig, 0, high_call, (void *)from, "call");
	rig_expect(rig, 1, (void *)from, (void *)to, "jmp over the boundary");
	rig_expect(rig, 2, (void *)to, high_back, "ret");
}

TEST(bts_high_addresses, .group = "R", .ids = "R5", .needs = NEED_BTS,
     .claim = "from and to are whole 64-bit linear addresses, in either half and over any boundary",
     .source = "SDM Vol 3, 17.4.4, 17.4.9.1 and figure 17-9")
{
	static const uint64_t at[] = {0x0000000000201000, 0x0000000080000000, 0x0000000100000000,
				      0x00005a5aa5a50000, 0x00007fffffffe000, 0xffff900000000000,
				      0xffffc7ff00000000, 0xfffffffe00000000, 0xffffffffffe00000};
	uint8_t *pages = test_area(2);
	struct rig rig;

	memset(pages, 0xcc, 2 * PAGE_SIZE);
	memcpy(pages + JUMP_AT, jump, sizeof(jump));
	pages[PAGE_SIZE + RET_AT] = 0xc3;
	rig_open(&rig, 16);
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		check(&rig, pages, at[i]);
	rig_close(&rig);
}
