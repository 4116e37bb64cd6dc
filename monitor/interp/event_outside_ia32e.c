// SPDX-License-Identifier: MIT
/* Interrupts and exceptions in real-address mode and protected mode (SDM Vol 3, 6.12 and 20.1.4).
 */
#include "monitor/interp/control.h"
#include "monitor/interp/event.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

enum { TASK_GATE = 5, GATE_TYPE = 0x1f, GATE_OF_32 = 8, GATE_IS_TRAP = 1 };
enum { TSS_IS_32 = 8, WORDS = 6 };

/* Where a handler's frame goes. */
struct stack {
	struct segment ss;
	uint64_t rsp;
};

/* Pushes `count` words of `bytes` bytes, of which the first is to be on top. */
static bool push(struct vcpu *vcpu, struct stack *stack, const uint32_t *words, unsigned count,
		 unsigned bytes, unsigned cpl, struct fault *fault)
{
	uint64_t mask = stack->ss.attributes & SEGMENT_DB ? 0xffffffff : 0xffff;
	uint64_t rsp = (stack->rsp - count * bytes) & mask;
	uint8_t frame[WORDS * 4];

	for (unsigned n = 0; n < count; n++)
		put(frame + n * bytes, words[n], bytes);
	if (!segment_covers(&stack->ss, rsp, count * bytes))
		return refuse(fault, VECTOR_SS, 0);
	stack->rsp = (stack->rsp & ~mask) | rsp;
	return system_write(vcpu, (uint32_t)(stack->ss.base + rsp), frame, count * bytes,
			    cpl == 3 ? ACCESS_USER : 0, fault);
}

static bool deliver_real(struct vcpu *vcpu, const struct event *event, struct fault *fault)
{
	struct stack stack = {vcpu->segment[SS], vcpu->gpr[RSP]};
	uint32_t frame[3] = {(uint16_t)event->return_rip, vcpu->segment[CS].selector,
			     (uint16_t)vcpu->rflags};
	uint32_t entry;

	if (event->vector * 4u + 3 > vcpu->idtr.limit)
		return refuse(fault, VECTOR_GP, 0);
	if (!system_read(vcpu, vcpu->idtr.base + event->vector * 4u, &entry, 4, fault) ||
	    !push(vcpu, &stack, frame, 3, 2, 0, fault))
		return false;
	vcpu->gpr[RSP] = stack.rsp;
	vcpu->segment[CS].selector = (uint16_t)(entry >> 16);
	vcpu->segment[CS].base = entry >> 16 << 4;
	vcpu->rip = entry & 0xffff;
	vcpu->rflags &= ~(uint64_t)(FLAG_TF | FLAG_IF | FLAG_RF | FLAG_AC);
	return true;
}

static bool read_gate(struct vcpu *vcpu, const struct event *event, uint32_t gate[2],
		      struct fault *fault)
{
	struct fault about = {
		.vector = VECTOR_GP, .has_error = true, .error = event->vector * 8u + 2};
	unsigned offset = event->vector * 8u, type;

	*fault = about;
	if (offset + 7 > vcpu->idtr.limit)
		return false;
	if (!system_read(vcpu, vcpu->idtr.base + offset, gate, 8, fault))
		return false;
	*fault = about;
	type = gate[1] >> 8 & GATE_TYPE;
	if (type == TASK_GATE)
		platform_stop("task gates are not provided while branches are traced");
	if ((type & ~(unsigned)(GATE_OF_32 | GATE_IS_TRAP)) != 6)
		return false;
	if (event->kind == EVENT_SOFTWARE && (gate[1] >> 13 & 3) < vcpu->cpl)
		return false;
	fault->vector = VECTOR_NP;
	return gate[1] >> 15 & 1;
}

/* SS and ESP for `cpl` from the TSS. */
static bool read_stack(struct vcpu *vcpu, unsigned cpl, struct stack *stack, struct fault *fault)
{
	unsigned bytes = vcpu->tr.attributes & TSS_IS_32 ? 4 : 2;
	unsigned offset = bytes + cpl * 2 * bytes;
	uint8_t words[8] = {0};

	if (offset + 2 * bytes - 1 > vcpu->tr.limit)
		return refuse(fault, VECTOR_TS, vcpu->tr.selector);
	if (!system_read(vcpu, vcpu->tr.base + offset, words, 2 * bytes, fault))
		return false;
	stack->rsp = get(words, bytes);
	if (read_stack_segment(vcpu, (uint16_t)get(words + bytes, 2), cpl, false, &stack->ss,
			       fault))
		return true;
	if (fault->vector == VECTOR_GP)
		fault->vector = VECTOR_TS;
	return false;
}

static bool deliver_protected(struct vcpu *vcpu, const struct event *event, struct fault *fault)
{
	struct stack stack = {vcpu->segment[SS], vcpu->gpr[RSP]};
	uint64_t rflags = vcpu->rflags | (is_fault(event) ? FLAG_RF : 0);
	struct segment cs;
	uint32_t gate[2];
	unsigned cpl, first = event->has_error ? 0 : 1, last = 4;

	if (!read_gate(vcpu, event, gate, fault) ||
	    !read_handler_segment(vcpu, (uint16_t)(gate[0] >> 16), &cs, &cpl, fault))
		return false;
	if (cpl != vcpu->cpl) {
		last = WORDS;
		if (!read_stack(vcpu, cpl, &stack, fault))
			return false;
	}

	bool wide = gate[1] >> 8 & GATE_OF_32;
	uint32_t rip = (gate[0] & 0xffff) | (wide ? gate[1] & 0xffff0000 : 0);
	uint32_t frame[WORDS] = {
		event->error,	  (uint32_t)event->return_rip, vcpu->segment[CS].selector,
		(uint32_t)rflags, (uint32_t)vcpu->gpr[RSP],    vcpu->segment[SS].selector};

	if (rip > cs.limit)
		return refuse(fault, VECTOR_GP, 0);
	if (!push(vcpu, &stack, frame + first, last - first, wide ? 4 : 2, cpl, fault))
		return false;
	vcpu->segment[SS] = stack.ss;
	vcpu->gpr[RSP] = stack.rsp;
	vcpu->segment[CS] = cs;
	vcpu->cpl = (uint8_t)cpl;
	vcpu->rip = rip;
	vcpu->rflags &= ~(uint64_t)(FLAG_TF | FLAG_NT | FLAG_RF | FLAG_VM);
	if (!(gate[1] >> 8 & GATE_IS_TRAP))
		vcpu->rflags &= ~(uint64_t)FLAG_IF;
	return true;
}

bool deliver_outside_ia32e(struct vcpu *vcpu, const struct event *event, struct fault *fault)
{
	return vcpu->cr0 & CR0_PE ? deliver_protected(vcpu, event, fault)
				  : deliver_real(vcpu, event, fault);
}
