// SPDX-License-Identifier: MIT
#include "kernel/trap/user.h"

#include "kernel/cpu.h"
#include "kernel/sched/task.h"

#define FLAGS_USER_MAY_SET 0x240dd5u /* CF PF AF ZF SF TF DF OF AC ID */
#define FLAGS_ALWAYS	   0x202u    /* IF, and the bit that reads as 1 */

static bool canonical(uint64_t address)
{
	return (uint64_t)((int64_t)(address << 16) >> 16) == address;
}

bool user_run(struct trap_frame *frame)
{
	struct task *task = current_task();
	bool sysret = frame->vector == VECTOR_SYSCALL;

	/* SYSRET to a non-canonical RCX faults in ring 0 on the user's stack (SDM Vol 2, SYSRET).
	 */
	if (!canonical(frame->rip))
		return false;
	frame->cs = USER_CODE;
	frame->ss = USER_DATA;
	frame->rflags = (frame->rflags & FLAGS_USER_MAY_SET) | FLAGS_ALWAYS;
	if (sysret) {
		frame->rcx = frame->rip;
		frame->r11 = frame->rflags;
	}
	task->user = frame;
	user_enter(frame, &task->kernel_rsp, sysret);
	task->user = NULL;
	return true;
}

void user_return(const struct trap_frame *frame)
{
	struct task *task = current_task();

	*task->user = *frame;
	__asm__ volatile("sti");
	user_leave(task->kernel_rsp);
}

void syscall_dispatch(struct trap_frame *frame)
{
	user_return(frame);
}
