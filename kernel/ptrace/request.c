// SPDX-License-Identifier: MIT
// SYS_ptrace.
#include "abi/ptrace.h"
#include "abi/ptrace_lbr.h"
#include "abi/syscall.h"
#include "drivers/debugctl.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/pebs/pebs.h"

/*
 * The state that a request needs of the tracee: any; traced by the caller; that and stopped; that
 * and stopped or ended; stopped and with a buffer of branches, of samples, or of the newest.
 */
enum need { NOTHING, TRACED, STOPPED, READABLE, BRANCHES, SAMPLES, NEWEST };

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
	uint64_t flags = spin_lock(&processes_lock);
	bool resume = at->told, resume_samples = at->told_samples;

	spin_unlock(&processes_lock, flags);
	if (resume && at->trace)
		trace_resume(at->trace);
	if (resume_samples && at->samples)
		trace_resume(at->samples);
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
	return copy_to_user(call->address, IS_NARROW(bytes) ? (void *)narrow : &config, bytes)
		       ? -EFAULT
		       : (long)bytes;
}

static const struct request {
	uint16_t request, need;
	ptrace_request *perform;
} requests[] = {
	{PTRACE_TRACEME, NOTHING, do_traceme},
	{PTRACE_PEEKTEXT, STOPPED, ptrace_peek_word},
	{PTRACE_PEEKDATA, STOPPED, ptrace_peek_word},
	{PTRACE_PEEKUSR, STOPPED, ptrace_peek_register},
	{PTRACE_POKETEXT, STOPPED, ptrace_poke_word},
	{PTRACE_POKEDATA, STOPPED, ptrace_poke_word},
	{PTRACE_POKEUSR, STOPPED, ptrace_poke_register},
	{PTRACE_CONT, STOPPED, do_continue},
	{PTRACE_KILL, TRACED, do_kill},
	{PTRACE_SINGLESTEP, STOPPED, do_continue},
	{PTRACE_GETREGS, STOPPED, ptrace_get_registers},
	{PTRACE_SETREGS, STOPPED, ptrace_set_registers},
	{PTRACE_ATTACH, NOTHING, do_attach},
	{PTRACE_DETACH, READABLE, do_continue},
	{PTRACE_SINGLEBLOCK, STOPPED, do_continue},
	{PTRACE_FREEZE, NOTHING, ptrace_freeze},
	{PTRACE_FREEZE_STATUS, NOTHING, ptrace_freeze_status},
	{PTRACE_SETOPTIONS, STOPPED, ptrace_set_options},
	{PTRACE_GETEVENTMSG, STOPPED, ptrace_get_message},
	{PTRACE_GETSIGINFO, STOPPED, ptrace_get_siginfo},
	{PTRACE_SEIZE, NOTHING, do_attach},
	{PTRACE_INTERRUPT, TRACED, do_interrupt},
	{PTRACE_BTS_CONFIG, STOPPED, do_config},
	{PTRACE_BTS_STATUS, READABLE, do_status},
	{PTRACE_BTS_SIZE, BRANCHES, ptrace_bts_size},
	{PTRACE_BTS_GET, BRANCHES, ptrace_bts_get},
	{PTRACE_BTS_CLEAR, BRANCHES, ptrace_bts_clear},
	{PTRACE_BTS_DRAIN, BRANCHES, ptrace_bts_read},
	{PTRACE_BTS_READ, BRANCHES, ptrace_bts_read},
	{PTRACE_PEBS_CONFIG, STOPPED, ptrace_pebs_config},
	{PTRACE_PEBS_STATUS, READABLE, ptrace_pebs_status},
	{PTRACE_PEBS_SIZE, SAMPLES, ptrace_pebs_size},
	{PTRACE_PEBS_CLEAR, SAMPLES, ptrace_pebs_clear},
	{PTRACE_PEBS_DRAIN, SAMPLES, ptrace_pebs_read},
	{PTRACE_PEBS_READ, SAMPLES, ptrace_pebs_read},
	{PTRACE_LBR_CONFIG, STOPPED, ptrace_lbr_config},
	{PTRACE_LBR_STATUS, READABLE, ptrace_lbr_status},
	{PTRACE_LBR_CLEAR, NEWEST, ptrace_lbr_clear},
	{PTRACE_LBR_READ, NEWEST, ptrace_lbr_read},
};

static long perform(const struct ptrace_call *call, const struct request *request)
{
	if ((request->need == BRANCHES && !call->at->trace) ||
	    (request->need == SAMPLES && !call->at->samples) ||
	    (request->need == NEWEST && !call->at->newest))
		return -ENXIO;
	return request->perform(call);
}

static bool is_in_need(const struct attachment *at, enum need need)
{
	return need == TRACED || at->stop ||
	       (need >= READABLE && at->tracee->state == PROCESS_ENDED);
}

static struct attachment *find_process(const struct ptrace_call *call, enum need need)
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
static long of_no_tracee(struct ptrace_call *call, const struct request *request, struct task *task,
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
	result = result ? result : perform(call, request);
	for (at = call->at; at; at = next) {
		next = at->next_cpu;
		if (!at->trace && !at->samples && !at->newest)
			attachment_end(at, 0);
	}
	return result;
}

static long of_cpu(struct ptrace_call *call, const struct request *request, unsigned cpu)
{
	if (!call->self->privileged)
		return -EPERM;
	if (call->pid == (uint32_t)PTRACE_PEBS_ALL_CPUS && call->request >= PTRACE_PEBS_CONFIG &&
	    call->request <= PTRACE_PEBS_READ)
		return of_no_tracee(call, request, NULL, MAX_CPUS, cpu_count());
	return cpu < cpu_count() ? of_no_tracee(call, request, NULL, cpu, 1) : -ESRCH;
}

/* A negative pid is a CPU, and the caller's own is the caller, to the requests for buffers. */
static bool is_of_buffer(uint64_t request)
{
	return (request >= PTRACE_BTS_CONFIG && request <= PTRACE_BTS_READ) ||
	       (request >= PTRACE_PEBS_CONFIG && request <= PTRACE_LBR_READ);
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
	struct ptrace_call call = {self,	NULL,	    argument[0], (uint32_t)argument[1],
				   argument[2], argument[3]};
	int32_t pid = (int32_t)argument[1];

	for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		const struct request *request = &requests[i];

		if (request->request != call.request)
			continue;
		if (self->call_is_32 && is_of_64_bits(call.request))
			return -EIO;
		if (request->need == NOTHING)
			return request->perform(&call);
		if (pid < 0 && is_of_buffer(call.request))
			return of_cpu(&call, request, (unsigned)(-1 - pid));
		if (call.pid == self->pid && is_of_buffer(call.request))
			return of_no_tracee(&call, request, self->task, 0, 1);
		call.at = find_process(&call, request->need);
		return call.at ? perform(&call, request) : -ESRCH;
	}
	return -EIO;
}

void ptrace_init(void)
{
	syscall_register(SYS_ptrace, call_ptrace);
	insntrace_init();
}
