// SPDX-License-Identifier: MIT
// A program to trace beside others: it starts two, whose code has the same addresses, and shares
// its CPU with them. What ended has successors.
#include "tests/user/lib/user.h"

#define ROUNDS 5

static volatile unsigned sum;

static void work(void)
{
	for (unsigned n = 1; n < 40; n++)
		sum += n % 3 ? n : sum / n;
}

static unsigned await_all(void)
{
	unsigned ended = 0;
	int status;

	for (long pid; (pid = wait4(-1, &status, WNOHANG)) >= 0; ended += pid > 0) {
		CHECK(!pid || !status);
		work();
		yield();
	}
	return ended;
}

int main(uint64_t argument)
{
	(void)argument;
	for (unsigned round = 0; round < ROUNDS; round++) {
		CHECK(spawn("hello", 0) > 0 && spawn("hello", 0) > 0);
		CHECK(await_all() == 2);
	}
	say("programs\n");
	return 0;
}
