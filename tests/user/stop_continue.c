// SPDX-License-Identifier: MIT
// A parent stops its child, lets it go on, kills it; what wait4() says of each.
#include "tests/user/lib/user.h"

static void run_for_ever(void)
{
	for (;;)
		;
}

static void sleep_for_ever(void)
{
	for (;;)
		sleep_us(1000000000);
}

static void play_with(void (*what)(void))
{
	long pid = fork();
	int status = 0;

	if (!pid)
		what();
	CHECK(pid > 0);
	sleep_us(2000);
	CHECK(wait4(pid, &status, WNOHANG | WUNTRACED) == 0);
	CHECK(kill(pid, 0) == 0 && kill(pid, SIGCHLD) == 0 && kill(pid, SIGWINCH) == 0);
	for (unsigned i = 0; i < 20; i++) {
		CHECK(kill(pid, i & 1 ? SIGSTOP : SIGTSTP) == 0);
		CHECK(wait4(pid, &status, WUNTRACED) == pid);
		CHECK(status == WAIT_STOPPED(i & 1 ? SIGSTOP : SIGTSTP));
		CHECK(wait4(pid, &status, WUNTRACED | WNOHANG) == 0);
		CHECK(kill(pid, SIGCONT) == 0);
	}
	CHECK(kill(pid, SIGSTOP) == 0);
	CHECK(kill(pid, SIGKILL) == 0);
	CHECK(wait4(pid, &status, 0) == pid && status == WAIT_KILLED(SIGKILL));
	CHECK(kill(pid, 0) == -ESRCH);
}

int main(uint64_t argument)
{
	(void)argument;
	play_with(run_for_ever);
	play_with(sleep_for_ever);
	return 0;
}
