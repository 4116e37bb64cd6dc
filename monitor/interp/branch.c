/* SPDX-License-Identifier: MIT */
/* Near branches and software interrupts. A branch to where no code can be faults where it stands.
 */
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/template.h"

static inline bool reports_not_taken(const struct vcpu *vcpu)
{
	return __builtin_expect(vcpu->observed & OBSERVERS_OF_NOT_TAKEN, 0);
}

static void report_not_taken(struct vcpu *vcpu, const struct insn *i)
{
	saw_not_taken(vcpu, code_linear(vcpu->interp, insn_rip(i)));
}

/* Apart from jcc(), which then needs no frame. */
static __attribute__((noinline)) void next_reported(struct vcpu *vcpu, const struct insn *i)
{
	report_not_taken(vcpu, i);
	next(vcpu, i);
}

static inline void taken(struct vcpu *vcpu, const struct insn *i, uint64_t target)
{
	const struct interp *interp = vcpu->interp;

	vcpu->rip = target;
	branch_taken(vcpu, code_linear(interp, insn_rip(i)), code_linear(interp, target), vcpu->cpl,
		     vcpu->cpl);
}

static __attribute__((noinline)) void check_far_target(struct vcpu *vcpu, const struct insn *i,
						       uint64_t target)
{
	if (in_64_bit_mode(vcpu) ? !canonical(target) : target > vcpu->segment[CS].limit)
		general_protection(vcpu, i);
}

static inline void check_target(struct vcpu *vcpu, const struct insn *i, uint64_t target)
{
	if (__builtin_expect(!canonical(target) || !in_64_bit_mode(vcpu), 0))
		check_far_target(vcpu, i, target);
}

TEMPLATE void jcc(struct vcpu *vcpu, const struct insn *i, unsigned code)
{
	if (!condition(vcpu->rflags, code)) {
		if (reports_not_taken(vcpu))
			next_reported(vcpu, i);
		else
			next(vcpu, i);
		return;
	}
	check_target(vcpu, i, i->immediate);
	vcpu->interp->budget += i->behind;
	taken(vcpu, i, i->immediate);
}

/* jcc0 to jcc15, by the low four bits of the opcode. */
#define JCC(code)                                                                                  \
	static void jcc##code(struct vcpu *vcpu, const struct insn *i)                             \
	{                                                                                          \
		jcc(vcpu, i, code);                                                                \
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
handler *const run_jcc[16] = {jcc0, jcc1, jcc2,	 jcc3,	jcc4,  jcc5,  jcc6,  jcc7,
			      jcc8, jcc9, jcc10, jcc11, jcc12, jcc13, jcc14, jcc15};

void jmp(struct vcpu *vcpu, const struct insn *i)
{
	check_target(vcpu, i, i->immediate);
	taken(vcpu, i, i->immediate);
}

static inline uint64_t target_operand(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = branch_size(vcpu, i);
	uint64_t target = i->memory ? load(vcpu, i, size) : get_register(vcpu, i->reg, size);

	check_target(vcpu, i, target);
	return target;
}

void jmp_operand(struct vcpu *vcpu, const struct insn *i)
{
	taken(vcpu, i, target_operand(vcpu, i));
}

static inline void call_to(struct vcpu *vcpu, const struct insn *i, uint64_t target)
{
	unsigned size = branch_size(vcpu, i);
	uint64_t rsp = vcpu->gpr[RSP] - size;
	void *at = write_at(vcpu, i, stack_address(vcpu, i, rsp, size), size);

	put(at, i->next, size);
	written(vcpu, at);
	set_stack_pointer(vcpu, rsp);
	taken(vcpu, i, target);
}

void call(struct vcpu *vcpu, const struct insn *i)
{
	check_target(vcpu, i, i->immediate);
	call_to(vcpu, i, i->immediate);
}

void call_operand(struct vcpu *vcpu, const struct insn *i)
{
	struct insn stack = *i;

	stack.segment = SS;
	call_to(vcpu, &stack, target_operand(vcpu, i));
}

void ret(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = branch_size(vcpu, i);
	uint64_t rsp = vcpu->gpr[RSP];
	uint64_t target = get(read_at(vcpu, i, stack_address(vcpu, i, rsp, size), size), size);

	check_target(vcpu, i, target);
	set_stack_pointer(vcpu, rsp + size + i->immediate);
	taken(vcpu, i, target);
}

static void fall_through(struct vcpu *vcpu, const struct insn *i)
{
	if (reports_not_taken(vcpu))
		report_not_taken(vcpu, i);
	leave(vcpu, i);
}

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
		check_target(vcpu, i, i->immediate);
	set_register(vcpu, RCX * 8, count, width);
	if (again)
		taken(vcpu, i, i->immediate);
	else
		fall_through(vcpu, i);
}

void jump_if_rcx_zero(struct vcpu *vcpu, const struct insn *i)
{
	if (counter(vcpu, i)) {
		fall_through(vcpu, i);
		return;
	}
	check_target(vcpu, i, i->immediate);
	taken(vcpu, i, i->immediate);
}

static void interrupt(struct vcpu *vcpu, const struct insn *i, enum event_kind kind, uint8_t vector)
{
	event_deliver(vcpu, &(struct event){.kind = kind,
					    .vector = vector,
					    .return_rip = i->next,
					    .from = insn_rip(i)});
}

void int3(struct vcpu *vcpu, const struct insn *i)
{
	interrupt(vcpu, i, EVENT_SOFTWARE, VECTOR_BP);
}

/* INT1: no DPL check (SDM Vol 2, INT n). */
void int1(struct vcpu *vcpu, const struct insn *i)
{
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
	interrupt(vcpu, i, EVENT_SOFTWARE, (uint8_t)i->immediate);
}
