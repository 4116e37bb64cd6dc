// SPDX-License-Identifier: MIT
// Leaves children behind in every state: ended and never waited for, running, asleep, stopped.
#include "tests/user/lib/user.h"

int main(uint64_t argument)
{
	for (uint64_t i = 0; i < argument; i++) {
		long pid = fork();

		CHECK(pid >= 0);
		if (pid) {
			if (i % 4 == 3)
				kill(pid, SIGSTOP);
			continue;
		}
		switch (i % 4) {
		case 0:
			exit(0);
		case 1:
			for (unsigned n = 0; n < 100; n++)
				yield();
			CHECK(getppid() >= 0);
			exit(0);
		case 2:
			sleep_us(3000);
			exit(0);
		default:
			for (;;)
				sleep_us(1000000);
		}
	}
	sleep_us(1000);
	return 0;
}
