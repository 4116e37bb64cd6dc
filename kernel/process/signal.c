// SPDX-License-Identifier: MIT
#include "kernel/end.h"
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"

#define BIT(signal) (1u << (signal))

/* Actions of signals where no process traces; all others end the process. */
#define STOPPING (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))
#define IGNORED	 (BIT(SIGCHLD) | BIT(SIGCONT) | BIT(SIGURG) | BIT(SIGWINCH))

void signal_post(struct process *process, unsigned signal, const struct signal_cause *cause)
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
		process->continued = true;
		process_release(process);
	}
	if (process->attachments || !(BIT(signal) & IGNORED)) {
		if (!(process->pending & BIT(signal)))
			process->causes[signal] = *cause;
		process->pending |= BIT(signal);
		sched_break_user(process->task);
	}
	sched_wake_all(&process->waiting);
}

void signal_post_child(struct process *to, const struct process *process, int status)
{
	struct signal_cause cause = {.pid = (int32_t)process->pid, .status = status >> 8 & 0xff};

	if ((status & 0xff) == 0x7f) {
		cause.code = to == process->parent && process->job_stop ? CLD_STOPPED : CLD_TRAPPED;
	} else if (status & 0xff) {
		cause.code = CLD_KILLED;
		cause.status = status & 0xff;
	} else {
		cause.code = CLD_EXITED;
	}
	signal_post(to, SIGCHLD, &cause);
}

void process_signal_from(struct process *process, unsigned signal, const struct signal_cause *cause)
{
	SPIN_GUARD(&processes_lock);

	signal_post(process, signal, cause);
}

void process_signal(struct process *process, unsigned signal)
{
	process_signal_from(process, signal, &(struct signal_cause){.code = SI_KERNEL});
}

/* The signal of an exception in ring 3: SIGSEGV from the kernel where there is no row. */
static const struct {
	uint8_t vector, signal, code;
	bool has_address; /* that of the instruction */
} faults[] = {
	{VECTOR_DE, SIGFPE, FPE_INTDIV, true},	{VECTOR_DB, SIGTRAP, TRAP_TRACE, true},
	{VECTOR_BP, SIGTRAP, SI_KERNEL, false}, {VECTOR_UD, SIGILL, ILL_ILLOPN, true},
	{VECTOR_SS, SIGBUS, SI_KERNEL, false},	{VECTOR_MF, SIGFPE, SI_KERNEL, false},
	{VECTOR_AC, SIGBUS, BUS_ADRALN, false}, {VECTOR_XM, SIGFPE, SI_KERNEL, false},
};

void signal_fault(struct process *self, const struct trap_frame *frame)
{
	struct signal_cause cause = {.code = SI_KERNEL};
	unsigned signal = SIGSEGV;

	if (frame->vector == VECTOR_DF || frame->vector == VECTOR_MC)
		panic_trap(frame, NULL);
	if (frame->vector == VECTOR_PF) {
		cause.code = frame->error & 1 ? SEGV_ACCERR : SEGV_MAPERR;
		cause.address = self->fault.cr2;
	}
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i].vector == frame->vector) {
			signal = faults[i].signal;
			cause.code = faults[i].code;
			cause.address = faults[i].has_address ? frame->rip : 0;
		}
	process_signal_from(self, signal, &cause);
}

/* SIGKILL first, then by number; 0 if none is pending. */
static unsigned take_signal(struct process *self)
{
	unsigned signal;

	if (!self->pending)
		return 0;
	signal = self->pending & BIT(SIGKILL) ? SIGKILL : (unsigned)__builtin_ctz(self->pending);
	self->pending &= ~BIT(signal);
	self->continued = false;
	return signal;
}

/* SIGCONT discards stop signals (POSIX.1, 2.4.3), also one that a tracer has yet to let act. */
static void job_stop(struct process *self, unsigned signal)
{
	if (self->continued)
		return;
	self->job_stop = signal;
	self->stop_seen = false;
	self->stop_status = WAIT_STOPPED((int)signal);
	process_changed(self, self->stop_status);
	stand_still(self);
}

/* A request before user_break is cleared is seen here; a later one sets it again. */
void signals_act(struct process *self)
{
	uint64_t flags = spin_lock(&processes_lock);

	for (;;) {
		unsigned signal;

		self->task->user_break = false;
		if (attachments_stop(self))
			continue;
		signal = take_signal(self);
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
