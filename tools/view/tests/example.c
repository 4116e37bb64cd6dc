// SPDX-License-Identifier: MIT
// A program to trace: run-qemu.sh --trace FILE.spt --program build/view-test/example.elf
#include "tests/user/lib/user.h"

#define NUMBERS 300

static unsigned numbers[NUMBERS], seed = 1;

static unsigned next_number(void)
{
	return seed = seed * 1103515245 + 12345;
}

static unsigned fibonacci(unsigned n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static int ascending(unsigned a, unsigned b)
{
	return a < b ? -1 : a > b;
}

static int by_last_digit(unsigned a, unsigned b)
{
	return ascending(a % 10, b % 10);
}

static void swap(unsigned *a, unsigned *b)
{
	unsigned number = *a;

	*a = *b;
	*b = number;
}

static void sort(unsigned *at, unsigned count, int (*volatile compare)(unsigned, unsigned))
{
	unsigned small = 0;

	if (count < 2)
		return;
	for (unsigned i = 1; i < count; i++)
		if (compare(at[i], at[0]) < 0)
			swap(&at[i], &at[++small]);
	swap(&at[0], &at[small]);
	sort(at, small, compare);
	sort(at + small + 1, count - small - 1, compare);
}

int main(uint64_t rounds)
{
	for (uint64_t round = 0; round <= rounds; round++) {
		for (unsigned i = 0; i < NUMBERS; i++)
			numbers[i] = next_number() >> 8;
		sort(numbers, NUMBERS, round & 1 ? by_last_digit : ascending);
		seed += fibonacci(14);
		say(".");
	}
	say("\n");
	return 0;
}
