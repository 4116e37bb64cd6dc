// SPDX-License-Identifier: MIT
// A stopped process cannot leave its stop while the lock is held.
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/freeze.h"
#include "lib/string.h"

int ptrace_get_frame(struct attachment *at, struct trap_frame *frame)
{
	SPIN_GUARD(&processes_lock);

	if (!at->stop)
		return -ESRCH;
	*frame = at->tracee->frame;
	return 0;
}

/* SYSRET clobbers RCX and R11: resume by IRET, as from an interrupt. */
int ptrace_set_frame(struct attachment *at, const struct trap_frame *frame)
{
	SPIN_GUARD(&processes_lock);

	if (!at->stop)
		return -ESRCH;
	at->tracee->frame = *frame;
	at->tracee->frame.vector = VECTOR_KICK;
	return 0;
}

int ptrace_peek(struct attachment *at, uint64_t address, void *buffer, size_t bytes)
{
	SPIN_GUARD(&processes_lock);

	if (!at->stop)
		return -ESRCH;
	return space_read(&at->tracee->space, address, buffer, bytes) ? -EIO : 0;
}

int ptrace_poke(struct attachment *at, uint64_t address, const void *buffer, size_t bytes)
{
	SPIN_GUARD(&processes_lock);

	if (!at->stop)
		return -ESRCH;
	return space_write(&at->tracee->space, address, buffer, bytes) ? -EIO : 0;
}

long ptrace_peek_word(const struct ptrace_call *call)
{
	uint64_t word;
	int error = ptrace_peek(call->at, call->address, &word, ptrace_word_bytes(call));

	return error ? error : copy_to_user(call->data, &word, ptrace_word_bytes(call));
}

long ptrace_poke_word(const struct ptrace_call *call)
{
	return ptrace_poke(call->at, call->address, &call->data, ptrace_word_bytes(call));
}

int ptrace_check_writable(uint64_t user, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE_SIZE) {
		size_t last = bytes - at > PAGE_SIZE ? at + PAGE_SIZE - 1 : bytes - 1;
		uint8_t byte;

		if (copy_from_user(&byte, user + at, 1) || copy_to_user(user + at, &byte, 1) ||
		    copy_from_user(&byte, user + last, 1) || copy_to_user(user + last, &byte, 1))
			return -EFAULT;
	}
	return 0;
}

bool ptrace_may_see_kernel(const struct attachment *at)
{
	return !at->tracer || at->tracer->privileged;
}

struct trace_account *ptrace_account(const struct attachment *at)
{
	return at->tracer ? &at->tracer->account : NULL;
}

long ptrace_give(const struct ptrace_call *call, const void *from, size_t bytes)
{
	return copy_to_user(call->address, from, bytes) ? -EFAULT : (long)bytes;
}

long ptrace_set_options(const struct ptrace_call *call)
{
	SPIN_GUARD(&processes_lock);

	if (call->data & ~(uint64_t)PTRACE_O_MASK)
		return -EINVAL;
	call->at->options = (uint32_t)call->data;
	return 0;
}

long ptrace_get_message(const struct ptrace_call *call)
{
	return copy_to_user(call->data, &call->at->message, ptrace_word_bytes(call));
}

long ptrace_get_siginfo(const struct ptrace_call *call)
{
	const struct attachment *at = call->at;
	uint64_t flags = spin_lock(&processes_lock);
	struct siginfo info = signal_info((unsigned)at->stop >> 8 & 0xff, &at->cause);
	bool stopped = at->stop;

	spin_unlock(&processes_lock, flags);
	return stopped ? copy_to_user(call->data, &info, sizeof(info)) : -ESRCH;
}

#define NO_CALL UINT64_MAX

/* Both structures begin with the same registers. */
#define GENERAL offsetof(struct ptrace_registers, orig_rax)

_Static_assert(offsetof(struct trap_frame, vector) == GENERAL &&
		       offsetof(struct trap_frame, rbp) == offsetof(struct ptrace_registers, rbp) &&
		       offsetof(struct trap_frame, r8) == offsetof(struct ptrace_registers, r8) &&
		       offsetof(struct trap_frame, rax) == offsetof(struct ptrace_registers, rax) &&
		       offsetof(struct trap_frame, rdi) == offsetof(struct ptrace_registers, rdi),
	       "copied as they are");

static struct ptrace_registers registers_of(const struct trap_frame *frame, bool in_call)
{
	struct ptrace_registers registers = {
		.orig_rax = in_call ? frame->rax : NO_CALL,
		.rip = frame->rip,
		.cs = frame->cs,
		.rflags = (frame->rflags & USER_FLAGS_FREE) | USER_FLAGS_FIXED,
		.rsp = frame->rsp,
		.ss = USER_DATA,
	};

	memcpy(&registers, frame, GENERAL);
	return registers;
}

/* Whether a debugger may set them: a process stays in its mode. */
static bool are_allowed(const struct ptrace_registers *registers, uint64_t orig_rax, uint64_t cs)
{
	uint64_t end = cs == USER_CODE_32 ? 1ul << 32 : USER_END;

	return registers->orig_rax == orig_rax && registers->rip < end && registers->cs == cs &&
	       registers->ss == USER_DATA &&
	       (registers->rflags & ~(uint64_t)USER_FLAGS_FREE) == USER_FLAGS_FIXED &&
	       !(registers->fs_base | registers->gs_base | registers->ds | registers->es |
		 registers->fs | registers->gs);
}

/* -ESRCH: it is not stopped. */
static int read_registers(struct attachment *at, struct trap_frame *frame,
			  struct ptrace_registers *registers)
{
	int error = ptrace_get_frame(at, frame);

	if (!error)
		*registers = registers_of(frame, at->tracee->in_call);
	return error;
}

/* Registers of the frame that a debugger may not set keep their values. */
static long write_registers(struct attachment *at, struct trap_frame *frame,
			    const struct ptrace_registers *registers)
{
	if (!are_allowed(registers, at->tracee->in_call ? frame->rax : NO_CALL, frame->cs))
		return -EIO;
	memcpy(frame, registers, GENERAL);
	frame->rip = registers->rip;
	frame->rflags = registers->rflags;
	frame->rsp = registers->rsp;
	return ptrace_set_frame(at, frame);
}

long ptrace_get_registers(const struct ptrace_call *call)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = read_registers(call->at, &frame, &registers);

	return error ? error : copy_to_user(call->data, &registers, sizeof(registers));
}

long ptrace_set_registers(const struct ptrace_call *call)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = copy_from_user(&registers, call->data, sizeof(registers));

	if (!error)
		error = ptrace_get_frame(call->at, &frame);
	return error ? error : write_registers(call->at, &frame, &registers);
}

/* Where the register at `address` of struct user is in `registers`; NULL: nowhere. */
static uint64_t *find_register(struct ptrace_registers *registers, uint64_t address)
{
	return address % sizeof(uint64_t) || address >= sizeof(*registers)
		       ? NULL
		       : (uint64_t *)registers + address / sizeof(uint64_t);
}

static bool is_debug_register(uint64_t address)
{
	return address % sizeof(uint64_t) == 0 && address >= PTRACE_USER_DEBUGREG &&
	       address < PTRACE_USER_DEBUGREG_END;
}

long ptrace_peek_register(const struct ptrace_call *call)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = read_registers(call->at, &frame, &registers);
	const uint64_t zero = 0, *found = find_register(&registers, call->address);

	if (!found && is_debug_register(call->address))
		found = &zero;
	if (error || !found)
		return error ? error : -EIO;
	return copy_to_user(call->data, found, sizeof(*found));
}

long ptrace_poke_register(const struct ptrace_call *call)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = read_registers(call->at, &frame, &registers);
	uint64_t *found = find_register(&registers, call->address);

	if (error)
		return error;
	if (is_debug_register(call->address))
		return call->data ? -EIO : 0;
	if (!found)
		return -EIO;
	*found = call->data;
	return write_registers(call->at, &frame, &registers);
}

long ptrace_freeze(const struct ptrace_call *call)
{
	if (!call->self->privileged)
		return -EPERM;
	if (call->pid || call->address || call->data & ~(uint64_t)PTRACE_FREEZE_TRIGGERS ||
	    (call->data & PTRACE_FREEZE_NOW && call->data != PTRACE_FREEZE_NOW))
		return -EINVAL;
	return freeze_request(&call->self->account, (unsigned)call->data, &call->self->frame);
}

long ptrace_freeze_status(const struct ptrace_call *call)
{
	struct ptrace_freeze_cpu status;
	unsigned count = 0;

	if (!call->self->privileged)
		return -EPERM;
	if (call->pid)
		return -EINVAL;
	if (!call->data || call->data % sizeof(status))
		return -EIO;
	for (; count < call->data / sizeof(status) && count < cpu_count(); count++) {
		if (!freeze_status(count, &status))
			return -ENXIO;
		if (copy_to_user(call->address + count * sizeof(status), &status, sizeof(status)))
			return -EFAULT;
	}
	return count;
}
