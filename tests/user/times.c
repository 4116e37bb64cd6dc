// SPDX-License-Identifier: MIT
// Sleeps long enough, moves where it is told. argument: how many CPUs there are.
#include "tests/user/lib/user.h"

static void sleeps(void)
{
	struct timespec wrong = {0, 1000000000};

	for (int64_t length = 1; length < 20000; length *= 3) {
		int64_t start = now_us();

		CHECK(sleep_us(length) == 0);
		CHECK(now_us() - start >= length);
	}
	CHECK(sleep_us(-1) == -EINVAL);
	CHECK(system_call(SYS_nanosleep, (uint64_t)&wrong, 0, 0, 0) == -EINVAL);
	CHECK(system_call(SYS_clock_gettime, 77, (uint64_t)&wrong, 0, 0) == -EINVAL);
}

static void moves(uint64_t cpus)
{
	for (unsigned round = 0; round < 10; round++)
		for (uint64_t cpu = 0; cpu < cpus; cpu++) {
			CHECK(set_affinity(0, 1ul << cpu) == 0);
			CHECK(cpu_now() == cpu);
		}
	CHECK(set_affinity(0, 0) == -EINVAL);
	CHECK(set_affinity(0, 1ul << cpus) == -EINVAL);
	CHECK(set_affinity(123456789, 1) == -ESRCH);
	CHECK(set_affinity(0, UINT64_MAX) == 0);
}

int main(uint64_t argument)
{
	sleeps();
	moves(argument);
	CHECK(system_call(499, 0, 0, 0, 0) == -ENOSYS);
	CHECK(system_call(-1, 0, 0, 0, 0) == -ENOSYS);
	CHECK(system_call(SYS_write, 3, 0, 0, 0) == -EBADF);
	return 0;
}
