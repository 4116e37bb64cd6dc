// SPDX-License-Identifier: MIT
#include "kernel/trace/bts/bts.h"
#include "abi/ptrace.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/bts.h"
#include "kernel/ptrace/internal.h"

#define RECORD	  sizeof(struct ptrace_bts_record)
#define MOST_SIZE (1ul << 28) /* of a buffer, whatever the limit is */

/* The newest CONFIG. */
struct kept {
	struct ptrace_bts_config config;
	uint64_t requested; /* size that it was given; config.size: what it got */
};
_Static_assert(sizeof(struct kept) <= sizeof(((struct recording *)0)->config), "room");

_Static_assert(PTRACE_BTS_USER == TRACE_USER << 4 && PTRACE_BTS_KERNEL == TRACE_KERNEL << 4,
	       "a view in the flags");

static struct tracer *buffer_of(const struct attachment *at)
{
	return at->recordings[TRACE_BTS].tracer;
}

static struct kept *kept_of(struct attachment *at)
{
	return (struct kept *)at->recordings[TRACE_BTS].config;
}

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

static bool are_flags_refused(uint64_t flags)
{
	uint64_t sends = flags & (PTRACE_BTS_SIGNAL_TRACEE | PTRACE_BTS_SIGNAL_TRACER);

	return flags & ~(uint64_t)(PTRACE_BTS_SETTABLE | PTRACE_BTS_REPORTED) ||
	       (flags & PTRACE_BTS_SIGNAL && flags & PTRACE_BTS_STOP) ||
	       (sends && !(flags & PTRACE_BTS_SIGNAL)) ||
	       sends == (PTRACE_BTS_SIGNAL_TRACEE | PTRACE_BTS_SIGNAL_TRACER);
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
	return !at->task && config->flags & PTRACE_BTS_SIGNAL ? -EOPNOTSUPP : 0;
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
		.account = ptrace_account(at),
		.replaces = buffer_of(at),
	};
}

static uint64_t whole_records(uint64_t size)
{
	return size - size % RECORD;
}

/* Its defaults and its size decided; the tracee reads it when it has to stop. */
static void keep_config(struct attachment *at, const struct ptrace_bts_config *config)
{
	struct recording *branches = &at->recordings[TRACE_BTS];
	struct kept *kept = kept_of(at);
	struct bts_status status;

	bts_status(buffer_of(at), &status);
	SPIN_GUARD(&processes_lock);
	kept->config = *config;
	kept->config.flags &= PTRACE_BTS_SETTABLE;
	kept->config.size = status.size;
	kept->config.bts_size = RECORD;
	kept->requested = whole_records(config->size);
	ptrace_fill_in(&kept->config.flags, &kept->config.signal, SIGIO);
	branches->event = PTRACE_EVENT_BTS;
	branches->signal = kept->config.signal;
	branches->stops = config->flags & PTRACE_BTS_STOP;
	branches->to_tracee = config->flags & PTRACE_BTS_SIGNAL_TRACEE;
	branches->to_tracer = config->flags & PTRACE_BTS_SIGNAL_TRACER;
}

/* The buffer there is has that size, or is what the same request was cut to. */
static bool has_size(struct attachment *at, const struct ptrace_bts_config *config)
{
	const struct kept *kept = kept_of(at);
	uint64_t size = whole_records(config->size);

	return buffer_of(at) && (kept->config.size == size ||
				 (kept->requested == size && config->flags & PTRACE_BTS_CUT_SIZE));
}

long ptrace_bts_config(struct attachment *at, const struct ptrace_bts_config *config)
{
	struct bts_options options = options_of(at, config);
	struct tracer *fresh = NULL;
	int error;

	if (!config->size) {
		attachment_replace(at, TRACE_BTS, NULL);
		return 0;
	}
	error = check_config(at, config);
	if (error)
		return error;
	if (has_size(at, config))
		error = bts_change(buffer_of(at), &options);
	else
		error = bts_attach(at->task, at->cpu, &options, &fresh);
	if (error)
		return error;
	if (fresh)
		attachment_replace(at, TRACE_BTS, fresh);
	keep_config(at, config);
	return 0;
}

void ptrace_bts_status(struct attachment *at, struct ptrace_bts_config *config)
{
	struct bts_status status;

	*config = kept_of(at)->config;
	if (!buffer_of(at))
		return;
	bts_status(buffer_of(at), &status);
	config->flags |=
		(status.filter == BTS_FILTER_SOFTWARE ? PTRACE_BTS_SOFTWARE : 0u) |
		(status.lost || status.lost_more || status.truncated ? PTRACE_BTS_LOST : 0u) |
		(status.truncated ? PTRACE_BTS_TRUNCATED : 0u) |
		(status.full ? PTRACE_BTS_FULL : 0u);
}

/* Bytes of the structure that the caller knows: any other size is that of 2007, of two words. */
static size_t config_bytes(const struct ptrace_call *call)
{
	return call->data == sizeof(struct ptrace_bts_config) ? sizeof(struct ptrace_bts_config)
							      : 2 * ptrace_word_bytes(call);
}

/* Of 32-bit code: the first two members are half as large. */
#define IS_NARROW(bytes) ((bytes) == 2 * sizeof(uint32_t))

static long do_config(const struct ptrace_call *call)
{
	struct ptrace_bts_config config = {0};
	size_t bytes = config_bytes(call);
	uint32_t narrow[2];
	long error;

	if (copy_from_user(IS_NARROW(bytes) ? (void *)narrow : &config, call->address, bytes))
		return -EFAULT;
	if (IS_NARROW(bytes))
		config = (struct ptrace_bts_config){.size = narrow[0], .flags = narrow[1]};
	error = ptrace_bts_config(call->at, &config);
	return error || bytes < sizeof(config) ? error : (long)bytes;
}

static long do_status(const struct ptrace_call *call)
{
	struct ptrace_bts_config config;
	size_t bytes = config_bytes(call);
	uint32_t narrow[2];

	ptrace_bts_status(call->at, &config);
	narrow[0] = (uint32_t)config.size;
	narrow[1] = (uint32_t)config.flags;
	return ptrace_give(call, IS_NARROW(bytes) ? (void *)narrow : &config, bytes);
}

static const struct ptrace_row rows[] = {
	{PTRACE_BTS_CONFIG, NEEDS_STOPPED, do_config},
	{PTRACE_BTS_STATUS, NEEDS_READABLE, do_status},
	{PTRACE_BTS_SIZE, NEEDS_BUFFER, ptrace_bts_size},
	{PTRACE_BTS_GET, NEEDS_BUFFER, ptrace_bts_get},
	{PTRACE_BTS_CLEAR, NEEDS_BUFFER, ptrace_clear},
	{PTRACE_BTS_DRAIN, NEEDS_BUFFER, ptrace_bts_read},
	{PTRACE_BTS_READ, NEEDS_BUFFER, ptrace_bts_read},
};
const struct ptrace_unit ptrace_bts_unit = {.unit = TRACE_BTS, PTRACE_ROWS(rows)};
