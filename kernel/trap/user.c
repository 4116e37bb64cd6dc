// SPDX-License-Identifier: MIT
#include "kernel/trap/user.h"

#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "lib/string.h"

/* FXSAVE area (SDM Vol 1, table 10-2), and what FNINIT and reset leave there. */
#define FPU_FCW	       0
#define FPU_MXCSR      24
#define FPU_MXCSR_MASK 28
#define FPU_ST0	       32
#define FPU_RESERVED   416
#define FCW_INITIAL    0x37f
#define MXCSR_INITIAL  0x1f80
#define MXCSR_USUAL    0xffbfu /* a mask of 0 means: SDM Vol 1, 11.6.6 */

/* Of RFLAGS as entry.asm leaves them: no bit of them. */
#define FLAG_COMPATIBILITY (1ul << 63)

static bool canonical(uint64_t address)
{
	return (uint64_t)((int64_t)(address << 16) >> 16) == address;
}

/* Called where BTF may differ from the previous task's, or #DB has cleared it. IF = 0. */
static void load_btf(const struct user_context *to)
{
	debugctl_set(&this_cpu()->debugctl, DEBUGCTL_BTF, to && to->block_step ? DEBUGCTL_BTF : 0);
}

void user_context_copy_fpu(struct user_context *to)
{
	__asm__ volatile("fxsave64 %0" : "=m"(to->fpu));
}

/*
 * Leaves out an FXRSTOR that would change nothing: QEMU's, on any processor, writes to flags of its
 * first processor without a lock (docs/tricks.md), and most programs never touch these registers.
 */
static void restore_fpu(const struct user_context *context, const struct user_context *now)
{
	/* Between MXCSR and ST0 is MXCSR_MASK, which FXRSTOR ignores. */
	if (memcmp(now->fpu, context->fpu, FPU_MXCSR + sizeof(uint32_t)) ||
	    memcmp(now->fpu + FPU_ST0, context->fpu + FPU_ST0, FPU_RESERVED - FPU_ST0))
		__asm__ volatile("fxrstor64 %0" : : "m"(context->fpu));
}

/* FXRSTOR raises #GP for a bit of MXCSR that the mask does not have: SDM Vol 2. */
void user_context_use_fpu(struct user_context *from)
{
	struct user_context now = {0};
	uint32_t mask, mxcsr;

	user_context_copy_fpu(&now);
	memcpy(&mask, now.fpu + FPU_MXCSR_MASK, sizeof(mask));
	memcpy(&mxcsr, from->fpu + FPU_MXCSR, sizeof(mxcsr));
	mxcsr &= mask ? mask : MXCSR_USUAL;
	memcpy(from->fpu + FPU_MXCSR, &mxcsr, sizeof(mxcsr));
	restore_fpu(from, &now);
}

void user_context_init(struct user_context *context, uint64_t root)
{
	uint16_t fcw = FCW_INITIAL;
	uint32_t mxcsr = MXCSR_INITIAL;

	memset(context->fpu, 0, sizeof(context->fpu));
	memcpy(context->fpu + FPU_FCW, &fcw, sizeof(fcw));
	memcpy(context->fpu + FPU_MXCSR, &mxcsr, sizeof(mxcsr));
	context->root = root;
}

void user_switch(struct user_context *from, struct user_context *to)
{
	struct user_context kernels = {0}; /* QEMU's FXSAVE leaves FOP alone */
	struct user_context *now = from ? from : &kernels;

	user_context_copy_fpu(now);
	if (to)
		restore_fpu(to, now);
	__asm__ volatile("mov %0, %%cr3" : : "r"(to ? to->root : vm_root()) : "memory");
	/* Compatibility mode uses them; in 64-bit mode they mean nothing. */
	if (to)
		__asm__ volatile("mov %0, %%ds\n\tmov %0, %%es" : : "r"(USER_DATA));
	load_btf(to);
}

void user_context_drop(void)
{
	uint64_t flags = interrupts_save();

	user_switch(current_task()->context, NULL);
	current_task()->context = NULL;
	interrupts_restore(flags);
}

bool user_run(struct trap_frame *frame)
{
	struct task *task = current_task();
	/* SYSRET that sets TF traps before the next instruction, IRET after it. */
	bool sysret = frame->vector == VECTOR_SYSCALL && !(frame->rflags & FLAG_TF);

	/* SYSRET to a non-canonical RCX faults in ring 0 on the user's stack: SDM Vol 2. */
	if (!canonical(frame->rip))
		return false;
	/* So does IRET to what is beyond the limit of a code segment: SDM Vol 2, IRET. */
	if (frame->cs == USER_CODE_32 && frame->rip > UINT32_MAX)
		return false;
	if (frame->cs != USER_CODE_32)
		frame->cs = USER_CODE;
	frame->ss = USER_DATA;
	frame->rflags = (frame->rflags & USER_FLAGS_FREE) | USER_FLAGS_FIXED;
	if (sysret) {
		frame->rcx = frame->rip;
		frame->r11 = frame->rflags;
	}
	task->user = frame;
	__asm__ volatile("cli");
	load_btf(task->context);
	if (task->user_break)
		frame->vector = VECTOR_KICK;
	else
		user_enter(frame, &task->kernel_rsp, sysret);
	task->user = NULL;
	__asm__ volatile("sti");
	return true;
}

void user_return(const struct trap_frame *frame)
{
	struct task *task = current_task();

	*task->user = *frame;
	user_leave(task->kernel_rsp);
}

void syscall_dispatch(struct trap_frame *frame)
{
	if (frame->rflags & FLAG_COMPATIBILITY) {
		frame->rflags &= ~FLAG_COMPATIBILITY;
		frame->vector = VECTOR_SYSCALL_32;
		frame->cs = USER_CODE_32;
	}
	user_return(frame);
}
