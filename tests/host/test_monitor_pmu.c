/* SPDX-License-Identifier: MIT */
/* sources: monitor/svm/pmu.c */
#include "monitor/svm/pmu.h"
#include "tests/host/host.h"

static struct pmu pmu;

static void registers_keep_what_is_written(void **state)
{
	static const uint32_t registers[] = {0xc1, 0xc4, 0x186, 0x189, 0x309, 0x30b, 0x38d, 0x38f};
	uint64_t value;

	for (unsigned i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
		assert_true(pmu_owns_msr(registers[i]));
		assert_true(pmu_write_msr(&pmu, registers[i], i % 3 + 1));
		assert_true(pmu_read_msr(&pmu, registers[i], &value));
		assert_int_equal(value, i % 3 + 1);
	}
	assert_false(pmu_owns_msr(0xc0));
	assert_false(pmu_owns_msr(0xc5));
	assert_false(pmu_owns_msr(0x391));
}

static void status_is_read_only_and_reserved_bits_fault(void **state)
{
	uint64_t value;

	assert_true(pmu_read_msr(&pmu, 0x38e, &value));
	assert_int_equal(value, 0);
	assert_false(pmu_write_msr(&pmu, 0x38e, 0));
	assert_true(pmu_write_msr(&pmu, 0x390, 1ull << 62));
	assert_false(pmu_write_msr(&pmu, 0x390, 1ull << 40));
	assert_true(pmu_write_msr(&pmu, 0x38f, 0x70000000f));
	assert_false(pmu_write_msr(&pmu, 0x38f, 0x10));
	assert_false(pmu_write_msr(&pmu, 0x186, 1ull << 32));
}

static void general_counters_extend_bit_31(void **state)
{
	uint64_t value;

	assert_true(pmu_write_msr(&pmu, 0xc1, 0xffffffff80000000));
	assert_true(pmu_read_msr(&pmu, 0xc1, &value));
	assert_int_equal(value, 0xffff80000000);
	assert_true(pmu_read_counter(&pmu, 0, &value));
	assert_int_equal(value, 0xffff80000000);
}

static void rdpmc_selects(void **state)
{
	uint64_t value;

	pmu_write_msr(&pmu, 0x30a, 1234);
	assert_true(pmu_read_counter(&pmu, 1u << 30 | 1, &value));
	assert_int_equal(value, 1234);
	assert_false(pmu_read_counter(&pmu, PMU_GENERAL, &value));
	assert_false(pmu_read_counter(&pmu, 1u << 30 | PMU_FIXED, &value));
	assert_false(pmu_read_counter(&pmu, 1u << 31, &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_keep_what_is_written),
		cmocka_unit_test(status_is_read_only_and_reserved_bits_fault),
		cmocka_unit_test(general_counters_extend_bit_31),
		cmocka_unit_test(rdpmc_selects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
