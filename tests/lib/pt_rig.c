// SPDX-License-Identifier: MIT
#include "tests/lib/pt_rig.h"

#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/silicon.h"
#include "lib/string.h"

uint64_t pt_physical(const void *page)
{
	const uint64_t *entry = vm_entry((uint64_t)page);

	if (!entry)
		test_error("%p is not mapped", page);
	return *entry & PTE_ADDRESS;
}

uint64_t pt_time_now(void)
{
	return silicon_is_foreign_guest() ? 0 : tsc_read() & ((1ull << 56) - 1);
}

void pt_open(struct pt_rig *rig, size_t chunks, bool circular)
{
	if (!pt_caps()->topa_many)
		chunks = 1;
	*rig = (struct pt_rig){.table = test_area(1), .memory = test_area(chunks + 1)};
	for (size_t n = 0; n < chunks; n++)
		rig->chunks[n] = pt_physical(rig->memory + n * PT_RIG_BYTES);
	rig->trace.buffer = (struct pt_buffer){.table = rig->table,
					       .table_address = pt_physical(rig->table),
					       .chunks = rig->chunks,
					       .count = chunks,
					       .last_end = rig->memory + chunks * PT_RIG_BYTES,
					       .circular = circular};
	test_pin();
	if (rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN)
		test_error("IA32_RTIT_CTL.TraceEn is set already");
	memset(rig->memory, PT_RIG_POISON, (chunks + 1) * PT_RIG_BYTES);
	rig->flags = interrupts_save();
	preemption_disable();
	pt_again(rig, PT_PLAIN);
}

void pt_again(struct pt_rig *rig, uint64_t control)
{
	pt_off();
	memset(rig->memory, PT_RIG_POISON, rig->trace.buffer.count * PT_RIG_BYTES);
	rig->trace.configuration.control = control;
	REQUIRE_EQ(pt_prepare(&rig->trace), 0);
	REQUIRE_EQ(pt_load(&rig->trace), 0);
	wrmsr(IA32_RTIT_STATUS, 0);
}

void pt_traced(struct pt_rig *rig, uint64_t first, uint64_t last)
{
	rig->first = first;
	rig->last = last;
	pt_stop(&rig->trace);
}

void pt_close(struct pt_rig *rig)
{
	const uint8_t *guard = rig->trace.buffer.last_end;

	pt_off();
	wrmsr(IA32_RTIT_STATUS, 0);
	preemption_enable();
	interrupts_restore(rig->flags);
	for (size_t n = 0; n < PT_RIG_BYTES; n++) {
		if (guard[n] == PT_RIG_POISON)
			continue;
		test_note("after the last chunk: %02x at offset %zu", guard[n], n);
		EXPECT(false && "memory outside the buffer was written");
		return;
	}
}

/* --- By meaning ------------------------------------------------------------------------------ */

/* PT_NOTE(). */
struct noted {
	uint64_t branch, next, target, kind;
};
extern const struct noted pt_program_start[], pt_program_end[];
_Static_assert(FLOW_JCC == 1 && FLOW_JMP == 2 && FLOW_CALL == 3, "macros of pt_rig.h");
_Static_assert(FLOW_JMP_INDIRECT == 4 && FLOW_RET == 6 && FLOW_FAR == 7 && FLOW_CR3 == 8,
	       "macros of pt_rig.h");
enum { LONGEST_BLOCK = 4096, ITEMS = 64 };

void pt_add_branch(struct pt_rig *rig, enum flow_kind kind, const void *at, unsigned bytes)
{
	if (rig->block_count == PT_RIG_BLOCKS)
		test_error("more than %u branches", rig->block_count);
	rig->blocks[rig->block_count++] = (struct flow_block){
		.kind = kind, .branch = (uint64_t)at, .next = (uint64_t)at + bytes};
}

static void take_nearer(uint64_t ip, const struct flow_block *block, struct flow_block *nearest)
{
	if (block->branch >= ip && block->branch - ip < nearest->branch - ip)
		*nearest = *block;
}

bool pt_find_noted(const void *program, uint64_t ip, struct flow_block *block)
{
	const struct pt_rig *rig = program;
	struct flow_block wrmsr = {.branch = rig->last, .next = rig->last + 2};

	*block = (struct flow_block){.branch = ip + LONGEST_BLOCK};
	take_nearer(ip, &wrmsr, block);
	for (unsigned n = 0; n < rig->block_count; n++)
		take_nearer(ip, &rig->blocks[n], block);
	for (const struct noted *at = pt_program_start; at < pt_program_end; at++)
		take_nearer(ip,
			    &(struct flow_block){.kind = (enum flow_kind)at->kind,
						 .branch = at->branch,
						 .next = at->next,
						 .target = at->target},
			    block);
	return block->next != 0;
}

void pt_reader(const struct pt_rig *rig, struct packet_reader *reader)
{
	packet_start(reader, rig->memory, pt_state(&rig->trace).end);
}

void pt_flow(const struct pt_rig *rig, struct flow *flow)
{
	flow_start(flow, rig->memory, pt_state(&rig->trace).end, pt_find_noted, rig);
}

void pt_expect_end(const struct flow *flow)
{
	if (flow->error)
		test_note("%s: offset %zu, after %p", flow->error, flow->at, (void *)flow->ip);
	EXPECT(!flow->error && !flow->reader.cut);
}

static enum pt_seen seen_branch(const struct pt_rig *rig, const struct flow_item *item)
{
	struct flow_block block = {0};

	pt_find_noted(rig, item->from, &block);
	if (item->ends)
		return SEEN_LEAVE;
	if (block.kind == FLOW_JCC)
		return item->what == FLOW_BRANCH ? SEEN_TAKEN : SEEN_NOT_TAKEN;
	return item->compressed ? SEEN_RETURN : SEEN_TARGET;
}

/* False: an item that no test expects: a direct branch, times, status. */
static bool is_seen(const struct pt_rig *rig, const struct flow_item *item,
		    struct pt_expected *seen)
{
	struct flow_block block = {0};

	*seen = (struct pt_expected){.to = item->to, .from = item->from, .next = item->second};
	if (item->what != FLOW_PACKET) {
		pt_find_noted(rig, item->from, &block);
		seen->seen = item->what == FLOW_BEGINS	  ? SEEN_BEGIN
			     : item->what == FLOW_EVENT	  ? item->ends ? SEEN_END : SEEN_EVENT
			     : item->what == FLOW_CHANGED ? SEEN_LEAVE
							  : seen_branch(rig, item);
		return item->ends || item->what == FLOW_EVENT || item->what == FLOW_BEGINS ||
		       (block.kind != FLOW_JMP && block.kind != FLOW_CALL);
	}
	seen->to = item->packet.value;
	seen->seen = item->packet.kind == PACKET_MODE_EXEC ? SEEN_MODE
		     : item->packet.kind == PACKET_PIP	   ? SEEN_CR3
							   : SEEN_STOP;
	if (item->packet.kind == PACKET_TRACE_STOP)
		return true;
	return item->from && item->packet.role != ROLE_STATUS && seen->seen != SEEN_STOP;
}

static bool is_same(const struct pt_expected *seen, const struct pt_expected *expected)
{
	bool either = expected->seen == SEEN_RETURN && seen->seen == SEEN_TARGET;

	if (seen->seen != expected->seen && !either)
		return false;
	if (seen->seen == SEEN_TAKEN || seen->seen == SEEN_NOT_TAKEN || seen->seen == SEEN_STOP)
		return true;
	if (seen->seen == SEEN_EVENT || seen->seen == SEEN_END)
		return seen->from == expected->from && seen->to == expected->to &&
		       (!seen->next || seen->next == expected->next);
	return seen->to == expected->to;
}

void pt_expect_flow(const struct pt_rig *rig, const struct pt_expected *expected, size_t count)
{
	struct pt_expected seen = {0};
	struct flow_item item;
	struct flow flow;
	size_t n = 0;

	pt_flow(rig, &flow);
	while (flow_next(&flow, &item)) {
		if (!is_seen(rig, &item, &seen))
			continue;
		if (n == count || !is_same(&seen, &expected[n])) {
			test_note("item %zu of %zu is %u, from %p to %p", n, count, seen.seen,
				  (void *)seen.from, (void *)seen.to);
			EXPECT(false && "the packets say something else");
			return;
		}
		n++;
	}
	pt_expect_end(&flow);
	EXPECT_EQ(n, count);
}

void pt_expect_body(const struct pt_rig *rig, const struct pt_expected *expected, size_t count)
{
	struct pt_expected all[ITEMS] = {{.seen = SEEN_BEGIN, .to = rig->first}};

	if (count > ITEMS - 2)
		test_error("%zu items", count);
	memcpy(all + 1, expected, count * sizeof(*expected));
	all[count + 1] = (struct pt_expected){.seen = SEEN_END, .from = rig->last};
	pt_expect_flow(rig, all, count + 2);
}

unsigned pt_compressed(const struct pt_rig *rig)
{
	struct flow_item item;
	struct flow flow;
	unsigned count = 0;

	pt_flow(rig, &flow);
	while (flow_next(&flow, &item))
		count += item.compressed;
	return count;
}
