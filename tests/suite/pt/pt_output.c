// SPDX-License-Identifier: MIT
// The output table: where bytes go, where they stop, what is wrong with a table; BTS beside it.
#include "drivers/apic/lapic.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/silicon.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/user_visits.h"

#define SUPPORTED_ADDRESSES 0x80000008u

uint32_t pt_turns;

/* Indirect jumps, of three bytes or more each: a page takes 1365 at most. */
static __attribute__((noinline)) void trace_jumps(struct pt_rig *rig, uint32_t turns)
{
	pt_turns = turns;
	PT_TRACED(
		rig, PT_PLAIN,
		"movl pt_turns(%%rip), %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\tdecl %%esi\n\tjz 2f\n\t"
		"jmp *%%rbx\n2:");
}

/* Chunks hold packets up to `end` and nothing after. */
static void expect_written(const struct pt_rig *rig, uint64_t end)
{
	uint64_t size = rig->trace.buffer.count * PT_RIG_BYTES, at = size;

	while (at && rig->memory[at - 1] == PT_RIG_POISON)
		at--;
	EXPECT_EQ(at, end);
}

/* Turns that fill two regions and a half, of as many bytes as this processor needs. */
static uint32_t turns_for_two_regions(struct pt_rig *rig)
{
	const uint32_t few = 400;

	trace_jumps(rig, 400);
	REQUIRE(pt_state(&rig->trace).end > 0);
	return (uint32_t)(few * 5 * PT_RIG_BYTES / (2 * pt_state(&rig->trace).end));
}

TEST(pt_pointers_follow, .group = "PT", .ids = "PT34", .needs = NEED_PT,
     .claim = "index and offset of the table say how many bytes were written, over regions",
     .source = "SDM Vol 3, 36.2.6")
{
	struct pt_state state;
	size_t packets = 0, bits = 0, lost = 0;
	uint64_t target = 0;

	PT_RIG(rig, PT_RIG_CHUNKS, false);
	pt_turns = rig.trace.buffer.count == 1 ? 100 : turns_for_two_regions(&rig);
	pt_again(&rig, PT_PLAIN);
	trace_jumps(&rig, pt_turns);
	state = pt_state(&rig.trace);
	EXPECT(state.end > (rig.trace.buffer.count == 1 ? 300 : PT_RIG_BYTES));
	EXPECT(!state.stopped && !state.table_error);
	EXPECT_EQ(rig.trace.output_base, rig.trace.buffer.table_address);
	expect_written(&rig, state.end);
	EACH_PACKET (&rig, reader, packet) {
		bits += packet.kind == PACKET_TNT ? packet.count : 0;
		lost += packet.kind == PACKET_OVF;
		if (packet.kind != PACKET_TIP)
			continue;
		target = packets++ ? target : packet.value; /* all have the same */
		EXPECT_EQ(packet.value, target);
	}
	EXPECT(!reader.error);
	EXPECT(lost || (packets == pt_turns - 1 && bits == packets + 1));
}

/* A region of 4 KiB << `order`, from its last bytes on, by a table whose END leads to the rig's. */
static void put_before(const struct pt_rig *rig, uint64_t entry, unsigned order)
{
	uint64_t *table = test_area(1);

	table[0] = entry | TOPA_SIZE(order);
	table[1] = rig->trace.buffer.table_address | TOPA_END;
	wrmsr(IA32_RTIT_OUTPUT_BASE, pt_physical(table));
	wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, RTIT_POINTERS(0, (PT_RIG_BYTES << order) - 16));
}

TEST(pt_stop_when_full, .group = "PT", .ids = "PT36 PT37 PT90", .needs = NEED_PT,
     .claim = "STOP ends the trace at the end of its region; started again there, it is an error",
     .source = "SDM Vol 3, 36.2.6")
{
	struct pt_state state;

	PT_RIG(rig, 2, false);
	if (pt_caps()->topa_many)
		put_before(&rig, rig.chunks[0], 0);
	trace_jumps(&rig, 3000);
	state = pt_state(&rig.trace);
	EXPECT(state.stopped && state.full && !state.table_error);
	EXPECT_EQ(state.end, rig.trace.buffer.count * PT_RIG_BYTES);
	EXPECT_EQ(rig.trace.output_base, rig.trace.buffer.table_address);
	EXPECT_EQ(rig.trace.output_mask_ptrs,
		  RTIT_POINTERS(rig.trace.buffer.count - 1, PT_RIG_BYTES));
	EXPECT_EQ(pt_load(&rig.trace), -ENOSPC);
	wrmsr(IA32_RTIT_STATUS, 0);
	pt_trace_nop(&rig, PT_PLAIN);
	EXPECT(pt_state(&rig.trace).table_error);
	EXPECT_EQ(pt_load(&rig.trace), -EIO);
	pt_again(&rig, PT_PLAIN);
	pt_trace_nop(&rig, PT_PLAIN);
	expect_written(&rig, pt_state(&rig.trace).end);
	pt_expect_body(&rig, NULL, 0);
}

/* From the first PSB of the oldest bytes on, over the end of the last region, packets are legal; of
   those with an address TIP.PGD is the newest. Without PSBFreq there may be no PSB. */
static void expect_round(const struct pt_rig *rig, const struct pt_state *state)
{
	size_t old = state->valid - state->end;
	enum packet_kind last = PACKET_PAD;
	struct packet_reader reader;
	struct packet packet;
	uint8_t *bytes = test_area(PT_RIG_CHUNKS);

	memcpy(bytes, rig->memory + state->end, old);
	memcpy(bytes + old, rig->memory, state->end);
	packet_start(&reader, bytes, state->valid);
	if (!packet_synchronise(&reader)) {
		EXPECT(!pt_caps()->psb_cyc);
		return;
	}
	while (packet_next(&reader, &packet))
		if (packet.kind >= PACKET_TIP && packet.kind <= PACKET_FUP)
			last = packet.kind;
	EXPECT(!reader.error);
	EXPECT_EQ(last, PACKET_TIP_PGD);
}

TEST(pt_circular, .group = "PT", .ids = "PT35", .needs = NEED_PT,
     .claim = "END leads back to the table's first entry, and output goes on there",
     .source = "SDM Vol 3, 36.2.6")
{
	bool in_first = false;
	struct pt_state state;

	PT_RIG(rig, 2, true);
	pt_trace_nop(&rig, PT_PLAIN);
	EXPECT(!pt_state(&rig.trace).wrapped);
	/* A jump has 3 bytes or more, and ten times 300 of them more than a region. */
	for (unsigned jumps = 3000; jumps <= 6000; jumps += 300) {
		pt_again(&rig, PT_PLAIN);
		trace_jumps(&rig, jumps);
		state = pt_state(&rig.trace);
		EXPECT(state.wrapped && !state.stopped && !state.table_error);
		EXPECT_EQ(state.valid, rig.trace.buffer.count * PT_RIG_BYTES);
		EXPECT(state.end < state.valid);
		EXPECT_EQ(rig.trace.output_base, rig.trace.buffer.table_address);
		expect_round(&rig, &state);
		in_first |= state.end < PT_RIG_BYTES;
	}
	EXPECT(in_first);
}

/* Enabling with entry `n` replaced: an error, no #GP, not a byte. */
static void expect_error(struct pt_rig *rig, size_t n, uint64_t entry)
{
	uint64_t good;

	pt_again(rig, PT_PLAIN);
	good = rig->table[n];
	rig->table[n] = entry;
	pt_trace_nop(rig, PT_PLAIN);
	rig->table[n] = good;
	if (!pt_state(&rig->trace).table_error)
		test_note("entry %zu = %lx", n, entry);
	EXPECT(pt_state(&rig->trace).table_error);
	EXPECT(!(rig->trace.status & RTIT_STATUS_TRIGGER_EN));
	expect_written(rig, 0);
}

TEST(pt_table_errors, .group = "PT", .ids = "PT38 PT5", .needs = NEED_PT,
     .claim = "a table with reserved bits, a misaligned region or END first sets Error",
     .source = "SDM Vol 3, 36.2.6")
{
	static const unsigned reserved[] = {1, 3, 5, 10, 11};
	unsigned most = cpuid(SUPPORTED_ADDRESSES, 0).eax & 0xff;
	uint64_t first;

	PT_RIG(rig, 1, false);
	first = rig.table[0];
	for (size_t n = 0; n < sizeof(reserved) / sizeof(reserved[0]); n++)
		expect_error(&rig, 0, first | 1ull << reserved[n]);
	expect_error(&rig, 0, first | 1ull << most);
	expect_error(&rig, 0, first | 1ull << 63);
	expect_error(&rig, 0, first | 0x1000 | TOPA_SIZE(1));
	expect_error(&rig, 0, rig.table[1]);
	pt_again(&rig, PT_PLAIN);
	wrmsr(IA32_RTIT_OUTPUT_BASE, rig.trace.buffer.table_address | 0x80);
	pt_trace_nop(&rig, PT_PLAIN);
	EXPECT(pt_state(&rig.trace).table_error);
	expect_written(&rig, 0);
}

TEST(pt_end_flags, .group = "PT", .ids = "PT38", .needs = NEED_PT,
     .claim = "END with INT or STOP sets Error once it is reached, and so does an only region's "
	      "entry 1 without END to it",
     .source = "SDM Vol 3, 36.2.6")
{
	static const uint64_t flags[] = {TOPA_INT, TOPA_STOP, TOPA_INT | TOPA_STOP};
	uint64_t *other = test_area(1); /* a table */

	/* It may be "as soon as packet generation is enabled" (36.3.9): bytes before it may be
	 * lost. */
	PT_RIG(rig, 1, true);
	other[0] = rig.chunks[0];
	other[1] = pt_physical(other) | TOPA_END;
	for (unsigned n = 0; n < (pt_caps()->topa_many ? 3 : 5); n++) {
		pt_again(&rig, PT_PLAIN);
		if (n < 3)
			rig.table[1] |= flags[n];
		else
			rig.table[1] = other[n - 3];
		trace_jumps(&rig, 2000);
		EXPECT(pt_state(&rig.trace).table_error);
	}
}

TEST(pt_status_left, .group = "PT", .ids = "PT39", .needs = NEED_PT,
     .claim = "with Error or Stopped left in IA32_RTIT_STATUS nothing is traced",
     .source = "SDM Vol 3, 36.2.5")
{
	static const uint64_t left[] = {RTIT_STATUS_ERROR, RTIT_STATUS_STOPPED};
	uint64_t control, status;

	PT_RIG(rig, 1, false);
	for (unsigned n = 0; n < 2; n++) {
		pt_again(&rig, PT_PLAIN);
		wrmsr(IA32_RTIT_STATUS, left[n]);
		wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
		control = rdmsr(IA32_RTIT_CTL);
		status = rdmsr(IA32_RTIT_STATUS);
		pt_stop(&rig.trace);
		EXPECT_EQ(control, pt_on(PT_PLAIN));
		EXPECT(!(status & RTIT_STATUS_TRIGGER_EN));
		EXPECT(status & left[n]);
		EXPECT_EQ(pt_state(&rig.trace).end, 0);
		expect_written(&rig, 0);
	}
}

/* The registers as the interrupt's handler found them. */
static struct {
	unsigned count;
	bool frozen;
	uint32_t entry;
	uint64_t rip, status, global, pointers, others_cleared, cleared;
} seen;

static bool nmi(struct trap_frame *frame)
{
	uint64_t status = rdmsr(IA32_RTIT_STATUS), global = rdmsr(IA32_PERF_GLOBAL_STATUS);

	if (!(global & TRACE_TOPA_PMI))
		return false;
	pt_off();
	seen.rip = frame->rip;
	seen.count++;
	seen.frozen = global & STATUS_CTR_FRZ || !rdmsr(IA32_PERF_GLOBAL_CTRL);
	seen.status = status;
	seen.pointers = rdmsr(IA32_RTIT_OUTPUT_MASK_PTRS);
	/* Neither these nor a bit of another counter clear Trace_ToPA_PMI. */
	wrmsr(IA32_RTIT_CTL, pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN));
	pt_off();
	wrmsr(IA32_RTIT_STATUS, status & (RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED));
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, 1);
	seen.others_cleared = rdmsr(IA32_PERF_GLOBAL_STATUS);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL,
	      TRACE_TOPA_PMI | (global & (STATUS_CTR_FRZ | GLOBAL_STATUS_OVF_BUF)));
	seen.cleared = rdmsr(IA32_PERF_GLOBAL_STATUS);
	lapic_unmask_lvtpc();
	return true;
}

/* Fills the first region at least, the interrupt being an NMI, which stops the counters. */
static void interrupted(struct pt_rig *rig)
{
	seen.count = 0;
	test_handle_nmis(nmi);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	wrmsr_safe(IA32_DEBUGCTL, FREEZE_PERFMON);
	trace_jumps(rig, 6000);
	pmi_settle();
	wrmsr(IA32_DEBUGCTL, 0);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	test_handle_nmis(NULL);
	EXPECT(seen.frozen || silicon_is_foreign_guest());
}

/* Overflows counter 1, without an interrupt; returns its status bit, 0 without such a counter. */
static uint64_t overflow_another(void)
{
	if (pmu_rig_request(1))
		return 0;
	pmu_rig_load(1, 5);
	pmu_rig_control(1, pmu_rig_counting(1, PMU_OS, false));
	pmu_rig_run(2);
	pmu_rig_control(1, 0);
	pmu_rig_release(1);
	return rdmsr(IA32_PERF_GLOBAL_STATUS) & 2;
}

TEST(pt_interrupt, .group = "PT", .ids = "PT40 PT92", .needs = NEED_PT | NEED_BTS,
     .claim = "INT interrupts once its region is full and sets Trace_ToPA_PMI beside a counter's "
	      "bit; STOP acts first, and FREEZE_PERFMON_ON_PMI",
     .source = "SDM Vol 3, 36.2.6")
{
	uint64_t another;
	struct pt_rig rig;

	for (unsigned stops = 0; stops < 3; stops++) { /* in no region, the first, the second */
		test_go_to(stops % 2 * (cpu_count() - 1));
		pt_open(&rig, stops ? stops : PT_RIG_CHUNKS, !stops);
		rig.trace.buffer.interrupts = true;
		pt_again(&rig, PT_PLAIN);
		if (stops == 2 && pt_caps()->topa_many)
			rig.table[0] &= ~(uint64_t)TOPA_INT;
		REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
		another = overflow_another();
		interrupted(&rig);
		EXPECT_EQ(seen.count, 1);
		if (pt_caps()->topa_many)
			EXPECT_EQ(!!(seen.status & RTIT_STATUS_STOPPED), stops != 0);
		else /* before the region is full: table 36-11 */
			EXPECT(stops || !(seen.status & RTIT_STATUS_STOPPED));
		EXPECT_EQ(seen.others_cleared & (TRACE_TOPA_PMI | 2), TRACE_TOPA_PMI | another);
		EXPECT_EQ(seen.cleared & TRACE_TOPA_PMI, 0);
		pmu_rig_clear(another);
		ds_checkin(&this_cpu()->trace->ds);
		pt_close(&rig);
	}
}

TEST(pt_interrupt_of_region, .group = "PT", .ids = "PT91 PT121", .needs = NEED_PT | NEED_BTS,
     .claim = "of four regions that fill the one that has INT interrupts, once it is full, from "
	      "where the packets say; without INT none does, and Trace_ToPA_PMI stays clear",
     .source = "SDM Vol 3, 36.2.6")
{
	struct pt_rig rig;

	pt_need_tables();
	for (unsigned entry = 0; entry < PT_RIG_CHUNKS; entry++) {
		unsigned sources = 0; /* of the NMI, and of the WRMSR of its handler */

		pt_open(&rig, PT_RIG_CHUNKS, false);
		rig.table[entry] |= entry == 3 ? 0 : TOPA_INT;
		REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, TRACE_TOPA_PMI);
		if (entry < 3) /* of another unit's */
			wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, GLOBAL_STATUS_OVF_BUF);
		interrupted(&rig);
		EXPECT_EQ(seen.count, entry == 3 ? 0 : 1);
		EACH_PACKET (&rig, reader, packet)
			if (packet.role == ROLE_SOURCE && !sources++)
				EXPECT_EQ(packet.value, seen.rip);
		EXPECT(!reader.error || reader.cut);
		EXPECT_EQ(sources, 2 * seen.count);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & TRACE_TOPA_PMI, 0);
		EXPECT_EQ(pt_state(&rig.trace).stopped, entry == 3);
		if (entry < 3)
			EXPECT(RTIT_TABLE_INDEX(seen.pointers) >= entry + 1 &&
			       RTIT_TABLE_INDEX(seen.pointers) <= entry + 2);
		ds_checkin(&this_cpu()->trace->ds);
		pt_close(&rig);
	}
}

/* The fixed vector, which waits while IF = 0. */
static void fixed(struct trap_frame *frame)
{
	(void)frame;
	seen.count++;
	seen.entry = apic_read(APIC_LVT_PC);
	seen.global = rdmsr(IA32_PERF_GLOBAL_STATUS);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, TRACE_TOPA_PMI);
	lapic_eoi();
	lapic_unmask_lvtpc();
}

static void settle(void)
{
	__asm__ volatile("sti" : : : "memory");
	pmi_settle();
	__asm__ volatile("cli" : : : "memory");
}

/* Two regions fill while IF is `at_once`, and before them one of 4 KiB << `order`, unless 0. */
static void fill_two(struct pt_rig *rig, bool at_once, unsigned order)
{
	unsigned more = at_once + (order > 0);
	struct pt_state state;
	uint64_t run = 0;

	pt_again(rig, PT_PLAIN);
	seen.count = 0;
	if (order) {
		run = page_alloc_run(order);
		put_before(rig, run | TOPA_INT, order);
	}
	if (at_once)
		__asm__ volatile("sti" : : : "memory");
	trace_jumps(rig, pt_turns);
	EXPECT(at_once || !seen.count);
	settle();
	state = pt_state(&rig->trace);
	if (!at_once)
		test_observe("interrupts", "%u", seen.count);
	EXPECT(seen.count > more && seen.count <= 2 + more);
	EXPECT(seen.global & TRACE_TOPA_PMI && seen.entry & LVT_MASKED);
	EXPECT(state.end > 2 * PT_RIG_BYTES && (at_once || state.end < 3 * PT_RIG_BYTES));
	expect_written(rig, state.end);
	if (order)
		page_free_run(run, order);
}

static void trace_directions(struct pt_rig *rig)
{
	struct trap_frame frame = {.rip = VISITS_AT, .rcx = 64};

	wrmsr(IA32_RTIT_CTL, pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN));
	user_run(&frame);
	pt_stop(&rig->trace);
}

/* The last of the packets that clearing TraceEn adds, or SYSCALL and branches of ring 3, up to
   three bytes apart, fill a region of INT or STOP, if they have as many bytes as the last time. */
static void fill_at_end(struct pt_rig *rig, bool in_ring_3)
{
	uint64_t length = 0;

	for (unsigned n = 0; n < 9; n++) {
		bool stops = n % 2, right;
		struct pt_state state;

		pt_again(rig, PT_PLAIN);
		seen.count = 0;
		rig->table[0] = rig->chunks[0] | (stops ? TOPA_STOP : TOPA_INT);
		if (n)
			wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS,
			      RTIT_POINTERS(0, PT_RIG_BYTES - length + (n - 1) / 2));
		if (in_ring_3)
			trace_directions(rig);
		else
			pt_trace_nop(rig, PT_PLAIN);
		settle();
		state = pt_state(&rig->trace);
		length = n ? length : state.end;
		right = stops ? state.stopped == (state.end >= PT_RIG_BYTES)
			      : seen.count || state.end < PT_RIG_BYTES;
		EXPECT(right && !state.table_error);
	}
}

/* An entry with an error follows. It may be found before the region is full: 36.3.9. */
static void fill_before_error(struct pt_rig *rig)
{
	pt_again(rig, PT_PLAIN);
	seen.count = 0;
	rig->table[0] |= TOPA_INT;
	rig->table[1] |= 2;
	trace_jumps(rig, pt_turns);
	settle();
	EXPECT(pt_state(&rig->trace).table_error);
	EXPECT(seen.count || rig->memory[PT_RIG_BYTES - 1] == PT_RIG_POISON);
}

TEST(pt_interrupts_pending, .group = "PT", .ids = "PT36 PT40 PT41 PT90 PT91",
     .needs = NEED_PT | NEED_BTS,
     .claim = "two regions with INT that fill while IF = 0 interrupt once or twice after STI, and "
	      "the pointers account for both; while IF = 1 each does, before END and by the last "
	      "packets too, and one before an error",
     .source = "SDM Vol 3, 36.2.6")
{
	uint32_t before = apic_read(APIC_LVT_PC);

	pt_need_tables();
	PT_RIG(rig, PT_RIG_CHUNKS, true);
	pt_turns = turns_for_two_regions(&rig);
	rig.trace.buffer.interrupts = true;
	REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
	interrupt_set_handler(PMI_VECTOR, fixed);
	lapic_set_task_priority(BELOW_PMI_VECTOR);
	lapic_set_lvtpc(PMI_VECTOR, false);
	fill_two(&rig, false, 0);
	fill_two(&rig, true, 0);
	fill_two(&rig, true, 1 + test_random() % PAGE_ORDER_MOST);
	fill_at_end(&rig, false);
	fill_before_error(&rig);
	user_directions_open();
	fill_at_end(&rig, true);
	user_visits_close();
	lapic_set_lvtpc((uint8_t)(before & LVT_VECTOR_MASK), before & LVT_NMI);
	lapic_set_task_priority(0);
	interrupt_set_handler(PMI_VECTOR, NULL);
	ds_checkin(&this_cpu()->trace->ds);
}

/* With `left` in IA32_RTIT_STATUS. */
static void expect_bts(uint64_t left)
{
	uint64_t debugctl = 0;
	struct pt_rig rig;
	size_t traced;

	RIG(bts, 16);
	pt_open(&rig, 1, false);
	wrmsr(IA32_RTIT_STATUS, left);
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	own_idt_load();
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	TRACED_WITH(rig_all(),
		    "jmp 1f\n1:\tmovl $0x1d9, %%ecx\n\trdmsr\n\tmovl %%eax, %k[debugctl]\n\t"
		    "leaq 2f(%%rip), %%rbx\n\tud2\n2:\tjmp 1f\n1:",
		    OPERANDS([debugctl] "=&r"(debugctl)), , "rbx");
	pt_stop(&rig.trace);
	own_idt_unload();
	traced = rig_count(&bts);
	rig_reset(&bts);
	TRACED(rig_all(), "jmp 1f\n1:\tjmp 1f\n1:");
	EXPECT_EQ((uint32_t)debugctl, (uint32_t)rig_all());
	EXPECT_EQ(traced, ds_caps()->suspended_by_pt ? 0 : 4);
	EXPECT_EQ(rig_count(&bts), 2);
	pt_close(&rig);
}

TEST(pt_beside_bts, .group = "PT", .ids = "PT42", .needs = NEED_PT | NEED_BTS,
     .claim = "while TraceEn is set BTS rests on the processors that say so, and goes on on others",
     .source = "SDM Vol 3, 36.3.1.2")
{
	expect_bts(0);
	expect_bts(RTIT_STATUS_ERROR);
}

TEST(pt_begins_beside_bts, .group = "PT", .ids = "PT42 PT15", .needs = NEED_PT | NEED_BTS,
     .claim = "while BTS records, packets of Intel PT begin with the instruction after the "
	      "enabling WRMSR",
     .source = "SDM Vol 3, 36.2.7")
{
	struct pt_rig rig;
	uint64_t next = 0, begins = 0;
	unsigned bits = 0, outcomes = 0;

	RIG(bts, 16);
	pt_open(&rig, 1, false);
	TRACED_WITH(rig_all(),
		    "leaq 1f(%%rip), %[next]\n\tmovl $0x570, %%ecx\n\tmovl $0x2105, %%eax\n\t"
		    "xorl %%edx, %%edx\n\twrmsr\n1:\tjz 2f\n2:\tjnz 2f\n2:",
		    OPERANDS([next] "=&r"(next)), );
	pt_stop(&rig.trace);
	EACH_PACKET (&rig, reader, packet) {
		begins = packet.kind == PACKET_TIP_PGE && !begins ? packet.value : begins;
		for (unsigned left = packet.kind == PACKET_TNT ? packet.count : 0; left && bits < 2;
		     bits++)
			outcomes = outcomes << 1 | (packet.value >> --left & 1);
	}
	EXPECT(!reader.error);
	EXPECT_EQ(begins, next);
	EXPECT_EQ(bits, 2);
	EXPECT_EQ(outcomes, 2);
	pt_close(&rig);
}
