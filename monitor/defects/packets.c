// SPDX-License-Identifier: MIT
/* Defects of Intel Processor Trace that no MSR and no table shows: a decoder sees them. */
#include "monitor/defects/defect.h"

enum { TNT_FULL = 6, LOST_AFTER = 100, PAGE_BYTES = 4096 };

#define PACKET_DEFECT(name, rule, says, hook)                                                      \
	DEFECT_ON("icelake", name, rule, says, BREAKS_PT(hook, name))

static void pt_psb_without_place(struct vcpu *vcpu, uint64_t ip)
{
	bool enabled = vcpu->pt.packet_enabled;

	vcpu->pt.packet_enabled = false;
	pt_clean.sync(vcpu, ip);
	vcpu->pt.packet_enabled = enabled;
}
PACKET_DEFECT(pt_psb_without_place, "SDM Vol 3, 36.3.7",
	      "PSB+ has neither MODE.Exec nor FUP while PacketEn is set", sync)

static void pt_bit_lost(struct vcpu *vcpu, bool taken)
{
	if (vcpu->pt.packet_bytes != LOST_AFTER || vcpu->pt.tnt_count)
		pt_clean.tnt(vcpu, taken);
}
PACKET_DEFECT(pt_bit_lost, "SDM Vol 3, 36.4.2", "now and then TNT lacks a branch", tnt)

static void pt_sixth_bit_clear(struct vcpu *vcpu, bool taken)
{
	pt_clean.tnt(vcpu, taken && vcpu->pt.tnt_count != TNT_FULL - 1);
}
PACKET_DEFECT(pt_sixth_bit_clear, "SDM Vol 3, 36.4.2",
	      "the sixth branch of a TNT is never a taken one", tnt)

static void pt_source_is_handler(struct vcpu *vcpu, uint64_t from, uint64_t to, bool was_enabled)
{
	(void)from;
	pt_clean.event(vcpu, to, to, was_enabled);
}
PACKET_DEFECT(pt_source_is_handler, "SDM Vol 3, 36.4.2",
	      "FUP of an interrupt or exception has the address of its handler", event)

static void pt_packet_cut_at_page(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	unsigned left = PAGE_BYTES - (vcpu->pt.output_mask_ptrs >> 32) % PAGE_BYTES;

	pt_clean.output(vcpu, bytes, count < left ? count : left);
}
PACKET_DEFECT(pt_packet_cut_at_page, "SDM Vol 3, 36.2.6",
	      "of a packet that goes on in the next page the rest is lost", output)
