// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/cpu.h"
#include "kernel/mm/copy.h"
#include "kernel/ptrace/internal.h"

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

/* What it had stays where it is not one of these. */
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

static bool allowed(const struct ptrace_registers *registers, uint64_t orig_rax)
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

long ptrace_set_registers(struct attachment *at, uint64_t user)
{
	struct ptrace_registers registers;
	struct trap_frame frame;
	int error = copy_from_user(&registers, user, sizeof(registers));

	if (!error)
		error = ptrace_get_frame(at, &frame);
	if (error)
		return error;
	if (!allowed(&registers, at->tracee->in_call ? frame.rax : NO_CALL))
		return -EIO;
	put_registers(&frame, &registers);
	return ptrace_set_frame(at, &frame);
}
