// SPDX-License-Identifier: MIT
// Traces every CPU by Intel PT while a program runs, and saves the packets over the serial line, as
// a trace stream (docs/trace-stream.5) that build/view opens: the nine steps of the README of
// Fuchsia's driver. The program is this one too, with an argument, which says how long it walks.
#include "abi/insntrace.h"
#include "abi/ptrace_bts.h"
#include "lib/frame.h"
#include "tests/user/lib/saved.h"
#include "tests/user/lib/user.h"
#include "tests/user/lib/walk.h"

enum { OS = 1 << 2, USER = 1 << 3, BRANCH_EN = 1 << 13 };
#define RANGE_0_FILTERS (1ul << 32)
#define USER_LAST	0x00007ffffffffffful

#define STEPS 400

static unsigned cpus;
static uint32_t view = PTRACE_BTS_USER;
static struct trace_total totals[INSNTRACE_TRACES_MOST];

static long insntrace(unsigned request, uint64_t first, const void *address, uint64_t bytes)
{
	return system_call(SYS_insntrace, request, first, (uint64_t)address, bytes);
}

/* --- Frames --- */

static void send_cpu(unsigned cpu)
{
	uint32_t stream = TRACE_STREAM_CPU | TRACE_STREAM_PT | cpu;
	size_t used = 0;

	frame_item(saved_payload, &used, TRACE_ITEM_NAME, "cpu", 3);
	frame_item(saved_payload, &used, TRACE_ITEM_VIEW, &view, sizeof(view));
	saved_frame(saved_header(TRACE_FRAME_STREAM, stream), saved_payload, used);
	totals[cpu].stream = stream;
}

static void send_packets(unsigned cpu, size_t bytes, bool lost)
{
	struct trace_frame header = saved_header(TRACE_FRAME_PACKETS, totals[cpu].stream);

	header.index = totals[cpu].records;
	header.lost = lost;
	saved_frame(header, saved_payload, bytes);
	totals[cpu].frames++;
	totals[cpu].records += bytes;
	totals[cpu].lost += lost;
}

/* --- The nine steps --- */

/* As many traces as there are CPUs: any other number is refused. */
static void initialize(void)
{
	long error;

	do
		error = insntrace(INSNTRACE_INITIALIZE, INSNTRACE_CPUS, NULL, ++cpus);
	while (error == -EINVAL && cpus < INSNTRACE_TRACES_MOST);
	CHECK(error == 0);
}

/*
 * Packets PIP, which say whose program follows, need OS; what is of the kernel a range takes out.
 * Without ranges the trace has the kernel too.
 */
static void allocate_buffers(void)
{
	struct insntrace_config config = {.chunks = 1,
					  .chunk_order = 6,
					  .control = OS | USER | BRANCH_EN | RANGE_0_FILTERS,
					  .range = {{0, USER_LAST}}};
	long first = insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &config, sizeof(config));

	if (first == -EOPNOTSUPP) {
		config.control &= ~RANGE_0_FILTERS;
		view |= PTRACE_BTS_KERNEL;
		first = insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &config, sizeof(config));
	}
	CHECK(first == 0);
	for (unsigned n = 1; n < cpus; n++)
		CHECK(insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &config, sizeof(config)) == n);
}

/* It has ended, and was not waited for: its pid still names it. */
static long launch(void)
{
	long child = spawn("controller", STEPS);
	int status;

	CHECK(child > 0);
	CHECK(wait4(child, &status, WNOWAIT) == child && status == WAIT_EXITED(0));
	return child;
}

static void save_buffer(unsigned cpu)
{
	struct insntrace_state state;
	struct insntrace_read read = {0, (uint64_t)saved_payload, sizeof(saved_payload)};
	long bytes;

	CHECK(insntrace(INSNTRACE_GET_BUFFER_STATE, cpu, &state, sizeof(state)) == 0);
	while ((bytes = insntrace(INSNTRACE_READ_BUFFER, cpu, &read, sizeof(read))) > 0) {
		send_packets(cpu, (size_t)bytes, false);
		read.offset += (uint64_t)bytes;
	}
	CHECK(bytes == 0);
	if (state.flags & (INSNTRACE_STOPPED | INSNTRACE_ERROR))
		send_packets(cpu, 0, true);
}

static void save(long child)
{
	uint64_t saved = 0;

	saved_items(TRACE_FRAME_HELLO, 0);
	saved_items(TRACE_FRAME_STREAM, getpid());
	saved_items(TRACE_FRAME_STREAM, child);
	for (unsigned cpu = 0; cpu < cpus; cpu++)
		send_cpu(cpu);
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		save_buffer(cpu);
		saved += totals[cpu].records;
	}
	CHECK(saved > 0);
}

int main(uint64_t argument)
{
	long child;

	if (argument) {
		walk(argument);
		return 0;
	}
	saved_open();
	initialize();						/* 1 */
	allocate_buffers();					/* 2 */
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);	/* 3 */
	child = launch();					/* 4 */
	CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);	/* 5 */
	save(child);						/* 6, 7 */
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0); /* 8 */
	CHECK(wait4(child, NULL, 0) == child);
	saved_end(totals, cpus); /* 9: the host decodes */
	saved_close();
	return 0;
}
