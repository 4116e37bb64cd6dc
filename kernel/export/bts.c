// SPDX-License-Identifier: MIT
// Branches of tasks and of CPUs.
#include "kernel/trace/bts/bts.h"

#include "kernel/export/unit.h"
#include "kernel/options.h"

#define AT_ONCE 512 /* records that are read at a time */

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

static void drain(struct export_stream *stream)
{
	size_t count;

	do {
		count = bts_read_predicted(stream->tracer, records, predicted, AT_ONCE);
		for (size_t i = 0; i < count; i++) {
			struct trace_record record = record_to_send(&records[i], predicted[i]);

			export_add(stream, &record);
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
	struct bts_options wish = {.view = export_view(stream->what),
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

static int attach(struct export_stream *stream, struct task *task, unsigned cpu)
{
	struct bts_options wish = options_of(stream);

	return bts_attach(task, cpu, &wish, &stream->tracer);
}

/* Branches of the kernel between the threshold and here were not recorded. */
static void mark_hold(struct export_stream *stream)
{
	struct trace_record unknown = {TRACE_STAMP | PTRACE_BTS_GAP, 0, TRACE_STAMP_FLAG};

	if (export_view(stream->what) & TRACE_KERNEL)
		export_add(stream, &unknown);
}

static void serve(struct export_stream *stream)
{
	if (!trace_is_held(stream->tracer))
		return;
	drain(stream);
	mark_hold(stream);
	trace_resume(stream->tracer);
}

/* Sending a record makes more branches than that record. */
static void pause(struct export_stream *stream)
{
	struct bts_options still = options_of(stream);

	still.paused = true;
	bts_change(stream->tracer, &still);
}

const struct export_unit export_bts = {
	.attach = attach,
	.drain = drain,
	.serve = serve,
	.pause = pause,
};
