// SPDX-License-Identifier: MIT
// The main loop of a process: it enters ring 3, and serves what ended the stay.
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/export/export.h"
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"

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

/* Becomes a signal that a handler can take, and else nothing but a tracer can avert. */
static void post_fault(struct process *self, const struct trap_frame *frame)
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
	signal_force(self, signal, &cause, false);
}

/* An instruction, a block, or a call, was stepped over: all steps are done. */
static void end_step(struct process *self)
{
	SPIN_GUARD(&processes_lock);

	for (struct attachment *at = self->attachments; at; at = at->next_of_tracee) {
		if (at->step && !at->due)
			at->due = WAIT_STOPPED(SIGTRAP);
		at->step = 0;
	}
	self->stepped = 0;
}

#define CALL_BYTES  2			    /* of SYSCALL, and of INT 80H */
#define INT80_ERROR (VECTOR_INT80 << 3 | 2) /* SDM Vol 3, 6.13: an entry of the IDT */

/* One that a signal ended before it did anything is made again by the same instruction. */
static void make_call(struct process *self)
{
	struct trap_frame *frame = &self->frame;
	uint64_t number = frame->rax;
	long result;

	self->call_is_32 = frame->vector == VECTOR_INT80;
	self->in_call = true;
	result = self->call_is_32 ? syscall_do_32(self) : syscall_do(self);
	self->in_call = false;
	if (result == CALL_AGAIN) {
		frame->rax = number;
		frame->rip -= CALL_BYTES;
	} else {
		frame->rax = self->call_is_32 ? (uint32_t)result : (uint64_t)result;
	}
}

/* INT 80H is of 32-bit code and SYSCALL is not: else they are what is no call elsewhere. */
static void check_call(struct process *self)
{
	struct trap_frame *frame = &self->frame;
	bool is_int80 = frame->vector == VECTOR_INT80;

	if (frame->vector != VECTOR_SYSCALL_32 && (!is_int80 || frame->cs == USER_CODE_32))
		return;
	frame->vector = is_int80 ? VECTOR_GP : VECTOR_UD;
	frame->error = is_int80 ? INT80_ERROR : 0;
	frame->rip -= CALL_BYTES;
	self->task->caught = (struct caught){frame->vector, frame->error, 0};
}

/* Runs ring 3 once, and deals with what ended that. */
static void run_user(struct process *self)
{
	struct trap_frame *frame = &self->frame;
	bool step = self->stepped, own_trap = frame->rflags & FLAG_TF;

	if (step)
		frame->rflags |= FLAG_TF;
	if (!user_run(frame))
		frame->vector = VECTOR_GP;
	if (step && !own_trap)
		frame->rflags &= ~(uint64_t)FLAG_TF;
	check_call(self);
	if (frame->vector == VECTOR_SYSCALL || frame->vector == VECTOR_INT80) {
		make_call(self);
		if (step) /* the instruction itself does not trap: it clears TF */
			end_step(self);
	} else if (frame->vector == VECTOR_DB && step && !own_trap) {
		end_step(self);
	} else if (frame->vector < 32) {
		self->fault = trap_caught();
		post_fault(self, frame);
	}
}

/* A task that a call made ready waits for the end of a slice: schedule_if_due() begins one. */
static void process_main(void *argument)
{
	struct process *self = argument;

	for (;;) {
		signals_act(self);
		schedule_if_due();
		run_user(self);
		if (export_on)
			export_serve();
	}
}

int process_spawn(const char *name, uint64_t argument, bool privileged, struct process **result)
{
	return process_start(name, argument, NULL, privileged, process_main, result);
}
