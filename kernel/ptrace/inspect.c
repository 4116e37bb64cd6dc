// SPDX-License-Identifier: MIT
// A stopped process cannot leave its stop while the lock is held.
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/cpu.h"
#include "kernel/mm/copy.h"
#include "kernel/ptrace/internal.h"

int ptrace_get_frame(struct attachment *at, struct trap_frame *frame)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = at->stop;

	if (stopped)
		*frame = at->tracee->frame;
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

/* SYSRET could not give it an RCX and R11 of its own: it goes on as from an interrupt. */
int ptrace_set_frame(struct attachment *at, const struct trap_frame *frame)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = at->stop;

	if (stopped) {
		at->tracee->frame = *frame;
		at->tracee->frame.vector = VECTOR_KICK;
	}
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

int ptrace_peek(struct attachment *at, uint64_t address, void *buffer, size_t bytes)
{
	uint64_t flags = spin_lock(&processes_lock);
	int error = -ESRCH;

	if (at->stop)
		error = space_read(&at->tracee->space, address, buffer, bytes) ? -EIO : 0;
	spin_unlock(&processes_lock, flags);
	return error;
}

int ptrace_poke(struct attachment *at, uint64_t address, const void *buffer, size_t bytes)
{
	uint64_t flags = spin_lock(&processes_lock);
	int error = -ESRCH;

	if (at->stop)
		error = space_write(&at->tracee->space, address, buffer, bytes) ? -EIO : 0;
	spin_unlock(&processes_lock, flags);
	return error;
}

long ptrace_set_options(struct attachment *at, uint64_t options)
{
	uint64_t flags;

	if (options & ~(uint64_t)PTRACE_O_MASK)
		return -EINVAL;
	flags = spin_lock(&processes_lock);
	at->options = (uint32_t)options;
	spin_unlock(&processes_lock, flags);
	return 0;
}

long ptrace_get_message(struct attachment *at, uint64_t user)
{
	return copy_to_user(user, &at->message, sizeof(at->message));
}

long ptrace_get_siginfo(struct attachment *at, uint64_t user)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct siginfo info = {.si_signo = at->stop >> 8 & 0xff, .si_code = at->cause.code};
	bool stopped = at->stop;

	if (at->cause.address) {
		info.si_addr = at->cause.address;
	} else {
		info.si_pid = at->cause.pid;
		info.si_status = at->cause.status;
	}
	spin_unlock(&processes_lock, flags);
	return stopped ? copy_to_user(user, &info, sizeof(info)) : -ESRCH;
}

#define NO_CALL UINT64_MAX

static struct ptrace_registers registers_of(const struct trap_frame *frame, bool in_call)
{
	return (struct ptrace_registers){
		.r15 = frame->r15,
		.r14 = frame->r14,
		.r13 = frame->r13,
		.r12 = frame->r12,
		.rbp = frame->rbp,
		.rbx = frame->rbx,
		.r11 = frame->r11,
		.r10 = frame->r10,
		.r9 = frame->r9,
		.r8 = frame->r8,
		.rax = frame->rax,
		.rcx = frame->rcx,
		.rdx = frame->rdx,
		.rsi = frame->rsi,
		.rdi = frame->rdi,
		.orig_rax = in_call ? frame->rax : NO_CALL,
		.rip = frame->rip,
		.cs = USER_CODE,
		.rflags = (frame->rflags & USER_FLAGS_FREE) | USER_FLAGS_FIXED,
		.rsp = frame->rsp,
		.ss = USER_DATA,
	};
}

/* Registers of the frame that a debugger may not set keep their values. */
static void put_registers(struct trap_frame *frame, const struct ptrace_registers *registers)
{
	frame->r15 = registers->r15;
	frame->r14 = registers->r14;
	frame->r13 = registers->r13;
	frame->r12 = registers->r12;
	frame->rbp = registers->rbp;
	frame->rbx = registers->rbx;
	frame->r11 = registers->r11;
	frame->r10 = registers->r10;
	frame->r9 = registers->r9;
	frame->r8 = registers->r8;
	frame->rax = registers->rax;
	frame->rcx = registers->rcx;
	frame->rdx = registers->rdx;
	frame->rsi = registers->rsi;
	frame->rdi = registers->rdi;
	frame->rip = registers->rip;
	frame->rflags = registers->rflags;
	frame->rsp = registers->rsp;
}

static bool are_allowed(const struct ptrace_registers *registers, uint64_t orig_rax)
{
	return registers->orig_rax == orig_rax && registers->rip < USER_END &&
	       registers->cs == USER_CODE && registers->ss == USER_DATA &&
	       (registers->rflags & ~(uint64_t)USER_FLAGS_FREE) == USER_FLAGS_FIXED &&
	       !(registers->fs_base | registers->gs_base | registers->ds | registers->es |
		 registers->fs | registers->gs);
}

long ptrace_get_registers(struct attachment *at, uint64_t user)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = ptrace_get_frame(at, &frame);

	if (error)
		return error;
	registers = registers_of(&frame, at->tracee->in_call);
	return copy_to_user(user, &registers, sizeof(registers));
}

static long set_registers(struct attachment *at, struct trap_frame *frame,
			  const struct ptrace_registers *registers)
{
	if (!are_allowed(registers, at->tracee->in_call ? frame->rax : NO_CALL))
		return -EIO;
	put_registers(frame, registers);
	return ptrace_set_frame(at, frame);
}

long ptrace_set_registers(struct attachment *at, uint64_t user)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = copy_from_user(&registers, user, sizeof(registers));

	if (!error)
		error = ptrace_get_frame(at, &frame);
	return error ? error : set_registers(at, &frame, &registers);
}

static bool is_debug_register(uint64_t address)
{
	return address % sizeof(uint64_t) == 0 && address >= PTRACE_USER_DEBUGREG &&
	       address < PTRACE_USER_DEBUGREG_END;
}

long ptrace_peek_register(struct attachment *at, uint64_t address, uint64_t user)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	uint64_t value = 0;
	int error = ptrace_get_frame(at, &frame);

	if (error)
		return error;
	registers = registers_of(&frame, at->tracee->in_call);
	if (address % sizeof(value) == 0 && address < sizeof(registers))
		value = ((uint64_t *)&registers)[address / sizeof(value)];
	else if (!is_debug_register(address))
		return -EIO;
	return copy_to_user(user, &value, sizeof(value));
}

long ptrace_poke_register(struct attachment *at, uint64_t address, uint64_t value)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = ptrace_get_frame(at, &frame);

	if (error)
		return error;
	if (is_debug_register(address))
		return value ? -EIO : 0;
	if (address % sizeof(value) || address >= sizeof(registers))
		return -EIO;
	registers = registers_of(&frame, at->tracee->in_call);
	((uint64_t *)&registers)[address / sizeof(value)] = value;
	return set_registers(at, &frame, &registers);
}
