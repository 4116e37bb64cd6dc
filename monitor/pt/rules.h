/* SPDX-License-Identifier: MIT */
/* The rules of Intel PT as a table of hooks, like monitor/ds/rules.h; and the registers and packets
   that they are about. */
#pragma once

#include "monitor/pt/behaviour.h"
#include "monitor/pt/pt.h"

/* SDM Vol 3, tables 36-6 to 36-11. */
enum pt_msr {
	MSR_RTIT_OUTPUT_BASE = 0x560,
	MSR_RTIT_OUTPUT_MASK_PTRS = 0x561,
	MSR_RTIT_CTL = 0x570,
	MSR_RTIT_STATUS = 0x571,
	MSR_RTIT_CR3_MATCH = 0x572,
	MSR_RTIT_ADDR0_A = 0x580,
};

/* IA32_RTIT_CTL: table 36-6. */
#define CTL_TRACE_EN	   (1ull << 0)
#define CTL_CYC_EN	   (1ull << 1)
#define CTL_OS		   (1ull << 2)
#define CTL_USER	   (1ull << 3)
#define CTL_CR3_FILTER	   (1ull << 7)
#define CTL_TOPA	   (1ull << 8)
#define CTL_TSC_EN	   (1ull << 10)
#define CTL_DIS_RETC	   (1ull << 11)
#define CTL_BRANCH_EN	   (1ull << 13)
#define CTL_CYC_THRESHOLD  (0xfull << 19)
#define CTL_PSB_FREQUENCY  (0xfull << 24)
#define CTL_ADDR_CFGS	   (0xffffull << 32)
#define CTL_ANY_FILTER	   (0x1111ull << 32) /* of ADDRn_CFG, ADDR_FILTER alone has bit 0 */
#define CTL_ADDR_CFG(c, n) ((unsigned)((c) >> (32 + 4 * (n)) & 0xf))
enum { ADDR_FILTER = 1, ADDR_STOP = 2 };

/* IA32_RTIT_STATUS: table 36-7. */
#define STATUS_FILTER_EN    (1ull << 0)
#define STATUS_CONTEXT_EN   (1ull << 1)
#define STATUS_TRIGGER_EN   (1ull << 2)
#define STATUS_ERROR	    (1ull << 4)
#define STATUS_STOPPED	    (1ull << 5)
#define STATUS_BYTES_SHIFT  32
#define STATUS_PACKET_BYTES (0x1ffffull << STATUS_BYTES_SHIFT)

/* IA32_RTIT_OUTPUT_MASK_PTRS: table 36-9. */
#define MASK_PTRS_FIXED 0x7full

/* CPUID.(14H,0): table 36-11. */
#define EBX_CR3_FILTER	 (1u << 0)
#define EBX_PSB_CYC	 (1u << 1)
#define ECX_TOPA	 (1u << 0)
#define ECX_TOPA_MANY	 (1u << 1)
#define ECX_SINGLE_RANGE (1u << 2)

/* The packets with an IP, by the low five bits of their first byte: table 36-17. */
enum ip_packet { TIP = PT_TIP, TIP_PGE = 0x11, TIP_PGD = 0x01, FUP = 0x1d };

struct pt_rules {
	bool (*read_msr)(struct vcpu *vcpu, uint32_t index, uint64_t *value);
	bool (*write_msr)(struct vcpu *vcpu, uint32_t index, uint64_t value);
	/* XSAVES and XRSTORS: as pt_save() and pt_restore(). */
	bool (*save)(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS]);
	bool (*restore)(struct vcpu *vcpu, const uint64_t *area);
	/* ContextEn at the processor's CPL and CR3, but for TriggerEn: 36.2.5.3. */
	bool (*context)(const struct vcpu *vcpu);
	/* Whether an instruction at `ip` passes, or stops, by the address ranges: 36.2.4.3. */
	bool (*filter)(const struct vcpu *vcpu, uint64_t ip);
	bool (*stop)(const struct vcpu *vcpu, uint64_t ip);
	/* Packets: 36.4.2. `with_ip`: false: the IP is suppressed. */
	void (*tnt)(struct vcpu *vcpu, bool taken);
	void (*ip)(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip);
	void (*mode)(struct vcpu *vcpu);
	void (*pip)(struct vcpu *vcpu);
	/* PSB to PSBEND, with the address of the next instruction. */
	void (*sync)(struct vcpu *vcpu, uint64_t ip);
	/* A near CALL is to return to `ip`; a near RET goes to `ip`: true if it is compressed. */
	void (*call)(struct vcpu *vcpu, uint64_t ip);
	bool (*returns)(struct vcpu *vcpu, uint64_t ip);
	/* The emission of an event or of a far transfer, its enables before and now. */
	void (*event)(struct vcpu *vcpu, uint64_t from, uint64_t to, bool was_enabled);
	void (*far)(struct vcpu *vcpu, uint64_t to, bool was_enabled);
	/* Bytes to memory: 36.2.6. */
	void (*output)(struct vcpu *vcpu, const uint8_t *bytes, unsigned count);
	/* What a ToPA entry does when its region is full. */
	void (*region_full)(struct vcpu *vcpu, uint64_t entry);
	/* A hypervisor takes over; NULL: nothing changes. */
	void (*exit)(struct vcpu *vcpu);
};
extern const struct pt_rules pt_clean;
extern const struct unit pt_unit;

/* For DEFECT(): `hook` of struct pt_rules is `function`. */
#define BREAKS_PT(hook, function) silicon->pt.hook = (function)

bool pt_rule_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool pt_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
bool pt_rule_save(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS]);
bool pt_rule_restore(struct vcpu *vcpu, const uint64_t *area);
bool pt_rule_context(const struct vcpu *vcpu);
bool pt_rule_filter(const struct vcpu *vcpu, uint64_t ip);
bool pt_rule_stop(const struct vcpu *vcpu, uint64_t ip);
void pt_rule_tnt(struct vcpu *vcpu, bool taken);
void pt_rule_ip(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip);
void pt_rule_mode(struct vcpu *vcpu);
void pt_rule_pip(struct vcpu *vcpu);
void pt_rule_sync(struct vcpu *vcpu, uint64_t ip);
void pt_rule_call(struct vcpu *vcpu, uint64_t ip);
bool pt_rule_returns(struct vcpu *vcpu, uint64_t ip);
void pt_rule_event(struct vcpu *vcpu, uint64_t from, uint64_t to, bool was_enabled);
void pt_rule_far(struct vcpu *vcpu, uint64_t to, bool was_enabled);
void pt_rule_output(struct vcpu *vcpu, const uint8_t *bytes, unsigned count);
void pt_rule_region_full(struct vcpu *vcpu, uint64_t entry);

static inline unsigned pt_least(unsigned one, uint64_t other)
{
	return one < other ? one : (unsigned)other;
}

/* TriggerEn: 36.2.5.2. */
static inline bool pt_triggers(const struct vcpu *vcpu)
{
	return vcpu->pt.ctl & CTL_TRACE_EN && !(vcpu->pt.status & (STATUS_ERROR | STATUS_STOPPED));
}

/* The bits of CR3 that are compared and reported: 11:5 with PAE paging alone (36.2.4.2, 36.4.2.7).
 */
static inline uint64_t pt_cr3_bits(const struct vcpu *vcpu)
{
	return vcpu->cr4 & CR4_PAE && !(vcpu->efer & EFER_LMA) ? ~0x1full : ~0xfffull;
}

/* Packets of packets.c without a rule of their own. */
void pt_flush_tnt(struct vcpu *vcpu);
void pt_time(struct vcpu *vcpu); /* CBR, and TSC where TSCEn is set */
void pt_trace_stop(struct vcpu *vcpu);
void pt_overflow(struct vcpu *vcpu, uint64_t ip);
/* What the choices of this silicon make of the encoder: where a trace begins. */
void pt_encode(struct vcpu *vcpu);
/* A TIP to `ip` that may wait for TNT. */
void pt_tip(struct vcpu *vcpu, uint64_t ip);

/* TraceEn is clear from the instruction at `from` on: the last packets. */
void pt_disable(struct vcpu *vcpu, uint64_t from);

/* Whether the output is well described: Error is set where it is not, 36.2.6.2. */
void pt_check_output(struct vcpu *vcpu);
