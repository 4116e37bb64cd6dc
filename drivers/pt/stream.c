// SPDX-License-Identifier: MIT
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"

/* 36.2.6.2, and 18.2.2 for the acknowledgement. */
bool pt_pmi(void)
{
	if (!(rdmsr(IA32_PERF_GLOBAL_STATUS) & TRACE_TOPA_PMI))
		return false;
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, TRACE_TOPA_PMI);
	return true;
}

/* 36.3.3: a fence after TraceEn = 0, for the packets to be seen by all. */
void pt_look(struct pt_trace *trace)
{
	__asm__ volatile("mfence" : : : "memory");
	trace->status = rdmsr(IA32_RTIT_STATUS);
	trace->output_base = rdmsr(IA32_RTIT_OUTPUT_BASE);
	trace->output_mask_ptrs = rdmsr(IA32_RTIT_OUTPUT_MASK_PTRS);
}

static uint64_t chunk_bytes(const struct pt_trace *trace)
{
	return 4096ull << trace->buffer.order;
}

bool pt_is_full(const struct pt_trace *trace)
{
	return RTIT_OUTPUT_OFFSET(trace->output_mask_ptrs) >= chunk_bytes(trace);
}

uint64_t pt_position(const struct pt_trace *trace)
{
	uint64_t at = RTIT_TABLE_INDEX(trace->output_mask_ptrs) * chunk_bytes(trace) +
		      RTIT_OUTPUT_OFFSET(trace->output_mask_ptrs);

	return at % (trace->buffer.count * chunk_bytes(trace));
}

void pt_set_stop(struct pt_trace *trace, size_t chunk)
{
	size_t count = trace->buffer.count;

	for (size_t n = 0; n < count; n++)
		trace->buffer.table[n] &= ~TOPA_STOP;
	trace->buffer.table[chunk] |= TOPA_STOP;
	if (!pt_is_full(trace))
		return;
	trace->output_mask_ptrs =
		RTIT_POINTERS((RTIT_TABLE_INDEX(trace->output_mask_ptrs) + 1) % count, 0);
	trace->status = 0;
}
