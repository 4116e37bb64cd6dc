// SPDX-License-Identifier: MIT
/* Delivery of interrupts and exceptions in IA-32e mode (SDM Vol 3, 6.13 to 6.15). */
#include "monitor/interp/event.h"
#include "monitor/interp/debug.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

struct gate {
	uint16_t offset_low;
	uint16_t selector;
	uint8_t ist;
	uint8_t type;
	uint16_t offset_middle;
	uint32_t offset_high;
	uint32_t reserved;
};
_Static_assert(sizeof(struct gate) == 16, "an IDT entry of IA-32e mode");

enum { GATE_INTERRUPT = 14, GATE_TRAP = 15, TSS_RSP0 = 4, TSS_IST1 = 36 };

static bool read_gate(struct vcpu *vcpu, const struct event *event, struct gate *gate,
		      struct fault *fault)
{
	unsigned offset = event->vector * sizeof(*gate);
	struct fault about = {
		.vector = VECTOR_GP, .has_error = true, .error = event->vector * 8u + 2};

	*fault = about;
	if (offset + sizeof(*gate) - 1 > vcpu->idtr.limit)
		return false;
	if (!system_read(vcpu, vcpu->idtr.base + offset, gate, sizeof(*gate), fault))
		return false;
	*fault = about;
	if ((gate->type & 0x1f) != GATE_INTERRUPT && (gate->type & 0x1f) != GATE_TRAP)
		return false;
	if (event->kind == EVENT_SOFTWARE && (gate->type >> 5 & 3) < vcpu->cpl)
		return false;
	fault->vector = VECTOR_NP;
	return gate->type & SEGMENT_P;
}

bool read_handler_segment(struct vcpu *vcpu, uint16_t selector, struct segment *cs, unsigned *cpl,
			  struct fault *fault)
{
	if (null_selector(selector))
		return refuse(fault, VECTOR_GP, 0);
	if (!read_descriptor(vcpu, selector, cs, fault))
		return false;
	if (!(cs->attributes & SEGMENT_S) || !(cs->attributes & TYPE_CODE) || dpl(cs) > vcpu->cpl)
		return refuse(fault, VECTOR_GP, selector);
	if (!(cs->attributes & SEGMENT_P))
		return refuse(fault, VECTOR_NP, selector);
	if (vcpu->efer & EFER_LMA && (cs->attributes & (SEGMENT_L | SEGMENT_DB)) != SEGMENT_L)
		return refuse(fault, VECTOR_GP, selector);
	*cpl = cs->attributes & TYPE_CONFORMING ? vcpu->cpl : dpl(cs);
	if (!mark_descriptor(vcpu, cs, TYPE_ACCESSED, fault))
		return false;
	cs->attributes |= TYPE_ACCESSED;
	cs->selector = (uint16_t)((selector & ~3u) | *cpl);
	return true;
}

/* RSP for the handler, before alignment. */
static bool read_stack(struct vcpu *vcpu, unsigned ist, unsigned cpl, uint64_t *rsp,
		       struct fault *fault)
{
	unsigned offset = ist ? TSS_IST1 + (ist - 1) * 8 : TSS_RSP0 + cpl * 8;

	*rsp = vcpu->gpr[RSP];
	if (!ist && cpl == vcpu->cpl)
		return true;
	if (offset + 7 > vcpu->tr.limit)
		return refuse(fault, VECTOR_TS, vcpu->tr.selector);
	return system_read(vcpu, vcpu->tr.base + offset, rsp, 8, fault);
}

bool is_fault(const struct event *event)
{
	const uint32_t faults = 1u << VECTOR_DE | 1u << 5 | 1u << VECTOR_UD | 1u << VECTOR_NM |
				1u << VECTOR_TS | 1u << VECTOR_NP | 1u << VECTOR_SS |
				1u << VECTOR_GP | 1u << VECTOR_PF | 1u << VECTOR_MF |
				1u << VECTOR_AC | 1u << 19 | 1u << 21;

	return event->kind == EVENT_EXCEPTION && event->vector < 32 && faults >> event->vector & 1;
}

static bool push_frame(struct vcpu *vcpu, const struct event *event, unsigned cpl, uint64_t *rsp,
		       struct fault *fault)
{
	uint64_t rflags = vcpu->rflags | (is_fault(event) ? FLAG_RF : 0);
	uint64_t frame[6] = {event->error, event->return_rip, vcpu->segment[CS].selector,
			     rflags,	   vcpu->gpr[RSP],    vcpu->segment[SS].selector};
	unsigned words = event->has_error ? 6 : 5;
	unsigned access = 0;

	if (cpl == 3)
		access = ACCESS_USER;
	else if (cpl == vcpu->cpl && vcpu->rflags & FLAG_AC)
		access = ACCESS_OVERRIDE;
	*rsp = (*rsp & ~15ULL) - words * 8;
	if (system_write(vcpu, *rsp, &frame[6 - words], words * 8, access, fault))
		return true;
	if (fault->vector == VECTOR_GP)
		fault->vector = VECTOR_SS;
	return false;
}

static bool deliver(struct vcpu *vcpu, const struct event *event, struct fault *fault)
{
	struct gate gate;
	struct segment cs;
	unsigned cpl, from_cpl = vcpu->cpl;
	uint64_t rsp;

	if (!(vcpu->efer & EFER_LMA))
		return deliver_outside_ia32e(vcpu, event, fault);
	if (!read_gate(vcpu, event, &gate, fault) ||
	    !read_handler_segment(vcpu, gate.selector, &cs, &cpl, fault) ||
	    !read_stack(vcpu, gate.ist & 7, cpl, &rsp, fault))
		return false;

	uint64_t rip = gate.offset_low | (uint64_t)gate.offset_middle << 16 |
		       (uint64_t)gate.offset_high << 32;

	if (!canonical(rip))
		return refuse(fault, VECTOR_GP, 0);
	if (!push_frame(vcpu, event, cpl, &rsp, fault))
		return false;
	if (cpl != from_cpl)
		vcpu->segment[SS] = (struct segment){.selector = (uint16_t)cpl,
						     .attributes = (uint16_t)(cpl << 5)};
	vcpu->segment[CS] = cs;
	vcpu->cpl = (uint8_t)cpl;
	vcpu->gpr[RSP] = rsp;
	vcpu->rip = rip;
	vcpu->rflags &= ~(uint64_t)(FLAG_TF | FLAG_NT | FLAG_RF | FLAG_VM);
	if ((gate.type & 15) == GATE_INTERRUPT)
		vcpu->rflags &= ~(uint64_t)FLAG_IF;
	return true;
}

/* SDM Vol 3, table 6-5. */
static bool double_fault(const struct event *event, unsigned second)
{
	const uint32_t contributory = 1u << VECTOR_DE | 1u << VECTOR_TS | 1u << VECTOR_NP |
				      1u << VECTOR_SS | 1u << VECTOR_GP;

	if (event->kind != EVENT_EXCEPTION || event->vector >= 32)
		return false;
	if (event->vector == VECTOR_PF)
		return second == VECTOR_PF || contributory >> second & 1;
	return contributory >> event->vector & 1 && contributory >> second & 1;
}

/* Replaces `event` by the one that `fault` makes of it during its delivery. */
static void nest(struct vcpu *vcpu, struct event *event, const struct fault *fault)
{
	bool twice = double_fault(event, fault->vector);
	/* INT n has not been executed then; anything else goes on where it was to return. */
	uint64_t rip = event->kind == EVENT_SOFTWARE ? event->from : event->return_rip;
	uint32_t external = event->kind == EVENT_SOFTWARE ? 0 : 1;

	vcpu->interp->refused = event->kind == EVENT_SOFTWARE;
	if (fault->vector == VECTOR_PF) {
		vcpu->cr2 = fault->address;
		external = 0;
	}
	*event = (struct event){.kind = EVENT_EXCEPTION,
				.vector = twice ? VECTOR_DF : fault->vector,
				.has_error = true,
				.error = twice ? 0 : fault->error | external,
				.return_rip = rip,
				.from = rip};
}

void event_deliver(struct vcpu *vcpu, const struct event *event)
{
	static const enum cause causes[] = {[EVENT_INTERRUPT] = CAUSE_INTERRUPT,
					    [EVENT_NMI] = CAUSE_NMI,
					    [EVENT_EXCEPTION] = CAUSE_EXCEPTION,
					    [EVENT_SOFTWARE] = CAUSE_SOFTWARE_INTERRUPT};
	struct event now = *event;
	struct fault fault;
	unsigned from_cpl = vcpu->cpl;
	uint64_t from_base = vcpu->interp->code_base, from_mask = vcpu->interp->code_mask;

	while (!deliver(vcpu, &now, &fault)) {
		if (now.kind == EVENT_EXCEPTION && now.vector == VECTOR_DF) {
			vcpu->shut_down = true;
			vcpu->hot.attention = true;
			return;
		}
		nest(vcpu, &now, &fault);
	}
	if (event->kind == EVENT_NMI) {
		vcpu->nmi_pending = false;
		vcpu->nmi_blocked = true;
	}
	vcpu->halted = false;
	vcpu->interrupt_shadow = false;
	vcpu->interp->mov_ss = false;
	vcpu->interp->trap = false;
	privilege_changed(vcpu);
	if (now.kind == EVENT_EXCEPTION && now.vector == VECTOR_DB)
		vcpu->dr7 &= ~(uint64_t)DR7_GD;
	vcpu->hot.branched = true;
	saw_event(vcpu, &(struct branch){.from = (from_base + now.from) & from_mask,
					 .to = code_linear(vcpu->interp, vcpu->rip),
					 .from_cpl = from_cpl,
					 .to_cpl = vcpu->cpl,
					 .cause = causes[now.kind],
					 .vector = now.vector,
					 .return_rip = (from_base + now.return_rip) & from_mask});
	if (vcpu->hot.follows && now.kind == EVENT_SOFTWARE)
		far_in_block(vcpu, (from_base + now.from) & from_mask, from_cpl);
}
