// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#define WALKS 50

/* The same program, in the shape that the mode makes: TRACE_WRAP circular, else linear. */
static void trace(struct user_chain *user, unsigned view, enum trace_overflow overflow,
		  enum trace_filter filter)
{
	struct walker walker = {.name = "both", .chain = &chain_a, .walks = WALKS, .user = user};
	struct trace_options options = sight_options(TRACE_USER | TRACE_KERNEL, WALKS);
	struct trace_status status;
	struct sight sight;

	options.view = view;
	options.overflow = overflow;
	walkers_create(&walker, 1);
	sight_open(&sight, &walker, &options);
	task_start(walker.task);
	walkers_join(&walker, 1);
	trace_status(sight.tracer, &status);
	EXPECT_EQ(status.filter, filter);
	EXPECT_EQ(status.circular, overflow == TRACE_WRAP);
	sight_read(&sight);
	sight_expect(&sight, WALKS);
	sight_close(&sight);
	walker_end(&walker);
}

TEST(bts_filter_software_same, .group = "P", .ids = "P4", .needs = NEED_BTS,
     .claim = "a view is the same by DS-CPL and by the filter in software, in either shape",
     .source = "docs/design.md#views")
{
	static const enum trace_overflow overflows[] = {TRACE_STOP, TRACE_WRAP};
	struct user_chain user;

	user_chain_open(&user, 0);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned view = TRACE_USER; view <= TRACE_KERNEL; view++) {
			if (ds_caps()->filters)
				trace(&user, view, overflows[i], TRACE_FILTER_HARDWARE);
			trace_filter_in_software(true);
			trace(&user, view, overflows[i], TRACE_FILTER_SOFTWARE);
			trace_filter_in_software(false);
		}
	user_chain_close(&user);
}
