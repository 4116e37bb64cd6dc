// SPDX-License-Identifier: MIT
// 32-bit code: INT 80H. tracer_32: a tracer written from the patch of 2007, whose structure has two
// longs. argument: the pid of a loop of one branch; bit 31: of 64-bit code. It ends with 0, or with
// the number of the line that found something wrong, less 256 if need be.
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "abi/ptrace_bts.h"
#include "abi/ptrace_pebs.h"
#include "abi/signal.h"
#include "abi/syscall.h"

#include <stdbool.h>

_Noreturn void start(void);

#define MAIN(name)                                                                                 \
	int main_##name(uint32_t argument);                                                        \
	int main_##name(__attribute__((unused)) uint32_t argument)

static int32_t call(uint32_t number, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	int32_t result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "0"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(0)
			 : "memory");
	return result;
}

static _Noreturn void exit(uint32_t code)
{
	call(SYS_32_exit, code, 0, 0, 0);
	__builtin_unreachable();
}

/* The kernel enters with the argument in EDI. */
__asm__(".globl start\n"
	"start:\n\t"
	"push %edi\n\t"
	"call main\n\t"
	"mov %eax, %ebx\n\t"
	"mov $1, %eax\n\t"
	"int $0x80");

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			exit(__LINE__ % 255 + 1);                                                  \
	} while (0)

static int32_t ptrace(uint32_t request, uint32_t pid, const void *address, uint32_t data)
{
	return call(SYS_32_ptrace, request, pid, (uint32_t)address, data);
}

static uint32_t wait_for(uint32_t pid)
{
	uint32_t status = 0;

	CHECK(call(SYS_32_wait4, pid, (uint32_t)&status, 0, 0) == (int32_t)pid);
	return status;
}

/* The structure of the patch, and its record. */
struct config_2007 {
	unsigned long size, flags;
};
_Static_assert(sizeof(struct config_2007) == 8 && sizeof(struct ptrace_bts_record) == 24,
	       "as a 32-bit tracer has them");

enum { RECORDS = 100 };
static struct ptrace_bts_record records[2 * RECORDS];

static void expect_loop(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		CHECK(records[i].qualifier == PTRACE_BTS_BRANCH);
		CHECK(records[i].from == records[0].from && records[i].to == records[0].to);
	}
	CHECK(records[0].from >= 0x400000 && records[0].from < 0x500000);
	CHECK(records[0].to <= records[0].from && records[0].to > records[0].from - 64);
}

static void trace(uint32_t pid)
{
	struct config_2007 config = {RECORDS * 24 + 5, PTRACE_BTS_O_TRACE}, status = {0, 0};
	struct ptrace_bts_config whole = {.size = RECORDS * 24,
					  .flags = PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL,
					  .signal = SIGXCPU};
	uint32_t spins = 50000;

	CHECK(ptrace(PTRACE_BTS_CONFIG, pid, &config, 0) == 0);
	CHECK(ptrace(PTRACE_BTS_STATUS, pid, &status, 0) == 8);
	CHECK(status.size == RECORDS * 24 && status.flags & PTRACE_BTS_O_TRACE);
	CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
	do {
		spins *= 2;
		for (volatile uint32_t i = 0; i < spins; i++)
			; /* there is no call that sleeps: until its time slice is over */
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		CHECK(wait_for(pid) == (PTRACE_EVENT_STOP << 16 | WAIT_STOPPED(SIGTRAP)));
	} while (ptrace(PTRACE_BTS_SIZE, pid, 0, 0) < RECORDS && !ptrace(PTRACE_CONT, pid, 0, 0));
	CHECK(ptrace(PTRACE_BTS_GET, pid, records, RECORDS) == -EINVAL);
	CHECK(ptrace(PTRACE_BTS_GET, pid, records, RECORDS - 1) == 24);
	CHECK(ptrace(PTRACE_BTS_DRAIN, pid, records, sizeof(records)) == RECORDS);
	expect_loop(RECORDS);
	CHECK(ptrace(PTRACE_BTS_CONFIG, pid, &whole, sizeof(whole)) == sizeof(whole));
	CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
	CHECK(wait_for(pid) == (PTRACE_EVENT_BTS << 16 | WAIT_STOPPED(SIGXCPU)));
	CHECK(ptrace(PTRACE_BTS_DRAIN, pid, records, sizeof(records)) >= RECORDS / 2);
	expect_loop(RECORDS / 2);
	/* With a late interrupt there are more, and the threshold is reached still. */
	CHECK(ptrace(PTRACE_BTS_CLEAR, pid, 0, 0) == 0);
}

/* Words of 32 bits; no registers, which have 64. */
static void inspect(uint32_t pid, bool is_64)
{
	static uint32_t words[2] = {1, 2};
	uint8_t *code = (uint8_t *)(uint32_t)records[0].to;

	CHECK(ptrace(PTRACE_PEEKTEXT, pid, code, (uint32_t)words) == 0 && words[1] == 2);
	CHECK((words[0] & 0xff) == (is_64 ? 0x90 : 0x40)); /* the loop's first instruction */
	CHECK(ptrace(PTRACE_POKETEXT, pid, code, words[0]) == 0);
	CHECK(ptrace(PTRACE_PEEKTEXT, pid, code + 4, (uint32_t)&words[1]) == 0 && words[1] != 2);
	words[1] = 2;
	CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, (uint32_t)words) == 0 && words[1] == 2);
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint32_t)records) == -EIO);
	CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint32_t)records) == -EIO);
	CHECK(ptrace(PTRACE_PEEKUSR, pid, 0, (uint32_t)records) == -EIO);
	CHECK(ptrace(PTRACE_POKEUSR, pid, 0, 0) == -EIO);
	CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, (uint32_t)records) == -EIO);
	CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
	CHECK(wait_for(pid) == WAIT_STOPPED(SIGTRAP));
}

MAIN(tracer_32)
{
	uint32_t pid = argument & 0x7fffffff;

	CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0 && wait_for(pid) == WAIT_STOPPED(SIGSTOP));
	trace(pid);
	inspect(pid, argument >> 31);
	CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
	return 0;
}

// calls_32: each call by INT 80H, and what is none. argument: what ends it instead; 8: a branch
// without an end.

static const char text[] = "hello from 32 bits\n";

static void expect_refusals(void)
{
	static const uint32_t bad[] = {0, 8, 0xffffe000, 0xfffffffc};
	uint32_t self = (uint32_t)call(SYS_32_getpid, 0, 0, 0, 0);

	for (uint32_t number = 0; number < 512; number++)
		if (number != SYS_32_exit && number != SYS_32_write && number != SYS_32_getpid &&
		    number != SYS_32_ptrace && number != SYS_32_kill && number != SYS_32_wait4)
			CHECK(call(number, 0, 0, 0, 0) == -ENOSYS);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(call(SYS_32_write, 1, bad[i], 8, 0) == -EFAULT);
	CHECK(call(SYS_32_write, 3, (uint32_t)text, 8, 0) == -EBADF);
	CHECK(call(SYS_32_wait4, UINT32_MAX, 0, 0, 0) == -ECHILD);
	CHECK(call(SYS_32_kill, 0x7fffffff, SIGTERM, 0, 0) == -ESRCH);
	CHECK(call(SYS_32_kill, self, 0, 0, 0) == 0);
	CHECK(ptrace(PTRACE_ATTACH, self, 0, 0) == -EPERM);
	CHECK(ptrace(PTRACE_CONT, 0x7fffffff, 0, 0) == -ESRCH);
}

MAIN(calls_32)
{
	if (argument == 8)
		__asm__ volatile("1: inc %eax\n\tnop\n\tnop\n\tnop\n\tadd $1, %ecx\n\tjmp 1b");
	CHECK(call(SYS_32_write, 1, (uint32_t)text, sizeof(text) - 1, 0) == sizeof(text) - 1);
	switch (argument) {
	case 0:
		expect_refusals();
		return 42;
	case 1:
		call(SYS_32_kill, (uint32_t)call(SYS_32_getpid, 0, 0, 0, 0), SIGTERM, 0, 0);
		break;
	case 2:
		__asm__ volatile("syscall" : : "a"(SYS_getpid) : "ecx", "memory");
		break;
	case 3:
		__asm__ volatile("sysenter" : : "a"(SYS_32_getpid));
		break;
	case 4:
		__asm__ volatile("ud2");
		break;
	case 5:
		*(volatile uint32_t *)0xffffe000 = 0;
		break;
	case 6:
		__asm__ volatile("int $0x81");
		break;
	case 7: /* traced by its parent, beside a program that loads nothing into DS and ES */
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		call(SYS_32_kill, (uint32_t)call(SYS_32_getpid, 0, 0, 0, 0), SIGSTOP, 0, 0);
		for (uint32_t i = 0; i < 30000; i++)
			__asm__ volatile("rep stosb" : : "a"(i), "D"(records), "c"(1) : "memory");
		return 42;
	}
	return 0;
}
