// SPDX-License-Identifier: MIT
/* TRACE_SIGNAL with rings of all sizes. */
#include "tests/framework/test.h"
#include "tests/lib/held.h"

#include <stdbool.h>

#define WALKS 20

static uint64_t trace(struct user_chain *user, size_t records, size_t threshold)
{
	struct walker walker = {.name = "signal",
				.chain = &chain_a,
				.walks = WALKS,
				.user = user,
				.between = held_wait};
	struct trace_options options = sight_options(TRACE_USER, WALKS);
	struct held held;

	options.size = records * sizeof(struct ptrace_bts_record);
	options.threshold = threshold;
	walkers_create(&walker, 1);
	held_open(&held, &walker, user, options);
	task_start(walker.task);
	held_join(&held, &walker);
	held_close(&held, WALKS);
	walker_end(&walker);
	return held.most_over;
}

/*
 * Traces ring 3 into rings from two records up, the interrupt delivered as NMI or by a fixed
 * vector: fails the test unless each branch is read exactly once.
 */
static void signal_exact(bool nmi)
{
	static const struct {
		size_t records, threshold;
	} rings[] = {{2, 1}, {2, 2}, {5, 3}, {64, 64}, {100, 0}, {400, 0}};
	struct user_chain user;
	uint64_t most = 0;

	user_chain_open(&user, 0);
	trace_deliver_pmi(nmi);
	for (unsigned i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		uint64_t over = trace(&user, rings[i].records, rings[i].threshold);

		most = over > most ? over : most;
	}
	trace_deliver_pmi(true);
	user_chain_close(&user);
	test_observe("most_records_beyond_the_threshold", "%lu", most);
}

TEST(trace_signal_exact_fixed, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer that is told at its threshold, by a fixed vector, reads each branch once, whatever its ring",
     .source = "docs/design.md#overflow")
{
	signal_exact(false);
}

TEST(trace_signal_exact_nmi, .group = "tracers", .ids = "T10", .needs = NEED_BTS,
     .claim =
	     "a tracer that is told at its threshold, as NMI, reads each branch once, whatever its ring",
     .source = "docs/design.md#overflow")
{
	signal_exact(true);
}
