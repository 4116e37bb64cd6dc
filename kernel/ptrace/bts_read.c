// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/bts/bts.h"

#define RECORD sizeof(struct ptrace_bts_record)
#define BATCH  64

long ptrace_bts_size(const struct ptrace_call *call)
{
	return (long)bts_available(call->tracer);
}

long ptrace_bts_get(const struct ptrace_call *call)
{
	struct ptrace_bts_record record;
	int error = bts_get(call->tracer, call->data, &record);

	return error ? error : ptrace_give(call, &record, RECORD);
}

struct reading {
	struct tracer *trace;
	uint64_t user;
	size_t most;
	bool remove;
	long result;
};

static long copy_records(const struct reading *reading)
{
	struct ptrace_bts_record batch[BATCH];
	uint64_t position = 0;
	size_t done = 0, count;

	do {
		count = reading->most - done < BATCH ? reading->most - done : BATCH;
		count = reading->remove ? bts_read(reading->trace, batch, count)
					: bts_peek(reading->trace, &position, batch, count);
		if (copy_to_user(reading->user + done * RECORD, batch, count * RECORD))
			return -EFAULT;
		done += count;
	} while (count && done < reading->most);
	return (long)done;
}

/* A CPU goes on between two batches: without bts_keep() it would overwrite what is next. */
static void read_whole(void *argument)
{
	struct reading *reading = argument;
	size_t available = bts_keep(reading->trace, true);

	if (reading->most > available)
		reading->most = available;
	reading->result = ptrace_check_writable(reading->user, reading->most * RECORD);
	if (!reading->result)
		reading->result = copy_records(reading);
	bts_keep(reading->trace, false);
}

long ptrace_bts_read(const struct ptrace_call *call)
{
	struct reading reading = {
		.trace = call->tracer,
		.user = call->address,
		.most = call->data / RECORD,
		.remove = call->request == PTRACE_BTS_DRAIN,
	};
	uint64_t flags;
	bool here;

	if (!reading.most || call->data % RECORD)
		return -EIO;
	flags = interrupts_save();
	here = call->at->task ? call->at->task == current_task()
			      : call->at->cpu == this_cpu()->index;
	/* A task that reads its trace, or its CPU's, would add to it faster than it reads. */
	if (here)
		trace_unseen(read_whole, &reading);
	interrupts_restore(flags);
	if (!here)
		read_whole(&reading);
	if (reading.result > 0 && reading.remove)
		ptrace_resume(call);
	return reading.result;
}
