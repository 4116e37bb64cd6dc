// SPDX-License-Identifier: MIT
#include "tests/lib/pt_rig.h"

#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "lib/string.h"

uint64_t pt_physical(const void *page)
{
	const uint64_t *entry = vm_entry((uint64_t)page);

	if (!entry)
		test_error("%p is not mapped", page);
	return *entry & PTE_ADDRESS;
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
	wrmsr(IA32_RTIT_CTL, 0);
	memset(rig->memory, PT_RIG_POISON, rig->trace.buffer.count * PT_RIG_BYTES);
	rig->trace.configuration.control = control;
	REQUIRE_EQ(pt_prepare(&rig->trace), 0);
	REQUIRE_EQ(pt_load(&rig->trace), 0);
	wrmsr(IA32_RTIT_STATUS, 0);
}

void pt_close(struct pt_rig *rig)
{
	const uint8_t *guard = rig->trace.buffer.last_end;

	wrmsr(IA32_RTIT_CTL, 0);
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
