// SPDX-License-Identifier: MIT
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"

void process_release(struct process *process)
{
	bool stopped = process->job_stop;

	for (const struct attachment *at = process->attachments; at; at = at->next_of_tracee)
		stopped |= at->stop;
	if (stopped || process->state != PROCESS_STOPPED)
		return;
	process->state = PROCESS_RUNS;
	sched_wake_all(&process->stopped);
}

/* Ends all stops. */
static void end_stops(struct process *process)
{
	process->averted = true;
	for (struct attachment *at = process->attachments; at; at = at->next_of_tracee)
		at->stop = at->due = 0;
}

bool signal_is_ignored(const struct process *process, unsigned signal)
{
	uint64_t handler = process->actions[signal].handler;

	return handler == SIG_IGN || (handler == SIG_DFL && BIT(signal) & IGNORED);
}

bool signal_has_handler(const struct process *process, unsigned signal)
{
	return process->actions[signal].handler > SIG_IGN;
}

uint32_t signals_to_act(const struct process *process)
{
	return process->pending & ~process->blocked;
}

void signal_post(struct process *process, unsigned signal, const struct signal_cause *cause)
{
	if (process->state == PROCESS_ENDED)
		return;
	if (signal == SIGCONT)
		process->pending &= ~STOPPING;
	if (BIT(signal) & STOPPING)
		process->pending &= ~BIT(SIGCONT);
	if (signal == SIGKILL)
		end_stops(process);
	if (signal == SIGKILL || signal == SIGCONT) {
		process->job_stop = 0;
		process->continued = true;
		process_release(process);
	}
	if (process->attachments || process->blocked & BIT(signal) ||
	    !signal_is_ignored(process, signal)) {
		if (!(process->pending & BIT(signal)))
			process->causes[signal] = *cause;
		process->pending |= BIT(signal);
		sched_break_user(process->task);
	}
	sched_wake_all(&process->task->sleeping);
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

void signal_force(struct process *process, unsigned signal, const struct signal_cause *cause,
		  bool by_default)
{
	SPIN_GUARD(&processes_lock);

	if (by_default || process->blocked & BIT(signal) ||
	    process->actions[signal].handler == SIG_IGN)
		process->actions[signal].handler = SIG_DFL;
	process->blocked &= ~BIT(signal);
	signal_post(process, signal, cause);
}

struct siginfo signal_info(unsigned signal, const struct signal_cause *cause)
{
	struct siginfo info = {.si_signo = (int32_t)signal, .si_code = cause->code};

	if (cause->address) {
		info.si_addr = cause->address;
	} else {
		info.si_pid = cause->pid;
		info.si_status = cause->status;
	}
	return info;
}
