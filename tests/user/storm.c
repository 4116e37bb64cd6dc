// SPDX-License-Identifier: MIT
// Does a bit of everything without an end, in ever more processes. argument: a seed; its lowest
// bits say how there come to be more: by fork(), by spawn(), or by both.
#include "tests/user/lib/user.h"

enum { FORKS = 1, SPAWNS = 2, WAYS = FORKS | SPAWNS };

static uint64_t state;

static void touch(void)
{
	size_t bytes = 4096 * (1 + next_random(&state) % 16);
	long at = map(bytes, PROT_READ | PROT_WRITE);

	if (at < 0)
		return;
	for (size_t i = 0; i < bytes; i += 4096)
		*(volatile uint64_t *)(at + (long)i) = state;
	if (state & 1)
		unmap(at, bytes);
}

int main(uint64_t argument)
{
	const uint64_t ways = argument & WAYS;
	int status;

	state = argument;
	for (;;) {
		switch (next_random(&state) % 12) {
		case 0:
			if (ways & FORKS && fork() == 0)
				state ^= (uint64_t)getpid() << 32;
			break;
		case 1:
			if (ways & SPAWNS)
				spawn("storm", (next_random(&state) & ~(uint64_t)WAYS) | ways);
			break;
		case 2 ... 3:
			touch();
			break;
		case 4:
			sleep_us((int64_t)(state % 2000));
			break;
		case 5:
			set_affinity(0, state >> 32 | 1);
			break;
		case 6:
			wait4(-1, &status, state & 1 ? WNOHANG : WNOHANG | WUNTRACED);
			break;
		case 7:
			kill((long)(state % 4096), state >> 60 ? SIGCONT : SIGKILL);
			break;
		case 8:
			if (state >> 62 == 0)
				return 0;
			break;
		default:
			yield();
		}
	}
}
