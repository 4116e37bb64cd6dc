// SPDX-License-Identifier: MIT
/* Near branches and software interrupts. A branch to where no code can be faults at the branch. */
#include "monitor/interp/control.h"
#include "monitor/interp/debug.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/template.h"

/* A conditional branch was not taken: the last act of its handler. */
TEMPLATE void fall_through(struct vcpu *vcpu, const struct insn *i)
{
	if (__builtin_expect(vcpu->observed & OBSERVERS_OF_NOT_TAKEN, 0))
		saw_not_taken(vcpu, i);
	else
		next(vcpu, i);
}

/* `wide`: 64-bit mode. */
TEMPLATE void check_target(struct vcpu *vcpu, const struct insn *i, uint64_t target, bool wide)
{
	if (__builtin_expect(wide ? !canonical(target) : target > vcpu->segment[CS].limit, 0))
		general_protection(vcpu, i);
}

/* A branch to `target` was taken: the last act of a handler. */
TEMPLATE void jump(struct vcpu *vcpu, const struct insn *i, uint64_t target, bool wide)
{
	if (wide)
		saw_jump(vcpu, i, target);
	else
		jump_slowly(vcpu, i, target);
}

/*
 * The decoder chooses between two handlers of a branch: the first for 64-bit mode and, if it is
 * relative, a target that is canonical.
 */
HOT static void jmp(struct vcpu *vcpu, const struct insn *i)
{
	jump(vcpu, i, i->immediate, true);
}

static void jmp_checked(struct vcpu *vcpu, const struct insn *i)
{
	bool wide = in_64_bit_mode(vcpu);

	check_target(vcpu, i, i->immediate, wide);
	jump(vcpu, i, i->immediate, wide);
}
handler *const run_jmp[2] = {jmp, jmp_checked};

TEMPLATE void jcc(struct vcpu *vcpu, const struct insn *i, unsigned code, handler *taken)
{
	if (condition(vcpu->rflags, code))
		taken(vcpu, i);
	else
		fall_through(vcpu, i);
}

/* jcc0 to jcc15, by the low four bits of the opcode. */
#define JCC(code)                                                                                  \
	HOT static void jcc##code(struct vcpu *vcpu, const struct insn *i)                         \
	{                                                                                          \
		jcc(vcpu, i, code, jmp);                                                           \
	}

JCC(0)
JCC(1)
JCC(2)
JCC(3)
JCC(4)
JCC(5)
JCC(6)
JCC(7)
JCC(8)
JCC(9)
JCC(10)
JCC(11)
JCC(12)
JCC(13)
JCC(14)
JCC(15)

static void jcc_checked(struct vcpu *vcpu, const struct insn *i)
{
	jcc(vcpu, i, i->opcode & 15, jmp_checked);
}

handler *const run_jcc[17] = {jcc0, jcc1,  jcc2,  jcc3,	 jcc4,	jcc5,  jcc6,  jcc7,	  jcc8,
			      jcc9, jcc10, jcc11, jcc12, jcc13, jcc14, jcc15, jcc_checked};

static inline uint64_t target_operand(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = branch_size(vcpu, i);
	uint64_t target = i->memory ? load(vcpu, i, size) : get_register(vcpu, i->reg, size);

	check_target(vcpu, i, target, in_64_bit_mode(vcpu));
	return target;
}

void jmp_operand(struct vcpu *vcpu, const struct insn *i)
{
	jump(vcpu, i, target_operand(vcpu, i), in_64_bit_mode(vcpu));
}

/* Pushes the RIP after `i`; a fault is one of the stack where i->segment is SS. */
TEMPLATE void push_next(struct vcpu *vcpu, const struct insn *i, bool wide)
{
	unsigned size = wide ? 8 : i->size;
	uint64_t rsp = vcpu->gpr[RSP] - size;
	uint64_t linear = wide ? rsp : stack_linear(vcpu, i, rsp, size);
	void *at = write_at(vcpu, i, linear, size);

	put(at, insn_next(i), size);
	written(vcpu, at);
	if (wide)
		vcpu->gpr[RSP] = rsp;
	else
		set_stack_pointer_outside_64(vcpu, rsp);
}

HOT static void call(struct vcpu *vcpu, const struct insn *i)
{
	push_next(vcpu, i, true);
	jump(vcpu, i, i->immediate, true);
}

static void call_checked(struct vcpu *vcpu, const struct insn *i)
{
	bool wide = in_64_bit_mode(vcpu);

	check_target(vcpu, i, i->immediate, wide);
	push_next(vcpu, i, wide);
	jump(vcpu, i, i->immediate, wide);
}
handler *const run_call[2] = {call, call_checked};

/* Apart from call_operand(), whose last act is no tail call while `stack` is there. */
static __attribute__((noinline)) void push_behind_operand(struct vcpu *vcpu, const struct insn *i)
{
	struct insn stack = *i;

	stack.segment = SS;
	push_next(vcpu, &stack, in_64_bit_mode(vcpu));
}

void call_operand(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t target = target_operand(vcpu, i);

	push_behind_operand(vcpu, i);
	jump(vcpu, i, target, in_64_bit_mode(vcpu));
}

TEMPLATE void return_from(struct vcpu *vcpu, const struct insn *i, bool wide)
{
	unsigned size = wide ? 8 : i->size;
	uint64_t rsp = vcpu->gpr[RSP];
	uint64_t linear = wide ? rsp : stack_linear(vcpu, i, rsp, size);
	uint64_t target = get(read_at(vcpu, i, linear, size), size);

	check_target(vcpu, i, target, wide);
	rsp += size + i->immediate;
	if (wide)
		vcpu->gpr[RSP] = rsp;
	else
		set_stack_pointer_outside_64(vcpu, rsp);
	jump(vcpu, i, target, wide);
}

HOT static void ret(struct vcpu *vcpu, const struct insn *i)
{
	return_from(vcpu, i, true);
}

static void ret_outside_64(struct vcpu *vcpu, const struct insn *i)
{
	return_from(vcpu, i, false);
}
handler *const run_ret[2] = {ret, ret_outside_64};

static uint64_t counter(const struct vcpu *vcpu, const struct insn *i)
{
	return get_register(vcpu, RCX * 8, i->address_size);
}

/* E0 LOOPNE, E1 LOOPE, E2 LOOP */
void loop_while(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t count = counter(vcpu, i) - 1;
	bool zf = vcpu->rflags & FLAG_ZF;
	unsigned width = i->address_size;
	bool again = low_bytes(count, width) && (i->opcode == 0xe2 || zf == (i->opcode & 1));

	if (again)
		check_target(vcpu, i, i->immediate, in_64_bit_mode(vcpu));
	set_register(vcpu, RCX * 8, count, width);
	if (again)
		jump(vcpu, i, i->immediate, in_64_bit_mode(vcpu));
	else
		fall_through(vcpu, i);
}

void jump_if_rcx_zero(struct vcpu *vcpu, const struct insn *i)
{
	if (counter(vcpu, i)) {
		fall_through(vcpu, i);
		return;
	}
	check_target(vcpu, i, i->immediate, in_64_bit_mode(vcpu));
	jump(vcpu, i, i->immediate, in_64_bit_mode(vcpu));
}

static void interrupt(struct vcpu *vcpu, const struct insn *i, enum event_kind kind, uint8_t vector)
{
	event_deliver(vcpu, &(struct event){.kind = kind,
					    .vector = vector,
					    .return_rip = insn_next(i),
					    .from = i->rip});
}

void int3(struct vcpu *vcpu, const struct insn *i)
{
	interrupt(vcpu, i, EVENT_SOFTWARE, VECTOR_BP);
}

/* INT1: no DPL check (SDM Vol 2, INT n). It is a #DB: a breakpoint that MOV SS put off goes with it
   (SDM Vol 3, 6.8.3). */
void int1(struct vcpu *vcpu, const struct insn *i)
{
	debug_merge(vcpu);
	interrupt(vcpu, i, EVENT_EXCEPTION, VECTOR_DB);
}

void into(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->rflags & FLAG_OF)
		interrupt(vcpu, i, EVENT_SOFTWARE, VECTOR_OF);
	else
		leave(vcpu, i);
}

void int_n(struct vcpu *vcpu, const struct insn *i)
{
	if (!(vcpu->cr0 & CR0_PE) && platform_bios(vcpu, (uint8_t)i->immediate))
		leave(vcpu, i);
	else
		interrupt(vcpu, i, EVENT_SOFTWARE, (uint8_t)i->immediate);
}
