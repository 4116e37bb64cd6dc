// SPDX-License-Identifier: MIT
/* The packets: SDM Vol 3, 36.4. */
#include "lib/string.h"
#include "monitor/pt/rules.h"
#include "monitor/silicon.h"

/* First bytes, and second ones of 02H: table 36-16. */
enum {
	EXTENDED = 0x02,
	PSB = 0x82,
	PSBEND = 0x23,
	PIP = 0x43,
	CBR = 0x03,
	OVF = 0xf3,
	TRACE_STOP = 0x83,
	LONG_TNT = 0xa3,
	MODE = 0x99,
	TSC = 0x19,
	CYC = 0x03,
	MNT = 0xc3,
	MNT_THIRD = 0x88,
};
/* Of which one overflows: any number will do. */
enum { OVERFLOW_BYTES = 1 << 9, OVERFLOW_INSTRUCTIONS = 9, OVERFLOW_LONG = 100 };
/* Of TSC: a cycle of a core clock that is slow. */
enum { RARE_CYCLES = 1 << 12 };
enum { PIP_CR3_SHIFT = 5 };
enum { MODE_64 = 1, MODE_32 = 2, MODE_TSX = 1 << 5 };

static const struct pt_rules *rules_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->pt;
}

static void count_bytes(struct vcpu *vcpu, unsigned count)
{
	struct pt_state *pt = &vcpu->pt;
	uint32_t before = pt->packet_bytes, left;

	pt->packet_bytes = (pt->packet_bytes + count) & PT_MOST_PACKET_BYTES;
	pt->sync_due |= pt->packet_bytes >= pt->period;
	if ((before ^ pt->packet_bytes) & OVERFLOW_BYTES && pt->ctl & CTL_CYC_EN &&
	    pt_behaviour_of(vcpu)->overflow)
		pt->overflowing = pt_behaviour_of(vcpu)->overflow == PT_OVERFLOWS_LONG
					  ? OVERFLOW_LONG
					  : OVERFLOW_INSTRUCTIONS;
	left = pt->sync_due ? 0 : pt_least(pt->period, PT_MOST_PACKET_BYTES) - 1 - pt->packet_bytes;
	pt->room = pt->plain ? pt_least(pt->room, left) : 0;
}

/* A PSB follows after so many bytes; without PSBFreq after 2 KiB. */
static void begin_period(struct vcpu *vcpu)
{
	struct pt_state *pt = &vcpu->pt;
	uint32_t period = 2048u << (pt->ctl >> 24 & 0xf);

	switch (pt_behaviour_of(vcpu)->period) {
	case PT_PERIOD_EXACT:
		break;
	case PT_PERIOD_VARIES:
		pt->period_late = !pt->period_late;
		period += pt->period_late ? period / 4 : -(period / 4);
		break;
	case PT_PERIOD_EXTRA:
		period /= 4;
		break;
	}
	pt->period = period;
}

void pt_encode(struct vcpu *vcpu)
{
	static const struct pt_behaviour defaults;
	const struct pt_behaviour *behaviour = pt_behaviour_of(vcpu);
	struct pt_state *pt = &vcpu->pt;

	pt->clean = !memcmp(rules_of(vcpu), &pt_clean, sizeof(pt_clean));
	pt->plain = pt->clean && !(pt->ctl & (CTL_ADDR_CFGS | CTL_DIS_RETC | CTL_CYC_EN)) &&
		    !memcmp(behaviour, &defaults, sizeof(defaults));
	pt->room = 0;
	begin_period(vcpu);
}

static void put(struct vcpu *vcpu, const void *bytes, unsigned count)
{
	if (vcpu->pt.status & (STATUS_ERROR | STATUS_STOPPED) || vcpu->pt.overflowing)
		return;
	if (count <= vcpu->pt.room) {
		memcpy(vcpu->pt.to, bytes, count);
		pt_stored(&vcpu->pt, vcpu->pt.to + count);
		return;
	}
	rules_of(vcpu)->output(vcpu, bytes, count);
	count_bytes(vcpu, count);
}

static void put_extended(struct vcpu *vcpu, uint8_t code)
{
	const uint8_t bytes[] = {EXTENDED, code};

	put(vcpu, bytes, sizeof(bytes));
}

static void put_cyc(struct vcpu *vcpu, uint64_t passed)
{
	uint8_t bytes[10];
	unsigned count = 1;

	bytes[0] = (uint8_t)(CYC | (passed & 0x1f) << 3);
	for (passed >>= 5; passed; passed >>= 7) {
		bytes[count - 1] |= count > 1 ? 1 : 4;
		bytes[count++] = (uint8_t)((passed & 0x7f) << 1);
	}
	put(vcpu, bytes, count);
}

/* The core clock of this silicon is its TSC: 36.4.2.14. Before each packet that may have one, which
   is of what happened at `now`. */
static void put_cycles_at(struct vcpu *vcpu, uint64_t now)
{
	unsigned threshold = (unsigned)(vcpu->pt.ctl >> 19 & 0xf);
	uint64_t passed = now - vcpu->pt.cycles;

	if (!(vcpu->pt.ctl & CTL_CYC_EN))
		return;
	if (vcpu->pt.overflowing || !passed)
		return;
	if (pt_behaviour_of(vcpu)->cycles == PT_CYCLES_RARE && passed < RARE_CYCLES)
		return;
	if (passed < (1ull << threshold) / 2)
		return;
	vcpu->pt.cycles = now;
	/* Stand-alone ones may be sent at any time. */
	if (pt_behaviour_of(vcpu)->cycles == PT_CYCLES_ALONE && !threshold && passed > 1) {
		put_cyc(vcpu, passed / 2);
		passed -= passed / 2;
	}
	put_cyc(vcpu, passed);
}

static void put_cycles(struct vcpu *vcpu)
{
	if (vcpu->pt.ctl & CTL_CYC_EN)
		put_cycles_at(vcpu, platform_unit_tsc(vcpu));
}

void pt_flush_tnt(struct vcpu *vcpu)
{
	struct pt_state *pt = &vcpu->pt;
	uint64_t packet = pt->tnt << 1;

	if (pt->tnt == PT_TNT_NONE)
		return;
	if (packet > UINT8_MAX)
		packet = pt->tnt << 16 | LONG_TNT << 8 | EXTENDED;
	pt->tnt = PT_TNT_NONE;
	put_cycles_at(vcpu, pt->tnt_began);
	put(vcpu, &packet, packet > UINT8_MAX ? sizeof(packet) : 1);
	for (unsigned n = 0, count = pt->deferred_count; n < count; n++) {
		pt->deferred_count = 0;
		rules_of(vcpu)->ip(vcpu, TIP, pt->deferred[n], true);
	}
}

void pt_tip(struct vcpu *vcpu, uint64_t ip)
{
	struct pt_state *pt = &vcpu->pt;

	if (pt->tnt == PT_TNT_NONE || pt_behaviour_of(vcpu)->tip == PT_TIP_AT_ONCE) {
		rules_of(vcpu)->ip(vcpu, TIP, ip, true);
		return;
	}
	pt->deferred[pt->deferred_count++] = ip;
	if (pt->deferred_count == PT_DEFERRED)
		pt_flush_tnt(vcpu);
}

void pt_rule_tnt(struct vcpu *vcpu, bool taken)
{
	static const uint8_t most[] = {PT_TNT_BITS, 4, 1, 47};
	struct pt_state *pt = &vcpu->pt;

	if (pt->tnt == PT_TNT_NONE && pt->ctl & CTL_CYC_EN)
		pt->tnt_began = platform_unit_tsc(vcpu);
	pt->tnt = pt->tnt << 1 | taken;
	if (pt->tnt >> most[pt_behaviour_of(vcpu)->tnt])
		pt_flush_tnt(vcpu);
}

/* How many bytes of `ip` follow, by what it shares with the last one: table 36-18. */
static unsigned compression(const struct vcpu *vcpu, uint64_t ip, unsigned *bytes)
{
	unsigned how = pt_behaviour_of(vcpu)->address, code = pt_ip_bytes(ip, vcpu->pt.last_ip);

	if (how == PT_ADDRESS_COARSE && code == 1)
		code = 2;
	if (how >= PT_ADDRESS_SIX)
		code = 3; /* of an address that is canonical */
	*bytes = 2 * code;
	return how == PT_ADDRESS_MERGED && ip >> 48 == vcpu->pt.last_ip >> 48 ? 4 : code;
}

/* Of no meaning to a decoder. */
static void put_filler(struct vcpu *vcpu)
{
	const uint8_t pad[3] = {0}, mnt[11] = {EXTENDED, MNT, MNT_THIRD, 0x5a, 1};

	if (pt_behaviour_of(vcpu)->filler == PT_FILLER_PAD)
		put(vcpu, pad, sizeof(pad));
	else
		put(vcpu, mnt, sizeof(mnt));
}

void pt_rule_ip(struct vcpu *vcpu, enum ip_packet packet, uint64_t ip, bool with_ip)
{
	unsigned bytes = 0, code;
	uint8_t out[9];

	pt_flush_tnt(vcpu);
	if (pt_behaviour_of(vcpu)->filler)
		put_filler(vcpu);
	put_cycles(vcpu);
	code = with_ip ? compression(vcpu, ip, &bytes) : 0;
	out[0] = (uint8_t)(packet | code << PT_IP_BYTES_SHIFT);
	memcpy(out + 1, &ip, bytes);
	put(vcpu, out, 1 + bytes);
	if (with_ip)
		vcpu->pt.last_ip = ip;
}

static uint8_t current_mode(const struct vcpu *vcpu)
{
	if (vcpu_in_64_bit_mode(vcpu))
		return MODE_64;
	return vcpu->segment[CS].attributes & SEGMENT_DB ? MODE_32 : 0;
}

/* MODE.Exec, where the size of code is not that of the last one: 36.4.2.8. */
void pt_rule_mode(struct vcpu *vcpu)
{
	const uint8_t bytes[] = {MODE, current_mode(vcpu)};

	if (vcpu->pt.reported_mode == bytes[1])
		return;
	pt_flush_tnt(vcpu);
	vcpu->pt.reported_mode = bytes[1];
	put_cycles(vcpu);
	put(vcpu, bytes, sizeof(bytes));
}

/* 36.4.2.7: bits 51:5 from bit 1 on. */
void pt_rule_pip(struct vcpu *vcpu)
{
	uint64_t cr3 = vcpu->cr3 & pt_cr3_bits(vcpu);
	uint64_t payload = cr3 >> PIP_CR3_SHIFT << 1;
	uint64_t packet = payload << 16 | PIP << 8 | EXTENDED;

	pt_flush_tnt(vcpu);
	vcpu->pt.reported_cr3 = vcpu->cr3;
	put_cycles(vcpu);
	put(vcpu, &packet, sizeof(packet));
}

void pt_time(struct vcpu *vcpu)
{
	const uint8_t cbr[] = {EXTENDED, CBR, pt_of(vcpu)->ratio, 0};
	uint64_t now = platform_unit_tsc(vcpu), tsc = now << 8 | TSC;

	put_cycles_at(vcpu, now);
	if (vcpu->pt.ctl & CTL_TSC_EN)
		put(vcpu, &tsc, sizeof(tsc));
	put(vcpu, cbr, sizeof(cbr));
}

/* "The ordering of packets within PSB+ is not fixed": 36.3.7. */
static void put_status(struct vcpu *vcpu, uint64_t ip, bool reversed)
{
	static const uint8_t tsx[] = {MODE, MODE_TSX};
	struct pt_state *pt = &vcpu->pt;

	if (pt_behaviour_of(vcpu)->tsx == PT_TSX_SHOWN && pt->context_enabled &&
	    pt->ctl & CTL_BRANCH_EN)
		put(vcpu, tsx, sizeof(tsx));
	if (reversed && pt->packet_enabled) {
		rules_of(vcpu)->ip(vcpu, FUP, ip, true);
		rules_of(vcpu)->mode(vcpu);
	}
	if (!reversed)
		pt_time(vcpu);
	if (pt->context_enabled && pt->ctl & CTL_OS)
		rules_of(vcpu)->pip(vcpu);
	if (reversed)
		pt_time(vcpu);
	if (!reversed && pt->packet_enabled) {
		rules_of(vcpu)->mode(vcpu);
		rules_of(vcpu)->ip(vcpu, FUP, ip, true);
	}
}

/* 36.3.7. A decoder may begin here: what packets before it said counts no longer. */
void pt_rule_sync(struct vcpu *vcpu, uint64_t ip)
{
	struct pt_state *pt = &vcpu->pt;
	static const uint8_t psb[] = {EXTENDED, PSB, EXTENDED, PSB, EXTENDED, PSB, EXTENDED, PSB,
				      EXTENDED, PSB, EXTENDED, PSB, EXTENDED, PSB, EXTENDED, PSB};

	pt_flush_tnt(vcpu);
	put(vcpu, psb, sizeof(psb));
	pt->packet_bytes = 0;
	pt->sync_due = false;
	begin_period(vcpu);
	pt->last_ip = 0;
	pt->reported_mode = PT_MODE_NONE;
	pt_forget_returns(&vcpu->pt);
	put_status(vcpu, ip, pt_behaviour_of(vcpu)->order == PT_ORDER_REVERSED);
	put_extended(vcpu, PSBEND);
}

/* While packets are off: TIP.PGD has sent the bits of TNT. */
void pt_trace_stop(struct vcpu *vcpu)
{
	put_extended(vcpu, TRACE_STOP);
}

/* 36.3.8: what was not sent is lost; the next address is whole. */
void pt_overflow(struct vcpu *vcpu, uint64_t ip)
{
	struct pt_state *pt = &vcpu->pt;
	uint64_t whole = ip << 8 | FUP | 3 << PT_IP_BYTES_SHIFT;

	pt->tnt = PT_TNT_NONE;
	pt->deferred_count = 0;
	pt_forget_returns(&vcpu->pt);
	pt->overflowing = 0;
	put_cycles(vcpu);
	put_extended(vcpu, OVF);
	pt->reported_mode = PT_MODE_NONE;
	if (!pt->packet_enabled)
		return;
	put(vcpu, &whole, PT_IP_PACKET_BYTES);
	pt->last_ip = ip;
}

/* A CALL of the next instruction is no call: 36.4.2.2. The 65th drops the oldest. */
void pt_rule_call(struct vcpu *vcpu, uint64_t ip)
{
	pt_add_call(&vcpu->pt, ip);
}

/*
 * 36.4.2.2 says that every near RET pops. Decoders differ in whether one that is not compressed
 * does: none can be wrong about a stack that is empty then.
 */
bool pt_rule_returns(struct vcpu *vcpu, uint64_t ip)
{
	struct pt_state *pt = &vcpu->pt;

	if (pt->ctl & CTL_DIS_RETC || pt_behaviour_of(vcpu)->returns == PT_RETURN_NEVER)
		return false;
	if (pt_returns_to(pt, ip)) {
		pt_drop_call(pt);
		return true;
	}
	if (pt_behaviour_of(vcpu)->returns == PT_RETURN_EMPTIES)
		pt_forget_returns(&vcpu->pt);
	else if (pt->return_count)
		pt_drop_call(pt);
	return false;
}
