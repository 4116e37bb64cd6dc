// SPDX-License-Identifier: MIT
#include "kernel/trace/due.h"

#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/area.h"
#include "kernel/sched/task.h"
#include "kernel/trace/memory.h"

/* The context itself stands in a page of its own, which nothing else shares. */
_Static_assert(sizeof(struct trace_context) <= PAGE_SIZE, "one page");

static size_t buffer_bytes(const struct trace_context *context)
{
	return context->options.records * ds_configuration->record_size;
}

static size_t ring_pages(const struct trace_context *context)
{
	size_t bytes = context->options.ring_records * sizeof(struct bts_struct);

	return (bytes + PAGE_SIZE - 1) / PAGE_SIZE;
}

static bool free_all(struct trace_context *context)
{
	bool whole = trace_memory_free(context->area, DS_AREA_SIZE);

	whole &= trace_memory_free(context->buffer, buffer_bytes(context));
	area_free(context->ring.slots, ring_pages(context));
	area_free(context, 1);
	return whole;
}

/* Most records that a buffer or ring may hold: keeps every product of sizes far from overflow. */
#define MOST_RECORDS (1ul << 24)

static int build(struct trace_context *context)
{
	const struct trace_options *options = &context->options;
	struct ds_request request = {
		.bytes = buffer_bytes(context),
		.filter = options->filter ? options->filter : DS_USER | DS_KERNEL,
		.overflow = options->overflow,
		.margin = options->margin,
	};

	if (options->records > MOST_RECORDS || options->ring_records > MOST_RECORDS)
		return -EINVAL;
	if (options->overflow == DS_O_SIGNAL && !options->ring_records)
		return -EINVAL;
	request.area = context->area = trace_memory_alloc(DS_AREA_SIZE);
	request.buffer = context->buffer = trace_memory_alloc(request.bytes);
	if (!context->area || !context->buffer)
		return -ENOMEM;
	if (options->ring_records) {
		context->ring.size = options->ring_records;
		context->ring.slots = area_alloc(ring_pages(context), VM_WRITE);
		if (!context->ring.slots)
			return -ENOMEM;
	}
	return ds_request_bts(&context->lease, &request);
}

int trace_attach(struct task *task, const struct trace_options *options,
		 struct trace_context **result)
{
	struct trace_context *context;
	uint64_t flags;
	int error;

	if (!ds_present())
		return -ENODEV;
	if (task->trace)
		return -EBUSY;
	context = area_alloc(1, VM_WRITE);
	if (!context)
		return -ENOMEM;
	context->options = *options;
	error = build(context);
	if (error) {
		free_all(context);
		return error;
	}
	*result = context;
	flags = interrupts_save();
	context->task = task;
	task->trace = context;
	if (task == current_task())
		trace_arrive(this_cpu(), context);
	interrupts_restore(flags);
	return 0;
}

static size_t read_circular(const struct trace_context *context, struct bts_struct *records,
			    size_t most)
{
	size_t end = ds_get_bts_end(context->area), index = ds_get_bts_index(context->area);
	size_t count = 0;

	for (size_t i = 0; i < end && count < most; i++) {
		struct bts_struct record;

		ds_read_bts(context->area, (index + i) % end, &record);
		if (record.qualifier != BTS_INVALID)
			records[count++] = record;
	}
	return count;
}

static size_t read_linear(struct trace_context *context, struct bts_struct *records, size_t most)
{
	struct cpu *cpu = this_cpu();
	size_t count = 0;

	trace_hand_over(cpu);
	trace_empty(cpu, context);
	while (count < most && ring_take(&context->ring, &records[count]))
		count++;
	return count;
}

size_t trace_read(struct trace_context *context, struct bts_struct *records, size_t most)
{
	uint64_t flags = interrupts_save(), saved = ds_pause();
	size_t count = context->options.overflow == DS_O_WRAP
			       ? read_circular(context, records, most)
			       : read_linear(context, records, most);

	ds_resume(saved);
	interrupts_restore(flags);
	return count;
}

bool trace_detach(struct trace_context *context)
{
	uint64_t flags = interrupts_save();
	struct cpu *cpu = this_cpu();

	if (context->task)
		trace_task_ended(context->task);
	trace_hand_over(cpu);
	ds_release_bts(&cpu->ds, &context->lease);
	interrupts_restore(flags);
	return free_all(context);
}
