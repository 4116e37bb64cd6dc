/* SPDX-License-Identifier: MIT */
/* Signals, what is known of one, and how a process ended, with Linux's values and layouts. */
#ifndef SPOOR_ABI_SIGNAL_H
#define SPOOR_ABI_SIGNAL_H

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
		uint64_t si_addr;
	};
	uint8_t unused[96];
};
_Static_assert(sizeof(struct siginfo) == 128, "Linux's siginfo_t");

/* The status that wait4() reports. */
#define WAIT_EXITED(code)    (((code)&0xff) << 8)
#define WAIT_KILLED(signal)  (signal)
#define WAIT_STOPPED(signal) ((signal) << 8 | 0x7f)

#endif
