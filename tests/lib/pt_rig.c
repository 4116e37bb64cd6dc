// SPDX-License-Identifier: MIT
#include "tests/lib/pt_rig.h"

#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
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

void pt_need_cycles(void)
{
	if (!pt_caps()->psb_cyc)
		test_skip("no CYC packets, PSBFreq and PacketByteCnt (CPUID.14H:EBX[1])");
}

void pt_need_cr3_filter(void)
{
	if (!pt_caps()->cr3_filter)
		test_skip("no filter by CR3 (CPUID.14H:EBX[0])");
}

uint64_t pt_other_cr3(void)
{
	uint8_t *table = test_area(1);

	pt_need_cr3_filter();
	memcpy(table, direct(pt_own_cr3() & PTE_ADDRESS), PT_RIG_BYTES);
	return pt_physical(table);
}

void pt_need_ranges(unsigned count)
{
	if (pt_caps()->ranges < count)
		test_skip("%u address ranges", pt_caps()->ranges);
}

void pt_need_tables(void)
{
	if (!pt_caps()->topa_many)
		test_skip("one region of output alone (CPUID.14H:ECX[1])");
}

/* The last one, which no firmware has used, for a test that has not chosen; it stays there. */
static void choose_cpu(void)
{
	unsigned last = cpu_count() - 1;
	const struct cpu_set *may = &current_task()->affinity;

	if (!this_cpu()->preemption_off && cpu_set_has(may, 0) && cpu_set_has(may, last))
		test_go_to(last);
	test_pin();
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
	choose_cpu();
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

void pt_trace_nop(struct pt_rig *rig, uint64_t control)
{
	PT_TRACED(rig, control, "nop");
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

/* --- Another processor ------------------------------------------------------------------------ */

static atomic_uint turns_beside;
static atomic_bool ends_beside;

/* KVM raises #GP where a write that clears TraceEn changes another bit. */
void pt_switch(uint64_t on, uint64_t off)
{
	wrmsr(IA32_RTIT_CTL, pt_on(on));
	EXPECT_EQ(rdmsr(IA32_RTIT_CTL), pt_on(on));
	if (!wrmsr_safe(IA32_RTIT_CTL, off)) {
		wrmsr(IA32_RTIT_CTL, pt_on(on) & ~RTIT_CTL_TRACE_EN);
		wrmsr(IA32_RTIT_CTL, off);
	}
	EXPECT_EQ(rdmsr(IA32_RTIT_CTL), off);
}

void pt_switch_beside(struct pt_rig *rig)
{
	(void)rig;
	pt_switch(PT_PLAIN | RTIT_CTL_USER, RTIT_CTL_USER);
}

static void trace_beside(void *pointer)
{
	struct pt_beside *beside = pointer;
	uint64_t flags = interrupts_save();

	pt_again(&beside->rig, PT_PLAIN);
	for (; !atomic_load(&ends_beside); atomic_fetch_add(&turns_beside, 1))
		beside->turn(&beside->rig);
	interrupts_restore(flags);
}

void pt_beside_open(struct pt_beside *beside, void (*turn)(struct pt_rig *rig))
{
	beside->turn = turn;
	beside->task = NULL;
	if (cpu_count() == 1)
		return;
	pt_open(&beside->rig, 1, true);
	pt_close(&beside->rig);
	beside->task = test_task("beside", trace_beside, beside);
	test_keep_on(beside->task, this_cpu()->index ? 0 : cpu_count() - 1);
	atomic_store(&turns_beside, 0);
	atomic_store(&ends_beside, false);
}

void pt_beside_start(const struct pt_beside *beside)
{
	if (!beside->task)
		return;
	task_start(beside->task);
	while (atomic_load(&turns_beside) < 2)
		__asm__ volatile("pause");
}

void pt_beside_close(const struct pt_beside *beside)
{
	if (!beside->task)
		return;
	atomic_store(&ends_beside, true);
	pt_join(beside->task);
}

void pt_join(struct task *task)
{
	task_join(task);
	while (__atomic_load_n(&task->references, __ATOMIC_ACQUIRE) > 1)
		sched_reap();
	test_task_put(task);
}

/* --- By meaning ------------------------------------------------------------------------------ */

/* PT_NOTE(): addresses of the kernel's image, from KERNEL_BASE on; target 80000000H: 0. */
struct noted {
	uint32_t branch, target;
	uint8_t bytes, kind, unused[2];
};
_Static_assert(sizeof(struct noted) == 12, "PT_NOTE() of pt_rig.h");
extern const struct noted pt_program_start[], pt_program_end[];
_Static_assert(FLOW_JCC == 1 && FLOW_JMP == 2 && FLOW_CALL == 3, "macros of pt_rig.h");
_Static_assert(FLOW_JMP_INDIRECT == 4 && FLOW_RET == 6 && FLOW_FAR == 7 && FLOW_CR3 == 8,
	       "macros of pt_rig.h");
enum { LONGEST_BLOCK = 4096, ITEMS = 64 };
#define NO_SECOND (~0u)

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
						 .branch = KERNEL_BASE + at->branch,
						 .next = KERNEL_BASE + at->branch + at->bytes,
						 .target = KERNEL_BASE + at->target},
			    block);
	return block->next != 0;
}

/* Its buffers may overflow in any trace: 36.3.8. */
static void note_overflows(struct packet_reader reader)
{
	struct packet packet;

	while (packet_next(&reader, &packet))
		if (packet.kind == PACKET_OVF)
			test_disturbed();
}

void pt_reader(const struct pt_rig *rig, struct packet_reader *reader)
{
	packet_start(reader, rig->memory, pt_state(&rig->trace).end);
	note_overflows(*reader);
}

void pt_flow(const struct pt_rig *rig, struct flow *flow)
{
	flow_start(flow, rig->memory, pt_state(&rig->trace).end, pt_find_noted, rig);
	/* A trace without PSB may go on from the Last IP of the one before (36.4.2.2): what it
	   leaves out of its first address `first` has as well. */
	flow->reader.last_ip = rig->first;
	note_overflows(flow->reader);
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

	*seen = (struct pt_expected){.to = item->to, .from = item->from, .bytes = NO_SECOND};
	if (item->second)
		seen->bytes = (unsigned)(item->second - item->from);
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
		       (seen->bytes == NO_SECOND ||
			(seen->bytes && seen->bytes == expected->bytes));
	return seen->to == expected->to;
}

void pt_expect_flow(const struct pt_rig *rig, const struct pt_expected *expected, size_t count)
{
	struct pt_expected seen = {0};
	size_t n = 0;

	EACH_FLOW (rig, flow, item) {
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
	unsigned count = 0;

	EACH_FLOW (rig, flow, item)
		count += item.compressed;
	return count;
}
