// SPDX-License-Identifier: MIT
/* sources: tests/host/interp_observer.c tests/host/interp_rig.c */
/* sources: monitor/interp/?*.c lib/format.c */
/* Control transfers and their records; instructions run as thunks; what is refused. */
#include "tests/host/interp_rig.h"

#define CODE		(RIG_BASE + RIG_CODE)
#define DATA		(RIG_BASE + RIG_DATA)
#define STACK		(RIG_BASE + RIG_STACK)
#define HANDLER(vector) (RIG_BASE + RIG_HANDLERS + (vector)*16)

static int reset(void **state)
{
	rig_reset();
	observer_reset();
	return 0;
}

static void check_branch(unsigned n, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	assert_int_equal(observer.branch[n].from, from);
	assert_int_equal(observer.branch[n].to, to);
	assert_int_equal(observer.branch[n].from_cpl, from_cpl);
	assert_int_equal(observer.branch[n].to_cpl, to_cpl);
}

/* Every near branch of this program is taken once; the records name them in order. */
static void near_branches_are_recorded_exactly(void **state)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xeb, 0x02, 0xcc, 0xcc,	  /* 00: jmp 04 */
		    0x31, 0xc0,			  /* 04: xor eax, eax */
		    0x75, 0x10,			  /* 06: jnz: not taken */
		    0x74, 0x00,			  /* 08: jz 0a: taken to what follows */
		    0xe8, 0x01, 0x00, 0x00, 0x00, /* 0a: call 10 */
		    0xf4,			  /* 0f: hlt */
		    0xb9, 0x02, 0x00, 0x00, 0x00, /* 10: mov ecx, 2 */
		    0xe2, 0xfe,			  /* 15: loop 15: taken once */
		    0xe3, 0x01, 0xcc,		  /* 17: jrcxz 1a */
		    0x48, 0x8d, 0x05, 2, 0, 0, 0, /* 1a: lea rax, [23] */
		    0xff, 0xe0,			  /* 21: jmp rax */
		    0x50, 0xff, 0x14, 0x24,	  /* 23: push rax; 24: call [rsp] to 23 */
		    0xcc);
	rig_code(RIG_CODE + 0x23, "\xc2\x00\x00", 3); /* 23: ret 0 to 0f */
	assert_int_equal(interp_run(v, 1000), INTERP_HALTED);
	assert_int_equal(v->gpr[RSP], STACK);
	assert_int_equal(observer.branches, 7);
	check_branch(0, CODE, CODE + 0x04, 0, 0);
	check_branch(1, CODE + 0x08, CODE + 0x0a, 0, 0);
	check_branch(2, CODE + 0x0a, CODE + 0x10, 0, 0);
	check_branch(3, CODE + 0x15, CODE + 0x15, 0, 0);
	check_branch(4, CODE + 0x17, CODE + 0x1a, 0, 0);
	check_branch(5, CODE + 0x21, CODE + 0x23, 0, 0);
	check_branch(6, CODE + 0x23, CODE + 0x0f, 0, 0);
}

static void noncanonical_target_faults_at_the_branch(void **state)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xff, 0xd0);
	v->gpr[RAX] = 1ull << 47;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(13));
	assert_int_equal(rig_word(v->gpr[RSP] + 8), CODE);
	assert_int_equal(rig_word(v->gpr[RSP] + 32), STACK);
	assert_int_equal(observer.branches, 1);
}

/* In the last page below the addresses that are not canonical, which is a page of the rig too. */
static void relative_target_faults_at_the_branch(void **state)
{
	const uint64_t last_page = (1ull << 47) - PAGE;
	struct vcpu *v = &rig.vcpu;

	((uint64_t *)(void *)(rig.memory + RIG_PML4))[255] = RIG_PDPT | RIG_ALL;
	((uint64_t *)(void *)(rig.memory + RIG_PDPT))[511] = RIG_PD | RIG_ALL;
	((uint64_t *)(void *)(rig.memory + RIG_PD))[511] = RIG_PT | RIG_ALL;
	rig_code(512 * PAGE - 16,
		 "\x31\xc0"	/* f0: xor eax, eax */
		 "\x75\x7e"	/* f2: jnz: not taken, so that its target does not matter */
		 "\xe8\0\0\0\0" /* f4: call f9 */
		 "\x74\x05"	/* f9: jz: beyond the last address */
		 "\xcc\xcc\xcc\xcc\xcc",
		 16);
	v->rip = last_page + PAGE - 16;
	interp_run(v, 4);
	assert_int_equal(v->rip, HANDLER(13));
	assert_int_equal(rig_word(v->gpr[RSP] + 8), last_page + 0xff9);
	assert_int_equal(observer.branches, 2);
	check_branch(0, last_page + 0xff4, last_page + 0xff9, 0, 0);
	check_branch(1, last_page + 0xff9, HANDLER(13), 0, 0);
}

static void syscall_and_sysret(void **state)
{
	struct vcpu *v = &rig.vcpu;

	rig_to_user();
	v->star = (uint64_t)(RIG_KERNEL_SS | 3) << 48 | (uint64_t)RIG_KERNEL_CS << 32;
	v->lstar = CODE + 0x100;
	v->sfmask = FLAG_IF | FLAG_TF;
	v->rflags = FLAG_FIXED | FLAG_IF | FLAG_ZF;
	RIG_PROGRAM(0x0f, 0x05);
	rig_code(RIG_CODE + 0x100, "\x48\x0f\x07", 3);
	rig_step(1);
	assert_int_equal(v->cpl, 0);
	assert_int_equal(v->gpr[RCX], CODE + 2);
	assert_int_equal(v->gpr[R11], FLAG_FIXED | FLAG_IF | FLAG_ZF);
	assert_int_equal(v->rflags, FLAG_FIXED | FLAG_ZF);
	assert_int_equal(v->segment[CS].selector, RIG_KERNEL_CS);
	assert_int_equal(v->segment[SS].selector, RIG_KERNEL_SS);
	rig_step(1);
	assert_int_equal(v->cpl, 3);
	assert_int_equal(v->rflags, FLAG_FIXED | FLAG_IF | FLAG_ZF);
	assert_int_equal(v->segment[CS].selector, RIG_USER_CS);
	assert_int_equal(v->segment[SS].selector, RIG_USER_SS);
	check_branch(0, CODE, CODE + 0x100, 3, 0);
	check_branch(1, CODE + 0x100, CODE + 2, 0, 3);

	/* Intel: a return to nowhere faults at CPL 0. */
	v->cpl = 0;
	v->gpr[RCX] = 1ull << 50;
	v->rip = CODE + 0x100;
	rig_step(1);
	check_branch(2, CODE + 0x100, HANDLER(13), 0, 0);
	v->efer &= ~EFER_SCE;
	v->rip = CODE;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(6));
}

static void far_transfers(void **state)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x48, 0xff, 0x1b); /* call far [rbx] */
	rig_code(RIG_CODE + 0x100, "\x48\xcb", 2);
	v->gpr[RBX] = DATA;
	memcpy(rig.memory + RIG_DATA, &(uint64_t){CODE + 0x100}, 8);
	rig.memory[RIG_DATA + 8] = RIG_KERNEL_CS;
	rig_step(2);
	assert_int_equal(v->rip, CODE + 3);
	assert_int_equal(v->gpr[RSP], STACK);
	check_branch(0, CODE, CODE + 0x100, 0, 0);
	check_branch(1, CODE + 0x100, CODE + 3, 0, 0);
	rig.memory[RIG_DATA + 8] = RIG_KERNEL_SS;
	v->rip = CODE;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(13));
	assert_int_equal(rig_word(v->gpr[RSP]), RIG_KERNEL_SS);
}

static void tracing_off_stops(void **state)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x0f, 0x30, 0x90, 0x90);
	v->gpr[RCX] = 3;
	assert_int_equal(interp_run(v, 100), INTERP_UNTRACED);
	assert_int_equal(v->rip, CODE + 2);
	rig.vcpu.observed = OBSERVER_DS;
	v->cr4 |= CR4_LA57;
	assert_int_equal(interp_run(v, 100), INTERP_MODE);
}

static void privileged_instructions_fault_in_user_code(void **state)
{
	static const uint8_t code[][4] = {
		{0xf4},
		{0xfa},
		{0xfb},
		{0x0f, 0x20, 0xc0},
		{0x0f, 0x22, 0xd8},
		{0x0f, 0x30},
		{0x0f, 0x32},
		{0x0f, 0x01, 0xf8},
		{0x0f, 0x01, 0x3b},
		{0x0f, 0x06},
		{0x0f, 0x09},
		{0x48, 0x0f, 0x07},
		{0xec},
		{0x0f, 0x00, 0xd8},
	};

	for (unsigned n = 0; n < sizeof(code) / sizeof(code[0]); n++) {
		rig_reset();
		observer_reset();
		rig_to_user();
		rig_code(RIG_CODE, code[n], 4);
		rig_step(1);
		assert_int_equal(rig.vcpu.rip, HANDLER(13));
	}
}

static void undefined_instructions(void **state)
{
	static const uint8_t code[][4] = {
		{0x0f, 0x0b},	    /* UD2 */
		{0x0f, 0xb9, 0xc0}, /* UD1 */
		{0x06},		    /* PUSH ES */
		{0xf0, 0x90},	    /* LOCK NOP */
		{0xf0, 0x01, 0xc0}, /* LOCK on a register */
		{0x0f, 0x22, 0xc8}, /* MOV CR1 */
		{0x8d, 0xc0},	    /* LEA of a register */
		{0x0f, 0xaa},	    /* RSM */
		{0x0f, 0x01, 0xc1}, /* VMCALL */
		{0x8e, 0xc8},	    /* MOV CS */
	};

	for (unsigned n = 0; n < sizeof(code) / sizeof(code[0]); n++) {
		rig_reset();
		observer_reset();
		rig_code(RIG_CODE, code[n], 4);
		rig_step(1);
		assert_int_equal(rig.vcpu.rip, HANDLER(6));
	}
}

static void sixteen_bytes_are_too_long(void **state)
{
	memset(rig.memory + RIG_CODE, 0x66, 15);
	rig.memory[RIG_CODE + 15] = 0x90;
	rig_step(1);
	assert_int_equal(rig.vcpu.rip, HANDLER(13));
	rig_reset();
	observer_reset();
	memset(rig.memory + RIG_CODE, 0x66, 14);
	rig.memory[RIG_CODE + 14] = 0x90;
	rig_step(1);
	assert_int_equal(rig.vcpu.rip, CODE + 15);
}

/*
 * With memory and general registers, and flags out. Values in XMM registers do not outlive one
 * instruction here: this test is compiled to use them, the monitor is not.
 */
static void sse_and_x87_run_as_thunks(void **state)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xf3, 0x4c, 0x0f, 0x2c, 0x13, /* cvttss2si r10, [rbx] */
		    0x66, 0x0f, 0x2e, 0x43, 0x08, /* ucomisd xmm0, [rbx + 8]: a NaN */
		    0xd9, 0xe8, 0xd8, 0x03,	  /* fld1; fadd dword [rbx] */
		    0xdb, 0x1c, 0x24,		  /* fistp dword [rsp] */
		    0x9b, 0xdf, 0xe0,		  /* fnstsw ax after a wait */
		    0xf4);
	memcpy(rig.memory + RIG_DATA, &(uint32_t){0x42280000}, 4); /* 42.0 */
	memset(rig.memory + RIG_DATA + 8, 0xff, 8);
	v->gpr[RAX] = 0x1111222233334444;
	v->gpr[RBX] = DATA;
	v->gpr[RSP] = STACK - 64;
	v->rflags |= FLAG_OF | FLAG_SF;
	assert_int_equal(rig_step(5), INTERP_BUDGET);
	assert_int_equal(v->gpr[R10], 42);
	assert_int_equal(v->rflags & FLAG_ARITHMETIC, FLAG_ZF | FLAG_PF | FLAG_CF);
	assert_int_equal((uint32_t)rig_word(STACK - 64), 43);
	assert_int_equal(rig_step(2), INTERP_BUDGET);
	assert_int_equal(v->gpr[RAX] & ~0xffffull, 0x1111222233330000);
	assert_int_equal(v->gpr[RAX] & 0x3800, 0); /* the stack is empty again */
	assert_int_equal(v->rip, CODE + 20);
}

static void sse_is_refused_where_it_is_off(void **state)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x0f, 0x28, 0x03); /* movaps xmm0, [rbx] */
	v->gpr[RBX] = DATA + 8;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(13));
	v->rip = CODE;
	v->cr0 |= CR0_TS;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(7));
	v->rip = CODE;
	v->cr4 &= ~CR4_OSFXSR;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(6));
}

static void unmasking_exceptions_is_left_to_the_processor(void **state)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x0f, 0xae, 0x13); /* ldmxcsr [rbx] */
	v->gpr[RBX] = DATA;
	assert_int_equal(interp_run(v, 1), INTERP_NATIVE_STEP);
	assert_int_equal(v->rip, CODE);
	memcpy(rig.memory + RIG_DATA, &(uint32_t){0x1f80}, 4);
	assert_int_equal(interp_run(v, 1), INTERP_BUDGET);
	assert_int_equal(v->rip, CODE + 3);
}

static void unknown_instructions_are_left_to_the_processor(void **state)
{
	static const uint8_t code[][5] = {
		{0xc5, 0xf8, 0x77}, /* VZEROUPPER */
		{0x0f, 0xc7, 0xf0}, /* RDRAND: group 9 in register form */
		{0x0f, 0xae, 0x23}, /* XSAVE */
		{0x0f, 0x01, 0xd0}, /* XGETBV */
		{0x0f, 0x23, 0xc0}, /* MOV DR0 */
	};

	for (unsigned n = 0; n < sizeof(code) / sizeof(code[0]); n++) {
		rig_reset();
		observer_reset();
		rig_code(RIG_CODE, code[n], 5);
		assert_int_equal(interp_run(&rig.vcpu, 5), INTERP_NATIVE_STEP);
		assert_int_equal(rig.vcpu.rip, CODE);
		assert_int_equal(observer.branches, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(near_branches_are_recorded_exactly, reset),
		cmocka_unit_test_setup(noncanonical_target_faults_at_the_branch, reset),
		cmocka_unit_test_setup(relative_target_faults_at_the_branch, reset),
		cmocka_unit_test_setup(syscall_and_sysret, reset),
		cmocka_unit_test_setup(far_transfers, reset),
		cmocka_unit_test_setup(tracing_off_stops, reset),
		cmocka_unit_test_setup(privileged_instructions_fault_in_user_code, reset),
		cmocka_unit_test_setup(undefined_instructions, reset),
		cmocka_unit_test_setup(sixteen_bytes_are_too_long, reset),
		cmocka_unit_test_setup(sse_and_x87_run_as_thunks, reset),
		cmocka_unit_test_setup(sse_is_refused_where_it_is_off, reset),
		cmocka_unit_test_setup(unmasking_exceptions_is_left_to_the_processor, reset),
		cmocka_unit_test_setup(unknown_instructions_are_left_to_the_processor, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
