// SPDX-License-Identifier: MIT
#include "kernel/trace/bts/bts.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/unit.h"

#define RECORD	  sizeof(struct ptrace_bts_record)
#define MOST_SIZE (1ul << 28) /* of a buffer, whatever the limit is */

_Static_assert(PTRACE_BTS_USER == TRACE_USER << 4 && PTRACE_BTS_KERNEL == TRACE_KERNEL << 4,
	       "a view in the flags");

bool ptrace_is_signal_refused(uint64_t flags, uint32_t signal)
{
	return flags & PTRACE_BTS_SIGNAL &&
	       (signal >= SIGNALS || signal == SIGKILL || signal == SIGSTOP);
}

void ptrace_fill_in(uint64_t *flags, uint32_t *signal, uint32_t usual)
{
	if (!(*flags & (PTRACE_BTS_USER | PTRACE_BTS_KERNEL)))
		*flags |= PTRACE_BTS_USER;
	if (!(*flags & PTRACE_BTS_SIGNAL))
		*signal = 0;
	else if (!*signal)
		*signal = usual;
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

static bool are_flags_refused(uint64_t flags)
{
	uint64_t sends = flags & (PTRACE_BTS_SIGNAL_TRACEE | PTRACE_BTS_SIGNAL_TRACER);

	return flags & ~(uint64_t)(PTRACE_BTS_SETTABLE | PTRACE_BTS_REPORTED) ||
	       (flags & PTRACE_BTS_SIGNAL && flags & PTRACE_BTS_STOP) ||
	       (sends && !(flags & PTRACE_BTS_SIGNAL)) ||
	       sends == (PTRACE_BTS_SIGNAL_TRACEE | PTRACE_BTS_SIGNAL_TRACER);
}

bool ptrace_may_see_kernel(const struct attachment *at)
{
	return !at->tracer || at->tracer->privileged;
}

static int check_config(const struct attachment *at, const struct ptrace_bts_config *config)
{
	if (are_flags_refused(config->flags) ||
	    ptrace_is_signal_refused(config->flags, config->signal) ||
	    (config->bts_size && config->bts_size != RECORD) || config->size < RECORD)
		return -EINVAL;
	if (config->flags & PTRACE_BTS_KERNEL && !ptrace_may_see_kernel(at))
		return -EPERM;
	if (config->size > MOST_SIZE && !(config->flags & PTRACE_BTS_CUT_SIZE))
		return -ENOMEM;
	if (config->flags & PTRACE_BTS_SIGNAL_TRACER && !at->tracer)
		return -EINVAL;
	return (!at->task && config->flags & PTRACE_BTS_SIGNAL) || !bts_unit.is_present()
		       ? -EOPNOTSUPP
		       : 0;
}

/* The tracee stops, or sends itself its signal, as soon as it looks: the trace is held. */
void ptrace_stop_at_threshold(struct tracer *tracer, void *argument)
{
	struct attachment *at = argument;
	SPIN_GUARD(&processes_lock);

	(void)tracer;
	attachments_look(at->tracee ? at->tracee : at->tracer);
}

static struct bts_options options_of(struct attachment *at, const struct ptrace_bts_config *config)
{
	uint64_t flags = config->flags;
	bool branches = flags & PTRACE_BTS_TRACE;

	return (struct bts_options){
		/* Where no branches are recorded the hardware shall find as few as it can. */
		.view = branches ? flags / PTRACE_BTS_USER & (TRACE_USER | TRACE_KERNEL) : 0,
		.privileged = ptrace_may_see_kernel(at),
		.stamps = flags & PTRACE_BTS_SCHED,
		.cut_size = flags & PTRACE_BTS_CUT_SIZE,
		.no_branches = !branches,
		.paused = !(flags & (PTRACE_BTS_TRACE | PTRACE_BTS_SCHED)),
		.overflow = flags & PTRACE_BTS_SIGNAL ? TRACE_SIGNAL
			    : flags & PTRACE_BTS_STOP ? TRACE_STOP
						      : TRACE_WRAP,
		.size = config->size < MOST_SIZE ? config->size : MOST_SIZE,
		.overflowed = ptrace_stop_at_threshold,
		.argument = at,
		.account = at->tracer ? &at->tracer->account : NULL,
		.replaces = at->trace,
	};
}

static int replace_buffer(struct attachment *at, const struct bts_options *options)
{
	struct tracer *fresh = NULL;
	int error = at->task ? bts_attach(at->task, options, &fresh)
			     : bts_attach_cpu(at->cpu, options, &fresh);

	if (error)
		return error;
	attachment_free_trace(at);
	at->trace = fresh;
	return 0;
}

static uint64_t whole_records(uint64_t size)
{
	return size - size % RECORD;
}

/* Its defaults and its size decided; the tracee reads it when it has to stop. */
static void keep_config(struct attachment *at, const struct ptrace_bts_config *config)
{
	struct bts_status status;

	bts_status(at->trace, &status);
	SPIN_GUARD(&processes_lock);
	at->config = *config;
	at->config.flags &= PTRACE_BTS_SETTABLE;
	at->config.size = status.size;
	at->requested = whole_records(config->size);
	at->config.bts_size = RECORD;
	ptrace_fill_in(&at->config.flags, &at->config.signal, SIGIO);
}

/* The buffer there is has that size, or is what the same request was cut to. */
static bool has_size(const struct attachment *at, const struct ptrace_bts_config *config)
{
	uint64_t size = whole_records(config->size);

	return at->trace && (at->config.size == size ||
			     (at->requested == size && config->flags & PTRACE_BTS_CUT_SIZE));
}

long ptrace_bts_config(struct attachment *at, const struct ptrace_bts_config *config)
{
	struct bts_options options = options_of(at, config);
	int error;

	if (!config->size) {
		attachment_free_trace(at);
		return 0;
	}
	error = check_config(at, config);
	if (error)
		return error;
	if (has_size(at, config))
		error = bts_change(at->trace, &options);
	else
		error = replace_buffer(at, &options);
	if (!error)
		keep_config(at, config);
	return error;
}

void ptrace_bts_status(struct attachment *at, struct ptrace_bts_config *config)
{
	struct bts_status status;

	*config = at->config;
	if (!at->trace)
		return;
	bts_status(at->trace, &status);
	config->flags |=
		(status.filter == BTS_FILTER_SOFTWARE ? PTRACE_BTS_SOFTWARE : 0u) |
		(status.lost || status.lost_more || status.truncated ? PTRACE_BTS_LOST : 0u) |
		(status.truncated ? PTRACE_BTS_TRUNCATED : 0u) |
		(status.full ? PTRACE_BTS_FULL : 0u);
}
