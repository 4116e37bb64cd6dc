/* SPDX-License-Identifier: MIT */
/*
 * The system calls: SYSCALL with the number in RAX and arguments in RDI, RSI, RDX, R10, R8, R9; the
 * result, or a negated errno.h value, in RAX; RCX and R11 are lost. Numbers, arguments and values
 * are Linux's for x86-64 where Linux has the call; what is not described is -EINVAL or -ENOSYS.
 * A failed call changes nothing; but a result that begins in a page of the caller's and ends in
 * none is -EFAULT with its beginning written.
 */
#pragma once

#include <stdint.h>

enum {
	SYS_read = 0,  /* (fd, buffer, bytes): of the serial line, docs/serial-line.4 */
	SYS_write = 1, /* (fd, buffer, bytes): fd 1 or 2, printable text on the console; or the
			  serial line */
	SYS_open = 2,  /* (SERIAL_LINE, O_RDWR, with or without O_NONBLOCK): fd */
	SYS_close = 3, /* (fd) */
	SYS_poll =
		7, /* (struct pollfd *, how many, milliseconds; -1: no end): how many are ready */
	SYS_mmap = 9,	 /* (0, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0): zeroed pages */
	SYS_munmap = 11, /* (address, bytes): of what SYS_mmap gave */
	SYS_rt_sigaction = 13,	 /* (signal, const struct sigaction * or NULL, struct sigaction * or
				    NULL, 8): abi/signal.h */
	SYS_rt_sigprocmask = 14, /* (SIG_BLOCK, SIG_UNBLOCK or SIG_SETMASK, const uint64_t *set or
				    NULL, uint64_t *old or NULL, 8) */
	SYS_rt_sigreturn = 15,	 /* (): by the end of a handler, RSP 8 above its frame */
	SYS_sched_yield = 24,
	SYS_nanosleep = 35, /* (struct timespec *, NULL) */
	SYS_getpid = 39,
	SYS_fork = 57,
	SYS_exit = 60,	     /* (code) */
	SYS_wait4 = 61,	     /* (pid or -1, int *status or NULL, WNOHANG | WUNTRACED | WNOWAIT,
				NULL); whom the caller traces is waited for as well, with or
				without WUNTRACED */
	SYS_kill = 62,	     /* (pid, signal or 0) */
	SYS_getrlimit = 97,  /* (RLIMIT_MEMLOCK, struct rlimit *) */
	SYS_ptrace = 101,    /* abi/ptrace.h, abi/ptrace_bts.h */
	SYS_getppid = 110,   /* 0: the kernel's child */
	SYS_setrlimit = 160, /* (RLIMIT_MEMLOCK, const struct rlimit *) */
	SYS_sched_setaffinity = 203, /* (pid or 0, bytes: 8 or more, const uint64_t *mask): CPUs
					beyond `bytes` are not in the set; 64 bytes hold all */
	SYS_clock_gettime = 228,     /* (CLOCK_MONOTONIC, struct timespec *) */
	SYS_getcpu = 309,	     /* (uint32_t *cpu, NULL, NULL) */

	SYS_spawn = 500,     /* (const char *program, argument): a child; Linux has no such call */
	SYS_insntrace = 501, /* abi/insntrace.h; the same */
};

/*
 * 32-bit code (compatibility mode): INT 80H with the number in EAX and arguments in EBX, ECX, EDX,
 * ESI, EDI, EBP; the result in EAX. Numbers are Linux's for i386; there are these alone. Arguments
 * are as above, pointers and words of 32 bits.
 */
enum {
	SYS_32_exit = 1,
	SYS_32_write = 4,
	SYS_32_getpid = 20,
	SYS_32_ptrace = 26, /* docs/ptrace-bts.2, 32-bit tracers and tracees */
	SYS_32_kill = 37,
	SYS_32_wait4 = 114,
};

enum { PROT_READ = 1, PROT_WRITE = 2, PROT_EXEC = 4 }; /* one of READ, READ|WRITE, READ|EXEC */
enum { MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20 };
enum {
	WNOHANG = 1,
	WUNTRACED = 2,
	WNOWAIT = 0x1000000, /* what is reported can be waited for again; Linux: waitid() only */
};
enum { CLOCK_MONOTONIC = 1 };

/* docs/serial-line.4: COM2, of one process at a time. */
#define SERIAL_LINE "/dev/ttyS1"
enum { O_RDWR = 2, O_NONBLOCK = 0x800 };
enum { POLLIN = 1, POLLOUT = 4, POLLNVAL = 0x20 };
enum { POLL_MOST = 16 }; /* descriptors of one call */

struct pollfd {
	int32_t fd; /* negative: not looked at */
	int16_t events, revents;
};
_Static_assert(sizeof(struct pollfd) == 8, "as Linux has it");

/* Locked memory: the pages of the trace buffers of a process. Children begin with its limits. */
enum { RLIMIT_MEMLOCK = 8 };

struct rlimit {
	uint64_t current, most; /* bytes; no more than `most` can be chosen as `current` */
};
_Static_assert(sizeof(struct rlimit) == 16, "as Linux has it");

struct timespec {
	int64_t seconds, nanoseconds;
};
_Static_assert(sizeof(struct timespec) == 16, "as Linux has it");
