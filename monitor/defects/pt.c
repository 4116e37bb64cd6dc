/* SPDX-License-Identifier: MIT */
/* Intel Processor Trace: SDM Vol 3, chapter 36. Such a defect is named pt_, and needs pt=on. */
#include "monitor/defects/defect.h"

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

static bool pt_return_in_full(struct vcpu *vcpu, uint64_t ip)
{
	(void)vcpu;
	(void)ip;
	return false;
}
PT_DEFECT(pt_return_in_full, "SDM Vol 3, 36.4.2", "no RET is compressed", returns)

static void pt_bits_newest_first(struct vcpu *vcpu, bool taken)
{
	struct pt_state *pt = &vcpu->pt;

	pt->tnt = (uint8_t)(pt->tnt | (unsigned)taken << pt->tnt_count);
	if (++pt->tnt_count == PT_TNT_BITS)
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
