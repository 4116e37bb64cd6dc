// SPDX-License-Identifier: MIT
/* sources: tests/host/interp_observer.c tests/host/interp_rig.c */
/* sources: monitor/interp/?*.c lib/format.c */
/* The interpreter's reports, their order, and their observers. */
#include "tests/host/interp_rig.h"

#define CODE	   (RIG_BASE + RIG_CODE)
#define WATCHED	   (RIG_BASE + RIG_WATCHED)
#define HANDLER(n) (RIG_BASE + RIG_HANDLERS + (n)*16ull)

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
static void conditional_branches(void **state)
{
	RIG_PROGRAM(0x31, 0xc0, 0x75, 0x02, 0x74, 0x00, 0x90);
	rig_step(4);
	EXPECT({SIGHT_RETIRED, CODE + 2}, {SIGHT_NOT_TAKEN, CODE + 2}, {SIGHT_RETIRED, CODE + 4},
	       {SIGHT_BRANCH, CODE + 4}, {SIGHT_RETIRED, CODE + 6}, {SIGHT_RETIRED, CODE + 7});
}

/* LOOP with RCX = 2: taken, not taken; JRCXZ with RCX = 0 taken, with 1 not. 0F 85, rel32. */
static void counting_branches(void **state)
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
static void events(void **state)
{
	RIG_PROGRAM(0x0f, 0x0b);
	rig_code(RIG_HANDLERS + 6 * 16, (const uint8_t[]){0xcc}, 1);
	rig_step(2);
	EXPECT({SIGHT_EVENT, CODE}, {SIGHT_EVENT, HANDLER(6)}, {SIGHT_RETIRED, HANDLER(3)});
}

/* The kinds of saw_retired(); JMP RAX is indirect. */
static void kinds_of_instructions(void **state)
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
static void refused_and_repeated(void **state)
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
static void cr3_and_halt(void **state)
{
	RIG_PROGRAM(0x0f, 0x22, 0xd8, 0xf4);
	rig.vcpu.gpr[RAX] = RIG_PML4 | 0x18;
	rig_step(2);
	EXPECT({SIGHT_CR3, RIG_PML4 | 0x18}, {SIGHT_RETIRED, CODE + 3}, {SIGHT_HALT, 0},
	       {SIGHT_RETIRED, CODE + 4});
}

/* LRETQ to 32-bit code: the mode is known before the branch. */
static void mode(void **state)
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
static void repeated_instruction(void **state)
{
	RIG_PROGRAM(0xf3, 0xaa);
	rig.vcpu.gpr[RDI] = RIG_BASE + RIG_DATA;
	rig.vcpu.gpr[RCX] = 3;
	rig_step(3);
	EXPECT({SIGHT_RETIRED, CODE + 2});
}

/* A unit that wants taken branches alone gets no others. While nothing is observed, nobody gets
   anything but #DB and other events. */
static void nobody_else_is_asked(void **state)
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

/* WRMSR turns on what looks at single instructions, the second time at the end of a chain of known
   blocks: it is seen itself, and not the JMP that ended the chain's first one. */
static void first_one_ends_a_chain(void **state)
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

/* Writes that the platform takes: each is handed over once, and the run ends after it. */
static int reset(void **state)
{
	rig_reset();
	observer_reset();
	rig.vcpu.gpr[RDI] = WATCHED;
	rig.vcpu.gpr[RAX] = 0x12345678;
	return 0;
}

static void check_taken(unsigned writes, uint64_t offset, uint64_t value)
{
	assert_int_equal(rig.writes, writes);
	assert_int_equal(rig.written_at, RIG_WATCHED + offset);
	assert_int_equal(rig.written, value);
}

/* The second MOV is not reached: an interrupt may have come of the first. */
static void leaves_behind_the_write(void **state)
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

static void reads_see_the_page(void **state)
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
static void ordinary_writes_go_on(void **state)
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
static void leaves_behind_an_out(void **state)
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
static void one_instruction_untraced(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(conditional_branches, observe_all),
		cmocka_unit_test_setup(counting_branches, observe_all),
		cmocka_unit_test_setup(events, observe_all),
		cmocka_unit_test(kinds_of_instructions),
		cmocka_unit_test_setup(refused_and_repeated, observe_all),
		cmocka_unit_test_setup(cr3_and_halt, observe_all),
		cmocka_unit_test_setup(mode, observe_all),
		cmocka_unit_test_setup(repeated_instruction, observe_all),
		cmocka_unit_test_setup(nobody_else_is_asked, observe_all),
		cmocka_unit_test_setup(first_one_ends_a_chain, reset),
		cmocka_unit_test_setup(leaves_behind_the_write, reset),
		cmocka_unit_test_setup(reads_see_the_page, reset),
		cmocka_unit_test_setup(ordinary_writes_go_on, reset),
		cmocka_unit_test_setup(leaves_behind_an_out, reset),
		cmocka_unit_test_setup(one_instruction_untraced, reset),
	};

	return cmocka_run_group_tests_name("interp_observe", tests, NULL, NULL);
}
