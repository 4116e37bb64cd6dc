// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/bts/bts.h"

#define RECORD sizeof(struct ptrace_bts_record)
#define BATCH  64

/* Room was made: a trace that stopped when its buffer was full goes on. */
static void resume_recording(struct attachment *at)
{
	if (at->config.flags & PTRACE_BTS_STOP)
		trace_resume(at->trace);
}

long ptrace_bts_size(const struct ptrace_call *call)
{
	return (long)bts_available(call->at->trace);
}

long ptrace_bts_get(const struct ptrace_call *call)
{
	struct ptrace_bts_record record;
	int error = bts_get(call->at->trace, call->data, &record);

	if (!error)
		error = copy_to_user(call->address, &record, RECORD);
	return error ? error : (long)RECORD;
}

long ptrace_bts_clear(const struct ptrace_call *call)
{
	bts_clear(call->at->trace);
	resume_recording(call->at);
	return 0;
}

int ptrace_check_writable(uint64_t user, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE_SIZE) {
		size_t last = bytes - at > PAGE_SIZE ? at + PAGE_SIZE - 1 : bytes - 1;
		uint8_t byte;

		if (copy_from_user(&byte, user + at, 1) || copy_to_user(user + at, &byte, 1) ||
		    copy_from_user(&byte, user + last, 1) || copy_to_user(user + last, &byte, 1))
			return -EFAULT;
	}
	return 0;
}

struct reading {
	struct tracer *trace;
	uint64_t user;
	size_t most;
	bool remove;
	long result;
};

static size_t next_records(const struct reading *reading, uint64_t *position,
			   struct ptrace_bts_record *batch, size_t most)
{
	if (most > BATCH)
		most = BATCH;
	return reading->remove ? bts_read(reading->trace, batch, most)
			       : bts_peek(reading->trace, position, batch, most);
}

static void copy_records(void *argument)
{
	struct reading *reading = argument;
	struct ptrace_bts_record batch[BATCH];
	uint64_t position = 0;
	size_t done = 0, count;

	do {
		count = next_records(reading, &position, batch, reading->most - done);
		if (copy_to_user(reading->user + done * RECORD, batch, count * RECORD)) {
			reading->result = -EFAULT;
			return;
		}
		done += count;
	} while (count && done < reading->most);
	reading->result = (long)done;
}

/* A reader on the CPU whose trace it reads would add to that faster than it reads. */
static void copy_unseen(const struct attachment *at, struct reading *reading)
{
	uint64_t flags = interrupts_save();
	bool here = !at->tracee && at->cpu == this_cpu()->index;

	if (here)
		trace_unseen(copy_records, reading);
	interrupts_restore(flags);
	if (!here)
		copy_records(reading);
}

long ptrace_bts_read(const struct ptrace_call *call)
{
	size_t available = bts_available(call->at->trace), asked = call->data / RECORD;
	struct reading reading = {
		.trace = call->at->trace,
		.user = call->address,
		.most = asked < available ? asked : available,
		.remove = call->request == PTRACE_BTS_DRAIN,
	};

	if (!asked || call->data % RECORD)
		return -EIO;
	if (ptrace_check_writable(call->address, reading.most * RECORD))
		return -EFAULT;
	copy_unseen(call->at, &reading);
	if (reading.result > 0 && reading.remove)
		resume_recording(call->at);
	return reading.result;
}
