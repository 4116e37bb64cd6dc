// SPDX-License-Identifier: MIT
#include "kernel/export/packets.h"

#include "abi/ptrace_bts.h"
#include "drivers/clock/tsc.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/export/export.h"
#include "kernel/mm/page.h"
#include "kernel/options.h"
#include "kernel/trace/pt/insntrace.h"
#include "lib/string.h"

#define CHUNK_ORDER_MOST INSNTRACE_ORDER_MOST

#define USER_LAST 0x00007ffffffffffful

static bool is_on, is_started;
static unsigned traced; /* what packets_start() was called for */
static struct trace_total totals[MAX_CPUS];

/* The kernel's own account. */
static struct trace_account *const owner;

static uint32_t stream_of(unsigned cpu)
{
	return TRACE_STREAM_CPU | TRACE_STREAM_PT | cpu;
}

/*
 * PIP, which says whose program follows, is written where MOV to CR3 is executed in a context that
 * is traced: with OS set, whatever the ranges let through (36.4.2.7).
 */
static void add_view(struct insntrace_config *config, uint32_t view)
{
	bool filters = view == PTRACE_BTS_USER && pt_caps()->ranges;

	config->control |= view & PTRACE_BTS_USER ? RTIT_CTL_USER : 0;
	config->control |= view & PTRACE_BTS_KERNEL || filters ? RTIT_CTL_OS : 0;
	if (filters) {
		config->control |= RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER);
		config->range[0].last = USER_LAST;
	}
}

/* Chunks as large as there may be: each has to be contiguous. */
static struct insntrace_config config_of(uint32_t view)
{
	struct insntrace_config config = {
		.flags = options.trace_mode == EXPORT_WRAP ? INSNTRACE_CIRCULAR : 0,
		.control = RTIT_CTL_BRANCH_EN};

	add_view(&config, view);

	while (config.chunk_order < CHUNK_ORDER_MOST &&
	       PAGE_SIZE << (config.chunk_order + 1) <= options.trace_packets)
		config.chunk_order++;
	config.chunks = (uint32_t)(options.trace_packets / (PAGE_SIZE << config.chunk_order));
	return config;
}

static int allocate_all(uint32_t view)
{
	struct insntrace_config config = config_of(view);
	int error = insntrace_initialize(owner, INSNTRACE_CPUS, cpu_count());

	if (error)
		return error;
	for (unsigned i = 0; i < cpu_count() && error >= 0; i++)
		error = insntrace_allocate_buffer(owner, &config, 0);
	if (error >= 0)
		return 0;
	insntrace_terminate(owner);
	return error;
}

/* Says why there are no packets. */
static bool fails(int error)
{
	if (!error)
		return false;
	export_untraced += cpu_count();
	printk("# export: no Processor Trace: error %d\n", -error);
	return true;
}

static void send_stream(struct frame_line *line, unsigned cpu, uint32_t view)
{
	static uint8_t payload[TRACE_PAYLOAD_BYTES];
	const struct trace_frame header = {.type = TRACE_FRAME_STREAM,
					   .cpu = (uint8_t)this_cpu()->index,
					   .stream = stream_of(cpu),
					   .tsc = tsc_read()};
	size_t used = 0;

	frame_item(payload, &used, TRACE_ITEM_NAME, "cpu", 3);
	frame_item(payload, &used, TRACE_ITEM_VIEW, &view, sizeof(view));
	frame_send(line, header, payload, used);
}

void packets_begin(struct frame_line *line, uint32_t view)
{
	if (fails(allocate_all(view)))
		return;
	is_on = true;
	for (unsigned i = 0; i < cpu_count(); i++) {
		totals[i] = (struct trace_total){.stream = stream_of(i)};
		send_stream(line, i, view);
	}
}

void packets_start(void)
{
	if (!is_on || traced++)
		return;
	insntrace_keep_roots(export_wants(EXPORT_PROGRAMS));
	is_started = !fails(insntrace_start(owner));
}

static void send_part(struct frame_line *line, struct trace_total *total, const void *bytes,
		      size_t size, bool lost)
{
	const struct trace_frame header = {.type = TRACE_FRAME_PACKETS,
					   .cpu = (uint8_t)this_cpu()->index,
					   .stream = total->stream,
					   .index = total->records,
					   .lost = lost,
					   .tsc = tsc_read()};

	frame_send(line, header, bytes, size);
	total->frames++;
	total->records += size;
	total->lost += lost;
}

/* How much was lost is unknown: a wrapped buffer lost its oldest bytes, a full one the newest. */
static void send_buffer(struct frame_line *line, unsigned cpu)
{
	struct insntrace_state state = {0};
	size_t size = TRACE_PAYLOAD_BYTES;
	uint64_t offset = 0;
	const void *from;
	bool lost;

	insntrace_get_buffer_state(owner, cpu, &state);
	lost = state.flags & INSNTRACE_WRAPPED;
	while (!insntrace_read_buffer(owner, cpu, offset, &from, &size) && size) {
		send_part(line, &totals[cpu], from, size, lost);
		lost = false;
		offset += size;
		size = TRACE_PAYLOAD_BYTES;
	}
	if (state.flags & (INSNTRACE_STOPPED | INSNTRACE_ERROR))
		send_part(line, &totals[cpu], NULL, 0, true);
}

/* From then on no packets that are not sent name a program that ended. */
static void stop_all(struct frame_line *line)
{
	if (is_started) {
		insntrace_stop(owner);
		for (unsigned i = 0; i < cpu_count(); i++)
			send_buffer(line, i);
	}
	is_started = false;
	insntrace_keep_roots(false);
}

void packets_stop(struct frame_line *line)
{
	if (traced && !--traced)
		stop_all(line);
}

unsigned packets_end(struct frame_line *line, struct trace_total *sent)
{
	if (!is_on)
		return 0;
	stop_all(line);
	is_on = false;
	insntrace_terminate(owner);
	memcpy(sent, totals, cpu_count() * sizeof(*sent));
	return cpu_count();
}
