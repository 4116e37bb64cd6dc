// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c */
/* sources: tests/host/interp_rig.c tests/host/pt_program.c tests/host/pt_rig.c */
/* sources: monitor/interp/?*.c monitor/pt/?*.c lib/format.c lib/string.c */
/*
 * XSAVES and XRSTORS of the monitor. XSAVEC of the machine that runs this test judges the form of
 * the area: it writes the same one for user components. Of the vector registers only XMM12 to XMM15
 * and their upper halves are looked at: the test itself uses others. With lib/string.c, as a C
 * library's memset() may end in VZEROUPPER.
 */
#include "tests/host/pt_rig.h"

enum { HEADER = 512, XCOMP = 520, EXTENDED = 576, PT_BIT = 1 << PT_STATE, WIDE = 0x48 };
enum { AREA = RIG_DATA, CODE_AT = 0x30000 };
#define AT(offset)    (RIG_BASE + (offset))
#define COMPACTED     (1ull << 63)
#define USER_FEATURES 7ull /* x87, SSE, AVX */

static bool save(struct vcpu *vcpu, uint64_t rip, uint64_t *area)
{
	return pt_save(vcpu, rip, area);
}

static int reset(void **state)
{
	of(&everything);
	rig.vcpu.xss_supported = PT_BIT;
	rig.vcpu.cr4 |= CR4_OSXSAVE;
	rig.save_state = save;
	rig.load_state = pt_restore;
	xsave_init(&rig.vcpu);
	assert_true(guest_write_msr(&rig.vcpu, MSR_XSS, PT_BIT));
	return 0;
}

static uint64_t word(uint64_t offset)
{
	return rig_word(AT(offset));
}

static void set_word(uint64_t offset, uint64_t value)
{
	memcpy(rig.memory + offset, &value, 8);
}

/* One instruction at CODE_AT, [RDI] being the area; where RIP is then. */
static uint64_t execute(const uint8_t *bytes, size_t count, uint64_t offset, uint64_t features)
{
	struct vcpu *v = &rig.vcpu;

	rig_code(CODE_AT, bytes, count);
	v->rip = AT(CODE_AT);
	v->gpr[RDI] = AT(offset);
	v->gpr[RAX] = (uint32_t)features;
	v->gpr[RDX] = features >> 32;
	assert_int_equal(interp_run(v, 1), INTERP_BUDGET);
	return v->rip;
}

#define EXECUTE(offset, features, ...)                                                             \
	execute((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), offset,    \
		features)

static void xsaves_at(uint64_t offset, uint64_t features)
{
	assert_int_equal(EXECUTE(offset, features, WIDE, 0x0f, 0xc7, 0x2f), AT(CODE_AT) + 4);
}

static void xrstors_at(uint64_t offset, uint64_t features)
{
	assert_int_equal(EXECUTE(offset, features, WIDE, 0x0f, 0xc7, 0x1f), AT(CODE_AT) + 4);
}

/* --- User components -------------------------------------------------------------------------- */

static bool has_xsavec(void)
{
	uint32_t a = 0xd, b, c = 1, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return a >> 1 & 1 && __builtin_cpu_supports("avx");
}

static const uint8_t ymm[4][32] = {{1, 2, 3}, {[31] = 4}, {5, [16] = 6}, {7, 8, [20] = 9}};

static void set_registers(void)
{
	static const double x87 = 1.25;

	__asm__ volatile("vmovdqu (%0), %%ymm12\n\tvmovdqu 32(%0), %%ymm13\n\t"
			 "vmovdqu 64(%0), %%ymm14\n\tvmovdqu 96(%0), %%ymm15\n\t"
			 "fninit\n\tfldl %1\n\tfldpi"
			 :
			 : "r"(ymm), "m"(x87)
			 : "memory", "xmm12", "xmm13", "xmm14", "xmm15");
}

static void xsavec(uint8_t *to, uint32_t features)
{
	__asm__ volatile("xsavec64 (%0)" : : "r"(to), "a"(features), "d"(0) : "memory");
}

static void xrstor(const uint8_t *from, uint32_t features)
{
	__asm__ volatile("xrstor64 (%0)" : : "r"(from), "a"(features), "d"(0) : "memory");
}

/* Of two areas what this test has set. */
static void assert_same_registers(const uint8_t *area, const uint8_t *other)
{
	assert_memory_equal(area, other, 28); /* FCW to FDP, MXCSR */
	assert_memory_equal(area + 32, other + 32, 8 * 16);
	assert_memory_equal(area + 160 + 12 * 16, other + 160 + 12 * 16, 4 * 16);
	assert_memory_equal(area + EXTENDED + 12 * 16, other + EXTENDED + 12 * 16, 4 * 16);
}

UNIT(xsaves_writes_what_xsavec_writes, .setup_func = reset)
{
	static uint8_t native[PAGE] __attribute__((aligned(64)));

	if (!has_xsavec())
		skip();
	set_registers();
	xsavec(native, USER_FEATURES);
	set_registers();
	xsaves_at(AREA, USER_FEATURES);
	assert_int_equal(word(AREA + HEADER) & 7, 7);
	assert_int_equal(word(AREA + XCOMP), COMPACTED | USER_FEATURES);
	assert_memory_equal(rig.memory + AREA + XCOMP, native + XCOMP, EXTENDED - XCOMP);
	assert_same_registers(rig.memory + AREA, native);
}

UNIT(xrstors_loads_what_xsavec_wrote, .setup_func = reset)
{
	static uint8_t before[PAGE] __attribute__((aligned(64)));
	static uint8_t after[PAGE] __attribute__((aligned(64)));

	if (!has_xsavec())
		skip();
	set_registers();
	xsavec(before, USER_FEATURES);
	memcpy(rig.memory + AREA, before, sizeof(before));
	__asm__ volatile("fninit\n\tvzeroall");
	xrstors_at(AREA, USER_FEATURES);
	xsavec(after, USER_FEATURES);
	assert_same_registers(after, before);
}

/* And the other way round: what XSAVES wrote XRSTOR of this machine takes. */
UNIT(xrstor_loads_what_xsaves_wrote, .setup_func = reset)
{
	static uint8_t after[PAGE] __attribute__((aligned(64)));

	if (!has_xsavec())
		skip();
	set_registers();
	xsaves_at(AREA, USER_FEATURES);
	__asm__ volatile("fninit\n\tvzeroall");
	xrstor(rig.memory + AREA, USER_FEATURES);
	xsavec(after, USER_FEATURES);
	assert_same_registers(after, rig.memory + AREA);
}

UNIT(what_is_absent_is_initialised, .setup_func = reset)
{
	static uint8_t after[PAGE] __attribute__((aligned(64)));
	static const uint8_t zero[64];

	if (!has_xsavec())
		skip();
	set_registers();
	set_word(AREA + XCOMP, COMPACTED | USER_FEATURES);
	xrstors_at(AREA, USER_FEATURES);
	__asm__ volatile("xsave64 (%0)" : : "r"(after), "a"(7), "d"(0) : "memory");
	assert_int_equal(*(uint16_t *)(void *)after, 0x37f);
	assert_int_equal(*(uint32_t *)(void *)(after + 24), 0x1f80);
	assert_memory_equal(after + 160 + 12 * 16, zero, 64);
	assert_memory_equal(after + EXTENDED + 12 * 16, zero, 64);
}

/* MXCSR belongs to SSE alone: 13.12. */
UNIT(avx_alone_leaves_mxcsr, .setup_func = reset)
{
	uint32_t mxcsr = 0x9f80, found;

	if (!has_xsavec())
		skip();
	set_word(AREA + 24, 0x1f80);
	set_word(AREA + XCOMP, COMPACTED | 4);
	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
	xrstors_at(AREA, 4);
	__asm__ volatile("stmxcsr %0" : "=m"(found));
	__asm__ volatile("ldmxcsr %0" : : "m"((uint32_t){0x1f80}));
	assert_int_equal(found, mxcsr);
}

UNIT(only_what_is_requested_is_written, .setup_func = reset)
{
	memset(rig.memory + AREA, 0xcc, PAGE);
	xsaves_at(AREA, PT_BIT);
	assert_int_equal(word(AREA + HEADER), 0);
	assert_int_equal(word(AREA + XCOMP), COMPACTED | PT_BIT);
	for (unsigned n = 0; n < PAGE; n++)
		if (n < HEADER || n >= HEADER + 16)
			assert_int_equal(rig.memory[AREA + n], 0xcc);
}

/* --- XGETBV ----------------------------------------------------------------------------------- */

static enum interp_stop xgetbv(uint64_t rcx, const uint8_t *bytes, size_t count)
{
	rig_code(CODE_AT, bytes, count);
	rig.vcpu.rip = AT(CODE_AT);
	rig.vcpu.gpr[RCX] = rcx;
	rig.vcpu.gpr[RAX] = rig.vcpu.gpr[RDX] = ~0ull;
	return interp_run(&rig.vcpu, 1);
}

/* XCR0 is that of this machine. All else is the processor's business, what faults too. */
UNIT(xgetbv_reads_what_is_live, .setup_func = reset)
{
	static const uint8_t plain[] = {0x0f, 0x01, 0xd0}, prefixed[] = {0x66, 0x0f, 0x01, 0xd0};
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	assert_int_equal(xgetbv(0xffffffff00000000, plain, 3), INTERP_BUDGET);
	assert_int_equal(rig.vcpu.rip, AT(CODE_AT) + 3);
	assert_int_equal(rig.vcpu.gpr[RAX], low);
	assert_int_equal(rig.vcpu.gpr[RDX], high);
	assert_int_equal(xgetbv(1, plain, 3), INTERP_NATIVE_STEP);
	assert_int_equal(xgetbv(0, prefixed, 4), INTERP_NATIVE_STEP);
	rig.vcpu.cr4 &= ~(uint64_t)CR4_OSXSAVE;
	assert_int_equal(xgetbv(0, plain, 3), INTERP_NATIVE_STEP);
	assert_int_equal(rig.vcpu.rip, AT(CODE_AT));
}

/* --- What is refused -------------------------------------------------------------------------- */

static void expect_fault(const uint8_t *bytes, size_t count, uint64_t offset, unsigned vector)
{
	uint64_t ctl = rig.vcpu.pt.ctl;
	struct pt_state before = rig.vcpu.pt;

	assert_int_equal(execute(bytes, count, offset, PT_BIT | USER_FEATURES), HANDLER(vector));
	assert_int_equal(rig.vcpu.pt.ctl, ctl);
	assert_memory_equal(before.address, rig.vcpu.pt.address, sizeof(before.address));
	assert_int_equal(before.output_base, rig.vcpu.pt.output_base);
}

static const uint8_t save_bytes[] = {0x0f, 0xc7, 0x2f}, load_bytes[] = {0x0f, 0xc7, 0x1f};

static void expect_both_fault(uint64_t offset, unsigned vector)
{
	expect_fault(save_bytes, 3, offset, vector);
	expect_fault(load_bytes, 3, offset, vector);
}

UNIT(the_processor_decides, .setup_func = reset)
{
	static const uint8_t prefixed[][4] = {{0x66, 0x0f, 0xc7, 0x2f}, {0xf2, 0x0f, 0xc7, 0x1f},
					      {0xf3, 0x0f, 0xc7, 0x2f}, {0xf0, 0x0f, 0xc7, 0x1f},
					      {0xf0, 0x0f, 0xc7, 0x2f}, {0x0f, 0xc7, 0xef},
					      {0x0f, 0xc7, 0xdf}};

	for (unsigned n = 0; n < sizeof(prefixed) / sizeof(prefixed[0]); n++) {
		reset(NULL);
		expect_fault(prefixed[n], 4, AREA, VECTOR_UD);
	}
	reset(NULL);
	rig.vcpu.cr4 &= ~CR4_OSXSAVE;
	expect_both_fault(AREA, VECTOR_UD);
	reset(NULL);
	rig.vcpu.cr0 |= CR0_TS;
	expect_both_fault(AREA, VECTOR_NM);
	for (unsigned n = 0; n < 2; n++) {
		reset(NULL);
		rig_to_user();
		expect_fault(n ? load_bytes : save_bytes, 3, AREA, VECTOR_GP);
	}
	reset(NULL);
	rig.vcpu.xss_supported = 0;
	rig_code(RIG_CODE, save_bytes, 3);
	assert_int_equal(interp_run(&rig.vcpu, 1), INTERP_NATIVE_STEP);
}

UNIT(the_area_decides, .setup_func = reset)
{
	static const struct {
		uint64_t offset, value;
	} wrong[] = {
		{XCOMP, PT_BIT | 7},			      /* not compacted */
		{XCOMP, COMPACTED | 7},			      /* without what XSTATE_BV has */
		{XCOMP, COMPACTED | PT_BIT | 7 | 1ull << 62}, /* a component that is not there */
		{HEADER, PT_BIT | COMPACTED},
		{HEADER + 16, 1},
		{HEADER + 56, 1ull << 63},
		{24, 1 << 16}, /* MXCSR */
	};

	for (unsigned n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
		reset(NULL);
		set_word(AREA + 24, 0x1f80);
		set_word(AREA + HEADER, PT_BIT | 2);
		set_word(AREA + XCOMP, COMPACTED | PT_BIT | 7);
		set_word(AREA + wrong[n].offset, wrong[n].value);
		expect_fault(load_bytes, 3, AREA, VECTOR_GP);
	}
	reset(NULL);
	expect_both_fault(AREA + 32, VECTOR_GP);
	reset(NULL);
	assert_true(guest_write_msr(&rig.vcpu, MSR_XSS, 0));
	set_word(AREA + XCOMP, COMPACTED | PT_BIT);
	expect_fault(load_bytes, 3, AREA, VECTOR_GP);
}

UNIT(ia32_xss_has_one_bit, .setup_func = reset)
{
	uint64_t value = 1;

	for (unsigned bit = 0; bit < 64; bit++)
		assert_int_equal(guest_write_msr(&rig.vcpu, MSR_XSS, 1ull << bit), bit == PT_STATE);
	assert_true(guest_read_msr(&rig.vcpu, MSR_XSS, &value));
	assert_int_equal(value, PT_BIT);
	rig.vcpu.xss_supported = 0;
	assert_false(guest_read_msr(&rig.vcpu, MSR_XSS, &value));
}
