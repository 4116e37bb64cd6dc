// SPDX-License-Identifier: MIT
// getrlimit() and setrlimit(): what is refused, and that children begin with a parent's limits.
// argument: whether the program may see kernel addresses, and so raise a limit.
#include "tests/user/lib/user.h"

static bool is(uint64_t current, uint64_t most)
{
	struct rlimit now = {0, 0};

	return getrlimit(RLIMIT_MEMLOCK, &now) == 0 && now.current == current && now.most == most;
}

static long set(uint64_t current, uint64_t most)
{
	struct rlimit limit = {current, most};

	return setrlimit(RLIMIT_MEMLOCK, &limit);
}

int main(uint64_t privileged)
{
	struct rlimit first, limit;
	int status;
	long pid;

	CHECK(getrlimit(RLIMIT_MEMLOCK, &first) == 0);
	CHECK(first.current >= 65536 && first.current <= first.most);
	CHECK(getrlimit(RLIMIT_MEMLOCK + 1, &limit) == -EINVAL);
	CHECK(setrlimit(RLIMIT_MEMLOCK + 1, &first) == -EINVAL);
	CHECK(getrlimit(RLIMIT_MEMLOCK, (struct rlimit *)0x1000) == -EFAULT);
	CHECK(setrlimit(RLIMIT_MEMLOCK, (struct rlimit *)0x1000) == -EFAULT);
	CHECK(set(first.most + 1, first.most) == -EINVAL && is(first.current, first.most));
	CHECK(set(10000, first.most) == 0 && is(10000, first.most));
	CHECK(set(first.current, first.most) == 0 && is(first.current, first.most));
	CHECK(set(5000, 20000) == 0 && is(5000, 20000));
	pid = fork();
	if (!pid)
		exit(!is(5000, 20000) || set(20000, 20000) || !is(20000, 20000));
	CHECK(wait4(pid, &status, 0) == pid && status == WAIT_EXITED(0) && is(5000, 20000));
	CHECK(set(5000, 20001) == (privileged ? 0 : -EPERM));
	CHECK(is(5000, privileged ? 20001 : 20000));
	return 0;
}
