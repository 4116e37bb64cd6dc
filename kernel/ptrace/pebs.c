// SPDX-License-Identifier: MIT
// The buffer of samples of a tracer: how it is configured; what is read from it.
#include "kernel/trace/pebs/pebs.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "kernel/sched/task.h"
#include "kernel/trace/cpu.h"
#include "lib/string.h"

#define MOST_SIZE (1ul << 28) /* of a buffer, whatever the limit is */

_Static_assert((int)KINDS_LEFT_OUT == PTRACE_PEBS_HOLDER, "named as a holder is");
_Static_assert(PTRACE_PEBS_USER == TRACE_USER << 4 && PTRACE_PEBS_KERNEL == TRACE_KERNEL << 4,
	       "a view in the flags");

static bool is_counter_refused(const struct ptrace_pebs_config *config)
{
	return config->flags & PTRACE_PEBS_COUNTER ? config->counter >= 64 : config->counter;
}

/* One that counts has no buffer to be full; what is left of a limit is no size for each CPU. */
static bool are_flags_refused(const struct attachment *at, uint64_t flags)
{
	uint64_t other = PTRACE_PEBS_STOP | (flags & PTRACE_PEBS_COUNT ? PTRACE_PEBS_SIGNAL : 0);

	return flags & ~(uint64_t)(PTRACE_PEBS_SETTABLE | PTRACE_PEBS_REPORTED) ||
	       (flags & (PTRACE_PEBS_SIGNAL | PTRACE_PEBS_COUNT) && flags & other) ||
	       (flags & PTRACE_PEBS_CUT_SIZE && (at->cpu >= MAX_CPUS || flags & PTRACE_PEBS_COUNT));
}

/* Periods, events and counters are the unit's to judge. */
static int check_config(const struct attachment *at, const struct ptrace_pebs_config *config)
{
	uint64_t flags = config->flags;
	size_t unit =
		flags & PTRACE_PEBS_COUNT ? sizeof(uint64_t) : pebs_sample_size(config->branches);

	if (are_flags_refused(at, flags) || ptrace_is_signal_refused(flags, config->signal) ||
	    is_counter_refused(config) || (config->sample_size && config->sample_size != unit) ||
	    config->size < unit || (flags & PTRACE_PEBS_COUNT && config->size != unit))
		return -EINVAL;
	if (config->size > MOST_SIZE && !(config->flags & PTRACE_PEBS_CUT_SIZE))
		return -ENOMEM;
	return !at->task && config->flags & PTRACE_PEBS_SIGNAL ? -EOPNOTSUPP : 0;
}

static struct pebs_options options_of(struct attachment *at, struct ptrace_pebs_config *config)
{
	uint64_t flags = config->flags, ends = PTRACE_PEBS_STOP | PTRACE_PEBS_COUNT;

	return (struct pebs_options){
		.event = config->event,
		.raw = flags & PTRACE_PEBS_RAW,
		.interrupt = flags & PTRACE_PEBS_INTERRUPT,
		.count = flags & PTRACE_PEBS_COUNT,
		.period = config->period,
		.counters = flags & PTRACE_PEBS_COUNTER ? 1ull << config->counter : 0,
		.view = flags / PTRACE_PEBS_USER & (TRACE_USER | TRACE_KERNEL),
		.privileged = ptrace_may_see_kernel(at),
		.cut_size = flags & PTRACE_PEBS_CUT_SIZE,
		.branches = config->branches,
		.kinds = config->kinds,
		.call_stack = flags & PTRACE_PEBS_CALL_STACK,
		.overflow = flags & PTRACE_PEBS_SIGNAL ? TRACE_SIGNAL
			    : flags & ends	       ? TRACE_STOP
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
static void replace_buffer(struct attachment *at, struct tracer *fresh,
			   const struct ptrace_pebs_config *config)
{
	attachment_free_samples(at);
	if (!fresh)
		return;
	pebs_clear(fresh);
	at->samples = fresh;
	keep_config(at, config);
}

static bool is_config(size_t bytes)
{
	return bytes == sizeof(struct ptrace_pebs_config) || bytes == PTRACE_PEBS_CONFIG_BYTES_1;
}

static int attach_fresh(struct attachment *at, struct ptrace_pebs_config *config)
{
	struct pebs_options options = options_of(at, config);
	int error = at->task ? pebs_attach(at->task, &options, &at->fresh)
			     : pebs_attach_cpu(at->cpu % MAX_CPUS, &options, &at->fresh);

	return error == -ENODEV ? -EOPNOTSUPP : error;
}

/* Of all CPUs each, or none. */
static int configure(struct attachment *first, struct ptrace_pebs_config *config)
{
	int error = config->size ? check_config(first, config) : 0;

	for (struct attachment *at = first; at && config->size && !error; at = at->next_cpu)
		error = attach_fresh(at, config);
	for (struct attachment *at = first; at; at = at->next_cpu) {
		struct tracer *fresh = at->fresh;

		at->fresh = NULL;
		if (error && fresh)
			trace_detach(fresh);
		else if (!error)
			replace_buffer(at, fresh, config);
	}
	return error;
}

/* One that is refused names the holder, where that can be written; all CPUs, those left out. */
long ptrace_pebs_config(const struct ptrace_call *call)
{
	bool all = call->at->cpu >= MAX_CPUS;
	struct ptrace_pebs_config config = {.branches = 0};
	int error;

	if (!is_config(call->data))
		return -EINVAL;
	if (copy_from_user(&config, call->address, call->data))
		return -EFAULT;
	error = configure(call->at, &config);
	if (!error && all)
		memcpy(config.holder, kinds_named_left_out, sizeof(config.holder));
	if (error == -EBUSY || (!error && all))
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
	if (!config->holder[0])
		memcpy(config->holder, status.holder, sizeof(config->holder));
}

long ptrace_pebs_status(const struct ptrace_call *call)
{
	struct ptrace_pebs_config config = call->at->samples_config;

	if (!is_config(call->data))
		return -EINVAL;
	for (struct attachment *at = call->at; at; at = at->next_cpu)
		if (at->samples)
			add_status(at->samples, &config);
	return copy_to_user(call->address, &config, call->data) ? -EFAULT : (long)call->data;
}

/* --- Reading --- */

/* Room was made: buffers that were full take samples again. */
static void resume_recording(struct attachment *first)
{
	for (struct attachment *at = first; at; at = at->next_cpu)
		if (at->samples_config.flags & PTRACE_PEBS_STOP)
			trace_resume(at->samples);
}

static bool counts(const struct attachment *at)
{
	return at->samples_config.flags & PTRACE_PEBS_COUNT;
}

long ptrace_pebs_size(const struct ptrace_call *call)
{
	size_t sum = 0;

	for (struct attachment *at = call->at; at; at = at->next_cpu)
		sum += counts(at) ? 1 : pebs_available(at->samples);
	return (long)sum;
}

long ptrace_pebs_clear(const struct ptrace_call *call)
{
	for (struct attachment *at = call->at; at; at = at->next_cpu)
		pebs_clear(at->samples);
	resume_recording(call->at);
	return 0;
}

static const struct ptrace_pebs_sample *next_of_cpu(struct attachment *at)
{
	struct samples_reading *reading = &at->reading;
	size_t unit = at->samples_config.sample_size, most = sizeof(reading->samples) / unit;

	if (reading->at == reading->count && reading->left) {
		reading->at = 0;
		reading->count = (unsigned)pebs_peek(at->samples, reading->next, reading->samples,
						     reading->left < most ? reading->left : most);
		reading->next += reading->count;
		reading->left -= reading->count;
	}
	return reading->at < reading->count ? (const void *)(reading->samples + reading->at * unit)
					    : NULL;
}

/* The oldest by TSC; where samples have none, which is 0, of the first CPU that has any. */
static const struct ptrace_pebs_sample *take_next(struct attachment *first)
{
	const struct ptrace_pebs_sample *oldest = NULL;
	struct attachment *of = first;

	for (struct attachment *at = first; at; at = at->next_cpu) {
		const struct ptrace_pebs_sample *sample = next_of_cpu(at);

		if (sample && (!oldest || sample->tsc < oldest->tsc)) {
			oldest = sample;
			of = at;
		}
	}
	of->reading.at += oldest != NULL;
	of->reading.given += oldest != NULL;
	return oldest;
}

static long copy_samples(struct attachment *first, uint64_t user, size_t most)
{
	const struct ptrace_pebs_sample *next;
	size_t done, unit = first->samples_config.sample_size;

	for (done = 0; done < most && (next = take_next(first)); done++)
		if (copy_to_user(user + done * unit, next, unit))
			return -EFAULT;
	return (long)done;
}

/* Never more than there were when it began: the reader of a CPU adds to them. */
static size_t begin_reading(struct attachment *first, size_t asked)
{
	size_t available = 0;

	for (struct attachment *at = first; at; at = at->next_cpu) {
		at->reading.next = at->reading.given = 0;
		at->reading.at = at->reading.count = 0;
		at->reading.left = pebs_available(at->samples);
		available += at->reading.left;
	}
	return asked < available ? asked : available;
}

static long read_samples(const struct ptrace_call *call)
{
	size_t unit = call->at->samples_config.sample_size;
	size_t most = begin_reading(call->at, call->data / unit);
	long result = ptrace_check_writable(call->address, (most + !most) * unit)
			      ? -EFAULT
			      : copy_samples(call->at, call->address, most);

	if (result <= 0 || call->request != PTRACE_PEBS_DRAIN)
		return result;
	for (struct attachment *at = call->at; at; at = at->next_cpu)
		pebs_read(at->samples, NULL, at->reading.given);
	resume_recording(call->at);
	return result;
}

/* Of each CPU one, in the order of their numbers. */
static long read_counts(const struct ptrace_call *call)
{
	size_t asked = call->data / sizeof(uint64_t), done = 0;

	for (struct attachment *at = call->at; at && done < asked; at = at->next_cpu, done++) {
		struct pebs_status status;

		pebs_status(at->samples, &status);
		if (copy_to_user(call->address + done * sizeof(status.events), &status.events,
				 sizeof(status.events)))
			return -EFAULT;
	}
	return (long)done;
}

long ptrace_pebs_read(const struct ptrace_call *call)
{
	if (!call->data || call->data % call->at->samples_config.sample_size)
		return -EIO;
	return counts(call->at) ? read_counts(call) : read_samples(call);
}
