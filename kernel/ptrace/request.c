// SPDX-License-Identifier: MIT
// SYS_ptrace.
#include "abi/ptrace.h"
#include "abi/syscall.h"
#include "kernel/cpu.h"
#include "kernel/mm/copy.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/pebs/pebs.h"

/* What the tracee has to be: anything; traced by the caller; and stopped; or stopped or ended. */
enum need { NOTHING, TRACED, STOPPED, READABLE };

struct call {
	struct process *self;
	struct attachment *at; /* NULL for those that need NOTHING */
	uint64_t request, pid, address, data;
};

static long do_traceme(const struct call *call)
{
	return ptrace_traceme(call->self);
}

static long do_attach(const struct call *call)
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

static long do_continue(const struct call *call)
{
	if (call->data >= SIGNALS)
		return -EIO;
	if (call->request != PTRACE_DETACH)
		return ptrace_continue(call->at, (unsigned)call->data,
				       call->request == PTRACE_SINGLESTEP);
	ptrace_detach(call->at, (unsigned)call->data);
	return 0;
}

static long do_kill(const struct call *call)
{
	struct signal_cause cause = {.code = SI_USER, .pid = (int32_t)call->self->pid};

	process_signal_from(call->at->tracee, SIGKILL, &cause);
	return 0;
}

static long do_interrupt(const struct call *call)
{
	return ptrace_interrupt(call->at);
}

static long do_peek(const struct call *call)
{
	uint64_t word;
	int error = ptrace_peek(call->at, call->address, &word, sizeof(word));

	return error ? error : copy_to_user(call->data, &word, sizeof(word));
}

static long do_poke(const struct call *call)
{
	return ptrace_poke(call->at, call->address, &call->data, sizeof(call->data));
}

static long do_get_registers(const struct call *call)
{
	return ptrace_get_registers(call->at, call->data);
}

static long do_set_registers(const struct call *call)
{
	return ptrace_set_registers(call->at, call->data);
}

static long do_peek_register(const struct call *call)
{
	return ptrace_peek_register(call->at, call->address, call->data);
}

static long do_poke_register(const struct call *call)
{
	return ptrace_poke_register(call->at, call->address, call->data);
}

static long do_set_options(const struct call *call)
{
	return ptrace_set_options(call->at, call->data);
}

static long do_get_message(const struct call *call)
{
	return ptrace_get_message(call->at, call->data);
}

static long do_get_siginfo(const struct call *call)
{
	return ptrace_get_siginfo(call->at, call->data);
}

/* Bytes of the structure that the caller knows: a size that is not its own is that of 2007. */
static size_t config_bytes(const struct call *call)
{
	return call->data == sizeof(struct ptrace_bts_config)
		       ? sizeof(struct ptrace_bts_config)
		       : offsetof(struct ptrace_bts_config, signal);
}

static long do_config(const struct call *call)
{
	struct ptrace_bts_config config = {0};
	size_t bytes = config_bytes(call);
	long error;

	if (copy_from_user(&config, call->address, bytes))
		return -EFAULT;
	error = ptrace_bts_config(call->at, &config);
	return error || bytes < sizeof(config) ? error : (long)bytes;
}

static long do_status(const struct call *call)
{
	struct ptrace_bts_config config;
	size_t bytes = config_bytes(call);

	ptrace_bts_status(call->at, &config);
	return copy_to_user(call->address, &config, bytes) ? -EFAULT : (long)bytes;
}

static long do_buffer(const struct call *call)
{
	if (!call->at->trace)
		return -ENXIO;
	switch (call->request) {
	case PTRACE_BTS_SIZE:
		return (long)bts_available(call->at->trace);
	case PTRACE_BTS_GET:
		return ptrace_bts_get(call->at, call->address, call->data);
	case PTRACE_BTS_CLEAR:
		return ptrace_bts_clear(call->at);
	default:
		return ptrace_bts_read(call->at, call->address, call->data,
				       call->request == PTRACE_BTS_DRAIN);
	}
}

/* One that is refused names the holder, where that can be written. */
static long do_pebs_config(const struct call *call)
{
	struct ptrace_pebs_config config;
	long error;

	if (call->data != sizeof(config))
		return -EINVAL;
	if (copy_from_user(&config, call->address, sizeof(config)))
		return -EFAULT;
	error = ptrace_pebs_config(call->at, &config);
	if (error == -EBUSY)
		copy_to_user(call->address + offsetof(struct ptrace_pebs_config, holder),
			     config.holder, sizeof(config.holder));
	return error ? error : (long)sizeof(config);
}

static long do_pebs_status(const struct call *call)
{
	struct ptrace_pebs_config config;

	if (call->data != sizeof(config))
		return -EINVAL;
	ptrace_pebs_status(call->at, &config);
	return copy_to_user(call->address, &config, sizeof(config)) ? -EFAULT
								    : (long)sizeof(config);
}

static long do_samples(const struct call *call)
{
	if (!call->at->samples)
		return -ENXIO;
	switch (call->request) {
	case PTRACE_PEBS_SIZE:
		return (long)pebs_available(call->at->samples);
	case PTRACE_PEBS_CLEAR:
		return ptrace_pebs_clear(call->at);
	default:
		return ptrace_pebs_read(call->at, call->address, call->data,
					call->request == PTRACE_PEBS_DRAIN);
	}
}

static long do_singleblock(const struct call *call)
{
	(void)call;
	return -EOPNOTSUPP;
}

static const struct request {
	uint16_t request, need;
	long (*perform)(const struct call *call);
} requests[] = {
	{PTRACE_TRACEME, NOTHING, do_traceme},
	{PTRACE_PEEKTEXT, STOPPED, do_peek},
	{PTRACE_PEEKDATA, STOPPED, do_peek},
	{PTRACE_PEEKUSR, STOPPED, do_peek_register},
	{PTRACE_POKETEXT, STOPPED, do_poke},
	{PTRACE_POKEDATA, STOPPED, do_poke},
	{PTRACE_POKEUSR, STOPPED, do_poke_register},
	{PTRACE_CONT, STOPPED, do_continue},
	{PTRACE_KILL, TRACED, do_kill},
	{PTRACE_SINGLESTEP, STOPPED, do_continue},
	{PTRACE_GETREGS, STOPPED, do_get_registers},
	{PTRACE_SETREGS, STOPPED, do_set_registers},
	{PTRACE_ATTACH, NOTHING, do_attach},
	{PTRACE_DETACH, READABLE, do_continue},
	{PTRACE_SINGLEBLOCK, NOTHING, do_singleblock},
	{PTRACE_SETOPTIONS, STOPPED, do_set_options},
	{PTRACE_GETEVENTMSG, STOPPED, do_get_message},
	{PTRACE_GETSIGINFO, STOPPED, do_get_siginfo},
	{PTRACE_SEIZE, NOTHING, do_attach},
	{PTRACE_INTERRUPT, TRACED, do_interrupt},
	{PTRACE_BTS_CONFIG, STOPPED, do_config},
	{PTRACE_BTS_STATUS, READABLE, do_status},
	{PTRACE_BTS_SIZE, READABLE, do_buffer},
	{PTRACE_BTS_GET, READABLE, do_buffer},
	{PTRACE_BTS_CLEAR, READABLE, do_buffer},
	{PTRACE_BTS_DRAIN, READABLE, do_buffer},
	{PTRACE_BTS_READ, READABLE, do_buffer},
	{PTRACE_PEBS_CONFIG, STOPPED, do_pebs_config},
	{PTRACE_PEBS_STATUS, READABLE, do_pebs_status},
	{PTRACE_PEBS_SIZE, READABLE, do_samples},
	{PTRACE_PEBS_CLEAR, READABLE, do_samples},
	{PTRACE_PEBS_DRAIN, READABLE, do_samples},
	{PTRACE_PEBS_READ, READABLE, do_samples},
};

static bool is_in_need(const struct attachment *at, enum need need)
{
	return need == TRACED || at->stop ||
	       (need == READABLE && at->tracee->state == PROCESS_ENDED);
}

static long of_process(struct call *call, const struct request *request)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct attachment *at = call->self->traced;

	while (at && (!at->tracee || at->tracee->pid != call->pid))
		at = at->next_of_tracer;
	if (at && !is_in_need(at, request->need))
		at = NULL;
	spin_unlock(&processes_lock, flags);
	call->at = at;
	return at ? request->perform(call) : -ESRCH;
}

static struct attachment *find_cpu(const struct process *self, unsigned cpu)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct attachment *at = self->traced;

	while (at && (at->tracee || at->cpu != cpu))
		at = at->next_of_tracer;
	spin_unlock(&processes_lock, flags);
	return at;
}

static void link_cpu(struct process *self, struct attachment *at)
{
	uint64_t flags = spin_lock(&processes_lock);

	at->next_of_tracer = self->traced;
	self->traced = at;
	spin_unlock(&processes_lock, flags);
}

/* There is an attachment to a CPU exactly while there is a buffer. */
static long of_cpu(struct call *call, const struct request *request, unsigned cpu)
{
	struct attachment *at;
	long result;

	if (!call->self->privileged)
		return -EPERM;
	if (cpu >= cpu_count())
		return -ESRCH;
	at = find_cpu(call->self, cpu);
	if (!at) {
		at = attachment_create();
		if (!at)
			return -ENOMEM;
		at->tracer = call->self;
		at->cpu = cpu;
		link_cpu(call->self, at);
	}
	call->at = at;
	result = request->perform(call);
	if (!at->trace && !at->samples)
		attachment_end(at, 0);
	return result;
}

/* A negative pid is a CPU to the requests for buffers. */
static bool can_be_of_cpu(uint64_t request)
{
	return (request >= PTRACE_BTS_CONFIG && request <= PTRACE_BTS_READ) ||
	       (request >= PTRACE_PEBS_CONFIG && request <= PTRACE_PEBS_READ);
}

static long call_ptrace(struct process *self, const uint64_t *argument)
{
	struct call call = {self,	 NULL,	     argument[0], (uint32_t)argument[1],
			    argument[2], argument[3]};
	int32_t pid = (int32_t)argument[1];

	for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		const struct request *request = &requests[i];

		if (request->request != call.request)
			continue;
		if (request->need == NOTHING)
			return request->perform(&call);
		if (pid < 0 && can_be_of_cpu(call.request))
			return of_cpu(&call, request, (unsigned)(-1 - pid));
		return of_process(&call, request);
	}
	return -EIO;
}

void ptrace_init(void)
{
	syscall_register(SYS_ptrace, call_ptrace);
	syscall_register(SYS_insntrace, call_insntrace);
}
