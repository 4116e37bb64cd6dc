/* SPDX-License-Identifier: MIT */
/*
 * Intel Processor Trace of one virtual processor: SDM Vol 3, chapter 36. The guest is interpreted
 * while TraceEn is set, but for ring 0 where ring 3 alone is traced: the packets of each
 * instruction and event are in memory before the next one begins.
 */
#pragma once

#include "monitor/unit.h"

/* CPUID leaf 14H, subleafs 0 and 1: what a profile's processor has. */
struct pt_enumeration {
	uint32_t eax, ebx, ecx;
	uint32_t eax_1, ebx_1;
	uint8_t ratio;	   /* of TSC to bus clock: CBR packets, MSR_PLATFORM_INFO */
	bool crystal;	   /* CPUID leaf 15H */
	bool suspends_bts; /* 36.3.1.2: LBR and BTS do nothing while TraceEn is set */
	bool xsaves;	   /* its state is component 8 of XSAVES */
};

/* All zero where there is none, or no such subleaf. */
void pt_enumerate(const struct vcpu *vcpu, uint32_t subleaf, uint32_t value[4]);

/* False: #GP(0), nothing changed. */
bool pt_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool pt_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* State component 8: SDM Vol 1, 13.5.6. Nine MSRs; the rest is reserved. */
enum { PT_STATE = 8, PT_STATE_MSRS = 9, PT_STATE_BYTES = 128 };

/* XSAVES at `rip`: the state in `area`, then TraceEn is clear, with all packets in memory. True if
   it was not the initial configuration. */
bool pt_save(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS]);

/* XRSTORS; NULL: to the initial configuration. False: #GP(0), nothing changed. */
bool pt_restore(struct vcpu *vcpu, const uint64_t *area);

/* IA32_PERF_GLOBAL_STATUS.Trace_ToPA_PMI. */
#define PT_STATUS_PMI (1ull << 55)

/* RESET: all zero but what 36.2.7 says. INIT changes no register (table 9-1). */
void pt_power_on(struct vcpu *vcpu);

/* Take the reports of saw_retired(), saw_event() and saw_cr3() while OBSERVER_FLOW is set. */
void pt_retired(struct vcpu *vcpu, const struct retired *retired);
void pt_event(struct vcpu *vcpu, const struct branch *event);
void pt_cr3(struct vcpu *vcpu);

/* As struct unit has them. */
unsigned pt_levels(const struct vcpu *vcpu);
bool pt_branches_alone(struct vcpu *vcpu);

/*
 * The short way of near branches, which does what pt_retired() does for most of them. No rule has a
 * part in them while `tnt_end` is not 0, and nothing is due but bytes while there is `room`.
 */

/* The stack of returns: SDM Vol 3, 36.4.2.2. The 65th call drops the oldest. */
static inline void pt_add_call(struct pt_state *pt, uint64_t next)
{
	pt->returns[pt->return_top++ % PT_RETURNS] = next;
	if (pt->return_count < PT_RETURNS)
		pt->return_count++;
}

static inline bool pt_returns_to(const struct pt_state *pt, uint64_t ip)
{
	return pt->return_count && pt->returns[(pt->return_top - 1) % PT_RETURNS] == ip;
}

static inline void pt_drop_call(struct pt_state *pt)
{
	pt->return_top--;
	pt->return_count--;
}

static inline void pt_forget_returns(struct pt_state *pt)
{
	pt->return_count = 0;
}

/* IPBytes, half the bytes of `ip` that follow the one with it: table 36-18. */
static inline unsigned pt_ip_bytes(uint64_t ip, uint64_t last)
{
	return ip >> 16 == last >> 16 ? 1 : ip >> 32 == last >> 32 ? 2 : 3;
}

/* Bytes were stored for which there was room, up to `to`. */
static inline void pt_stored(struct pt_state *pt, uint8_t *to)
{
	uint32_t count = (uint32_t)(to - pt->to);

	pt->to = to;
	pt->room -= count;
	pt->packet_bytes += count;
	pt->output_mask_ptrs += (uint64_t)count << PT_OFFSET_SHIFT;
}

/* False, of all these: nothing was done, the branch is to be reported. */
static inline bool pt_bit_quickly(struct pt_state *pt, bool taken)
{
	unsigned tnt = (unsigned)pt->tnt << 1 | taken;

	if (tnt >= pt->tnt_end) {
		if (!pt->tnt_end || !pt->room)
			return false;
		*pt->to = (uint8_t)(tnt << 1);
		pt_stored(pt, pt->to + 1);
		tnt = PT_TNT_NONE;
	}
	pt->tnt = tnt;
	return true;
}

static inline bool pt_tip_quickly(struct pt_state *pt, uint64_t ip)
{
	unsigned ip_bytes = pt_ip_bytes(ip, pt->last_ip);
	uint8_t *to = pt->to;

	if (!pt->tnt_end || pt->room < 1 + PT_IP_PACKET_BYTES)
		return false;
	pt->last_ip = ip;
	if (pt->tnt != PT_TNT_NONE)
		*to++ = (uint8_t)(pt->tnt << 1);
	*to++ = (uint8_t)(PT_TIP | ip_bytes << PT_IP_BYTES_SHIFT);
	for (; ip_bytes; ip_bytes--, to += 2, ip >>= 16)
		__builtin_memcpy(to, &ip, 2);
	pt_stored(pt, to);
	pt->tnt = PT_TNT_NONE;
	return true;
}

/* A branch that has no condition was taken, to `to`; `next` is the instruction after it. First
   those without TIP. */
static inline bool pt_jump_quickly(struct pt_state *pt, unsigned kind, uint64_t next, uint64_t to)
{
	if (kind & RETIRED_RETURN) {
		if (!pt_returns_to(pt, to) || !pt_bit_quickly(pt, true))
			return false;
		pt_drop_call(pt);
		return true;
	}
	if (!pt->tnt_end || kind & RETIRED_INDIRECT)
		return false;
	if (kind & RETIRED_CALL && to != next)
		pt_add_call(pt, next);
	return true;
}

/* Then the others. */
static inline bool pt_indirect_quickly(struct pt_state *pt, unsigned kind, uint64_t next,
				       uint64_t to)
{
	if (!(kind & (RETIRED_RETURN | RETIRED_INDIRECT)) || !pt_tip_quickly(pt, to))
		return false;
	if (kind & RETIRED_RETURN)
		pt_forget_returns(pt);
	else if (kind & RETIRED_CALL)
		pt_add_call(pt, next);
	return true;
}

/* The bit of CPUID.7:EBX. */
enum { LEAF_7_EBX_PT = 1 << 25 };
