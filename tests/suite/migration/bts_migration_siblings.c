// SPDX-License-Identifier: MIT
#include "drivers/cpuid.h"
#include "kernel/cpu.h"
#include "kernel/smp/smp.h"
#include "tests/framework/test.h"
#include "tests/lib/own.h"

/* SDM Vol 2, CPUID leaf 0BH: EAX[4:0] shifts the thread off the APIC id in EDX. */
static void find_core(void *core)
{
	struct cpuid_result threads = cpuid(0xb, 0);

	*(uint64_t *)core = threads.ebx ? threads.edx >> (threads.eax & 31) : UINT64_MAX;
}

TEST(bts_migration_siblings, .group = "S", .ids = "S5", .needs = NEED_BTS | NEED_SMP,
     .claim = "two threads of one core that record at once have each its own branches",
     .source = "SDM Vol 3, 17.4.9.5: separate areas, buffers and state for each processor")
{
	uint64_t cores[MAX_CPUS];

	if (cpuid(0, 0).eax < 0xb)
		test_skip("no CPUID leaf 0BH to tell threads of one core");
	for (unsigned i = 0; i < cpu_count(); i++) {
		smp_call(i, find_core, &cores[i]);
		for (unsigned k = 0; k < i; k++) {
			if (cores[i] != cores[k] || cores[i] == UINT64_MAX)
				continue;
			own_branches(1ul << i | 1ul << k);
			return;
		}
	}
	test_skip("no two CPUs are threads of one core");
}
