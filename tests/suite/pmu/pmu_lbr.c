// SPDX-License-Identifier: MIT
// The stack of last branches.
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/silicon.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

#define LBR	   1ull
#define LBR_SELECT 0x1c8u
#define NO_JCC	   (1ull << 2)
#define ADDRESS	   ((1ull << 48) - 1)

/* By signature: SDM Vol 3, 17.5 to 17.13. */
static const struct stack {
	uint8_t family, first, last; /* models */
	uint8_t depth;
	uint16_t from, to, top;
	bool select;
} stacks[] = {
	{0xf, 3, 6, 16, 0x680, 0x6c0, 0x1da, false},
	{6, 0x0f, 0x0f, 4, 0x40, 0x60, 0x1c9, false},
	{6, 0x17, 0x17, 4, 0x40, 0x60, 0x1c9, false},
	{6, 0x1c, 0x1c, 8, 0x40, 0x60, 0x1c9, false},
	{6, 0x1a, 0x2f, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x3a, 0x3f, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x4e, 0x55, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x5e, 0x5e, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x7d, 0x9e, 32, 0x680, 0x6c0, 0x1c9, true},
};

static const struct stack *stack(void)
{
	uint32_t eax = cpuid(1, 0).eax;
	unsigned family = eax >> 8 & 0xf, model = (eax >> 4 & 0xf) | (eax >> 12 & 0xf0);

	for (unsigned i = 0; cpuid_is_intel() && i < sizeof(stacks) / sizeof(stacks[0]); i++)
		if (stacks[i].family == family && model >= stacks[i].first &&
		    model <= stacks[i].last)
			return &stacks[i];
	test_skip("no table here has the LBR stack of family %x, model %x", family, model);
}

static void lbr_close(void)
{
	ds_checkin(&this_cpu()->trace->ds);
	preemption_enable();
}

/* IA32_DEBUGCTL is the test's until lbr_close(). A hypervisor that shows no stack refuses LBR or
   drops it. */
static const struct stack *lbr_open(void)
{
	const struct stack *s = stack();
	struct msr_trial trial;

	preemption_disable();
	REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
	trial = msr_try(IA32_DEBUGCTL, LBR, 0);
	if (silicon_is_foreign_guest() && trial.read_back != LBR) {
		lbr_close();
		test_skip("the hypervisor shows no LBR stack: IA32_DEBUGCTL.LBR %s",
			  trial.refused ? "raises #GP" : "reads 0");
	}
	EXPECT_EQ(trial.read_back, LBR);
	return s;
}

static uint64_t newest(const struct stack *stack, unsigned back, bool to)
{
	uint32_t place = ((uint32_t)rdmsr(stack->top) - back) & (stack->depth - 1u);

	return rdmsr((to ? stack->to : stack->from) + place);
}

extern const char lbr_call[], lbr_called[], lbr_return[], lbr_jump[], lbr_loop[], lbr_landed[];

/* CALL, RET, JMP over two bytes, JNZ taken twice and not taken once. */
#define BRANCHES                                                                                   \
	"lbr_call: call lbr_called\n\t"                                                            \
	"jmp lbr_jump\n"                                                                           \
	"lbr_called: nop\nlbr_return: ret\n"                                                       \
	"lbr_jump: jmp lbr_landed\n\tud2\n"                                                        \
	"lbr_landed: movl $3, %%ecx\n"                                                             \
	"1: decl %%ecx\nlbr_loop: jnz 1b\n\t"

TEST(lbr_holds_last_branches, .group = "pmu", .ids = "", .needs = 0,
     .claim = "LBR keeps the newest taken branches in its stack, TOS says which is the newest",
     .source = "SDM Vol 3, 17.4.8")
{
	const struct stack *s = lbr_open();

	TRACED(LBR, BRANCHES);
	EXPECT_EQ(newest(s, 0, false) & ADDRESS, (uint64_t)lbr_loop & ADDRESS);
	EXPECT_EQ(newest(s, 1, false) & ADDRESS, (uint64_t)lbr_loop & ADDRESS);
	EXPECT_EQ(newest(s, 2, false) & ADDRESS, (uint64_t)lbr_jump & ADDRESS);
	EXPECT_EQ(newest(s, 2, true) & ADDRESS, (uint64_t)lbr_landed & ADDRESS);
	if (s->depth > 4) {
		EXPECT_EQ(newest(s, 4, false) & ADDRESS, (uint64_t)lbr_return & ADDRESS);
		EXPECT_EQ(newest(s, 5, false) & ADDRESS, (uint64_t)lbr_call & ADDRESS);
		EXPECT_EQ(newest(s, 5, true) & ADDRESS, (uint64_t)lbr_called & ADDRESS);
	}
	lbr_close();
}

TEST(lbr_wraps, .group = "pmu", .ids = "", .needs = 0,
     .claim = "a branch more than the LBR stack has entries replaces the oldest",
     .source = "SDM Vol 3, 17.4.8")
{
	const struct stack *s = lbr_open();
	uint64_t top, before;

	TRACED(LBR, "jmp 1f\n1:");
	before = rdmsr(s->top);
	TRACED(LBR, "movl $201, %%ecx\n1: decl %%ecx\n\tjnz 1b");
	top = rdmsr(s->top);
	EXPECT_EQ(top, (before + 200) & (s->depth - 1u));
	for (unsigned back = 1; back < s->depth; back++)
		EXPECT_EQ(newest(s, back, false) & ADDRESS, newest(s, 0, false) & ADDRESS);
	TRACED(0, "jmp 1f\n1:");
	EXPECT_EQ(rdmsr(s->top), top);
	lbr_close();
}

extern const char lbr_first[], lbr_second[];

TEST(lbr_select_leaves_out, .group = "pmu", .ids = "", .needs = 0,
     .claim = "JCC of LBR_SELECT leaves conditional branches out of the stack, and no other",
     .source = "SDM Vol 3, 17.7.2")
{
	const struct stack *s = stack();

	if (!s->select)
		test_skip("no MSR_LBR_SELECT before Nehalem");
	lbr_open();
	wrmsr(LBR_SELECT, NO_JCC);
	TRACED(LBR, "lbr_first: jmp 1f\n1: movl $9, %%ecx\n2: decl %%ecx\n\tjnz 2b\n"
		    "lbr_second: jmp 3f\n3:");
	wrmsr(LBR_SELECT, 0);
	EXPECT_EQ(newest(s, 0, false) & ADDRESS, (uint64_t)lbr_second & ADDRESS);
	EXPECT_EQ(newest(s, 1, false) & ADDRESS, (uint64_t)lbr_first & ADDRESS);
	lbr_close();
}

/* Both at once: the records and the stack tell of the same branches. */
TEST(lbr_agrees_with_bts, .group = "pmu", .ids = "", .needs = NEED_BTS,
     .claim = "the LBR stack and the records of BTS hold the same branches",
     .source = "SDM Vol 3, 17.4.4 and 17.4.8")
{
	const struct stack *s = stack();
	struct msr_trial trial;
	struct rig rig;

	rig_open(&rig, 16);
	trial = msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0);
	if (trial.refused || trial.read_back != (rig_all() | LBR)) {
		rig_close(&rig);
		test_skip("TR and LBR cannot be set together on this processor");
	}
	rig_reset(&rig);
	TRACED(rig_all() | LBR, "jmp 1f\n1: movl $4, %%ecx\n2: decl %%ecx\n\tjnz 2b\n\tjmp 3f\n3:");
	REQUIRE_EQ(rig_count(&rig), 5);
	for (unsigned back = 0; back < 5; back++) {
		struct bts_struct record = rig_record(&rig, 4 - back);

		EXPECT_EQ(newest(s, back, false) & ADDRESS, record.from & ADDRESS);
		EXPECT_EQ(newest(s, back, true) & ADDRESS, record.to & ADDRESS);
	}
	rig_close(&rig);
}
