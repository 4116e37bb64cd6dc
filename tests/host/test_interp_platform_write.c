/* SPDX-License-Identifier: MIT */
/* sources: monitor/interp/?*.c lib/format.c */
/* Writes that the platform takes: each is handed over once, and the run is left behind it. */
#include "tests/host/interp_observer.h"

#define CODE	(RIG_BASE + RIG_CODE)
#define WATCHED (RIG_BASE + RIG_WATCHED)

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
		cmocka_unit_test_setup(leaves_behind_the_write, reset),
		cmocka_unit_test_setup(reads_see_the_page, reset),
		cmocka_unit_test_setup(ordinary_writes_go_on, reset),
		cmocka_unit_test_setup(leaves_behind_an_out, reset),
		cmocka_unit_test_setup(one_instruction_untraced, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
