// SPDX-License-Identifier: MIT
#include "tests/host/pt_stream.h"

#include <string.h>

#include "tests/framework/random.h"

#define PUT(...) put((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* Of which some share 48, 32 or 16 upper bits; the last is a kernel's. */
const uint64_t walk_bases[REGIONS] = {0x400000, 0x41fff0, 0x7f0000400000, 0xffffffff81000000};

struct walk walk;

unsigned any(unsigned below)
{
	return (unsigned)random_below(&walk.seed, below);
}

/* --- The program ------------------------------------------------------------------------------ */

static void put_code(uint8_t **at, const char *bytes, unsigned count)
{
	memcpy(*at, bytes, count);
	*at += count;
}

/* The bytes of a block's branch; targets within the region are known after all blocks are. */
static void make_branch(uint8_t **at, struct flow_block *is)
{
	static const struct {
		const char *bytes;
		unsigned count;
	} forms[] = {
		[FLOW_FALLS] = {"\x90", 1},
		[FLOW_JCC] = {"\x0f\x84\0\0\0\0", 6},
		[FLOW_JMP] = {"\xe9\0\0\0\0", 5},
		[FLOW_CALL] = {"\xe8\0\0\0\0", 5},
		[FLOW_JMP_INDIRECT] = {"\xff\xe0", 2},
		[FLOW_CALL_INDIRECT] = {"\xff\xd0", 2},
		[FLOW_RET] = {"\xc3", 1},
		[FLOW_FAR] = {"\x48\xcf", 2},
		[FLOW_CR3] = {"\x0f\x22\xd8", 3},
	};

	put_code(at, forms[is->kind].bytes, forms[is->kind].count);
	is->next = is->branch + forms[is->kind].count;
}

static void set_targets(unsigned region)
{
	for (unsigned n = 0; n < BLOCKS; n++) {
		struct flow_block *is = &walk.block[region][n].is;
		bool jcc = is->kind == FLOW_JCC;
		unsigned to;
		int32_t distance;

		if (!jcc && is->kind != FLOW_JMP && is->kind != FLOW_CALL)
			continue;
		to = jcc ? any(BLOCKS) : n + 1 + any(BLOCKS - n - 1);
		is->target = walk.block[region][to].first;
		distance = (int32_t)(is->target - is->next);
		memcpy(walk.code[region] + (is->next - walk_bases[region]) - 4, &distance, 4);
	}
}

static void make_region(unsigned region)
{
	static const enum flow_kind kinds[] = {
		FLOW_FALLS, FLOW_JCC,  FLOW_JCC,  FLOW_JCC,	     FLOW_JCC,		 FLOW_JCC,
		FLOW_JMP,   FLOW_CALL, FLOW_CALL, FLOW_JMP_INDIRECT, FLOW_CALL_INDIRECT, FLOW_RET,
		FLOW_RET,   FLOW_RET,  FLOW_FAR,  FLOW_CR3};
	uint8_t *at = walk.code[region];

	for (unsigned n = 0; n < BLOCKS; n++) {
		struct walk_block *block = &walk.block[region][n];

		block->first = walk_bases[region] + (uint64_t)(at - walk.code[region]);
		memset(at, 0x90, 8);
		at += any(5);
		block->is = (struct flow_block){
			.branch = walk_bases[region] + (uint64_t)(at - walk.code[region]),
			.kind = n == BLOCKS - 1 ? FLOW_JMP_INDIRECT
						: kinds[any(sizeof(kinds) / sizeof(*kinds))]};
		make_branch(&at, &block->is);
	}
	set_targets(region);
}

bool find_block(const void *program, uint64_t ip, struct flow_block *block)
{
	(void)program;
	for (unsigned n = 0; n < REGIONS * BLOCKS; n++) {
		const struct walk_block *at = &walk.block[n / BLOCKS][n % BLOCKS];

		if (ip < at->first || ip > at->is.branch)
			continue;
		*block = at->is;
		return true;
	}
	return false;
}

static uint64_t anywhere(void)
{
	unsigned region = any(REGIONS);

	return walk_bases[region] + REGION_BYTES / 2 + any(99);
}

static uint64_t any_block(void)
{
	unsigned region = any(REGIONS);

	return walk.block[region][any(BLOCKS)].first;
}

/* --- Packets ---------------------------------------------------------------------------------- */

static void put(const void *bytes, unsigned count)
{
	memcpy(walk.bytes + walk.size, bytes, count);
	walk.size += count;
}

static void put_value(uint64_t value, unsigned count)
{
	put(&value, count);
}

static void tell(enum packet_kind kind, uint64_t value)
{
	walk.asides[walk.aside_count++].packet = (struct packet){.kind = kind, .value = value};
}

static void put_cycles(uint64_t cycles)
{
	uint64_t rest = cycles >> 5;

	PUT((uint8_t)(3 | (cycles & 0x1f) << 3 | (rest ? 4 : 0)));
	for (; rest; rest >>= 7)
		PUT((uint8_t)((rest & 0x7f) << 1 | (rest >> 7 ? 1 : 0)));
	tell(PACKET_CYC, cycles);
}

static void put_tsc(void)
{
	uint64_t value = random_next(&walk.seed) & ((1ull << 56) - 1);

	PUT(0x19);
	put_value(value, 7);
	tell(PACKET_TSC, value);
	if (any(2))
		return;
	value = random_next(&walk.seed) & 0x1ff00ffffull;
	PUT(0x02, 0x73);
	put_value(value, 5);
	tell(PACKET_TMA, value);
}

static void put_cbr(void)
{
	uint64_t value = 1 + any(255);

	PUT(0x02, 0x03);
	put_value(value, 2);
	tell(PACKET_CBR, value);
}

/* 36.4.2.20. Libipt runs out of events at some. */
static void put_mnt(void)
{
	uint64_t payload = random_next(&walk.seed);

	if (walk.libipt)
		return;
	PUT(0x02, 0xc3, 0x88);
	put((const uint8_t *)&payload, sizeof(payload));
	tell(PACKET_MNT, payload);
}

/* What may be between any two packets. */
static void put_time(void)
{
	uint8_t counter = (uint8_t)any(256);

	switch (any(walk.calm && walk.libipt ? 3 : 24)) {
	case 0:
		PUT(0x00);
		break;
	case 1:
		put_cycles(random_next(&walk.seed) >> (walk.libipt ? 12 : 0) >> any(50));
		break;
	case 2:
		PUT(0x59, counter);
		tell(PACKET_MTC, counter);
		break;
	case 3:
		put_tsc();
		break;
	case 4:
		put_cbr();
		break;
	case 5:
		put_mnt();
	}
}

static void put_address(uint8_t packet, uint64_t ip)
{
	static const unsigned sizes[] = {0, 2, 4, 6, 6, 0, 8};
	unsigned code;
	bool fits, whole = walk.libipt && walk.whole;

	walk.whole = walk.cr3_told = false;
	do {
		code = 1 + any(6);
		fits = code == 6 || (code == 3 && (uint64_t)((int64_t)(ip << 16) >> 16) == ip) ||
		       (!whole && code != 3 && code < 5 &&
			ip >> 8 * sizes[code] == walk.last_ip >> 8 * sizes[code]);
	} while (!fits);
	PUT((uint8_t)(packet | code << 5));
	put_value(ip, sizes[code]);
	walk.last_ip = ip;
}

static void put_bits(void)
{
	uint64_t payload = 1ull << walk.bit_count | walk.bits;

	if (walk.bit_count > 6 || !any(3)) {
		PUT(0x02, 0xa3);
		put_value(payload, 6);
	} else {
		PUT((uint8_t)(payload << 1));
	}
	walk.bits = walk.bit_count = 0;
	walk.cr3_told = false;
	walk.bit_limit = 1 + any(any(2) ? 6 : 47);
}

static void flush(void)
{
	put_time();
	if (walk.bit_count)
		put_bits();
	for (unsigned n = 0; n < walk.tip_count; n++) {
		put_time();
		put_address(0x0d, walk.tips[n]);
	}
	walk.tip_count = 0;
	put_time();
}

static void put_bit(bool bit)
{
	walk.bits = walk.bits << 1 | bit;
	if (++walk.bit_count >= walk.bit_limit)
		flush();
}

static void put_target(uint64_t ip, bool may_wait)
{
	if (may_wait && !walk.libipt && walk.bit_count && walk.tip_count < 16 && any(2)) {
		walk.tips[walk.tip_count++] = ip;
		return;
	}
	flush();
	put_address(0x0d, ip);
}

static void put_mode(void)
{
	uint8_t mode = walk.libipt ? 1 : (uint8_t)any(3);

	PUT(0x99, mode);
	tell(PACKET_MODE_EXEC, mode);
}

static void put_pip(void)
{
	uint64_t cr3 = random_next(&walk.seed) & 0xffffffffff000;

	PUT(0x02, 0x43);
	put_value(cr3 >> 5 << 1 | any(2), 6);
	tell(PACKET_PIP, cr3);
}

static void put_vmcs(void)
{
	uint64_t pointer = random_next(&walk.seed) & 0xffffffffff;

	PUT(0x02, 0xc8);
	put_value(pointer, 5);
	tell(PACKET_VMCS, pointer);
}

static void put_changes(bool far)
{
	unsigned first = far && walk.libipt ? 1 : any(3);

	flush();
	walk.calm = far;
	for (unsigned n = 0; n < 3; n++) {
		unsigned which = (first + n) % 3;

		if (any(3) || (which == 2 && far && walk.libipt))
			continue;
		which == 0 ? put_mode() : which == 1 ? put_pip() : put_vmcs();
		put_time();
	}
}

static void put_psb(void)
{
	unsigned first = any(5);

	flush();
	for (unsigned n = 0; n < 8; n++)
		PUT(0x02, 0x82);
	walk.last_ip = 0;
	walk.call_count = 0;
	for (unsigned n = 0; n < 5; n++) {
		unsigned which = (first + n) % 5;

		if (which == 0)
			put_cbr();
		else if (which == 1 && walk.on)
			put_mode();
		else if (which == 2 && walk.on)
			put_address(0x1d, walk.ip);
		else if (which == 3 && !any(2))
			put_pip();
		else if (which == 4 && !any(2))
			put_tsc();
		put_time();
	}
	PUT(0x02, 0x23);
}

/* --- Where packets begin and end, and calls ----------------------------------------------------
 */

static struct flow_item *happens(enum flow_what what, uint64_t from, uint64_t to)
{
	struct flow_item *item = &walk.items[walk.item_count++];

	*item = (struct flow_item){.what = what, .from = from, .to = to};
	return item;
}

static void goes_on(uint64_t to)
{
	put_mode();
	put_address(0x11, to);
	walk.on = true;
	walk.ip = to;
	walk.call_count = 0;
	happens(FLOW_BEGINS, 0, to);
}

static void is_off(struct flow_item *item)
{
	item->ends = true;
	walk.on = false;
	if (!any(6))
		PUT(0x02, 0x83), tell(PACKET_TRACE_STOP, 0);
	if (!any(4))
		put_psb();
	put_time();
}

static void calls(const struct flow_block *is)
{
	if (is->kind == FLOW_CALL && is->target == is->next)
		return;
	if (walk.call_count == FLOW_CALLS) {
		memmove(walk.calls, walk.calls + 1, sizeof(walk.calls) - sizeof(walk.calls[0]));
		walk.call_count--;
	}
	walk.calls[walk.call_count++] = is->next;
}

/* --- The walk --------------------------------------------------------------------------------- */

/* 36.4.2.2. Libipt has to have forgotten what is below a return that was not compressed. */
static void walk_return(const struct flow_block *is)
{
	uint64_t known = walk.call_count ? walk.calls[--walk.call_count] : 0;
	uint64_t to = known && any(8) ? known : any_block();

	happens(FLOW_BRANCH, is->branch, to);
	walk.ip = to;
	if (to == known && any(8)) {
		walk.items[walk.item_count - 1].compressed = true;
		put_bit(true);
		return;
	}
	put_target(to, false);
	walk.call_count = walk.libipt ? 0 : walk.call_count;
}

/* Out of an address range: table 36-50, 6b, 7e, 9c; IRET to another context: 10c. PSB says that it
   was not at an earlier jump to the same place. */
static void leave_by(const struct flow_block *is)
{
	bool jcc = is->kind == FLOW_JCC,
	     tells = is->kind == FLOW_FAR ? any(2) : !jcc || walk.libipt;
	uint64_t to = is->target ? is->target : anywhere();

	if (jcc)
		put_psb();
	flush();
	if (is->kind == FLOW_FAR)
		tells = any(2) || (walk.libipt && walk.cr3_told);
	tells ? put_address(0x01, to) : PUT(0x01);
	is_off(happens(FLOW_BRANCH, is->branch, tells || jcc ? to : 0));
}

static void walk_cr3(const struct flow_block *is)
{
	flush();
	if (any(6) || (walk.libipt && walk.cr3_told)) {
		put_pip();
		walk.cr3_told = true;
		walk.ip = is->next;
		return;
	}
	PUT(0x01);
	is_off(happens(FLOW_CHANGED, is->branch, 0));
}

static void walk_indirect(const struct flow_block *is)
{
	uint64_t to = any_block();

	if (is->kind == FLOW_FAR)
		put_changes(true);
	put_target(to, is->kind != FLOW_FAR);
	walk.calm = false;
	if (is->kind == FLOW_CALL_INDIRECT)
		calls(is);
	walk.ip = to;
	happens(FLOW_BRANCH, is->branch, to);
}

static void walk_block(const struct flow_block *is)
{
	bool taken = any(2);

	if (is->kind == FLOW_FALLS) {
		walk.ip = is->next;
	} else if (is->kind == FLOW_CR3) {
		walk_cr3(is);
	} else if (!any(40)) {
		leave_by(is);
	} else if (is->kind == FLOW_RET) {
		walk_return(is);
	} else if (is->kind >= FLOW_JMP_INDIRECT) {
		walk_indirect(is);
	} else if (is->kind == FLOW_JCC) {
		put_bit(taken);
		walk.ip = taken ? is->target : is->next;
		happens(taken ? FLOW_BRANCH : FLOW_NOT_TAKEN, is->branch, walk.ip);
	} else {
		if (is->kind == FLOW_CALL)
			calls(is);
		happens(FLOW_BRANCH, is->branch, is->target);
		walk.ip = is->target;
	}
}

/* An interrupt or a fault at walk.ip, or the WRMSR that clears TraceEn. */
static void walk_event(bool ends)
{
	uint64_t to = any_block(), second = any_block();
	struct flow_item *item;

	flush();
	put_address(0x1d, walk.ip);
	item = happens(FLOW_EVENT, walk.ip, ends ? 0 : to);
	if (!walk.libipt && !any(4)) {
		put_address(0x1d, second);
		item->second = second;
	}
	if (ends) {
		PUT(0x01);
		is_off(item);
		return;
	}
	put_changes(false);
	put_address(0x0d, to);
	walk.ip = to;
}

/* 36.3.8. Direct jumps before it would be lost with it: an event tells of them. */
static void walk_overflow(void)
{
	walk_event(false);
	walk.bits = walk.bit_count = walk.tip_count = walk.call_count = 0;
	PUT(0x02, 0xf3);
	happens(FLOW_LOST, 0, 0);
	walk.on = false;
	walk.whole = true;
	put_time();
	if (!any(3)) {
		goes_on(any_block());
		return;
	}
	walk.ip = any_block();
	put_address(0x1d, walk.ip);
	happens(FLOW_BEGINS, 0, walk.ip);
	walk.on = true;
}

/* 36.4.2.8: a transaction begins or commits; an abort goes somewhere else. */
static void walk_transaction(void)
{
	uint8_t bits = (uint8_t)any(3);
	uint64_t to = any_block();

	flush();
	PUT(0x99, 0x20 | bits);
	tell(PACKET_MODE_TSX, bits);
	put_address(0x1d, walk.ip);
	if (bits != 2)
		return;
	put_address(0x0d, to);
	happens(FLOW_EVENT, walk.ip, to);
	walk.ip = to;
}

static void walk_step(void)
{
	struct flow_block block;

	if (!walk.on) {
		goes_on(any_block());
		return;
	}
	find_block(NULL, walk.ip, &block);
	if (walk.ip < block.branch && !any(4))
		walk.ip += any((unsigned)(block.branch - walk.ip) + 1);
	switch (any(60)) {
	case 0:
		walk_overflow();
		break;
	case 1:
	case 2:
		walk_event(false);
		break;
	case 3:
		walk_event(true);
		break;
	case 4:
		put_psb();
		break;
	case 5:
		walk_transaction();
		break;
	default:
		walk_block(&block);
	}
}

void make_stream(unsigned seed, bool libipt)
{
	memset(&walk, 0, sizeof(walk));
	walk.seed = seed * 2654435761u + libipt;
	walk.libipt = libipt;
	walk.bit_limit = 6;
	for (unsigned n = 0; n < REGIONS; n++)
		make_region(n);
	put_psb();
	goes_on(any_block());
	for (unsigned n = 20 + any(60); n--;)
		walk_step();
	if (!walk.on)
		goes_on(any_block());
	walk_event(true);
}
