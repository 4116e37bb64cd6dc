// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "tests/framework/test.h"
#include "tests/lib/viewer.h"

// A filter by privilege level still stores branches that cross the levels, and those carry a kernel
// address at one end: Linux drops them in software for that reason. Passing means: over a thousand
// transitions a reader without the right to kernel addresses gets none, from either end.

#define TRANSITIONS		1000
#define NO_KERNEL_ADDRESS_WALKS (TRANSITIONS / 2)

/* One who may not see them; one who may, so that more is recorded than is shown; an observer. */
TEST(bts_filter_no_kernel_address, .group = "P", .ids = "P5", .needs = NEED_BTS,
     .claim =
	     "a reader without the right to kernel addresses gets none over a thousand transitions",
     .source = "docs/design.md#views")
{
	struct walker walker = {
		.name = "both", .chain = &chain_a, .walks = NO_KERNEL_ADDRESS_WALKS};
	struct bts_options options =
		viewer_options(TRACE_USER | TRACE_KERNEL, NO_KERNEL_ADDRESS_WALKS);
	struct viewer viewers[2];
	struct user_chain user;
	struct tracer *refused;

	user_chain_open(&user, 0);
	walker.user = &user;
	walkers_create(&walker, 1);
	options.privileged = false;
	options.view = TRACE_USER;
	viewer_open(&viewers[0], &walker, &options);
	options.view = TRACE_USER | TRACE_KERNEL;
	EXPECT_EQ(bts_attach(walker.task, &options, &refused), -EPERM);
	options.privileged = true;
	viewer_open(&viewers[1], &walker, &options);
	task_start(walker.task);
	walkers_join(&walker, 1);
	for (unsigned i = 0; i < 2; i++) {
		viewer_read(&viewers[i]);
		viewer_expect(&viewers[i], NO_KERNEL_ADDRESS_WALKS);
		viewer_close(&viewers[i]);
	}
	EXPECT(viewers[1].between >= TRANSITIONS);
	test_observe("transitions", "%lu", viewers[1].between);
	walker_end(&walker);
	user_chain_close(&user);
}

#define SOFTWARE_SAME_WALKS 50

/* The same program: a view that has to be filtered is never made in the circular shape. */
static void trace(struct user_chain *user, unsigned view, enum trace_overflow overflow,
		  enum bts_filter filter)
{
	struct walker walker = {
		.name = "both", .chain = &chain_a, .walks = SOFTWARE_SAME_WALKS, .user = user};
	struct bts_options options = viewer_options(TRACE_USER | TRACE_KERNEL, SOFTWARE_SAME_WALKS);
	struct bts_status status;
	struct viewer viewer;

	options.view = view;
	options.overflow = overflow;
	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	task_start(walker.task);
	walkers_join(&walker, 1);
	bts_status(viewer.tracer, &status);
	EXPECT_EQ(status.filter, filter);
	EXPECT(!status.circular);
	viewer_read(&viewer);
	viewer_expect(&viewer, SOFTWARE_SAME_WALKS);
	viewer_close(&viewer);
	walker_end(&walker);
}

TEST(bts_filter_software_same, .group = "P", .ids = "P4", .needs = NEED_BTS,
     .claim =
	     "a view is the same by DS-CPL and by the filter in software, whatever the buffer does when it is full",
     .source = "docs/design.md#views")
{
	static const enum trace_overflow overflows[] = {TRACE_STOP, TRACE_WRAP};
	struct user_chain user;

	user_chain_open(&user, 0);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned view = TRACE_USER; view <= TRACE_KERNEL; view++) {
			if (ds_caps()->filters)
				trace(&user, view, overflows[i], BTS_FILTER_HARDWARE);
			bts_filter_in_software(true);
			trace(&user, view, overflows[i], BTS_FILTER_SOFTWARE);
			bts_filter_in_software(false);
		}
	user_chain_close(&user);
}
