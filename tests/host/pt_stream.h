/* SPDX-License-Identifier: MIT */
/*
 * Random programs and random walks through them, as packets that the manual allows: SDM Vol 3,
 * 36.4. What a processor may choose (bits in a TNT, compression, TIPs that wait, the order within
 * PSB+, times between) is chosen at random. The truth is kept beside: what the packets mean.
 */
#pragma once

#include "tests/lib/pt_decode.h"

enum { REGIONS = 4, BLOCKS = 14, REGION_BYTES = 512, MOST_BYTES = 16384, MOST_ITEMS = 2048 };

extern const uint64_t walk_bases[REGIONS];

struct walk_block {
	uint64_t first;
	struct flow_block is;
};

extern struct walk {
	uint64_t seed;
	/* Libipt knows no deferred TIP, no second FUP of INT n, no TIP.PGD of a Jcc without its
	   target, no VMCS beside IRET, no TSC and CBR there and no PIP after its MODE.Exec, no CYC
	   of ten bytes, and no return that is compressed after one that was not; it takes the first
	   address after an overflow for a whole one,
	   and TIP.PGD without an address for one of the MOV to CR3 before. */
	bool libipt;
	uint8_t code[REGIONS][REGION_BYTES];
	struct walk_block block[REGIONS][BLOCKS];
	uint8_t bytes[MOST_BYTES];
	size_t size;
	struct flow_item items[MOST_ITEMS], asides[MOST_ITEMS];
	size_t item_count, aside_count;
	uint64_t last_ip, ip, bits, tips[16];
	unsigned bit_count, bit_limit, tip_count;
	uint64_t calls[FLOW_CALLS];
	unsigned call_count;
	bool on, whole, calm, cr3_told;
} walk;

/* Makes the stream of this seed, which libipt understands if `libipt`. */
void make_stream(unsigned seed, bool libipt);

/* The block of the program with the instruction at `ip`, as struct flow wants it. */
bool find_block(const void *program, uint64_t ip, struct flow_block *block);

/* A number below `below`, of the same sequence as the stream. */
unsigned any(unsigned below);
