// SPDX-License-Identifier: MIT
/* Intel Processor Trace: SDM Vol 3, chapter 36. Such a defect is named pt_, and needs pt=on. */
#include "lib/string.h"
#include "monitor/defect.h"

#define PT_DEFECT(name, rule, says, hook)                                                          \
	DEFECT_ON("icelake", name, rule, says, BREAKS_PT(hook, name))

static bool pt_return_anywhere(struct vcpu *vcpu, uint64_t ip)
{
	const struct pt_state *pt = &vcpu->pt;

	return pt_clean.returns(
		vcpu, pt->return_count ? pt->returns[(pt->return_top - 1) % PT_RETURNS] : ip);
}
PT_DEFECT(pt_return_anywhere, "SDM Vol 3, 36.4.2",
	  "a RET is compressed wherever it goes, if there was a CALL", returns)

static void pt_bits_newest_first(struct vcpu *vcpu, bool taken)
{
	struct pt_state *pt = &vcpu->pt;
	unsigned end = 1u << (31 - __builtin_clz((unsigned)pt->tnt)); /* the 1 above the bits */

	pt->tnt = (uint8_t)(pt->tnt + end + (taken ? end : 0));
	if (pt->tnt >> PT_TNT_BITS)
		pt_flush_tnt(vcpu);
}
PT_DEFECT(pt_bits_newest_first, "SDM Vol 3, 36.4.2", "TNT has the newest branch highest", tnt)

static void pt_bits_not_taken(struct vcpu *vcpu, bool taken)
{
	pt_clean.tnt(vcpu, !taken);
}
PT_DEFECT(pt_bits_not_taken, "SDM Vol 3, 36.4.2", "a bit of TNT is set if it was not taken", tnt)

static void pt_no_source(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip)
{
	if (packet != FUP)
		pt_clean.ip(vcpu, packet, ip, with_ip);
}
PT_DEFECT(pt_no_source, "SDM Vol 3, 36.2.7", "there are no FUP packets", ip)

static void pt_two_bytes(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip)
{
	vcpu->pt.last_ip = ip;
	pt_clean.ip(vcpu, packet, ip, with_ip);
}
PT_DEFECT(pt_two_bytes, "SDM Vol 3, 36.4.2", "of an address only two bytes follow", ip)

static void pt_no_end_of_psb(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	if (count != 2 || bytes[0] != 0x02 || bytes[1] != 0x23)
		pt_clean.output(vcpu, bytes, count);
}
PT_DEFECT(pt_no_end_of_psb, "SDM Vol 3, 36.2.7", "no PSBEND follows PSB", output)

static void pt_no_mode(struct vcpu *vcpu)
{
	(void)vcpu;
}
PT_DEFECT(pt_no_mode, "SDM Vol 3, 36.2.7", "there are no MODE.Exec packets", mode)

static void pt_region_from_one(struct vcpu *vcpu, uint64_t entry)
{
	pt_clean.region_full(vcpu, entry);
	if (!(vcpu->pt.status & (STATUS_STOPPED | STATUS_ERROR)))
		vcpu->pt.output_mask_ptrs += 1ull << 32;
}
PT_DEFECT(pt_region_from_one, "SDM Vol 3, 36.2.6",
	  "output to the next region begins at its second byte", region_full)

static void pt_stop_ignored(struct vcpu *vcpu, uint64_t entry)
{
	pt_clean.region_full(vcpu, entry & ~(1ull << 4));
}
PT_DEFECT(pt_stop_ignored, "SDM Vol 3, 36.2.6", "STOP in an entry does nothing", region_full)

static void pt_interrupt_lost(struct vcpu *vcpu, uint64_t entry)
{
	pt_clean.region_full(vcpu, entry & ~(1ull << 2));
}
PT_DEFECT(pt_interrupt_lost, "SDM Vol 3, 36.2.6", "INT in an entry does nothing", region_full)

static bool pt_range_exclusive(const struct vcpu *vcpu, uint64_t ip)
{
	return pt_clean.filter(vcpu, ip) &&
	       (CTL_ADDR_CFG(vcpu->pt.ctl, 0) != ADDR_FILTER || ip != vcpu->pt.address[0][1]);
}
PT_DEFECT(pt_range_exclusive, "SDM Vol 3, 36.2.5", "the last address of a range is not part of it",
	  filter)

static bool pt_never_locked(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return pt_clean.write_msr(vcpu, index, value) || vcpu->pt.ctl & CTL_TRACE_EN;
}
PT_DEFECT(pt_never_locked, "SDM Vol 3, 36.2.7",
	  "while TraceEn is set writes that are not allowed are dropped without #GP", write_msr)

static bool pt_base_rounded(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_OUTPUT_BASE)
		value &= ~MASK_PTRS_FIXED;
	return pt_clean.write_msr(vcpu, index, value);
}
PT_DEFECT(pt_base_rounded, "SDM Vol 3, 36.2.7",
	  "IA32_RTIT_OUTPUT_BASE drops its low bits without #GP", write_msr)

/* Component 8 of XSAVES. */

static bool pt_xsaves_goes_on(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS])
{
	uint64_t ctl = vcpu->pt.ctl;

	(void)rip;
	vcpu->pt.ctl &= ~CTL_TRACE_EN;
	pt_clean.save(vcpu, 0, area);
	area[0] = vcpu->pt.ctl = ctl;
	return true;
}
PT_DEFECT(pt_xsaves_goes_on, "SDM Vol 1, 13.5.6", "XSAVES leaves TraceEn set", save)

static bool pt_xsaves_saves_stopped(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS])
{
	bool in_use = pt_clean.save(vcpu, rip, area);

	area[0] &= ~CTL_TRACE_EN;
	return in_use;
}
PT_DEFECT(pt_xsaves_saves_stopped, "SDM Vol 1, 13.5.6", "XSAVES saves TraceEn as it leaves it",
	  save)

/* zx_x86_pt_regs_t of Fuchsia has its registers in this order. */
static bool pt_xsaves_order(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS])
{
	bool in_use = pt_clean.save(vcpu, rip, area);
	uint64_t status = area[3];

	area[3] = area[2];
	area[2] = area[1];
	area[1] = status;
	return in_use;
}
PT_DEFECT(pt_xsaves_order, "SDM Vol 1, 13.5.6", "XSAVES saves IA32_RTIT_STATUS second", save)

static bool pt_xrstors_while_traced(struct vcpu *vcpu, const uint64_t *area)
{
	return vcpu->pt.ctl & CTL_TRACE_EN || pt_clean.restore(vcpu, area);
}
PT_DEFECT(pt_xrstors_while_traced, "SDM Vol 1, 13.5.6",
	  "while TraceEn is set XRSTORS loads nothing, without #GP", restore)

static bool pt_xrstors_keeps(struct vcpu *vcpu, const uint64_t *area)
{
	return !area || pt_clean.restore(vcpu, area);
}
PT_DEFECT(pt_xrstors_keeps, "SDM Vol 1, 13.5.6",
	  "XRSTORS of an area without component 8 changes no MSR", restore)

/* Registers. */

/* KVM did this until 2024: clearing TraceEn together with another bit. */
static bool pt_clearing_refused(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_CTL && vcpu->pt.ctl & CTL_TRACE_EN && value &&
	    (value ^ vcpu->pt.ctl) & ~CTL_TRACE_EN)
		return false;
	return pt_clean.write_msr(vcpu, index, value);
}
PT_DEFECT(pt_clearing_refused, "SDM Vol 3, 36.2.7",
	  "a write that clears TraceEn and another bit, but not all, raises #GP", write_msr)

static bool pt_status_forgotten(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_CTL && value & CTL_TRACE_EN)
		vcpu->pt.status &= ~(STATUS_ERROR | STATUS_STOPPED);
	return pt_clean.write_msr(vcpu, index, value);
}
PT_DEFECT(pt_status_forgotten, "SDM Vol 3, 36.2.5", "setting TraceEn clears Error and Stopped",
	  write_msr)

static bool pt_status_reserved(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_STATUS)
		value &= STATUS_ERROR | STATUS_STOPPED | STATUS_PACKET_BYTES;
	return pt_clean.write_msr(vcpu, index, value);
}
PT_DEFECT(pt_status_reserved, "SDM Vol 3, 36.2.7",
	  "reserved bits of IA32_RTIT_STATUS are dropped without #GP", write_msr)

static bool pt_control_reserved(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_CTL)
		value &= ~(1ull << 18 | 1ull << 23);
	return pt_clean.write_msr(vcpu, index, value);
}
PT_DEFECT(pt_control_reserved, "SDM Vol 3, 36.2.7",
	  "bits 18 and 23 of IA32_RTIT_CTL are dropped without #GP", write_msr)

static bool pt_range_not_canonical(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index >= MSR_RTIT_ADDR0_A)
		value = (uint64_t)((int64_t)(value << 16) >> 16);
	return pt_clean.write_msr(vcpu, index, value);
}
PT_DEFECT(pt_range_not_canonical, "SDM Vol 3, 36.2.7",
	  "an address of a range is made canonical without #GP", write_msr)

static bool pt_pointers_low(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	bool found = pt_clean.read_msr(vcpu, index, value);

	if (found && index == MSR_RTIT_OUTPUT_MASK_PTRS)
		*value &= ~MASK_PTRS_FIXED;
	return found;
}
PT_DEFECT(pt_pointers_low, "SDM Vol 3, 36.2.7",
	  "the low bits of IA32_RTIT_OUTPUT_MASK_PTRS read as 0", read_msr)

/* Filters. */

static bool context_with(const struct vcpu *vcpu, uint64_t ctl)
{
	struct vcpu *other = (struct vcpu *)vcpu;
	uint64_t own = vcpu->pt.ctl;
	bool traced;

	other->pt.ctl = ctl;
	traced = pt_clean.context(vcpu);
	other->pt.ctl = own;
	return traced;
}

static bool pt_any_level(const struct vcpu *vcpu)
{
	return context_with(vcpu, vcpu->pt.ctl | CTL_OS | CTL_USER);
}
PT_DEFECT(pt_any_level, "SDM Vol 3, 36.2.4", "OS and User filter nothing", context)

static bool pt_cr3_ignored(const struct vcpu *vcpu)
{
	return context_with(vcpu, vcpu->pt.ctl & ~CTL_CR3_FILTER);
}
PT_DEFECT(pt_cr3_ignored, "SDM Vol 3, 36.2.4", "CR3Filter filters nothing", context)

static bool pt_cr3_all_bits(const struct vcpu *vcpu)
{
	return pt_clean.context(vcpu) &&
	       (!(vcpu->pt.ctl & CTL_CR3_FILTER) || vcpu->cr3 == vcpu->pt.cr3_match);
}
PT_DEFECT(pt_cr3_all_bits, "SDM Vol 3, 36.2.4", "CR3Filter compares bits 11:0 as well", context)

/* Fuchsia's driver never wrote IA32_RTIT_ADDRn_A and _B: the range was address 0. */
static bool pt_range_of_zero(const struct vcpu *vcpu, uint64_t ip)
{
	return CTL_ADDR_CFG(vcpu->pt.ctl, 0) != ADDR_FILTER ? pt_clean.filter(vcpu, ip) : !ip;
}
PT_DEFECT(pt_range_of_zero, "SDM Vol 3, 36.2.5", "range 0 is address 0", filter)

static bool pt_stop_range_ignored(const struct vcpu *vcpu, uint64_t ip)
{
	(void)vcpu, (void)ip;
	return false;
}
PT_DEFECT(pt_stop_range_ignored, "SDM Vol 3, 36.4.2", "a TraceStop range stops nothing", stop)

/* Packets. */

static void pt_last_ip_of_tip(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip)
{
	uint64_t last = vcpu->pt.last_ip;

	pt_clean.ip(vcpu, packet, ip, with_ip);
	if (packet == FUP)
		vcpu->pt.last_ip = last;
}
PT_DEFECT(pt_last_ip_of_tip, "SDM Vol 3, 36.4.2", "FUP does not count as the last address", ip)

static void pt_end_tells(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip)
{
	if (packet == TIP_PGD && !with_ip)
		ip = vcpu->rip;
	pt_clean.ip(vcpu, packet, ip, true);
}
PT_DEFECT(pt_end_tells, "SDM Vol 3, 36.2.4", "TIP.PGD has the address of what is not traced", ip)

static void pt_bits_late(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip)
{
	struct pt_state *pt = &vcpu->pt;
	uint64_t tnt = pt->tnt;

	pt->tnt = PT_TNT_NONE;
	pt_clean.ip(vcpu, packet, ip, with_ip);
	pt->tnt = tnt;
	pt_flush_tnt(vcpu);
}
PT_DEFECT(pt_bits_late, "SDM Vol 3, 36.4.2", "TNT follows the packet that it is to precede", ip)

static void pt_no_end(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip)
{
	if (packet != TIP_PGD)
		pt_clean.ip(vcpu, packet, ip, with_ip);
}
PT_DEFECT(pt_no_end, "SDM Vol 3, 36.2.7", "there are no TIP.PGD packets", ip)

static void pt_psb_keeps_calls(struct vcpu *vcpu, uint64_t ip)
{
	unsigned count = vcpu->pt.return_count;

	pt_clean.sync(vcpu, ip);
	vcpu->pt.return_count = count;
}
PT_DEFECT(pt_psb_keeps_calls, "SDM Vol 3, 36.3.7",
	  "a RET is compressed though a PSB came after its CALL", sync)

static bool pt_returns_always(struct vcpu *vcpu, uint64_t ip)
{
	uint64_t ctl = vcpu->pt.ctl;
	bool compressed;

	vcpu->pt.ctl &= ~CTL_DIS_RETC;
	compressed = pt_clean.returns(vcpu, ip);
	vcpu->pt.ctl = ctl;
	return compressed;
}
PT_DEFECT(pt_returns_always, "SDM Vol 3, 36.2.7", "DisRETC does nothing", returns)

static void pt_no_cr3(struct vcpu *vcpu)
{
	(void)vcpu;
}
PT_DEFECT(pt_no_cr3, "SDM Vol 3, 36.4.2", "there are no PIP packets", pip)

/* A packet with `flips` of byte `at` inverted. */
static void put_changed(struct vcpu *vcpu, const uint8_t *bytes, unsigned count, unsigned at,
			uint8_t flips)
{
	uint8_t changed[16];

	for (unsigned n = 0; flips && n < count; n++)
		changed[n] = bytes[n] ^ (n == at ? flips : 0);
	pt_clean.output(vcpu, flips ? changed : bytes, count);
}

static void pt_cr3_not_root(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	put_changed(vcpu, bytes, count, 2, count == 8 && bytes[0] == 0x02 && bytes[1] == 0x43);
}
PT_DEFECT(pt_cr3_not_root, "SDM Vol 3, 36.4.2", "PIP has NR set outside VMX", output)

static void pt_mode_swapped(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	bool swaps = count == 2 && bytes[0] == 0x99 && (bytes[1] == 1 || bytes[1] == 2);

	put_changed(vcpu, bytes, count, 1, swaps ? 3 : 0);
}
PT_DEFECT(pt_mode_swapped, "SDM Vol 3, 36.4.2", "MODE.Exec has CS.L and CS.D swapped", output)

static void pt_tsc_high(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	put_changed(vcpu, bytes, count, 7, count == 8 && bytes[0] == 0x19 ? 0x80 : 0);
}
PT_DEFECT(pt_tsc_high, "SDM Vol 3, 36.4.2", "bit 55 of a TSC packet is inverted", output)

static void pt_far_silent(struct vcpu *vcpu, uint64_t to, bool was_enabled)
{
	if (!vcpu->pt.packet_enabled || !was_enabled)
		pt_clean.far(vcpu, to, was_enabled);
}
PT_DEFECT(pt_far_silent, "SDM Vol 3, 36.4.2", "far transfers have no TIP", far)

static void pt_source_behind(struct vcpu *vcpu, uint64_t from, uint64_t to, bool was_enabled)
{
	pt_clean.event(vcpu, from + 1, to, was_enabled);
}
PT_DEFECT(pt_source_behind, "SDM Vol 3, 36.4.2", "FUP of an event is one byte past its place",
	  event)

/* Output. */

static void pt_region_skipped(struct vcpu *vcpu, uint64_t entry)
{
	pt_clean.region_full(vcpu, entry);
	if (!(vcpu->pt.status & (STATUS_STOPPED | STATUS_ERROR)))
		vcpu->pt.output_mask_ptrs += 1ull << 7;
}
PT_DEFECT(pt_region_skipped, "SDM Vol 3, 36.2.6", "every other entry of the table is used",
	  region_full)

static void pt_stop_moves_on(struct vcpu *vcpu, uint64_t entry)
{
	pt_clean.region_full(vcpu, entry);
	if (vcpu->pt.status & STATUS_STOPPED)
		vcpu->pt.output_mask_ptrs = (uint32_t)vcpu->pt.output_mask_ptrs + (1ull << 7);
}
PT_DEFECT(pt_stop_moves_on, "SDM Vol 3, 36.2.6",
	  "a full region with STOP leaves the pointers at the next entry", region_full)

/* 36.2.6.4: "no error is signaled". */
static void pt_apic_refused(struct vcpu *vcpu, uint64_t entry)
{
	if (platform_unit_is_apic(vcpu, entry & 0xffffff000))
		vcpu->pt.status |= STATUS_ERROR;
	else
		pt_clean.region_full(vcpu, entry);
}
PT_DEFECT(pt_apic_refused, "SDM Vol 3, 36.2.6",
	  "a region that is the local APIC's page sets Error once it is full", region_full)

static bool pt_table_wraps(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_CTL && value & CTL_TRACE_EN)
		vcpu->pt.output_base = (uint32_t)vcpu->pt.output_base;
	return pt_clean.write_msr(vcpu, index, value);
}
PT_DEFECT(pt_table_wraps, "SDM Vol 3, 36.2.6", "a table above 4 GiB is looked for below", write_msr)

/* No MSR and no table shows these: a decoder sees them. */

enum { TNT_FULL = 6, LOST_AFTER = 100, PAGE_BYTES = 4096 };

static void pt_psb_without_place(struct vcpu *vcpu, uint64_t ip)
{
	bool enabled = vcpu->pt.packet_enabled;

	vcpu->pt.packet_enabled = false;
	pt_clean.sync(vcpu, ip);
	vcpu->pt.packet_enabled = enabled;
}
PT_DEFECT(pt_psb_without_place, "SDM Vol 3, 36.3.7",
	  "PSB+ has neither MODE.Exec nor FUP while PacketEn is set", sync)

static void pt_bit_lost(struct vcpu *vcpu, bool taken)
{
	if (vcpu->pt.packet_bytes != LOST_AFTER || vcpu->pt.tnt != PT_TNT_NONE)
		pt_clean.tnt(vcpu, taken);
}
PT_DEFECT(pt_bit_lost, "SDM Vol 3, 36.4.2", "now and then TNT lacks a branch", tnt)

static void pt_sixth_bit_clear(struct vcpu *vcpu, bool taken)
{
	pt_clean.tnt(vcpu, taken && !(vcpu->pt.tnt >> (TNT_FULL - 1)));
}
PT_DEFECT(pt_sixth_bit_clear, "SDM Vol 3, 36.4.2", "the sixth branch of a TNT is never a taken one",
	  tnt)

static void pt_source_is_handler(struct vcpu *vcpu, uint64_t from, uint64_t to, bool was_enabled)
{
	(void)from;
	pt_clean.event(vcpu, to, to, was_enabled);
}
PT_DEFECT(pt_source_is_handler, "SDM Vol 3, 36.4.2",
	  "FUP of an interrupt or exception has the address of its handler", event)

static void pt_packet_cut_at_page(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	unsigned left = PAGE_BYTES - (vcpu->pt.output_mask_ptrs >> 32) % PAGE_BYTES;

	pt_clean.output(vcpu, bytes, count < left ? count : left);
}
PT_DEFECT(pt_packet_cut_at_page, "SDM Vol 3, 36.2.6",
	  "of a packet that goes on in the next page the rest is lost", output)

static bool bdm106_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_RTIT_CTL && value & CTL_TRACE_EN && !(value & CTL_BRANCH_EN))
		return false;
	return pt_clean.write_msr(vcpu, index, value);
}

ERRATUM(BDM106, "SDM Vol 3, 36.2.7", "setting TraceEn without BranchEn raises #GP", "broadwell",
	BREAKS_PT(write_msr, bdm106_write_msr))

/* A hypervisor forgets registers: pt_guest_enter() and pt_guest_exit() of Linux switch these. */

static void pt_exit_loses_status(struct vcpu *vcpu)
{
	vcpu->pt.status = 0;
}
PT_DEFECT(pt_exit_loses_status, "SDM Vol 3, 36.2.7", "an exit clears IA32_RTIT_STATUS", exit)

static void pt_exit_loses_ranges(struct vcpu *vcpu)
{
	memset(vcpu->pt.address, 0, sizeof(vcpu->pt.address));
}
PT_DEFECT(pt_exit_loses_ranges, "SDM Vol 3, 36.2.7", "an exit clears IA32_RTIT_ADDRn", exit)

/* The output goes on where it was at the first exit with TraceEn. */
static void pt_exit_restores_pointers(struct vcpu *vcpu)
{
	uint64_t *cached = REMEMBERED(vcpu, uint64_t);

	if (!(vcpu->pt.ctl & CTL_TRACE_EN))
		*cached = 0;
	else if (*cached)
		vcpu->pt.output_mask_ptrs = *cached;
	else
		*cached = vcpu->pt.output_mask_ptrs;
}
PT_DEFECT(pt_exit_restores_pointers, "SDM Vol 3, 36.2.7",
	  "after an exit IA32_RTIT_OUTPUT_MASK_PTRS is what it was at an earlier one", exit)
