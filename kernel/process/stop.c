// SPDX-License-Identifier: MIT
// A process runs while nobody has stopped it. Hold processes_lock while reading a stopped one.
// Only its release wakes a stopped one: no buffer of its branches changes while a tracer reads it.
#include "abi/ptrace.h"
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/trace.h"

#define EVENT(event, signal) ((event) << 16 | WAIT_STOPPED(signal))

static bool kill_is_pending(const struct process *self)
{
	return self->pending & 1u << SIGKILL;
}

/* Nothing of the tracee is recorded for this tracer until it hears of it and lets it go on. */
static bool waits_for_tracer(const struct tracer *buffer, bool told)
{
	return buffer && !told && trace_is_held(buffer);
}

/* The status of a stop that is due; 0: none is. */
static int next_stop(const struct attachment *at)
{
	if (at->stop || (at->tracee->ends && at->due >> 16 != PTRACE_EVENT_EXIT))
		return 0;
	if (at->due)
		return at->due;
	if (waits_for_tracer(at->trace, at->told) && !(at->config.flags & PTRACE_BTS_SIGNAL_TRACEE))
		return EVENT(PTRACE_EVENT_BTS, (int)at->config.signal);
	if (waits_for_tracer(at->samples, at->told_samples))
		return EVENT(PTRACE_EVENT_PEBS, (int)at->samples_config.signal);
	return 0;
}

/* The buffer's signal is to be sent to the tracee, and is not on its way. */
static bool is_signal_due(const struct attachment *at)
{
	return at->config.flags & PTRACE_BTS_SIGNAL_TRACEE &&
	       waits_for_tracer(at->trace, at->told) &&
	       !(at->tracee->pending & 1u << at->config.signal);
}

/* The attachment of a process that traces itself, which it never stops for, or NULL. */
static struct attachment *find_own(const struct process *self)
{
	struct attachment *at = self->traced;

	while (at && at->task != self->task)
		at = at->next_of_tracer;
	return at;
}

bool attachments_due(const struct process *self)
{
	const struct attachment *own = find_own(self);

	if (own && (waits_for_tracer(own->trace, own->told) ||
		    waits_for_tracer(own->samples, own->told_samples)))
		return true;
	for (const struct attachment *at = self->attachments; at; at = at->next_of_tracee)
		if (next_stop(at) || is_signal_due(at))
			return true;
	return false;
}

static struct signal_cause overflow_cause(const struct attachment *at, int event, unsigned signal)
{
	return (struct signal_cause){.code = SI_EVENT(event, (int)signal),
				     .pid = (int32_t)at->task->pid};
}

/* Of a stop that no signal made. */
static struct signal_cause stop_cause(const struct attachment *at, int status)
{
	int event = status >> 16, signal = status >> 8 & 0xff;

	if (event == PTRACE_EVENT_BTS || event == PTRACE_EVENT_PEBS)
		return overflow_cause(at, event, (unsigned)signal);
	if (event)
		return (struct signal_cause){.code = SI_EVENT(event, signal)};
	if (signal == SIGTRAP)
		return (struct signal_cause){.code = TRAP_TRACE, .address = at->tracee->frame.rip};
	return (struct signal_cause){.code = SI_USER,
				     .pid = at->tracer ? (int32_t)at->tracer->pid : 0};
}

static void report_stop(struct attachment *at, int status, const struct signal_cause *cause)
{
	at->stop = status;
	at->cause = *cause;
	at->seen = false;
	at->tracee->stop_status = status;
	sched_wake_all(&at->tracee->watchers);
	if (at->tracer)
		signal_post_child(at->tracer, at->tracee, status);
}

static void begin_stop(struct attachment *at, int status)
{
	struct signal_cause cause = stop_cause(at, status);

	at->told = status >> 16 == PTRACE_EVENT_BTS;
	at->told_samples = status >> 16 == PTRACE_EVENT_PEBS;
	at->due = 0;
	report_stop(at, status, &cause);
	if (at->told && at->config.flags & PTRACE_BTS_SIGNAL_TRACER)
		signal_post(at->tracer, at->config.signal, &cause);
}

/* Begins the stops that are due, and sends what is to be sent to the tracee. False: no stop was. */
static bool begin_due(struct process *self)
{
	bool any = false;

	for (struct attachment *at = self->attachments; at; at = at->next_of_tracee) {
		int status = next_stop(at);
		struct signal_cause cause;

		if (status) {
			any = true;
			begin_stop(at, status);
		} else if (is_signal_due(at)) {
			cause = overflow_cause(at, PTRACE_EVENT_BTS, at->config.signal);
			signal_post(self, at->config.signal, &cause);
		}
	}
	return any;
}

/* Sends the signal of a buffer that is held, once. */
static void tell_own(struct attachment *at, const struct tracer *buffer, bool *told, int event,
		     unsigned signal)
{
	struct signal_cause cause = overflow_cause(at, event, signal);

	if (!waits_for_tracer(buffer, *told))
		return;
	*told = true;
	signal_post(at->tracer, signal, &cause);
}

void attachments_tell_own(struct process *self)
{
	struct attachment *at = find_own(self);

	if (!at)
		return;
	tell_own(at, at->trace, &at->told, PTRACE_EVENT_BTS, at->config.signal);
	tell_own(at, at->samples, &at->told_samples, PTRACE_EVENT_PEBS, at->samples_config.signal);
}

/* The buffer, if its signal was sent and has been dealt with: it neither waits nor is handled. */
static struct tracer *find_told(const struct process *self, struct tracer *buffer, bool *told,
				unsigned signal)
{
	if (!*told || (self->pending | self->blocked) & BIT(signal) || self->caught == signal)
		return NULL;
	*told = false;
	return buffer;
}

void attachments_resume_own(struct process *self)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct attachment *at = find_own(self);
	struct tracer *trace = NULL, *samples = NULL;

	if (at) {
		trace = find_told(self, at->trace, &at->told, at->config.signal);
		samples =
			find_told(self, at->samples, &at->told_samples, at->samples_config.signal);
	}
	spin_unlock(&processes_lock, flags);
	if (trace)
		trace_resume(trace);
	if (samples)
		trace_resume(samples);
}

void attachments_look(struct process *process)
{
	if (process->state == PROCESS_STOPPED) {
		begin_due(process);
		return;
	}
	sched_break_user(process->task);
	sched_wake_all(&process->waiting);
}

void stand_still(struct process *self)
{
	self->state = PROCESS_STOPPED;
	begin_due(self);
	while (self->state == PROCESS_STOPPED)
		sched_wait(&self->stopped, &processes_lock);
}

bool attachments_stop(struct process *self)
{
	if (kill_is_pending(self) || !begin_due(self))
		return false;
	stand_still(self);
	return true;
}

unsigned attachments_deliver(struct process *self, unsigned signal)
{
	if (kill_is_pending(self) || !self->attachments)
		return kill_is_pending(self) ? 0 : signal;
	self->averted = false;
	self->resume_signal = 0;
	for (struct attachment *at = self->attachments; at; at = at->next_of_tracee) {
		at->delivery = true;
		at->told = waits_for_tracer(at->trace, at->told) && at->config.signal == signal &&
			   at->config.flags & PTRACE_BTS_SIGNAL_TRACEE;
		report_stop(at, WAIT_STOPPED((int)signal), &self->causes[signal]);
	}
	stand_still(self);
	return self->averted ? 0 : self->resume_signal;
}

void attachment_finish(struct attachment *at, unsigned signal)
{
	struct process *tracee = at->tracee;
	struct signal_cause cause = {.code = SI_USER,
				     .pid = at->tracer ? (int32_t)at->tracer->pid : 0};

	if (at->delivery && at->stop) {
		tracee->averted |= !signal;
		tracee->resume_signal = signal;
	} else if (signal) {
		signal_post(tracee, signal, &cause);
	}
	at->stop = 0;
	at->delivery = at->told = at->told_samples = false;
	tracee->stepped = 0;
	for (at = tracee->attachments; at; at = at->next_of_tracee)
		tracee->stepped |= at->step;
	tracee->context.block_step = tracee->stepped == STEP_BLOCK;
	process_release(tracee);
}

/* The tracee looks at the buffer while it holds the lock. */
static void free_buffer(struct tracer **buffer)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct tracer *tracer = *buffer;

	*buffer = NULL;
	spin_unlock(&processes_lock, flags);
	if (tracer)
		trace_detach(tracer);
}

void attachment_free_trace(struct attachment *at)
{
	free_buffer(&at->trace);
	at->config = (struct ptrace_bts_config){0};
}

void attachment_free_samples(struct attachment *at)
{
	free_buffer(&at->samples);
	at->samples_config = (struct ptrace_pebs_config){0};
}

void attachment_free_newest(struct attachment *at)
{
	free_buffer(&at->newest);
}

void attachment_end(struct attachment *at, unsigned signal)
{
	struct process *tracee = at->tracee;
	uint64_t flags;

	attachment_free_trace(at);
	attachment_free_samples(at);
	attachment_free_newest(at);
	flags = spin_lock(&processes_lock);
	attachment_unlink(at);
	if (tracee) {
		at->step = 0;
		attachment_finish(at, signal);
	}
	spin_unlock(&processes_lock, flags);
	if (tracee)
		process_put(tracee);
	attachment_free(at);
}
