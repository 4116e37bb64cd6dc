// SPDX-License-Identifier: MIT
#include "kernel/export/export.h"

#include "abi/errno.h"
#include "drivers/clock/clock.h"
#include "drivers/clock/tsc.h"
#include "drivers/console/console.h"
#include "drivers/console/uart.h"
#include "drivers/processor.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/export/packets.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/options.h"
#include "kernel/sched/sched.h"
#include "kernel/silicon.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trap/user.h"
#include "lib/frame.h"
#include "lib/string.h"
#include "lib/version.h"

#define AT_ONCE	    512 /* records that are read at a time */
#define VECTORS	    256
#define NOTE_HEADER 16 /* bytes of a note before its contents: "GNU" */

struct export_stream {
	struct export_stream *next;
	struct task *task; /* NULL: a CPU's */
	enum export_what what;
	struct tracer *tracer;
	unsigned view;
	uint32_t sum; /* of the records, as they were in the ring */
	struct frame_block block;
};

bool export_on;
unsigned export_untraced;

static struct uart uart;
static struct export_stream *streams;
static struct trace_total totals[TRACE_TOTALS_MOST];
static unsigned stream_count; /* and of those that have ended, totals */
static unsigned total_count;

/* The line and all above: the task that has it may wait for the device. */
static struct spinlock guard;
static struct run_queue waiting;
static bool busy;
static struct frame_line line;
static struct ptrace_bts_record records[AT_ONCE];
static bool predicted[AT_ONCE]; /* of these */
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

const char *export_init(void)
{
	const char *name = options.export;

	if (!*name)
		return NULL;
	if (is_console(name))
		return "export=: the console has this device: name its own by console=";
	if (!strcmp(name, "debugcon") && debugcon_present()) {
		line.put = put_debugcon;
	} else if (strlen(name) == 4 && !strncmp(name, "com", 3) && name[3] >= '1' &&
		   name[3] <= '4') {
		line.put = put_uart;
		if (!uart_init(&uart, uart_com_bases[name[3] - '1'], (uint32_t)options.baud))
			return "export=: there is no such serial port";
	} else {
		return "export=: neither one of com1 com2 com3 com4 nor a debugcon that answers";
	}
	line.raw = options.trace_raw;
	return NULL;
}

bool export_wants(enum export_what what)
{
	return export_on && options.trace == (int)what;
}

/* By BTS. */
static bool records_branches(void)
{
	return options.trace_unit != EXPORT_PT;
}

static void add_text(uint8_t *items, size_t *used, unsigned tag, const char *text)
{
	frame_item(items, used, tag, text, strlen(text));
}

static void add_number(uint8_t *items, size_t *used, unsigned tag, uint64_t number, size_t bytes)
{
	frame_item(items, used, tag, &number, bytes);
}

static struct trace_frame header_of(uint8_t type, uint32_t stream)
{
	return (struct trace_frame){.type = type,
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

static unsigned view_of(enum export_what what)
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

/* A view as PTRACE_BTS_USER and _KERNEL. */
static uint32_t view_number(unsigned view)
{
	return (view & TRACE_USER ? PTRACE_BTS_USER : 0) |
	       (view & TRACE_KERNEL ? PTRACE_BTS_KERNEL : 0);
}

static void send_stream(const struct task *task, uint32_t id, enum export_what what,
			const char *name, uint32_t checksum)
{
	size_t used = 0;

	if (task && task->context)
		used = export_program(payload, name, checksum, task->context->root);
	else
		add_text(payload, &used, TRACE_ITEM_NAME, name);
	add_number(payload, &used, TRACE_ITEM_VIEW, view_number(view_of(what)), 4);
	frame_send(&line, header_of(TRACE_FRAME_STREAM, id), payload, used);
}

static struct trace_record record_to_send(const struct ptrace_bts_record *record,
					  bool was_predicted)
{
	if (record->qualifier == PTRACE_BTS_BRANCH)
		return (struct trace_record){record->from, record->to,
					     was_predicted ? TRACE_PREDICTED : 0};
	return (struct trace_record){TRACE_STAMP | record->qualifier, record->tsc,
				     TRACE_STAMP_FLAG | record->pid_cpu};
}

static void add_record(struct export_stream *stream, const struct trace_record *record)
{
	stream->sum = crc32c(stream->sum, record, sizeof(*record));
	if (frame_add(&line, &stream->block, record))
		return;
	frame_flush(&line, &stream->block, this_cpu()->index, tsc_read());
	frame_add(&line, &stream->block, record);
}

/* Sends what can be read, except what is too little for a frame. With the line. */
static void drain(struct export_stream *stream)
{
	size_t count;

	do {
		count = bts_read_predicted(stream->tracer, records, predicted, AT_ONCE);
		for (size_t i = 0; i < count; i++) {
			struct trace_record record = record_to_send(&records[i], predicted[i]);

			add_record(stream, &record);
		}
	} while (count == AT_ONCE);
}

/* The trace waits for export_serve(). */
static void reached_threshold(struct tracer *tracer, void *argument)
{
	(void)tracer;
	(void)argument;
}

static struct bts_options options_of(const struct export_stream *stream)
{
	struct bts_options wish = {.view = stream->view,
				   .privileged = true,
				   .stamps = true,
				   .size = options.trace_size,
				   .overflow = options.trace_mode == EXPORT_STOP ? TRACE_STOP
										 : TRACE_WRAP};

	if (stream->what == EXPORT_PROGRAMS && options.trace_mode == EXPORT_WHOLE) {
		wish.overflow = TRACE_SIGNAL;
		wish.overflowed = reached_threshold;
	}
	return wish;
}

#define STREAM_PAGES ((sizeof(struct export_stream) + PAGE_SIZE - 1) / PAGE_SIZE)

static struct export_stream *new_stream(struct task *task, enum export_what what, uint32_t id)
{
	bool fits = stream_count + cpu_count() < TRACE_TOTALS_MOST; /* packets have a total a CPU */
	struct export_stream *stream = fits ? area_alloc(STREAM_PAGES, VM_WRITE) : NULL;

	if (!stream)
		return NULL;
	stream->task = task;
	stream->what = what;
	stream->view = view_of(what);
	frame_block_init(&stream->block, id);
	return stream;
}

static int attach(struct export_stream *stream, uint32_t id)
{
	struct bts_options wish = options_of(stream);

	return stream->task ? bts_attach(stream->task, &wish, &stream->tracer)
			    : bts_attach_cpu(id & ~TRACE_STREAM_CPU, &wish, &stream->tracer);
}

/* Traces `task`, NULL: the CPU of `id`, by BTS, or counts that it cannot. With the line. */
static void begin_stream(struct task *task, enum export_what what, uint32_t id, const char *name,
			 uint32_t checksum)
{
	struct export_stream *stream = new_stream(task, what, id);
	int error = stream ? attach(stream, id) : -ENOMEM;

	if (error) {
		export_untraced++;
		printk("# export: %s is not traced: error %d\n", name, -error);
		area_free(stream, STREAM_PAGES);
		return;
	}
	stream_count++;
	send_stream(task, id, what, name, checksum);
	stream->next = streams;
	streams = stream;
}

void export_task(struct task *task, enum export_what what, const char *name, uint32_t checksum)
{
	take_line();
	if (records_branches())
		begin_stream(task, what, task->pid, name, checksum);
	else
		send_stream(task, task->pid, what, name, checksum);
	packets_start();
	give_line();
}

/* With the line. */
static struct export_stream **find(const struct task *task)
{
	struct export_stream **at = &streams;

	while (*at && (*at)->task != task)
		at = &(*at)->next;
	return at;
}

/* Branches of the kernel between the threshold and here were not recorded. */
static void mark_hold(struct export_stream *stream)
{
	struct trace_record unknown = {TRACE_STAMP | PTRACE_BTS_GAP, 0, TRACE_STAMP_FLAG};

	if (stream->view & TRACE_KERNEL)
		add_record(stream, &unknown);
}

void export_serve(void)
{
	struct export_stream *stream;

	take_line();
	stream = *find(current_task());
	if (stream && trace_is_held(stream->tracer)) {
		drain(stream);
		mark_hold(stream);
		trace_resume(stream->tracer);
	}
	give_line();
}

/* Sending a record makes more branches than that record. */
static void pause(struct export_stream *stream)
{
	struct bts_options still = options_of(stream);

	still.paused = true;
	bts_change(stream->tracer, &still);
}

/* Sends the rest and takes the stream out of the list. With the line. */
static void finish(struct export_stream **at)
{
	struct export_stream *stream = *at;

	pause(stream);
	drain(stream);
	frame_flush(&line, &stream->block, this_cpu()->index, tsc_read());
	frame_send(&line, header_of(TRACE_FRAME_SUM, stream->block.header.stream), &stream->sum,
		   sizeof(stream->sum));
	totals[total_count++] = stream->block.total;
	trace_detach(stream->tracer);
	*at = stream->next;
	area_free(stream, STREAM_PAGES);
}

void export_task_end(struct task *task)
{
	struct export_stream **at;

	take_line();
	at = find(task);
	if (*at)
		pause(*at);
	packets_stop(&line);
	if (*at)
		finish(at);
	give_line();
}

static void trace_cpus(void)
{
	for (unsigned i = 0; i < cpu_count(); i++)
		begin_stream(NULL, EXPORT_CPUS, TRACE_STREAM_CPU | i, "cpu", 0);
}

void export_begin(void)
{
	if (!line.put || !trace_is_present())
		return;
	export_on = true;
	take_line();
	frame_send(&line, header_of(TRACE_FRAME_HELLO, 0), payload, export_machine(payload));
	if (options.trace_unit != EXPORT_BTS)
		packets_begin(&line, view_number(view_of((enum export_what)options.trace)));
	if (export_wants(EXPORT_CPUS))
		packets_start();
	if (export_wants(EXPORT_CPUS) && records_branches())
		trace_cpus();
	give_line();
}

void export_end(void)
{
	struct trace_frame header;

	if (!export_on)
		return;
	take_line();
	export_on = false;
	for (struct export_stream *stream = streams; stream; stream = stream->next)
		pause(stream);
	total_count += packets_end(&line, &totals[total_count]);
	while (streams)
		finish(&streams);
	header = header_of(TRACE_FRAME_END, 0);
	header.count = (uint16_t)total_count;
	header.lost = export_untraced;
	frame_send(&line, header, totals, total_count * sizeof(totals[0]));
	uart_flush(&uart);
	give_line();
}
