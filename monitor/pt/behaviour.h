/* SPDX-License-Identifier: MIT */
/*
 * Values for what the manual leaves open about Intel PT (SDM Vol 3, chapter 36), as
 * monitor/ds/behaviour.h has them of BTS. variants.c holds their names.
 */
#pragma once

struct pt_behaviour {
	/* Whether a near RET that is not compressed empties the stack of returns, and whether PT
	   compresses any: 36.4.2.2. Whether TIP.PGD of a conditional branch out of a range has its
	   target (table 36-50), and that of a direct one (erratum SKL014). FUP packets of INT n.
	   Where PSB is when a trace begins, whether it is only there while PacketByteCnt is 0
	   (36.2.7.3), and whether it has the first address (erratum BDM70, of most processors).
	   Whether output overflows now and then while CYCEn is set, and for how long: 36.3.8.
	   Whether a region that is full interrupts once, and the only one of a table before it is
	   full: table 36-11. */
	enum { PT_RETURN_EMPTIES, PT_RETURN_POPS, PT_RETURN_NEVER } returns;
	enum { PT_LEAVE_TARGET, PT_LEAVE_SUPPRESSED, PT_LEAVE_UNTOLD } leave;
	enum { PT_INT_N_ONCE, PT_INT_N_TWICE } int_n;
	enum { PT_PSB_FIRST, PT_PSB_LAST, PT_PSB_ALWAYS, PT_PSB_TOLD } psb;
	enum { PT_OVERFLOWS_NEVER, PT_OVERFLOWS, PT_OVERFLOWS_LONG } overflow;
	enum { PT_INTERRUPTS_ONCE, PT_INTERRUPTS_ON, PT_INTERRUPTS_EARLY } interrupt;

	/* Partial TNT packets "may be generated at any time"; there are long ones (table 36-16). */
	enum { PT_TNT_SIX, PT_TNT_FOUR, PT_TNT_ONE, PT_TNT_LONG } tnt;

	/* Compression of addresses is optional (36.4.2.2); what IPBytes can say: table 36-18. */
	enum {
		PT_ADDRESS_SHORTEST,
		PT_ADDRESS_COARSE, /* four bytes, or six */
		PT_ADDRESS_SIX,	   /* always six, IPBytes = 011B */
		PT_ADDRESS_MERGED, /* 100B where the upper two are those of the last one */
	} address;

	/* Whether TNT and TIP wait for TNT to be full: 36.4.2.3. */
	enum { PT_TIP_AT_ONCE, PT_TIP_DEFERRED } tip;

	/* PSB's period is an average, and there may be more of them: 36.4.2.17. */
	enum { PT_PERIOD_EXACT, PT_PERIOD_VARIES, PT_PERIOD_EXTRA } period;

	/* Order within PSB+ (36.3.7), and of PIP and MODE.Exec before a TIP (table 36-15). */
	enum { PT_ORDER_STATE_FIRST, PT_ORDER_REVERSED } order;

	/* CYC: 36.4.2.14. */
	enum {
		PT_CYCLES_BEFORE, /* the packets that may have one */
		PT_CYCLES_ALONE,  /* and stand-alone ones */
		PT_CYCLES_RARE,	  /* many packets in one cycle of a slow core clock */
	} cycles;

	/* MODE.TSX within PSB+: 36.3.7. */
	enum { PT_TSX_ABSENT, PT_TSX_SHOWN } tsx;

	/* Packets that are there for the implementation: 36.4.2.19 and 36.4.2.20. */
	enum { PT_FILLER_NONE, PT_FILLER_PAD, PT_FILLER_MNT } filler;
};
