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
static bool waits_for_tracer(const struct recording *of)
{
	return !of->told && trace_is_held(of->tracer);
}

/*
 * Visits the recordings that have a buffer. One turn for each unit would be more branches on the
 * way back to a tracee than a small buffer has room for.
 */
#define FOR_EACH_RECORDING(of, at)                                                                 \
	for (unsigned left = (at)->buffers; left; left &= left - 1)                                \
		for (__typeof__(&(at)->recordings[0]) of = &(at)->recordings[__builtin_ctz(left)]; \
		     of; of = NULL)

/*
 * The status of a stop that is due; 0: none is. In `signals` are the units of the buffers whose
 * signal is to be sent to the tracee, and is not on its way.
 */
static int next_stop(const struct attachment *at, unsigned *signals)
{
	int status = at->due;

	*signals = 0;
	FOR_EACH_RECORDING (of, at)
		if (!waits_for_tracer(of))
			continue;
		else if (!of->to_tracee)
			status = status ? status : EVENT(of->event, (int)of->signal);
		else if (!(at->tracee->pending & BIT(of->signal)))
			*signals |= 1u << (of - at->recordings);
	return at->stop || (at->tracee->ends && at->due >> 16 != PTRACE_EVENT_EXIT) ? 0 : status;
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
	unsigned signals;

	if (own)
		FOR_EACH_RECORDING (of, own)
			if (waits_for_tracer(of))
				return true;
	for (const struct attachment *at = self->attachments; at; at = at->next_of_tracee)
		if (next_stop(at, &signals) || signals)
			return true;
	return false;
}

static struct signal_cause overflow_cause(const struct attachment *at, const struct recording *of)
{
	return (struct signal_cause){.code = SI_EVENT(of->event, (int)of->signal),
				     .pid = (int32_t)at->task->pid};
}

static void send(struct process *to, const struct attachment *at, const struct recording *of)
{
	struct signal_cause cause = overflow_cause(at, of);

	signal_post(to, of->signal, &cause);
}

/* Of a stop that no signal made. */
static struct signal_cause stop_cause(const struct attachment *at, int status)
{
	int event = status >> 16, signal = status >> 8 & 0xff;

	FOR_EACH_RECORDING (of, at)
		if (of->told)
			return overflow_cause(at, of);
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
	struct signal_cause cause;

	FOR_EACH_RECORDING (of, at)
		of->told = of->event && of->event == status >> 16;
	cause = stop_cause(at, status);
	at->due = 0;
	report_stop(at, status, &cause);
	FOR_EACH_RECORDING (of, at)
		if (of->told && of->to_tracer)
			signal_post(at->tracer, of->signal, &cause);
}

/* Begins the stops that are due, and sends what is to be sent to the tracee. False: no stop was. */
static bool begin_due(struct process *self)
{
	bool any = false;

	for (struct attachment *at = self->attachments; at; at = at->next_of_tracee) {
		unsigned signals;
		int status = next_stop(at, &signals);

		any |= status != 0;
		if (status)
			begin_stop(at, status);
		else
			for (; signals; signals &= signals - 1)
				send(self, at, &at->recordings[__builtin_ctz(signals)]);
	}
	return any;
}

/* Sends the signal of each buffer that is held, once. */
void attachments_tell_own(struct process *self)
{
	struct attachment *at = find_own(self);

	if (!at)
		return;
	FOR_EACH_RECORDING (of, at)
		if (waits_for_tracer(of)) {
			of->told = true;
			send(self, at, of);
		}
}

/* Its signal was sent and has been dealt with: it neither waits nor is handled. */
static bool is_dealt_with(const struct process *self, const struct recording *of)
{
	return of->told && !((self->pending | self->blocked) & BIT(of->signal)) &&
	       self->caught != of->signal;
}

void attachments_resume_own(struct process *self)
{
	struct tracer *dealt_with[TRACE_UNITS] = {NULL}, **next = dealt_with;
	uint64_t flags = spin_lock(&processes_lock);
	struct attachment *at = find_own(self);

	if (at)
		FOR_EACH_RECORDING (of, at)
			if (is_dealt_with(self, of)) {
				of->told = false;
				*next++ = of->tracer;
			}
	spin_unlock(&processes_lock, flags);
	while (next > dealt_with)
		trace_resume(*--next);
}

void attachments_look(struct process *process)
{
	if (process->state == PROCESS_STOPPED) {
		begin_due(process);
		return;
	}
	sched_break_user(process->task);
	sched_wake_all(&process->task->sleeping);
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
		FOR_EACH_RECORDING (of, at)
			of->told = waits_for_tracer(of) && of->to_tracee && of->signal == signal;
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
	at->delivery = false;
	FOR_EACH_RECORDING (of, at)
		of->told = false;
	tracee->stepped = 0;
	for (at = tracee->attachments; at; at = at->next_of_tracee)
		tracee->stepped |= at->step;
	tracee->context.block_step = tracee->stepped == STEP_BLOCK;
	process_release(tracee);
}

/* The tracee looks at the buffer while it holds the lock. */
void attachment_replace(struct attachment *at, unsigned unit, struct tracer *fresh)
{
	struct recording *of = &at->recordings[unit];
	uint64_t flags = spin_lock(&processes_lock);
	struct tracer *old = of->tracer;

	*of = (struct recording){.tracer = fresh};
	at->buffers = (at->buffers & ~(1u << unit)) | (fresh ? 1u << unit : 0);
	spin_unlock(&processes_lock, flags);
	if (old)
		trace_detach(old);
}

void attachment_resume(struct attachment *at)
{
	FOR_EACH_RECORDING (of, at)
		if (of->told)
			trace_resume(of->tracer);
}

void attachment_end(struct attachment *at, unsigned signal)
{
	struct process *tracee = at->tracee;
	uint64_t flags;

	for (unsigned unit = 0; unit < TRACE_UNITS; unit++)
		attachment_replace(at, unit, NULL);
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
