// SPDX-License-Identifier: MIT
// A thread's trace by XSAVES and XRSTORS, as component 8.
#include "kernel/trace/pt/private.h"

#define PT_STATE (1ul << 8)

void state_init(void)
{
	xsaves_enable(PT_STATE);
}

/* A trace with a range that the state has no room for is switched by its MSRs. */
static bool has_state(const struct pt_trace *trace)
{
	bool has = pt_caps()->xsaves;

	for (size_t n = SAVED_RANGES; n < PT_RANGES_MOST; n++)
		has &= !trace->configuration.range[n].use;
	return has;
}

/* The status is 0: the trace goes on with PSB, since it may do so on another CPU. */
bool state_restore(struct insntrace_buffer *buffer)
{
	const struct pt_trace *trace = &buffer->trace;

	if (!has_state(trace))
		return false;
	buffer->state = (struct saved_state){
		.header = {.xstate_bv = PT_STATE, .xcomp_bv = XSAVES_COMPACTED | PT_STATE},
		.control = pt_control(trace),
		.output_base = trace->output_base,
		.output_mask_ptrs = trace->output_mask_ptrs,
		.address = {trace->configuration.range[0].first, trace->configuration.range[0].last,
			    trace->configuration.range[1].first,
			    trace->configuration.range[1].last}};
	return xsaves_restore(&buffer->state.header, PT_STATE);
}

/* 36.3.3: a fence, for the packets to be seen by all. */
bool state_save(struct insntrace_buffer *buffer)
{
	if (!has_state(&buffer->trace) || !xsaves_save(&buffer->state.header, PT_STATE))
		return false;
	__asm__ volatile("mfence" : : : "memory");
	buffer->trace.status = buffer->state.status;
	buffer->trace.output_base = buffer->state.output_base;
	buffer->trace.output_mask_ptrs = buffer->state.output_mask_ptrs;
	return true;
}
