// SPDX-License-Identifier: MIT
// Branches of tasks and of CPUs: a stream each.
#include "kernel/trace/bts/bts.h"

#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/export/unit.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/options.h"

#define AT_ONCE 512 /* records that are read at a time */

struct export_stream {
	struct export_stream *next;
	const struct task *task; /* NULL: a CPU's */
	enum export_what what;
	struct tracer *tracer;
	unsigned view;
	uint32_t sum; /* of the records, as they were in the ring */
	struct frame_block block;
};

static struct export_stream *streams;
static unsigned stream_count; /* and of those that have ended */
static struct ptrace_bts_record records[AT_ONCE];
static bool predicted[AT_ONCE]; /* of these */

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
	if (frame_add(&export_line, &stream->block, record))
		return;
	frame_flush(&export_line, &stream->block, this_cpu()->index, tsc_read());
	frame_add(&export_line, &stream->block, record);
}

/* Sends what can be read, except what is too little for a frame. */
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
	stream->view = export_view(what);
	frame_block_init(&stream->block, id);
	return stream;
}

static int attach(struct task *task, enum export_what what, uint32_t id)
{
	struct export_stream *stream = new_stream(task, what, id);
	struct bts_options wish;
	int error;

	if (!stream)
		return -ENOMEM;
	wish = options_of(stream);
	error = bts_attach(task, id & ~TRACE_STREAM_CPU, &wish, &stream->tracer);
	if (error) {
		area_free(stream, STREAM_PAGES);
		return error;
	}
	stream_count++;
	stream->next = streams;
	streams = stream;
	return 0;
}

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

static void serve(const struct task *task)
{
	struct export_stream *stream = *find(task);

	if (stream && trace_is_held(stream->tracer)) {
		drain(stream);
		mark_hold(stream);
		trace_resume(stream->tracer);
	}
}

/* Sending a record makes more branches than that record. */
static void pause(const struct task *task)
{
	for (struct export_stream *stream = streams; stream; stream = stream->next) {
		struct bts_options still = options_of(stream);

		still.paused = true;
		if (!task || stream->task == task)
			bts_change(stream->tracer, &still);
	}
}

/* Sends the rest and takes the stream out of the list. */
static void finish_stream(struct export_stream **at)
{
	struct export_stream *stream = *at;

	drain(stream);
	frame_flush(&export_line, &stream->block, this_cpu()->index, tsc_read());
	frame_send(&export_line, export_header(TRACE_FRAME_SUM, stream->block.header.stream),
		   &stream->sum, sizeof(stream->sum));
	export_total(&stream->block.total);
	trace_detach(stream->tracer);
	*at = stream->next;
	area_free(stream, STREAM_PAGES);
}

static void finish(const struct task *task)
{
	struct export_stream **at = task ? find(task) : &streams;

	while (*at) {
		finish_stream(at);
		if (task)
			break;
	}
}

const struct export_unit export_bts = {
	.word = "bts",
	.attach = attach,
	.serve = serve,
	.pause = pause,
	.finish = finish,
};
