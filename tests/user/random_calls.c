// SPDX-License-Identifier: MIT
// Calls with random numbers and arguments. argument: seed in the low, count in the high 32 bits.
#include "tests/user/lib/user.h"

static uint64_t state;
static uint64_t buffer[64];

static const uint16_t numbers[] = {
	SYS_mmap,	   SYS_munmap, SYS_sched_yield, SYS_nanosleep, SYS_getpid,
	SYS_wait4,	   SYS_kill,   SYS_ptrace,	SYS_getppid,   SYS_sched_setaffinity,
	SYS_clock_gettime, SYS_getcpu, SYS_spawn,	SYS_write,
};

/* Edges, addresses of its own and of the kernel, small numbers, anything. */
static uint64_t random_argument(void)
{
	uint64_t value = next_random(&state);

	switch (value >> 60) {
	case 0 ... 4:
		return value & 0xff;
	case 5 ... 7:
		return (uint64_t)buffer + (value & 0x3ff);
	case 8:
		return 1ul << (value & 63);
	case 9:
		return -(1ul << (value & 63));
	case 10:
		return 0x0000100000000000 + (value & 0x3ff000);
	case 11:
		return 0xffffffff80000000 + (value & 0x3fffff);
	case 12:
		return 0x22; /* the flags of mmap */
	default:
		return value;
	}
}

int main(uint64_t argument)
{
	state = argument & UINT32_MAX;
	for (uint64_t left = argument >> 32; left; left--) {
		uint64_t pick = next_random(&state), a = random_argument();
		long number = pick & 7 ? numbers[pick / 8 % 14] : (long)(pick >> 20 & 0x3ff);

		if (number == SYS_exit || (number == SYS_fork && pick >> 60))
			continue;
		if (number == SYS_ptrace && pick >> 40 & 1)
			a = 40 + (pick >> 41) % 14; /* the requests for branches and samples */
		if (number == SYS_kill && a < 100000)
			a = 0; /* not those that it could stop or end */
		if (number == SYS_nanosleep) {
			buffer[0] = 0;
			buffer[1] = pick >> 32 & 0xffff;
			a = pick & 1ul << 50 ? (uint64_t)buffer : a | 1ul << 63;
		}
		a = (uint64_t)system_call(number, a, random_argument(), random_argument(),
					  random_argument());
		if (number == SYS_fork && a == 0)
			exit(0);
	}
	return 42;
}
