// SPDX-License-Identifier: MIT
#include "kernel/mm/copy.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/trace.h"

#define RECORD sizeof(struct ptrace_bts_record)
#define BATCH  64

/* Room was made: a trace that stopped when its buffer was full goes on. */
static void resume_recording(struct attachment *at)
{
	if (at->config.flags & PTRACE_BTS_STOP)
		trace_resume(at->trace);
}

long bts_get(struct attachment *at, uint64_t user, uint64_t index)
{
	struct ptrace_bts_record record;
	int error = trace_get(at->trace, index, &record);

	if (!error)
		error = copy_to_user(user, &record, RECORD);
	return error ? error : (long)RECORD;
}

long bts_clear(struct attachment *at)
{
	trace_clear(at->trace);
	resume_recording(at);
	return 0;
}

static long copy_records(struct tracer *trace, uint64_t user, size_t most)
{
	struct ptrace_bts_record batch[BATCH];
	size_t done = 0, count;

	do {
		count = most - done < BATCH ? most - done : BATCH;
		count = trace_peek(trace, done, batch, count);
		if (copy_to_user(user + done * RECORD, batch, count * RECORD))
			return -EFAULT;
		done += count;
	} while (count && done < most);
	return (long)done;
}

/* They are only dropped once all of them have arrived. */
long bts_read(struct attachment *at, uint64_t user, uint64_t bytes, bool remove)
{
	size_t available = trace_available(at->trace);
	long count;

	if (bytes < RECORD || bytes % RECORD)
		return -EIO;
	count = copy_records(at->trace, user,
			     bytes / RECORD < available ? bytes / RECORD : available);
	if (count <= 0 || !remove)
		return count;
	trace_skip(at->trace, (size_t)count);
	resume_recording(at);
	return count;
}
