// SPDX-License-Identifier: MIT
/* sources: tests/host/interp_observer.c tests/host/interp_rig.c */
/* sources: monitor/interp/?*.c lib/format.c */
/* Delivery of events through the guest's IDT, what is nested in it, and IRET. */
#include "monitor/interp/debug.h"
#include "tests/host/interp_rig.h"

/* The frame at RSP, from RIP on. */
static void check_frame(uint64_t at, uint64_t rip, uint64_t cs, uint64_t rflags, uint64_t rsp,
			uint64_t ss)
{
	assert_int_equal(rig_word(at), rip);
	assert_int_equal(rig_word(at + 8), cs);
	assert_int_equal(rig_word(at + 16), rflags);
	assert_int_equal(rig_word(at + 24), rsp);
	assert_int_equal(rig_word(at + 32), ss);
}

UNIT(fault_pushes_rf_and_its_own_rip, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x90, 0x0f, 0x0b);
	v->rflags = FLAG_FIXED | FLAG_IF | FLAG_CF;
	v->gpr[RSP] = STACK - 8;
	rig_step(2);
	assert_int_equal(v->rip, HANDLER(6));
	assert_int_equal(v->gpr[RSP], STACK - 16 - 40);
	check_frame(v->gpr[RSP], CODE + 1, RIG_KERNEL_CS, FLAG_FIXED | FLAG_IF | FLAG_CF | FLAG_RF,
		    STACK - 8, RIG_KERNEL_SS);
	assert_int_equal(v->rflags, FLAG_FIXED | FLAG_CF);
	assert_int_equal(observer.branches, 1);
	check_branch(0, CODE + 1, HANDLER(6), 0, 0);
}

UNIT(page_fault_has_error_and_cr2, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x48, 0x89, 0x03); /* mov [rbx], rax */
	v->gpr[RBX] = DATA + 0x123;
	*rig_pte(RIG_DATA) = RIG_DATA | RIG_P;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(14));
	assert_int_equal(v->cr2, DATA + 0x123);
	assert_int_equal(rig_word(v->gpr[RSP]), 3);
	check_frame(v->gpr[RSP] + 8, CODE, RIG_KERNEL_CS, FLAG_FIXED | FLAG_RF, STACK,
		    RIG_KERNEL_SS);
}

UNIT(interrupt_from_user_switches_stack, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	rig_to_user();
	v->rflags |= FLAG_IF;
	v->halted = true;
	v->interrupt_shadow = true;
	event_deliver(v, &(struct event){.kind = EVENT_INTERRUPT,
					 .vector = 0x40,
					 .return_rip = CODE,
					 .from = CODE});
	assert_int_equal(v->cpl, 0);
	assert_int_equal(v->segment[SS].selector, 0);
	assert_int_equal(v->segment[CS].selector, RIG_KERNEL_CS);
	assert_int_equal(v->gpr[RSP], STACK0 - 40);
	check_frame(v->gpr[RSP], CODE, RIG_USER_CS, FLAG_FIXED | FLAG_IF, STACK, RIG_USER_SS);
	assert_false(v->halted);
	assert_false(v->interrupt_shadow);
	assert_false(v->rflags & FLAG_IF);
	check_branch(0, CODE, HANDLER(0x40), 3, 0);
}

UNIT(trap_gate_keeps_if_and_ist_switches_stack, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	rig_gate(3, 0x8f, 1);
	RIG_PROGRAM(0xcc);
	v->rflags |= FLAG_IF;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(3));
	assert_true(v->rflags & FLAG_IF);
	assert_int_equal(v->gpr[RSP], IST1 - 40);
	check_frame(v->gpr[RSP], CODE + 1, RIG_KERNEL_CS, FLAG_FIXED | FLAG_IF, STACK,
		    RIG_KERNEL_SS);
	check_branch(0, CODE, HANDLER(3), 0, 0);
}

UNIT(software_interrupt_needs_dpl, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	rig_to_user();
	RIG_PROGRAM(0xcd, 0x80);
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(13));
	assert_int_equal(rig_word(v->gpr[RSP]), 0x80 * 8 + 2);
	assert_int_equal(rig_word(v->gpr[RSP] + 8), CODE);
	assert_int_equal(observer.branches, 1);
	check_branch(0, CODE, HANDLER(13), 3, 0);

	rig_reset();
	observer_reset();
	rig_to_user();
	rig_gate(0x80, 0xee, 0);
	RIG_PROGRAM(0xcd, 0x80);
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(0x80));
	assert_int_equal(rig_word(v->gpr[RSP]), CODE + 2);
	check_branch(0, CODE, HANDLER(0x80), 3, 0);
}

UNIT(int1_needs_no_dpl, .setup_func = observer_begin)
{
	rig_to_user();
	RIG_PROGRAM(0xf1);
	rig_step(1);
	assert_int_equal(rig.vcpu.rip, HANDLER(1));
	assert_int_equal(rig_word(rig.vcpu.gpr[RSP]), CODE + 1);
	check_branch(0, CODE, HANDLER(1), 3, 0);
}

UNIT(absent_gate_nests, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	rig_gate(6, 0x0e, 0);
	RIG_PROGRAM(0x0f, 0x0b);
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(11));
	assert_int_equal(rig_word(v->gpr[RSP]), 6 * 8 + 3); /* IDT, EXT */
	assert_int_equal(observer.branches, 1);
	check_branch(0, CODE, HANDLER(11), 0, 0);
}

UNIT(contributory_twice_is_double_fault, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	rig_gate(13, 0x0e, 0);
	rig_gate(8, 0x8e, 1);
	RIG_PROGRAM(0x0f, 0x22, 0xc0); /* mov cr0, rax */
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(8));
	assert_int_equal(v->gpr[RSP], IST1 - 48);
	assert_int_equal(rig_word(v->gpr[RSP]), 0);
	assert_int_equal(rig_word(v->gpr[RSP] + 8), CODE);
	assert_int_equal(observer.branches, 1);
}

UNIT(fault_on_the_stack_of_a_page_fault_is_double_fault, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	rig_gate(8, 0x8e, 1);
	RIG_PROGRAM(0x50); /* push rax */
	*rig_pte(RIG_STACK - 8) = 0;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(8));
	assert_int_equal(v->cr2, STACK - 40 - 8);
}

UNIT(page_fault_behind_contributory_is_served, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	rig_gate(14, 0x8e, 1);
	RIG_PROGRAM(0x0f, 0x22, 0xc0);
	*rig_pte(RIG_STACK - 8) = 0;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(14));
	assert_int_equal(rig_word(v->gpr[RSP]), 2);
}

UNIT(fault_in_double_fault_shuts_down, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x50);
	*rig_pte(RIG_STACK - 8) = 0;
	assert_int_equal(rig_step(1), INTERP_SHUTDOWN);
	assert_true(v->shut_down);
	assert_int_equal(observer.branches, 0);
}

UNIT(nmi_blocks_until_iret, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x90, 0x90, 0x90);
	rig_code(RIG_HANDLERS + 2 * 16, "\x90\x48\xcf", 3);
	v->nmi_pending = true;
	interp_run(v, 1);
	assert_int_equal(v->rip, HANDLER(2) + 1);
	assert_true(v->nmi_blocked);
	v->nmi_pending = true;
	interp_run(v, 1);
	assert_int_equal(v->rip, HANDLER(2));
	assert_int_equal(observer.branches, 3);
	check_branch(0, CODE, HANDLER(2), 0, 0);
	check_branch(1, HANDLER(2) + 1, CODE, 0, 0);
	check_branch(2, CODE, HANDLER(2), 0, 0);
}

static void push_return(unsigned n, const uint64_t words[])
{
	rig.vcpu.gpr[RSP] = STACK - n * 8;
	memcpy((void *)(uintptr_t)rig.vcpu.gpr[RSP], words, n * 8);
}

UNIT(iret_to_user_takes_flags_by_privilege, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x48, 0xcf);
	v->segment[DS] = v->segment[SS];
	push_return(5, (uint64_t[]){CODE + 0x100, RIG_USER_CS,
				    FLAG_FIXED | FLAG_IF | FLAG_IOPL | FLAG_AC | FLAG_RF, DATA,
				    RIG_USER_SS});
	assert_int_equal(interp_run(v, 10), INTERP_BUDGET); /* IF was set: poll */
	assert_int_equal(v->rip, CODE + 0x100);
	assert_int_equal(v->cpl, 3);
	assert_int_equal(v->gpr[RSP], DATA);
	assert_int_equal(v->rflags, FLAG_FIXED | FLAG_IF | FLAG_IOPL | FLAG_AC | FLAG_RF);
	assert_int_equal(v->segment[DS].selector, 0);
	check_branch(0, CODE, CODE + 0x100, 0, 3);
}

UNIT(iret_refuses_bad_frames, .setup_func = observer_begin)
{
	static const struct {
		uint64_t rip, cs, ss, rflags;
		uint32_t error;
	} bad[] = {
		{1ull << 47, RIG_KERNEL_CS, RIG_KERNEL_SS, 2, 0},
		{CODE, 0, RIG_KERNEL_SS, 2, 0},
		{CODE, RIG_KERNEL_SS, RIG_KERNEL_SS, 2, RIG_KERNEL_SS},
		{CODE, RIG_USER_CS, RIG_KERNEL_SS, 2, RIG_KERNEL_SS},
		{CODE, RIG_USER_CS, 3, 2, 0},
		{CODE, 0x1000, RIG_KERNEL_SS, 2, 0x1000},
		{CODE, RIG_KERNEL_CS | 3, RIG_USER_SS, 2, RIG_KERNEL_CS},
	};

	for (unsigned n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		rig_reset();
		observer_reset();
		RIG_PROGRAM(0x48, 0xcf);
		push_return(5,
			    (uint64_t[]){bad[n].rip, bad[n].cs, bad[n].rflags, STACK, bad[n].ss});
		uint64_t rsp = rig.vcpu.gpr[RSP];
		rig_step(1);
		assert_int_equal(rig.vcpu.rip, HANDLER(13));
		assert_int_equal(rig_word(rig.vcpu.gpr[RSP]), bad[n].error);
		assert_int_equal(rig_word(rig.vcpu.gpr[RSP] + 8), CODE);
		assert_int_equal(rig_word(rig.vcpu.gpr[RSP] + 32), rsp);
	}
}

UNIT(single_step_traps_behind_each_instruction, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x90, 0xeb, 0x00, 0xcc);
	v->rflags |= FLAG_TF;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(1));
	assert_int_equal(rig_word(v->gpr[RSP]), CODE + 1);
	assert_true(rig_word(v->gpr[RSP] + 16) & FLAG_TF);
	assert_false(v->rflags & FLAG_TF);
	assert_true(v->dr6 & 1 << 14);
	check_branch(0, CODE + 1, HANDLER(1), 0, 0);

	/* A branch: its record, then that of the trap. */
	v->rip = CODE + 1;
	v->rflags |= FLAG_TF;
	rig_step(1);
	check_branch(1, CODE + 1, CODE + 3, 0, 0);
	check_branch(2, CODE + 3, HANDLER(1), 0, 0);

	/* INT3 pushes TF and clears it: no trap. */
	v->rip = CODE + 3;
	v->rflags |= FLAG_TF;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(3));
	assert_int_equal(observer.branches, 4);
}

/* REP STOSB of `count` up to the handler of what `rflags` or an NMI does after its first iteration;
   the RFLAGS that its frame has. */
static uint64_t pushed_after_iteration(unsigned count, uint64_t rflags, bool nmi)
{
	struct vcpu *v = &rig.vcpu;

	observer_begin(NULL);
	RIG_PROGRAM(0xf3, 0xaa);
	rig.memory[RIG_HANDLERS + 2 * 16] = 0x90;
	v->gpr[RDI] = DATA;
	v->gpr[RCX] = count;
	v->rflags |= rflags;
	interp_run(v, 1);
	if (nmi) {
		v->nmi_pending = true;
		interp_run(v, 1);
	}
	assert_int_equal(rig_word(v->gpr[RSP]), count > 1 ? CODE : CODE + 2);
	assert_false(v->rflags & FLAG_RF);
	return rig_word(v->gpr[RSP] + 16);
}

/* SDM Vol 3, 17.3.1.1: of traps and interrupts after any iteration but the last. */
UNIT(rf_is_pushed_between_iterations, .setup_func = observer_begin)
{
	assert_int_equal(pushed_after_iteration(2, FLAG_TF, false), FLAG_FIXED | FLAG_TF | FLAG_RF);
	assert_int_equal(pushed_after_iteration(1, FLAG_TF, false), FLAG_FIXED | FLAG_TF);
	assert_int_equal(pushed_after_iteration(2, 0, true), FLAG_FIXED | FLAG_RF);
	assert_int_equal(pushed_after_iteration(1, 0, true), FLAG_FIXED);
}

/* After the last iteration by ZF as well, and where several pages are written at once. */
UNIT(rf_ends_with_the_repetition, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xf2, 0xae); /* repne scasb */
	v->gpr[RDI] = DATA;
	v->gpr[RCX] = 9;
	v->gpr[RAX] = 0xab;
	rig.memory[RIG_DATA + 1] = 0xab;
	interp_run(v, 1);
	assert_true(v->rflags & FLAG_RF);
	interp_run(v, 1);
	assert_int_equal(v->rip, CODE + 2);
	assert_false(v->rflags & FLAG_RF);

	observer_begin(state);
	RIG_PROGRAM(0xf3, 0xaa, 0xf4);
	v->gpr[RDI] = DATA;
	v->gpr[RCX] = 4 * PAGE;
	interp_run(v, 2);
	assert_int_equal(v->gpr[RCX], 2 * PAGE);
	assert_true(v->rflags & FLAG_RF);
	interp_run(v, 2);
	assert_int_equal(v->gpr[RCX], 0);
	assert_false(v->rflags & FLAG_RF);
}

/* A breakpoint on a repeated instruction is met once, and pushes RF as it is: its handler sets it.
 */
UNIT(breakpoint_leaves_rf_to_its_handler, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xf3, 0xaa, 0xf4);
	rig.memory[RIG_HANDLERS + 1 * 16] = 0x90;
	v->gpr[RDI] = DATA;
	v->gpr[RCX] = 3;
	v->dr[0] = CODE;
	v->dr7 = 0x400 | 1 << 1;
	interp_run(v, 1);
	assert_int_equal(v->rip, HANDLER(1) + 1);
	assert_int_equal(rig_word(v->gpr[RSP]), CODE);
	assert_int_equal(rig_word(v->gpr[RSP] + 16), FLAG_FIXED);
	v->rip = CODE;
	v->rflags |= FLAG_RF;
	assert_int_equal(interp_run(v, 10), INTERP_HALTED);
	assert_int_equal(observer.branches, 1);

	/* DR7.GD is a fault as any other. */
	observer_begin(state);
	RIG_PROGRAM(0x0f, 0x21, 0xf0); /* mov rax, dr6 */
	v->dr7 = 0x400 | DR7_GD;
	interp_run(v, 1);
	assert_int_equal(v->rip, HANDLER(1));
	assert_int_equal(rig_word(v->gpr[RSP] + 16), FLAG_FIXED | FLAG_RF);
}

UNIT(mov_ss_holds_off_trap_and_nmi, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x8e, 0xd0, 0x90, 0x90); /* mov ss, eax; nop; nop */
	v->gpr[RAX] = RIG_KERNEL_SS;
	v->rflags |= FLAG_TF;
	interp_run(v, 1);
	assert_int_equal(v->rip, CODE + 2);
	v->nmi_pending = true;
	interp_run(v, 1);
	/* The trap after the NOP is first, then the NMI in front of its handler. */
	assert_int_equal(observer.branches, 2);
	check_branch(0, CODE + 3, HANDLER(1), 0, 0);
	check_branch(1, HANDLER(1), HANDLER(2), 0, 0);
}

UNIT(int1_takes_along_what_mov_ss_put_off, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x8e, 0x13, 0xf1); /* mov ss, [rbx]; int1 */
	rig_code(RIG_HANDLERS + 16, "\x90\x90", 2);
	v->gpr[RBX] = DATA;
	*(uint16_t *)(uintptr_t)DATA = RIG_KERNEL_SS;
	v->dr[0] = DATA;
	v->dr7 = 0x400 | 1 << 1 | 3 << 16 | 1 << 18; /* accesses of 2 bytes */
	interp_run(v, 1);
	assert_int_equal(v->rip, CODE + 2);
	interp_run(v, 1);
	assert_int_equal(v->rip, HANDLER(1));
	assert_int_equal(rig_word(v->gpr[RSP]), CODE + 3);
	assert_int_equal(v->dr6 & 0xf, 1);
	interp_run(v, 1);
	assert_int_equal(v->rip, HANDLER(1) + 1);
	assert_int_equal(observer.branches, 1);
}

UNIT(sti_shadow_then_poll, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xfb, 0x90, 0x90, 0x90);
	assert_int_equal(interp_run(v, 100), INTERP_BUDGET);
	assert_int_equal(v->rip, CODE + 2);
	assert_false(v->interrupt_shadow);
	v->rip = CODE;
	v->rflags = FLAG_FIXED;
	interp_run(v, 1);
	assert_true(v->interrupt_shadow);
}

UNIT(halt_stops, .setup_func = observer_begin)
{
	RIG_PROGRAM(0xf4);
	assert_int_equal(interp_run(&rig.vcpu, 100), INTERP_HALTED);
	assert_int_equal(rig.vcpu.rip, CODE + 1);
	assert_int_equal(observer.branches, 0);
}
