/* SPDX-License-Identifier: MIT */
/*
 * A decoder of Intel PT packets, written from SDM Vol 3, chapter 36, for tests in the image and on
 * the host. It shares nothing with the processor that it judges. packet_next() accepts whatever the
 * manual lets a processor choose: the length of TNT, the compression of addresses and of returns,
 * deferred TIPs, the order within PSB+. flow_next() gives the packets their meaning with the
 * program that was traced. Neither allocates; the bytes must stay while they are read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- One packet after the other -------------------------------------------------------------- */

/* 36.4.2; the order is known to pt_grammar.c. */
/* clang-format off */
enum packet_kind {
	PACKET_PAD, PACKET_TNT, PACKET_TIP, PACKET_TIP_PGE, PACKET_TIP_PGD, PACKET_FUP,
	PACKET_MODE_EXEC, PACKET_MODE_TSX, PACKET_PIP, PACKET_VMCS,
	PACKET_CBR, PACKET_TSC, PACKET_TMA, PACKET_MTC, PACKET_CYC,
	PACKET_MNT, PACKET_PSBEND, PACKET_OVF, PACKET_PSB, PACKET_TRACE_STOP,
	PACKET_PTW, PACKET_EXSTOP, PACKET_MWAIT, PACKET_PWRE, PACKET_PWRX,
};
/* clang-format on */

/* What the address of a FUP is. */
enum packet_role {
	ROLE_NONE,
	ROLE_STATUS, /* within PSB+: the next instruction; other packets there have the role too */
	ROLE_SOURCE, /* of the event whose target follows */
	ROLE_BOUND,  /* of the MODE.TSX, PTW or EXSTOP before it */
	ROLE_RESUME, /* where packets go on after OVF */
};

struct packet {
	enum packet_kind kind;
	enum packet_role role;
	size_t at; /* offset */
	unsigned size;
	bool has_ip;	/* IPBytes is not 0; of PTW and EXSTOP: a FUP follows */
	unsigned count; /* bits of TNT; IPBytes of an address; PIP.NR */
	/* The whole address; TNT with the oldest bit highest; CR3 of PIP; the payload. */
	uint64_t value;
};

/* PacketEn as far as the packets tell. */
enum packets_enabled { PACKETS_OFF, PACKETS_ON, PACKETS_UNKNOWN };

/* What has to follow: table 36-15. */
enum packet_open {
	OPEN_NONE,
	OPEN_MODE,	 /* TIP, TIP.PGE or TIP.PGD */
	OPEN_BOUND,	 /* FUP */
	OPEN_ABORT,	 /* FUP and TIP or TIP.PGD */
	OPEN_TARGET,	 /* TIP or TIP.PGD; of INT n one more FUP: table 36-50, 12e */
	OPEN_TARGET_INT, /* TIP or TIP.PGD */
	OPEN_OVERFLOW,	 /* FUP or TIP.PGE, after a PSB+ or none */
	OPEN_EARLY,	 /* TIP.PGE, of which PSB+ has said too much: erratum BDM70 */
};

struct packet_reader {
	const uint8_t *bytes;
	size_t size, at; /* at: the next packet */
	const char *error;
	bool cut; /* the error is a last packet that is not whole */
	uint64_t last_ip;
	enum packets_enabled enabled;
	enum packet_open open;
	bool in_psb, psb_fup, psb_mode; /* psb_: seen since PSB */
	bool mode_known, after_tsc;
	bool early; /* a PSB+ before TIP.PGE had MODE.Exec and FUP: erratum BDM70 */
};

/* Packets from the WRMSR on that set TraceEn. */
void packet_start(struct packet_reader *reader, const uint8_t *bytes, size_t size);

/* Moves on to the next PSB, as in a buffer whose begin is overwritten. False: there is none. */
bool packet_synchronise(struct packet_reader *reader);

/* Reads the next packet. False at the end and, with `error` set, where the manual allows no such
   packet: `at` is then its offset. */
bool packet_next(struct packet_reader *reader, struct packet *packet);

/* What still has to follow, in words; NULL where a trace may end. */
const char *packet_missing(const struct packet_reader *reader);

/* --- With the program ------------------------------------------------------------------------ */

/* How a block ends. FLOW_FALLS: no branch, the next block begins at `next`; FLOW_FAR: SYSCALL, IRET
   and others, but INT n is an event; FLOW_CR3: MOV to CR3. */
/* clang-format off */
enum flow_kind {
	FLOW_FALLS, FLOW_JCC, FLOW_JMP, FLOW_CALL, FLOW_JMP_INDIRECT, FLOW_CALL_INDIRECT,
	FLOW_RET, FLOW_FAR, FLOW_CR3,
};
/* clang-format on */

/* Straight code up to a branch and with it. */
struct flow_block {
	enum flow_kind kind;
	uint64_t branch; /* address of the instruction that ends the block */
	uint64_t next;	 /* of the one after it */
	uint64_t target; /* of Jcc, JMP and CALL */
};

/* The block that `ip` is in, from its first byte up to the branch. False: the program ends there.
 */
typedef bool flow_find(const void *program, uint64_t ip, struct flow_block *block);

enum flow_what {
	FLOW_BEGINS,	/* packets begin, at `to`; after an overflow and at the first PSB too */
	FLOW_BRANCH,	/* taken */
	FLOW_NOT_TAKEN, /* Jcc: `to` is the next instruction */
	FLOW_EVENT,	/* interrupt, exception, INT n, or WRMSR that clears TraceEn */
	FLOW_CHANGED,	/* MOV to CR3 that ends the packets */
	FLOW_LOST,	/* OVF; `from` is the last address that is known */
	FLOW_PACKET,	/* one that moves nothing: modes, CR3, times, PSB */
};

struct flow_item {
	enum flow_what what;
	uint64_t from;
	uint64_t to;	 /* 0: out of context, with no address in TIP.PGD */
	bool ends;	 /* PacketEn is 0 after it */
	bool compressed; /* a return without its target */
	uint64_t second; /* address of an event's second FUP, or 0 */
	struct packet packet;
};

enum { FLOW_CALLS = 64 }; /* 36.4.2.2 */

struct flow {
	struct packet_reader reader;
	flow_find *find;
	const void *program;
	const char *error; /* NULL, or why the flow cannot be followed */
	size_t at;	   /* offset of the packet that it is about */
	uint64_t ip;	   /* next instruction to execute, while `running` */
	bool running, in_event, cr3_written;
	struct packet held;
	bool is_held;
	uint64_t bits, from, second;
	unsigned bit_count;
	size_t steps; /* branches since the last packet */
	uint64_t calls[FLOW_CALLS];
	unsigned call_top, call_count;
};

/* As packet_start(); `find` is called with `program`. */
void flow_start(struct flow *flow, const uint8_t *bytes, size_t size, flow_find *find,
		const void *program);

/* What happened next. False at the end and, with `error` set, where packets and program do not fit.
   A last packet that is cut is an end without `error`: `reader.cut` is set. */
bool flow_next(struct flow *flow, struct flow_item *item);
