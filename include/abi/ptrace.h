/* SPDX-License-Identifier: MIT */
/*
 * SYS_ptrace: (request, pid, addr, data), with Linux's numbers and layouts; docs/ptrace-bts.2 is
 * the manual page. The requests for branches are in ptrace_bts.h, those for samples in
 * ptrace_pebs.h.
 */
#pragma once

#include <stdint.h>

enum {
	PTRACE_TRACEME = 0,
	PTRACE_PEEKTEXT = 1,
	PTRACE_PEEKDATA = 2,
	PTRACE_PEEKUSR = 3,
	PTRACE_POKETEXT = 4,
	PTRACE_POKEDATA = 5,
	PTRACE_POKEUSR = 6,
	PTRACE_CONT = 7,
	PTRACE_KILL = 8,
	PTRACE_SINGLESTEP = 9,
	PTRACE_GETREGS = 12,
	PTRACE_SETREGS = 13,
	PTRACE_ATTACH = 16,
	PTRACE_DETACH = 17,
	PTRACE_SINGLEBLOCK = 33,
	PTRACE_FREEZE = 58, /* (0, flags), of pid 0: 0 */
	PTRACE_FREEZE_STATUS =
		59, /* (struct ptrace_freeze_cpu *, bytes), of pid 0: how many CPUs */
	PTRACE_SETOPTIONS = 0x4200,
	PTRACE_GETEVENTMSG = 0x4201,
	PTRACE_GETSIGINFO = 0x4202,
	PTRACE_SEIZE = 0x4206,
	PTRACE_INTERRUPT = 0x4207,
};

/* PTRACE_SETOPTIONS. */
enum {
	PTRACE_O_TRACEFORK = 2,	 /* stop in a fork() or spawn(), and trace the child as well */
	PTRACE_O_TRACEVFORK = 4, /* this and the next three are taken; nothing here does that */
	PTRACE_O_TRACECLONE = 8,
	PTRACE_O_TRACEEXEC = 0x10,
	PTRACE_O_TRACEVFORKDONE = 0x20,
	PTRACE_O_TRACEEXIT = 0x40, /* stop before the end */
	PTRACE_O_MASK = 0x7e,
};

/* Why a tracee stopped, in bits 16 and up of the status of wait4(); 0: a signal, or a step. */
enum {
	PTRACE_EVENT_FORK = 1,	 /* PTRACE_GETEVENTMSG: the child's pid */
	PTRACE_EVENT_EXIT = 6,	 /* PTRACE_GETEVENTMSG: the status that wait4() will report */
	PTRACE_EVENT_BTS = 64,	 /* its trace came to the threshold */
	PTRACE_EVENT_PEBS = 65,	 /* its buffer of samples is full */
	PTRACE_EVENT_STOP = 128, /* PTRACE_INTERRUPT */
};

/* PTRACE_PEEKUSR, PTRACE_POKEUSR: addresses in Linux's struct user; registers are at its start. */
enum {
	PTRACE_USER_DEBUGREG = 848, /* eight, all 0: there are no watchpoints */
	PTRACE_USER_DEBUGREG_END = 912,
};

/* PTRACE_GETREGS, PTRACE_SETREGS. The bases and data segments are 0, and stay so. */
struct ptrace_registers {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	uint64_t orig_rax; /* in a system call: its number; else -1 */
	uint64_t rip, cs, rflags, rsp, ss;
	uint64_t fs_base, gs_base, ds, es, fs, gs;
};
_Static_assert(sizeof(struct ptrace_registers) == 27 * 8, "Linux's struct user_regs_struct");

/* PTRACE_FREEZE, flags; 0: thaw. docs/ptrace-freeze.2 is the manual page. */
enum {
	PTRACE_FREEZE_NOW = 1,	    /* alone */
	PTRACE_FREEZE_FAULT = 2,    /* at an exception of ring 3, but #DB and #BP */
	PTRACE_FREEZE_OVERFLOW = 4, /* where a buffer reaches its threshold */
	PTRACE_FREEZE_PANIC = 8,
	PTRACE_FREEZE_TRIGGERS = 0xf,
};

/* struct ptrace_freeze_cpu, flags. */
enum {
	PTRACE_FREEZE_STOPPED = 1, /* else it has not answered the NMI, and has nothing below */
	PTRACE_FREEZE_RESTS = 2,   /* what it recorded is with the tracers; else it has IF = 0 */
};

/* struct ptrace_freeze_cpu, units: that were on there. */
enum {
	PTRACE_FREEZE_BTS = 1,
	PTRACE_FREEZE_PEBS = 2,
	PTRACE_FREEZE_PT = 4,
	PTRACE_FREEZE_LBR = 8,
};

struct ptrace_freeze_cpu {
	uint32_t cpu, flags;
	uint32_t cause; /* of the CPU where it happened: the flag of PTRACE_FREEZE; else 0 */
	uint32_t units;
	uint64_t pid;			   /* of the process or task that ran there */
	uint64_t tsc;			   /* when its units had stopped */
	int64_t delay;			   /* that, since the CPU of the cause had stopped */
	struct ptrace_registers registers; /* as it was stopped; 0: by a switch of tasks */
};
_Static_assert(sizeof(struct ptrace_freeze_cpu) == 256, "the interface");
