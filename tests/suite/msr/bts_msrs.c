// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/debugctl.h"
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/vm.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/calibration.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/parked.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

/*
 * A control that changes while TR and BTS stay set. Drivers turn TR off around every change, so
 * silicon that looks at the others only when TR is set would serve them well for years. A tracer
 * that changes its filter in flight would then see what it must not.
 */

#define SLOTS 8
#define FEW   3
#define MANY  20

/* For TRACED_WITH(): writes IA32_DEBUGCTL; all its bits here are below 32. */
#define WRITE(operand)                                                                             \
	"movl $0x1d9, %%ecx\n\txorl %%edx, %%edx\n\tmovl " operand ", %%eax\n\twrmsr\n\t"
#define JUMP(name) "\n" name ": jmp " name "_to\n\tud2\n" name "_to: "
#define LOW(value) "r"((uint32_t)(value))

extern const char control_a[], control_a_to[], control_b[], control_b_to[], control_c[],
	control_c_to[], control_d[], control_d_to[], control_few[], control_few_top[],
	control_many[], control_many_top[];

/* Four jumps, each under another control. */
static __attribute__((noinline)) void trace(struct rig *rig, uint64_t a, uint64_t b, uint64_t c,
					    uint64_t d)
{
	EXACTLY (rig)
		TRACED_WITH(a,
			    JUMP("control_a") WRITE("%[b]") JUMP("control_b") WRITE("%[c]")
				    JUMP("control_c") WRITE("%[d]") JUMP("control_d"),
			    , OPERANDS([b] LOW(b), [c] LOW(c), [d] LOW(d)));
}

static void expect(const struct rig *rig, bool a, bool b, bool c, bool d)
{
	size_t slot = 0;

	if (a)
		rig_expect(rig, slot++, control_a, control_a_to);
	if (b)
		rig_expect(rig, slot++, control_b, control_b_to);
	if (c)
		rig_expect(rig, slot++, control_c, control_c_to);
	if (d)
		rig_expect(rig, slot++, control_d, control_d_to);
	EXPECT_EQ(rig_count(rig), slot);
}

TEST(bts_rewrite_is_nothing, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "a write of IA32_DEBUGCTL that changes nothing loses no record and moves no index",
     .source = "SDM Vol 3, 17.4.4, 17.4.9 and table 35-2: each taken branch, BTS index, 1D9H")
{
	RIG(rig, 16);
	trace(&rig, rig_all(), rig_all(), rig_all(), rig_all());
	expect(&rig, true, true, true, true);
}

TEST(bts_enables_at_once, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "of TR and BTS each begins and ends recording while the other stays set",
     .source = "SDM Vol 3, 17.4.9.4, table 17-6 and table 35-2: 1D9H")
{
	uint64_t tr = ds_configuration->tr, bts = ds_configuration->bts;

	RIG(rig, 16);
	trace(&rig, tr, rig_all(), tr, rig_all());
	expect(&rig, false, true, false, true);
	trace(&rig, bts, rig_all(), bts, rig_all());
	expect(&rig, false, true, false, true);
	trace(&rig, rig_all(), tr, rig_all(), bts);
	expect(&rig, true, false, true, false);
}

TEST(bts_filters_at_once, .group = "P", .ids = "P1 P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim =
	     "BTS_OFF_OS and BTS_OFF_USR count from the write on that changes them, TR staying set",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	uint64_t os = ds_configuration->off_os, user = ds_configuration->off_usr;

	RIG(rig, 16);
	trace(&rig, rig_all(), rig_all() | os, rig_all(), rig_all() | os);
	expect(&rig, true, false, true, false);
	trace(&rig, rig_all() | os, rig_all() | user, rig_all() | os, rig_all());
	expect(&rig, false, true, false, true);
	trace(&rig, rig_all() | user, rig_all() | user | os, rig_all() | user, rig_all());
	expect(&rig, true, false, true, true);
}

/* So many branches under `before`, more than the buffer holds under `after`. */
static __attribute__((noinline)) void overrun(struct rig *rig, uint32_t few, uint64_t before,
					      uint64_t after)
{
	EXACTLY (rig)
		TRACED_WITH(before,
			    "movl %[few], %%ecx\n"
			    "control_few_top: decl %%ecx\n"
			    "control_few: jnz control_few_top\n\t" WRITE(
				    "%[after]") "movl %[many], %%ecx\n"
						"control_many_top: decl %%ecx\n"
						"control_many: jnz control_many_top\n\t",
			    ,
			    OPERANDS([few] "r"(few + 1), [many] "i"(MANY + 1), [after] LOW(after)));
}

/* The threshold stays out of reach of what is written past the maximum. */
static __attribute__((noinline)) void shorten(struct rig *rig, const struct calibration *c)
{
	rig_shorten(rig, SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(rig, rig->slots);
}

/* In slot 0: what a buffer that went round has overwritten. */
static void expect_first(struct rig *rig, bool overwritten)
{
	rig_lengthen(rig);
	if (overwritten)
		rig_expect(rig, 0, control_many, control_many_top);
	else
		rig_expect(rig, 0, control_few, control_few_top);
}

TEST(bts_btint_at_once, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "BTINT ends and begins wrapping with the write that changes it, TR staying set",
     .source = "SDM Vol 3, 17.4.9.4, table 17-6 and table 35-2: 1D9H")
{
	const struct calibration *c = calibration();
	size_t capacity = SLOTS - c->unused;

	RIG(rig, FEW + MANY + 8);
	shorten(&rig, c);
	/* A buffer that is full goes on at its base. */
	overrun(&rig, c->when_full == FULL_STOPS ? MANY : FEW, rig_interrupt(), rig_all());
	EXPECT_EQ(rig_used(&rig), capacity);
	expect_first(&rig, true);
	if (c->when_full != FULL_WRAPS) {
		shorten(&rig, c);
		overrun(&rig, FEW, rig_all(), rig_interrupt());
		EXPECT_EQ(rig_used(&rig),
			  c->when_full == FULL_STOPS ? capacity : (size_t)FEW + MANY);
		expect_first(&rig, false);
	}
	test_observe("btint_can_be_told", "%d", c->when_full != FULL_WRAPS);
}

/*
 * IA32_DEBUGCTL is software's: what an event may change of it is written (LBR and BTF at #DB). A
 * BTINT that some event clears makes a buffer wrap that was to interrupt, much later and far away.
 */

extern const char holds_handler[];

static volatile uint64_t seen __attribute__((used)), events __attribute__((used)),
	resume __attribute__((used));

/*
 * Keeps IA32_DEBUGCTL, and returns to `resume` unless that is 0, with all registers as they were:
 * an NMI arrives while others use them.
 */
__asm__(".pushsection .text\n"
	"holds_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tshlq $32, %rdx\n\torq %rdx, %rax\n\t"
	"movq %rax, seen(%rip)\n\tincq events(%rip)\n\t"
	"movq resume(%rip), %rax\n\ttestq %rax, %rax\n\tcmovzq 24(%rsp), %rax\n\t"
	"movq %rax, 24(%rsp)\n\tmovq $0, resume(%rip)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
	".popsection");

/* `before` ... and IA32_DEBUGCTL as it is after the event. */
#define AFTER(debugctl, before)                                                                    \
	({                                                                                         \
		uint64_t after = 0;                                                                \
		TRACED_WITH(debugctl,                                                              \
			    before "\n\tmovl $0x1d9, %%ecx\n\trdmsr\n\tshlq $32, %%rdx\n\t"        \
				   "orq %%rax, %%rdx\n\tmovq %%rdx, %[after]\n\t",                 \
			    OPERANDS([after] "=&r"(after)), , "rbx", "rsi", "rdi", "r8", "r9",     \
			    "r10", "r11");                                                         \
		after;                                                                             \
	})

static uint64_t after_fault(uint64_t debugctl)
{
	return AFTER(debugctl, "leaq 1f(%%rip), %%rbx\n\tmovq %%rbx, resume(%%rip)\n\tud2\n1:");
}

static uint64_t after_software(uint64_t debugctl)
{
	return AFTER(debugctl, "int $0x31");
}

static uint64_t after_interrupt(uint64_t debugctl)
{
	return AFTER(debugctl, "sti\n\t.fill 64, 1, 0x90\n\tcli");
}

static uint64_t after_halt(uint64_t debugctl)
{
	return AFTER(debugctl, "sti\n\thlt\n\tcli");
}

/* Waits for the NMI for at most 500 rounds. */
static uint64_t after_nmi(uint64_t debugctl)
{
	return AFTER(debugctl, "call lapic_self_nmi\n\tmovl $500, %%ecx\n"
			       "1:\tpause\n\tcmpq $0, events(%%rip)\n\tjne 2f\n\tdecl %%ecx\n\t"
			       "jnz 1b\n2:");
}

static void check(struct rig *rig, const char *what, uint64_t debugctl,
		  uint64_t after_event(uint64_t debugctl))
{
	bool interrupt = after_event == after_interrupt || after_event == after_halt;
	struct pending pending;
	uint64_t after;

	rig_reset(rig);
	seen = events = resume = 0;
	if (interrupt)
		pending_raise(&pending);
	own_idt_load();
	after = after_event(debugctl);
	own_idt_unload();
	if (interrupt) {
		lapic_eoi();
		pending_settle();
	}
	if (seen != debugctl || after != debugctl)
		test_note("%s: IA32_DEBUGCTL was %lx, %lx in the handler, %lx after", what,
			  debugctl, seen, after);
	EXPECT_EQ(events, 1);
	EXPECT_EQ(seen, debugctl);
	EXPECT_EQ(after, debugctl);
}

TEST(bts_controls_over_events, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "no exception, interrupt, NMI, HLT or IRET changes TR, BTS, BTINT, BTF and the "
	      "filters",
     .source = "SDM Vol 3, 17.4.3, 17.4.4 and table 35-2: 1D9H, what #DB clears")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t filters[] = {0, ds_caps()->dscpl ? c->off_usr : 0,
			      ds_caps()->dscpl ? c->off_os : 0};
	uint64_t btf = debugctl_has_btf ? DEBUGCTL_BTF : 0;

	_Static_assert(VECTOR_TEST + 1 == 0x31, "after_software() counts on it");
	RIG(rig, 1024);
	own_idt_begin(VECTOR_UD, holds_handler, false);
	own_idt_set(VECTOR_NMI, holds_handler, false);
	own_idt_set(VECTOR_TEST, holds_handler, false);
	own_idt_set(VECTOR_TEST + 1, holds_handler, false);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t debugctl = rig_interrupt() | filters[i] | btf;

		check(&rig, "#UD", debugctl, after_fault);
		check(&rig, "INT n", debugctl, after_software);
		check(&rig, "interrupt", debugctl, after_interrupt);
		check(&rig, "HLT", debugctl, after_halt);
		check(&rig, "NMI", debugctl, after_nmi);
	}
}

TEST(bts_control_bits_hold, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "TR, BTS and BTINT can be set alone and together, and read back as written",
     .source = "SDM Vol 3, 17.4.1 and table 35-2: 1D9H bits 6, 7, 8")
{
	const struct ds_configuration *c = ds_configuration;

	RIG(rig, 16); /* LBR beside TR: bts_tr_with_lbr */
	for (unsigned choice = 0; choice < 16; choice++) {
		uint64_t value = (choice & 1 ? c->tr : 0) | (choice & 2 ? c->bts : 0) |
				 (choice & 4 ? c->btint : 0);
		uint64_t lbr = choice & 8 && !(choice & 1) ? DEBUGCTL_LBR : 0;
		struct msr_trial trial = msr_try(IA32_DEBUGCTL, value | lbr, 0);

		EXPECT(!trial.refused || lbr);
		EXPECT_EQ(trial.read_back & ~lbr, trial.refused ? 0 : value);
		EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
	}
	EXPECT_EQ(rig_count(&rig), 0);
}

#define NEWEST_OFF_OS  (1ull << 9)
#define NEWEST_OFF_USR (1ull << 10)

static void try(const char *key, uint64_t bits)
{
	struct msr_trial trial = msr_try(IA32_DEBUGCTL, bits, 0);

	if (ds_caps()->dscpl) {
		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, bits);
	} else {
		EXPECT_EQ(trial.read_back & ~bits, 0);
		EXPECT(!trial.refused || !trial.read_back);
		test_observe(key, "%s", msr_trial_word(&trial, bits));
	}
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
}

TEST(bts_cpl_bits_as_enumerated, .group = "M", .ids = "M3", .needs = NEED_BTS,
     .claim = "BTS_OFF_OS and BTS_OFF_USR can be set and read back where DS-CPL is enumerated",
     .source = "SDM Vol 3, 17.4.6 and table 35-2: 1D9H bits 9 and 10, CPUID.1:ECX[4]")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t off_os = c->off_os ? c->off_os : NEWEST_OFF_OS;
	uint64_t off_usr = c->off_usr ? c->off_usr : NEWEST_OFF_USR;

	RIG(rig, 16);
	try("off_os", off_os);
	try("off_usr", off_usr);
	try("both", off_os | off_usr);
	if (ds_caps()->dscpl)
		try("all", off_os | off_usr | rig_interrupt());
}

extern const char refused_jump[], refused_jump_to[];

/* While branches are recorded. Whether a hypervisor's #GP is one is not asked. */
static void trace_refused(struct rig *rig, uint64_t value)
{
	own_idt_begin(VECTOR_GP, own_handler_resume_error, false);
	EXACTLY (rig) {
		own_idt_load();
		TRACED_WITH(rig_all(),
			    "leaq refused_jump(%%rip), %%rbx\n\tmovl $0x1d9, %%ecx\n\t"
			    "movl %[low], %%eax\n\tmovl %[high], %%edx\n\t"
			    "wrmsr\n\tud2" JUMP("refused_jump"),
			    , OPERANDS([low] LOW(value), [high] LOW(value >> 32)), "rbx");
		own_idt_unload();
	}
	REQUIRE(rig_count(rig) >= 2);
	rig_expect(rig, rig_count(rig) - 2, own_handler_resume_error_iret, refused_jump);
	rig_expect(rig, rig_count(rig) - 1, refused_jump, refused_jump_to);
}

#define NEWEST_TR (1ull << 6)

/*
 * Which bits are reserved differs between processors, and new ones get a meaning: that is only
 * observed. What must hold is that a refused write changes nothing and that no write sets another
 * bit than the one it is about. BTINT, harmless alone, is what was there before.
 */
TEST(bts_debugctl_reserved_bits, .group = "M", .ids = "M4", .needs = NEED_BTS,
     .claim = "a write of IA32_DEBUGCTL that raises #GP changes nothing, and recording goes on",
     .source = "SDM Vol 2, WRMSR; SDM Vol 3, table 35-2: 1D9H")
{
	uint64_t before = ds_configuration->btint, refused = 0, ignored = 0, kept = 0;

	if (ds_configuration->tr != NEWEST_TR)
		test_skip("MSR_DEBUGCTLA of NetBurst has other reserved bits");
	RIG(rig, 16);
	for (unsigned bit = 2; bit < 64; bit++) {
		uint64_t mask = 1ull << bit;
		struct msr_trial trial;

		if (bit >= 6 && bit < 16)
			continue;
		wrmsr(IA32_DEBUGCTL, before);
		trial = msr_try(IA32_DEBUGCTL, mask, 0);
		if (trial.refused) {
			EXPECT_EQ(trial.read_back, before);
			EXPECT_EQ(trap_caught().vector, VECTOR_GP);
			EXPECT_EQ(trap_caught().error, 0);
			refused |= mask;
		} else {
			EXPECT_EQ(trial.read_back & ~mask, 0);
			*(trial.read_back & mask ? &kept : &ignored) |= mask;
		}
	}
	if (refused)
		trace_refused(&rig, rig_all() | refused);
	test_observe("reserved_gp", "%lx", refused);
	test_observe("reserved_ignored", "%lx", ignored);
	test_observe("reserved_kept", "%lx", kept);
}

#define LBR 1ull

extern const char lbr_from[], lbr_to[];

static void expect_jump(struct rig *rig, uint64_t debugctl)
{
	rig_reset(rig);
	EXACTLY (rig)
		TRACED(debugctl, "lbr_from: jmp lbr_to\n\tud2\nlbr_to:\n\t");
	EXPECT_EQ(rig_count(rig), 1);
	rig_expect(rig, 0, lbr_from, lbr_to);
}

/*
 * Core processors cannot have TR and LBR at once: what the LBR stack then holds is not asked, nor
 * which of the bits such a processor keeps. It keeps no other, and TR and BTS alone record after
 * it.
 */
TEST(bts_tr_with_lbr, .group = "M", .ids = "M8", .needs = NEED_BTS,
     .claim = "LBR, where it can be set besides TR and BTS, does not disturb the records",
     .source =
	     "SDM Vol 3, 17.4.4: not both on P6 to Core, both on NetBurst, Atom, Nehalem and later")
{
	struct msr_trial trial;

	RIG(rig, 16);
	trial = msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0);
	test_observe("tr_with_lbr", "%s", msr_trial_word(&trial, LBR));
	EXPECT_EQ(trial.read_back & (trial.refused ? UINT64_MAX : ~(rig_all() | LBR)), 0);
	if ((trial.read_back & rig_all()) == rig_all())
		expect_jump(&rig, rig_all() | LBR);
	expect_jump(&rig, rig_all());
}

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
	uint64_t before;

	RIG(rig, 16);
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
}

static const uint64_t canonical_57_only[] = {0x0000800000000000, 0x00ffffffffffffc0,
					     0xff00000000000000, 0xffff7fffffffffc0};

TEST(ds_area_canonical_la57, .group = "M", .ids = "M6", .needs = NEED_BTS | NEED_LA57,
     .claim = "with LA57 IA32_DS_AREA takes 57-bit addresses though paging has four levels",
     .source = "SDM Vol 2, WRMSR: canonical as the processor's linear-address width says")
{
	uint64_t cr4;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	if (cr4 & 1u << 12)
		test_error("CR4.LA57 is set");
	RIG(rig, 16);
	for (unsigned i = 0; i < sizeof(canonical_57_only) / 8; i++) {
		struct msr_trial trial =
			msr_try(IA32_DS_AREA, canonical_57_only[i], (uint64_t)rig.area);

		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, canonical_57_only[i]);
	}
	EXPECT_EQ(rdmsr(IA32_DS_AREA), rig.area);
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

	RIG(rig, VISITS_SLOTS);
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
     .claim = "no ring but 0 can read or write IA32_DEBUGCTL and IA32_DS_AREA, traced or not",
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
	own_gdt_load();
	for (unsigned n = 2; n < 6; n++) { /* rings 1 and 2 */
		const char *at = n & 1 ? own_ring_wrmsr : own_ring_rdmsr;

		EXPECT(own_ring_refuses(at, n / 2, IA32_DEBUGCTL, rig_all()));
	}
	own_gdt_unload();
	rig_close(&rig);
	code_unmap(AT);
}

/*
 * INIT takes a processor away from whatever it does: what it recorded for, and where, is gone with
 * the software that had asked for it, while the DS area may be anybody's memory by now. A processor
 * that went on recording after its start-up IPI would store into that, beginning in real mode.
 */
#define INIT_SLOTS 16
#define MOST_WAIT  5000000 /* microseconds */

struct trial {
	void *area, *buffer;
	uint64_t debugctl; /* before INIT */
	uint64_t debugctl_after, area_after;
};

/* The first thing that runs on the CPU once it is in C again. */
static void look(void *argument)
{
	struct trial *trial = argument;

	trial->debugctl_after = rdmsr(IA32_DEBUGCTL);
	trial->area_after = rdmsr(IA32_DS_AREA);
	wrmsr(IA32_DEBUGCTL, 0);
}

/* On the CPU that gets the INIT. */
static void go_through_init(void *argument)
{
	struct trial *trial = argument;
	uint64_t flags;

	preemption_disable();
	flags = interrupts_save();
	if (ds_checkout(&this_cpu()->trace->ds) == 0) {
		wrmsr(IA32_DS_AREA, (uint64_t)trial->area);
		wrmsr(IA32_DEBUGCTL, trial->debugctl);
		cpu_park(look, trial);
		ds_checkin(&this_cpu()->trace->ds);
	}
	interrupts_restore(flags);
	preemption_enable();
}

/* The one branch that all used slots hold, by its target; 0: they differ, or one is empty. */
static uint64_t only_branch(const void *area)
{
	struct bts_struct first = {0}, record = {0};

	ds_read_bts(area, 0, &first);
	for (size_t slot = 1; slot < ds_get_bts_end(area) - calibration()->unused; slot++) {
		ds_read_bts(area, slot, &record);
		if (record.from != first.from || record.to != first.to)
			return 0;
	}
	return first.to;
}

static void check_after_init(uint64_t debugctl)
{
	unsigned index = cpu_count() - 1;
	bool records = !(debugctl & ds_configuration->btint);
	struct trial trial = {test_area(1), test_area(1), debugctl, UINT64_MAX, UINT64_MAX};
	uint64_t end = clock_us() + MOST_WAIT, branch = 0;
	struct task *task;

	REQUIRE_EQ(ds_set_bts_buffer(trial.area, trial.buffer,
				     INIT_SLOTS * ds_configuration->record_size),
		   0);
	task = test_task("init", go_through_init, &trial);
	test_keep_on(task, index);
	task_start(task);
	while (atomic_load(&cpu_by_index(index)->online))
		if (clock_us() > end)
			test_error("CPU %u does not wait", index);
	/* It has the test's memory: INIT has to end that, whatever was recorded. */
	end = clock_us() + MOST_WAIT;
	while (records && !(branch = only_branch(trial.area)) && clock_us() < end)
		;
	EXPECT(cpu_unpark(index));
	test_task_end(task);
	EXPECT_EQ(trial.debugctl_after, 0);
	EXPECT(trial.area_after == 0 || trial.area_after == (uint64_t)trial.area);
	EXPECT(branch || !records);
	EXPECT(!records || only_branch(trial.area) == branch);
	test_observe("area_after_init", "%s", trial.area_after ? "kept" : "cleared");
}

TEST(bts_clear_after_init, .group = "M", .ids = "M1", .needs = NEED_BTS | NEED_SMP,
     .claim =
	     "INIT ends recording: TR, BTS, BTINT and the filters are clear after the start-up IPI",
     .source = "SDM Vol 3, 17.4.9: cleared on processor RESET and INIT")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t filters = ds_caps()->dscpl ? c->off_os | c->off_usr : 0;

	test_go_to(0); /* INIT is for the others */
	calibration(); /* also of the maximum by which the buffers end */
	EXPECT_EQ(trace_found_at_start() & (c->tr | c->bts | c->btint | filters), 0);
	check_after_init(c->tr | c->bts | (filters & c->off_usr));
	check_after_init(c->tr | c->bts | c->btint | (filters & c->off_os));
	check_after_init(c->btint | filters); /* TR and BTS clear before, too */
}
