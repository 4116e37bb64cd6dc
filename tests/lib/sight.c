// SPDX-License-Identifier: MIT
#include "tests/lib/sight.h"

#include "drivers/ds/ds.h"
#include "tests/framework/test.h"

#define BATCH 4096

static void open(struct sight *sight, const struct walker *walker,
		 const struct trace_options *options, int error)
{
	if (error)
		test_error("tracer refused: %d", error);
	sight->view = options->view;
	sight->kernel = (struct chain_reader){.chain = walker->chain};
	sight->user = (struct chain_reader){.chain = &walker->user->chain};
	sight->waiting = (struct chain_reader){.chain = &chain_b};
}

void sight_open(struct sight *sight, const struct walker *walker,
		const struct trace_options *options)
{
	*sight = (struct sight){0};
	open(sight, walker, options, trace_attach(walker->task, options, &sight->tracer));
}

void sight_open_cpu(struct sight *sight, const struct walker *walker, unsigned index,
		    const struct trace_options *options)
{
	*sight = (struct sight){0};
	open(sight, walker, options, trace_attach_cpu(index, options, &sight->tracer));
}

void sight_feed(struct sight *sight, const struct ptrace_bts_record *record)
{
	const struct bts_struct branch = {
		.qualifier = BTS_BRANCH, .from = record->from, .to = record->to};
	uint64_t kernel_ends = (record->from >> 63) + (record->to >> 63);

	if (record->qualifier != PTRACE_BTS_BRANCH) {
		sight->stamps++;
		return;
	}
	sight->in_kernel += kernel_ends == 2;
	sight->in_user += kernel_ends == 0;
	sight->between += kernel_ends == 1;
	sight->exits += record->from == (uint64_t)sight->user.chain->exit_jump;
	chain_feed(&sight->kernel, &branch);
	chain_feed(&sight->user, &branch);
	chain_feed(&sight->waiting, &branch);
}

void sight_read(struct sight *sight)
{
	static struct ptrace_bts_record records[BATCH];
	size_t count, left = trace_available(sight->tracer);

	while (left && (count = trace_read(sight->tracer, records, left < BATCH ? left : BATCH))) {
		for (size_t i = 0; i < count; i++)
			sight_feed(sight, &records[i]);
		left -= count;
	}
}

static void expect_nothing_lost(const struct sight *sight)
{
	struct trace_status status;

	trace_status(sight->tracer, &status);
	EXPECT(!status.truncated);
	EXPECT(!status.full);
	EXPECT(!status.lost_more);
	EXPECT_EQ(status.lost, 0);
}

void sight_expect(const struct sight *sight, uint64_t walks)
{
	bool user = sight->view & TRACE_USER, kernel = sight->view & TRACE_KERNEL;

	expect_nothing_lost(sight);
	chain_expect_walks(&sight->user, user ? walks : 0, "ring 3");
	chain_expect_walks(&sight->kernel, kernel ? walks : 0, "kernel");
	EXPECT_EQ(sight->exits, user ? walks : 0);
	if (user && kernel) {
		EXPECT(sight->between >= 2 * walks);
		return;
	}
	EXPECT_EQ(sight->between, 0);
	EXPECT_EQ(user ? sight->in_kernel : sight->in_user, 0);
	if (user)
		EXPECT_EQ(sight->in_user, sight->user.seen + walks);
}

void sight_close(struct sight *sight)
{
	EXPECT(trace_detach(sight->tracer));
}

struct trace_options sight_options(unsigned view, uint64_t walks)
{
	bool with_kernel = view & TRACE_KERNEL || !ds_caps()->filters;
	size_t each = with_kernel ? 256 : 68;
	struct trace_options options = walker_options((walks + 16) * each);

	options.view = view;
	return options;
}
