// SPDX-License-Identifier: MIT
#include <stddef.h>

#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/user.h"

// The system calls, each a separate function, so that code with many calls stays small.

/* long system_call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d) */
__asm__(".pushsection .text.system_call, \"ax\"\n"
	".globl system_call\n"
	"system_call:\n\t"
	"mov %rdi, %rax\n\t"
	"mov %rsi, %rdi\n\t"
	"mov %rdx, %rsi\n\t"
	"mov %rcx, %rdx\n\t"
	"mov %r8, %r10\n\t"
	"mov $-1, %r8\n\t" /* the descriptor of mmap() */
	"xor %r9d, %r9d\n\t"
	"syscall\n\t"
	"ret\n\t"
	".popsection");

void exit(int code)
{
	system_call(SYS_exit, (uint64_t)code, 0, 0, 0);
	__builtin_unreachable();
}

long fork(void)
{
	return system_call(SYS_fork, 0, 0, 0, 0);
}

long spawn(const char *program, uint64_t argument)
{
	return system_call(SYS_spawn, (uint64_t)program, argument, 0, 0);
}

long wait4(long pid, int *status, unsigned options)
{
	return system_call(SYS_wait4, (uint64_t)pid, (uint64_t)status, options, 0);
}

long kill(long pid, unsigned signal)
{
	return system_call(SYS_kill, (uint64_t)pid, signal, 0, 0);
}

long getpid(void)
{
	return system_call(SYS_getpid, 0, 0, 0, 0);
}

long getppid(void)
{
	return system_call(SYS_getppid, 0, 0, 0, 0);
}

void yield(void)
{
	system_call(SYS_sched_yield, 0, 0, 0, 0);
}

long sleep_us(int64_t microseconds)
{
	struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};

	return system_call(SYS_nanosleep, (uint64_t)&time, 0, 0, 0);
}

int64_t now_us(void)
{
	struct timespec time = {0, 0};

	system_call(SYS_clock_gettime, CLOCK_MONOTONIC, (uint64_t)&time, 0, 0);
	return time.seconds * 1000000 + time.nanoseconds / 1000;
}

long set_affinity(long pid, uint64_t cpus)
{
	return system_call(SYS_sched_setaffinity, (uint64_t)pid, sizeof(cpus), (uint64_t)&cpus, 0);
}

long run_on(long pid, uint64_t cpu)
{
	uint64_t set[8] = {0};

	if (cpu / 64 < sizeof(set) / sizeof(set[0]))
		set[cpu / 64] = 1ul << cpu % 64;
	return system_call(SYS_sched_setaffinity, (uint64_t)pid, sizeof(set), (uint64_t)set, 0);
}

long getrlimit(unsigned resource, struct rlimit *limit)
{
	return system_call(SYS_getrlimit, resource, (uint64_t)limit, 0, 0);
}

long setrlimit(unsigned resource, const struct rlimit *limit)
{
	return system_call(SYS_setrlimit, resource, (uint64_t)limit, 0, 0);
}

/* const char signal_return[] */
__asm__(".pushsection .text.signal_return, \"ax\"\n"
	".globl signal_return\n"
	"signal_return:\n\t"
	"mov $15, %eax\n\t"
	"syscall\n\t"
	".popsection");

long set_handler(unsigned signal, signal_handler *function, uint64_t flags, uint64_t mask)
{
	struct sigaction action = {(uint64_t)function, flags | SA_RESTORER, (uint64_t)signal_return,
				   mask};

	return system_call(SYS_rt_sigaction, signal, (uint64_t)&action, 0, SIGSET_BYTES);
}

void set_handlers(signal_handler *function)
{
	for (unsigned signal = 1; signal < SIGNALS; signal++)
		if (signal != SIGKILL && signal != SIGSTOP && signal != SIGSEGV)
			CHECK(set_handler(signal, function, signal & 1 ? SA_RESTART : 0, 0) == 0);
}

long set_mask(int how, uint64_t set, uint64_t *old)
{
	return system_call(SYS_rt_sigprocmask, (uint64_t)how, (uint64_t)&set, (uint64_t)old,
			   SIGSET_BYTES);
}

uint32_t cpu_now(void)
{
	uint32_t cpu = UINT32_MAX;

	system_call(SYS_getcpu, (uint64_t)&cpu, 0, 0, 0);
	return cpu;
}

long map(size_t bytes, unsigned rights)
{
	return system_call(SYS_mmap, 0, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS);
}

long unmap(long address, size_t bytes)
{
	return system_call(SYS_munmap, (uint64_t)address, bytes, 0, 0);
}

static char line[128];
static size_t length;

static void say_character(char character)
{
	line[length++] = character;
	if (character != '\n' && length < sizeof(line))
		return;
	system_call(SYS_write, 1, (uint64_t)line, length, 0);
	length = 0;
}

void say(const char *text)
{
	while (*text)
		say_character(*text++);
}

void say_number(uint64_t number, unsigned base)
{
	if (number >= base)
		say_number(number / base, base);
	say_character("0123456789abcdef"[number % base]);
}

void check_failed(const char *file, unsigned at)
{
	say(file);
	say(":");
	say_number(at, 10);
	say(": failed\n");
	exit(EXIT_FAILED);
}

_Noreturn void start(uint64_t argument);

/* The kernel enters here with the stack as after a CALL. */
void start(uint64_t argument)
{
	exit(main(argument));
}

// Compilers call these for structures.

void *memset(void *to, int byte, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

void *memset(void *to, int byte, size_t bytes)
{
	void *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(byte) : "memory");
	return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
	return to;
}

long ptrace(long request, long pid, uint64_t address, uint64_t data)
{
	return system_call(SYS_ptrace, (uint64_t)request, (uint64_t)pid, address, data);
}

long go_on(long pid, unsigned signal)
{
	return ptrace(PTRACE_CONT, pid, 0, signal);
}

long traced_child(void (*body)(uint64_t argument), uint64_t argument)
{
	long pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		kill(getpid(), SIGSTOP);
		body(argument);
		exit(0);
	}
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGSTOP));
	return pid;
}

int next_stop(long pid)
{
	int status = -1;

	CHECK(wait4(pid, &status, 0) == pid);
	return status;
}

int peek_stop(long pid)
{
	int status = -1;

	CHECK(wait4(pid, &status, WNOWAIT) == pid);
	return status;
}

uint64_t run_to_end(long pid, int stop, void (*drain)(long pid))
{
	uint64_t stops = 0;
	int status;

	CHECK(go_on(pid, 0) == 0);
	while ((status = peek_stop(pid)) != WAIT_EXITED(0)) {
		CHECK(status == stop);
		drain(pid);
		stops++;
		CHECK(go_on(pid, 0) == 0);
	}
	drain(pid);
	CHECK(next_stop(pid) == WAIT_EXITED(0)); /* the buffer is gone with the process */
	return stops;
}

long trace_branches(long pid, uint32_t records, uint32_t flags, uint32_t signal)
{
	struct ptrace_bts_config config = {records * RECORD, flags, signal, RECORD};

	return ptrace(PTRACE_BTS_CONFIG, pid, (uint64_t)&config, sizeof(config));
}

void end_child(long pid)
{
	CHECK(ptrace(PTRACE_KILL, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == WAIT_KILLED(SIGKILL));
}

#define LONGEST 4096 /* bytes of a function; what is further from its start is in no function */

const struct name *find_name(uint64_t address)
{
	const struct name *best = NULL;

	for (const struct name *at = names; at->start; at++)
		if ((uint64_t)at->start <= address && address - (uint64_t)at->start < LONGEST &&
		    (!best || at->start > best->start))
			best = at;
	return best;
}

void say_place(uint64_t address)
{
	const struct name *best = find_name(address);

	say(best ? best->name : "");
	say(best ? "+0x" : "0x");
	say_number(best ? address - (uint64_t)best->start : address, 16);
}

/* There and back by JMP: RET to ring 3's code segment faults in QEMU 7.2 where SMAP is on. */
__asm__(".pushsection .text.call_32, \"ax\"\n"
	".global call_32\n"
	"call_32:\n\t"
	"push %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"mov %rsp, stack_of_64(%rip)\n\t"
	"lea end_of_32(%rip), %rsp\n\t"
	"mov (%rdi), %eax\n\tmov 4(%rdi), %ebx\n\tmov 8(%rdi), %ecx\n\t"
	"mov 12(%rdi), %edx\n\tmov 16(%rdi), %esi\n\t"
	"mov 24(%rdi), %ebp\n\tmov 20(%rdi), %edi\n\t"
	"ljmp *to_32(%rip)\n"
	".code32\n"
	"in_32:\n\t"
	"int $0x80\n\t"
	"ljmp $0x23, $in_64\n"
	".code64\n"
	"in_64:\n\t"
	"mov stack_of_64(%rip), %rsp\n\t"
	"pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\t"
	"ret\n"
	"to_32:\n\t"
	".long in_32\n\t"
	".word 0x3b\n\t"
	".popsection\n\t"
	".pushsection .bss.call_32, \"aw\", @nobits\n\t"
	".balign 16\n\t"
	".skip 4096\n"
	"end_of_32:\n\t"
	".skip 8\n"
	"stack_of_64:\n\t"
	".skip 8\n\t"
	".popsection");
