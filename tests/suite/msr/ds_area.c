// SPDX-License-Identifier: MIT
#include "drivers/processor.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

static const uint64_t canonical_48[] = {0x0, 0x00007fffffffffc0, 0x00007ffffffff000,
					0xffff800000000000, 0xffffffffffffff00};
static const uint64_t not_canonical_48[] = {0x0000800000000000, 0x0001000000000000,
					    0x00ff800000000000, 0xffff7fffffffffc0,
					    0xfffe800000000000, 0xff00000000000000};
static const uint64_t not_canonical_57[] = {0x0100000000000000, 0x8000000000000000,
					    0x7fff800000000000, 0xfeffffffffffffc0,
					    0x0200800000000000, 0x8000000000000040};

static void expect_taken(uint64_t address, uint64_t before)
{
	struct msr_trial trial = msr_try(IA32_DS_AREA, address, before);

	EXPECT(!trial.refused);
	EXPECT_EQ(trial.read_back, address);
}

static void expect_refused(uint64_t address, uint64_t before)
{
	struct msr_trial trial = msr_try(IA32_DS_AREA, address, before);

	if (!trial.refused)
		test_note("IA32_DS_AREA took %lx", address);
	else
		EXPECT_EQ(trap_caught().error, 0);
	EXPECT(trial.refused);
	EXPECT_EQ(trap_caught().vector, VECTOR_GP);
	EXPECT_EQ(trial.read_back, before);
}

/* Whether bits 56:47 may differ is the processor's width, not CR4.LA57's: see M6. */
TEST(ds_area_canonical, .group = "M", .ids = "M5 M6", .needs = NEED_BTS,
     .claim = "IA32_DS_AREA takes canonical addresses; others raise #GP(0) and change nothing",
     .source = "SDM Vol 2, WRMSR: #GP for a non-canonical address; SDM Vol 3, table 35-2: 600H")
{
	bool la57 = cpuid(0, 0).eax >= 7 && cpuid(7, 0).ecx & 1u << 16;
	struct rig rig;
	uint64_t before;

	rig_open(&rig, 16);
	before = (uint64_t)rig.area;
	for (unsigned i = 0; i < sizeof(canonical_48) / 8; i++)
		expect_taken(canonical_48[i], before);
	for (unsigned bit = 0; bit < 47; bit++) {
		expect_taken(1ull << bit, before);
		expect_taken(~(1ull << bit), before);
	}
	for (unsigned i = 0; i < sizeof(not_canonical_57) / 8; i++)
		expect_refused(not_canonical_57[i], before);
	for (unsigned i = 0; i < sizeof(not_canonical_48) / 8 && !la57; i++)
		expect_refused(not_canonical_48[i], before);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), before);
	rig_close(&rig);
}

static const uint64_t canonical_57_only[] = {0x0000800000000000, 0x00ffffffffffffc0,
					     0xff00000000000000, 0xffff7fffffffffc0};

TEST(ds_area_canonical_la57, .group = "M", .ids = "M6", .needs = NEED_BTS | NEED_LA57,
     .claim = "with LA57 IA32_DS_AREA takes 57-bit addresses though paging has four levels",
     .source = "SDM Vol 2, WRMSR: canonical as the processor's linear-address width says")
{
	struct rig rig;
	uint64_t cr4;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	if (cr4 & 1u << 12)
		test_error("CR4.LA57 is set");
	rig_open(&rig, 16);
	for (unsigned i = 0; i < sizeof(canonical_57_only) / 8; i++) {
		struct msr_trial trial =
			msr_try(IA32_DS_AREA, canonical_57_only[i], (uint64_t)rig.area);

		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, canonical_57_only[i]);
	}
	EXPECT_EQ(rdmsr(IA32_DS_AREA), rig.area);
	rig_close(&rig);
}

static void expect_held(const struct rig *rig, const char *what)
{
	uint64_t area = rdmsr(IA32_DS_AREA);

	if (area != (uint64_t)rig->area)
		test_note("%s: IA32_DS_AREA is %lx", what, area);
	EXPECT_EQ(area, rig->area);
	wrmsr(IA32_DS_AREA, (uint64_t)rig->area);
}

TEST(ds_area_holds, .group = "M", .ids = "", .needs = NEED_BTS,
     .claim = "IA32_DS_AREA and IA32_DEBUGCTL keep their values over branches, MOV CR3, ring 3",
     .source =
	     "SDM Vol 3, 17.4.9 and table 35-2: 600H and 1D9H, written by software, cleared by RESET and INIT")
{
	uint64_t debugctl = 0;
	struct rig rig;

	rig_open(&rig, VISITS_SLOTS);
	expect_held(&rig, "written");
	TRACED(rig_all(), "jmp 1f\n\tud2\n1:\n\t");
	expect_held(&rig, "a branch recorded, and TR off again");
	TRACED_WITH(rig_interrupt(),
		    "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n\tjmp 1f\n\tud2\n1:\t"
		    "movl $0x1d9, %%ecx\n\trdmsr\n\tshlq $32, %%rdx\n\torq %%rax, %%rdx\n\t"
		    "movq %%rdx, %[debugctl]\n\t",
		    OPERANDS([debugctl] "=&r"(debugctl)), );
	expect_held(&rig, "MOV CR3");
	EXPECT_EQ(debugctl, rig_interrupt());
	EXPECT_EQ(rig_count(&rig), 2);
	user_visits_open();
	EXPECT_EQ(user_visits_trace(&rig, rig_interrupt()).debugctl, rig_interrupt());
	user_visits_close();
	expect_held(&rig, "ring 3");
	rig_close(&rig);
}

#define AT 0x00005a0000001000ul

static const uint8_t read_msr[] = {0x0f, 0x32, 0x0f, 0x0b};  /* rdmsr; ud2 */
static const uint8_t write_msr[] = {0x0f, 0x30, 0x0f, 0x0b}; /* wrmsr; ud2 */

/* The value of WRMSR is harmless, should it be let through. */
static void attempt(uint32_t msr, uint64_t value, const uint8_t *code, uint8_t *page)
{
	struct trap_frame frame = {
		.rip = AT, .rcx = msr, .rax = (uint32_t)value, .rdx = (uint32_t)(value >> 32)};

	memcpy(page, code, sizeof(read_msr));
	EXPECT(user_run(&frame));
	EXPECT_EQ(frame.vector, VECTOR_GP);
	EXPECT_EQ(frame.error, 0);
	EXPECT_EQ(frame.rip, AT);
	EXPECT_EQ(frame.rax, (uint32_t)value);
	EXPECT_EQ(frame.rdx, (uint32_t)(value >> 32));
}

static void attempt_all(const struct rig *rig, uint8_t *page)
{
	uint64_t area = (uint64_t)rig->area, control = ds_configuration->btint;

	attempt(IA32_DEBUGCTL, control, read_msr, page);
	attempt(IA32_DEBUGCTL, control, write_msr, page);
	attempt(IA32_DS_AREA, area, read_msr, page);
	attempt(IA32_DS_AREA, area, write_msr, page);
}

TEST(ds_msrs_are_privileged, .group = "M", .ids = "M7", .needs = NEED_BTS,
     .claim = "ring 3 cannot read or write IA32_DEBUGCTL and IA32_DS_AREA, traced or not",
     .source = "SDM Vol 2, RDMSR and WRMSR: #GP(0) if CPL is not 0")
{
	uint8_t *page = test_area(1);
	struct rig rig;

	code_map(AT, page, VM_USER);
	rig_open(&rig, 64);
	attempt_all(&rig, page);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), rig.area);

	wrmsr(IA32_DEBUGCTL, rig_all());
	attempt_all(&rig, page);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), rig_all());
	wrmsr(IA32_DEBUGCTL, 0);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), rig.area);
	rig_close(&rig);
	code_unmap(AT);
}
