// SPDX-License-Identifier: MIT
// Traces every CPU by Intel PT while a program runs, and saves the packets over the serial line, as
// a trace stream (docs/trace-stream.5) that build/view opens: the nine steps of the README of
// Fuchsia's driver. The program is this one too, with an argument, which says how long it walks.
#include "abi/insntrace.h"
#include "abi/ptrace_bts.h"
#include "lib/frame.h"
#include "tests/user/lib/user.h"
#include "tests/user/lib/walk.h"

enum { OS = 1 << 2, USER = 1 << 3, BRANCH_EN = 1 << 13 };
#define RANGE_0_FILTERS (1ul << 32)
#define USER_LAST	0x00007ffffffffffful

#define STEPS 400

static long descriptor; /* of the line */
static unsigned cpus;
static uint32_t view = PTRACE_BTS_USER;
static uint8_t payload[TRACE_PAYLOAD_BYTES];
static struct trace_total totals[INSNTRACE_TRACES_MOST];

static long insntrace(unsigned request, uint64_t first, const void *address, uint64_t bytes)
{
	return system_call(SYS_insntrace, request, first, (uint64_t)address, bytes);
}

/* --- Frames --- */

static void put_line(void *argument, const uint8_t *bytes, size_t count)
{
	(void)argument;
	while (count) {
		long sent = system_call(SYS_write, (uint64_t)descriptor, (uint64_t)bytes, count, 0);

		CHECK(sent > 0);
		bytes += sent;
		count -= (size_t)sent;
	}
}

static struct frame_line line = {.put = put_line};

static struct trace_frame header_of(uint8_t type, uint32_t stream)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (struct trace_frame){.type = type,
				    .cpu = (uint8_t)cpu_now(),
				    .stream = stream,
				    .tsc = (uint64_t)high << 32 | low};
}

/* What the kernel says of the machine, by 0, or of a process, by its pid. */
static void send_items(uint8_t type, long pid)
{
	struct insntrace_read read = {0, (uint64_t)payload, sizeof(payload)};
	long bytes = insntrace(INSNTRACE_GET_ITEMS, (uint64_t)pid, &read, sizeof(read));

	CHECK(bytes > 0);
	frame_send(&line, header_of(type, (uint32_t)pid), payload, (size_t)bytes);
}

static void send_cpu(unsigned cpu)
{
	uint32_t stream = TRACE_STREAM_CPU | TRACE_STREAM_PT | cpu;
	size_t used = 0;

	frame_item(payload, &used, TRACE_ITEM_NAME, "cpu", 3);
	frame_item(payload, &used, TRACE_ITEM_VIEW, &view, sizeof(view));
	frame_send(&line, header_of(TRACE_FRAME_STREAM, stream), payload, used);
	totals[cpu].stream = stream;
}

static void send_packets(unsigned cpu, size_t bytes, bool lost)
{
	struct trace_frame header = header_of(TRACE_FRAME_PACKETS, totals[cpu].stream);

	header.index = totals[cpu].records;
	header.lost = lost;
	frame_send(&line, header, payload, bytes);
	totals[cpu].frames++;
	totals[cpu].records += bytes;
	totals[cpu].lost += lost;
}

static void send_end(void)
{
	struct trace_frame header = header_of(TRACE_FRAME_END, 0);

	header.count = (uint16_t)cpus;
	frame_send(&line, header, totals, cpus * sizeof(totals[0]));
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
	struct insntrace_read read = {0, (uint64_t)payload, sizeof(payload)};
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

	send_items(TRACE_FRAME_HELLO, 0);
	send_items(TRACE_FRAME_STREAM, getpid());
	send_items(TRACE_FRAME_STREAM, child);
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
	descriptor = system_call(SYS_open, (uint64_t)SERIAL_LINE, O_RDWR, 0, 0);
	CHECK(descriptor >= 0);
	initialize();						/* 1 */
	allocate_buffers();					/* 2 */
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);	/* 3 */
	child = launch();					/* 4 */
	CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);	/* 5 */
	save(child);						/* 6, 7 */
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0); /* 8 */
	CHECK(wait4(child, NULL, 0) == child);
	send_end(); /* 9: the host decodes */
	CHECK(system_call(SYS_close, (uint64_t)descriptor, 0, 0, 0) == 0);
	return 0;
}
