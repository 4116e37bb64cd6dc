// SPDX-License-Identifier: MIT
// Takes samples of a child with the calls that it is in, or with its newest branches, and saves
// them over the serial line as a trace stream (docs/trace-stream.5), of which build/view shows the
// stacks. argument, bits: 1: by PEBS, else at interrupts; 2: the calls.
#include "abi/ptrace_lbr.h"
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/saved.h"

#define PERIOD	 211
#define ROUNDS	 400
#define BRANCHES 16
#define SAMPLES	 16 /* of a buffer */

/* --- What is sampled: three quarters of it is inner() in middle(), the rest inner() in outer() ---
 */

static volatile unsigned turns = 60;

static NOINLINE void inner(unsigned n)
{
	for (; n; n--)
		__asm__ volatile("");
}

static NOINLINE void middle(void)
{
	inner(turns);
	__asm__ volatile("");
}

static NOINLINE void outer(void)
{
	middle();
	middle();
	middle();
	inner(turns);
	__asm__ volatile("");
}

static NOINLINE void work(uint64_t rounds)
{
	for (; rounds; rounds--)
		outer();
}

/* --- It is sampled, and the samples are saved --- */

static struct trace_total total;
static uint8_t encoding;
static size_t unit; /* bytes of a sample with its branches */

static void drain(long pid)
{
	size_t most = sizeof(saved_payload) / unit * unit;
	long count;

	while ((count = ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)saved_payload, most)) > 0) {
		struct trace_frame header = saved_header(TRACE_FRAME_SAMPLES, (uint32_t)pid);

		header.encoding = encoding;
		header.count = (uint16_t)count;
		header.index = total.records;
		saved_frame(header, saved_payload, (size_t)count * unit);
		total.frames++;
		total.records += (uint64_t)count;
	}
	CHECK(count == 0);
}

static void take_samples(long pid, bool precise, bool calls)
{
	struct ptrace_pebs_config config = {
		.flags = PTRACE_PEBS_SIGNAL | (calls ? PTRACE_PEBS_CALL_STACK : 0u) |
			 (precise ? 0u : PTRACE_PEBS_INTERRUPT | PTRACE_PEBS_RAW),
		.period = PERIOD,
		.event = precise ? PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES : 0xc4,
		.branches = BRANCHES,
	};

	unit = sizeof(struct ptrace_pebs_sample) + BRANCHES * sizeof(struct ptrace_pebs_branch);
	config.size = SAMPLES * unit;
	CHECK(ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, sizeof(config)) > 0);
	CHECK(ptrace(PTRACE_PEBS_STATUS, pid, (uint64_t)&config, sizeof(config)) > 0);
	CHECK(config.sample_size == unit);
	encoding = calls ? TRACE_SAMPLES_CALLS : TRACE_SAMPLES_NEWEST;
}

int main(uint64_t argument)
{
	long pid = traced_child(work, ROUNDS);

	saved_open();
	saved_items(TRACE_FRAME_HELLO, 0);
	saved_items(TRACE_FRAME_STREAM, pid);
	take_samples(pid, argument & 1, argument & 2);
	run_to_end(pid, EVENT(PTRACE_EVENT_PEBS) | WAIT_STOPPED(SIGPROF), drain);
	total.stream = (uint32_t)pid;
	saved_end(&total, 1);
	saved_close();
	CHECK(total.records > 100);
	return 0;
}
