// SPDX-License-Identifier: MIT
/* sources: monitor/interp/?*.c monitor/pt/?*.c lib/format.c */
/* Where the packets go, and the MSRs. */
#include "tests/host/pt_rig.h"

/* --- Output ------------------------------------------------------------------------------------
 */

static void run_into(unsigned count, uint64_t last, uint64_t ctl)
{
	of(&everything);
	make_program(21, true);
	make_topa(count, 0, last);
	write_ctl(CTL_DEFAULT | CTL_DIS_RETC | ctl);
	run(100000, true);
}

/* The code decoded from the first PSB on is that executed last. */
static void a_ring_has_the_newest(void **state)
{
	uint8_t linear[2 * PAGE];
	unsigned count;
	size_t at;

	run_into(2, 0, 0);
	write_ctl(0);
	at = bytes_out(0);
	memcpy(linear, rig.memory + REGIONS + at, sizeof(linear) - at);
	memcpy(linear + sizeof(linear) - at, rig.memory + REGIONS, at);
	assert_int_equal(decode_packets(linear, sizeof(linear), &count), 0);
	assert_in_range(count, 1000, executed - 1);
	memmove(expected, expected + executed - count, count * sizeof(expected[0]));
	executed = count;
	assert_same(count);
}

static void stop_has_the_oldest(void **state)
{
	unsigned count, all;

	run_into(2, 1 << 4, 0);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_STOPPED, STATUS_STOPPED);
	write_ctl(0);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_MASK_PTRS), 4096ull << 32 | 1 << 7 | 0x7f);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_BASE), TOPA);
	for (unsigned n = 0; n < PAGE; n++)
		assert_int_equal(rig.memory[REGIONS + 2 * PAGE + n], 0);
	decode_packets(rig.memory + REGIONS, 2 * PAGE, &count);
	assert_in_range(count, 1000, executed);
	all = executed;
	executed = count;
	assert_same(count);
	/* At most the bits of one TNT and what follows an address are not in it. */
	assert_in_range(all, count, count + 64);
}

/* With Stopped alone cleared the pointers are past the region: an error, nothing is written. */
static void a_full_region_is_an_error(void **state)
{
	run_into(1, 1 << 4, 0);
	write_ctl(0);
	write_msr(MSR_RTIT_STATUS, 0);
	write_ctl(CTL_DEFAULT);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_ERROR, STATUS_ERROR);
	assert_int_equal(read_msr(MSR_RTIT_CTL) & CTL_TRACE_EN, CTL_TRACE_EN);
	write_ctl(0);
	write_msr(MSR_RTIT_STATUS, 0);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, 0);
	memset(rig.memory + REGIONS, 0, PAGE);
	executed = 0;
	write_ctl(CTL_DEFAULT);
	run(100, false);
	write_ctl(0);
	assert_decodes(0);
}

static void full_regions_interrupt(void **state)
{
	run_into(1, 1 << 2, 0);
	write_ctl(0);
	assert_in_range(interrupts, 2, 30);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & (STATUS_STOPPED | STATUS_ERROR), 0);
}

static void bad_tables_are_errors(void **state)
{
	static const uint64_t bad[] = {
		REGIONS | 1 << 1,	   /* reserved */
		REGIONS | 1 << 3,	   /* reserved */
		REGIONS | 3 << 10,	   /* reserved */
		(REGIONS + PAGE) | 1 << 6, /* not aligned to its size */
		TOPA | 1,		   /* END at once */
		1ull << 40,		   /* beyond MAXPHYADDR */
	};

	for (unsigned n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		of(&everything);
		make_program(1, false);
		make_topa(4, 0, 0);
		*topa(0) = bad[n];
		write_ctl(CTL_DEFAULT);
		run(100, false);
		assert_int_equal(read_msr(MSR_RTIT_STATUS) & (STATUS_ERROR | STATUS_TRIGGER_EN),
				 STATUS_ERROR);
		assert_int_equal(executed, 0);
	}
}

/* --- Memory that is not the guest's: 36.2.6.4 ---------------------------------------------------
 */

enum { KEPT = RIG_MEMORY, MIXED = 0x60000, RUN = 30000 };

/* The same program without a trace leaves the same memory, but from `from` up to `to`. */
static void assert_only_written(uint64_t from, uint64_t to)
{
	uint8_t *traced = malloc(RIG_MEMORY);

	memcpy(traced, rig.memory, RIG_MEMORY);
	of(&everything);
	make_program(1, false);
	memcpy(rig.memory + TOPA, traced + TOPA, PAGE);
	run(RUN, false);
	memcpy(rig.memory + from, traced + from, to - from);
	for (size_t at = 0; at < RIG_MEMORY; at++)
		if (traced[at] != rig.memory[at])
			fail_msg("%zx was written", at);
	free(traced);
}

/* A table of `entries`, which is at `base`, is used from `pointers` on. Returns the status. */
static uint64_t run_with(const uint64_t entries[3], uint64_t base, uint64_t pointers)
{
	uint64_t status;

	of(&everything);
	make_program(1, false);
	for (unsigned n = 0; n < 3; n++)
		*topa(n) = entries[n];
	write_msr(MSR_RTIT_OUTPUT_BASE, base);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, pointers);
	write_ctl(CTL_DEFAULT | CTL_DIS_RETC);
	run(RUN, false);
	status = read_msr(MSR_RTIT_STATUS);
	write_ctl(0);
	return status & (STATUS_ERROR | STATUS_STOPPED | STATUS_TRIGGER_EN);
}

/* A device, memory that the platform keeps, a table in either. */
static void other_memory_is_an_error(void **state)
{
	static const struct {
		uint64_t entries[3], base;
	} bad[] = {
		{{RIG_DEVICE, TOPA | 1}, TOPA},
		{{KEPT, TOPA | 1}, TOPA},
		{{(1ull << 40) - PAGE, TOPA | 1}, TOPA},
		{{0}, RIG_DEVICE},
		{{0}, KEPT},
	};

	for (unsigned n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		assert_int_equal(run_with(bad[n].entries, bad[n].base, 0), STATUS_ERROR);
		assert_int_equal(executed, 0);
		assert_only_written(0, 0);
	}
}

static void other_memory_is_an_error_once_it_is_reached(void **state)
{
	static const uint64_t leads_away[3] = {REGIONS, KEPT | 1}, region[3] = {MIXED | 5 << 6};

	assert_int_equal(run_with(leads_away, TOPA, 0), STATUS_ERROR);
	assert_int_equal(rig.memory[REGIONS], 0x02);
	assert_only_written(REGIONS, REGIONS + PAGE);
	assert_int_equal(run_with(region, TOPA, (uint64_t)(RIG_DEVICE - MIXED - PAGE) << 32),
			 STATUS_ERROR);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_MASK_PTRS) >> 32, RIG_DEVICE - MIXED);
	assert_only_written(RIG_DEVICE - PAGE, RIG_DEVICE);
}

/* "No error is signaled": they are lost, and output goes on in the next region. */
static void packets_to_the_apic_are_lost(void **state)
{
	static const uint64_t entries[3] = {APIC, REGIONS, TOPA | 1};

	assert_int_equal(run_with(entries, TOPA, 0), STATUS_TRIGGER_EN);
	assert_int_not_equal(rig.memory[REGIONS], 0);
	assert_only_written(REGIONS, REGIONS + PAGE);
	assert_int_equal(run_with(entries, APIC, 0), STATUS_ERROR); /* as a table */
}

static void one_range_is_a_ring(void **state)
{
	of(&everything);
	make_program(5, true);
	write_msr(MSR_RTIT_OUTPUT_BASE, REGIONS);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, 0xffff);
	write_ctl(CTL_DEFAULT & ~(uint64_t)CTL_TOPA);
	run(6000, true);
	write_ctl(0);
	{
		unsigned count;

		assert_int_equal(decode_packets(rig.memory + REGIONS,
						read_msr(MSR_RTIT_OUTPUT_MASK_PTRS) >> 32, &count),
				 0);
		assert_same(count);
	}
}

/* --- Registers ---------------------------------------------------------------------------------
 */

static bool refuses(uint32_t index, uint64_t value)
{
	return !pt_write_msr(&rig.vcpu, index, value);
}

static void reserved_bits_fault(void **state)
{
	uint64_t value;

	of(NULL);
	for (uint32_t index = 0x560; index < 0x590; index++)
		assert_true(refuses(index, 0) && !pt_read_msr(&rig.vcpu, index, &value));
	of(&least);
	assert_true(refuses(MSR_RTIT_CTL, CTL_CYC_EN) && refuses(MSR_RTIT_CTL, 1ull << 24));
	assert_true(refuses(MSR_RTIT_CTL, CTL_TRACE_EN)); /* no single range */
	assert_true(refuses(MSR_RTIT_STATUS, 1ull << 32) && refuses(MSR_RTIT_ADDR0_A, 0));
	of(&everything);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_MASK_PTRS), 0x7f);
	for (unsigned bit = 0; bit < 64; bit++) {
		bool known = (bit >= 32 && bit < 40) || bit == 2 || bit == 3 || bit == 1 ||
			     bit == 7 || bit == 8 || bit == 10 || bit == 11 || bit == 13 ||
			     bit == 0 || (bit >= 19 && bit < 23) || (bit >= 24 && bit < 28);

		if (!known)
			assert_true(refuses(MSR_RTIT_CTL, 1ull << bit));
	}
	assert_true(refuses(MSR_RTIT_CTL, 3ull << 32) && refuses(MSR_RTIT_CTL, 14ull << 19) &&
		    refuses(MSR_RTIT_CTL, 6ull << 24));
	assert_true(refuses(MSR_RTIT_OUTPUT_BASE, 1) && refuses(MSR_RTIT_OUTPUT_BASE, 1ull << 40));
	assert_true(refuses(MSR_RTIT_STATUS, 1 << 3) && refuses(MSR_RTIT_STATUS, 1ull << 49));
	assert_true(refuses(MSR_RTIT_CR3_MATCH, 1 << 4));
	assert_true(refuses(MSR_RTIT_ADDR0_A, 1ull << 47) && refuses(MSR_RTIT_ADDR0_A + 4, 0));
}

/* While it traces no register but IA32_RTIT_CTL can be written, and that only to turn it off. */
static void tracing_locks_the_registers(void **state)
{
	static const uint32_t others[] = {0x560, 0x561, 0x571, 0x572, 0x580, 0x583};

	of(&everything);
	make_topa(4, 0, 0);
	write_ctl(CTL_DEFAULT);
	for (unsigned n = 0; n < sizeof(others) / sizeof(others[0]); n++)
		assert_true(refuses(others[n], 0));
	assert_true(refuses(MSR_RTIT_CTL, CTL_DEFAULT | CTL_TSC_EN));
	write_msr(MSR_RTIT_CTL, CTL_DEFAULT);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & 7, 7);
	write_ctl(CTL_TSC_EN);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_TRIGGER_EN, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_has_the_newest),
		cmocka_unit_test(stop_has_the_oldest),
		cmocka_unit_test(a_full_region_is_an_error),
		cmocka_unit_test(full_regions_interrupt),
		cmocka_unit_test(bad_tables_are_errors),
		cmocka_unit_test(other_memory_is_an_error),
		cmocka_unit_test(other_memory_is_an_error_once_it_is_reached),
		cmocka_unit_test(packets_to_the_apic_are_lost),
		cmocka_unit_test(one_range_is_a_ring),
		cmocka_unit_test(reserved_bits_fault),
		cmocka_unit_test(tracing_locks_the_registers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
