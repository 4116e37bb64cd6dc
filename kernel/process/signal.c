// SPDX-License-Identifier: MIT
#include "kernel/panic.h"
#include "kernel/process/internal.h"
#include "kernel/ptrace/attachment.h"
#include "kernel/sched/sched.h"

#define BIT(signal) (1u << (signal))

/* What a signal does where nobody traces; all others end the process. */
#define STOPPING (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))
#define IGNORED	 (BIT(SIGCHLD) | BIT(SIGCONT) | BIT(SIGURG) | BIT(SIGWINCH))

void signal_post(struct process *process, unsigned signal)
{
	if (process->state == PROCESS_ENDED)
		return;
	if (signal == SIGCONT)
		process->pending &= ~STOPPING;
	if (BIT(signal) & STOPPING)
		process->pending &= ~BIT(SIGCONT);
	if (signal == SIGKILL)
		attachments_kill(process);
	if (signal == SIGKILL || signal == SIGCONT) {
		process->job_stop = 0;
		process_release(process);
	}
	if (process->attachments || !(BIT(signal) & IGNORED)) {
		process->pending |= BIT(signal);
		sched_break_user(process->task);
	}
	sched_wake_all(&process->waiting);
}

void process_signal(struct process *process, unsigned signal)
{
	uint64_t flags = spin_lock(&processes_lock);

	signal_post(process, signal);
	spin_unlock(&processes_lock, flags);
}

static unsigned signal_of(const struct trap_frame *frame)
{
	switch (frame->vector) {
	case VECTOR_DE:
	case VECTOR_MF:
	case VECTOR_XM:
		return SIGFPE;
	case VECTOR_DB:
	case VECTOR_BP:
		return SIGTRAP;
	case VECTOR_UD:
		return SIGILL;
	case VECTOR_SS:
	case VECTOR_AC:
		return SIGBUS;
	case VECTOR_DF:
	case VECTOR_MC:
		panic_trap(frame, NULL);
	default:
		return SIGSEGV;
	}
}

void signal_fault(struct process *self, const struct trap_frame *frame)
{
	process_signal(self, signal_of(frame));
}

/* SIGKILL first, then by number; 0 if none is pending. */
static unsigned take(struct process *self)
{
	unsigned signal;

	if (!self->pending)
		return 0;
	signal = self->pending & BIT(SIGKILL) ? SIGKILL : (unsigned)__builtin_ctz(self->pending);
	self->pending &= ~BIT(signal);
	return signal;
}

static void job_stop(struct process *self, unsigned signal)
{
	if (self->pending & BIT(SIGKILL))
		return;
	self->job_stop = signal;
	self->stop_seen = false;
	self->stop_status = WAIT_STOPPED((int)signal);
	process_changed(self);
	stand_still(self);
}

/* What was asked for before user_break is cleared is seen here; what comes later sets it again. */
void signals_act(struct process *self)
{
	uint64_t flags = spin_lock(&processes_lock);

	for (;;) {
		unsigned signal;

		self->task->user_break = false;
		if (attachments_stop(self))
			continue;
		signal = take(self);
		if (!signal)
			break;
		if (signal != SIGKILL)
			signal = attachments_deliver(self, signal);
		if (BIT(signal) & STOPPING) {
			job_stop(self, signal);
		} else if (signal && !(BIT(signal) & IGNORED)) {
			spin_unlock(&processes_lock, flags);
			process_end(self, WAIT_KILLED((int)signal));
		}
	}
	spin_unlock(&processes_lock, flags);
}

void process_sleep(struct process *self, uint64_t flags)
{
	if (!self->pending && !attachments_due(self))
		sched_wait(&self->waiting, &processes_lock);
	if (!self->pending && !attachments_due(self))
		return;
	spin_unlock(&processes_lock, flags);
	signals_act(self);
	spin_lock(&processes_lock);
}
