// SPDX-License-Identifier: MIT
// A unit's state at once. IA32_XSS keeps the component enabled.
#include "kernel/trace/xsaves.h"

#include "drivers/processor.h"
#include "kernel/trap/trap.h"

#define IA32_XSS    0xda0u
#define CR4_OSXSAVE (1ul << 18)

void xsaves_enable(uint64_t component)
{
	uint64_t cr4;

	__asm__ volatile("movq %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("movq %0, %%cr4" : : "r"(cr4 | CR4_OSXSAVE) : "memory");
	wrmsr(IA32_XSS, rdmsr(IA32_XSS) | component);
}

/* `done` becomes true unless the instruction raises an exception. */
#define TRY(instruction, done, area, component)                                                    \
	__asm__ volatile("1:\t" instruction " (%1)\n\tmovb $1, %0\n"                               \
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")                                      \
			 : "+&q"(done)                                                             \
			 : "r"(area), "a"(component), "d"(0)                                       \
			 : "memory")

bool xsaves_restore(const struct xsaves_header *area, uint64_t component)
{
	bool done = false;

	TRY("xrstors64", done, area, component);
	return done;
}

bool xsaves_save(struct xsaves_header *area, uint64_t component)
{
	bool done = false;

	TRY("xsaves64", done, area, component);
	return done && area->xcomp_bv & component;
}
