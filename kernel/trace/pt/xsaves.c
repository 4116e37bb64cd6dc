// SPDX-License-Identifier: MIT
// A thread's trace by XSAVES and XRSTORS, as component 8 alone, in its own area: what saves the
// registers of ring 3 does not know of it. IA32_XSS keeps the component enabled.
#include "drivers/processor.h"
#include "drivers/pt/registers.h"
#include "kernel/trace/pt/private.h"
#include "kernel/trap/trap.h"

#define IA32_XSS    0xda0u
#define CR4_OSXSAVE (1ul << 18)
#define PT_STATE    (1ul << 8)
#define COMPACTED   (1ul << 63)

void state_init(void)
{
	uint64_t cr4;

	__asm__ volatile("movq %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("movq %0, %%cr4" : : "r"(cr4 | CR4_OSXSAVE) : "memory");
	wrmsr(IA32_XSS, rdmsr(IA32_XSS) | PT_STATE);
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
	bool done = false;

	if (!has_state(trace))
		return false;
	buffer->state = (struct saved_state){.xstate_bv = PT_STATE,
					     .xcomp_bv = COMPACTED | PT_STATE,
					     .control = pt_control(trace),
					     .output_base = trace->output_base,
					     .output_mask_ptrs = trace->output_mask_ptrs,
					     .address = {trace->configuration.range[0].first,
							 trace->configuration.range[0].last,
							 trace->configuration.range[1].first,
							 trace->configuration.range[1].last}};
	__asm__ volatile("1:\txrstors64 %[state]\n\t"
			 "movb $1, %[done]\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : [done] "+&q"(done)
			 : [state] "m"(buffer->state), "a"(PT_STATE), "d"(0)
			 : "memory");
	return done;
}

/*
 * 36.3.3: a fence, for the packets to be seen by all. Where IA32_XSS was cleared meanwhile, XSAVES
 * saves nothing.
 */
bool state_save(struct insntrace_buffer *buffer)
{
	bool done = false;

	if (!has_state(&buffer->trace))
		return false;
	__asm__ volatile("1:\txsaves64 %[state]\n\t"
			 "mfence\n\t"
			 "movb $1, %[done]\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : [done] "+&q"(done), [state] "+m"(buffer->state)
			 : "a"(PT_STATE), "d"(0)
			 : "memory");
	if (!done || !(buffer->state.xcomp_bv & PT_STATE))
		return false;
	buffer->trace.status = buffer->state.status;
	buffer->trace.output_base = buffer->state.output_base;
	buffer->trace.output_mask_ptrs = buffer->state.output_mask_ptrs;
	return true;
}
