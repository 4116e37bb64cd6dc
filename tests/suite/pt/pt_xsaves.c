// SPDX-License-Identifier: MIT
// The state of Intel PT as component 8 of XSAVES and XRSTORS, with IA32_XSS.
#include "drivers/lbr/lbr.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"

#define IA32_XSS    0xda0u
#define LEAF_STATE  0xdu
#define HAS_XSAVES  (1u << 3) /* CPUID.(0DH,1):EAX */
#define PT_BIT	    (1u << 8)
#define CR4_OSXSAVE (1ul << 18)
#define CR0_TS	    (1ul << 3)
#define LBR_BIT	    (1u << 15)
#define USER_AT	    0x5a0000001000ul
#define COMPACTED   (1ull << 63)
#define POISON	    0xcccccccccccccccc

/* SDM Vol 1, 13.4 and 13.5.6: the area of component 8 alone. */
enum { SAVED = 9, STATUS_FIELD = 3, RESERVED = 7, DEVICE_NOT_AVAILABLE = 7 };
struct pt_area {
	uint8_t legacy[512];
	uint64_t xstate_bv, xcomp_bv, header[6];
	uint64_t msr[SAVED], reserved[RESERVED];
};
struct pt_area pt_area[2] __attribute__((aligned(64)));

static const uint32_t saved_msrs[SAVED] = {
	IA32_RTIT_CTL,	       IA32_RTIT_OUTPUT_BASE, IA32_RTIT_OUTPUT_MASK_PTRS,
	IA32_RTIT_STATUS,      IA32_RTIT_CR3_MATCH,   IA32_RTIT_ADDR0_A,
	IA32_RTIT_ADDR0_A + 1, IA32_RTIT_ADDR0_A + 2, IA32_RTIT_ADDR0_A + 3};

static uint64_t old_cr4, old_xss;

static uint64_t read_cr4(void)
{
	uint64_t value;

	__asm__ volatile("movq %%cr4, %0" : "=r"(value));
	return value;
}

static void write_cr4(uint64_t value)
{
	__asm__ volatile("movq %0, %%cr4" : : "r"(value) : "memory");
}

/* What EDX:EAX asks for. */
static uint64_t asked = PT_BIT;

/* XSAVES, or XRSTORS, of component 8; the vector that it raised, -1 for none. */
static int save(struct pt_area *area)
{
	bool done = false;

	__asm__ volatile(
		"1:\txsaves64 (%[area])\n\tmovb $1, %[done]\n2:" EXCEPTION_TABLE("1b", "2b")
		: [done] "+&q"(done)
		: [area] "r"(area), "a"((uint32_t)asked), "d"((uint32_t)(asked >> 32))
		: "memory");
	return done ? -1 : (int)trap_caught().vector;
}

static int restore(const struct pt_area *area)
{
	bool done = false;

	__asm__ volatile(
		"1:\txrstors64 (%[area])\n\tmovb $1, %[done]\n2:" EXCEPTION_TABLE("1b", "2b")
		: [done] "+&q"(done)
		: [area] "r"(area), "a"((uint32_t)asked), "d"((uint32_t)(asked >> 32))
		: "memory");
	return done ? -1 : (int)trap_caught().vector;
}

/* An area as XSAVES leaves it, of a processor in its initial configuration. */
static void clear(struct pt_area *area)
{
	*area = (struct pt_area){.xcomp_bv = COMPACTED | PT_BIT};
}

static bool has_state(void)
{
	return cpuid(0, 0).eax >= LEAF_STATE && cpuid(LEAF_STATE, 1).eax & HAS_XSAVES &&
	       cpuid(LEAF_STATE, 1).ecx & PT_BIT;
}

/* The low seven bits of one of them are always set. */
static uint64_t initial_value(unsigned n)
{
	return saved_msrs[n] == IA32_RTIT_OUTPUT_MASK_PTRS ? 0x7f : 0;
}

/* Skips the test where there is no such state. */
static void open_state(struct pt_rig *rig, size_t chunks)
{
	if (!has_state())
		test_skip("XSAVES does not have the state of Intel PT (CPUID.(0DH,1):ECX[8])");
	pt_open(rig, chunks, false);
	old_cr4 = read_cr4();
	write_cr4(old_cr4 | CR4_OSXSAVE);
	old_xss = rdmsr(IA32_XSS);
	wrmsr(IA32_XSS, PT_BIT);
	memset(pt_area, 0xcc, sizeof(pt_area));
}

static void close_state(struct pt_rig *rig)
{
	wrmsr(IA32_XSS, old_xss);
	write_cr4(old_cr4);
	pt_close(rig);
}

#define STATE_RIG(name)                                                                            \
	struct pt_rig name CLOSED_BY(close_state);                                                 \
	open_state(&(name), 1)

TEST(pt_state_leaf, .group = "PT", .ids = "PT43", .needs = NEED_PT,
     .claim = "CPUID leaf 0DH has Intel PT's state as component 8 of IA32_XSS, in compacted form",
     .source = "SDM Vol 1, 13.2")
{
	struct cpuid_result leaf;
	unsigned without;

	STATE_RIG(rig);
	leaf = cpuid(LEAF_STATE, 8);
	EXPECT_EQ(cpuid(1, 0).ecx >> 27 & 1, 1); /* OSXSAVE */
	EXPECT(leaf.eax >= SAVED * sizeof(uint64_t));
	EXPECT_EQ(leaf.ebx, 0);
	EXPECT_EQ(leaf.ecx & 1, 1);
	wrmsr(IA32_XSS, 0);
	without = cpuid(LEAF_STATE, 1).ebx;
	wrmsr(IA32_XSS, PT_BIT);
	EXPECT(without >= 576);
	EXPECT_EQ(cpuid(LEAF_STATE, 1).ebx,
		  (leaf.ecx & 2 ? (without + 63) & ~63u : without) + leaf.eax);
}

TEST(pt_xss_register, .group = "PT", .ids = "PT43", .needs = NEED_PT,
     .claim = "IA32_XSS takes the components that CPUID.(0DH,1) names, and nothing else",
     .source = "SDM Vol 1, 13.3")
{
	struct cpuid_result leaf;
	uint64_t offered;

	STATE_RIG(rig);
	leaf = cpuid(LEAF_STATE, 1);
	offered = (uint64_t)leaf.edx << 32 | leaf.ecx;
	wrmsr(IA32_XSS, 0);
	for (unsigned bit = 0; bit < 64; bit++) {
		struct msr_trial trial = msr_try(IA32_XSS, 1ull << bit, 0);

		EXPECT_EQ(trial.refused, !(offered >> bit & 1));
		EXPECT_EQ(trial.read_back, trial.refused ? 0 : 1ull << bit);
	}
}

#define TRACE_TO_XSAVES                                                                            \
	"leaq pt_area(%%rip), %%rdi\n\tmovl $0x100, %%eax\n\txorl %%edx, %%edx\n\t"                \
	"xsaves64 (%%rdi)\n\t"

/* The last packets of XSAVES fill a region of STOP, if they have as many bytes as the last time. */
static void stop_by_last_packets(struct pt_rig *rig)
{
	uint64_t length = 0;

	for (unsigned back = 0; back < 4; back++) {
		pt_again(rig, PT_PLAIN);
		if (length)
			wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS,
			      RTIT_POINTERS(0, PT_RIG_BYTES - length + back - 1));
		PT_TRACED(rig, PT_PLAIN, TRACE_TO_XSAVES);
		EXPECT_EQ((pt_area[0].msr[STATUS_FIELD] ^ rig->trace.status) & RTIT_STATUS_STOPPED,
			  0);
		length = length ? length : pt_state(&rig->trace).end;
	}
}

TEST(pt_xsaves_stops, .group = "PT", .ids = "PT43 PT140", .needs = NEED_PT,
     .claim = "XSAVES saves nine MSRs with TraceEn as it was, clears TraceEn and ends the packets, "
	      "which count in what it saves",
     .source = "SDM Vol 1, 13.5.6")
{
	const struct pt_area *area = &pt_area[0];
	uint64_t value;

	STATE_RIG(rig);
	for (unsigned n = 5; n < SAVED; n++)
		if (rdmsr_safe(saved_msrs[n], &value))
			wrmsr(saved_msrs[n], 0xffff800000000000 + n);
	PT_TRACED(&rig, PT_PLAIN,
		  TRACE_TO_XSAVES "movl $0x570, %%ecx\n\trdmsr\n\tmovl %%eax, 584(%%rdi)\n\t"
				  "movl $4, %%ecx\n1:\tloop 1b");
	/* XSAVES64 and what follows it: 4, 5, 2, 6, 5 and 2 bytes. */
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = rig.first},
		       {.seen = SEEN_END, .from = pt_body_end(&rig) - 24});
	EXPECT_EQ(area->xstate_bv, PT_BIT);
	EXPECT_EQ(area->xcomp_bv, COMPACTED | PT_BIT);
	EXPECT_EQ(area->header[0], POISON);
	EXPECT_EQ(area->msr[0], pt_on(PT_PLAIN));
	/* The low half of the next field was replaced by IA32_RTIT_CTL after XSAVES. */
	EXPECT_EQ((uint32_t)area->msr[1], (uint32_t)(pt_on(PT_PLAIN) & ~RTIT_CTL_TRACE_EN));
	EXPECT_EQ(area->msr[1] >> 32, rdmsr(IA32_RTIT_OUTPUT_BASE) >> 32);
	for (unsigned n = 2; n < SAVED; n++) {
		value = 0;
		rdmsr_safe(saved_msrs[n], &value);
		if (n == STATUS_FIELD) /* OS was set */
			value ^= (value ^ area->msr[n]) & RTIT_STATUS_CONTEXT_EN;
		EXPECT_EQ(area->msr[n], value);
	}
	for (unsigned n = 0; n < RESERVED; n++)
		EXPECT_EQ(area->reserved[n], 0);
	stop_by_last_packets(&rig);
}

/* MSR `n` alone is not in its initial configuration, if it takes `value`: XSAVES has to say so. */
static bool expect_in_use(unsigned n, uint64_t value)
{
	struct pt_area *area = &pt_area[0];

	if (!wrmsr_safe(saved_msrs[n], value))
		return false;
	value = rdmsr(saved_msrs[n]);
	if (value == initial_value(n))
		return false;
	memset(area, 0xcc, sizeof(*area));
	EXPECT_EQ(save(area), -1);
	EXPECT_EQ(area->xstate_bv, PT_BIT);
	wrmsr(saved_msrs[n], initial_value(n));
	return true;
}

TEST(pt_xsaves_initial, .group = "PT", .ids = "PT43 PT92 PT143 PT149", .needs = NEED_PT,
     .claim = "XSAVES of a state that is all reset says so in XSTATE_BV, or saves reset values; "
	      "with any bit of one MSR set it is in use; Trace_ToPA_PMI is no part of it",
     .source = "SDM Vol 1, 13.6 and 13.11; SDM Vol 3, 36.2.6")
{
	struct pt_area *area = &pt_area[0];
	uint64_t value = 0, interrupted = 0;

	STATE_RIG(rig);
	pt_trace_nop(&rig, PT_PLAIN); /* it leaves enables, which WRMSR does not change */
	wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, TRACE_TOPA_PMI);
	rdmsr_safe(IA32_PERF_GLOBAL_STATUS, &interrupted);
	clear(&pt_area[1]);
	EXPECT_EQ(restore(&pt_area[1]), -1);
	EXPECT_EQ(save(area), -1);
	rdmsr_safe(IA32_PERF_GLOBAL_STATUS, &value);
	EXPECT_EQ((value ^ interrupted) & TRACE_TOPA_PMI, 0);
	wrmsr_safe(IA32_PERF_GLOBAL_OVF_CTRL, TRACE_TOPA_PMI);
	test_observe("in_use", "%d", !!area->xstate_bv);
	EXPECT(!(area->xstate_bv & ~(uint64_t)PT_BIT));
	EXPECT_EQ(area->xcomp_bv, COMPACTED | PT_BIT);
	for (unsigned n = 0; n < SAVED; n++) {
		/* XRSTORS may ignore the enables, as WRMSR does: 36.2.7.1. */
		uint64_t left = n == STATUS_FIELD && area->xstate_bv ? 7 : 0;

		EXPECT_EQ(area->msr[n] & ~left, area->xstate_bv ? initial_value(n) : POISON);
	}
	for (unsigned n = 0; n < SAVED; n++) {
		unsigned bits = 0;

		for (unsigned bit = 1; bit < 64; bit++) /* TraceEn is bit 0 */
			bits += expect_in_use(n, initial_value(n) ^ 1ull << bit);
		EXPECT_EQ(bits > 0, rdmsr_safe(saved_msrs[n], &value));
	}
}

TEST(pt_xrstors_starts, .group = "PT", .ids = "PT44", .needs = NEED_PT,
     .claim = "XRSTORS loads the MSRs, and a trace with TraceEn goes on after it",
     .source = "SDM Vol 1, 13.5.6")
{
	struct pt_area *area = &pt_area[0];

	STATE_RIG(rig);
	clear(area);
	area->xstate_bv = PT_BIT;
	area->msr[0] = pt_on(PT_PLAIN);
	area->msr[1] = rdmsr(IA32_RTIT_OUTPUT_BASE);
	area->msr[2] = 0x7f;
	wrmsr(IA32_RTIT_OUTPUT_BASE, 0);
	/* The WRMSR in front of the body turns nothing on. */
	PT_TRACED(&rig, RTIT_CTL_USER,
		  "movl $0x570, %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\t"
		  "leaq pt_area(%%rip), %%rdi\n\tmovl $0x100, %%eax\n\txrstors64 (%%rdi)\n\t"
		  "movl $3, %%esi\n1:\tdecl %%esi\n\t" PT_JCC("jnz", "1b"));
	EXPECT(!pt_state(&rig.trace).table_error);
	/* MOVL, DECL and JNZ: 5, 2 and 2 bytes. */
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = pt_body_end(&rig) - 9},
		       {.seen = SEEN_TAKEN}, {.seen = SEEN_TAKEN}, {.seen = SEEN_NOT_TAKEN},
		       {.seen = SEEN_END, .from = rig.last});
	EXPECT_EQ(rdmsr(IA32_RTIT_OUTPUT_BASE), area->msr[1]);
}

/* With `area`, while TraceEn is set, XRSTORS is to raise #GP and leave the trace alone. */
static void refuses_traced(const struct pt_area *area, const struct pt_rig *rig)
{
	int vector;
	uint64_t control;

	wrmsr(IA32_RTIT_CTL, pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN));
	vector = restore(area);
	control = rdmsr(IA32_RTIT_CTL);
	pt_off();
	EXPECT_EQ(vector, VECTOR_GP);
	EXPECT_EQ(control, pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN));
	EXPECT_EQ(rdmsr(IA32_RTIT_OUTPUT_BASE), rig->trace.buffer.table_address);
}

TEST(pt_xrstors_while_traced, .group = "PT", .ids = "PT44", .needs = NEED_PT,
     .claim = "while TraceEn is set XRSTORS of component 8 raises #GP, be it to its initial state",
     .source = "SDM Vol 1, 13.5.6")
{
	struct pt_area *area = &pt_area[0];

	STATE_RIG(rig);
	clear(area);
	refuses_traced(area, &rig);
	area->xstate_bv = PT_BIT;
	area->msr[2] = 0x7f;
	refuses_traced(area, &rig);
}

/* XRSTORS, and XSAVES where `both`, raise `vector` at `address`. */
static void expect_refused(const void *address, int vector, bool both)
{
	EXPECT_EQ(restore(address), vector);
	if (both)
		EXPECT_EQ(save((struct pt_area *)address), vector);
}

TEST(pt_xrstors_header, .group = "PT", .ids = "PT44", .needs = NEED_PT,
     .claim = "XRSTORS raises #GP by what is wrong with the header of the area, or its alignment",
     .source = "SDM Vol 1, 13.12")
{
	struct pt_area *area = &pt_area[0];

	STATE_RIG(rig);
	clear(area);
	EXPECT_EQ(restore(area), -1);
	area->xcomp_bv = PT_BIT;
	expect_refused(area, VECTOR_GP, false);
	area->xcomp_bv = COMPACTED;
	area->xstate_bv = PT_BIT;
	expect_refused(area, VECTOR_GP, false);
	clear(area);
	area->xcomp_bv |= 1ull << 62;
	expect_refused(area, VECTOR_GP, false);
	clear(area);
	area->xstate_bv = COMPACTED;
	expect_refused(area, VECTOR_GP, false);
	for (unsigned n = 0; n < 6 * 64; n++) {
		clear(area);
		area->header[n / 64] = 1ull << n % 64;
		expect_refused(area, VECTOR_GP, false);
	}
	clear(area);
	memcpy((uint8_t *)area + 32, area, sizeof(*area));
	expect_refused((uint8_t *)area + 32, VECTOR_GP, true);
	/* IA32_XSS decides what an area may have. */
	clear(area);
	wrmsr(IA32_XSS, 0);
	expect_refused(area, VECTOR_GP, false);
}

extern const char pt_ring_xsaves[], pt_ring_xrstors[];
__asm__(".pushsection .text\n"
	"pt_ring_xsaves: leaq pt_area(%rip), %rdi\n\tmovl $0x100, %eax\n\txorl %edx, %edx\n\t"
	"xsaves64 (%rdi)\n\tint $18\n\tud2\n"
	"pt_ring_xrstors: leaq pt_area(%rip), %rdi\n\tmovl $0x100, %eax\n\txorl %edx, %edx\n\t"
	"xrstors64 (%rdi)\n\tint $18\n\tud2\n"
	".popsection");

/* In rings 1 and 2, then in ring 3, whose page has the area as well. */
static void refuse_outer_rings(void)
{
	static const uint8_t code[] = {0x48, 0x0f, 0xc7, 0x2f,	/* XSAVES64 (RDI) */
				       0x48, 0x0f, 0xc7, 0x1f}; /* XRSTORS64 (RDI) */
	uint8_t *pages = test_area(2);

	own_gdt_load();
	for (unsigned ring = 1; ring <= 2; ring++) {
		EXPECT(own_ring_refuses(pt_ring_xsaves, ring, IA32_RTIT_CTL, RTIT_CTL_USER));
		EXPECT(own_ring_refuses(pt_ring_xrstors, ring, IA32_RTIT_CTL, RTIT_CTL_USER));
	}
	own_gdt_unload();
	memcpy(pages, code, sizeof(code));
	memcpy(pages + PT_RIG_BYTES, &pt_area[0], sizeof(pt_area[0]));
	code_map(USER_AT, pages, VM_USER);
	code_map_data(USER_AT + PT_RIG_BYTES, pages + PT_RIG_BYTES, VM_USER);
	for (unsigned n = 0; n < 2; n++) {
		struct trap_frame frame = {
			.rip = USER_AT + 4 * n, .rdi = USER_AT + PT_RIG_BYTES, .rax = PT_BIT};

		EXPECT(user_run(&frame));
		EXPECT_EQ(frame.vector, VECTOR_GP);
	}
	code_unmap(USER_AT + PT_RIG_BYTES);
	code_unmap(USER_AT);
}

TEST(pt_xsaves_controls, .group = "PT", .ids = "PT44", .needs = NEED_PT,
     .claim = "XSAVES and XRSTORS raise #UD without CR4.OSXSAVE, #NM with CR0.TS, and #GP in rings "
	      "1 to 3",
     .source = "SDM Vol 2, XSAVES")
{
	struct pt_area *area = &pt_area[0];
	uint64_t cr0;

	STATE_RIG(rig);
	clear(area);
	write_cr4(read_cr4() & ~CR4_OSXSAVE);
	expect_refused(area, VECTOR_UD, true);
	write_cr4(read_cr4() | CR4_OSXSAVE);
	__asm__ volatile("movq %%cr0, %0" : "=r"(cr0));
	__asm__ volatile("movq %0, %%cr0" : : "r"(cr0 | CR0_TS));
	expect_refused(area, DEVICE_NOT_AVAILABLE, true);
	__asm__ volatile("movq %0, %%cr0" : : "r"(cr0));
	refuse_outer_rings();
}

/* The code of thread `n`, traced between XRSTORS and XSAVES; the threads share no address. */
extern const char pt_thread_0[], pt_thread_0_on[], pt_thread_0_off[];
extern const char pt_thread_1[], pt_thread_1_on[], pt_thread_1_off[];
#define THREAD(name, body)                                                                         \
	name ": xrstors64 (%rdi)\n" name "_on:\t" body "\n" name                                   \
	     "_off: xsaves64 (%rdi)\n9:\t" PT_RET                                                  \
	     EXCEPTION_TABLE(name, "9b") EXCEPTION_TABLE(name "_off", "9b")
enum { LOOPS = 5, TURNS = 10 };
__asm__(".pushsection .text\n" THREAD("pt_thread_0", "movl $5, %ecx\n1:\t" PT_JCC("loop", "1b"))
		THREAD("pt_thread_1",
		       "leaq 1f(%rip), %rcx\n\t" PT_JMP_TO("%rcx") "1:") ".popsection");

static void run_thread(unsigned n)
{
	uint32_t low = PT_BIT, high = 0;

	__asm__ volatile("call *%[thread]"
			 : "+a"(low), "+d"(high)
			 : [thread] "r"(n ? pt_thread_1 : pt_thread_0), "D"(&pt_area[n])
			 : "rcx", "memory", "cc");
}

/* Each turn from `on` to `off`: a loop, or a jump to `off`. */
static void expect_turns(const struct pt_rig *rig, const char *on, const char *off, bool loops)
{
	struct pt_expected all[TURNS * (LOOPS + 2)];
	size_t count = 0;

	for (unsigned turn = 0; turn < TURNS; turn++) {
		all[count++] = (struct pt_expected){.seen = SEEN_BEGIN, .to = (uint64_t)on};
		for (unsigned n = 1; loops && n <= LOOPS; n++)
			all[count++].seen = n < LOOPS ? SEEN_TAKEN : SEEN_NOT_TAKEN;
		if (!loops)
			all[count++] =
				(struct pt_expected){.seen = SEEN_TARGET, .to = (uint64_t)off};
		all[count++] = (struct pt_expected){.seen = SEEN_END, .from = (uint64_t)off};
	}
	pt_expect_flow(rig, all, count);
}

TEST(pt_two_threads, .group = "PT", .ids = "PT45", .needs = NEED_PT,
     .claim = "threads that XSAVES and XRSTORS switch have a trace each, of their own code alone",
     .source = "SDM Vol 1, 13.5.6")
{
	struct pt_rig other, rig;

	open_state(&other, 1);
	close_state(&other);
	open_state(&rig, 1);
	for (unsigned n = 0; n < 2; n++) {
		clear(&pt_area[n]);
		pt_area[n].xstate_bv = PT_BIT;
		pt_area[n].msr[0] = pt_on(PT_PLAIN);
		pt_area[n].msr[1] = (n ? &other : &rig)->trace.buffer.table_address;
		pt_area[n].msr[2] = 0x7f;
	}
	for (unsigned turn = 0; turn < TURNS; turn++) {
		run_thread(0);
		run_thread(1);
	}
	rig.trace.output_base = pt_area[0].msr[1];
	rig.trace.output_mask_ptrs = pt_area[0].msr[2];
	rig.trace.status = pt_area[0].msr[3];
	other.trace.output_base = pt_area[1].msr[1];
	other.trace.output_mask_ptrs = pt_area[1].msr[2];
	other.trace.status = pt_area[1].msr[3];
	EXPECT(pt_area[0].xstate_bv && pt_area[1].xstate_bv);
	close_state(&rig);
	expect_turns(&rig, pt_thread_0_on, pt_thread_0_off, true);
	expect_turns(&other, pt_thread_1_on, pt_thread_1_off, false);
}

/* --- Each field, each bit -----------------------------------------------------------------------
 */

static const uint64_t field[SAVED] = {PT_PLAIN | RTIT_CTL_DIS_RETC,
				      0x7ab123000,
				      0x45678000007f,
				      RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED,
				      0xa5a5a5a5a5a57000,
				      0xffff812345610101,
				      0x6dcba9820202,
				      0xffff923456730303,
				      0x5edcba940404};

/* With PacketByteCnt, where there is one. */
static uint64_t field_of(unsigned n)
{
	return field[n] | (n == STATUS_FIELD && pt_caps()->psb_cyc ? 0x15555ull << 32 : 0);
}

/* Of MSRs that this processor has not their fields are 0. */
static bool is_there(unsigned n)
{
	uint64_t value;

	return rdmsr_safe(saved_msrs[n], &value);
}

static void fill(struct pt_area *area)
{
	clear(area);
	area->xstate_bv = PT_BIT;
	for (unsigned n = 0; n < SAVED; n++)
		area->msr[n] = is_there(n) ? field_of(n) : 0;
}

/* Each MSR has what the area has; after a #GP also what it had, or its initial value: 13.12. */
static void expect_fields(const struct pt_area *area, bool refused)
{
	const uint64_t known = RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED;
	uint64_t value, loaded;

	for (unsigned n = 0; n < SAVED; n++) {
		if (!rdmsr_safe(saved_msrs[n], &value))
			continue;
		loaded = area->msr[n] | initial_value(n);
		if (n == STATUS_FIELD) { /* the others are the processor's */
			value &= known | RTIT_STATUS_PACKET_BYTE_COUNT;
			loaded &= known | RTIT_STATUS_PACKET_BYTE_COUNT;
		}
		EXPECT(value == loaded ||
		       (refused && (value == field_of(n) || value == initial_value(n))));
	}
}

/* In the compacted form component 15 is after component 8, be that in its initial configuration or
   not: 13.4.3. */
static void expect_next_component(void)
{
	struct cpuid_result own = cpuid(LEAF_STATE, 8), next = cpuid(LEAF_STATE, 15);
	unsigned place = offsetof(struct pt_area, msr) + own.eax;
	uint8_t *area = test_area(1);
	uint64_t before, saved;

	if (!(cpuid(LEAF_STATE, 1).ecx & LBR_BIT && lbr_caps()->select & LBR_SELECT_BY_LEVEL))
		return;
	place = next.ecx & 2 ? (place + 63) & ~63u : place;
	EXPECT(place + next.eax <= PT_RIG_BYTES);
	asked = PT_BIT | LBR_BIT;
	wrmsr(IA32_XSS, asked);
	before = rdmsr(IA32_LBR_CTL);
	wrmsr(IA32_LBR_CTL, LBR_CTL_USR);
	EXPECT_EQ(save((struct pt_area *)area), -1);
	wrmsr(IA32_LBR_CTL, before);
	asked = PT_BIT;
	wrmsr(IA32_XSS, asked);
	memcpy(&saved, area + place, sizeof(saved));
	EXPECT_EQ(saved, LBR_CTL_USR);
}

/* XSAVES need not write what XRSTORS loaded from the same area: 13.6, "modified optimization". */
TEST(pt_xsaves_each, .group = "PT", .ids = "PT43 PT44 PT140 PT141 PT142 PT143", .needs = NEED_PT,
     .claim = "XRSTORS loads each field into its MSR, and raises #GP where WRMSR refuses a bit of "
	      "one; XSAVES saves each; the initial configuration resets each and moves no "
	      "component after it",
     .source = "SDM Vol 1, 13.5.6 and 13.11; SDM Vol 3, 36.2.7")
{
	struct pt_area *area = &pt_area[0], *saved = &pt_area[1];

	STATE_RIG(rig);
	fill(area);
	EXPECT_EQ(restore(area), -1);
	expect_fields(area, false);
	EXPECT_EQ(save(saved), -1);
	expect_fields(area, false);
	for (unsigned n = 0; n < SAVED; n++)
		if (is_there(n))
			EXPECT_EQ(saved->msr[n] & (n == STATUS_FIELD ? ~7ull : ~0ull), field_of(n));
	for (unsigned n = 0; n < RESERVED; n++)
		EXPECT_EQ(saved->reserved[n], 0);
	for (unsigned n = 0; n < SAVED; n++)
		for (unsigned bit = is_there(n) ? 1 : 64; bit < 64; bit++) {
			bool refused =
				msr_try(saved_msrs[n], field_of(n) ^ 1ull << bit, field_of(n))
					.refused;

			fill(area);
			area->msr[(n + 1) % SAVED] = initial_value((n + 1) % SAVED);
			area->msr[n] = field_of(n) ^ 1ull << bit;
			EXPECT_EQ(restore(area), refused ? (int)VECTOR_GP : -1);
			expect_fields(area, refused);
			fill(area);
			EXPECT_EQ(restore(area), -1);
		}
	/* Its place is in the form, or it is not. */
	for (unsigned n = 0; n < 2; n++) {
		fill(area);
		EXPECT_EQ(restore(area), -1);
		clear(area);
		area->xcomp_bv ^= n * PT_BIT;
		EXPECT_EQ(restore(area), -1);
		expect_fields(area, false);
	}
	expect_next_component();
}

TEST(pt_xsaves_without, .group = "PT", .ids = "PT144 PT145", .needs = NEED_PT,
     .claim = "XSAVES and XRSTORS without component 8 leave Intel PT alone, and so does an XSAVES "
	      "that raises #PF",
     .source = "SDM Vol 1, 13.5.6, 13.11 and 13.12")
{
	static const struct {
		uint64_t asked, xss;
	} without[] = {{0, PT_BIT}, {(uint64_t)PT_BIT << 32, PT_BIT}, {PT_BIT, 0}};
	const uint64_t on = pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN);
	struct pt_area *area = &pt_area[0];

	STATE_RIG(rig);
	wrmsr(IA32_RTIT_CTL, on);
	EXPECT_EQ(save((struct pt_area *)USER_AT), VECTOR_PF);
	EXPECT_EQ(rdmsr(IA32_RTIT_CTL), on);
	for (unsigned n = 0; n < sizeof(without) / sizeof(without[0]); n++) {
		asked = without[n].asked;
		wrmsr(IA32_XSS, without[n].xss);
		EXPECT_EQ(save(area), -1);
		EXPECT_EQ(rdmsr(IA32_RTIT_CTL), on);
		clear(area);
		area->xcomp_bv = COMPACTED;
		EXPECT_EQ(restore(area), -1);
		EXPECT_EQ(rdmsr(IA32_RTIT_CTL), on);
	}
	asked = PT_BIT;
}

TEST(pt_state_suspends, .group = "PT", .ids = "PT44 BF6", .needs = NEED_PT,
     .claim = "XRSTORS that sets TraceEn suspends the LBR stack where it has to, XSAVES "
	      "ends it",
     .source = "SDM Vol 1, 13.5.6; SDM Vol 3, 36.3.1.2")
{
	const uint64_t no_calls = 8;
	struct pt_area *area = &pt_area[0];

	if (!ds_caps()->suspended_by_pt)
		test_skip("this processor records last branches while Intel PT traces");
	STATE_RIG(rig);
	lbr_open();
	wrmsr(MSR_LBR_SELECT, no_calls);
	clear(area);
	area->xstate_bv = PT_BIT;
	area->msr[0] = pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN);
	area->msr[1] = rig.trace.buffer.table_address;
	EXPECT_EQ(restore(area), -1);
	EXPECT_EQ(rdmsr(MSR_LBR_SELECT), 0);
	EXPECT_EQ(save(area), -1);
	EXPECT_EQ(rdmsr(MSR_LBR_SELECT), no_calls);
	wrmsr(MSR_LBR_SELECT, 0);
	lbr_close();
}
