// SPDX-License-Identifier: MIT
#include "drivers/acpi/acpi.h"
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/needs.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"

#define CPUID_1_EDX_DS	       (1u << 21)
#define CPUID_1_ECX_DTES64     (1u << 2)
#define CPUID_1_ECX_DS_CPL     (1u << 4)
#define CPUID_1_ECX_HYPERVISOR (1u << 31)

static bool is_intel(const struct cpuid_result *zero)
{
	return !memcmp(&zero->ebx, "Genu", 4) && !memcmp(&zero->edx, "ineI", 4) &&
	       !memcmp(&zero->ecx, "ntel", 4);
}

/* The right word of silicon= in the banner: PEBS, Intel PT and LBR can be there without BTS. */
static const char *expected_silicon(uint32_t ecx)
{
	if (needs_missing(NEED_BTS) && needs_missing(NEED_SAMPLES) && needs_missing(NEED_PT) &&
	    needs_missing(NEED_LBR))
		return "none";
	if (!(ecx & CPUID_1_ECX_HYPERVISOR))
		return "native";
	return silicon_is_foreign_guest() ? "guest" : "virtual";
}

TEST(ds_enumeration_consistent, .group = "E", .ids = "E1 E2",
     .claim = "DS, DTES64 and DS-CPL read the same each time, and the banner says what they are",
     .source = "SDM Vol 2, CPUID: leaf 01H; SDM Vol 3, 17.4.9")
{
	const struct ds_caps *caps = ds_caps();
	struct cpuid_result zero = cpuid(0, 0), one = cpuid(1, 0);
	bool ds = is_intel(&zero) && one.edx & CPUID_1_EDX_DS;

	for (unsigned i = 0; i < 100; i++) {
		struct cpuid_result again = cpuid(1, i); /* it has no subleaves */

		REQUIRE_EQ(again.eax, one.eax);
		REQUIRE_EQ(again.edx & CPUID_1_EDX_DS, one.edx & CPUID_1_EDX_DS);
		REQUIRE_EQ(again.ecx & (CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL),
			   one.ecx & (CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL));
	}
	EXPECT_EQ(caps->ds, ds);
	EXPECT_EQ(caps->dtes64, ds && one.ecx & CPUID_1_ECX_DTES64);
	EXPECT_EQ(caps->dscpl, ds && one.ecx & CPUID_1_ECX_DS_CPL);
	EXPECT(caps->status != DS_NOT_PROBED);
	EXPECT(ds || !caps->pebs);
	EXPECT_EQ(caps->status == DS_NOT_INTEL, !is_intel(&zero));
	EXPECT_EQ(caps->status == DS_NOT_ENUMERATED,
		  is_intel(&zero) && !(one.edx & CPUID_1_EDX_DS));
	EXPECT(!strcmp(silicon_name(), expected_silicon(one.ecx)));
	test_observe("cpuid_1", "eax=%08x ecx=%08x edx=%08x", one.eax, one.ecx, one.edx);
}

#define IA32_MISC_ENABLE 0x1a0u
#define STEPPING	 0xfu /* of a signature */

struct enumeration {
	uint32_t signature, ds, dtes64_and_dscpl;
	uint64_t unavailable; /* IA32_MISC_ENABLE[12:11], where it can be read */
};

static void look(void *argument)
{
	struct enumeration *enumeration = argument;
	struct cpuid_result one = cpuid(1, 0);
	uint64_t enable = 0;

	rdmsr_safe(IA32_MISC_ENABLE, &enable);
	*enumeration = (struct enumeration){.signature = one.eax,
					    .ds = one.edx & 1u << 21,
					    .dtes64_and_dscpl = one.ecx & (1u << 2 | 1u << 4),
					    .unavailable = enable & (3u << 11)};
}

/* SDM Vol 2, CPUID leaf 07H: its CPUs may be of several models. */
static bool is_hybrid(void)
{
	return cpuid(0, 0).eax >= 7 && cpuid(7, 0).edx & 1u << 15;
}

TEST(ds_enumeration_all_cpus, .group = "E", .ids = "E7", .needs = NEED_SMP,
     .claim = "all processors enumerate the same Debug Store",
     .source = "SDM Vol 3, 17.4.9; Linux 2.6.32, ds.c: \"Others are identical\"")
{
	struct enumeration first, other;
	bool hybrid = is_hybrid();

	if (hybrid && !ds_has_bts())
		test_skip("the boot CPU of this hybrid processor has no BTS");
	smp_call(0, look, &first);
	for (unsigned i = 1; i < cpu_count(); i++) {
		smp_call(i, look, &other);
		if (!hybrid) /* CPUs of several steppings may be in one machine */
			EXPECT_EQ(other.signature & ~STEPPING, first.signature & ~STEPPING);
		EXPECT_EQ(other.ds, first.ds);
		EXPECT_EQ(other.dtes64_and_dscpl, first.dtes64_and_dscpl);
		EXPECT_EQ(other.unavailable, first.unavailable);
	}
}

TEST(ds_enumeration_none_left_out, .group = "E", .ids = "E7",
     .claim = "the CPUs of a machine that is not hybrid have the same trace units",
     .source = "SDM Vol 3, 17.4.9; SDM Vol 2, CPUID")
{
	if (acpi_cpu_count() == 1)
		test_skip("only one CPU");
	if (is_hybrid())
		test_skip("the CPUs of a hybrid processor may differ");
	EXPECT_EQ(kinds_left_out(), 0);
}

#define PEBS_UNAVAILABLE (1ull << 12)

/* msr_try() puts the old value back in the same breath. */
static const char *toggle(uint64_t bits, uint64_t old)
{
	uint64_t after = 0;
	struct msr_trial trial = msr_try(IA32_MISC_ENABLE, old ^ bits, old);

	EXPECT_EQ(trial.read_back & bits, old & bits);
	if (trial.refused) {
		EXPECT_EQ(trap_caught().vector, VECTOR_GP);
		EXPECT_EQ(trial.read_back, old);
	}
	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &after));
	EXPECT_EQ(after, old);
	return trial.refused ? "refused" : "ignored";
}

/* Bits 7, 11 and 12, together and alone. */
static void toggle_all(uint64_t old)
{
	for (unsigned n = 1; n < 8; n++)
		toggle((n & 1) << 7 | (n >> 1) << 11, old);
}

/* A program looks at CPUID when it likes: while somebody traces it, and in ring 3. */

#define AT  0x00005a0000001000ul
#define ECX (1u << 2 | 1u << 4) /* DTES64, DS-CPL */
#define EDX (1u << 21)		/* DS */

TEST(ds_enumeration_while_recording, .group = "E", .ids = "E1 E3 E4", .needs = NEED_BTS,
     .claim =
	     "CPUID and IA32_MISC_ENABLE tell the same of DS while TR and BTS are set, and bits 7, "
	     "11 and 12 are read-only then too",
     .source = "SDM Vol 3, 17.4.9 and table 35-2: 1A0H; SDM Vol 2, CPUID")
{
	struct cpuid_result one = cpuid(1, 0);
	uint64_t before = rdmsr(IA32_MISC_ENABLE), enable = 0;
	uint32_t ecx = 0, edx = 0;

	RIG(rig, 16);
	TRACED_WITH(rig_all(),
		    "movl $1, %%eax\n\txorl %%ecx, %%ecx\n\tcpuid\n\t"
		    "movl %%ecx, %[ecx]\n\tmovl %%edx, %[edx]\n\t"
		    "movl $0x1a0, %%ecx\n\trdmsr\n\tshlq $32, %%rdx\n\torq %%rax, %%rdx\n\t"
		    "movq %%rdx, %[enable]\n\t",
		    OPERANDS([ecx] "=&r"(ecx), [edx] "=&r"(edx), [enable] "=&r"(enable)), , "rbx");
	EXPECT_EQ(ecx & ECX, one.ecx & ECX);
	EXPECT_EQ(edx & EDX, one.edx & EDX);
	EXPECT_EQ(enable, before);
	wrmsr(IA32_DEBUGCTL, rig_all());
	toggle_all(before);
	wrmsr(IA32_DEBUGCTL, 0);
}

TEST(ds_enumeration_in_ring_3, .group = "E", .ids = "E1", .needs = NEED_DS,
     .claim = "CPUID tells ring 3 the same of DS as the kernel",
     .source = "SDM Vol 3, 17.4.9; SDM Vol 2, CPUID: at any privilege level")
{
	static const uint8_t code[] = {0x0f, 0xa2, 0x0f, 0x0b}; /* cpuid; ud2 */
	struct cpuid_result one = cpuid(1, 0);
	struct trap_frame frame = {.rip = AT, .rax = 1};
	uint8_t *page = test_area(1);

	memcpy(page, code, sizeof(code));
	code_map(AT, page, VM_USER);
	EXPECT(user_run(&frame));
	code_unmap(AT);
	EXPECT_EQ(frame.vector, VECTOR_UD);
	EXPECT_EQ(frame.rcx & ECX, one.ecx & ECX);
	EXPECT_EQ(frame.rdx & EDX, one.edx & EDX);
}

TEST(ds_misc_enable_readable, .group = "E", .ids = "E3", .needs = NEED_DS,
     .claim = "IA32_MISC_ENABLE can be read where DS is enumerated, and BTS_UNAVAILABLE is obeyed",
     .source = "SDM Vol 3, 17.4.9 and table 35-2: 1A0H")
{
	uint64_t value = 0, again = 0;

	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &value));
	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &again));
	EXPECT_EQ(again, value);
	EXPECT_EQ(ds_caps()->bts_unavailable, (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	EXPECT_EQ(ds_caps()->status == DS_BTS_UNAVAILABLE,
		  (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	test_observe("bts_unavailable", "%d", (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	test_observe("pebs_unavailable", "%d", (value & PEBS_UNAVAILABLE) != 0);
}

// QEMU's translator keeps IA32_MISC_ENABLE as plain memory: bit 11 reads 0, software can write it,
// and there is no Debug Store. A driver that trusts the bit alone finds BTS where there is none.
// The manual has both bits read-only (SDM Vol 3, table 35-2, 1A0H). The test needs DS: QEMU
// without the monitor skips it. Passing means: a write that would change a bit is refused or
// ignored. On a failure the log has "trial.read_back & bits" with the bit as the test wrote it. A
// line of "after" means that the old value could not be put back.
TEST(ds_unavailable_bits_read_only, .group = "E", .ids = "E4 PE2", .needs = NEED_DS,
     .claim = "software can write back what IA32_MISC_ENABLE is, and cannot change bit 7, "
	      "BTS_UNAVAILABLE and PEBS_UNAVAILABLE, nor turn PEBS off by them",
     .source = "SDM Vol 3, table 35-2: 1A0H bits 7, 11 and 12, read-only")
{
	uint64_t old = 0;
	bool back = rdmsr_safe(IA32_MISC_ENABLE, &old) && wrmsr_safe(IA32_MISC_ENABLE, old);

	if (!back && silicon_is_foreign_guest())
		test_skip("the hypervisor refuses what IA32_MISC_ENABLE is");
	REQUIRE(back);
	test_observe("bts_unavailable_write", "%s", toggle(MISC_ENABLE_BTS_UNAVAILABLE, old));
	test_observe("pebs_unavailable_write", "%s", toggle(PEBS_UNAVAILABLE, old));
	if (ds_caps()->pebs)
		wrmsr(IA32_PEBS_ENABLE, 1);
	toggle_all(old);
	if (ds_caps()->pebs) {
		EXPECT_EQ(rdmsr(IA32_PEBS_ENABLE), 1);
		wrmsr(IA32_PEBS_ENABLE, 0);
	}
}

/* The value has to be there, and nothing else. */
static void hold(uint32_t msr, const char *name, uint64_t value, uint64_t restore)
{
	struct msr_trial trial = msr_try(msr, value, restore);

	if (trial.refused)
		test_note("%s: writing %lx raised an exception", name, value);
	else if (trial.read_back != value)
		test_note("%s: wrote %lx, read %lx", name, value, trial.read_back);
	EXPECT(!trial.refused && trial.read_back == value);
}

static void check_exceptions_aside(void)
{
	const struct ds_caps *caps = ds_caps();

	if (caps->status == DS_BTS_UNAVAILABLE || caps->status == DS_PT_ACTIVE)
		test_skip("%s", bts_missing());
	if (caps->status == DS_ENUMERATED_BUT_ABSENT) {
		test_note("%s", bts_missing());
		test_note("the probe wrote %lx to MSR %x and %s %lx", caps->refused_value,
			  caps->refused_msr, caps->refused_with_gp ? "got #GP; before:" : "read",
			  caps->read_back);
	}
	EXPECT_EQ(caps->status, DS_PRESENT);
}

// CPUID.DS with IA32_MISC_ENABLE[11] = 0 promises BTS (SDM Vol 3, 17.4.9). QEMU under KVM does not
// keep the promise. Since Linux 6.0 (9fc222967a39) the VMM decides about bit 11. QEMU up to 10.2
// writes 1 to the MSR at reset, so the bit reads 0, and KVM refuses TR with #GP. KVM is right to
// refuse. Zide Chen's patch of January 2026 has QEMU set the bit.
// On a failure the log has "caps->status". Notes before it name QEMU and say which value the probe
// wrote to which MSR, and whether that raised #GP.
// Every MSR write here is fixed up, and undone before the next branch.
TEST(bts_enumerated_is_present, .group = "E", .ids = "E6", .needs = NEED_DS,
     .claim = "TR, then BTS, can be set where CPUID and IA32_MISC_ENABLE say that BTS is there",
     .source = "SDM Vol 3, 17.4.5 and 17.4.9")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t old_area = 0, old_control = 0;
	uint8_t *area, *buffer;

	check_exceptions_aside();
	area = test_area(1);
	buffer = test_area(1);
	REQUIRE_EQ(ds_set_bts_buffer(area, buffer, 4096), 0);
	msrs_borrow();
	EXPECT(rdmsr_safe(IA32_DEBUGCTL, &old_control));
	EXPECT(rdmsr_safe(IA32_DS_AREA, &old_area));
	hold(IA32_DS_AREA, "IA32_DS_AREA", (uint64_t)area, old_area);
	if (wrmsr_safe(IA32_DS_AREA, (uint64_t)area)) {
		hold(IA32_DEBUGCTL, "IA32_DEBUGCTL", c->tr, old_control);
		hold(IA32_DEBUGCTL, "IA32_DEBUGCTL", c->tr | c->bts, old_control);
		hold(IA32_DEBUGCTL, "IA32_DEBUGCTL", old_control, old_control);
		wrmsr_safe(IA32_DS_AREA, old_area);
	}
	msrs_give_back();
}

extern const char format_from1[], format_from2[], format_to1[], format_to2[];

TEST(bts_record_format, .group = "E", .ids = "E5", .needs = NEED_BTS,
     .claim =
	     "in IA-32e mode a record is three quadwords, from, to and flags, whatever DTES64 says",
     .source = "SDM Vol 3, 17.4.9.1, figure 17-8 and figure 17-9")
{
	const uint64_t *raw;

	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "format_from1: jmp format_to1\n\tud2\n"
				  "format_to1: nop\n"
				  "format_from2: jmp format_to2\n\tud2\n"
				  "format_to2:\n\t");
	raw = (const uint64_t *)rig.base;
	EXPECT_EQ(rig_index(&rig), rig.base + 48);
	EXPECT_EQ(raw[0], format_from1);
	EXPECT_EQ(raw[1], format_to1);
	EXPECT_EQ(raw[3], format_from2);
	EXPECT_EQ(raw[4], format_to2);
	for (unsigned i = 6; i < 16 * 3; i++)
		EXPECT_EQ(raw[i], 0);
	test_observe("dtes64", "%d", ds_caps()->dtes64);
	test_observe("flags", "%lx", raw[2]);
}

/* Debug controls that must not be had where CPUID hides the Debug Store. */

/*
 * Fails the test if IA32_DEBUGCTL takes any bit of `bits` but TR, or if a refused write changed it;
 * observes under `key` how it was refused. What it held before is put back. Task context. TR alone
 * is for messages on the bus, of which DS says nothing (SDM Vol 3, 17.4.4).
 */
static void hidden_expect_refused(const char *key, uint64_t bits)
{
	uint64_t old = 0, after = 0;
	struct msr_trial trial;

	msrs_borrow();
	if (!rdmsr_safe(IA32_DEBUGCTL, &old) || !wrmsr_safe(IA32_DEBUGCTL, old)) {
		test_observe(key, "no_such_msr");
		EXPECT(!wrmsr_safe(IA32_DEBUGCTL, bits));
	} else {
		trial = msr_try(IA32_DEBUGCTL, old | bits, old);
		EXPECT_EQ(trial.read_back & bits & ~ds_configuration->tr, 0);
		if (trial.refused) {
			EXPECT_EQ(trap_caught().vector, VECTOR_GP);
			EXPECT_EQ(trial.read_back, old);
		}
		EXPECT(rdmsr_safe(IA32_DEBUGCTL, &after));
		EXPECT_EQ(after, old);
		test_observe(key, "%s", msr_trial_word(&trial, bits));
	}
	msrs_give_back();
}

// Xen passed a guest's writes of IA32_DEBUGCTL through unchecked (XSA-269). BTS without a DS area
// that the processor could write hung the host. CPUID.1:EDX[21] says whether there is a Debug Store
// (SDM Vol 3, 17.4.9). A guest that does not see it can still write the MSR.
// Passing means: where DS is hidden, BTINT is refused with #GP or reads back 0, beside TR too. BTS
// itself is left to bts_store_refused_when_hidden, which is unsafe.
// On a failure the log has "trial.read_back & bits" with the bit that held. The observations "tr",
// "btint" and "tr_btint" say how each write ended.
TEST(bts_refused_when_hidden, .group = "E", .ids = "", .needs = NEED_NO_DS,
     .claim = "where DS is not enumerated BTINT is refused with #GP or reads back 0",
     .source = "SDM Vol 3, 17.4.1 and 17.4.5; XSA-269")
{
	hidden_expect_refused("tr", ds_configuration->tr);
	hidden_expect_refused("btint", ds_configuration->btint);
	hidden_expect_refused("tr_btint", ds_configuration->tr | ds_configuration->btint);
}

TEST(bts_store_refused_when_hidden, .group = "E", .ids = "", .needs = NEED_NO_DS | NEED_UNSAFE,
     .claim =
	     "where DS is not enumerated BTS is refused with #GP or reads back 0, and hangs nothing",
     .source = "SDM Vol 3, 17.4.1 and 17.4.5; XSA-269")
{
	hidden_expect_refused("bts", ds_configuration->bts);
	hidden_expect_refused("tr_bts", ds_configuration->tr | ds_configuration->bts);
}

TEST(bts_reported_missing_without_ds, .group = "E", .ids = "E2", .needs = NEED_NO_DS,
     .claim = "where DS is not enumerated BTS is reported missing",
     .source = "SDM Vol 3, 17.4.9: CPUID.1:EDX[21] says that the MSR exists")
{
	const char *why = needs_missing(NEED_BTS);

	EXPECT(!ds_has_bts());
	EXPECT(!strcmp(silicon_name(), expected_silicon(cpuid(1, 0).ecx)));
	EXPECT(why && *why);
	EXPECT(needs_missing(NEED_DS) != NULL);
	EXPECT(needs_missing(NEED_PEBS) != NULL);
}
