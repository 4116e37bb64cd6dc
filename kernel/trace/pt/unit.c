// SPDX-License-Identifier: MIT
// Starts, pauses and stops on a CPU.
#include "kernel/trace/unit.h"

#include "drivers/pt/registers.h"
#include "kernel/console.h"
#include "kernel/trace/pt/private.h"

/* The buffer that this unit has started on each CPU; tests drive the hardware themselves. */
struct pt_cpu {
	struct insntrace_buffer *buffer;
	struct insntrace_buffer *held; /* the CPU's own, which goes on at the thaw; or NULL */
	bool of_thread;
};
_Static_assert(sizeof(struct pt_cpu) <= TRACE_UNIT_BYTES, "struct trace_cpu");

static struct pt_cpu *pt_cpu(const struct cpu *cpu)
{
	return (struct pt_cpu *)cpu->trace->unit[TRACE_PT];
}

static void miss(struct insntrace_buffer *buffer)
{
	buffer->gap = true;
	if (is_stream(buffer))
		stream_miss(buffer);
}

/* A range has stopped it: it stays so until it is emptied. */
static bool has_stopped(const struct pt_trace *trace)
{
	return trace->status & RTIT_STATUS_STOPPED && !pt_is_full(trace);
}

int cpu_start_trace(struct insntrace_buffer *buffer, bool of_thread)
{
	struct pt_cpu *here = pt_cpu(this_cpu());
	int error = has_stopped(&buffer->trace) ? -ENOSPC : pt_ready(&buffer->trace);

	if (error)
		return error;
	if (trace_is_frozen(this_cpu())) {
		here->held = of_thread ? here->held : buffer;
		return 0;
	}
	if (here->buffer && here->of_thread) {
		struct insntrace_buffer *threads = here->buffer;

		cpu_stop_trace(true);
		miss(threads);
	}
	here->of_thread = of_thread;
	here->buffer = buffer;
	if (of_thread && state_restore(buffer))
		return 0;
	error = pt_load(&buffer->trace);
	if (!error)
		error = pt_start(&buffer->trace);
	if (error)
		here->buffer = NULL;
	if (trace_is_frozen(this_cpu()))
		pt_pause();
	return error;
}

void cpu_stop_trace(bool of_thread)
{
	struct pt_cpu *here = pt_cpu(this_cpu());
	struct insntrace_buffer *buffer = here->buffer;

	if (!of_thread)
		here->held = NULL;
	if (!buffer || here->of_thread != of_thread)
		return;
	if (!of_thread || !state_save(buffer))
		pt_stop(&buffer->trace);
	here->buffer = NULL;
	if (is_stream(buffer))
		stream_look(buffer);
}

static bool is_present(void)
{
	return pt_caps()->present && pt_caps()->topa;
}

static void init_unit(void)
{
	pt_init(page_is_managed);
}

static void init_cpu(struct cpu *cpu)
{
	(void)cpu;
	if (pt_caps()->xsaves)
		state_init();
}

static void print_unit(void)
{
	const struct pt_caps *caps = pt_caps();

	if (is_present())
		printk("# pt=present chunks=%s ranges=%u xsaves=%d\n",
		       caps->topa_many ? "many" : "one", caps->ranges, caps->xsaves);
}

static uint64_t pause_trace(void)
{
	return pt_cpu(this_cpu())->buffer ? pt_pause() : 0;
}

static void end_trace(struct cpu *cpu)
{
	struct insntrace_buffer *buffer = pt_cpu(cpu)->buffer;

	if (buffer) {
		pt_pause();
		pt_look(&buffer->trace);
	}
}

/* The byte with `n` newer ones. */
static uint8_t get_byte(const struct insntrace_buffer *buffer, size_t n)
{
	uint64_t chunk = PAGE_SIZE << buffer->config.chunk_order;
	uint64_t size = buffer->config.chunks * chunk;
	uint64_t at = (pt_position(&buffer->trace) + size - 1 - n) % size;

	return ((const uint8_t *)direct(buffer->chunks[at / chunk]))[at % chunk];
}

/*
 * From a PSB on, 16 bytes with which a decoder can begin (SDM Vol 3, 36.4.2): the newest that has
 * `enough` bytes after it, so that a PSB that has just come hides nothing, or the oldest.
 */
static void show_packets(struct cpu *cpu)
{
	const struct insntrace_buffer *buffer = pt_cpu(cpu)->buffer;
	const size_t enough = 512;
	size_t count = 0, same = 0, most = 0;

	if (cpu == this_cpu())
		end_trace(cpu);
	if (buffer)
		most = pt_state(&buffer->trace).valid;
	for (size_t n = 0; n < most && n < 4 * PAGE_SIZE && count < enough; n++) {
		uint8_t byte = get_byte(buffer, n);

		same = byte == (same % 2 ? 0x02 : 0x82) ? same + 1 : byte == 0x82;
		if (same == 16)
			count = n + 1;
	}
	if (!count)
		return;
	printk("# packets of CPU %u since a PSB, %zu bytes:", cpu->index, count);
	for (size_t i = 0; i < count; i++)
		printk("%s%02x", i % 32 ? " " : "\n#   ", get_byte(buffer, count - 1 - i));
	printk("\n");
}

/* Recording is paused: what the processor has written until now is handed over. */
static bool interrupt(struct cpu *cpu)
{
	struct insntrace_buffer *buffer = pt_cpu(cpu)->buffer;

	if (!is_present() || !pt_pmi())
		return false;
	if (buffer) {
		pt_look(&buffer->trace);
		stream_look(buffer);
	}
	return true;
}

/* A CPU's own trace is of everything that runs there, the switch too. */
static void stop(struct cpu *cpu)
{
	(void)cpu;
	cpu_stop_trace(true);
}

/* The processor wrote the tracer's memory itself. */
static void depart(struct cpu *cpu)
{
	(void)cpu;
}

/* NULL is the kernel's. */
static unsigned account_rank(const struct trace_account *account)
{
	return !account ? 2 : account->privileged;
}

/* Of a thread's buffers, newest first: the oldest of those whose owners have the most rights. */
static struct insntrace_buffer *first_of(struct tracer *tracers)
{
	struct insntrace_buffer *first = NULL;

	for (struct tracer *at = tracers; at; at = at->next) {
		struct insntrace_buffer *buffer = (struct insntrace_buffer *)at;

		if (*buffer->started &&
		    (!first || account_rank(buffer->account) >= account_rank(first->account)))
			first = buffer;
	}
	return first;
}

/* The CPU has a trace, or a unit that Intel PT suspends records it: no thread has one here. */
static bool is_taken(const struct cpu *cpu)
{
	const struct trace_context *own = cpu->trace->own;

	return pt_cpu(cpu)->buffer || (ds_caps()->suspended_by_pt && own &&
				       own->units & (1u << TRACE_BTS | 1u << TRACE_LBR));
}

/* A buffer that is full, or has an error, says so itself. */
static void arrive(struct cpu *cpu)
{
	struct trace_context *context = cpu->trace->running;
	struct tracer *tracers = context ? context->tracers[TRACE_PT] : NULL;
	struct insntrace_buffer *first = is_taken(cpu) ? NULL : first_of(tracers);

	for (struct tracer *at = tracers; at; at = at->next) {
		struct insntrace_buffer *buffer = (struct insntrace_buffer *)at;

		if (*buffer->started && (buffer != first || buffer->gap_at))
			miss(buffer);
	}
	if (first && !first->gap_at && cpu_start_trace(first, true) == -EIO)
		first->trace.status |= RTIT_STATUS_ERROR;
}

/* The tail is handed over; a reader goes on to take it and to make room. */
static bool hold_trace(struct cpu *cpu, bool hold)
{
	struct pt_cpu *here = pt_cpu(cpu);
	struct insntrace_buffer *held = here->held;

	if (hold && here->buffer && !here->of_thread) {
		held = here->buffer;
		cpu_stop_trace(false);
	}
	here->held = hold ? held : NULL;
	if (!hold && held)
		cpu_start_trace(held, false);
	return here->held;
}

static unsigned excludes(void)
{
	return ds_caps()->suspended_by_pt ? 1u << TRACE_BTS : 0;
}

const struct trace_unit pt_unit = {
	.name = "pt",
	.is_present = is_present,
	.init = init_unit,
	.init_cpu = init_cpu,
	.print = print_unit,
	.pause = pause_trace,
	.resume = pt_resume,
	.end = end_trace,
	.show = show_packets,
	.interrupt = interrupt,
	.stop = stop,
	.depart = depart,
	.arrive = arrive,
	.hold = hold_trace,
	.excludes = excludes,
	.gives_way = true,
	.free = buffer_release,
	.requests = &ptrace_pt_unit,
	.stream = &export_pt,
};
