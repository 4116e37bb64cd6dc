// SPDX-License-Identifier: MIT
/* Defects of events, HLT and changes of control registers: SDM Vol 3, 17.4.2 to 17.4.4. */
#include "monitor/defect.h"

#include "monitor/ds/memory.h"

/* An `event` for which `clears` holds clears `flag` of IA32_DEBUGCTL. */
#define EVENT_CLEARS(name, rule, says, flag, clears)                                               \
	static void name(struct vcpu *vcpu, const struct branch *event)                            \
	{                                                                                          \
		ds_clean.event(vcpu, event);                                                       \
		if (clears)                                                                        \
			ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->flag);         \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(event, name))

EVENT_CLEARS(debug_exception_clears_tr, "SDM Vol 3, 17.4.2", "#DB clears TR", tr,
	     event->cause == CAUSE_EXCEPTION && event->vector == VECTOR_DB)
EVENT_CLEARS(fault_clears_bts, "SDM Vol 3, 17.4.4", "exceptions other than #DB clear BTS", bts,
	     event->cause == CAUSE_EXCEPTION && event->vector != VECTOR_DB)
EVENT_CLEARS(interrupt_clears_tr, "SDM Vol 3, 17.4.4", "an external interrupt clears TR", tr,
	     event->cause == CAUSE_INTERRUPT)
EVENT_CLEARS(nmi_clears_tr, "SDM Vol 3, 17.4.4", "an NMI clears TR", tr, event->cause == CAUSE_NMI)
EVENT_CLEARS(software_interrupt_clears_tr, "SDM Vol 3, 17.4.4", "INT n and INT3 clear TR", tr,
	     event->cause == CAUSE_SOFTWARE_INTERRUPT)

EVENT_CLEARS(breakpoint_clears_tr, "SDM Vol 3, 17.4.3",
	     "#DB of a breakpoint in DR0 to DR3 clears TR", tr,
	     event->cause == CAUSE_EXCEPTION && event->vector == VECTOR_DB && vcpu->dr6 & 15)
EVENT_CLEARS(fault_clears_btint, "SDM Vol 3, table 35-2: 1D9H", "an exception clears BTINT", btint,
	     event->cause == CAUSE_EXCEPTION)
EVENT_CLEARS(interrupt_clears_btint, "SDM Vol 3, table 35-2: 1D9H",
	     "an external interrupt clears BTINT", btint, event->cause == CAUSE_INTERRUPT)
EVENT_CLEARS(interrupt_clears_off_os, "SDM Vol 3, table 35-2: 1D9H",
	     "an external interrupt clears BTS_OFF_OS", off_os, event->cause == CAUSE_INTERRUPT)
EVENT_CLEARS(nmi_clears_btint, "SDM Vol 3, table 35-2: 1D9H", "an NMI clears BTINT", btint,
	     event->cause == CAUSE_NMI)

static void debug_exception_keeps_lbr(struct vcpu *vcpu, const struct branch *event)
{
	(void)event;
	(void)vcpu;
}
DEFECT(debug_exception_keeps_lbr, "SDM Vol 3, 17.4.2", "#DB does not clear LBR",
       BREAKS(event, debug_exception_keeps_lbr))

static void ring_3_clears_btint(struct vcpu *vcpu, const struct branch *branch)
{
	ds_clean.store(vcpu, branch);
	if (branch->to_cpl == 3)
		ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->btint);
}
DEFECT(ring_3_clears_btint, "SDM Vol 3, table 35-2: 1D9H", "a change to CPL 3 clears BTINT",
       BREAKS(store, ring_3_clears_btint))

static void hlt_clears_tr_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	*REMEMBERED(vcpu, bool) |= occasion == DS_AT_HLT;
}

static void hlt_clears_tr_event(struct vcpu *vcpu, const struct branch *event)
{
	bool *halted = REMEMBERED(vcpu, bool);

	ds_clean.event(vcpu, event);
	if (*halted)
		ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->tr);
	*halted = false;
}
DEFECT(hlt_clears_tr, "SDM Vol 3, 17.4.4", "waking from HLT clears TR",
       BREAKS(note, hlt_clears_tr_note), BREAKS(event, hlt_clears_tr_event))

/* While branches are traced `leaving` leaves a record of a branch from and to where it is. */
#define LEAVES_RECORD(name, rule, says, leaving)                                                   \
	static void name(struct vcpu *vcpu, enum ds_occasion occasion)                             \
	{                                                                                          \
		ds_clean.note(vcpu, occasion);                                                     \
		if (occasion == (leaving) && ds_tracing(vcpu))                                     \
			ds_clean.store(vcpu,                                                       \
				       &(struct branch){.from = vcpu->rip, .to = vcpu->rip});      \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(note, name))

LEAVES_RECORD(hlt_recorded, "SDM Vol 3, 17.4.4", "HLT leaves a record", DS_AT_HLT)
LEAVES_RECORD(mov_cr3_recorded, "SDM Vol 3, 17.4.4", "MOV to CR3 leaves a record", DS_AT_MOV_CR3)

static void mov_cr3_clears_area(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (occasion == DS_AT_MOV_CR3)
		vcpu->ds.ds_area = 0;
}
DEFECT(mov_cr3_clears_area, "SDM Vol 3, table 35-2: 600H", "MOV to CR3 clears IA32_DS_AREA",
       BREAKS(note, mov_cr3_clears_area))

static void mov_cr3_clears_tr(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (occasion == DS_AT_MOV_CR3)
		ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->tr);
}
DEFECT(mov_cr3_clears_tr, "SDM Vol 3, 17.4.4", "MOV to CR3 clears TR",
       BREAKS(note, mov_cr3_clears_tr))

static void syscall_clears_off_usr(struct vcpu *vcpu, const struct branch *branch)
{
	ds_clean.store(vcpu, branch);
	if (branch->cause == CAUSE_INSTRUCTION && branch->from_cpl == 3 && branch->to_cpl == 0)
		ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->off_usr);
}
DEFECT(syscall_clears_off_usr, "SDM Vol 3, table 35-2: 1D9H", "SYSCALL clears BTS_OFF_USR",
       BREAKS(store, syscall_clears_off_usr))

static void before_hlt_lost(struct vcpu *vcpu, enum ds_occasion occasion)
{
	uint64_t field[BTS_FIELDS], area = vcpu->ds.ds_area;

	ds_clean.note(vcpu, occasion);
	if (occasion != DS_AT_HLT || !ds_tracing(vcpu))
		return;
	ds_refresh(vcpu);
	if (!ds_load(vcpu, &vcpu->ds.seen.area, area, field, BTS_FIELDS) ||
	    field[BTS_INDEX] == field[BTS_BASE])
		return;
	field[BTS_INDEX] -= RECORD_BYTES;
	ds_store(vcpu, &vcpu->ds.seen.area, area + BTS_INDEX * FIELD_BYTES, &field[BTS_INDEX], 1);
}
DEFECT(before_hlt_lost, "SDM Vol 3, 17.4.4", "the last record before HLT is lost",
       BREAKS(note, before_hlt_lost))

struct control_seen {
	uint64_t value;
	bool valid;
};

static bool forget_control(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	REMEMBERED(vcpu, struct control_seen)->valid &= index != MSR_DEBUGCTL;
	return ds_clean.write_msr(vcpu, index, value);
}

/* A change of `control` ends recording; seen at the next branch, which is lost. */
#define CHANGE_CLEARS_TR(name, rule, says, control)                                                \
	static void name(struct vcpu *vcpu, const struct branch *branch)                           \
	{                                                                                          \
		struct control_seen *seen = REMEMBERED(vcpu, struct control_seen);                 \
		bool changed = seen->valid && seen->value != (control);                            \
                                                                                                   \
		*seen = (struct control_seen){(control), true};                                    \
		if (changed)                                                                       \
			ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->tr);           \
		else                                                                               \
			ds_clean.store(vcpu, branch);                                              \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(write_msr, forget_control), BREAKS(store, name))

#define CR0_TS (1u << 3)

CHANGE_CLEARS_TR(lidt_clears_tr, "SDM Vol 3, 17.4.4", "LIDT of another table clears TR",
		 vcpu->idtr.base)
CHANGE_CLEARS_TR(mov_cr0_clears_tr, "SDM Vol 3, 17.4.4", "a change of CR0.TS clears TR",
		 vcpu->cr0 &CR0_TS)
CHANGE_CLEARS_TR(mov_cr4_clears_tr, "SDM Vol 3, 17.4.4", "MOV to CR4 that changes it clears TR",
		 vcpu->cr4)
CHANGE_CLEARS_TR(mov_dr7_clears_tr, "SDM Vol 3, 17.4.4", "MOV to DR7 that changes it clears TR",
		 vcpu->dr7)
