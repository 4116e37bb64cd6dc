// SPDX-License-Identifier: MIT
// A program to trace: system calls, faults, signals, interrupts and both of two CPUs, many branches
// in between.
#include "tests/user/lib/user.h"

#define ROUNDS 6

static volatile unsigned sum;

/* Conditional branches, calls by pointer and returns. */
static unsigned odd(unsigned n)
{
	return n * 3 + 1;
}

static unsigned even(unsigned n)
{
	return n / 2;
}

static unsigned collatz(unsigned n)
{
	unsigned (*const step[])(unsigned) = {even, odd};
	unsigned steps = 0;

	for (; n != 1; steps++)
		n = step[n & 1](n);
	return steps;
}

static void work(unsigned count)
{
	for (unsigned n = 1; n <= count; n++)
		sum += collatz(n);
}

/* Each way to end by a fault, in a child. */
static void fault(unsigned which)
{
	work(10);
	switch (which) {
	case 0:
		__asm__ volatile("ud2");
		break;
	case 1:
		__asm__ volatile("movb $0, 8");
		break;
	case 2:
		__asm__ volatile("hlt");
		break;
	default:
		((void (*)(void))0x616161616160)();
	}
}

static void await(long child)
{
	int status;

	CHECK(wait4(child, &status, 0) == child);
}

static void faults(void)
{
	for (unsigned which = 0; which < 4; which++) {
		long child = fork();

		if (!child) {
			fault(which);
			exit(EXIT_FAILED);
		}
		await(child);
	}
}

/* A child on the other CPU is stopped, goes on and is killed, wherever it is. */
static void signals(void)
{
	long child = fork();
	int status;

	if (!child)
		for (;;)
			work(30);
	set_affinity(child, 2);
	sleep_us(1000);
	CHECK(!kill(child, SIGSTOP) && wait4(child, &status, WUNTRACED) == child);
	CHECK(!kill(child, SIGCONT));
	sleep_us(1000);
	CHECK(!kill(child, SIGKILL));
	await(child);
}

int main(uint64_t argument)
{
	(void)argument;
	for (unsigned round = 0; round < ROUNDS; round++) {
		set_affinity(getpid(), 1u << round % 2);
		work(20);
		yield();
	}
	faults();
	signals();
	say("events\n");
	return 0;
}
