// SPDX-License-Identifier: MIT
// One task gives the others, at random, what can happen to a traced task. A task that waits because
// one of its tracers holds its trace goes on in the kernel: it walks there, and a tracer that sees
// the kernel has to see all of these walks. This kernel once let the hold of one tracer end the
// records of all.
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/time.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/framework/test.h"
#include "tests/lib/chain.h"

#define SLOTS	 8
#define WATCHERS 2 /* of one task, at most */
#define BATCH	 512

#define GOAL	    5 /* walks due while another holds the trace; held it is four times as often */
#define PATIENCE    10000000 /* microseconds; then once of each is enough */
#define LONG_HOLD   1000000  /* microseconds */
#define WAIT_LENGTH 3	     /* one branch within chain_b */

struct watcher {
	/* The storm writes these, under the slot's lock: */
	struct tracer *tracer; /* NULL: none */
	bool changing;	       /* attaches or detaches: whether it holds the trace is not known */

	struct numbered reader;
	enum trace_overflow overflow; /* TRACE_STOP: sees the kernel too, and begins anew if full */
	atomic_uint told;
	unsigned served, noticed;
	uint64_t held_since, waited_since; /* as of `noticed` */
	uint64_t attached;		   /* walks that may have been made when it came */
	struct {
		uint64_t least, most; /* that may have been made when it came */
		uint64_t due, seen;   /* since then */
	} waits;		      /* walks of a task that waits; TRACE_STOP only */
};

/* A place for a task: walks separate addresses in ring 3, and now and then moves or sleeps. */
struct slot {
	struct user_chain user;
	struct spinlock lock;
	struct watcher watchers[WATCHERS];
	struct task *task; /* NULL: none */
	atomic_ulong walked, waited;
	uint64_t random;
};

static struct slot slots[SLOTS];
static struct trace_account account;
static struct {
	uint64_t tasks, attached, holds, records, waits, wrong;
} counts;
static atomic_ulong left_recording;

static struct slot *slot_of(const struct task *task)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (slots[i].task == task)
			return &slots[i];
	return NULL;
}

static bool must_wait(struct slot *slot)
{
	uint64_t flags = spin_lock(&slot->lock);
	bool held = false;

	for (unsigned i = 0; i < WATCHERS; i++) {
		struct watcher *watcher = &slot->watchers[i];

		held |= watcher->changing ||
			(watcher->tracer && (trace_is_held(watcher->tracer) ||
					     atomic_load(&watcher->told) != watcher->served));
	}
	spin_unlock(&slot->lock, flags);
	return held;
}

/* A walk ends in the middle, for a while, where some watcher's ring is full to the threshold. */
static void broken(void)
{
	struct slot *slot = slot_of(current_task());

	while (must_wait(slot)) {
		chain_walk(&chain_b, WAIT_LENGTH);
		atomic_fetch_add(&slot->waited, 1);
		task_yield();
	}
}

static void wander(void *argument)
{
	struct slot *slot = argument;

	for (;;) {
		user_chain_walk(&slot->user, numbered_length(atomic_load(&slot->walked)));
		atomic_fetch_add(&slot->walked, 1);
		switch (random_below(&slot->random, 16)) {
		case 0:
			task_sleep(random_below(&slot->random, 256));
			break;
		case 1:
			test_go_to((unsigned)random_below(&slot->random, cpu_count()));
			break;
		default:
			task_yield();
		}
	}
}

static void change(struct slot *slot, struct watcher *watcher, bool changing, struct tracer *tracer)
{
	uint64_t flags = spin_lock(&slot->lock);

	watcher->changing = changing;
	watcher->tracer = tracer;
	spin_unlock(&slot->lock, flags);
}

static void tell(struct tracer *tracer, void *argument)
{
	(void)tracer;
	atomic_fetch_add(&((struct watcher *)argument)->told, 1);
}

/* Before and after recording begins, or begins anew. */
static void before_recording(struct slot *slot, struct watcher *watcher)
{
	numbered_begin(&watcher->reader, &slot->user, watcher->overflow == TRACE_WRAP);
	watcher->waits.due = watcher->waits.seen = 0;
	watcher->waits.least = atomic_load(&slot->waited);
}

static void after_recording(struct slot *slot, struct watcher *watcher)
{
	watcher->attached = atomic_load(&slot->walked) + 1;
	watcher->waits.most = atomic_load(&slot->waited) + 1;
}

#define KINDS	 4
#define FREQUENT 1 /* of these: what makes a task wait while another watcher sees that */

static void attach(struct slot *slot, struct watcher *watcher, uint64_t kind)
{
	static const enum trace_overflow kinds[WATCHERS][KINDS] = {
		{TRACE_SIGNAL, TRACE_SIGNAL, TRACE_SIGNAL, TRACE_WRAP},
		{TRACE_SIGNAL, TRACE_STOP, TRACE_STOP, TRACE_WRAP}};
	struct bts_options options = {
		.view = test_random() % 4 ? TRACE_USER : TRACE_USER | TRACE_KERNEL,
		.privileged = true,
		.stamps = test_random() % 2,
		.overflow = kinds[watcher - slot->watchers][kind],
		.size = (64 + test_random() % 2048) * sizeof(struct ptrace_bts_record),
		.overflowed = tell,
		.argument = watcher,
		.account = &account,
	};
	struct tracer *tracer;

	if (options.overflow == TRACE_STOP) {
		options.view = TRACE_USER | TRACE_KERNEL;
		options.size *= 8;
	}
	watcher->overflow = options.overflow;
	atomic_store(&watcher->told, 0);
	watcher->served = watcher->noticed = 0;
	before_recording(slot, watcher);
	change(slot, watcher, true, NULL);
	REQUIRE_EQ(bts_attach(slot->task, 0, &options, &tracer), 0);
	change(slot, watcher, false, tracer);
	after_recording(slot, watcher);
	counts.attached++;
}

static bool is_wait(const struct ptrace_bts_record *record)
{
	struct branch wait = chain_branch(&chain_b, WAIT_LENGTH, 1);

	return record->from == wait.from && record->to == wait.to;
}

static void read(struct watcher *watcher)
{
	static struct ptrace_bts_record records[BATCH];
	size_t left = bts_available(watcher->tracer), count;

	while (left && (count = bts_read(watcher->tracer, records, left < BATCH ? left : BATCH))) {
		for (size_t i = 0; i < count; i++) {
			numbered_feed(&watcher->reader, &records[i]);
			watcher->waits.seen += is_wait(&records[i]);
		}
		counts.records += count;
		left -= count;
	}
}

/*
 * True if the trace has ended, so that records are missing: it goes on, and is read from there. One
 * that ended during the first reading goes on after what it has lost.
 */
static bool begins_anew(struct slot *slot, struct watcher *watcher)
{
	struct bts_status status;

	bts_status(watcher->tracer, &status);
	if (!status.full && !status.lost && !status.lost_more)
		return false;
	if (status.full)
		read(watcher); /* what came after the first reading, until the ring was full */
	EXPECT_EQ(watcher->reader.wrong, 0);
	counts.waits += watcher->waits.due;
	before_recording(slot, watcher);
	trace_clear(watcher->tracer); /* what it has lost */
	trace_resume(watcher->tracer);
	after_recording(slot, watcher);
	return true;
}

/* Of the walks so far, `least` to `most`, it has all that were made since it came. */
static void expect_waits(struct watcher *watcher, uint64_t least, uint64_t most)
{
	if (watcher->waits.seen + watcher->waits.most < least ||
	    watcher->waits.seen > most - watcher->waits.least) {
		counts.wrong++;
		test_note("saw %lu walks of a task that waited %lu to %lu times, %lu to %lu before",
			  watcher->waits.seen, least, most, watcher->waits.least,
			  watcher->waits.most);
	}
	if (least > watcher->waits.most + watcher->waits.due)
		watcher->waits.due = least - watcher->waits.most;
}

/* Takes what there is; by then all branches of the walks made before must have come. */
static void drain(struct slot *slot, struct watcher *watcher)
{
	uint64_t walked = atomic_load(&slot->walked), waited = atomic_load(&slot->waited);

	read(watcher);
	if (watcher->overflow == TRACE_WRAP ||
	    (watcher->overflow == TRACE_STOP && begins_anew(slot, watcher)))
		return;
	if (watcher->reader.known) {
		EXPECT(watcher->reader.walk >= walked);
		EXPECT(watcher->reader.walk <= atomic_load(&slot->walked) + 1);
	} else
		EXPECT(walked < watcher->attached + NUMBERED_ENOUGH);
	if (watcher->overflow == TRACE_STOP)
		expect_waits(watcher, waited, atomic_load(&slot->waited) + 1);
}

/*
 * Until there were enough walks of tasks that wait, a hold lasts until another watcher has one to
 * see: the CPU of the task may be one that the host does not let run.
 */
static bool is_too_early(struct slot *slot, struct watcher *watcher)
{
	if (watcher->noticed == watcher->served) {
		watcher->noticed++;
		watcher->held_since = clock_us();
		watcher->waited_since = atomic_load(&slot->waited);
	}
	return counts.waits < GOAL && atomic_load(&slot->waited) < watcher->waited_since + 2 &&
	       clock_us() - watcher->held_since < LONG_HOLD;
}

static void serve(struct slot *slot, struct watcher *watcher)
{
	if (atomic_load(&watcher->told) == watcher->served || is_too_early(slot, watcher))
		return;
	drain(slot, watcher);
	trace_resume(watcher->tracer);
	watcher->served++;
	counts.holds++;
}

static void detach(struct slot *slot, struct watcher *watcher)
{
	struct tracer *tracer = watcher->tracer;
	struct bts_status status;

	drain(slot, watcher);
	bts_status(tracer, &status);
	EXPECT(!status.truncated);
	if (watcher->overflow == TRACE_SIGNAL)
		EXPECT_EQ(status.lost, 0);
	counts.waits += watcher->waits.due;
	EXPECT_EQ(watcher->reader.foreign, 0);
	EXPECT_EQ(watcher->reader.wrong, 0);
	change(slot, watcher, true, NULL);
	EXPECT(trace_detach(tracer));
	change(slot, watcher, false, NULL);
}

static void end(struct slot *slot)
{
	task_kill(slot->task);
	task_join(slot->task);
	for (unsigned i = 0; i < WATCHERS; i++)
		if (slot->watchers[i].tracer)
			detach(slot, &slot->watchers[i]);
	test_task_put(slot->task);
	slot->task = NULL;
}

/* Traced from its first branch on, or not yet. */
static void begin(struct slot *slot)
{
	atomic_store(&slot->walked, 0);
	atomic_store(&slot->waited, 0);
	slot->random = test_random();
	slot->task = test_task("storm", wander, slot);
	if (test_random() % 2)
		attach(slot, &slot->watchers[0], test_random() % KINDS);
	task_start(slot->task);
	counts.tasks++;
}

static void happen(struct slot *slot)
{
	struct watcher *watcher = &slot->watchers[test_random() % WATCHERS];
	uint64_t which = test_random() % 16;

	if (!slot->task)
		begin(slot);
	else if (which == 0)
		end(slot);
	else if (which < 4)
		test_keep_on(slot->task, test_random() % cpu_count());
	else if (which == 4)
		task_set_affinity(slot->task, cpu_set_all());
	else if (!watcher->tracer)
		attach(slot, watcher, test_random() % KINDS);
	else if (which < 8)
		detach(slot, watcher);
	else
		drain(slot, watcher);
}

/* Where chance alone takes too long: one watcher that holds, and one that sees walks meanwhile. */
static void bring_about(struct slot *slot)
{
	if (!slot->task)
		begin(slot);
	for (unsigned i = 0; i < WATCHERS; i++) {
		struct watcher *watcher = &slot->watchers[i];

		if (!watcher->tracer)
			attach(slot, watcher, FREQUENT);
		else if (watcher->overflow != (i ? TRACE_STOP : TRACE_SIGNAL) || watcher->waits.due)
			detach(slot, watcher);
		else if (i)
			drain(slot, watcher);
	}
}

/* At times late. */
static void serve_all(void)
{
	for (unsigned i = 0; i < SLOTS; i++)
		for (unsigned w = 0; w < WATCHERS; w++)
			if (slots[i].watchers[w].tracer && test_random() % 2)
				serve(&slots[i], &slots[i].watchers[w]);
}

static void look(void *argument)
{
	(void)argument;
	if (rdmsr(IA32_DEBUGCTL) & (ds_configuration->tr | ds_configuration->bts))
		atomic_fetch_add(&left_recording, 1);
}

TEST(smp_trace_storm, .group = "S", .ids = "S1 S2", .needs = NEED_BTS,
     .claim =
	     "tasks that start, move, are killed, traced, and not any more at random: no branch is "
	     "lost or lands elsewhere, whatever holds a trace, and nothing stays allocated or recording",
     .source = "docs/design.md#contexts")
{
	uint64_t first = sched_switch_count(), goal = test_scaled(GOAL), start = clock_us();

	account = (struct trace_account){.limit = 64ul << 20};
	memset(&counts, 0, sizeof(counts)); /* what repeat= left */
	atomic_store(&left_recording, 0);
	for (unsigned i = 0; i < SLOTS; i++) {
		user_chain_open(&slots[i].user, i);
		slots[i].user.broken = broken;
	}
	while (counts.holds < goal * 4 || counts.waits < goal) {
		uint64_t elapsed = clock_us() - start;

		if (elapsed > 3 * PATIENCE)
			break;
		if (elapsed > PATIENCE)
			goal = 1;
		if (elapsed > PATIENCE / 4 && !counts.waits)
			bring_about(&slots[0]);
		else
			happen(&slots[test_random() % SLOTS]);
		serve_all();
		if (test_random() % 2)
			task_sleep(test_random() % 500);
		else
			task_yield();
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		if (slots[i].task)
			end(&slots[i]);
		user_chain_close(&slots[i].user);
	}
	smp_call_all(look, NULL);
	EXPECT_EQ(atomic_load(&left_recording), 0);
	EXPECT_EQ(counts.wrong, 0);
	EXPECT_EQ(account.used, 0);
	test_note("%lu switches on %u CPUs; %lu tasks, %lu tracers, %lu holds, %lu records; "
		  "%lu walks due while another held",
		  sched_switch_count() - first, cpu_count(), counts.tasks, counts.attached,
		  counts.holds, counts.records, counts.waits);
	if (!counts.waits)
		test_slow("no walk was due while another held, in %u s", 3 * PATIENCE / 1000000);
}
