// SPDX-License-Identifier: MIT
#include "kernel/export/export.h"

#include "drivers/clock/clock.h"
#include "drivers/clock/tsc.h"
#include "drivers/console/console.h"
#include "drivers/console/uart.h"
#include "drivers/processor.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/export/unit.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/options.h"
#include "kernel/sched/sched.h"
#include "kernel/silicon.h"
#include "kernel/trace/trace.h"
#include "kernel/trace/unit.h"
#include "kernel/trap/user.h"
#include "lib/frame.h"
#include "lib/string.h"
#include "lib/version.h"

#define VECTORS	    256
#define VIEW_SHIFT  4  /* in TRACE_ITEM_VIEW: docs/trace-stream.5 */
#define NOTE_HEADER 16 /* bytes of a note before its contents: "GNU" */

bool export_on;
unsigned export_untraced;
struct frame_line export_line;

static struct uart uart;
static const struct export_unit *units[TRACE_UNITS]; /* of `trace_unit=`, as in the table */
static unsigned unit_count;
static struct trace_total totals[TRACE_TOTALS_MOST];
static unsigned total_count;
static struct export_stream *streams;
static unsigned stream_count; /* and of those that have ended */

/* The line and all above: the task that has it may wait for the device. */
static struct spinlock guard;
static struct run_queue waiting;
static bool busy;
static uint8_t payload[TRACE_PAYLOAD_BYTES];

extern const uint8_t build_id_start[], build_id_end[]; /* linker.ld: a note */

static void take_line(void)
{
	uint64_t flags = spin_lock(&guard);

	while (busy)
		sched_wait(&waiting, &guard);
	busy = true;
	spin_unlock(&guard, flags);
}

static void give_line(void)
{
	uint64_t flags = spin_lock(&guard);

	busy = false;
	spin_unlock(&guard, flags);
	sched_wake_all(&waiting);
}

static void put_uart(void *argument, const uint8_t *bytes, size_t count)
{
	(void)argument;
	while (count--)
		uart_put(&uart, (char)*bytes++);
}

static void put_debugcon(void *argument, const uint8_t *bytes, size_t count)
{
	(void)argument;
	while (count--)
		debugcon_put((char)*bytes++);
}

/* Text between the bytes of a frame would spoil it. */
static bool is_console(const char *name)
{
	size_t length = strlen(name);

	for (const char *at = console_names(); *at; at++)
		if (!strncmp(at, name, length) && (!at[length] || at[length] == ','))
			return true;
	return false;
}

/* Of the table those that `trace_unit=` names. */
static void choose_units(void)
{
	for (unsigned i = 0; i < TRACE_UNITS; i++) {
		const struct trace_unit *unit = trace_units[i];

		if (unit->stream && (!strcmp(options.trace_unit, unit->name) ||
				     !strcmp(options.trace_unit, "both")))
			units[unit_count++] = unit->stream;
	}
}

const char *export_init(void)
{
	const char *name = options.export;

	choose_units();
	if (!unit_count)
		return "trace_unit=: no unit of this name leaves the machine";
	if (!*name)
		return NULL;
	if (is_console(name))
		return "export=: the console has this device: name its own by console=";
	if (!strcmp(name, "debugcon") && debugcon_present()) {
		export_line.put = put_debugcon;
	} else if (strlen(name) == 4 && !strncmp(name, "com", 3) && name[3] >= '1' &&
		   name[3] <= '4') {
		export_line.put = put_uart;
		if (!uart_init(&uart, uart_com_bases[name[3] - '1'], (uint32_t)options.baud))
			return "export=: there is no such serial port";
	} else {
		return "export=: neither one of com1 com2 com3 com4 nor a debugcon that answers";
	}
	export_line.raw = options.trace_raw;
	return NULL;
}

bool export_wants(enum export_what what)
{
	return export_on && options.trace == (int)what;
}

static void add_text(uint8_t *items, size_t *used, unsigned tag, const char *text)
{
	frame_item(items, used, tag, text, strlen(text));
}

static void add_number(uint8_t *items, size_t *used, unsigned tag, uint64_t number, size_t bytes)
{
	frame_item(items, used, tag, &number, bytes);
}

struct trace_frame export_header(enum trace_frame_type type, uint32_t stream)
{
	return (struct trace_frame){.type = (uint8_t)type,
				    .cpu = (uint8_t)this_cpu()->index,
				    .stream = stream,
				    .tsc = tsc_read()};
}

/* Every call writes the same entries. */
size_t export_machine(uint8_t items[TRACE_PAYLOAD_BYTES])
{
	static uint64_t entries[VECTORS + 1];
	size_t used = 0, note = (size_t)(build_id_end - build_id_start);

	for (unsigned vector = 0; vector < VECTORS; vector++)
		entries[vector] = trap_entry(vector);
	entries[VECTORS] = (uint64_t)syscall_entry;
	add_text(items, &used, TRACE_ITEM_NAME, "spoor.elf");
	add_text(items, &used, TRACE_ITEM_VERSION, spoor_version);
	add_text(items, &used, TRACE_ITEM_SILICON, silicon_name());
	if (note > NOTE_HEADER)
		frame_item(items, &used, TRACE_ITEM_BUILD_ID, build_id_start + NOTE_HEADER,
			   note - NOTE_HEADER);
	add_number(items, &used, TRACE_ITEM_PROCESSOR, cpuid(1, 0).eax, 4);
	add_number(items, &used, TRACE_ITEM_TSC_HZ, clock_tsc_hz(), 8);
	add_number(items, &used, TRACE_ITEM_CPUS, cpu_count(), 4);
	frame_item(items, &used, TRACE_ITEM_ENTRIES, entries, sizeof(entries));
	return used;
}

size_t export_program(uint8_t items[TRACE_PAYLOAD_BYTES], const char *name, uint32_t checksum,
		      uint64_t root)
{
	size_t used = 0;

	add_text(items, &used, TRACE_ITEM_NAME, name);
	add_text(items, &used, TRACE_ITEM_PROGRAM, name);
	add_number(items, &used, TRACE_ITEM_CHECKSUM, checksum, 4);
	add_number(items, &used, TRACE_ITEM_CR3, root, 8);
	return used;
}

unsigned export_view(enum export_what what)
{
	switch ((enum export_view)options.trace_view) {
	case EXPORT_VIEW_USER:
		return TRACE_USER;
	case EXPORT_VIEW_KERNEL:
		return TRACE_KERNEL;
	case EXPORT_VIEW_BOTH:
		return TRACE_USER | TRACE_KERNEL;
	default:
		return what == EXPORT_PROGRAMS ? TRACE_USER : TRACE_KERNEL;
	}
}

void export_describe(const struct task *task, uint32_t id, enum export_what what, const char *name,
		     uint32_t checksum)
{
	size_t used = 0;

	if (task && task->context)
		used = export_program(payload, name, checksum, task->context->root);
	else
		add_text(payload, &used, TRACE_ITEM_NAME, name);
	add_number(payload, &used, TRACE_ITEM_VIEW, export_view(what) << VIEW_SHIFT, 4);
	frame_send(&export_line, export_header(TRACE_FRAME_STREAM, id), payload, used);
}

void export_total(const struct trace_total *total)
{
	totals[total_count++] = *total;
}

#define STREAM_PAGES ((sizeof(struct export_stream) + PAGE_SIZE - 1) / PAGE_SIZE)

static int open_stream(const struct export_unit *unit, struct task *task, enum export_what what,
		       uint32_t id)
{
	bool fits = stream_count + cpu_count() < TRACE_TOTALS_MOST; /* packets have a total a CPU */
	struct export_stream *stream = fits ? area_alloc(STREAM_PAGES, VM_WRITE) : NULL;
	int error;

	if (!stream)
		return -ENOMEM;
	stream->unit = unit;
	stream->task = task;
	stream->what = what;
	frame_block_init(&stream->block, id);
	error = unit->attach(stream, task, id & ~TRACE_STREAM_CPU);
	if (error) {
		area_free(stream, STREAM_PAGES);
		return error;
	}
	stream_count++;
	stream->next = streams;
	streams = stream;
	return 0;
}

void export_add(struct export_stream *stream, const struct trace_record *record)
{
	stream->sum = crc32c(stream->sum, record, sizeof(*record));
	if (frame_add(&export_line, &stream->block, record))
		return;
	frame_flush(&export_line, &stream->block, this_cpu()->index, tsc_read());
	frame_add(&export_line, &stream->block, record);
}

/* Sends the rest. */
static void end_stream(struct export_stream *stream)
{
	stream->unit->drain(stream);
	frame_flush(&export_line, &stream->block, this_cpu()->index, tsc_read());
	frame_send(&export_line, export_header(TRACE_FRAME_SUM, stream->block.header.stream),
		   &stream->sum, sizeof(stream->sum));
	export_total(&stream->block.total);
	trace_detach(stream->tracer);
	area_free(stream, STREAM_PAGES);
}

/* Of a unit, those of `task`, NULL: all. */
static void end_streams(const struct export_unit *unit, const struct task *task)
{
	struct export_stream **at = &streams, *stream;

	while ((stream = *at))
		if (stream->unit == unit && (!task || stream->task == task)) {
			*at = stream->next;
			end_stream(stream);
		} else {
			at = &stream->next;
		}
}

/* By each unit that has streams of tasks and of CPUs. Where none has, a task is described too. */
static void begin_stream(struct task *task, enum export_what what, uint32_t id, const char *name,
			 uint32_t checksum)
{
	bool attached = false;
	int error = 0;

	for (unsigned i = 0; i < unit_count; i++) {
		if (!units[i]->attach)
			continue;
		error = open_stream(units[i], task, what, id);
		attached |= !error;
		if (error) {
			export_untraced++;
			printk("# export: %s is not traced: error %d\n", name, -error);
		}
	}
	if (attached || (task && !error))
		export_describe(task, id, what, name, checksum);
}

static void start_units(void)
{
	for (unsigned i = 0; i < unit_count; i++)
		if (units[i]->start)
			units[i]->start();
}

void export_task(struct task *task, enum export_what what, const char *name, uint32_t checksum)
{
	take_line();
	begin_stream(task, what, task->pid, name, checksum);
	start_units();
	give_line();
}

void export_serve(void)
{
	take_line();
	for (struct export_stream *at = streams; at; at = at->next)
		if (at->task == current_task() && at->unit->serve)
			at->unit->serve(at);
	give_line();
}

static void finish_units(const struct task *task)
{
	for (struct export_stream *at = streams; at; at = at->next)
		if ((!task || at->task == task) && at->unit->pause)
			at->unit->pause(at);
	for (unsigned i = unit_count; i--;) {
		if (units[i]->finish)
			units[i]->finish(task);
		end_streams(units[i], task);
	}
}

void export_task_end(struct task *task)
{
	take_line();
	finish_units(task);
	give_line();
}

void export_begin(void)
{
	if (!export_line.put || !trace_is_present())
		return;
	export_on = true;
	take_line();
	frame_send(&export_line, export_header(TRACE_FRAME_HELLO, 0), payload,
		   export_machine(payload));
	for (unsigned i = unit_count; i--;)
		if (units[i]->begin)
			units[i]->begin();
	if (export_wants(EXPORT_CPUS)) {
		start_units();
		for (unsigned i = 0; i < cpu_count(); i++)
			begin_stream(NULL, EXPORT_CPUS, TRACE_STREAM_CPU | i, "cpu", 0);
	}
	give_line();
}

void export_end(void)
{
	struct trace_frame header;

	if (!export_on)
		return;
	take_line();
	export_on = false;
	finish_units(NULL);
	header = export_header(TRACE_FRAME_END, 0);
	header.count = (uint16_t)total_count;
	header.lost = export_untraced;
	frame_send(&export_line, header, totals, total_count * sizeof(totals[0]));
	uart_flush(&uart);
	give_line();
}
