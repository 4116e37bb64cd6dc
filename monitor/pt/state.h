/* SPDX-License-Identifier: MIT */
/* Intel PT of one virtual processor: a member of struct vcpu. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PT_RANGES = 4, PT_RETURNS = 64, PT_TNT_BITS = 6, PT_MODE_NONE = 0xff };
enum { PT_MOST_PACKET_BYTES = 0x1ffff, PT_DEFERRED = 8, PT_OFFSET_SHIFT = 32 };
enum { PT_TNT_NONE = 1, PT_TIP = 0x0d, PT_IP_BYTES_SHIFT = 5, PT_IP_PACKET_BYTES = 7 };

struct pt_page {
	uint64_t physical;
	uint8_t *host;
};

struct pt_state {
	/* The MSRs: SDM Vol 3, 36.2.7. */
	uint64_t ctl, status, output_base, output_mask_ptrs, cr3_match;
	uint64_t address[PT_RANGES][2]; /* IA32_RTIT_ADDRn_A, _B */

	/* What the next instruction or event begins with. */
	bool packet_enabled, context_enabled;
	/* Work that is due at the end of an instruction; `awaited` is 0 where there is none. */
	union {
		struct {
			bool enabling, disabling;	      /* WRMSR changed TraceEn */
			bool cr3_written, interrupted_itself; /* MOV CR3, INT n */
			bool sync_due;			      /* PSB follows the instruction */
			uint8_t overflowing; /* instructions until OVF: their packets are lost */
		};
		uint64_t awaited;
	};
	uint64_t next_ctl; /* disabling: after the last packets */
	uint64_t code_base;
	uint64_t reported_cr3; /* by the last PIP */
	uint8_t reported_mode; /* by the last MODE.Exec */

	/* The encoder's: SDM Vol 3, 36.4.2. */
	uint64_t last_ip;
	uint64_t returns[PT_RETURNS];
	unsigned return_count, return_top;
	uint64_t tnt; /* the bits so far, after a 1 */
	uint8_t deferred_count;
	uint64_t deferred[PT_DEFERRED]; /* targets whose TIP waits for TNT: 36.4.2.3 */
	uint32_t packet_bytes;		/* since the last PSB: IA32_RTIT_STATUS.PacketByteCnt */
	uint32_t period;		/* of them until the next one */
	bool period_late;
	uint64_t cycles;    /* the TSC at the last CYC */
	uint64_t tnt_began; /* and at the first bit of `tnt`, of which CYC has the time: 36.3.6.2 */

	/* Of this trace: no rule is replaced; near branches can take the short way, in pt.h. */
	bool clean, plain;
	/* For that: `tnt` that is full, 0: now they cannot; bytes for which there is room at `to`
	   before anything is due but to store them. */
	uint8_t tnt_end;
	uint32_t room;
	uint8_t *to;

	struct pt_page page[2]; /* output.c: of the table, of the output */
};
