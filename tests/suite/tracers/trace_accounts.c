// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define RECORD sizeof(struct ptrace_bts_record)
#define SLOTS  64
#define BYTES  (SLOTS * RECORD)

static struct trace_account account;

static bool is_empty(const struct tracer *tracer)
{
	size_t size = tracer->ring.size, empty = 0;

	for (size_t at = 0; at < size; at++) {
		struct bts_struct record;

		empty += !ds_read_bts(tracer->ring.area, at, &record) &&
			 record.qualifier == BTS_INVALID && !record.flags;
	}
	return empty == size;
}

/* Its life, and what is charged for it at each point; the memory is another's that wrote it. */
static void live(struct trace_options options, size_t charged)
{
	struct walker walker = {.name = "task", .chain = &chain_a, .walks = 20};
	struct trace_status status;

	walker.options = options;
	walkers_create(&walker, 1);
	EXPECT_EQ(account.used, charged);
	EXPECT(is_empty(walker.tracer));
	trace_status(walker.tracer, &status);
	EXPECT_EQ(status.size, charged);
	task_start(walker.task);
	walkers_join(&walker, 1);
	EXPECT(!is_empty(walker.tracer));
	EXPECT_EQ(account.used, charged);
	walker_end(&walker);
	EXPECT_EQ(account.used, 0);
}

static void all_cpus(const struct trace_options *options)
{
	struct tracer *tracers[MAX_CPUS] = {NULL};
	unsigned count = cpu_count();

	account.limit = count * BYTES;
	EXPECT_EQ(trace_attach_all_cpus(options, tracers), 0);
	EXPECT_EQ(account.used, count * BYTES);
	for (unsigned i = 0; i < count; i++)
		EXPECT(trace_detach(tracers[i]));
	account.limit--;
	EXPECT_EQ(trace_attach_all_cpus(options, tracers), -ENOMEM);
	EXPECT_EQ(account.used, 0);
}

TEST(trace_accounts, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a ring is empty when it is got, charged while it lives, and everything is given back",
     .source = "docs/design.md#accounts")
{
	struct trace_options options = walker_options(SLOTS);

	account = (struct trace_account){.limit = BYTES};
	options.account = &account;
	live(options, BYTES);
	options.overflow = TRACE_WRAP;
	options.size += RECORD - 1; /* rounded down */
	live(options, BYTES);
	options.size = 10 * BYTES;
	options.cut_size = true;
	account.limit = BYTES + RECORD / 2;
	live(options, BYTES);
	options = walker_options(SLOTS);
	options.account = &account;
	all_cpus(&options);
}
