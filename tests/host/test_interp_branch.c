// SPDX-License-Identifier: MIT
/* sources: tests/host/interp_observer.c tests/host/interp_rig.c */
/* sources: monitor/interp/?*.c lib/format.c */
/* Control transfers and their records; instructions run as thunks; what is refused. */
#include "tests/host/interp_rig.h"

/* Every near branch of this program is taken once; the records name them in order. */
UNIT(near_branches_are_recorded_exactly, .setup_func = observer_begin)
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

UNIT(noncanonical_target_faults_at_the_branch, .setup_func = observer_begin)
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
UNIT(relative_target_faults_at_the_branch, .setup_func = observer_begin)
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

UNIT(syscall_and_sysret, .setup_func = observer_begin)
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

UNIT(far_transfers, .setup_func = observer_begin)
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

UNIT(tracing_off_stops, .setup_func = observer_begin)
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

UNIT(privileged_instructions_fault_in_user_code, .setup_func = observer_begin)
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

UNIT(undefined_instructions, .setup_func = observer_begin)
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

UNIT(sixteen_bytes_are_too_long, .setup_func = observer_begin)
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
UNIT(sse_and_x87_run_as_thunks, .setup_func = observer_begin)
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

UNIT(sse_is_refused_where_it_is_off, .setup_func = observer_begin)
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

UNIT(unmasking_exceptions_is_left_to_the_processor, .setup_func = observer_begin)
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

UNIT(unknown_instructions_are_left_to_the_processor, .setup_func = observer_begin)
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

/* The interpreter's reports, their order, and their observers. */

#define WATCHED (RIG_BASE + RIG_WATCHED)

/* As a unit that wants everything would. */
static int observe_all(void **state)
{
	rig_reset();
	observer_reset();
	rig.vcpu.observed = OBSERVER_DS | OBSERVERS_OF_INSTRUCTIONS | OBSERVERS_OF_NOT_TAKEN;
	return 0;
}

static void expect(const struct sight *sights, unsigned count)
{
	for (unsigned n = 0; n < count && n < observer.sights; n++) {
		assert_int_equal(observer.sight[n].kind, sights[n].kind);
		assert_int_equal(observer.sight[n].value, sights[n].value);
	}
	assert_int_equal(observer.sights, count);
}
#define EXPECT(...)                                                                                \
	expect((const struct sight[]){__VA_ARGS__},                                                \
	       sizeof((const struct sight[]){__VA_ARGS__}) / sizeof(struct sight))

/* XOR EAX, EAX; JNE +2; JE +0; NOP: not taken, taken to the next instruction. */
UNIT(conditional_branches, .setup_func = observe_all)
{
	RIG_PROGRAM(0x31, 0xc0, 0x75, 0x02, 0x74, 0x00, 0x90);
	rig_step(4);
	EXPECT({SIGHT_RETIRED, CODE + 2}, {SIGHT_NOT_TAKEN, CODE + 2}, {SIGHT_RETIRED, CODE + 4},
	       {SIGHT_BRANCH, CODE + 4}, {SIGHT_RETIRED, CODE + 6}, {SIGHT_RETIRED, CODE + 7});
}

/* LOOP with RCX = 2: taken, not taken; JRCXZ with RCX = 0 taken, with 1 not. 0F 85, rel32. */
UNIT(counting_branches, .setup_func = observe_all)
{
	RIG_PROGRAM(0xe2, 0xfe, 0xe3, 0x00, 0xff, 0xc1, 0xe3, 0x10, 0x0f, 0x84, 0x10, 0, 0, 0);
	rig.vcpu.gpr[RCX] = 2;
	rig_step(6);
	EXPECT({SIGHT_BRANCH, CODE}, {SIGHT_RETIRED, CODE}, {SIGHT_NOT_TAKEN, CODE},
	       {SIGHT_RETIRED, CODE + 2}, {SIGHT_BRANCH, CODE + 2}, {SIGHT_RETIRED, CODE + 4},
	       {SIGHT_RETIRED, CODE + 6}, {SIGHT_NOT_TAKEN, CODE + 6}, {SIGHT_RETIRED, CODE + 8},
	       {SIGHT_NOT_TAKEN, CODE + 8}, {SIGHT_RETIRED, CODE + 14});
}

/* UD2 does not retire, its exception is an event; INT3 retires. */
UNIT(events, .setup_func = observe_all)
{
	RIG_PROGRAM(0x0f, 0x0b);
	rig_code(RIG_HANDLERS + 6 * 16, (const uint8_t[]){0xcc}, 1);
	rig_step(2);
	EXPECT({SIGHT_EVENT, CODE}, {SIGHT_EVENT, HANDLER(6)}, {SIGHT_RETIRED, HANDLER(3)});
}

/* The kinds of saw_retired(); JMP RAX is indirect. */
UNIT(kinds_of_instructions)
{
	static const struct {
		uint8_t code[4];
		unsigned kind;
	} cases[] = {
		{{0x90}, 0},
		{{0x75, 0x02}, RETIRED_BRANCH | RETIRED_CONDITIONAL | RETIRED_TAKEN},
		{{0x74, 0x02}, RETIRED_BRANCH | RETIRED_CONDITIONAL},
		{{0xe3, 0x02}, RETIRED_BRANCH | RETIRED_CONDITIONAL},
		{{0xeb, 0x02}, RETIRED_BRANCH | RETIRED_TAKEN},
		{{0xe8}, RETIRED_BRANCH | RETIRED_CALL | RETIRED_TAKEN},
		{{0xc3}, RETIRED_BRANCH | RETIRED_RETURN | RETIRED_TAKEN},
		{{0xff, 0xe0}, RETIRED_BRANCH | RETIRED_INDIRECT | RETIRED_TAKEN},
		{{0xff, 0xd0}, RETIRED_BRANCH | RETIRED_INDIRECT | RETIRED_CALL | RETIRED_TAKEN},
		{{0xcc}, RETIRED_BRANCH | RETIRED_FAR | RETIRED_TAKEN},
		{{0x0f, 0x05}, RETIRED_BRANCH | RETIRED_FAR | RETIRED_TAKEN},
		{{0x0f, 0x85, 0x02}, RETIRED_BRANCH | RETIRED_CONDITIONAL | RETIRED_TAKEN},
	};

	for (unsigned n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		observe_all(NULL);
		rig_code(RIG_CODE, cases[n].code, 4);
		rig.vcpu.gpr[RAX] = rig.vcpu.gpr[RCX] = CODE;
		rig.vcpu.lstar = CODE;
		rig_step(1);
		assert_int_equal(observer.retired.kind, RETIRED | cases[n].kind);
		assert_int_equal(observer.retired.from, CODE);
		assert_int_equal(observer.retired.rip, CODE);
	}
}

/* From ring 3 through a gate of DPL 0: #GP instead, and INT n does not retire. REP STOSB of three
   retires once. */
UNIT(refused_and_repeated, .setup_func = observe_all)
{
	RIG_PROGRAM(0xcd, 0x30);
	rig_to_user();
	rig_step(1);
	EXPECT({SIGHT_EVENT, CODE});
	observe_all(state);
	RIG_PROGRAM(0xf3, 0xaa);
	rig.vcpu.gpr[RCX] = 3;
	rig.vcpu.gpr[RDI] = RIG_BASE + RIG_DATA;
	rig_step(3);
	EXPECT({SIGHT_RETIRED, CODE + 2});
}

/* MOV CR3, RAX; HLT. */
UNIT(cr3_and_halt, .setup_func = observe_all)
{
	RIG_PROGRAM(0x0f, 0x22, 0xd8, 0xf4);
	rig.vcpu.gpr[RAX] = RIG_PML4 | 0x18;
	rig_step(2);
	EXPECT({SIGHT_CR3, RIG_PML4 | 0x18}, {SIGHT_RETIRED, CODE + 3}, {SIGHT_HALT, 0},
	       {SIGHT_RETIRED, CODE + 4});
}

/* LRETQ to 32-bit code: the mode is known before the branch. */
UNIT(mode, .setup_func = observe_all)
{
	uint64_t *stack = (void *)(rig.memory + RIG_STACK - 16);
	uint64_t *gdt = (void *)(rig.memory + RIG_GDT);

	gdt[7] = 0x00cf9b000000ffff;
	RIG_PROGRAM(0x48, 0xcb, 0x90);
	stack[0] = CODE + 2;
	stack[1] = 0x38;
	rig.vcpu.gpr[RSP] -= 16;
	rig_step(2);
	EXPECT({SIGHT_MODE, 32}, {SIGHT_BRANCH, CODE}, {SIGHT_RETIRED, CODE + 2},
	       {SIGHT_RETIRED, CODE + 3});
}

/* REP STOSB with RCX = 3 is one instruction of three iterations. */
UNIT(repeated_instruction, .setup_func = observe_all)
{
	RIG_PROGRAM(0xf3, 0xaa);
	rig.vcpu.gpr[RDI] = RIG_BASE + RIG_DATA;
	rig.vcpu.gpr[RCX] = 3;
	rig_step(3);
	EXPECT({SIGHT_RETIRED, CODE + 2});
}

/* A unit that wants taken branches alone gets no others. While nothing is observed, nobody gets
   anything but #DB and other events. */
UNIT(nobody_else_is_asked, .setup_func = observe_all)
{
	static const uint8_t program[] = {0x31, 0xc0, 0x75, 0x02, 0x74, 0x00, 0x0f, 0x0b};

	rig.vcpu.observed = OBSERVER_DS;
	rig_code(RIG_CODE, program, sizeof(program));
	rig_step(4);
	EXPECT({SIGHT_BRANCH, CODE + 4}, {SIGHT_EVENT, CODE + 6});
	observe_all(NULL);
	rig.vcpu.observed = 0;
	rig_code(RIG_CODE, program, sizeof(program));
	rig_step(4);
	EXPECT({SIGHT_EVENT, CODE + 6});
}

/* Writes that the platform takes: each is handed over once, and the run ends after it. */
static int reset_watched(void **state)
{
	rig_reset();
	observer_reset();
	rig.vcpu.gpr[RDI] = WATCHED;
	rig.vcpu.gpr[RAX] = 0x12345678;
	return 0;
}

/* WRMSR turns on what looks at single instructions, the second time at the end of a chain of known
   blocks: it is seen itself, and not the JMP that ended the chain's first one. */
UNIT(first_one_ends_a_chain, .setup_func = reset_watched)
{
	RIG_PROGRAM(0xeb, 0x00,	 /* jmp +0 */
		    0x0f, 0x30,	 /* wrmsr */
		    0xff, 0xc0,	 /* inc eax */
		    0xeb, 0xf8); /* jmp -8 */
	rig.vcpu.gpr[RCX] = 3;
	rig.vcpu.gpr[RAX] = 1;
	assert_int_equal(interp_run(&rig.vcpu, 6), INTERP_BUDGET);
	EXPECT({SIGHT_BRANCH, CODE}, {SIGHT_BRANCH, CODE + 6}, {SIGHT_BRANCH, CODE},
	       {SIGHT_RETIRED, CODE + 4});
	assert_int_equal(observer.retired.kind, RETIRED);
	assert_int_equal(observer.retired.from, CODE + 2);
	assert_int_equal(observer.retired.rip, CODE + 2);
}

static void check_taken(unsigned writes, uint64_t offset, uint64_t value)
{
	assert_int_equal(rig.writes, writes);
	assert_int_equal(rig.written_at, RIG_WATCHED + offset);
	assert_int_equal(rig.written, value);
}

/* The second MOV is not reached: an interrupt may have come of the first. */
UNIT(leaves_behind_the_write, .setup_func = reset_watched)
{
	RIG_PROGRAM(0x89, 0x87, 0, 3, 0, 0, /* mov [rdi + 300h], eax */
		    0x31, 0xc0,		    /* xor eax, eax */
		    0x89, 0x47, 4);	    /* mov [rdi + 4], eax */
	assert_int_equal(interp_run(&rig.vcpu, 100), INTERP_BUDGET);
	check_taken(1, 0x300, 0x12345678);
	assert_int_equal(rig.vcpu.rip, CODE + 6);
	assert_int_equal(rig_word(WATCHED + 0x300), 0);
	rig.vcpu.attention = false;
	assert_int_equal(interp_run(&rig.vcpu, 2), INTERP_BUDGET);
	check_taken(2, 4, 0);
}

UNIT(reads_see_the_page, .setup_func = reset_watched)
{
	*(uint32_t *)(WATCHED + 8) = 0x40;
	RIG_PROGRAM(0x83, 0x4f, 8, 1,		   /* or dword [rdi + 8], 1 */
		    0x87, 0x47, 8,		   /* xchg [rdi + 8], eax */
		    0xf0, 0x0f, 0xba, 0x6f, 8, 3); /* lock bts dword [rdi + 8], 3 */
	rig_step(1);
	check_taken(1, 8, 0x41);
	rig.vcpu.attention = false;
	rig_step(1);
	check_taken(2, 8, 0x12345678);
	assert_int_equal(rig.vcpu.gpr[RAX], 0x40);
	rig.vcpu.attention = false;
	rig_step(1);
	check_taken(3, 8, 0x48);
}

/* A page that is read first must not become one that is written directly. */
UNIT(ordinary_writes_go_on, .setup_func = reset_watched)
{
	rig.vcpu.gpr[RSI] = RIG_BASE + RIG_DATA;
	RIG_PROGRAM(0x8b, 0x1f,	   /* mov ebx, [rdi] */
		    0x89, 0x06,	   /* mov [rsi], eax */
		    0x89, 0x07,	   /* mov [rdi], eax */
		    0x89, 0x46, 4, /* mov [rsi + 4], eax */
		    0xa5);	   /* movsd: [rsi] to [rdi] */
	rig_step(3);
	check_taken(1, 0, 0x12345678);
	rig.vcpu.attention = false;
	rig_step(1);
	assert_int_equal(rig.writes, 1);
	assert_int_equal(rig_word(RIG_BASE + RIG_DATA), 0x1234567812345678);
	rig_step(1);
	check_taken(2, 0, 0x12345678);
	assert_int_equal(rig.vcpu.gpr[RDI], WATCHED + 4);
}

/* A device that is written to may interrupt: the caller looks before the next instruction. */
UNIT(leaves_behind_an_out, .setup_func = reset_watched)
{
	rig.vcpu.gpr[RSI] = RIG_BASE + RIG_DATA;
	RIG_PROGRAM(0xe6, 0x80,	 /* out 80h, al */
		    0xff, 0xc0,	 /* inc eax */
		    0x6e,	 /* outsb */
		    0xff, 0xc0); /* inc eax */
	assert_int_equal(interp_run(&rig.vcpu, 100), INTERP_BUDGET);
	assert_int_equal(rig.vcpu.rip, CODE + 2);
	assert_int_equal(interp_run(&rig.vcpu, 100), INTERP_BUDGET);
	assert_int_equal(rig.vcpu.rip, CODE + 5);
}

/* One instruction is one instruction, whether branches are traced or not. */
UNIT(one_instruction_untraced, .setup_func = reset_watched)
{
	rig.vcpu.observed = 0;
	RIG_PROGRAM(0x89, 0x07,	 /* mov [rdi], eax */
		    0xff, 0xc0); /* inc eax */
	assert_int_equal(interp_run(&rig.vcpu, 1), INTERP_BUDGET);
	check_taken(1, 0, 0x12345678);
	assert_int_equal(rig.vcpu.rip, CODE + 2);
	rig.vcpu.attention = false;
	assert_int_equal(interp_run(&rig.vcpu, 100), INTERP_UNTRACED);
	assert_int_equal(rig.vcpu.rip, CODE + 2);
}
