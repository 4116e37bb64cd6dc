// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/export/export.h"
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "kernel/trace/cpu.h"

/* No process will wait for the children: those that have ended go now, the others at their end. */
static void give_up_children(const struct process *self)
{
	for (;;) {
		uint64_t flags = spin_lock(&processes_lock);
		struct process *child = processes;

		while (child && child->parent != self)
			child = child->next;
		if (child)
			child->parent = NULL;
		spin_unlock(&processes_lock, flags);
		if (!child)
			return;
		process_put(child);
	}
}

/* Detaches from all that it traces: the signal of a stop acts as if no process had traced. */
static void drop_attachments(struct process *self)
{
	for (;;) {
		uint64_t flags = spin_lock(&processes_lock);
		struct attachment *at = self->traced;
		unsigned signal = at && at->delivery ? (unsigned)at->stop >> 8 & 0xff : 0;

		spin_unlock(&processes_lock, flags);
		if (!at)
			return;
		attachment_end(at, signal);
	}
}

/* A tracer that asked for it looks at the process as it was when it made the call. */
static void stop_before_end(struct process *self, int status)
{
	SPIN_GUARD(&processes_lock);

	attachments_exit(self, status);
	attachments_stop(self);
}

/* Reports `status`, with which it stopped or ended, to parent and watchers. */
static void report_change(struct process *process, int status)
{
	sched_wake_all(&process->watchers);
	if (process->parent)
		signal_post_child(process->parent, process, status);
}

static void tell_tracers(const struct process *process)
{
	for (const struct attachment *at = process->attachments; at; at = at->next_of_tracee)
		if (at->tracer && at->tracer != process->parent)
			signal_post_child(at->tracer, process, process->status);
}

void process_end(struct process *self, int status)
{
	uint64_t flags, root;

	if (status != WAIT_KILLED(SIGKILL))
		stop_before_end(self, status);
	user_context_drop();
	root = space_clear(&self->space);
	give_up_children(self);
	drop_attachments(self);
	process_ends(self, root);
	if (export_wants(EXPORT_PROGRAMS))
		export_task_end(self->task);
	trace_task_ended(self->task); /* before the end is reported, so that its trace is whole */
	flags = spin_lock(&processes_lock);
	self->status = status;
	self->state = PROCESS_ENDED;
	self->pending = 0;
	report_change(self, status);
	tell_tracers(self);
	spin_unlock(&processes_lock, flags);
	process_put(self);
	task_exit();
}

/* Of exceptions: their handlers are to find the registers of the instruction. */
#define FAULTS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGFPE))

/* SIGKILL first, then those of exceptions, then by number; 0 if none is to act. */
static unsigned take_signal(struct process *self)
{
	uint32_t due = signals_to_act(self);
	unsigned signal;

	if (!due)
		return 0;
	if (due & BIT(SIGKILL))
		due = BIT(SIGKILL);
	else if (due & FAULTS)
		due &= FAULTS;
	signal = (unsigned)__builtin_ctz(due);
	self->pending &= ~BIT(signal);
	self->continued = false;
	return signal;
}

/* One signal, less what tracers make of it, for which it stops. 0: none; else see `cause`. */
static unsigned next_signal(struct process *self, bool *any, struct signal_cause *cause)
{
	unsigned signal = take_signal(self), acts = signal;

	*any = signal;
	*cause = self->causes[signal];
	if (signal && signal != SIGKILL)
		acts = attachments_deliver(self, signal);
	if (acts != signal)
		*cause = (struct signal_cause){.code = SI_USER};
	return acts;
}

/* SIGCONT discards stop signals (POSIX.1, 2.4.3), also one that a tracer has yet to let act. */
static void job_stop(struct process *self, unsigned signal)
{
	if (self->continued)
		return;
	self->job_stop = signal;
	self->stop_seen = false;
	self->stop_status = WAIT_STOPPED((int)signal);
	report_change(self, self->stop_status);
	stand_still(self);
}

/* What is left of a signal once tracers have seen it; one that they chose may be blocked. */
static void act_on(struct process *self, unsigned signal, const struct signal_cause *cause,
		   uint64_t flags)
{
	if (!signal || signal_is_ignored(self, signal))
		return;
	if (self->blocked & BIT(signal)) {
		signal_post(self, signal, cause);
	} else if (signal_has_handler(self, signal)) {
		self->caught = signal;
		self->caught_cause = *cause;
	} else if (BIT(signal) & STOPPING) {
		job_stop(self, signal);
	} else {
		spin_unlock(&processes_lock, flags);
		process_end(self, WAIT_KILLED((int)signal));
	}
}

/* Begins what is due next. False: nothing is, or a handler that has to wait for a call's end. */
static bool act_once(struct process *self, uint64_t flags)
{
	struct signal_cause cause;
	unsigned signal;
	bool any;

	self->task->user_break = false;
	if (self->caught && self->in_call)
		return false;
	if (self->caught) {
		spin_unlock(&processes_lock, flags);
		handler_enter(self);
		spin_lock(&processes_lock);
		return true;
	}
	if (attachments_stop(self))
		return true;
	attachments_tell_own(self);
	signal = next_signal(self, &any, &cause);
	act_on(self, signal, &cause, flags);
	return any;
}

/* A request before user_break is cleared is seen here; a later one sets it again. */
void signals_act(struct process *self)
{
	uint64_t flags = spin_lock(&processes_lock);

	while (act_once(self, flags))
		;
	spin_unlock(&processes_lock, flags);
	if (self->traced)
		attachments_resume_own(self);
}

static bool has_to_act(const struct process *self)
{
	return signals_to_act(self) || attachments_due(self);
}

bool process_sleep(struct process *self, uint64_t flags)
{
	if (!has_to_act(self))
		sched_wait(&self->task->sleeping, &processes_lock);
	if (!has_to_act(self))
		return false;
	spin_unlock(&processes_lock, flags);
	signals_act(self);
	spin_lock(&processes_lock);
	return self->caught;
}

/* False: all have ended. */
static bool kill_once(void)
{
	bool left = false;
	SPIN_GUARD(&processes_lock);

	for (struct process *process = processes; process; process = process->next) {
		left |= process->state != PROCESS_ENDED;
		signal_post(process, SIGKILL, &(struct signal_cause){.code = SI_KERNEL});
	}
	return left;
}

void process_kill_all(void)
{
	while (kill_once())
		task_sleep(1000);
}

/* A change of a process that its parent or tracer has not heard of yet. */
struct news {
	struct process *process; /* NULL: there is nobody to wait for at all */
	struct attachment *by;	 /* as its tracer; NULL: as its parent */
	bool ended;
	int status;
};

static bool is_meant(const struct process *process, int64_t pid)
{
	return pid == -1 || process->pid == (uint64_t)pid;
}

/* By its parent, to which its end is reported as to its tracer. */
static bool is_traced(const struct process *child)
{
	for (const struct attachment *at = child->attachments; at; at = at->next_of_tracee)
		if (at->tracer == child->parent)
			return true;
	return false;
}

static bool find_traced(const struct process *self, int64_t pid, struct news *news)
{
	for (struct attachment *at = self->traced; at; at = at->next_of_tracer) {
		if (!at->tracee || !is_meant(at->tracee, pid))
			continue;
		news->process = at->tracee;
		news->by = at;
		news->ended = at->tracee->state == PROCESS_ENDED;
		news->status = news->ended ? at->tracee->status : at->stop;
		if (news->ended || (at->stop && !at->seen))
			return true;
	}
	return false;
}

static bool find_child(const struct process *self, int64_t pid, bool stops, struct news *news)
{
	for (struct process *child = processes; child; child = child->next) {
		if (child->parent != self || !is_meant(child, pid))
			continue;
		news->process = child;
		news->by = NULL;
		news->ended = child->state == PROCESS_ENDED && !is_traced(child);
		news->status = news->ended ? child->status : WAIT_STOPPED((int)child->job_stop);
		if (news->ended || (stops && child->job_stop && !child->stop_seen))
			return true;
	}
	return false;
}

static bool find_news(const struct process *self, int64_t pid, bool stops, struct news *news)
{
	*news = (struct news){0};
	return find_traced(self, pid, news) || find_child(self, pid, stops, news);
}

/* Under the lock. Marks a stop as reported, or as not reported. */
static void mark_seen(const struct news *news, bool seen)
{
	if (news->by)
		news->by->seen = seen;
	else
		news->process->stop_seen = seen;
}

static long unmark_seen(const struct news *news)
{
	SPIN_GUARD(&processes_lock);

	mark_seen(news, false);
	return -EFAULT;
}

/*
 * Ends what ties `self` to a process that ended, once the status has been stored: as its tracer,
 * with the trace, and as its parent.
 */
static void forget_ended(const struct process *self, const struct news *news)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool parent = news->process->parent == self;

	if (parent)
		news->process->parent = NULL;
	spin_unlock(&processes_lock, flags);
	if (parent)
		process_put(news->process);
	if (news->by)
		attachment_end(news->by, 0);
}

long interrupted_result(const struct process *self)
{
	return self->actions[self->caught].flags & SA_RESTART ? CALL_AGAIN : -EINTR;
}

long process_wait(struct process *self, int64_t pid, uint64_t status_at, uint64_t options)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool found, interrupted = false;
	struct news news;

	while (!(found = find_news(self, pid, options & WUNTRACED, &news)) && news.process &&
	       !(options & WNOHANG) && !interrupted)
		interrupted = process_sleep(self, flags);
	if (found && !(options & WNOWAIT))
		mark_seen(&news, true);
	spin_unlock(&processes_lock, flags);
	if (!found && news.process && interrupted)
		return interrupted_result(self);
	if (!found)
		return news.process ? 0 : -ECHILD;
	pid = news.process->pid;
	if (status_at && copy_to_user(status_at, &news.status, sizeof(news.status)))
		return unmark_seen(&news);
	if (news.ended && !(options & WNOWAIT))
		forget_ended(self, &news);
	return pid;
}
