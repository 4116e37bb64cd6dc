// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c */
/* sources: tests/host/pt_stream.c tests/lib/pt_decode.c tests/lib/pt_grammar.c */
/* The tests' own decoder of Intel PT, by random streams: against what they were made of, and
 * libipt. */
#include "tests/host/host.h"

#include <intel-pt.h>
#include <string.h>

#include "tests/host/pt_stream.h"

enum { STREAMS = 20000, MOST_IPS = 16384 };

/* --- The decoder, and what it says ----------------------------------------------------------- */

static uint64_t found[MOST_IPS], known[MOST_IPS], their_offset;

static size_t length_at(uint64_t ip)
{
	struct flow_block block;

	return find_block(NULL, ip, &block) && ip == block.branch ? (size_t)(block.next - ip) : 1;
}

/* The instructions from `from` to before `to`. */
static size_t walk_instructions(uint64_t from, uint64_t to, size_t count)
{
	for (; from < to && count < MOST_IPS; from += length_at(from))
		found[count++] = from;
	return count;
}

static bool same_item(const struct flow_item *a, const struct flow_item *b)
{
	return a->what == b->what && (a->what == FLOW_LOST || a->from == b->from) &&
	       a->to == b->to && a->ends == b->ends && a->compressed == b->compressed &&
	       a->second == b->second;
}

static bool is_silent(enum packet_kind kind)
{
	return kind == PACKET_PAD || kind == PACKET_PSB || kind == PACKET_PSBEND;
}

/* Decodes the stream; the offset of the first thing that differs, or -1. Instructions in found[].
 */
static long differs(size_t *instructions)
{
	struct flow flow;
	struct flow_item item;
	size_t items = 0, asides = 0, count = 0;
	uint64_t ip = 0;

	flow_start(&flow, walk.bytes, walk.size, find_block, NULL);
	while (flow_next(&flow, &item)) {
		const struct packet *aside = &walk.asides[asides].packet;

		if (item.what == FLOW_PACKET) {
			if (is_silent(item.packet.kind))
				continue;
			if (asides++ == walk.aside_count || aside->kind != item.packet.kind ||
			    aside->value != item.packet.value)
				return (long)item.packet.at;
			continue;
		}
		if (items == walk.item_count || !same_item(&item, &walk.items[items++]))
			return (long)flow.at;
		if (item.what == FLOW_BRANCH || item.what == FLOW_NOT_TAKEN ||
		    item.what == FLOW_CHANGED)
			count = walk_instructions(ip, item.from + 1, count);
		else if (item.what == FLOW_EVENT)
			count = walk_instructions(ip, item.from, count);
		else if (item.what == FLOW_LOST)
			count = walk_instructions(ip, item.from, count);
		ip = item.to;
	}
	*instructions = count;
	if (flow.error || flow.reader.cut)
		return (long)flow.at;
	return items == walk.item_count && asides == walk.aside_count ? -1 : (long)flow.at;
}

/* --- Libipt ----------------------------------------------------------------------------------- */

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		     void *context)
{
	(void)asid, (void)context;
	for (unsigned n = 0; n < REGIONS; n++) {
		uint64_t left = walk_bases[n] + REGION_BYTES - ip;

		if (ip < walk_bases[n] || ip >= walk_bases[n] + REGION_BYTES)
			continue;
		size = size < left ? size : (size_t)left;
		memcpy(buffer, walk.code[n] + (ip - walk_bases[n]), size);
		return (int)size;
	}
	return -pte_nomap;
}

/* The instructions into known[]; a negative error, or how many. */
static long libipt_instructions(void)
{
	struct pt_config config;
	struct pt_image *image = pt_image_alloc("walk");
	struct pt_insn_decoder *decoder;
	long count = 0;
	int status;

	pt_config_init(&config);
	config.begin = walk.bytes;
	config.end = walk.bytes + walk.size;
	decoder = pt_insn_alloc_decoder(&config);
	pt_image_set_callback(image, read_code, NULL);
	assert_int_equal(pt_insn_set_image(decoder, image), 0);
	status = pt_insn_sync_forward(decoder);
	while (status >= 0) {
		struct pt_insn insn = {0};
		struct pt_event event;

		while (status >= 0 && status & pts_event_pending)
			status = pt_insn_event(decoder, &event, sizeof(event));
		if (status < 0 || status & pts_eos)
			break;
		status = pt_insn_next(decoder, &insn, sizeof(insn));
		if (insn.iclass != ptic_error && count < MOST_IPS)
			known[count++] = insn.ip;
	}
	pt_insn_get_offset(decoder, &their_offset);
	pt_insn_free_decoder(decoder);
	pt_image_free(image);
	return status < 0 && status != -pte_eos ? status : count;
}

/* --- Tests ------------------------------------------------------------------------------------ */

UNIT(streams_have_their_meaning)
{
	size_t count;

	for (unsigned n = 0; n < STREAMS; n++) {
		long at;

		make_stream(n, false);
		at = differs(&count);
		if (at >= 0)
			fail_msg("stream %u: differs at offset %ld of %zu", n, at, walk.size);
	}
}

UNIT(libipt_agrees)
{
	for (unsigned n = 0; n < STREAMS; n++) {
		size_t count;
		long at, theirs;

		make_stream(n, true);
		at = differs(&count);
		if (at >= 0)
			fail_msg("stream %u: differs at offset %ld of %zu", n, at, walk.size);
		theirs = libipt_instructions();
		if (theirs < 0)
			fail_msg("stream %u: libipt, at offset %llu: %s", n,
				 (unsigned long long)their_offset,
				 pt_errstr(pt_errcode((int)theirs)));
		for (size_t i = 0; i < count && i < (size_t)theirs; i++)
			if (found[i] != known[i])
				fail_msg("stream %u: instruction %zu: %llx, libipt %llx", n, i,
					 (unsigned long long)found[i],
					 (unsigned long long)known[i]);
		if ((size_t)theirs != count)
			fail_msg("stream %u: %zu instructions, libipt %ld", n, count, theirs);
	}
}

/* A bit of a stream that is turned is an error, or another meaning. */
UNIT(a_flipped_bit_is_noticed)
{
	unsigned noticed = 0;
	size_t count;

	for (unsigned n = 0; n < 2000; n++) {
		make_stream(n, false);
		walk.bytes[any((unsigned)walk.size)] ^= (uint8_t)(1 << any(8));
		noticed += differs(&count) >= 0;
	}
	assert_in_range(noticed, 1900, 2000);
}

#define PSB   "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82"
#define BEGIN "\x99\1\x31\0\0" /* MODE.Exec, TIP.PGE */
#define BYTES(...)                                                                                 \
	{                                                                                          \
		(const uint8_t *)(__VA_ARGS__), sizeof(__VA_ARGS__) - 1                            \
	}
#define REFUSED(at, ...)                                                                           \
	{                                                                                          \
		BYTES(__VA_ARGS__), at                                                             \
	}

/* Each once: what is wrong begins at offset `at`; -1: nothing is. */
UNIT(orders_are_checked)
{
	static const struct {
		struct {
			const uint8_t *bytes;
			size_t size;
		} stream;
		long at;
	} rows[] = {
		REFUSED(-1, BEGIN "\4"),
		REFUSED(0, "\4"),			     /* TNT while packets are off */
		REFUSED(0, "\x3d\0\0"),			     /* FUP while they are */
		REFUSED(-1, "\x31\0\0"),		     /* TIP.PGE without MODE.Exec */
		REFUSED(18, PSB "\2\x23\x31\0\0"),	     /* and without it since a PSB */
		REFUSED(7, BEGIN BEGIN),		     /* TIP.PGE while they are on */
		REFUSED(5, BEGIN "\xad\0\0\0\0\0\0\0\0"),    /* IPBytes 101B */
		REFUSED(5, BEGIN "\x0d"),		     /* TIP without its address */
		REFUSED(8, BEGIN "\x3d\0\0\4"),		     /* TNT after FUP */
		REFUSED(8, BEGIN "\x3d\0\0" PSB),	     /* PSB after FUP */
		REFUSED(7, BEGIN "\x99\1\4"),		     /* TNT after MODE.Exec */
		REFUSED(7, BEGIN "\x99\x21\4"),		     /* TNT after MODE.TSX */
		REFUSED(11, BEGIN "\2\x92\0\0\0\0\4"),	     /* TNT after PTW with an address */
		REFUSED(7, BEGIN "\2\xe2\4"),		     /* TNT after EXSTOP with one */
		REFUSED(-1, BEGIN "\2\x12\0\0\0\0\2\x62\4"), /* without */
		REFUSED(-1, BEGIN "\2\xb2\0\0\0\0\0\0\0\0\x3d\0\0\4"),
		REFUSED(16, PSB "\4"),		 /* TNT in PSB+ */
		REFUSED(16, PSB "\2\x83"),	 /* TraceStop in PSB+ */
		REFUSED(18, PSB "\x99\1\2\x23"), /* MODE.Exec without FUP */
		REFUSED(21, BEGIN PSB "\2\x23"), /* no FUP while packets are on */
		REFUSED(0, "\2\x23"),		 /* PSBEND without PSB */
		REFUSED(0, "\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x82\2\x83"),
		REFUSED(0, "\2\x73\0\0\0\0\0"),	  /* TMA without TSC */
		REFUSED(1, "\0\2\x73\0\0\0\0\0"), /* after PAD alone */
		REFUSED(7, BEGIN "\2\xf3\4"),	  /* TNT after OVF */
		REFUSED(-1, BEGIN "\2\xf3\x3d\0\0\4"),
		REFUSED(0, "\x99\3"),		  /* CS.L and CS.D */
		REFUSED(0, "\x99\x41"),		  /* no leaf */
		REFUSED(0, "\2\xa3\1\0\0\0\0\0"), /* long TNT of no bits */
		REFUSED(0, "\2\xff"),
		REFUSED(0, "\5"),
	};

	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		struct packet_reader reader;
		struct packet packet;

		packet_start(&reader, rows[n].stream.bytes, rows[n].stream.size);
		while (packet_next(&reader, &packet))
			;
		if ((rows[n].at < 0) != !reader.error ||
		    (reader.error && (long)reader.at != rows[n].at))
			fail_msg("row %zu: %s at offset %zu", n,
				 reader.error ? reader.error : "legal", reader.at);
	}
}

UNIT(synchronises_with_psb_alone)
{
	static const uint8_t stream[] = "\4\2\x82\2" PSB "\2\x23";
	struct packet_reader reader;
	struct packet packet;

	packet_start(&reader, stream, sizeof(stream) - 1);
	assert_true(packet_synchronise(&reader));
	assert_int_equal(reader.at, 4);
	assert_true(packet_next(&reader, &packet));
	assert_int_equal(packet.kind, PACKET_PSB);
	assert_false(packet_synchronise(&reader));
}
