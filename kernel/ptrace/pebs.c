// SPDX-License-Identifier: MIT
// The buffer of samples of a tracer: how it is configured; what is read from it.
#include "kernel/trace/pebs/pebs.h"
#include "abi/ptrace.h"
#include "abi/ptrace_lbr.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "kernel/sched/task.h"
#include "kernel/trace/cpu.h"
#include "lib/string.h"

#define MOST_SIZE (1ul << 28) /* of a buffer, whatever the limit is */

_Static_assert(sizeof(struct ptrace_pebs_config) <= sizeof(((struct recording *)0)->config),
	       "room");
_Static_assert(sizeof(((struct cpu_reading *)0)->samples) >=
		       sizeof(struct ptrace_pebs_sample) + 32 * sizeof(struct ptrace_pebs_branch),
	       "a sample");
_Static_assert((int)KINDS_LEFT_OUT == PTRACE_PEBS_HOLDER, "named as a holder is");
_Static_assert(PTRACE_PEBS_USER == TRACE_USER << 4 && PTRACE_PEBS_KERNEL == TRACE_KERNEL << 4,
	       "a view in the flags");

static struct recording *samples_of(struct attachment *at)
{
	return &at->recordings[TRACE_PEBS];
}

static const struct ptrace_pebs_config *config_of(const struct attachment *at)
{
	return (const struct ptrace_pebs_config *)at->recordings[TRACE_PEBS].config;
}

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
		.account = ptrace_account(at),
		.replaces = samples_of(at)->tracer,
		.holder = config->holder,
	};
}

/* Its defaults and its size decided; the tracee reads it when it has to stop. */
static void keep_config(struct attachment *at, const struct ptrace_pebs_config *config)
{
	struct recording *samples = samples_of(at);
	struct ptrace_pebs_config *kept = (struct ptrace_pebs_config *)samples->config;
	struct pebs_status status;

	pebs_status(samples->tracer, &status);
	SPIN_GUARD(&processes_lock);
	*kept = *config;
	kept->flags &= PTRACE_PEBS_SETTABLE;
	kept->size = status.size;
	kept->sample_size = (uint32_t)status.sample_size;
	kept->branches = status.branches;
	if (status.branches && !(kept->flags & PTRACE_PEBS_CALL_STACK) && !kept->kinds)
		kept->kinds = PTRACE_LBR_KINDS;
	memset(kept->holder, 0, sizeof(kept->holder));
	ptrace_fill_in(&kept->flags, &kept->signal, SIGPROF);
	samples->event = PTRACE_EVENT_PEBS;
	samples->signal = kept->signal;
	samples->stops = kept->flags & PTRACE_PEBS_STOP;
}

/* The one there was may have had the counter that the new one needed for a moment. */
static void replace_buffer(struct attachment *at, struct tracer *fresh,
			   const struct ptrace_pebs_config *config)
{
	attachment_replace(at, TRACE_PEBS, fresh);
	if (!fresh)
		return;
	trace_clear(fresh);
	keep_config(at, config);
}

static bool is_config(size_t bytes)
{
	return bytes == sizeof(struct ptrace_pebs_config) || bytes == PTRACE_PEBS_CONFIG_BYTES_1;
}

static int attach_fresh(struct attachment *at, struct ptrace_pebs_config *config)
{
	struct pebs_options options = options_of(at, config);

	return pebs_attach(at->task, at->cpu % MAX_CPUS, &options, &samples_of(at)->fresh);
}

/* Of all CPUs each, or none. */
static int configure(struct attachment *first, struct ptrace_pebs_config *config)
{
	int error = config->size ? check_config(first, config) : 0;

	for (struct attachment *at = first; at && config->size && !error; at = at->next_cpu)
		error = attach_fresh(at, config);
	for (struct attachment *at = first; at; at = at->next_cpu) {
		struct tracer *fresh = samples_of(at)->fresh;

		samples_of(at)->fresh = NULL;
		if (error && fresh)
			trace_detach(fresh);
		else if (!error)
			replace_buffer(at, fresh, config);
	}
	return error;
}

/* One that is refused names the holder, where that can be written; all CPUs, those left out. */
static long do_config(const struct ptrace_call *call)
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

static long do_status(const struct ptrace_call *call)
{
	struct ptrace_pebs_config config = *config_of(call->at);

	if (!is_config(call->data))
		return -EINVAL;
	for (struct attachment *at = call->at; at; at = at->next_cpu)
		if (samples_of(at)->tracer)
			add_status(samples_of(at)->tracer, &config);
	return ptrace_give(call, &config, call->data);
}

/* --- Reading --- */

static bool counts(const struct attachment *at)
{
	return config_of(at)->flags & PTRACE_PEBS_COUNT;
}

static long do_size(const struct ptrace_call *call)
{
	size_t sum = 0;

	for (struct attachment *at = call->at; at; at = at->next_cpu)
		sum += counts(at) ? 1 : pebs_available(samples_of(at)->tracer);
	return (long)sum;
}

static const struct ptrace_pebs_sample *next_of_cpu(struct attachment *at)
{
	struct cpu_reading *reading = &at->reading;
	size_t unit = config_of(at)->sample_size, most = sizeof(reading->samples) / unit;

	if (reading->at == reading->count && reading->left) {
		reading->at = 0;
		reading->count =
			(unsigned)pebs_peek(samples_of(at)->tracer, reading->next, reading->samples,
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
	size_t done, unit = config_of(first)->sample_size;

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
		at->reading.left = pebs_available(samples_of(at)->tracer);
		available += at->reading.left;
	}
	return asked < available ? asked : available;
}

static long read_samples(const struct ptrace_call *call)
{
	size_t unit = config_of(call->at)->sample_size;
	size_t most = begin_reading(call->at, call->data / unit);
	long result = ptrace_check_writable(call->address, (most + !most) * unit)
			      ? -EFAULT
			      : copy_samples(call->at, call->address, most);

	if (result <= 0 || call->request != PTRACE_PEBS_DRAIN)
		return result;
	for (struct attachment *at = call->at; at; at = at->next_cpu)
		pebs_read(samples_of(at)->tracer, NULL, at->reading.given);
	ptrace_resume(call);
	return result;
}

/* Of each CPU one, in the order of their numbers. */
static long read_counts(const struct ptrace_call *call)
{
	size_t asked = call->data / sizeof(uint64_t), done = 0;

	for (struct attachment *at = call->at; at && done < asked; at = at->next_cpu, done++) {
		struct pebs_status status;

		pebs_status(samples_of(at)->tracer, &status);
		if (copy_to_user(call->address + done * sizeof(status.events), &status.events,
				 sizeof(status.events)))
			return -EFAULT;
	}
	return (long)done;
}

static long do_read(const struct ptrace_call *call)
{
	if (!call->data || call->data % config_of(call->at)->sample_size)
		return -EIO;
	return counts(call->at) ? read_counts(call) : read_samples(call);
}

static const struct ptrace_row rows[] = {
	{PTRACE_PEBS_CONFIG, NEEDS_STOPPED, do_config},
	{PTRACE_PEBS_STATUS, NEEDS_READABLE, do_status},
	{PTRACE_PEBS_SIZE, NEEDS_BUFFER, do_size},
	{PTRACE_PEBS_CLEAR, NEEDS_BUFFER, ptrace_clear},
	{PTRACE_PEBS_DRAIN, NEEDS_BUFFER, do_read},
	{PTRACE_PEBS_READ, NEEDS_BUFFER, do_read},
};
const struct ptrace_unit ptrace_pebs_unit = {
	.unit = TRACE_PEBS, .all_cpus = PTRACE_PEBS_ALL_CPUS, PTRACE_ROWS(rows)};
