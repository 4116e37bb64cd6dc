// SPDX-License-Identifier: MIT
// The life cycle of a session that traces every CPU: which call is allowed when, what a failure
// leaves, what a buffer holds.
#include "drivers/processor.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/memory.h"
#include "kernel/trace/trace.h"
#include "lib/string.h"
#include "tests/lib/insntrace.h"

/* --- The table --- */

enum state { CLOSED, EMPTY, PARTLY, READY, STARTED, STATES };

enum call {
	INITIALIZE,
	TERMINATE,
	GET_ALLOCATION,
	ALLOCATE,
	GET_CONFIG,
	GET_STATE,
	READ,
	FREE,
	START,
	STOP,
	CALLS
};

static const char *const call_names[CALLS] = {
	"initialize",	    "terminate",   "get_allocation", "allocate_buffer", "get_buffer_config",
	"get_buffer_state", "read_buffer", "free_buffer",    "start",		"stop"};

/* Of descriptor 0. PARTLY: with one CPU that is READY. */
static const int expected[CALLS][STATES] = {
	/*		   CLOSED    EMPTY     PARTLY    READY     STARTED */
	[INITIALIZE] = {0, -EBADFD, -EBADFD, -EBADFD, -EBADFD},
	[TERMINATE] = {-EBADFD, 0, 0, 0, -EBADFD},
	[GET_ALLOCATION] = {-EBADFD, 0, 0, 0, 0},
	[ALLOCATE] = {-EBADFD, 0, 1, -ENOSPC, -EBADFD},
	[GET_CONFIG] = {-EBADFD, -ENXIO, 0, 0, 0},
	[GET_STATE] = {-EBADFD, -ENXIO, 0, 0, -EBADFD},
	[READ] = {-EBADFD, -ENXIO, 0, 0, -EBADFD},
	[FREE] = {-EBADFD, -ENXIO, 0, 0, -EBADFD},
	[START] = {-EBADFD, -EBADFD, -EBADFD, 0, -EBADFD},
	[STOP] = {-EBADFD, -EBADFD, -EBADFD, -EBADFD, 0},
};

static struct insntrace_config config_of_table(void)
{
	return insntrace_config(2, 0, INSNTRACE_CIRCULAR);
}

static void enter(enum state state)
{
	struct insntrace_config config = config_of_table();
	unsigned buffers = state == PARTLY ? 1 : state > PARTLY ? cpu_count() : 0;

	if (state == CLOSED)
		return;
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count()), 0);
	for (unsigned n = 0; n < buffers; n++)
		EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), n);
	if (state == STARTED)
		EXPECT_EQ(insntrace_start(NULL), 0);
}

static int perform(enum call call, struct trace_account *owner, unsigned descriptor)
{
	struct insntrace_config config = config_of_table();
	struct insntrace_allocation allocation;
	struct insntrace_state state;
	const void *from;
	size_t bytes = 1;

	switch (call) {
	case INITIALIZE:
		return insntrace_initialize(owner, INSNTRACE_CPUS, cpu_count());
	case TERMINATE:
		return insntrace_terminate(owner);
	case GET_ALLOCATION:
		return insntrace_get_allocation(owner, &allocation);
	case ALLOCATE:
		return insntrace_allocate_buffer(owner, &config, 0);
	case GET_CONFIG:
		return insntrace_get_buffer_config(owner, descriptor, &config);
	case GET_STATE:
		return insntrace_get_buffer_state(owner, descriptor, &state);
	case READ:
		return insntrace_read_buffer(owner, descriptor, 0, &from, &bytes);
	case FREE:
		return insntrace_free_buffer(owner, descriptor);
	case START:
		return insntrace_start(owner);
	case STOP:
		return insntrace_stop(owner);
	case CALLS:
		break;
	}
	return 0;
}

/* The session is in that state, and in no other. */
static void expect_state(enum state state)
{
	unsigned buffers = state == PARTLY ? 1 : state > PARTLY ? cpu_count() : 0;
	struct insntrace_config config, good = config_of_table();
	struct insntrace_allocation allocation;

	EXPECT_EQ(insntrace_get_allocation(NULL, &allocation), state == CLOSED ? -EBADFD : 0);
	for (unsigned n = 0; state != CLOSED && n < cpu_count(); n++) {
		int result = insntrace_get_buffer_config(NULL, n, &config);

		EXPECT_EQ(result, n < buffers ? 0 : -ENXIO);
		EXPECT(result || !memcmp(&config, &good, sizeof(good)));
	}
	EXPECT_EQ(insntrace_traced_cpus(), state == STARTED ? cpu_count() : 0);
}

TEST(pt_session_table, .group = "PT", .ids = "PT49", .needs = NEED_PT,
     .claim = "a call in the wrong order has its status and changes nothing",
     .source = "include/abi/insntrace.h")
{
	struct trace_account other = {.limit = 1 << 20};

	for (enum state state = CLOSED; state < STATES; state++) {
		if (state == PARTLY && cpu_count() == 1)
			continue;
		for (enum call call = INITIALIZE; call < CALLS; call++) {
			int result;

			enter(state);
			EXPECT_EQ(perform(call, &other, 0) < 0 || state == CLOSED, true);
			if (state == CLOSED)
				insntrace_terminate(&other);
			result = perform(call, NULL, 0);
			if (result != expected[call][state])
				test_note("%s in state %u", call_names[call], state);
			EXPECT_EQ(result, expected[call][state]);
			if (result < 0)
				expect_state(state);
			insntrace_stop(NULL);
			insntrace_terminate(NULL);
		}
	}
	expect_state(CLOSED);
	EXPECT_EQ(other.used, 0);
}
