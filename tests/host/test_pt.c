// SPDX-License-Identifier: MIT
/* sources: drivers/pt/pt.c drivers/pt/stream.c tests/host/fake_cpu.c */
#include "drivers/pt/pt.h"

#include "drivers/pt/registers.h"
#include "tests/host/fake_cpu.h"

#include <string.h>

enum { ORDER = 1, CHUNKS = 3, BYTES = 4096 << ORDER, ENTRY_SIZE = 1 << 6 };
#define TABLE  0x7000ull
#define KEPT   0x51000ull
#define BRANCH (RTIT_CTL_BRANCH_EN | RTIT_CTL_OS)

static const uint64_t chunks[CHUNKS] = {0x10000, 0x40000, 0x22000};
static uint64_t table[CHUNKS + 2];
static uint8_t last[BYTES];
static struct pt_trace trace;

/* The machine has 1 MiB, less one page. */
static bool is_memory(uint64_t physical, uint64_t bytes)
{
	return physical + bytes <= 0x100000 &&
	       (physical + bytes <= KEPT || physical >= KEPT + 4096);
}

/* Leaf 14H of Skylake. */
static int start(void **state)
{
	fake_cpu_reset(SKYLAKE);
	fake_cpu.leaf[0].eax = 0x14;
	fake_cpu.leaf[7].ebx = 1 << 25;
	fake_cpu.leaf[0x14] = (struct cpuid_result){.eax = 1, .ebx = 0xf, .ecx = 7};
	fake_cpu.subleaf_1[0x14] = (struct cpuid_result){.eax = 0x02490002, .ebx = 0x003f3fff};
	fake_msr(IA32_RTIT_OUTPUT_BASE);
	fake_msr(IA32_RTIT_OUTPUT_MASK_PTRS);
	fake_msr(IA32_RTIT_CTL);
	fake_msr(IA32_RTIT_STATUS);
	fake_msr(IA32_RTIT_CR3_MATCH);
	for (uint32_t n = 0; n < 4; n++)
		fake_msr(IA32_RTIT_ADDR0_A + n);
	memset(table, 0x77, sizeof(table));
	memset(last, 0, sizeof(last));
	trace = (struct pt_trace){
		.buffer = {.table = table,
			   .table_address = TABLE,
			   .chunks = chunks,
			   .count = CHUNKS,
			   .order = ORDER,
			   .last_end = last + BYTES},
		.configuration = {.control = BRANCH},
	};
	pt_init(is_memory);
	fake_log_clear();
	return 0;
}

UNIT(detects, .setup_func = start)
{
	const struct pt_caps *caps = pt_caps();

	assert_true(caps->present && caps->cr3_filter && caps->psb_cyc && caps->ip_filter);
	assert_true(caps->mtc && caps->topa && caps->topa_many && caps->single_range);
	assert_false(caps->ptwrite || caps->power_events || caps->fabric || caps->lip);
	assert_int_equal(caps->ranges, 2);
	assert_int_equal(caps->mtc_periods, 0x0249);
	assert_int_equal(caps->cycle_thresholds, 0x3fff);
	assert_int_equal(caps->psb_frequencies, 0x003f);
	assert_false(caps->always_branches);
}

UNIT(keeps_what_reset_left, .setup_func = start)
{
	fake_msr(IA32_RTIT_CTL)->value = 4;
	fake_msr(IA32_RTIT_STATUS)->value = 0x20;
	fake_msr(IA32_RTIT_OUTPUT_BASE)->value = 0x3000;
	fake_msr(IA32_RTIT_OUTPUT_MASK_PTRS)->value = 0x7f;
	fake_msr(IA32_RTIT_CR3_MATCH)->value = 0x5000;
	fake_msr(IA32_RTIT_ADDR0_A + 3)->value = 9;
	pt_init(is_memory);
	assert_int_equal(pt_found()->control, 4);
	assert_int_equal(pt_found()->status, 0x20);
	assert_int_equal(pt_found()->output_base, 0x3000);
	assert_int_equal(pt_found()->output_mask_ptrs, 0x7f);
	assert_int_equal(pt_found()->cr3_match, 0x5000);
	assert_int_equal(pt_found()->address[3], 9);
	assert_no_writes();
}

/* Erratum BDM106: the WRMSR that would start it raises #GP. */
UNIT(broadwell_traces_branches_always, .setup_func = start)
{
	static const uint32_t broadwell[] = {0x306d4, 0x40671, 0x406f1, 0x50663};

	trace.configuration.control = RTIT_CTL_OS;
	assert_int_equal(pt_prepare(&trace), 0);
	for (unsigned n = 0; n < sizeof(broadwell) / sizeof(broadwell[0]); n++) {
		fake_cpu.leaf[1].eax = broadwell[n];
		pt_init(is_memory);
		trace.configuration.control = RTIT_CTL_OS;
		assert_int_equal(pt_prepare(&trace), -EOPNOTSUPP);
		trace.configuration.control = BRANCH;
		assert_int_equal(pt_prepare(&trace), 0);
	}
}

/* The address ranges are in leaf 14H.1, whatever EBX[1] says of PSB. */
UNIT(detects_ranges_without_psb_frequencies, .setup_func = start)
{
	fake_cpu.leaf[0x14].ebx = 5;
	pt_init(is_memory);
	assert_int_equal(pt_caps()->ranges, 2);
	fake_cpu.leaf[0x14].eax = 0;
	pt_init(is_memory);
	assert_int_equal(pt_caps()->ranges, 0);
	assert_int_equal(pt_caps()->psb_frequencies, 0);
	/* EAX[2:0] of leaf 14H.1 counts only where there is filtering by address. */
	fake_cpu.leaf[0x14] = (struct cpuid_result){.eax = 1, .ebx = 1, .ecx = 7};
	pt_init(is_memory);
	assert_int_equal(pt_caps()->ranges, 0);
}

UNIT(detects_nothing, .setup_func = start)
{
	fake_cpu.leaf[7].ebx = 0;
	pt_init(is_memory);
	assert_false(pt_caps()->present);
	assert_int_equal(pt_prepare(&trace), -ENODEV);
	fake_cpu.leaf[7].ebx = 1 << 25;
	fake_cpu.leaf[0].eax = 0x13;
	pt_init(is_memory);
	assert_false(pt_caps()->present);
	fake_cpu.leaf[0].eax = 0x14;
	fake_cpu.leaf[0].ebx = 0;
	pt_init(is_memory);
	assert_false(pt_caps()->present);
}

UNIT(table_stops_at_the_last_chunk, .setup_func = start)
{
	assert_int_equal(pt_prepare(&trace), 0);
	assert_int_equal(table[0], chunks[0] | ENTRY_SIZE);
	assert_int_equal(table[1], chunks[1] | ENTRY_SIZE);
	assert_int_equal(table[2], chunks[2] | ENTRY_SIZE | TOPA_STOP);
	assert_int_equal(table[3], TABLE | TOPA_END);
	assert_int_equal(table[4], 0x7777777777777777);
	assert_no_writes();
}

UNIT(table_is_circular, .setup_func = start)
{
	trace.buffer.circular = trace.buffer.interrupts = true;
	assert_int_equal(pt_prepare(&trace), 0);
	for (unsigned n = 0; n < CHUNKS; n++)
		assert_int_equal(table[n], chunks[n] | ENTRY_SIZE | TOPA_INT);
	assert_int_equal(table[3], TABLE | TOPA_END);
}

UNIT(one_chunk_where_there_is_one, .setup_func = start)
{
	fake_cpu.leaf[0x14].ecx = 1;
	pt_init(is_memory);
	assert_int_equal(pt_prepare(&trace), -EOPNOTSUPP);
	assert_int_equal(table[0], 0x7777777777777777);
	trace.buffer.count = 1;
	assert_int_equal(pt_prepare(&trace), 0);
	assert_int_equal(table[0], chunks[0] | ENTRY_SIZE | TOPA_STOP);
	assert_int_equal(table[1], TABLE | TOPA_END);
	assert_int_equal(table[2], 0x7777777777777777);
}

/* Each changes one field of a good trace. */
UNIT(refuses_buffers, .setup_func = start)
{
	static const uint64_t misaligned[CHUNKS] = {0x10000, 0x41000, 0x22000};
	const struct pt_trace good = trace;

#define REFUSED(change, error)                                                                     \
	do {                                                                                       \
		trace = good;                                                                      \
		change;                                                                            \
		assert_int_equal(pt_prepare(&trace), -(error));                                    \
		assert_int_equal(table[0], 0x7777777777777777);                                    \
	} while (0)
	REFUSED(trace.buffer.count = 0, EINVAL);
	REFUSED(trace.buffer.count = 0x1ffffff, EINVAL);
	REFUSED(trace.buffer.order = 16, EINVAL);
	REFUSED(trace.buffer.chunks = misaligned, EINVAL);
	REFUSED(trace.buffer.table = NULL, EINVAL);
	REFUSED(trace.buffer.last_end = NULL, EINVAL);
	REFUSED(trace.buffer.table_address = 0x7008, EINVAL);
}

/* Code of the kernel, a device, and the table itself: the processor would write there. */
UNIT(refuses_other_memory, .setup_func = start)
{
	static const uint64_t others[][CHUNKS] = {
		{0x10000, KEPT & ~(BYTES - 1ull), 0x22000}, /* its last page */
		{0x10000, 0x40000, 0xfee00000},
		{0x100000, 0x40000, 0x22000},
		{0x10000, 0x40000, TABLE & ~(BYTES - 1ull)},
	};
	static const uint64_t beside[CHUNKS] = {0x4e000, 0x52000, 0xfe000};
	const struct pt_trace good = trace;

	for (unsigned n = 0; n < sizeof(others) / sizeof(others[0]); n++)
		REFUSED(trace.buffer.chunks = others[n], EINVAL);
	REFUSED(trace.buffer.table_address = KEPT, EINVAL);
	REFUSED(trace.buffer.table_address = 0x100000, EINVAL);
	trace = good;
	trace.buffer.chunks = beside;
	assert_int_equal(pt_prepare(&trace), 0);
}

UNIT(refuses_configurations, .setup_func = start)
{
	const struct pt_trace good = trace;

	REFUSED(trace.configuration.control |= RTIT_CTL_TRACE_EN, EINVAL);
	REFUSED(trace.configuration.control |= RTIT_CTL_TOPA, EINVAL);
	REFUSED(trace.configuration.control |= RTIT_CTL_FABRIC_EN, EINVAL);
	REFUSED(trace.configuration.control |= 1ull << 18, EINVAL);
	REFUSED(trace.configuration.control |= RTIT_CTL_ADDR_CFG(0, 1), EINVAL);
	REFUSED(trace.configuration.control |= RTIT_CTL_PTW_EN, EOPNOTSUPP);
	REFUSED(trace.configuration.control |= RTIT_CTL_PWR_EVT_EN, EOPNOTSUPP);
	REFUSED(trace.configuration.control |= 1ull << 14, EOPNOTSUPP); /* MTCFreq 1 */
	REFUSED(trace.configuration.control |= 14ull << 19, EOPNOTSUPP);
	REFUSED(trace.configuration.control |= 6ull << 24, EOPNOTSUPP);
	REFUSED(trace.configuration.cr3_match = 0x10, EINVAL);
	REFUSED(trace.configuration.range[0].use = 3, EINVAL);
	REFUSED(trace.configuration.range[2].use = RTIT_ADDR_FILTER, EOPNOTSUPP);
	REFUSED((trace.configuration.range[0].use = 1, trace.configuration.range[0].first = 1),
		EINVAL);
	REFUSED((trace.configuration.range[0].use = 1,
		 trace.configuration.range[0].last = 1ull << 47),
		EINVAL);
	trace = good;
	trace.configuration.control |= 5ull << 24 | 3ull << 14 | 13ull << 19;
	assert_int_equal(pt_prepare(&trace), 0);
}

UNIT(starts_status_first_control_last, .setup_func = start)
{
	trace.configuration.control |= RTIT_CTL_CR3_FILTER;
	trace.configuration.cr3_match = 0x1000;
	trace.configuration.range[1].use = RTIT_ADDR_TRACE_STOP;
	trace.configuration.range[1].first = 0xffff800000000000;
	trace.configuration.range[1].last = 0xffff800000000fff;
	fake_msr(IA32_RTIT_ADDR0_A)->value = 99;
	fake_msr(IA32_RTIT_STATUS)->value = RTIT_STATUS_STOPPED;
	assert_int_equal(pt_prepare(&trace), 0);
	assert_int_equal(pt_load(&trace), 0);
	assert_writes({IA32_RTIT_OUTPUT_BASE, TABLE}, {IA32_RTIT_OUTPUT_MASK_PTRS, 0x7f},
		      {IA32_RTIT_CR3_MATCH, 0x1000}, {IA32_RTIT_ADDR0_A, 0},
		      {IA32_RTIT_ADDR0_A + 1, 0}, {IA32_RTIT_ADDR0_A + 2, 0xffff800000000000},
		      {IA32_RTIT_ADDR0_A + 3, 0xffff800000000fff});
	fake_log_clear();
	pt_start(&trace);
	assert_writes({IA32_RTIT_STATUS, 0},
		      {IA32_RTIT_CTL, BRANCH | RTIT_CTL_CR3_FILTER | RTIT_CTL_TOPA |
					      RTIT_CTL_TRACE_EN | 2ull << 36});
	fake_log_clear();
	assert_int_equal(pt_load(&trace), -EBUSY);
	assert_no_writes();
}

UNIT(refused_control_starts_nothing, .setup_func = start)
{
	fake_msr(IA32_RTIT_CTL)->reserved = RTIT_CTL_BRANCH_EN;
	assert_int_equal(pt_prepare(&trace), 0);
	assert_int_equal(pt_load(&trace), 0);
	assert_int_equal(pt_start(&trace), -EIO);
	assert_int_equal(fake_msr(IA32_RTIT_CTL)->value, 0);
}

/* A trace that has stopped by itself stays off: its offset may be an error of the table. */
UNIT(pauses, .setup_func = start)
{
	const uint64_t on = BRANCH | RTIT_CTL_TOPA | RTIT_CTL_TRACE_EN;

	assert_int_equal(pt_pause(), 0);
	pt_resume(0);
	assert_no_writes();
	fake_msr(IA32_RTIT_CTL)->value = on;
	assert_int_equal(pt_pause(), on);
	pt_resume(on);
	assert_writes({IA32_RTIT_CTL, BRANCH | RTIT_CTL_TOPA}, {IA32_RTIT_CTL, on});
	pt_pause();
	fake_msr(IA32_RTIT_STATUS)->value = RTIT_STATUS_STOPPED;
	pt_resume(on);
	assert_int_equal(fake_msr(IA32_RTIT_CTL)->value, BRANCH | RTIT_CTL_TOPA);
	fake_msr(IA32_RTIT_STATUS)->value = RTIT_STATUS_ERROR;
	pt_resume(on);
	assert_int_equal(fake_msr(IA32_RTIT_CTL)->value, BRANCH | RTIT_CTL_TOPA);
}

/* Acts as the processor, `bytes` later. */
static void play_output(uint64_t index, uint64_t offset, uint64_t status)
{
	fake_msr(IA32_RTIT_OUTPUT_MASK_PTRS)->value = RTIT_POINTERS(index, offset);
	fake_msr(IA32_RTIT_STATUS)->value = status;
}

static void run(uint64_t index, uint64_t offset, uint64_t status)
{
	assert_int_equal(pt_load(&trace), 0);
	pt_start(&trace);
	play_output(index, offset, status);
	fake_log_clear();
	pt_stop(&trace);
	assert_writes({IA32_RTIT_CTL, trace.configuration.control | RTIT_CTL_TOPA},
		      {IA32_RTIT_CTL, 0});
	fake_log_clear();
}

/* A second start traces again, with the same control, from where the first one ended. */
UNIT(goes_on, .setup_func = start)
{
	assert_int_equal(pt_prepare(&trace), 0);
	run(1, 100, 0);
	assert_int_equal(pt_state(&trace).end, BYTES + 100);
	assert_int_equal(pt_state(&trace).valid, BYTES + 100);
	assert_false(pt_state(&trace).stopped);
	assert_int_equal(trace.configuration.control, BRANCH);
	assert_int_equal(pt_load(&trace), 0);
	assert_int_equal(fake_cpu.log[1].value, RTIT_POINTERS(1, 100));
	fake_log_clear();
	pt_start(&trace);
	assert_writes({IA32_RTIT_STATUS, 0},
		      {IA32_RTIT_CTL, BRANCH | RTIT_CTL_TOPA | RTIT_CTL_TRACE_EN});
}

UNIT(full_is_not_started_again, .setup_func = start)
{
	struct pt_state full;

	assert_int_equal(pt_prepare(&trace), 0);
	run(CHUNKS - 1, BYTES, RTIT_STATUS_STOPPED);
	full = pt_state(&trace);
	assert_int_equal(full.end, CHUNKS * BYTES);
	assert_true(full.stopped && full.full);
	assert_false(full.wrapped || full.table_error);
	assert_int_equal(pt_load(&trace), -ENOSPC);
	assert_no_writes();
	pt_rewind(&trace);
	assert_int_equal(pt_load(&trace), 0);
	assert_int_equal(pt_state(&trace).end, 0);
}

/* A TraceStop range stops too, and leaves room. */
UNIT(stopped_is_not_full, .setup_func = start)
{
	assert_int_equal(pt_prepare(&trace), 0);
	run(0, 64, RTIT_STATUS_STOPPED);
	assert_true(pt_state(&trace).stopped);
	assert_false(pt_state(&trace).full);
	assert_int_equal(pt_load(&trace), 0);
}

UNIT(tells_an_error, .setup_func = start)
{
	assert_int_equal(pt_prepare(&trace), 0);
	run(0, 64, RTIT_STATUS_ERROR);
	assert_true(pt_state(&trace).table_error);
	assert_int_equal(pt_load(&trace), -EIO);
	assert_no_writes();
	pt_rewind(&trace);
	assert_false(pt_state(&trace).table_error);
	assert_int_equal(pt_load(&trace), 0);
}

UNIT(tells_a_wrap, .setup_func = start)
{
	trace.buffer.circular = true;
	assert_int_equal(pt_prepare(&trace), 0);
	run(2, BYTES - 20, 0);
	memset(last, 0x80, BYTES - 20);
	assert_false(pt_state(&trace).wrapped);
	assert_int_equal(pt_state(&trace).valid, 3 * BYTES - 20);
	memset(last, 0x80, BYTES);
	assert_true(pt_state(&trace).wrapped);
	run(0, 8, 0);
	assert_true(pt_state(&trace).wrapped);
	assert_int_equal(pt_state(&trace).end, 8);
	assert_int_equal(pt_state(&trace).valid, 3 * BYTES);
	pt_rewind(&trace);
	run(0, 8, 0);
	assert_false(pt_state(&trace).wrapped);
	assert_int_equal(pt_state(&trace).valid, 8);
	run(CHUNKS, 0, 0); /* at the END entry */
	assert_int_equal(pt_state(&trace).end, 0);
	run(0, 0, 0); /* the last byte was the buffer's last one */
	memset(last, 0x80, BYTES);
	assert_true(pt_state(&trace).wrapped);
}
