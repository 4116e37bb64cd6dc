// SPDX-License-Identifier: MIT
// No status bit is documented for BTS: counters and PEBS share its interrupt, and only the index
// says whether it was BTS. Passing means: an interrupt with the index below the threshold is not
// taken for the buffer's.
#include "drivers/apic/lapic.h"
#include "kernel/lock.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define WALKS 64

/* A PMI without a cause: by the kernel's own vector, and as an NMI. */
static void interrupt(struct walker *walker)
{
	uint64_t flags;

	if (walker->walked % 2) {
		lapic_self_ipi(VECTOR_PMI);
		return;
	}
	flags = interrupts_save();
	lapic_self_nmi();
	interrupts_restore(flags);
}

TEST(bts_threshold_spurious, .group = "T", .ids = "T11", .needs = NEED_BTS,
     .claim = "an interrupt with the index below the threshold is not taken for ours",
     .source = "SDM Vol 3, 17.4.9.5: how the handler finds the cause")
{
	struct walker walker = {.name = "spurious",
				.chain = &chain_a,
				.walks = WALKS,
				.options = walker_options(32768),
				.between = interrupt};
	uint64_t unknown = nmi_unknown_count();
	struct trace_status status;

	walker.options.overflow = TRACE_WRAP; /* no threshold to be reached */
	walkers_start(&walker, 1);
	walkers_join(&walker, 1);
	trace_status(walker.tracer, &status);
	EXPECT(status.circular);
	EXPECT_EQ(nmi_unknown_count() - unknown, WALKS / 2);
	walkers_check(&walker, 1);
}
