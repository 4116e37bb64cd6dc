// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/exact.h"

#define AT 0x00005a0000001000ul

extern const char filter_call[], filter_back[];

/* In the user's half, run at CPL 0: JMP over an UD2; RET */
static const uint8_t code[] = {0xeb, 0x02, 0x0f, 0x0b, 0xc3};

static __attribute__((noinline)) void trace(struct rig *rig, uint64_t debugctl)
{
	EXACTLY (rig)
		TRACED_WITH(debugctl, "filter_call: call *%[at]\nfilter_back:\n\t", ,
			    AND([at] "r"(AT)));
}

TEST(bts_filter_by_cpl, .group = "P", .ids = "P1 P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "the filters go by the CPL, whatever the addresses of a branch",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const struct ds_configuration *c = ds_configuration;
	uint8_t *page = test_area(1);
	struct rig rig;

	memcpy(page, code, sizeof(code));
	rig_open(&rig, 16);
	code_map(AT, page, VM_READ);
	trace(&rig, rig_all() | c->off_os);
	EXPECT_EQ(rig_count(&rig), 0);
	trace(&rig, rig_all() | c->off_usr);
	code_unmap(AT);
	EXPECT_EQ(rig_count(&rig), 3);
	rig_expect(&rig, 0, filter_call, (void *)AT, "call");
	rig_expect(&rig, 1, (void *)AT, (void *)(AT + 4), "jmp");
	rig_expect(&rig, 2, (void *)(AT + 4), filter_back, "ret");
	rig_close(&rig);
}
