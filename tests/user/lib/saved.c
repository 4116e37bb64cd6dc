// SPDX-License-Identifier: MIT
#include "tests/user/lib/saved.h"

#include "abi/insntrace.h"
#include "lib/frame.h"
#include "tests/user/lib/user.h"

uint8_t saved_payload[TRACE_PAYLOAD_BYTES];

static long descriptor; /* of the line */

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

void saved_open(void)
{
	descriptor = system_call(SYS_open, (uint64_t)SERIAL_LINE, O_RDWR, 0, 0);
	CHECK(descriptor >= 0);
}

void saved_close(void)
{
	CHECK(system_call(SYS_close, (uint64_t)descriptor, 0, 0, 0) == 0);
}

struct trace_frame saved_header(uint8_t type, uint32_t stream)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (struct trace_frame){.type = type,
				    .cpu = (uint8_t)cpu_now(),
				    .stream = stream,
				    .tsc = (uint64_t)high << 32 | low};
}

void saved_frame(struct trace_frame header, const void *payload, size_t bytes)
{
	frame_send(&line, header, payload, bytes);
}

void saved_items(uint8_t type, long pid)
{
	struct insntrace_read read = {0, (uint64_t)saved_payload, sizeof(saved_payload)};
	long bytes = system_call(SYS_insntrace, INSNTRACE_GET_ITEMS, (uint64_t)pid, (uint64_t)&read,
				 sizeof(read));

	CHECK(bytes > 0);
	saved_frame(saved_header(type, (uint32_t)pid), saved_payload, (size_t)bytes);
}

void saved_end(const struct trace_total *totals, unsigned count)
{
	struct trace_frame header = saved_header(TRACE_FRAME_END, 0);

	header.count = (uint16_t)count;
	saved_frame(header, totals, count * sizeof(totals[0]));
}
