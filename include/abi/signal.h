/* SPDX-License-Identifier: MIT */
/*
 * Signals, what is known of one, handlers of them, and how a process ended, with Linux's values and
 * layouts; docs/sigaction.2 is the manual page of the handlers.
 */
#pragma once

#include <stdint.h>

enum {
	SIGHUP = 1,
	SIGINT,
	SIGQUIT,
	SIGILL,
	SIGTRAP,
	SIGABRT,
	SIGBUS,
	SIGFPE,
	SIGKILL, /* cannot be refused by anybody */
	SIGUSR1,
	SIGSEGV,
	SIGUSR2,
	SIGPIPE,
	SIGALRM,
	SIGTERM,
	SIGSTKFLT,
	SIGCHLD,
	SIGCONT,
	SIGSTOP,
	SIGTSTP,
	SIGTTIN,
	SIGTTOU,
	SIGURG,
	SIGXCPU,
	SIGXFSZ,
	SIGVTALRM,
	SIGPROF,
	SIGWINCH,
	SIGIO,
	SIGPWR,
	SIGSYS,
	SIGNALS, /* one more than the last */
};

/* struct siginfo, si_code. */
enum {
	SI_USER = 0,	  /* kill(): si_pid */
	SI_KERNEL = 0x80, /* the kernel, for a reason that no other code names */
	ILL_ILLOPN = 2,
	FPE_INTDIV = 1,
	SEGV_MAPERR = 1, /* si_addr is not mapped */
	SEGV_ACCERR = 2, /* si_addr may not be used like that */
	BUS_ADRALN = 1,
	TRAP_TRACE = 2, /* a step, si_addr: to where */
	CLD_EXITED = 1, /* SIGCHLD: si_pid; si_status: the exit code, or the signal */
	CLD_KILLED = 2,
	CLD_TRAPPED = 4, /* it stopped for its tracer */
	CLD_STOPPED = 5,
};

/* An event of ptrace (abi/ptrace.h) made it: its stop, or the signal of a branch trace. */
#define SI_EVENT(event, signal) ((event) << 8 | (signal))

struct siginfo {
	int32_t si_signo, si_errno, si_code, reserved;
	union {
		struct {
			int32_t si_pid;
			uint32_t si_uid;
			int32_t si_status;
		};
		uint64_t si_addr, words[2];
	};
	uint8_t unused[96];
};
_Static_assert(sizeof(struct siginfo) == 128, "Linux's siginfo_t");

/* Of a sigaction, in the place of a handler's address: what the signal usually does; nothing. */
enum { SIG_DFL = 0, SIG_IGN = 1 };

/* struct sigaction, flags. */
#define SA_SIGINFO   4u		 /* taken: every handler gets all three arguments */
#define SA_RESTORER  0x04000000u /* has to be there with a handler */
#define SA_RESTART   0x10000000u /* a wait4() that it interrupts is made again */
#define SA_NODEFER   0x40000000u /* the signal is not blocked in its handler */
#define SA_RESETHAND 0x80000000u /* the handler runs once */
#define SA_MASK	     (SA_SIGINFO | SA_RESTORER | SA_RESTART | SA_NODEFER | SA_RESETHAND)

/* A set of signals: bit n - 1 is signal n. */
enum { SIGSET_BYTES = 8 };
#define SIGSET(signal) (1ull << ((signal)-1))

/* What a signal does: rt_sigaction(). */
struct sigaction {
	uint64_t handler; /* SIG_DFL, SIG_IGN, or (signal, struct siginfo *, struct ucontext *) */
	uint64_t flags;
	uint64_t restorer; /* where a handler returns to: code that calls rt_sigreturn() */
	uint64_t mask;	   /* signals that are blocked in the handler besides */
};
_Static_assert(sizeof(struct sigaction) == 32, "Linux's struct sigaction, of the kernel");

/* rt_sigprocmask(). */
enum { SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK };

/* The registers that a handler interrupted, which rt_sigreturn() takes up. */
struct sigcontext {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip,
		rflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2; /* of the newest exception, but for `oldmask` */
	uint64_t fpstate;		    /* address of 512 bytes: SDM Vol 1, 10.5.1 */
	uint64_t reserved[8];
};
_Static_assert(sizeof(struct sigcontext) == 256, "Linux's struct sigcontext");

struct ucontext {
	uint64_t uc_flags, uc_link;
	struct {
		uint64_t ss_sp, ss_flags, ss_size;
	} uc_stack;
	struct sigcontext uc_mcontext;
	uint64_t uc_sigmask; /* blocked again once the handler has returned */
};
_Static_assert(sizeof(struct ucontext) == 304, "Linux's struct ucontext");

/* What is on the stack when a handler begins, from RSP on; below the red zone of what it ended. */
struct signal_frame {
	uint64_t restorer; /* the return address; RSP + 8 is a multiple of 16 */
	struct ucontext context;
	struct siginfo info;
	uint8_t fpu[512];
};
_Static_assert(sizeof(struct signal_frame) == 952, "the x87 and SSE state at a multiple of 16");

/* The status that wait4() reports. */
#define WAIT_EXITED(code)    (((code)&0xff) << 8)
#define WAIT_KILLED(signal)  (signal)
#define WAIT_STOPPED(signal) ((signal) << 8 | 0x7f)
