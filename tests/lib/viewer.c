// SPDX-License-Identifier: MIT
#include "tests/lib/viewer.h"

#include "drivers/ds/ds.h"
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"

#define BATCH 4096

static void open(struct viewer *viewer, const struct walker *walker,
		 const struct bts_options *options, int error)
{
	if (error)
		test_error("tracer refused: %d", error);
	viewer->view = options->view;
	viewer->kernel = (struct chain_reader){.chain = walker->chain};
	viewer->user = (struct chain_reader){.chain = &walker->user->chain};
	viewer->waiting = (struct chain_reader){.chain = &chain_b};
}

void viewer_open(struct viewer *viewer, const struct walker *walker,
		 const struct bts_options *options)
{
	*viewer = (struct viewer){0};
	open(viewer, walker, options, bts_attach(walker->task, 0, options, &viewer->tracer));
}

void viewer_open_cpu(struct viewer *viewer, const struct walker *walker, unsigned index,
		     const struct bts_options *options)
{
	*viewer = (struct viewer){0};
	open(viewer, walker, options, bts_attach(NULL, index, options, &viewer->tracer));
}

void viewer_feed(struct viewer *viewer, const struct ptrace_bts_record *record)
{
	const struct bts_struct branch = {
		.qualifier = BTS_BRANCH, .from = record->from, .to = record->to};
	uint64_t kernel_ends = (record->from >> 63) + (record->to >> 63);

	if (record->qualifier != PTRACE_BTS_BRANCH) {
		viewer->stamps++;
		return;
	}
	viewer->in_kernel += kernel_ends == 2;
	viewer->in_user += kernel_ends == 0;
	viewer->between += kernel_ends == 1;
	/* An interrupt before the jump is from there too. */
	viewer->exits += !kernel_ends && record->from == (uint64_t)viewer->user.chain->exit_jump;
	chain_feed(&viewer->kernel, &branch);
	chain_feed(&viewer->user, &branch);
	chain_feed(&viewer->waiting, &branch);
}

void viewer_read(struct viewer *viewer)
{
	static struct ptrace_bts_record records[BATCH];
	size_t count, left = bts_available(viewer->tracer);

	while (left && (count = bts_read(viewer->tracer, records, left < BATCH ? left : BATCH))) {
		for (size_t i = 0; i < count; i++)
			viewer_feed(viewer, &records[i]);
		left -= count;
	}
}

static void expect_nothing_lost(const struct viewer *viewer)
{
	struct bts_status status;

	bts_status(viewer->tracer, &status);
	EXPECT(!status.truncated);
	EXPECT(!status.full);
	EXPECT(!status.lost_more);
	EXPECT_EQ(status.lost, 0);
}

void viewer_expect(struct viewer *viewer, uint64_t walks)
{
	bool user = viewer->view & TRACE_USER, kernel = viewer->view & TRACE_KERNEL;

	viewer_read(viewer);
	expect_nothing_lost(viewer);
	chain_expect_walks(&viewer->user, user ? walks : 0, "ring 3");
	chain_expect_walks(&viewer->kernel, kernel ? walks : 0, "kernel");
	EXPECT_EQ(viewer->exits, user ? walks : 0);
	if (user && kernel) {
		EXPECT(viewer->between >= walks); /* IRET; SYSCALL may be left out: K7 */
		return;
	}
	EXPECT_EQ(viewer->between, 0);
	EXPECT_EQ(user ? viewer->in_kernel : viewer->in_user, 0);
	if (user)
		EXPECT_EQ(viewer->in_user, viewer->user.seen + walks);
}

void viewer_close(struct viewer *viewer)
{
	EXPECT(trace_detach(viewer->tracer));
}

struct bts_options viewer_options(unsigned view, uint64_t walks)
{
	bool with_kernel = view & TRACE_KERNEL || !ds_caps()->filters;
	size_t each = with_kernel ? 256 : 68;
	struct bts_options options = walker_options((walks + 16) * each);

	options.view = view;
	return options;
}

static struct held *now;

static void tell(struct tracer *tracer, void *argument)
{
	(void)tracer;
	atomic_fetch_add(&((struct held *)argument)->told, 1);
}

static void wait(void)
{
	do {
		chain_walk(&chain_b, chain_length(now->waits++));
		task_yield(); /* what was recorded so far goes to the rings */
	} while (trace_is_held(now->viewer.tracer) || atomic_load(&now->told) != now->served);
}

void held_wait(struct walker *walker)
{
	(void)walker;
	wait();
}

void held_open(struct held *held, struct walker *walker, struct user_chain *user,
	       struct bts_options options)
{
	*held = (struct held){0};
	now = held;
	user->broken = wait;
	options.overflow = TRACE_SIGNAL;
	options.overflowed = tell;
	options.argument = held;
	viewer_open(&held->viewer, walker, &options);
}

static void serve(struct held *held)
{
	uint64_t threshold = threshold_of(held->viewer.tracer);
	uint64_t count = bts_available(held->viewer.tracer);

	if (count > threshold && count - threshold > held->most_over)
		held->most_over = count - threshold;
	viewer_read(&held->viewer);
	trace_resume(held->viewer.tracer);
	held->served++;
}

void held_join(struct held *held, struct walker *walker)
{
	while (!walker->task->ended) {
		if (atomic_load(&held->told) != held->served)
			serve(held);
		task_yield();
	}
	walkers_join(walker, 1);
}

void held_expect_waits(const struct held *held, const struct viewer *other)
{
	EXPECT(held->waits > held->served);
	chain_expect_walks(&other->waiting, held->waits, "waiting");
}

void held_close(struct held *held, uint64_t walks)
{
	struct bts_status status;

	bts_status(held->viewer.tracer, &status);
	EXPECT_EQ(atomic_load(&held->told), held->served + status.held);
	EXPECT(held->served > 0);
	viewer_expect(&held->viewer, walks);
	viewer_close(&held->viewer);
}
