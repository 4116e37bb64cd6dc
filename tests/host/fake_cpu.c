// SPDX-License-Identifier: MIT
#include "tests/host/fake_cpu.h"

#include <stdio.h>
#include <string.h>

#include "drivers/debugctl.h"
#include "drivers/ds/registers.h"

struct fake_cpu fake_cpu;

struct fake_msr *fake_msr(uint32_t index)
{
	for (unsigned i = 0; i < sizeof(fake_cpu.msrs) / sizeof(fake_cpu.msrs[0]); i++) {
		struct fake_msr *msr = &fake_cpu.msrs[i];

		if (!msr->index)
			*msr = (struct fake_msr){.index = index, .writable = UINT64_MAX};
		if (msr->index == index)
			return msr;
	}
	fail_msg("more MSRs than the fake has room for");
	return NULL;
}

void fake_cpu_reset(uint32_t signature)
{
	memset(&fake_cpu, 0, sizeof(fake_cpu));
	memcpy(&fake_cpu.leaf[0].ebx, "Genu", 4);
	memcpy(&fake_cpu.leaf[0].edx, "ineI", 4);
	memcpy(&fake_cpu.leaf[0].ecx, "ntel", 4);
	fake_cpu.leaf[0].eax = 7;
	fake_cpu.leaf[1] = (struct cpuid_result){
		signature, 0, CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL, CPUID_1_EDX_DS};
	fake_msr(IA32_DEBUGCTL);
	fake_msr(IA32_DS_AREA);
	fake_msr(IA32_MISC_ENABLE);
}

void fake_log_clear(void)
{
	fake_cpu.writes = 0;
	fake_cpu.reads = 0;
}

void fake_log_is(const struct fake_write *expected, unsigned count)
{
	assert_int_equal(fake_cpu.writes, count);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(fake_cpu.log[i].index, expected[i].index);
		assert_int_equal(fake_cpu.log[i].value, expected[i].value);
	}
}

struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
	assert_true(subleaf <= 1);
	if (leaf >= 0x80000000) {
		assert_true(leaf <= 0x8000000f);
		return fake_cpu.extended[leaf & 0xf];
	}
	assert_true(leaf <= fake_cpu.leaf[0].eax);
	return subleaf ? fake_cpu.subleaf_1[leaf] : fake_cpu.leaf[leaf];
}

static struct fake_msr *find(uint32_t index)
{
	for (unsigned i = 0; i < sizeof(fake_cpu.msrs) / sizeof(fake_cpu.msrs[0]); i++) {
		if (fake_cpu.msrs[i].index == index)
			return &fake_cpu.msrs[i];
	}
	return NULL;
}

bool rdmsr_safe(uint32_t index, uint64_t *value)
{
	const struct fake_msr *msr = find(index);

	fake_cpu.reads++;
	if (msr)
		*value = msr->value;
	return msr;
}

bool wrmsr_safe(uint32_t index, uint64_t value)
{
	struct fake_msr *msr = find(index);

	assert_true(fake_cpu.writes < sizeof(fake_cpu.log) / sizeof(fake_cpu.log[0]));
	fake_cpu.log[fake_cpu.writes++] = (struct fake_write){index, value};
	if (!msr || (value & msr->reserved))
		return false;
	msr->value = (msr->value & ~msr->writable) | (value & msr->writable);
	return true;
}

/* An interrupt handler that the hook plays is not itself interrupted. */
static void interrupt(void)
{
	void (*handler)(void) = fake_cpu.before;

	fake_cpu.before = NULL;
	if (handler)
		handler();
	fake_cpu.before = handler;
}

uint64_t rdmsr(uint32_t index)
{
	uint64_t value = 0;

	interrupt();
	assert_true(rdmsr_safe(index, &value));
	return value;
}

void wrmsr(uint32_t index, uint64_t value)
{
	interrupt();
	assert_true(wrmsr_safe(index, value));
}
