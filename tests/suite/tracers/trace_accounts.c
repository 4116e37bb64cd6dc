// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trace/memory.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define RECORD sizeof(struct ptrace_bts_record)
#define SLOTS  64
#define BYTES  (SLOTS * RECORD)

static struct trace_account account;

static bool is_empty(const struct tracer *tracer)
{
	size_t size = ring_of(tracer)->size, empty = 0;

	for (size_t at = 0; at < size; at++) {
		struct bts_struct record;

		empty += !ds_read_bts(ring_of(tracer)->area, at, &record) &&
			 record.qualifier == BTS_INVALID && !record.flags;
	}
	return empty == size;
}

/* A tracer's life; the memory is another's that wrote it. */
static void live(struct bts_options options, size_t size)
{
	struct walker walker = {.name = "task", .chain = &chain_a, .walks = 20};
	struct bts_status status;
	size_t charged;

	walker.options = options;
	walkers_create(&walker, 1);
	charged = account.used;
	EXPECT(charged > size && charged % PAGE_SIZE == 0);
	EXPECT(is_empty(walker.tracer));
	bts_status(walker.tracer, &status);
	EXPECT_EQ(status.size, size);
	walker_run(&walker);
	EXPECT(!is_empty(walker.tracer));
	EXPECT_EQ(account.used, charged);
	walker_end(&walker);
	EXPECT_EQ(account.used, 0);
}

/* Of every CPU, or of none. */
static int attach_all(const struct bts_options *options, struct tracer **tracers)
{
	for (unsigned i = 0; i < cpu_count(); i++) {
		int error = bts_attach(NULL, i, options, &tracers[i]);

		if (!error)
			continue;
		while (i)
			EXPECT(trace_detach(tracers[--i]));
		return error;
	}
	return 0;
}

static void all_cpus(const struct bts_options *options)
{
	static struct tracer *tracers[MAX_CPUS];
	unsigned count = cpu_count();

	account.limit = SIZE_MAX;
	EXPECT_EQ(attach_all(options, tracers), 0);
	account.limit = account.used;
	for (unsigned i = 0; i < count; i++)
		EXPECT(trace_detach(tracers[i]));
	EXPECT_EQ(attach_all(options, tracers), 0);
	EXPECT_EQ(account.used, account.limit);
	for (unsigned i = 0; i < count; i++)
		EXPECT(trace_detach(tracers[i]));
	account.limit--;
	EXPECT_EQ(attach_all(options, tracers), -ENOMEM);
	EXPECT_EQ(account.used, 0);
}

TEST(trace_accounts, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a ring is empty when it is got, charged while it lives, and everything is given back",
     .source = "docs/design.md#accounts")
{
	struct bts_options options = walker_options(SLOTS);

	account = (struct trace_account){.limit = SIZE_MAX};
	options.account = &account;
	live(options, BYTES);
	options.overflow = TRACE_WRAP;
	options.size += RECORD - 1; /* rounded down */
	live(options, BYTES);
	options = walker_options(SLOTS);
	options.account = &account;
	all_cpus(&options);
}

/* --- The charge and the pages --- */

static void ignore(struct tracer *tracer, void *argument)
{
	(void)tracer, (void)argument;
}

/* Attaches a tracer to a CPU and expects the charge to be the pages that this took. */
static struct tracer *attach_counted(const struct bts_options *options)
{
	size_t used = account.used;
	struct tracer *tracer;
	uint64_t pages;

	/* Once before, for the page tables and the ranges of addresses. */
	REQUIRE_EQ(bts_attach(NULL, this_cpu()->index, options, &tracer), 0);
	EXPECT(trace_detach(tracer));
	pages = pages_left();
	REQUIRE_EQ(bts_attach(NULL, this_cpu()->index, options, &tracer), 0);
	EXPECT_EQ(account.used - used, (pages - pages_left()) * PAGE_SIZE);
	return tracer;
}

static void change_counted(struct tracer *tracer, struct bts_options *options,
			   enum trace_overflow overflow)
{
	uint64_t pages = pages_left() + account.used / PAGE_SIZE;

	options->overflow = overflow;
	EXPECT_EQ(bts_change(tracer, options), 0);
	EXPECT_EQ(pages_left() + account.used / PAGE_SIZE, pages);
}

/* As large as the limit allows: one page more would be over it. */
static void cut(struct bts_options options)
{
	struct bts_status status;
	struct tracer *tracer;

	options.cut_size = true;
	options.size = 1000000 * RECORD;
	account.limit = 40 * PAGE_SIZE + 1;
	tracer = attach_counted(&options);
	EXPECT_EQ(account.used, 40 * PAGE_SIZE);
	bts_status(tracer, &status);
	EXPECT(trace_detach(tracer));
	options.cut_size = false;
	options.size = status.size;
	tracer = attach_counted(&options);
	EXPECT_EQ(account.used, 40 * PAGE_SIZE);
	EXPECT(trace_detach(tracer));
	options.size += RECORD;
	EXPECT_EQ(bts_attach(NULL, this_cpu()->index, &options, &tracer), -ENOMEM);
	account.limit = SIZE_MAX;
}

TEST(trace_charges_pages, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "a tracer is charged for the pages that it takes, whatever its size and mode and "
	      "while these change, and a limit cuts it to these pages",
     .source = "kernel/trace/trace.h, struct trace_account")
{
	static const size_t sizes[] = {2, 166, 167, 168, 169, 5000};
	struct bts_options options = walker_options(0);
	struct tracer *tracer;

	test_pin();
	account = (struct trace_account){.limit = SIZE_MAX};
	options.account = &account;
	options.overflowed = ignore;
	options.paused = true;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (options.overflow = TRACE_WRAP; options.overflow <= TRACE_STOP;
		     options.overflow++) {
			options.size = sizes[i] * RECORD;
			tracer = attach_counted(&options);
			EXPECT(trace_detach(tracer));
			cut(options);
		}
		options.size = sizes[i] * RECORD;
		options.overflow = TRACE_WRAP;
		tracer = attach_counted(&options);
		change_counted(tracer, &options, TRACE_SIGNAL);
		change_counted(tracer, &options, TRACE_STOP);
		account.limit = account.used;
		options.overflow = TRACE_SIGNAL;
		EXPECT_EQ(bts_change(tracer, &options), -ENOMEM);
		EXPECT_EQ(account.used, account.limit);
		EXPECT(trace_detach(tracer));
		EXPECT_EQ(account.used, 0);
		account.limit = SIZE_MAX;
	}
}

/* --- The pattern after an object --- */

/* True if freeing an object of `bytes` notices that its byte at `place` was written. */
static bool notices(size_t bytes, size_t place)
{
	unsigned char *object = trace_memory_alloc(bytes);

	REQUIRE(object);
	object[place] ^= 1;
	return !trace_memory_free(object, bytes);
}

TEST(trace_memory_pattern, .group = "tracers", .ids = "", .needs = 0,
     .claim = "a byte written after an object that trace hardware writes to is noticed when that "
	      "is freed, up to the end of its page; one inside it is its own",
     .source = "kernel/trace/memory.h")
{
	for (size_t bytes = 2400; bytes < 2409; bytes++) {
		for (size_t place = bytes; place < bytes + 9; place++)
			EXPECT(notices(bytes, place));
		EXPECT(notices(bytes, PAGE_SIZE - 1));
		EXPECT(!notices(bytes, bytes - 1));
	}
	EXPECT(trace_memory_free(NULL, 1));
}
