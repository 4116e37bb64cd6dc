// SPDX-License-Identifier: MIT
// A filter by privilege level still stores branches that cross the levels, and those carry a kernel
// address at one end: Linux drops them in software for that reason. Passing means: over a thousand
// transitions a reader without the right to kernel addresses gets none, from either end.
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#define TRANSITIONS 1000
#define WALKS	    (TRANSITIONS / 2)

/* One who may not see them; one who may, so that more is recorded than is shown; an observer. */
TEST(bts_filter_no_kernel_address, .group = "P", .ids = "P5", .needs = NEED_BTS,
     .claim =
	     "a reader without the right to kernel addresses gets none over a thousand transitions",
     .source = "docs/design.md#views")
{
	struct walker walker = {.name = "both", .chain = &chain_a, .walks = WALKS};
	struct trace_options options = sight_options(TRACE_USER | TRACE_KERNEL, WALKS);
	struct sight sights[2];
	struct user_chain user;
	struct tracer *refused;

	user_chain_open(&user, 0);
	walker.user = &user;
	walkers_create(&walker, 1);
	options.privileged = false;
	options.view = TRACE_USER;
	sight_open(&sights[0], &walker, &options);
	options.view = TRACE_USER | TRACE_KERNEL;
	EXPECT_EQ(trace_attach(walker.task, &options, &refused), -EPERM);
	options.privileged = true;
	sight_open(&sights[1], &walker, &options);
	task_start(walker.task);
	walkers_join(&walker, 1);
	for (unsigned i = 0; i < 2; i++) {
		sight_read(&sights[i]);
		sight_expect(&sights[i], WALKS);
		sight_close(&sights[i]);
	}
	EXPECT(sights[1].between >= TRANSITIONS);
	test_observe("transitions", "%lu", sights[1].between);
	walker_end(&walker);
	user_chain_close(&user);
}
