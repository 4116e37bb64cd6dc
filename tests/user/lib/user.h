/* SPDX-License-Identifier: MIT */
/* What a program of ring 3 has: the system calls, and a check that ends it. */
#ifndef SPOOR_TESTS_USER_LIB_USER_H
#define SPOOR_TESTS_USER_LIB_USER_H

#include "abi/errno.h"
#include "abi/signal.h"
#include "abi/syscall.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The program; its result is the exit code. */
int main(uint64_t argument);

static inline long system_call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = (uint64_t)-1;
	register uint64_t r9 __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline _Noreturn void exit(int code)
{
	system_call(SYS_exit, (uint64_t)code, 0, 0, 0);
	__builtin_unreachable();
}

static inline long fork(void)
{
	return system_call(SYS_fork, 0, 0, 0, 0);
}

static inline long spawn(const char *program, uint64_t argument)
{
	return system_call(SYS_spawn, (uint64_t)program, argument, 0, 0);
}

static inline long wait4(long pid, int *status, unsigned options)
{
	return system_call(SYS_wait4, (uint64_t)pid, (uint64_t)status, options, 0);
}

static inline long kill(long pid, unsigned signal)
{
	return system_call(SYS_kill, (uint64_t)pid, signal, 0, 0);
}

static inline long getpid(void)
{
	return system_call(SYS_getpid, 0, 0, 0, 0);
}

static inline long getppid(void)
{
	return system_call(SYS_getppid, 0, 0, 0, 0);
}

static inline void yield(void)
{
	system_call(SYS_sched_yield, 0, 0, 0, 0);
}

static inline long sleep_us(int64_t microseconds)
{
	struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};

	return system_call(SYS_nanosleep, (uint64_t)&time, 0, 0, 0);
}

static inline int64_t now_us(void)
{
	struct timespec time = {0, 0};

	system_call(SYS_clock_gettime, CLOCK_MONOTONIC, (uint64_t)&time, 0, 0);
	return time.seconds * 1000000 + time.nanoseconds / 1000;
}

static inline long set_affinity(long pid, uint64_t cpus)
{
	return system_call(SYS_sched_setaffinity, (uint64_t)pid, sizeof(cpus), (uint64_t)&cpus, 0);
}

static inline uint32_t cpu_now(void)
{
	uint32_t cpu = UINT32_MAX;

	system_call(SYS_getcpu, (uint64_t)&cpu, 0, 0, 0);
	return cpu;
}

/* An address, or a negated error. */
static inline long map(size_t bytes, unsigned rights)
{
	return system_call(SYS_mmap, 0, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS);
}

static inline long unmap(long address, size_t bytes)
{
	return system_call(SYS_munmap, (uint64_t)address, bytes, 0, 0);
}

/* splitmix64, as tests/framework/random.h. */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Adds to a line on the console, which appears when it ends. */
void say(const char *text);
void say_number(uint64_t number, unsigned base);

#define EXIT_FAILED 99

/* Ends the program with EXIT_FAILED and the place on the console unless `condition` holds. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			check_failed(__FILE__, __LINE__);                                          \
	} while (0)

_Noreturn void check_failed(const char *file, unsigned line);

#endif
