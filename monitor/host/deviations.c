// SPDX-License-Identifier: MIT
#include "monitor/host/deviations.h"

#include <stdbool.h>

#include "monitor/console.h"
#include "monitor/host/cpu.h"

extern const char stepped_repetition[];
void step_repetition(const void *from, uint64_t unused, uint64_t unused_too, uint64_t count);

/* RCX: the count. */
__asm__(".pushsection .text\n"
	"step_repetition: movq %rdi, %rsi\n\tpushfq\n\torq $0x100, (%rsp)\n\tpopfq\n\tnop\n"
	"stepped_repetition: rep lodsb\n\t"
	"pushfq\n\tandq $~0x100, (%rsp)\n\tpopfq\n\tret\n"
	".popsection");

/* The traps that returned to stepped_repetition, by the count that was left. */
enum { COUNT = 2 };
static struct {
	bool trapped, rf;
} seen[COUNT + 1];

void deviations_trap(uint64_t rip, uint64_t rcx, uint64_t rflags)
{
	if (rip != (uint64_t)stepped_repetition || rcx > COUNT)
		return;
	seen[rcx].trapped = true;
	seen[rcx].rf = rflags & RFLAGS_RF;
}

unsigned deviations_probe(void)
{
	static const uint8_t bytes[COUNT];
	unsigned found = 0;

	step_repetition(bytes, 0, 0, COUNT);
	if (seen[1].trapped && !seen[1].rf) {
		found |= DEVIATION_RF_LOST;
		say("the processor deviates: RFLAGS.RF is 0 in the frame of a trap between two iterations "
		    "of a repeated string instruction (SDM Vol 3, 17.3.1.1)");
	}
	if (seen[0].trapped) {
		found |= DEVIATION_STEP_TOO_MANY;
		say("the processor deviates: the last iteration of a repeated string instruction is "
		    "stepped twice (SDM Vol 3, 17.3.1.4)");
	}
	return found;
}
