// SPDX-License-Identifier: MIT
// SYS_ptrace.
#include "abi/ptrace.h"
#include "abi/syscall.h"
#include "drivers/debugctl.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"

int ptrace_attach(struct process *tracer, struct process *tracee, bool exclusive,
		  struct attachment **result)
{
	int error;
	SPIN_GUARD(&processes_lock);

	error = attachment_link(tracer, tracee, exclusive, result);
	if (!error && exclusive) {
		(*result)->due = WAIT_STOPPED(SIGSTOP);
		attachments_look(tracee);
	}
	return error;
}

static long do_traceme(const struct ptrace_call *call)
{
	struct process *self = call->self;
	struct attachment *at;
	SPIN_GUARD(&processes_lock);

	/* The kernel's own child has none to trace it: nobody traces itself. */
	return attachment_link(self->parent ? self->parent : self, self, true, &at);
}

int ptrace_continue(struct attachment *at, unsigned signal, unsigned step)
{
	attachment_resume(at);
	SPIN_GUARD(&processes_lock);
	if (!at->stop)
		return -ESRCH;
	at->step = step;
	attachment_finish(at, signal);
	return 0;
}

int ptrace_interrupt(struct attachment *at)
{
	SPIN_GUARD(&processes_lock);

	if (at->tracee->state == PROCESS_ENDED)
		return -ESRCH;
	if (!at->stop && !at->due) {
		at->due = PTRACE_EVENT_STOP << 16 | WAIT_STOPPED(SIGTRAP);
		attachments_look(at->tracee);
	}
	return 0;
}

static long do_attach(const struct ptrace_call *call)
{
	bool seize = call->request == PTRACE_SEIZE;
	struct attachment *at;
	struct process *tracee;
	int error;

	if (seize && (call->address || call->data))
		return -EIO;
	tracee = process_find((unsigned)call->pid);
	if (!tracee)
		return -ESRCH;
	error = ptrace_attach(call->self, tracee, !seize, &at);
	process_put(tracee);
	return error;
}

static long do_continue(const struct ptrace_call *call)
{
	unsigned step = call->request == PTRACE_SINGLESTEP    ? STEP_INSTRUCTION
			: call->request == PTRACE_SINGLEBLOCK ? STEP_BLOCK
							      : 0;

	if (call->data >= SIGNALS)
		return -EIO;
	if (step == STEP_BLOCK && !debugctl_has_btf)
		return -EOPNOTSUPP;
	if (call->request != PTRACE_DETACH)
		return ptrace_continue(call->at, (unsigned)call->data, step);
	attachment_end(call->at, (unsigned)call->data);
	return 0;
}

static long do_kill(const struct ptrace_call *call)
{
	struct signal_cause cause = {.code = SI_USER, .pid = (int32_t)call->self->pid};

	process_signal_from(call->at->tracee, SIGKILL, &cause);
	return 0;
}

static long do_interrupt(const struct ptrace_call *call)
{
	return ptrace_interrupt(call->at);
}

static const struct ptrace_row general_rows[] = {
	{PTRACE_TRACEME, NEEDS_NOTHING, do_traceme},
	{PTRACE_PEEKTEXT, NEEDS_STOPPED, ptrace_peek_word},
	{PTRACE_PEEKDATA, NEEDS_STOPPED, ptrace_peek_word},
	{PTRACE_PEEKUSR, NEEDS_STOPPED, ptrace_peek_register},
	{PTRACE_POKETEXT, NEEDS_STOPPED, ptrace_poke_word},
	{PTRACE_POKEDATA, NEEDS_STOPPED, ptrace_poke_word},
	{PTRACE_POKEUSR, NEEDS_STOPPED, ptrace_poke_register},
	{PTRACE_CONT, NEEDS_STOPPED, do_continue},
	{PTRACE_KILL, NEEDS_TRACED, do_kill},
	{PTRACE_SINGLESTEP, NEEDS_STOPPED, do_continue},
	{PTRACE_GETREGS, NEEDS_STOPPED, ptrace_get_registers},
	{PTRACE_SETREGS, NEEDS_STOPPED, ptrace_set_registers},
	{PTRACE_ATTACH, NEEDS_NOTHING, do_attach},
	{PTRACE_DETACH, NEEDS_READABLE, do_continue},
	{PTRACE_SINGLEBLOCK, NEEDS_STOPPED, do_continue},
	{PTRACE_FREEZE, NEEDS_NOTHING, ptrace_freeze},
	{PTRACE_FREEZE_STATUS, NEEDS_NOTHING, ptrace_freeze_status},
	{PTRACE_SETOPTIONS, NEEDS_STOPPED, ptrace_set_options},
	{PTRACE_GETEVENTMSG, NEEDS_STOPPED, ptrace_get_message},
	{PTRACE_GETSIGINFO, NEEDS_STOPPED, ptrace_get_siginfo},
	{PTRACE_SEIZE, NEEDS_NOTHING, do_attach},
	{PTRACE_INTERRUPT, NEEDS_TRACED, do_interrupt},
};

static const struct ptrace_unit general = {.unit = TRACE_UNITS, PTRACE_ROWS(general_rows)};

void ptrace_resume(const struct ptrace_call *call)
{
	for (struct attachment *at = call->at; at; at = at->next_cpu)
		if (at->recordings[call->of->unit].stops)
			trace_resume(at->recordings[call->of->unit].tracer);
}

long ptrace_clear(const struct ptrace_call *call)
{
	for (struct attachment *at = call->at; at; at = at->next_cpu)
		trace_clear(at->recordings[call->of->unit].tracer);
	ptrace_resume(call);
	return 0;
}

long ptrace_read_newest(const struct ptrace_call *call)
{
	unsigned char records[READ_MOST];
	size_t bytes = call->of->record, asked = call->data / bytes, most = READ_MOST / bytes;

	if (!asked || call->data % bytes)
		return -EIO;
	asked = trace_read(call->tracer, records, asked < most ? asked : most);
	return ptrace_give(call, records, asked * bytes) < 0 ? -EFAULT : (long)asked;
}

/* The row of the request, and in the call the unit that it is of; or NULL. */
static const struct ptrace_row *find_request(struct ptrace_call *call)
{
	for (unsigned i = 0; i <= TRACE_UNITS; i++) {
		call->of = i ? trace_units[i - 1]->requests : &general;
		for (unsigned n = 0; call->of && n < call->of->count; n++)
			if (call->of->rows[n].request == call->request)
				return &call->of->rows[n];
	}
	return NULL;
}

static long perform(struct ptrace_call *call, const struct ptrace_row *row)
{
	long result;

	if (call->of != &general)
		call->tracer = call->at->recordings[call->of->unit].tracer;
	if (row->need == NEEDS_BUFFER && !call->tracer)
		return -ENXIO;
	result = row->perform(call);
	return result == -ENODEV ? -EOPNOTSUPP : result;
}

static bool is_in_need(const struct attachment *at, enum ptrace_need need)
{
	return need == NEEDS_TRACED || at->stop ||
	       (need >= NEEDS_READABLE && at->tracee->state == PROCESS_ENDED);
}

static struct attachment *find_process(const struct ptrace_call *call, enum ptrace_need need)
{
	struct attachment *at;
	SPIN_GUARD(&processes_lock);

	for (at = call->self->traced; at; at = at->next_of_tracer)
		if (at->tracee && at->tracee->pid == call->pid)
			return is_in_need(at, need) ? at : NULL;
	return NULL;
}

static struct attachment *find_or_attach(struct process *self, struct task *task, unsigned cpu)
{
	struct attachment *at;
	SPIN_GUARD(&processes_lock);

	for (at = self->traced; at; at = at->next_of_tracer)
		if (!at->tracee && at->task == task && at->cpu == cpu)
			return at;
	at = attachment_create();
	if (at) {
		at->tracer = self;
		at->task = task;
		at->cpu = cpu;
		at->next_of_tracer = self->traced;
		self->traced = at;
	}
	return at;
}

/* There is an attachment to a CPU, or to the caller itself, exactly while there is a buffer. Of
   `count` CPUs the first is the call's, and the others follow it. */
static long of_no_tracee(struct ptrace_call *call, const struct ptrace_row *row, struct task *task,
			 unsigned cpu, unsigned count)
{
	struct attachment *at, *next;
	long result = 0;

	while (count-- && !result) {
		at = find_or_attach(call->self, task, cpu + count);
		result = at ? 0 : -ENOMEM;
		if (at) {
			at->next_cpu = call->at;
			call->at = at;
		}
	}
	result = result ? result : perform(call, row);
	for (at = call->at; at; at = next) {
		next = at->next_cpu;
		if (!at->buffers)
			attachment_end(at, 0);
	}
	return result;
}

static long of_cpu(struct ptrace_call *call, const struct ptrace_row *row, unsigned cpu)
{
	if (!call->self->privileged)
		return -EPERM;
	if (call->of->all_cpus && call->pid == (uint32_t)call->of->all_cpus)
		return of_no_tracee(call, row, NULL, MAX_CPUS, cpu_count());
	return cpu < cpu_count() ? of_no_tracee(call, row, NULL, cpu, 1) : -ESRCH;
}

/* Structures of 64-bit registers and pointers, which a 32-bit tracer has no layout for. */
static bool is_of_64_bits(uint64_t request)
{
	return request == PTRACE_GETREGS || request == PTRACE_SETREGS ||
	       request == PTRACE_PEEKUSR || request == PTRACE_POKEUSR ||
	       request == PTRACE_GETSIGINFO;
}

static long call_ptrace(struct process *self, const uint64_t *argument)
{
	struct ptrace_call call = {self,	NULL,	     argument[0], (uint32_t)argument[1],
				   argument[2], argument[3], NULL,	  NULL};
	const struct ptrace_row *row = find_request(&call);
	int32_t pid = (int32_t)argument[1];
	bool is_of_buffer = call.of != &general;

	if (!row || (self->call_is_32 && is_of_64_bits(call.request)))
		return -EIO;
	if (row->need == NEEDS_NOTHING)
		return row->perform(&call);
	if (pid < 0 && is_of_buffer)
		return of_cpu(&call, row, (unsigned)(-1 - pid));
	if (call.pid == self->pid && is_of_buffer)
		return of_no_tracee(&call, row, self->task, 0, 1);
	call.at = find_process(&call, row->need);
	return call.at ? perform(&call, row) : -ESRCH;
}

void ptrace_init(void)
{
	syscall_register(SYS_ptrace, call_ptrace);
	EACH_UNIT_WITH (requests)
		if (trace_units[i]->requests->init)
			trace_units[i]->requests->init();
}
