// SPDX-License-Identifier: MIT
#include "kernel/trace/context.h"

struct question {
	struct tracer *tracer;
	struct trace_status *status;
};

static enum trace_filter filter(const struct tracer *tracer)
{
	unsigned view = tracer->options.view, hardware = tracer->context->programmed;

	if (view == (TRACE_USER | TRACE_KERNEL))
		return TRACE_FILTER_NONE;
	if (!hardware)
		hardware = trace_hardware_view(trace_wishes(tracer->context));
	return hardware == view ? TRACE_FILTER_HARDWARE : TRACE_FILTER_SOFTWARE;
}

static bool is_cpu(const struct trace_context *context)
{
	for (unsigned i = 0; i < cpu_count(); i++)
		if (context == &cpu_by_index(i)->trace->context)
			return true;
	return false;
}

static void answer(void *argument)
{
	struct question *question = argument;
	struct tracer *tracer = question->tracer;

	*question->status = (struct trace_status){
		.view = tracer->options.view,
		.overflow = tracer->options.overflow,
		.filter = filter(tracer),
		.circular = tracer->context->circular,
		.stamps = tracer->options.stamps,
		.size = tracer->options.size,
		.available = tracer_available(tracer),
		.lost = tracer->ring.lost,
		.lost_more = tracer->ring.wrapped,
		.truncated = tracer->truncated,
		.held = tracer->held,
		.full = tracer->full,
		.ended = !tracer->context->task && !is_cpu(tracer->context),
	};
}

void trace_status(struct tracer *tracer, struct trace_status *status)
{
	struct question question = {tracer, status};

	trace_perform(tracer->context, answer, &question);
}
