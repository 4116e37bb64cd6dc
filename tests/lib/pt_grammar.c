// SPDX-License-Identifier: MIT
/* The packets and their order: SDM Vol 3, 36.4. Bits that are reserved may be set. */
#include "tests/lib/pt_decode.h"

enum { EXTENDED = 0x02, MNT = 0xc3, MNT_THIRD = 0x88, PSB_BYTES = 16, CYC_BYTES = 10 };
enum { IP_SHIFT = 5, IP_SIGNED = 3, PIP_SHIFT = 5, TSX_ABORT = 2 };

/* By the first byte, or the second one of 02H: figures of 36.4.2.1 to 36.4.2.25. */
struct form {
	uint8_t mask, value;
	enum packet_kind kind;
	uint8_t size;
};

static const struct form plain[] = {
	{0x1f, 0x0d, PACKET_TIP, 1},	   {0x1f, 0x11, PACKET_TIP_PGE, 1},
	{0x1f, 0x01, PACKET_TIP_PGD, 1},   {0x1f, 0x1d, PACKET_FUP, 1},
	{0xff, 0x99, PACKET_MODE_EXEC, 2}, {0xff, 0x19, PACKET_TSC, 8},
	{0xff, 0x59, PACKET_MTC, 2},	   {0x03, 0x03, PACKET_CYC, 1},
	{0xff, 0x00, PACKET_PAD, 1},	   {0x01, 0x00, PACKET_TNT, 1},
};
static const struct form extended[] = {
	{0xff, 0x82, PACKET_PSB, PSB_BYTES}, {0xff, 0x23, PACKET_PSBEND, 2},
	{0xff, 0x43, PACKET_PIP, 8},	     {0xff, 0x03, PACKET_CBR, 4},
	{0xff, 0xf3, PACKET_OVF, 2},	     {0xff, 0x83, PACKET_TRACE_STOP, 2},
	{0xff, 0xa3, PACKET_TNT, 8},	     {0xff, 0x73, PACKET_TMA, 7},
	{0xff, 0xc8, PACKET_VMCS, 7},	     {0xff, MNT, PACKET_MNT, 11},
	{0x7f, 0x12, PACKET_PTW, 6},	     {0x7f, 0x32, PACKET_PTW, 10},
	{0x7f, 0x62, PACKET_EXSTOP, 2},	     {0xff, 0xc2, PACKET_MWAIT, 10},
	{0xff, 0x22, PACKET_PWRE, 4},	     {0xff, 0xa2, PACKET_PWRX, 7},
};

static const struct form *form_of(const struct form *forms, size_t count, uint8_t byte)
{
	for (size_t n = 0; n < count; n++)
		if ((byte & forms[n].mask) == forms[n].value)
			return &forms[n];
	return NULL;
}

static uint64_t little_endian(const uint8_t *bytes, unsigned count)
{
	uint64_t value = 0;

	for (unsigned n = 0; n < count && n < 8; n++)
		value |= (uint64_t)bytes[n] << 8 * n;
	return value;
}

static bool is_address(enum packet_kind kind)
{
	return kind >= PACKET_TIP && kind <= PACKET_FUP;
}

/* Below the highest bit that is set: table 36-16. */
static const char *read_bits(struct packet *packet, uint64_t payload)
{
	packet->count = 0;
	while (payload >> packet->count > 1)
		packet->count++;
	packet->value = payload & ~(1ull << packet->count);
	return payload && packet->count ? NULL : "a TNT has no bits";
}

/* Table 36-18. */
static const char *read_address(struct packet_reader *reader, struct packet *packet,
				const uint8_t *at)
{
	static const uint8_t sizes[] = {0, 2, 4, 6, 6, 0, 8, 0};
	unsigned code = at[0] >> IP_SHIFT, bytes = sizes[code];
	uint64_t ip = little_endian(at + 1, bytes);

	packet->count = code;
	packet->has_ip = code;
	if (code && !bytes)
		return "IPBytes is reserved";
	if (!code)
		return packet->kind == PACKET_TIP_PGD ? NULL : "an address is suppressed";
	if (code == IP_SIGNED)
		ip = (uint64_t)((int64_t)(ip << 16) >> 16);
	else if (bytes < 8)
		ip |= reader->last_ip & ~0ull << 8 * bytes;
	packet->value = reader->last_ip = ip;
	return NULL;
}

/* Table 36-33: bits 7:3 of the first byte, 7:1 of those after it. */
static const char *read_cycles(struct packet *packet, const uint8_t *at)
{
	packet->value = at[0] >> 3;
	for (unsigned n = 1; n < packet->size && n < CYC_BYTES; n++)
		packet->value |= (uint64_t)(at[n] >> 1) << (7 * n - 2);
	return packet->size > CYC_BYTES ? "a CYC has more than 64 bits" : NULL;
}

static const char *read_mode(struct packet *packet, uint8_t byte)
{
	if (byte >> 5 > 1)
		return "the leaf of a MODE is reserved";
	packet->kind = byte >> 5 ? PACKET_MODE_TSX : PACKET_MODE_EXEC;
	packet->value = byte & 3;
	return packet->value == 3 ? "the bits of a MODE exclude each other" : NULL;
}

static const char *read_psb(const uint8_t *at)
{
	for (unsigned n = 0; n < PSB_BYTES; n++)
		if (at[n] != at[n % 2])
			return "a PSB is not whole";
	return NULL;
}

static const char *read_payload(struct packet_reader *reader, struct packet *packet,
				const uint8_t *at)
{
	unsigned header = at[0] != EXTENDED ? 1 : packet->kind == PACKET_MNT ? 3 : 2;

	if (is_address(packet->kind))
		return read_address(reader, packet, at);
	if (packet->kind == PACKET_TNT)
		return read_bits(packet, header == 2 ? little_endian(at + 2, 6) : at[0] >> 1);
	if (packet->kind == PACKET_CYC)
		return read_cycles(packet, at);
	if (packet->kind == PACKET_MODE_EXEC)
		return read_mode(packet, at[1]);
	if (packet->kind == PACKET_PSB)
		return read_psb(at);
	if (packet->kind == PACKET_MNT && at[2] != MNT_THIRD)
		return "no packet begins so";
	packet->has_ip =
		(packet->kind == PACKET_PTW || packet->kind == PACKET_EXSTOP) && at[1] >> 7;
	packet->value = little_endian(at + header, packet->size - header);
	if (packet->kind == PACKET_PIP) {
		packet->count = packet->value & 1;
		packet->value = packet->value >> 1 << PIP_SHIFT;
	}
	return NULL;
}

/* --- The order; an error in words, or NULL --------------------------------------------------- */

/* 36.3.7: status in any order, times between. */
static const char *within_psb(struct packet_reader *reader, struct packet *packet)
{
	enum packet_kind kind = packet->kind;

	packet->role = ROLE_STATUS;
	if (kind == PACKET_TNT || kind >= PACKET_PSB || (is_address(kind) && kind != PACKET_FUP))
		return "not allowed in PSB+";
	if (kind == PACKET_FUP && reader->psb_fup)
		return "two FUPs in PSB+";
	reader->psb_fup |= kind == PACKET_FUP;
	reader->psb_mode |= kind == PACKET_MODE_EXEC;
	reader->mode_known |= kind == PACKET_MODE_EXEC;
	return NULL;
}

/* MODE.Exec and FUP are there exactly if PacketEn is set; by erratum BDM70 of libipt
   also in a PSB+ before TIP.PGE, which may be the first that a reader has. */
static const char *end_psb(struct packet_reader *reader)
{
	reader->in_psb = false;
	if (reader->psb_fup != reader->psb_mode)
		return "of MODE.Exec and FUP one alone is in PSB+";
	if (!reader->psb_fup && reader->enabled == PACKETS_ON)
		return "no FUP in PSB+ while packets are on";
	if (!reader->psb_fup)
		reader->enabled = PACKETS_OFF;
	else if (reader->enabled == PACKETS_OFF)
		reader->open = OPEN_EARLY;
	else if (reader->open == OPEN_OVERFLOW)
		reader->enabled = PACKETS_ON;
	return NULL;
}

static const char *begin_psb(struct packet_reader *reader)
{
	if (reader->open != OPEN_NONE && reader->open < OPEN_OVERFLOW)
		return "PSB within an event";
	reader->in_psb = true;
	reader->psb_fup = reader->psb_mode = reader->mode_known = false;
	reader->last_ip = 0;
	return NULL;
}

static const char *order_of_fup(struct packet_reader *reader, struct packet *packet)
{
	enum packet_open before = reader->open;

	if (before == OPEN_MODE || before == OPEN_TARGET_INT || before == OPEN_EARLY)
		return "FUP within an event";
	if (before == OPEN_NONE && reader->enabled == PACKETS_OFF)
		return "FUP while packets are off";
	packet->role = before == OPEN_BOUND	 ? ROLE_BOUND
		       : before == OPEN_OVERFLOW ? ROLE_RESUME
						 : ROLE_SOURCE;
	reader->open = before == OPEN_NONE	     ? OPEN_TARGET
		       : packet->role == ROLE_SOURCE ? OPEN_TARGET_INT
						     : OPEN_NONE;
	reader->enabled = before == OPEN_OVERFLOW ? PACKETS_ON : reader->enabled;
	return NULL;
}

/* TNT, TIP, TIP.PGD: PacketEn is set before them. */
static const char *order_while_on(struct packet_reader *reader, struct packet *packet)
{
	bool bits = packet->kind == PACKET_TNT;

	if (reader->enabled == PACKETS_OFF)
		return "a branch while packets are off";
	if (reader->open == OPEN_BOUND || reader->open == OPEN_ABORT)
		return "FUP has to follow";
	if (reader->open == OPEN_OVERFLOW && reader->enabled != PACKETS_ON)
		return "FUP or TIP.PGE has to follow an overflow";
	if (bits && reader->open != OPEN_NONE && reader->open != OPEN_OVERFLOW)
		return "TNT within an event";
	reader->open = OPEN_NONE;
	reader->enabled = packet->kind == PACKET_TIP_PGD ? PACKETS_OFF : PACKETS_ON;
	return NULL;
}

static const char *order_of_begin(struct packet_reader *reader)
{
	if (reader->enabled == PACKETS_ON)
		return "TIP.PGE while packets are on";
	if (reader->open > OPEN_MODE && reader->open < OPEN_OVERFLOW)
		return "TIP.PGE within an event";
	if (!reader->mode_known)
		return "TIP.PGE without MODE.Exec since PSB";
	reader->early |= reader->open == OPEN_EARLY;
	reader->open = OPEN_NONE;
	reader->enabled = PACKETS_ON;
	return NULL;
}

/* What may be in the middle of an event, and begin none: table 36-15. */
static const char *order_of_middle(struct packet_reader *reader, struct packet *packet)
{
	if (reader->open == OPEN_BOUND || reader->open == OPEN_ABORT)
		return "FUP has to follow";
	if (packet->kind != PACKET_MODE_EXEC)
		return NULL;
	reader->mode_known = true;
	reader->open = reader->open == OPEN_NONE ? OPEN_MODE : reader->open;
	return NULL;
}

/* MODE.TSX, PTW and EXSTOP. */
static const char *order_of_binding(struct packet_reader *reader, struct packet *packet)
{
	if (reader->open == OPEN_OVERFLOW)
		return NULL;
	if (reader->open != OPEN_NONE)
		return "another packet within an event";
	if (packet->kind == PACKET_MODE_TSX && reader->enabled == PACKETS_ON)
		reader->open = packet->value & TSX_ABORT ? OPEN_ABORT : OPEN_BOUND;
	else if (packet->has_ip)
		reader->open = OPEN_BOUND;
	return NULL;
}

static const char *order_of(struct packet_reader *reader, struct packet *packet)
{
	bool after_tsc = reader->after_tsc;

	reader->after_tsc = packet->kind == PACKET_TSC || (after_tsc && packet->kind == PACKET_PAD);
	if (packet->kind == PACKET_TMA && !after_tsc)
		return "TMA does not follow TSC";
	if (packet->kind == PACKET_OVF) {
		reader->in_psb = false;
		reader->open = OPEN_OVERFLOW;
		reader->enabled = PACKETS_UNKNOWN;
		return NULL;
	}
	if (packet->kind == PACKET_PSBEND)
		return reader->in_psb ? end_psb(reader) : "PSBEND without PSB";
	if (reader->in_psb)
		return within_psb(reader, packet);
	if (packet->kind == PACKET_PSB)
		return begin_psb(reader);
	if (packet->kind == PACKET_FUP)
		return order_of_fup(reader, packet);
	if (packet->kind == PACKET_TIP_PGE)
		return order_of_begin(reader);
	if (packet->kind == PACKET_TNT || is_address(packet->kind))
		return order_while_on(reader, packet);
	if (packet->kind == PACKET_MODE_TSX || packet->kind == PACKET_PTW ||
	    packet->kind == PACKET_EXSTOP)
		return order_of_binding(reader, packet);
	if (packet->kind >= PACKET_MODE_EXEC && packet->kind <= PACKET_VMCS)
		return order_of_middle(reader, packet);
	if (packet->kind != PACKET_TRACE_STOP)
		return NULL;
	if (reader->open != OPEN_NONE && reader->open != OPEN_OVERFLOW)
		return "TraceStop within an event";
	reader->open = OPEN_NONE;
	reader->enabled = PACKETS_OFF;
	return NULL;
}

/* --- Reading --------------------------------------------------------------------------------- */

/* Without PSB the last MODE.Exec may be that of a trace before: 36.4.2.8. */
void packet_start(struct packet_reader *reader, const uint8_t *bytes, size_t size)
{
	*reader = (struct packet_reader){.bytes = bytes, .size = size, .mode_known = true};
}

bool packet_synchronise(struct packet_reader *reader)
{
	struct packet_reader found = {.bytes = reader->bytes, .size = reader->size};

	found.enabled = PACKETS_UNKNOWN;
	for (found.at = reader->at; found.at + PSB_BYTES <= found.size; found.at++) {
		const uint8_t *at = found.bytes + found.at;

		if (at[0] != EXTENDED || at[1] != extended[0].value || read_psb(at))
			continue;
		*reader = found;
		return true;
	}
	return false;
}

/* With what of it the first two bytes tell. */
static const struct form *begin(const struct packet_reader *reader, struct packet *packet)
{
	static const uint8_t sizes[] = {1, 3, 5, 7, 7, 1, 9, 1};
	const uint8_t *at = reader->bytes + reader->at;
	size_t left = reader->size - reader->at;
	const struct form *form = form_of(plain, sizeof(plain) / sizeof(plain[0]), at[0]);

	if (at[0] == EXTENDED)
		form = left < 2 ? form : form_of(extended, sizeof(extended) / sizeof(*form), at[1]);
	if (!form)
		return NULL;
	*packet = (struct packet){.kind = form->kind, .size = form->size, .at = reader->at};
	if (at[0] == EXTENDED && left < 2)
		packet->size = 2;
	if (is_address(form->kind))
		packet->size = sizes[at[0] >> IP_SHIFT];
	if (form->kind == PACKET_CYC && at[0] & 4)
		do
			packet->size++;
		while (packet->size <= left && packet->size <= CYC_BYTES &&
		       at[packet->size - 1] & 1);
	return form;
}

bool packet_next(struct packet_reader *reader, struct packet *packet)
{
	if (reader->error || reader->at >= reader->size)
		return false;
	if (!begin(reader, packet)) {
		reader->error = "no packet begins so";
		return false;
	}
	if (packet->size > reader->size - reader->at) {
		reader->error = "the last packet is cut";
		reader->cut = true;
		return false;
	}
	reader->error = read_payload(reader, packet, reader->bytes + reader->at);
	if (!reader->error)
		reader->error = order_of(reader, packet);
	if (!reader->error)
		reader->at += packet->size;
	return !reader->error;
}

const char *packet_missing(const struct packet_reader *reader)
{
	if (reader->in_psb)
		return "PSBEND has to follow";
	return reader->open == OPEN_NONE || reader->open == OPEN_OVERFLOW
		       ? NULL
		       : "an event is not whole: TIP or FUP has to follow";
}
