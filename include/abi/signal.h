/* SPDX-License-Identifier: MIT */
/* Signals and how a process ended, with Linux's values. */
#ifndef SPOOR_ABI_SIGNAL_H
#define SPOOR_ABI_SIGNAL_H

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

/* The status that wait4() reports. */
#define WAIT_EXITED(code)    (((code)&0xff) << 8)
#define WAIT_KILLED(signal)  (signal)
#define WAIT_STOPPED(signal) ((signal) << 8 | 0x7f)

#endif
