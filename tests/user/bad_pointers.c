// SPDX-License-Identifier: MIT
// Every call that takes a pointer, with every kind of pointer that is not the program's.
#include "tests/user/lib/user.h"

static const uint64_t bad[] = {
	1,		    /* the page of NULL */
	0x0000200000000000, /* not mapped */
	0x00007ffffffff000, /* where ring 3 ends */
	0x00007fffffffffff,
	0x0000800000000000,
	0xffff7fffffffffff, /* not canonical, or next to it */
	0xffff800000100000,
	0xffffc00000001000,
	0xffffffff80101000, /* the kernel's */
	0xfffffffffffffff8,
	0xffffffffffffffff,
};

static const char constant[32] = "not to be written";

static void write_from(uint64_t at)
{
	CHECK(system_call(SYS_write, 1, at, 16, 0) == -EFAULT);
	CHECK(system_call(SYS_spawn, at, 0, 0, 0) == -EFAULT);
	CHECK(system_call(SYS_nanosleep, at, 0, 0, 0) == -EFAULT);
	CHECK(system_call(SYS_sched_setaffinity, 0, 8, at, 0) == -EFAULT);
}

static void write_to(uint64_t at)
{
	CHECK(system_call(SYS_clock_gettime, CLOCK_MONOTONIC, at, 0, 0) == -EFAULT);
	CHECK(system_call(SYS_getcpu, at, 0, 0, 0) == -EFAULT);
}

int main(uint64_t argument)
{
	long child = spawn("hello", 3), edge = map(4096, PROT_READ | PROT_WRITE);
	int status = -1;

	(void)argument;
	CHECK(child > 0 && edge > 0);
	for (unsigned i = 0; i < 4096; i++)
		((volatile char *)edge)[i] = '-';
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_from(bad[i]);
		write_to(bad[i]);
		CHECK(wait4(child, (int *)bad[i], 0) == -EFAULT);
	}
	write_from((uint64_t)edge + 4096 - 7); /* begins in a page, ends in none */
	write_to((uint64_t)edge + 4096 - 3);
	write_to((uint64_t)constant);
	write_to((uint64_t)main);
	CHECK(wait4(child, (int *)(uint64_t)constant, 0) == -EFAULT);
	CHECK(wait4(child, &status, 0) == child && status == WAIT_EXITED(3));
	CHECK(constant[0] == 'n');
	/* A length beyond everything, a string without an end. */
	CHECK(system_call(SYS_write, 1, (uint64_t)edge, UINT64_MAX, 0) == 256);
	*(volatile char *)(edge + 4095) = 'x';
	CHECK(system_call(SYS_spawn, (uint64_t)edge + 4095, 0, 0, 0) == -EFAULT);
	return 0;
}
