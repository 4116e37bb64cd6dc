// SPDX-License-Identifier: MIT
// The buffer of samples of a tracer: how it is configured; what is read from it.
#include "kernel/trace/pebs/pebs.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "lib/string.h"

#define MOST_SIZE (1ul << 28) /* of a buffer, whatever the limit is */
#define BATCH	  1536	      /* bytes: of a sample with all its branches, at the least */
_Static_assert(BATCH >= sizeof(struct ptrace_pebs_sample) + 32 * sizeof(struct ptrace_pebs_branch),
	       "a sample");

_Static_assert(PTRACE_PEBS_USER == TRACE_USER << 4 && PTRACE_PEBS_KERNEL == TRACE_KERNEL << 4,
	       "a view in the flags");

static bool is_counter_refused(const struct ptrace_pebs_config *config)
{
	return config->flags & PTRACE_PEBS_COUNTER ? config->counter >= 64 : config->counter;
}

/* Periods, events and counters are the unit's to judge. */
static int check_config(const struct attachment *at, const struct ptrace_pebs_config *config)
{
	uint64_t flags = config->flags;
	size_t sample = pebs_sample_size(config->branches);

	if (flags & ~(uint64_t)(PTRACE_PEBS_SETTABLE | PTRACE_PEBS_REPORTED) ||
	    (flags & PTRACE_PEBS_SIGNAL && flags & PTRACE_PEBS_STOP) ||
	    ptrace_is_signal_refused(flags, config->signal) || is_counter_refused(config) ||
	    (config->sample_size && config->sample_size != sample) || config->size < sample)
		return -EINVAL;
	if (config->size > MOST_SIZE && !(config->flags & PTRACE_PEBS_CUT_SIZE))
		return -ENOMEM;
	return (!at->task && config->flags & PTRACE_PEBS_SIGNAL) || !pebs_present() ? -EOPNOTSUPP
										    : 0;
}

static struct pebs_options options_of(struct attachment *at, struct ptrace_pebs_config *config)
{
	uint64_t flags = config->flags;

	return (struct pebs_options){
		.event = config->event,
		.period = config->period,
		.counters = flags & PTRACE_PEBS_COUNTER ? 1ull << config->counter : 0,
		.view = flags / PTRACE_PEBS_USER & (TRACE_USER | TRACE_KERNEL),
		.privileged = ptrace_may_see_kernel(at),
		.cut_size = flags & PTRACE_PEBS_CUT_SIZE,
		.branches = config->branches,
		.kinds = config->kinds,
		.call_stack = flags & PTRACE_PEBS_CALL_STACK,
		.overflow = flags & PTRACE_PEBS_SIGNAL ? TRACE_SIGNAL
			    : flags & PTRACE_PEBS_STOP ? TRACE_STOP
						       : TRACE_WRAP,
		.size = config->size < MOST_SIZE ? config->size : MOST_SIZE,
		.overflowed = ptrace_stop_at_threshold,
		.argument = at,
		.account = at->tracer ? &at->tracer->account : NULL,
		.replaces = at->samples,
		.holder = config->holder,
	};
}

/* Its defaults and its size decided; the tracee reads it when it has to stop. */
static void keep_config(struct attachment *at, const struct ptrace_pebs_config *config)
{
	struct pebs_status status;

	pebs_status(at->samples, &status);
	SPIN_GUARD(&processes_lock);
	at->samples_config = *config;
	at->samples_config.flags &= PTRACE_PEBS_SETTABLE;
	at->samples_config.size = status.size;
	at->samples_config.sample_size = (uint32_t)status.sample_size;
	at->samples_config.branches = status.branches;
	memset(at->samples_config.holder, 0, sizeof(at->samples_config.holder));
	ptrace_fill_in(&at->samples_config.flags, &at->samples_config.signal, SIGPROF);
}

/* The one there was may have had the counter that the new one needed for a moment. */
static void replace_buffer(struct attachment *at, struct tracer *fresh)
{
	attachment_free_samples(at);
	pebs_clear(fresh);
	at->samples = fresh;
}

static int configure(struct attachment *at, struct ptrace_pebs_config *config)
{
	struct tracer *fresh = NULL;
	struct pebs_options options;
	int error;

	if (!config->size) {
		attachment_free_samples(at);
		return 0;
	}
	error = check_config(at, config);
	if (error)
		return error;
	options = options_of(at, config);
	error = at->task ? pebs_attach(at->task, &options, &fresh)
			 : pebs_attach_cpu(at->cpu, &options, &fresh);
	if (error)
		return error;
	replace_buffer(at, fresh);
	keep_config(at, config);
	return 0;
}

static bool is_config(size_t bytes)
{
	return bytes == sizeof(struct ptrace_pebs_config) || bytes == PTRACE_PEBS_CONFIG_BYTES_1;
}

/* One that is refused names the holder, where that can be written. */
long ptrace_pebs_config(const struct ptrace_call *call)
{
	struct ptrace_pebs_config config = {.branches = 0};
	int error;

	if (!is_config(call->data))
		return -EINVAL;
	if (copy_from_user(&config, call->address, call->data))
		return -EFAULT;
	error = configure(call->at, &config);
	if (error == -EBUSY)
		copy_to_user(call->address + offsetof(struct ptrace_pebs_config, holder),
			     config.holder, sizeof(config.holder));
	return error ? error : (long)call->data;
}

static void add_status(struct tracer *samples, struct ptrace_pebs_config *config)
{
	struct pebs_status status;

	pebs_status(samples, &status);
	config->flags |= (status.lost ? PTRACE_PEBS_LOST : 0u) |
			 (status.truncated ? PTRACE_PEBS_TRUNCATED : 0u) |
			 (status.full ? PTRACE_PEBS_FULL : 0u) |
			 (status.blocked ? PTRACE_PEBS_BLOCKED : 0u);
	memcpy(config->holder, status.holder, sizeof(config->holder));
}

long ptrace_pebs_status(const struct ptrace_call *call)
{
	struct ptrace_pebs_config config = call->at->samples_config;

	if (!is_config(call->data))
		return -EINVAL;
	if (call->at->samples)
		add_status(call->at->samples, &config);
	return copy_to_user(call->address, &config, call->data) ? -EFAULT : (long)call->data;
}

/* --- Reading --- */

/* Room was made: a buffer that was full takes samples again. */
static void resume_recording(struct attachment *at)
{
	if (at->samples_config.flags & PTRACE_PEBS_STOP)
		trace_resume(at->samples);
}

long ptrace_pebs_size(const struct ptrace_call *call)
{
	return (long)pebs_available(call->at->samples);
}

long ptrace_pebs_clear(const struct ptrace_call *call)
{
	pebs_clear(call->at->samples);
	resume_recording(call->at);
	return 0;
}

static size_t next_samples(const struct attachment *at, void *batch, size_t from, size_t most,
			   bool remove)
{
	size_t room = BATCH / at->samples_config.sample_size;

	if (most > room)
		most = room;
	return remove ? pebs_read(at->samples, batch, most)
		      : pebs_peek(at->samples, from, batch, most);
}

static long copy_samples(const struct attachment *at, uint64_t user, size_t most, bool remove)
{
	size_t done = 0, count, bytes = at->samples_config.sample_size;
	uint64_t batch[BATCH / sizeof(uint64_t)];

	do {
		count = next_samples(at, batch, done, most - done, remove);
		if (copy_to_user(user + done * bytes, batch, count * bytes))
			return -EFAULT;
		done += count;
	} while (count && done < most);
	return (long)done;
}

/* Never more than there were when it began: who reads a CPU's adds to them. */
long ptrace_pebs_read(const struct ptrace_call *call)
{
	size_t available = pebs_available(call->at->samples);
	size_t bytes = call->at->samples_config.sample_size, asked = call->data / bytes;
	size_t most = asked < available ? asked : available;
	bool remove = call->request == PTRACE_PEBS_DRAIN;
	long result;

	if (!asked || call->data % bytes)
		return -EIO;
	if (ptrace_check_writable(call->address, most * bytes))
		return -EFAULT;
	result = copy_samples(call->at, call->address, most, remove);
	if (result > 0 && remove)
		resume_recording(call->at);
	return result;
}
