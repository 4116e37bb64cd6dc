// SPDX-License-Identifier: MIT
// The driver of the LBR stack on this processor's format, and what it relies on.
#include "drivers/lbr/lbr.h"

#include "drivers/ds/ds.h"
#include "drivers/lbr/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/silicon.h"
#include "kernel/trace/context.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/rig.h"

enum { JUMPS = 40 };

/* Jumps to `first` with `value` in `msr` and IF = 0, through what follows. */
__asm__(".pushsection .text\n"
	"lbr_run_sled:\n\tpushfq\n\tcli\n\t"
	"movl %esi, %ecx\n\tmovl %edx, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"
	"jmp *%rdi\n"
	"lbr_sled:\n\t.rept 40\n\tjmp 1f\n1:\n\t.endr\n\t"
	"movl %esi, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"
	"popfq\n\tret\n\t.popsection");
extern void lbr_run_sled(const char *first, uint32_t msr, uint32_t value);
extern const char lbr_sled[];

static struct ptrace_lbr_branch branches[LBR_MOST];

/* IA32_DEBUGCTL, MSR_LBR_SELECT and the stack of this CPU are the test's until give_back(). */
static void borrow(void)
{
	msrs_borrow();
	lbr_unfilter();
}

static void give_back(void)
{
	msrs_give_back();
}

/* A jump to the last `count` of the sled's, and these. */
static void jump(unsigned count)
{
	const char *first = lbr_sled + 2ul * (JUMPS - count);

	if (lbr_caps()->architectural)
		lbr_run_sled(first, IA32_LBR_CTL,
			     LBR_CTL_LBREN | LBR_CTL_OS | LBR_CTL_USR | (uint32_t)LBR_CTL_KINDS);
	else
		lbr_run_sled(first, IA32_DEBUGCTL, DEBUGCTL_LBR);
}

/* Fails the test unless the `count` newest branches are those of the sled. */
static void expect_sled(unsigned count, unsigned read)
{
	unsigned depth = lbr_caps()->depth, expected = count < depth ? count : depth;

	REQUIRE(read >= expected);
	for (unsigned n = 0; n < expected; n++) {
		EXPECT_EQ(branches[n].from, (uint64_t)lbr_sled + 2ul * (JUMPS - 1 - n));
		EXPECT_EQ(branches[n].to, branches[n].from + 2);
	}
}

TEST(lbr_driver_reads, .group = "LB", .ids = "LB37", .needs = NEED_LBR,
     .claim = "the driver reads the branches since the stack was emptied, newest first, whole "
	      "addresses, from each place of TOS, and no more than there are entries",
     .source = "SDM Vol 3, 17.4.8 and 17.4.8.1")
{
	unsigned depth = lbr_caps()->depth;

	borrow();
	for (unsigned count = 0; count < JUMPS; count++) {
		unsigned read, expected = count + 1 < depth ? count + 1 : depth;

		lbr_clear(depth);
		jump(count);
		read = lbr_read(depth, branches);
		EXPECT_EQ(read, expected);
		expect_sled(count, read);
	}
	give_back();
}

/*
 * Where format 4 has flags of transactions and the processor has none a branch has these bits 0,
 * and what is written has to have its sign there: Linux 6.1 met both on Haswell
 * (events/intel/lbr.c, lbr_from_signext_quirk_wr()). The same entry reads otherwise once it is
 * written back. Bits 55:16 of IA32_LBR_x_INFO are undefined (SDM Vol 3 of 2022, 18.1.3).
 */
static void forget_undefined(struct lbr_registers *registers)
{
	bool flags = lbr_caps()->format == LBR_FMT_TSX && !(lbr_caps()->flags & LBR_TSX);

	for (unsigned n = 0; n < LBR_MOST; n++) {
		registers->from[n] |= flags ? LBR_TSX : 0;
		registers->info[n] &= ~0xffffffffff0000ull;
	}
}

TEST(lbr_driver_restores, .group = "LB", .ids = "LB38", .needs = NEED_LBR,
     .claim = "a stack that was saved, and emptied, is restored as it was: each entry, and where "
	      "the next branch goes",
     .source = "SDM Vol 3, 17.4.8")
{
	static struct lbr_registers saved, again;
	unsigned depth = lbr_caps()->depth;

	borrow();
	for (unsigned turn = 0; turn < depth; turn++) {
		lbr_clear(depth);
		jump(JUMPS - 1);
		lbr_save(&saved);
		lbr_clear(depth);
		EXPECT_EQ(lbr_read(depth, branches), 0);
		jump(turn);
		lbr_restore(&saved);
		lbr_save(&again);
		forget_undefined(&saved);
		forget_undefined(&again);
		EXPECT(!memcmp(&saved, &again, sizeof(saved)));
		expect_sled(JUMPS - 1, lbr_read(depth, branches));
		jump(1);
		if (lbr_caps()->architectural)
			EXPECT_EQ(rdmsr(lbr_caps()->from + 2), saved.from[0]);
		else
			EXPECT_EQ(rdmsr(lbr_caps()->top), (saved.top + 2) & (depth - 1));
	}
	give_back();
}

/* --- What it relies on --- */

/* The driver uses no records whose deepest depth is refused; the tests of each depth skip then. */
static bool takes_depths(uint32_t depths)
{
	uint64_t before = 0;
	bool taken;

	preemption_disable();
	taken = rdmsr_safe(IA32_LBR_DEPTH, &before);
	for (unsigned bit = 0; bit < 8; bit++)
		if (depths >> bit & 1)
			taken &= wrmsr_safe(IA32_LBR_DEPTH, 8 * (bit + 1));
	wrmsr_safe(IA32_LBR_DEPTH, before);
	preemption_enable();
	return taken;
}

TEST(lbr_arch_leaf, .group = "LB", .ids = "LB79 LB50", .needs = 0,
     .claim = "leaf 1CH is 0 and IA32_LBR_CTL raises #GP exactly where bit 19 of "
	      "CPUID.(EAX=07H,ECX=0):EDX is clear; IA32_LBR_DEPTH takes each depth that leaf 1CH "
	      "lists; a subleaf that leaf 07H does not have is 0",
     .source = "SDM Vol 2, CPUID; SDM Vol 3 of 2022, 18.1")
{
	uint32_t most = cpuid(0, 0).eax;
	bool listed = most >= 7 && cpuid(7, 0).edx & CPUID_7_EDX_ARCH_LBR;
	struct cpuid_result leaf = {0};
	uint64_t value;

	if (!cpuid_is_intel())
		test_skip("not an Intel processor");
	if (most >= LBR_LEAF)
		leaf = cpuid(LBR_LEAF, 0);
	EXPECT_EQ((leaf.eax & 0xff) != 0, listed);
	EXPECT(listed || !(leaf.eax | leaf.ebx | leaf.ecx | leaf.edx));
	if (most >= 7)
		EXPECT_EQ(cpuid(7, cpuid(7, 0).eax + 1).edx, 0);
	if (silicon_is_foreign_guest())
		return;
	EXPECT_EQ(rdmsr_safe(IA32_LBR_CTL, &value), listed);
	EXPECT(!listed || takes_depths(leaf.eax & 0xff));
	EXPECT_EQ(lbr_caps()->architectural, listed && leaf.eax & 0xf); /* MSRs of 32 entries */
}

static bool holds(uint32_t msr, uint64_t value)
{
	struct msr_trial trial = msr_try(msr, value, 0);

	return !trial.refused && trial.read_back == value;
}

/* The driver uses no records whose MSRs do not answer, and their tests skip. */
TEST(lbr_arch_listed_is_there, .group = "LB", .ids = "LB54 LB55", .needs = 0,
     .claim = "where leaf 1CH lists depths IA32_LBR_CTL holds LBREn, and the newest entry a source "
	      "and a target; its INFO can be read",
     .source = "SDM Vol 3 of 2022, 18.1")
{
	uint32_t most = cpuid(0, 0).eax;
	uint64_t value;

	if (!cpuid_is_intel() || most < LBR_LEAF || !(cpuid(7, 0).edx & CPUID_7_EDX_ARCH_LBR) ||
	    silicon_is_foreign_guest())
		test_skip("no architectural last branch records: CPUID.7:EDX[19], leaf 1CH");
	test_pin();
	EXPECT(holds(IA32_LBR_CTL, LBR_CTL_LBREN));
	EXPECT(holds(IA32_LBR_0_FROM_IP, 0x1000) && holds(IA32_LBR_0_TO_IP, 0x1000));
	EXPECT(rdmsr_safe(IA32_LBR_0_INFO, &value));
}
