// SPDX-License-Identifier: MIT
// The buffers of a session, its refusals, and its end.
#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/trace.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"
#include "tests/lib/pt_decode.h"

static uint64_t target; /* of the jumps of the last run */

/* A run on this CPU, of `jumps`; returns its state. The session is open. */
static struct insntrace_state traced(unsigned jumps)
{
	struct insntrace_state state = {0};

	REQUIRE_EQ(insntrace_start(NULL), 0);
	target = insntrace_jump(jumps);
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT_EQ(insntrace_get_buffer_state(NULL, this_cpu()->index, &state), 0);
	return state;
}

/* The jumps that this CPU's buffer has. */
static unsigned jumps_held(void)
{
	struct insntrace_targets targets = insntrace_targets(NULL, this_cpu()->index);

	return insntrace_times(&targets, target);
}

static uint8_t bytes_held[2 * PAGE_SIZE];

/* Before the first branch; TIP.PGE with its mode and time may be before it: the manual leaves the
   order open. */
static bool begins_with_psb(unsigned n)
{
	size_t count = insntrace_copy(NULL, n, 0, bytes_held, sizeof(bytes_held));
	struct packet_reader reader;
	struct packet packet;

	packet_start(&reader, bytes_held, count);
	while (packet_next(&reader, &packet) && packet.kind != PACKET_TNT &&
	       packet.kind != PACKET_TIP)
		if (packet.kind == PACKET_PSB)
			return true;
	return false;
}

/* What was written last of a buffer that went round: TIP.PGD, after legal packets from a PSB on. */
static bool ends_with_stop(unsigned n)
{
	size_t count = insntrace_copy(NULL, n, 0, bytes_held, sizeof(bytes_held));
	enum packet_kind last = PACKET_PAD;
	struct packet_reader reader;
	struct packet packet;

	packet_start(&reader, bytes_held, count);
	EXPECT(packet_synchronise(&reader));
	while (packet_next(&reader, &packet))
		if (packet.kind <= PACKET_FUP && packet.kind != PACKET_PAD)
			last = packet.kind;
	EXPECT(!reader.error);
	return last == PACKET_TIP_PGD;
}

TEST(pt_session_again, .group = "PT", .ids = "PT50", .needs = NEED_PT,
     .claim = "a session that is started again traces again, by the same configuration",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config config = insntrace_config(2, 0, 0), now;
	struct insntrace_state first, second;

	test_pin();
	insntrace_open(NULL, &config);
	first = traced(100);
	EXPECT_EQ(insntrace_get_buffer_config(NULL, 0, &now), 0);
	EXPECT(!memcmp(&now, &config, sizeof(config)));
	EXPECT_EQ(first.available, first.capture_end);
	EXPECT_EQ(jumps_held(), 100);
	EXPECT(begins_with_psb(this_cpu()->index));
	second = traced(50);
	EXPECT_EQ(second.available, second.capture_end);
	EXPECT_EQ(jumps_held(), 50);
	EXPECT(begins_with_psb(this_cpu()->index));
	traced(3000);
	second = traced(50);
	EXPECT_EQ(second.flags, 0);
	insntrace_close(NULL);
}

TEST(pt_session_full, .group = "PT", .ids = "PT52", .needs = NEED_PT,
     .claim = "a buffer that is not circular ends full, a circular one wrapped; the oldest byte is "
	      "read first",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config config = insntrace_config(2, 0, 0);
	uint64_t size = config.chunks * PAGE_SIZE;
	struct insntrace_state state;
	const void *from;
	size_t bytes = size;

	test_pin();
	insntrace_open(NULL, &config);
	state = traced(3000);
	EXPECT_EQ(state.flags, INSNTRACE_STOPPED | INSNTRACE_FULL);
	EXPECT_EQ(state.capture_end, size);
	EXPECT_EQ(state.available, size);
	EXPECT(begins_with_psb(this_cpu()->index));
	insntrace_close(NULL);
	config.flags = INSNTRACE_CIRCULAR;
	insntrace_open(NULL, &config);
	state = traced(3000);
	EXPECT_EQ(state.flags, INSNTRACE_WRAPPED);
	EXPECT_EQ(state.available, size);
	EXPECT(ends_with_stop(this_cpu()->index));
	EXPECT_EQ(insntrace_read_buffer(NULL, this_cpu()->index, 0, &from, &bytes), 0);
	EXPECT_EQ((uint64_t)from % PAGE_SIZE, state.capture_end % PAGE_SIZE);
	bytes = 1;
	EXPECT_EQ(insntrace_read_buffer(NULL, this_cpu()->index, size, &from, &bytes), 0);
	EXPECT_EQ(bytes, 0);
	insntrace_close(NULL);
}

TEST(pt_session_orders, .group = "PT", .ids = "PT51", .needs = NEED_PT,
     .claim =
	     "chunks of every order are contiguous and aligned; they are given back and used again",
     .source = "include/abi/insntrace.h")
{
	struct trace_account account = {.limit = 64ul << 20};
	uint64_t pages = pages_left();
	const void *from;
	size_t bytes;
	uint64_t run;

	test_pin();
	for (unsigned order = 0; order <= INSNTRACE_ORDER_MOST; order++) {
		struct insntrace_config config = insntrace_config(2, order, 0);

		insntrace_open(NULL, &config);
		EXPECT(traced(100).available >= 300);
		bytes = 1;
		EXPECT_EQ(insntrace_read_buffer(NULL, this_cpu()->index, 0, &from, &bytes), 0);
		EXPECT_EQ((uint64_t)from % (PAGE_SIZE << order), 0);
		insntrace_close(NULL);
		run = page_alloc_run(order);
		page_free_run(run, order);
		EXPECT_EQ(page_alloc_run(order), run);
		page_free_run(run, order);
	}
	for (unsigned n = 0; n < 3; n++) {
		struct insntrace_config config = insntrace_config(2, 2, 0);

		insntrace_open(&account, &config);
		EXPECT_EQ(account.used, cpu_count() * (config.chunks * 4 + 3) * PAGE_SIZE);
		EXPECT_EQ(insntrace_free_buffer(&account, 0), 0);
		EXPECT_EQ(insntrace_allocate_buffer(&account, &config, 0), 0);
		EXPECT_EQ(insntrace_start(&account), 0);
		EXPECT_EQ(insntrace_stop(&account), 0);
		insntrace_close(&account);
		EXPECT_EQ(account.used, 0);
	}
	EXPECT_EQ(pages_missing(pages), 0);
}

static void set_trace_en(void *argument)
{
	if (argument) {
		wrmsr(IA32_RTIT_CTL, RTIT_CTL_TOPA | RTIT_CTL_BRANCH_EN | RTIT_CTL_TRACE_EN);
		return;
	}
	pt_off();
	wrmsr(IA32_RTIT_STATUS, 0);
}

TEST(pt_session_none_started, .group = "PT", .ids = "PT51", .needs = NEED_PT,
     .claim = "a start that fails on one CPU leaves none started, and the session as it was",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config config = insntrace_config(4, 0, INSNTRACE_CIRCULAR);
	unsigned last = cpu_count() - 1;

	test_pin();
	insntrace_open(NULL, &config);
	smp_call(last, set_trace_en, &config);
	EXPECT_EQ(insntrace_start(NULL), -EBUSY);
	EXPECT_EQ(insntrace_traced_cpus(), 1); /* `last`, by the test */
	EXPECT_EQ(insntrace_stop(NULL), -EBADFD);
	smp_call(last, set_trace_en, NULL);
	EXPECT(traced(100).available >= 300);
	insntrace_close(NULL);
}

/* --- What is written --- */

struct seen {
	uint64_t control, cr3_match, range[2][2];
};

static void read_here(void *argument)
{
	struct seen *seen = argument;

	seen->control = rdmsr(IA32_RTIT_CTL);
	seen->cr3_match = rdmsr(IA32_RTIT_CR3_MATCH);
	for (unsigned n = 0; n < 4 && n < 2 * pt_caps()->ranges; n++)
		seen->range[n / 2][n % 2] = rdmsr(IA32_RTIT_ADDR0_A + n);
}

TEST(pt_session_filters, .group = "PT", .ids = "PT53", .needs = NEED_PT,
     .claim = "filters by privilege level, CR3 and address are in the MSRs of every CPU",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config config = insntrace_config(1, 0, INSNTRACE_CIRCULAR);

	if (pt_caps()->ranges < 2 || !pt_caps()->cr3_filter)
		test_skip("not two ranges and a filter by CR3");
	config.control = RTIT_CTL_USER | RTIT_CTL_BRANCH_EN | RTIT_CTL_CR3_FILTER |
			 RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER) |
			 RTIT_CTL_ADDR_CFG(1, RTIT_ADDR_TRACE_STOP);
	config.address_space = 0x1234000;
	config.range[0].first = 0x400000;
	config.range[0].last = 0x400fff;
	config.range[1].first = config.range[1].last = 0x500001;
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	for (unsigned i = 0; i < cpu_count(); i++) {
		struct seen seen;

		smp_call(i, read_here, &seen);
		EXPECT_EQ(seen.control, config.control | RTIT_CTL_TOPA | RTIT_CTL_TRACE_EN);
		EXPECT_EQ(seen.cr3_match, 0x1234000);
		EXPECT_EQ(seen.range[0][0], 0x400000);
		EXPECT_EQ(seen.range[0][1], 0x400fff);
		EXPECT_EQ(seen.range[1][0], 0x500001);
		EXPECT_EQ(seen.range[1][1], 0x500001);
	}
	insntrace_close(NULL);
}

/* --- Refusals --- */

static void expect_refused(struct trace_account *account, struct insntrace_config config, int error)
{
	uint64_t pages = pages_left();
	int result = insntrace_allocate_buffer(account, &config, config.address_space);

	if (result != error)
		test_note("chunks %u order %u flags %x control %lx", config.chunks,
			  config.chunk_order, config.flags, config.control);
	EXPECT_EQ(result, error);
	EXPECT_EQ(pages_missing(pages), 0);
}

TEST(pt_session_sizes_refused, .group = "PT", .ids = "PT53", .needs = NEED_PT,
     .claim =
	     "buffers of no chunk, too many, too large, of another size or over the limit are refused",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config good = insntrace_config(2, 1, 0), bad = good;
	struct trace_account account = {.limit = 64 * PAGE_SIZE};

	EXPECT_EQ(insntrace_initialize(&account, INSNTRACE_CPUS, cpu_count() + 1), -EINVAL);
	EXPECT_EQ(insntrace_initialize(&account, INSNTRACE_CPUS, 0), -EINVAL);
	EXPECT_EQ(insntrace_initialize(&account, 2, cpu_count()), -EINVAL);
	REQUIRE_EQ(insntrace_initialize(&account, INSNTRACE_CPUS, cpu_count()), 0);
	bad.chunks = 0;
	expect_refused(&account, bad, -EINVAL);
	bad.chunks = INSNTRACE_CHUNKS_MOST + 1;
	expect_refused(&account, bad, -EINVAL);
	bad.chunks = UINT32_MAX;
	expect_refused(&account, bad, -EINVAL);
	bad = good;
	bad.chunk_order = INSNTRACE_ORDER_MOST + 1;
	expect_refused(&account, bad, -EINVAL);
	bad.chunks = INSNTRACE_BYTES_MOST / (PAGE_SIZE << 8) + 1;
	bad.chunk_order = 8;
	expect_refused(&account, bad, -EINVAL);
	bad.chunks = 1;
	expect_refused(&account, bad, -ENOMEM);
	bad = good;
	bad.flags = 1u << 31;
	expect_refused(&account, bad, -EINVAL);
	bad.flags = INSNTRACE_INHERIT; /* of threads */
	expect_refused(&account, bad, -EINVAL);
	bad = good;
	bad.zero = 1;
	expect_refused(&account, bad, -EINVAL);
	EXPECT_EQ(account.used, 0);
	EXPECT_EQ(insntrace_allocate_buffer(&account, &good, 0), 0);
	bad = good;
	bad.chunk_order = 0;
	expect_refused(&account, bad, -EINVAL);
	EXPECT_EQ(insntrace_free_buffer(&account, cpu_count()), -EINVAL);
	EXPECT_EQ(insntrace_free_buffer(&account, UINT32_MAX), -EINVAL);
	insntrace_close(&account);
	EXPECT_EQ(account.used, 0);
}

TEST(pt_session_controls_refused, .group = "PT", .ids = "PT53", .needs = NEED_PT,
     .claim = "bits of IA32_RTIT_CTL that the owner may not set, or the processor does not have, "
	      "are refused",
     .source = "include/abi/insntrace.h")
{
	static const uint64_t never[] = {RTIT_CTL_TRACE_EN, RTIT_CTL_TOPA, RTIT_CTL_FABRIC_EN,
					 1ull << 18,	    1ull << 48,	   1ull << 63};
	struct insntrace_config good = insntrace_config(1, 0, 0), bad = good;

	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count()), 0);
	for (size_t n = 0; n < sizeof(never) / sizeof(never[0]); n++) {
		bad.control = good.control | never[n];
		expect_refused(NULL, bad, -EINVAL);
	}
	bad.control = good.control | RTIT_CTL_ADDR_CFG(0, 3);
	expect_refused(NULL, bad, -EINVAL);
	bad.control = good.control | RTIT_CTL_ADDR_CFG(3, RTIT_ADDR_FILTER);
	if (pt_caps()->ranges < 4)
		expect_refused(NULL, bad, -EOPNOTSUPP);
	bad.control = good.control | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER);
	bad.range[0].first = 1;
	expect_refused(NULL, bad, -EINVAL);
	bad = good;
	bad.address_space = 1;
	expect_refused(NULL, bad, -EINVAL);
	bad = good;
	bad.control |= RTIT_CTL_PTW_EN;
	if (!pt_caps()->ptwrite)
		expect_refused(NULL, bad, -EOPNOTSUPP);
	insntrace_close(NULL);
}

/* --- Ends --- */

TEST(pt_session_owner_ends, .group = "PT", .ids = "PT51", .needs = NEED_PT,
     .claim = "an owner's end stops every CPU and gives everything back",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config config = insntrace_config(4, 0, INSNTRACE_CIRCULAR);
	struct trace_account owner = {.limit = 8ul << 20}, other = owner;
	uint64_t pages = pages_left();

	insntrace_open(&owner, &config);
	EXPECT_EQ(insntrace_start(&owner), 0);
	insntrace_owner_ended(&other);
	EXPECT_EQ(insntrace_traced_cpus(), cpu_count());
	insntrace_owner_ended(&owner);
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	EXPECT_EQ(owner.used, 0);
	EXPECT_EQ(insntrace_initialize(&other, INSNTRACE_CPUS, cpu_count()), 0);
	insntrace_owner_ended(&other);
	EXPECT_EQ(pages_missing(pages), 0);
}

static void end_here(void *argument)
{
	(void)argument;
	trace_units[TRACE_PT]->end(this_cpu());
}

TEST(pt_session_panic, .group = "PT", .ids = "PT51", .needs = NEED_PT,
     .claim = "in a panic every CPU that stops clears TraceEn, before any memory is given back",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config config = insntrace_config(4, 0, INSNTRACE_CIRCULAR);

	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	smp_call_all(end_here, NULL);
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	EXPECT_EQ(insntrace_stop(NULL), 0);
	insntrace_close(NULL);
}

TEST(pt_session_pause, .group = "PT", .ids = "PT51", .needs = NEED_PT,
     .claim = "a CPU that pauses tracing records no instruction until it goes on",
     .source = "include/abi/insntrace.h")
{
	struct insntrace_config config = insntrace_config(4, 0, 0);
	struct trace_paused paused;
	bool traced_meanwhile;

	test_pin();
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	target = insntrace_jump(1);
	paused = trace_pause_cpu();
	traced_meanwhile = rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN;
	insntrace_jump(100);
	trace_resume_cpu(paused);
	EXPECT(rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN);
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT(!traced_meanwhile);
	EXPECT_EQ(jumps_held(), 1); /* the others are of the same address */
	insntrace_close(NULL);
}

TEST(pt_session_after_programs, .group = "PT", .ids = "PT51", .needs = NEED_PT,
     .claim = "when 40 programs have had memory buffers of every order, and the largest that there "
	      "was before, can be had",
     .source = "docs/insntrace.2, Limits")
{
	uint64_t before = programs_begin(), largest = insntrace_largest(),
		 tables = vm_table_count();

	EXPECT(largest > 0);
	programs_use_pages();
	EXPECT_EQ(pages_missing(before), 0);
	for (unsigned order = 2; order <= INSNTRACE_ORDER_MOST; order += 2)
		EXPECT(insntrace_can_have(4, 8, order));
	EXPECT(insntrace_can_have(4, 1024, 0));
	tables = vm_table_count() - tables;
	EXPECT(insntrace_largest() + tables >= largest);
	programs_end(before);
}
