// SPDX-License-Identifier: MIT
// Handlers of signals: what a signal does, the frame that a handler begins with, and the way back.
#include "abi/errno.h"
#include "kernel/cpu.h"
#include "kernel/process/internal.h"
#include "lib/string.h"

#define RED_ZONE 128 /* below RSP: System V ABI for AMD64, 3.2.2 */
#define FLAG_DF	 0x400u

/* The actions of SIGKILL and SIGSTOP cannot be changed. */
#define FIXED (BIT(SIGKILL) | BIT(SIGSTOP))

/* Of each register at the start of struct sigcontext its place in struct trap_frame. */
#define PLACE(name) (offsetof(struct trap_frame, name) / sizeof(uint64_t))
static const uint8_t places[] = {
	PLACE(r8),  PLACE(r9),	PLACE(r10), PLACE(r11), PLACE(r12), PLACE(r13),
	PLACE(r14), PLACE(r15), PLACE(rdi), PLACE(rsi), PLACE(rbp), PLACE(rbx),
	PLACE(rdx), PLACE(rax), PLACE(rcx), PLACE(rsp), PLACE(rip), PLACE(rflags),
};
#define REGISTERS (sizeof(places) / sizeof(places[0]))
_Static_assert(offsetof(struct sigcontext, cs) == REGISTERS * sizeof(uint64_t),
	       "registers are first");

static uint32_t signals_of(uint64_t set)
{
	return (uint32_t)(set << 1) & ~FIXED;
}

static uint64_t set_of(uint32_t signals)
{
	return signals >> 1;
}

static void fill_frame(const struct process *self, uint64_t at, struct signal_frame *frame)
{
	struct sigcontext *context = &frame->context.uc_mcontext;
	uint64_t *registers = (uint64_t *)context;
	struct user_context now = {0}; /* FXSAVE leaves the last 48 bytes alone */

	for (unsigned i = 0; i < REGISTERS; i++)
		registers[i] = ((const uint64_t *)&self->frame)[places[i]];
	context->cs = (uint16_t)self->frame.cs;
	context->ss = USER_DATA;
	context->err = self->fault.error;
	context->trapno = self->fault.vector;
	context->cr2 = self->fault.cr2;
	context->fpstate = at + offsetof(struct signal_frame, fpu);
	frame->context.uc_sigmask = set_of(self->blocked);
	frame->restorer = self->actions[self->caught].restorer;
	frame->info = signal_info(self->caught, &self->caught_cause);
	user_context_copy_fpu(&now);
	memcpy(frame->fpu, now.fpu, sizeof(frame->fpu));
}

/* As after a CALL with three arguments, the x87 and SSE registers as a program begins with them. */
static void begin_handler(struct process *self, uint64_t at, uint64_t handler)
{
	struct trap_frame *frame = &self->frame;
	struct user_context fresh;

	frame->rdi = self->caught;
	frame->rsi = at + offsetof(struct signal_frame, info);
	frame->rdx = at + offsetof(struct signal_frame, context);
	frame->rax = 0;
	frame->rsp = at;
	frame->rip = handler;
	frame->cs = USER_CODE;
	frame->rflags &= ~(uint64_t)(FLAG_TF | FLAG_DF);
	frame->vector = VECTOR_KICK;
	user_context_init(&fresh, 0);
	user_context_use_fpu(&fresh);
}

void handler_enter(struct process *self)
{
	struct sigaction *action = &self->actions[self->caught];
	bool is_32 = self->frame.cs == USER_CODE_32;
	uint64_t rsp = is_32 ? (uint32_t)self->frame.rsp : self->frame.rsp;
	uint64_t at = ((rsp - RED_ZONE - sizeof(struct signal_frame)) & ~15ul) - 8;
	struct signal_cause no_room = {.code = SI_KERNEL};
	struct signal_frame frame = {0};

	fill_frame(self, at, &frame);
	if (copy_to_user(at, &frame, sizeof(frame))) {
		signal_force(self, SIGSEGV, &no_room, true);
	} else {
		begin_handler(self, at, action->handler);
		self->blocked |= signals_of(action->mask) |
				 (action->flags & SA_NODEFER ? 0 : BIT(self->caught));
		if (action->flags & SA_RESETHAND)
			action->handler = SIG_DFL;
	}
	self->caught = 0;
}

/* Whether ring 3 may go on there; its flags are its own, less those that it may not set. */
static bool is_allowed(const struct sigcontext *context)
{
	uint64_t end = context->cs == USER_CODE_32 ? 1ul << 32 : USER_END;

	return (context->cs == USER_CODE || context->cs == USER_CODE_32) &&
	       context->ss == USER_DATA && context->rip < end;
}

static bool read_context(uint64_t from, struct ucontext *context, struct user_context *fpu)
{
	user_context_init(fpu, 0);
	return !copy_from_user(context, from, sizeof(*context)) &&
	       is_allowed(&context->uc_mcontext) &&
	       (!context->uc_mcontext.fpstate ||
		!copy_from_user(fpu->fpu, context->uc_mcontext.fpstate, sizeof(fpu->fpu)));
}

/* The handler's RET has taken the restorer's address off the frame. */
long call_rt_sigreturn(struct process *self, const uint64_t *argument)
{
	struct signal_cause no_frame = {.code = SI_KERNEL};
	struct trap_frame *frame = &self->frame;
	struct user_context fpu;
	struct ucontext context;

	(void)argument;
	if (!read_context(frame->rsp, &context, &fpu)) {
		signal_force(self, SIGSEGV, &no_frame, true);
		return -EFAULT;
	}
	for (unsigned i = 0; i < REGISTERS; i++)
		((uint64_t *)frame)[places[i]] = ((const uint64_t *)&context.uc_mcontext)[i];
	frame->cs = context.uc_mcontext.cs;
	frame->rflags = (frame->rflags & USER_FLAGS_FREE) | USER_FLAGS_FIXED;
	frame->vector = VECTOR_KICK; /* SYSRET would clobber RCX and R11 */
	user_context_use_fpu(&fpu);
	self->blocked = signals_of(context.uc_sigmask);
	return (long)frame->rax;
}

static bool is_action_refused(unsigned signal, const struct sigaction *action)
{
	bool is_handler = action->handler > SIG_IGN;

	return BIT(signal) & FIXED || action->flags & ~(uint64_t)SA_MASK ||
	       (is_handler && !(action->flags & SA_RESTORER)) || action->handler >= USER_END;
}

/* A signal that does nothing from here on is not pending any more (POSIX.1, 2.4.3). */
static void set_action(struct process *self, unsigned signal, const struct sigaction *action)
{
	SPIN_GUARD(&processes_lock);

	self->actions[signal] = *action;
	self->actions[signal].mask = set_of(signals_of(action->mask));
	if (signal_is_ignored(self, signal))
		self->pending &= ~BIT(signal);
}

long call_rt_sigaction(struct process *self, const uint64_t *argument)
{
	uint64_t signal = argument[0];
	struct sigaction action, old;

	if (!signal || signal >= SIGNALS || argument[3] != SIGSET_BYTES)
		return -EINVAL;
	old = self->actions[signal];
	if (argument[1] && copy_from_user(&action, argument[1], sizeof(action)))
		return -EFAULT;
	if (argument[1] && is_action_refused((unsigned)signal, &action))
		return -EINVAL;
	if (argument[2] && copy_to_user(argument[2], &old, sizeof(old)))
		return -EFAULT;
	if (argument[1])
		set_action(self, (unsigned)signal, &action);
	return 0;
}

static int find_mask(uint64_t how, uint64_t set, uint32_t *blocked)
{
	switch (how) {
	case SIG_BLOCK:
		*blocked |= signals_of(set);
		return 0;
	case SIG_UNBLOCK:
		*blocked &= ~signals_of(set);
		return 0;
	case SIG_SETMASK:
		*blocked = signals_of(set);
		return 0;
	default:
		return -EINVAL;
	}
}

long call_rt_sigprocmask(struct process *self, const uint64_t *argument)
{
	uint64_t set, old = set_of(self->blocked);
	uint32_t blocked = self->blocked;
	int error = argument[3] == SIGSET_BYTES ? 0 : -EINVAL;

	if (!error && argument[1]) {
		error = copy_from_user(&set, argument[1], sizeof(set));
		if (!error)
			error = find_mask(argument[0], set, &blocked);
	}
	if (!error && argument[2])
		error = copy_to_user(argument[2], &old, sizeof(old));
	if (!error)
		self->blocked = blocked;
	return error;
}
