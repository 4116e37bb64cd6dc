// SPDX-License-Identifier: MIT
// Four tasks that work, give way, sleep, fork and wait.
#include "tests/user/lib/user.h"

static volatile unsigned sink;

__attribute__((noinline)) static unsigned collatz(unsigned number)
{
	unsigned steps = 0;

	for (; number > 1; steps++)
		number = number & 1 ? 3 * number + 1 : number / 2;
	return steps;
}

__attribute__((noinline)) static void work(unsigned own)
{
	for (unsigned turn = 0; turn < 6; turn++) {
		for (unsigned i = 1; i < 40; i++)
			sink += collatz(own + i);
		yield();
		if (turn % 3 == own % 3)
			CHECK(sleep_us(200) == 0);
	}
}

int main(uint64_t argument)
{
	(void)argument;
	for (unsigned child = 1; child < 4; child++)
		if (fork() == 0) {
			work(100 * child);
			return 0;
		}
	work(7);
	for (unsigned child = 1; child < 4; child++)
		CHECK(wait4(-1, NULL, 0) > 0);
	return 0;
}
