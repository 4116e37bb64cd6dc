/* SPDX-License-Identifier: MIT */
/* For a program of ring 3: the system calls, and a check that ends it. */
#pragma once

#include "abi/errno.h"
#include "abi/signal.h"
#include "abi/syscall.h"
#include "tests/framework/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The program; its result is the exit code. */
int main(uint64_t argument);

/* Begins the main() of program `name` in a file that has several programs. */
#define MAIN(name)                                                                                 \
	int main_##name(uint64_t argument);                                                        \
	int main_##name(__attribute__((unused)) uint64_t argument)

long system_call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* INT 80H of 32-bit code, with these in EAX, EBX, ECX, EDX, ESI, EDI and EBP; EAX as it returns. */
int32_t call_32(const uint32_t registers[7]);

_Noreturn void exit(int code);
long fork(void);
long spawn(const char *program, uint64_t argument);
long wait4(long pid, int *status, unsigned options);
long kill(long pid, unsigned signal);
long getpid(void);
long getppid(void);
void yield(void);
long sleep_us(int64_t microseconds);
int64_t now_us(void);
/* A set of the first 64 CPUs, one quadword; and CPU `cpu` alone, by a set of 512. */
long set_affinity(long pid, uint64_t cpus);
long run_on(long pid, uint64_t cpu);
long getrlimit(unsigned resource, struct rlimit *limit);
long setrlimit(unsigned resource, const struct rlimit *limit);
uint32_t cpu_now(void);

/*
 * What `signal` does from here on: `function` (SIG_DFL, SIG_IGN, or a handler), with SA_RESTORER
 * added to `flags`. set_mask(): how, the set, and where the old one is stored, or NULL.
 */
typedef void signal_handler(int signal, struct siginfo *info, struct ucontext *context);
long set_handler(unsigned signal, signal_handler *function, uint64_t flags, uint64_t mask);
long set_mask(int how, uint64_t set, uint64_t *old);

/* The same of all signals but SIGSEGV, whose handler would let a fault repeat. */
void set_handlers(signal_handler *function);

/* Where handlers return to: rt_sigreturn(). */
extern const char signal_return[];

/* Anonymous memory; an address, or a negated error. */
long map(size_t bytes, unsigned rights);
long unmap(long address, size_t bytes);

/* Adds to a line on the console, which appears when it ends. */
void say(const char *text);
void say_number(uint64_t number, unsigned base);

#define EXIT_FAILED 99

_Noreturn void check_failed(const char *file, unsigned line);

/* Of each file its own: a CHECK is then no more than a jump and a number. */
__attribute__((noinline, unused)) static _Noreturn void failed_at(unsigned line)
{
	check_failed(__BASE_FILE__, line);
}

/* Ends the program with EXIT_FAILED and the place on the console unless `condition` holds. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			failed_at(__LINE__);                                                       \
	} while (0)
