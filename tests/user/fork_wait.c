// SPDX-License-Identifier: MIT
// Children by fork(): their own copy of memory and registers, their exit codes, once each.
#include "tests/user/lib/user.h"

#define CHILDREN 8

static volatile uint64_t shared = 1; /* not really: each has its copy */

static _Noreturn void child(long parent, unsigned number)
{
	CHECK(shared == 1);
	shared = 1000 + number;
	yield();
	CHECK(shared == 1000 + number);
	CHECK(getppid() == parent);
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	exit((int)(10 + number));
}

static void wait_for_one(long pid, unsigned number)
{
	int status = -1;

	CHECK(wait4(pid, &status, 0) == pid);
	CHECK(status == WAIT_EXITED((int)(10 + number)));
	CHECK(wait4(pid, &status, 0) == -ECHILD);
}

int main(uint64_t argument)
{
	long self = getpid(), pids[CHILDREN], gone;
	int status;

	(void)argument;
	CHECK(wait4(-1, NULL, WNOHANG) == -ECHILD);
	for (unsigned i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (!pids[i])
			child(self, i);
	}
	CHECK(shared == 1 && getpid() == self);
	CHECK(wait4(self, NULL, WNOHANG) == -ECHILD);
	wait_for_one(pids[3], 3);
	wait_for_one(pids[0], 0);
	for (unsigned i = 2; i < CHILDREN; i++) {
		gone = wait4(-1, &status, 0);
		CHECK(gone > 0 && gone != pids[0] && gone != pids[3]);
		for (unsigned n = 0; n < CHILDREN; n++)
			CHECK(pids[n] != gone || status == WAIT_EXITED((int)(10 + n)));
	}
	CHECK(wait4(-1, &status, 0) == -ECHILD);
	CHECK(spawn("a name that no program has", 0) == -EINVAL && spawn("nothing", 0) == -ENOENT);
	gone = spawn("hello", 5);
	CHECK(gone > 0 && wait4(gone, &status, 0) == gone && status == WAIT_EXITED(5));
	return 0;
}
