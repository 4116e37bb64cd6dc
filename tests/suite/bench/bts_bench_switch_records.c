// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/spinner.h"
#include "tests/lib/statistics.h"

#define TRIES 10

/* A host that is late with the timer lets the last slice fill the buffer with spins alone. */
static void measure(bool in_user, const char *departure_name, const char *switch_name)
{
	struct preemption preemptions[SPINNER_MOST];
	uint64_t departures[SPINNER_MOST], switches[SPINNER_MOST];
	size_t count = 0;

	for (unsigned tries = 0; !count && tries < TRIES; tries++)
		count = spinner_run(in_user, preemptions);
	REQUIRE(count > 0);
	for (size_t i = 0; i < count; i++) {
		departures[i] = preemptions[i].departure;
		switches[i] = preemptions[i].departure + preemptions[i].arrival;
	}
	test_figure(departure_name, distribution(departures, count).most, "records");
	test_figure(switch_name, distribution(switches, count).most, "records");
}

TEST(bts_bench_switch_records, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: the kernel's own records in a task's buffer when the timer preempts it",
     .source = "docs/design.md#budgets; docs/bts.md#costs: 245 and 328 records in Linux")
{
	measure(true, "departure_records", "switch_records");
	measure(false, "departure_records_kernel_task", "switch_records_kernel_task");
}
