// SPDX-License-Identifier: MIT
/*
 * Packets of every CPU, while anything is traced: a stream each. They are sent when nothing is
 * traced any more; a buffer that is full until then keeps the oldest or, where `trace_mode=wrap`,
 * the newest.
 */
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/export/unit.h"
#include "kernel/mm/page.h"
#include "kernel/options.h"
#include "kernel/trace/pt/insntrace.h"
#include "kernel/trace/trace.h"

#define CHUNK_ORDER_MOST INSNTRACE_ORDER_MOST

#define USER_LAST 0x00007ffffffffffful

static bool is_on, is_started;
static unsigned traced; /* what start() was called for */
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
static void add_view(struct insntrace_config *config, unsigned view)
{
	bool filters = view == TRACE_USER && pt_caps()->ranges;

	config->control |= view & TRACE_USER ? RTIT_CTL_USER : 0;
	config->control |= view & TRACE_KERNEL || filters ? RTIT_CTL_OS : 0;
	if (filters) {
		config->control |= RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER);
		config->range[0].last = USER_LAST;
	}
}

/* Chunks as large as there may be: each has to be contiguous. */
static struct insntrace_config config_of(unsigned view)
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

static int allocate_all(unsigned view)
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

static void begin(void)
{
	enum export_what what = (enum export_what)options.trace;

	if (fails(allocate_all(export_view(what))))
		return;
	is_on = true;
	for (unsigned i = 0; i < cpu_count(); i++) {
		totals[i] = (struct trace_total){.stream = stream_of(i)};
		export_describe(NULL, stream_of(i), what, "cpu", 0);
	}
}

/* From the first that is traced to the last no program gets the CR3 of one that ended. */
static void start(void)
{
	if (!is_on || traced++)
		return;
	insntrace_keep_roots(export_wants(EXPORT_PROGRAMS));
	is_started = !fails(insntrace_start(owner));
}

static void send_part(struct trace_total *total, const void *bytes, size_t size, bool lost)
{
	struct trace_frame header = export_header(TRACE_FRAME_PACKETS, total->stream);

	header.index = total->records;
	header.lost = lost;
	frame_send(&export_line, header, bytes, size);
	total->frames++;
	total->records += size;
	total->lost += lost;
}

/* How much was lost is unknown: a wrapped buffer lost its oldest bytes, a full one the newest. */
static void send_buffer(unsigned cpu)
{
	struct insntrace_state state = {0};
	size_t size = TRACE_PAYLOAD_BYTES;
	uint64_t offset = 0;
	const void *from;
	bool lost;

	insntrace_get_buffer_state(owner, cpu, &state);
	lost = state.flags & INSNTRACE_WRAPPED;
	while (!insntrace_read_buffer(owner, cpu, offset, &from, &size) && size) {
		send_part(&totals[cpu], from, size, lost);
		lost = false;
		offset += size;
		size = TRACE_PAYLOAD_BYTES;
	}
	if (state.flags & (INSNTRACE_STOPPED | INSNTRACE_ERROR))
		send_part(&totals[cpu], NULL, 0, true);
}

/* From then on no packets that are not sent name a program that ended. */
static void stop_all(void)
{
	if (is_started) {
		insntrace_stop(owner);
		for (unsigned i = 0; i < cpu_count(); i++)
			send_buffer(i);
	}
	is_started = false;
	insntrace_keep_roots(false);
}

static void end(void)
{
	stop_all();
	is_on = false;
	insntrace_terminate(owner);
	for (unsigned i = 0; i < cpu_count(); i++)
		export_total(&totals[i]);
}

static void finish(const struct task *task)
{
	if (!task && is_on)
		end();
	else if (task && traced && !--traced)
		stop_all();
}

const struct export_unit export_pt = {
	.begin = begin,
	.start = start,
	.finish = finish,
};
