// SPDX-License-Identifier: MIT
// Anonymous memory: zeroed, its own, gone when given back, bounded.
#include "tests/user/lib/user.h"

#define PAGE 4096ul

static void zero_and_own(void)
{
	long at = map(3 * PAGE - 1, PROT_READ | PROT_WRITE), again;
	uint64_t *words = (uint64_t *)at;
	int status;

	CHECK(at > 0);
	for (unsigned i = 0; i < 3 * PAGE / 8; i++) {
		CHECK(words[i] == 0);
		words[i] = i;
	}
	if (fork() == 0) {
		words[5] = 6; /* the translation is cached now */
		CHECK(unmap(at, 3 * PAGE) == 0);
		exit((int)*(volatile uint64_t *)&words[5]); /* faults */
	}
	CHECK(wait4(-1, &status, 0) > 0 && status == WAIT_KILLED(SIGSEGV));
	CHECK(words[700] == 700);
	CHECK(unmap(at, 3 * PAGE) == 0);
	again = map(PAGE, PROT_READ | PROT_WRITE);
	CHECK(again == at && words[0] == 0);
	CHECK(unmap(again, PAGE) == 0 && unmap(again, PAGE) == 0);
}

static void refused(void)
{
	CHECK(map(0, PROT_READ) == -EINVAL && map(PAGE, 0) == -EINVAL);
	CHECK(map(PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == -EINVAL);
	CHECK(map(UINT64_MAX, PROT_READ) == -ENOMEM && map(1ul << 40, PROT_READ) == -ENOMEM);
	CHECK(system_call(SYS_mmap, PAGE, PAGE, PROT_READ, 0x22) == -EINVAL);
	CHECK(system_call(SYS_mmap, 0, PAGE, PROT_READ, 0x20) == -EINVAL);
	CHECK(unmap((long)main, PAGE) == -EINVAL && unmap(0x100000000001, PAGE) == -EINVAL);
	CHECK(unmap(0x100000000000, UINT64_MAX) == -EINVAL);
}

int main(uint64_t argument)
{
	unsigned count = 0;

	(void)argument;
	zero_and_own();
	refused();
	while (map(PAGE, PROT_READ) > 0)
		count++;
	CHECK(count > 100 && count < 1024);
	CHECK(map(PAGE, PROT_READ) == -ENOMEM);
	return 0;
}
