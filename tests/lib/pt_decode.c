// SPDX-License-Identifier: MIT
/* The flow of a program from its packets: SDM Vol 3, 36.4.2 and table 36-50. */
#include "tests/lib/pt_decode.h"

enum { MOST_STEPS = 1 << 20 };
enum progress { GOES_ON, HAS_ITEM, FAILS };

void flow_start(struct flow *flow, const uint8_t *bytes, size_t size, flow_find *find,
		const void *program)
{
	*flow = (struct flow){.find = find, .program = program};
	packet_start(&flow->reader, bytes, size);
}

static enum progress fail(struct flow *flow, const char *error)
{
	flow->error = error;
	return FAILS;
}

/* --- Calls and returns: 36.4.2.2 ------------------------------------------------------------- */

static void push_call(struct flow *flow, const struct flow_block *block)
{
	if (block->kind == FLOW_CALL && block->target == block->next)
		return;
	flow->calls[flow->call_top++ % FLOW_CALLS] = block->next;
	flow->call_count += flow->call_count < FLOW_CALLS;
}

/* 0: there is none. */
static uint64_t pop_call(struct flow *flow)
{
	if (!flow->call_count)
		return 0;
	flow->call_count--;
	return flow->calls[--flow->call_top % FLOW_CALLS];
}

/* --- Packets --------------------------------------------------------------------------------- */

/* The next packet into `held`; false: there is none, or an error. */
static bool hold(struct flow *flow)
{
	if (flow->is_held)
		return true;
	flow->is_held = packet_next(&flow->reader, &flow->held);
	flow->at = flow->is_held ? flow->held.at : flow->reader.at;
	if (flow->is_held)
		return true;
	if (!flow->reader.cut)
		flow->error =
			flow->reader.error ? flow->reader.error : packet_missing(&flow->reader);
	return false;
}

static struct packet take(struct flow *flow)
{
	flow->is_held = false;
	flow->steps = 0;
	return flow->held;
}

static bool holds(const struct flow *flow, enum packet_kind kind)
{
	return flow->is_held && flow->held.kind == kind;
}

/* A packet that has no place in the flow of branches. */
static bool is_aside(const struct packet *packet)
{
	return packet->kind != PACKET_TNT && packet->kind != PACKET_OVF &&
	       (packet->kind < PACKET_TIP || packet->kind > PACKET_FUP);
}

/* May be between a TNT and a TIP that waited for it: what has no meaning or a time. */
static bool is_time(const struct packet *packet)
{
	return packet->kind == PACKET_PAD ||
	       (packet->kind >= PACKET_CBR && packet->kind <= PACKET_MNT);
}

static void take_bits(struct flow *flow)
{
	take(flow);
	flow->bits = flow->held.value;
	flow->bit_count = flow->held.count;
}

static bool next_bit(struct flow *flow)
{
	return flow->bits >> --flow->bit_count & 1;
}

static enum progress aside(struct flow *flow, struct flow_item *item)
{
	item->packet = take(flow);
	item->what = FLOW_PACKET;
	item->from = flow->running ? flow->ip : 0;
	if (item->packet.kind == PACKET_PIP && item->packet.role != ROLE_STATUS)
		flow->cr3_written = !flow->in_event;
	if (item->packet.kind == PACKET_PSB)
		flow->call_count = 0;
	flow->running &= item->packet.kind != PACKET_TRACE_STOP;
	return HAS_ITEM;
}

/* --- Where packets begin and end ------------------------------------------------------------- */

static enum progress begins(struct flow *flow, struct flow_item *item)
{
	item->packet = take(flow);
	item->what = FLOW_BEGINS;
	item->to = flow->ip = item->packet.value;
	flow->running = true;
	flow->cr3_written = false; /* a PIP before it was of the MOV that began the packets */
	flow->call_count = 0;
	return HAS_ITEM;
}

static void stop(struct flow *flow)
{
	flow->running = flow->in_event = flow->cr3_written = false;
	flow->bit_count = flow->call_count = 0;
}

static enum progress ends(struct flow *flow, struct flow_item *item, uint64_t to)
{
	item->packet = take(flow);
	item->to = to;
	item->ends = true;
	stop(flow);
	return HAS_ITEM;
}

static enum progress is_lost(struct flow *flow, struct flow_item *item)
{
	item->packet = take(flow);
	item->what = FLOW_LOST;
	item->from = flow->running ? flow->ip : 0;
	stop(flow);
	return HAS_ITEM;
}

/* While packets are off, or not synchronised. */
static enum progress stand(struct flow *flow, struct flow_item *item)
{
	if (!hold(flow))
		return FAILS;
	if (flow->held.kind == PACKET_FUP && flow->held.role == ROLE_BOUND) {
		take(flow);
		return GOES_ON;
	}
	if (flow->held.kind == PACKET_TIP_PGE || flow->held.kind == PACKET_FUP)
		return begins(flow, item);
	if (flow->held.kind == PACKET_OVF)
		return is_lost(flow, item);
	return is_aside(&flow->held) ? aside(flow, item) : fail(flow, "a branch from nowhere");
}

/* --- Events ---------------------------------------------------------------------------------- */

/* After the FUP of an event: what is changed, and the target. */
static enum progress finish_event(struct flow *flow, struct flow_item *item)
{
	if (!hold(flow))
		return FAILS;
	if (is_aside(&flow->held))
		return aside(flow, item);
	if (flow->held.kind == PACKET_OVF)
		return is_lost(flow, item);
	if (flow->held.kind == PACKET_FUP) {
		flow->second = take(flow).value;
		return GOES_ON;
	}
	item->what = FLOW_EVENT;
	item->from = flow->from;
	item->second = flow->second;
	flow->in_event = false;
	if (flow->held.kind == PACKET_TIP_PGD)
		return ends(flow, item, flow->held.value);
	item->packet = take(flow);
	item->to = flow->ip = item->packet.value;
	return HAS_ITEM;
}

/* The FUP is of an address that was reached. */
static enum progress arrive(struct flow *flow)
{
	flow->ip = flow->from = take(flow).value;
	flow->in_event = flow->held.role == ROLE_SOURCE;
	flow->second = 0;
	return GOES_ON;
}

/* --- Branches -------------------------------------------------------------------------------- */

static enum progress go(struct flow *flow, struct flow_item *item, const struct flow_block *block,
			uint64_t to)
{
	item->what = FLOW_BRANCH;
	item->from = block->branch;
	item->to = flow->ip = to;
	return HAS_ITEM;
}

static enum progress leave(struct flow *flow, struct flow_item *item,
			   const struct flow_block *block, uint64_t to)
{
	item->what = FLOW_BRANCH;
	item->from = block->branch;
	return ends(flow, item, to);
}

/* Nothing is sent but where it leaves an address range: table 36-50, case 6b. */
static enum progress direct(struct flow *flow, struct flow_item *item,
			    const struct flow_block *block)
{
	if (!flow->bit_count && holds(flow, PACKET_TIP_PGD) && flow->held.has_ip &&
	    flow->held.value == block->target)
		return leave(flow, item, block, block->target);
	if (block->kind == FLOW_CALL)
		push_call(flow, block);
	return go(flow, item, block, block->target);
}

/* Cases 7 and 8. */
static enum progress conditional(struct flow *flow, struct flow_item *item,
				 const struct flow_block *block)
{
	if (!flow->bit_count && holds(flow, PACKET_TIP_PGD)) {
		if (flow->held.has_ip && flow->held.value != block->target)
			return fail(flow, "TIP.PGD has another target than the Jcc");
		return leave(flow, item, block, block->target);
	}
	if (!flow->bit_count && !holds(flow, PACKET_TNT))
		return fail(flow, "a Jcc without its bit of TNT");
	if (!flow->bit_count)
		take_bits(flow);
	if (next_bit(flow))
		return go(flow, item, block, block->target);
	go(flow, item, block, block->next);
	item->what = FLOW_NOT_TAKEN;
	return HAS_ITEM;
}

/* The target is in TIP or TIP.PGD, which TNT may precede: 36.4.2.3. */
static enum progress indirect(struct flow *flow, struct flow_item *item,
			      const struct flow_block *block)
{
	bool far = block->kind == FLOW_FAR;

	if (!flow->bit_count && holds(flow, PACKET_TNT))
		take_bits(flow);
	if (!hold(flow))
		return FAILS;
	if (flow->bit_count && is_time(&flow->held))
		return aside(flow, item);
	if (flow->held.kind == PACKET_OVF) /* TIPs that waited are lost */
		return is_lost(flow, item);
	if (!flow->bit_count && flow->held.kind == PACKET_TIP_PGD) {
		if (!flow->held.has_ip && !far)
			return fail(flow, "TIP.PGD of an indirect branch has no target");
		return leave(flow, item, block, flow->held.value);
	}
	if (flow->held.kind != PACKET_TIP)
		return fail(flow, "an indirect branch without its TIP");
	item->packet = take(flow);
	flow->cr3_written = false;
	if (block->kind == FLOW_CALL_INDIRECT)
		push_call(flow, block);
	return go(flow, item, block, item->packet.value);
}

/* Bits that wait say that it is compressed: 36.4.2.2. */
static enum progress returns(struct flow *flow, struct flow_item *item,
			     const struct flow_block *block)
{
	uint64_t to = pop_call(flow);

	if (!flow->bit_count &&
	    (holds(flow, PACKET_TIP) || (holds(flow, PACKET_TIP_PGD) && flow->held.has_ip)))
		return indirect(flow, item, block);
	if (!to)
		return fail(flow, "a return is compressed, and its call is not known");
	if (!flow->bit_count && holds(flow, PACKET_TIP_PGD))
		return leave(flow, item, block, to);
	if (!flow->bit_count && !holds(flow, PACKET_TNT))
		return fail(flow, "a return without TIP or its bit of TNT");
	if (!flow->bit_count)
		take_bits(flow);
	if (!next_bit(flow))
		return fail(flow, "the bit of a return is 0");
	item->compressed = true;
	return go(flow, item, block, to);
}

/* Case 5: PIP, which came before, or TIP.PGD where the new CR3 is filtered out, or both. */
static enum progress writes_cr3(struct flow *flow, struct flow_item *item,
				const struct flow_block *block)
{
	bool told = flow->cr3_written, off = !flow->bit_count && holds(flow, PACKET_TIP_PGD);

	flow->cr3_written = false;
	if (off &&
	    (told ? flow->held.has_ip && flow->held.value == block->next : !flow->held.has_ip)) {
		item->what = FLOW_CHANGED;
		item->from = block->branch;
		return ends(flow, item, flow->held.value);
	}
	flow->ip = told ? block->next : flow->ip;
	return told ? GOES_ON : fail(flow, "MOV to CR3 without PIP");
}

static enum progress execute(struct flow *flow, struct flow_item *item,
			     const struct flow_block *block)
{
	if (block->kind == FLOW_FALLS) {
		flow->ip = block->next;
		return GOES_ON;
	}
	if (block->kind == FLOW_JCC)
		return conditional(flow, item, block);
	if (block->kind == FLOW_JMP || block->kind == FLOW_CALL)
		return direct(flow, item, block);
	if (block->kind == FLOW_RET)
		return returns(flow, item, block);
	return block->kind == FLOW_CR3 ? writes_cr3(flow, item, block)
				       : indirect(flow, item, block);
}

/* With no bit left the packet that is held is next, wherever the program goes till then. */
static enum progress advance(struct flow *flow, struct flow_item *item)
{
	struct flow_block block;
	bool fup, next; /* next: a PIP, of another instruction than the one before it */

	if (!flow->bit_count && !hold(flow))
		return FAILS;
	fup = !flow->bit_count && holds(flow, PACKET_FUP);
	if (fup && flow->held.value == flow->ip)
		return arrive(flow);
	if (!flow->bit_count && holds(flow, PACKET_TIP_PGE)) { /* PSB+ has said so: BDM70 */
		flow->ip = take(flow).value;
		return GOES_ON;
	}
	next = flow->cr3_written && holds(flow, PACKET_PIP) && flow->held.role != ROLE_STATUS;
	if (!flow->bit_count && is_aside(&flow->held) && !next)
		return aside(flow, item);
	if (!flow->bit_count && flow->held.kind == PACKET_OVF)
		return is_lost(flow, item);
	if (!flow->find(flow->program, flow->ip, &block))
		return fail(flow, "the program has no block here");
	if (fup && flow->held.value > flow->ip && flow->held.value <= block.branch)
		return arrive(flow);
	if (flow->steps++ > MOST_STEPS)
		return fail(flow, "the program does not come to what the packets say");
	return execute(flow, item, &block);
}

bool flow_next(struct flow *flow, struct flow_item *item)
{
	enum progress progress = GOES_ON;

	while (progress == GOES_ON && !flow->error) {
		*item = (struct flow_item){.what = FLOW_PACKET};
		if (flow->in_event)
			progress = finish_event(flow, item);
		else if (flow->running)
			progress = advance(flow, item);
		else
			progress = stand(flow, item);
	}
	return progress == HAS_ITEM && !flow->error;
}
