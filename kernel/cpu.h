/* SPDX-License-Identifier: MIT */
/* The data of each CPU. The kernel reaches its CPU's through GS. */
#pragma once

#include "drivers/debugctl.h"
#include "kernel/lock.h"
#include "kernel/sched/task.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Selectors; SYSRET fixes the order of the user's (SDM Vol 2, SYSRET). */
enum {
	KERNEL_CODE = 0x08,
	KERNEL_DATA = 0x10,
	USER_DATA = 0x18 | 3,
	USER_CODE = 0x20 | 3,
	TASK_STATE = 0x28,
	USER_CODE_32 = 0x38 | 3, /* compatibility mode; after the two entries of TASK_STATE */
};

/* MSRs that lead into the kernel: SDM Vol 3, 5.8.7 and 5.8.8. */
#define IA32_SYSENTER_CS 0x174u
#define IA32_LSTAR	 0xc0000082u
#define IA32_FMASK	 0xc0000084u

/* Interrupt stacks of the task-state segment, 1 to 4. */
enum { IST_NMI = 1, IST_DF, IST_MC, IST_DB };

/* SDM Vol 3, 7.7: 64-bit task-state segment. */
struct task_state {
	uint32_t reserved0;
	uint64_t rsp[3];
	uint64_t reserved1;
	uint64_t ist[7];
	uint64_t reserved2;
	uint16_t reserved3;
	uint16_t io_map_base;
} __attribute__((packed));
_Static_assert(sizeof(struct task_state) == 104, "SDM Vol 3, figure 7-11");

struct cpu {
	struct cpu *self;
	uint64_t user_rsp;   /* SYSCALL keeps the user's stack pointer here for an instant */
	uint64_t kernel_rsp; /* where SYSCALL starts its stack: the same as task_state.rsp[0] */
	struct task *current;
	struct task_state task_state;
	unsigned index;
	uint32_t apic_id;
	atomic_bool online;	 /* it is in its idle loop, or beyond */
	atomic_bool left_out;	 /* it halts, and is not used: trace_init_cpu() */
	unsigned kind;		 /* as the banner numbers them */
	unsigned preemption_off; /* nesting; a pending reschedule waits for 0 */
	bool reschedule;
	unsigned interrupts; /* handlers that run, one within another; not counting NMIs */
	struct task idle;
	struct timer slice;
	uint64_t slice_us; /* of the next one: the newest arrival of a trace does not count */
	uint64_t arrival;  /* how long that took, in TSC */
	struct task *left, *leaves; /* by the switch under way: who is dead; who changes CPU */
	bool unfinished;	    /* it has one of these to see to, or a trace */
	bool slice_over, timer_fired;
	struct trap_frame *interrupted; /* by the newest timer interrupt */
	struct run_queue ready;
	struct spinlock timer_lock;
	struct timer *timers; /* sorted by deadline */
	uint64_t timer_due;   /* when the local APIC's timer fires; UINT64_MAX: it does not */
	_Atomic(struct timer *) expiring;
	_Atomic(struct smp_call *) calls; /* list: what other CPUs want done here */
	struct trace_cpu *trace;	  /* trace/context.h; NULL before trace_init_cpu() */
	bool recording;			  /* by a trace unit: see trace/cpu.h */
	struct debugctl debugctl;
	uint64_t gdt[8];
};
_Static_assert(offsetof(struct cpu, user_rsp) == 8, "kernel/trap/entry.asm");
_Static_assert(offsetof(struct cpu, kernel_rsp) == 16, "kernel/trap/entry.asm");
_Static_assert(offsetof(struct cpu, task_state.rsp[0]) == 36, "kernel/trap/entry.asm");

/* This CPU. With preemption on the caller may move to another at any time. */
static inline struct cpu *this_cpu(void)
{
	struct cpu *cpu;
	__asm__ volatile("movq %%gs:0, %0" : "=r"(cpu));
	return cpu;
}

/* The task that runs: stable whatever CPU it runs on. */
static inline struct task *current_task(void)
{
	struct task *task;
	__asm__ volatile("movq %%gs:%c1, %0" : "=r"(task) : "i"(offsetof(struct cpu, current)));
	return task;
}

/* Gives the boot CPU its descriptor tables and GS; interrupt stacks come from the image. */
void cpu_init_boot(void);

/*
 * The data of one more CPU, its interrupt stacks included, under the next index, below MAX_CPUS;
 * NULL when memory is out. The boot CPU, one at a time.
 */
struct cpu *cpu_create(void);

/* Takes back the newest index: that CPU did not start, its memory is given up. */
void cpu_forget_newest(void);

/* Descriptor tables and GS of the CPU that runs. */
void cpu_load(struct cpu *cpu);

/* CPUs that run: indices 0 to cpu_count() - 1. */
unsigned cpu_count(void);

/* Turns on what protects: SMEP, SMAP, UMIP; and SYSCALL and SSE for ring 3. Each CPU. */
void cpu_protect(void);

/* Whether cpu_protect() turned SMAP on: access to user memory then needs STAC and CLAC. */
extern bool cpu_smap;

/* CPU number `index` < cpu_count(). */
struct cpu *cpu_by_index(unsigned index);

/* Lets NMIs in again, in a handler of one that does not return: IRET does (SDM Vol 3, 6.7.1). */
static inline void nmi_unblock(void)
{
	__asm__ volatile("movq %%rsp, %%rdx; pushq %0; pushq %%rdx; pushfq; pushq %1; pushq $1f\n\t"
			 "iretq\n1:"
			 :
			 : "i"(KERNEL_DATA), "i"(KERNEL_CODE)
			 : "rdx", "memory");
}

/* Keep the running task on this CPU until the matching preemption_enable(). Nestable. */
static inline void preemption_disable(void)
{
	__asm__ volatile("incl %%gs:%c0"
			 :
			 : "i"(offsetof(struct cpu, preemption_off))
			 : "memory", "cc");
}
void preemption_enable(void);
