// SPDX-License-Identifier: MIT
// The isolation of ring 3: registers, memory, pointers, faults, calls.
#include "abi/insntrace.h"
#include "abi/ptrace.h"
#include "abi/ptrace_bts.h"
#include "tests/user/lib/user.h"

// Keeps its argument in every register and looks whether it stays, until the time is over.

#define ALL(f)                                                                                     \
	f("rbx") f("rdx") f("rsi") f("rdi") f("r8") f("r9") f("r10") f("r12") f("r13") f("r14")    \
		f("r15")
#define SET(register)	 "mov %%rax, %%" register "\n\t"
#define SAME(register)	 "cmp %%rax, %%" register "\n\tjne 9f\n\t"
#define ALL_XMM(f)	 f("1") f("2") f("3") f("4") f("5") f("6") f("7") f("8") f("15")
#define SET_XMM(number)	 "movq %%rax, %%xmm" number "\n\t"
#define SAME_XMM(number) "movq %%xmm" number ", %%rcx\n\tcmp %%rax, %%rcx\n\tjne 9f\n\t"

/* False as soon as a register differs; a few thousand rounds. */
static int hold(uint64_t value)
{
	uint64_t same = value;

	__asm__ volatile(ALL(SET) ALL_XMM(SET_XMM) "mov $20000, %%r11d\n"
						   "1:\t" ALL(SAME)
							   ALL_XMM(SAME_XMM) "dec %%r11d\n\t"
									     "jnz 1b\n\t"
									     "jmp 8f\n"
									     "9:\tnot %%rax\n"
									     "8:\n\t"
			 : "+a"(same)
			 :
			 : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
			   "r13", "r14", "r15", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
			   "xmm7", "xmm8", "xmm15", "cc");
	return same == value;
}

MAIN(registers)
{
	int64_t end = now_us() + (int64_t)(argument & 0xffff) * 1000;
	uint16_t control = (uint16_t)(0x37f & ~(argument >> 16 & 0xc00)), now;
	uint32_t mxcsr = 0x1f80 | (argument >> 16 & 0x6000), mxcsr_now;

	__asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(control), "m"(mxcsr));
	do {
		CHECK(hold(argument * 0x9e3779b97f4a7c15));
		__asm__ volatile("fnstcw %0\n\tstmxcsr %1" : "=m"(now), "=m"(mxcsr_now));
		CHECK(now == control && mxcsr_now == mxcsr);
	} while (now_us() < end);
	return 0;
}

// Anonymous memory: zeroed, its own, gone when given back, bounded.

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

MAIN(memory)
{
	unsigned count = 0;

	zero_and_own();
	refused();
	while (map(PAGE, PROT_READ) > 0)
		count++;
	CHECK(count > 100 && count < 1024);
	CHECK(map(PAGE, PROT_READ) == -ENOMEM);
	return 0;
}

// Every call that takes a pointer, with every kind of pointer that is not the program's.

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
	CHECK(system_call(SYS_write, 1, at, 0, 0) == 0);
	CHECK(system_call(SYS_spawn, at, 0, 0, 0) == -EFAULT);
	CHECK(system_call(SYS_nanosleep, at, 0, 0, 0) == -EFAULT);
	CHECK(system_call(SYS_sched_setaffinity, 0, 8, at, 0) == -EFAULT);
}

static void write_to(uint64_t at)
{
	CHECK(system_call(SYS_clock_gettime, CLOCK_MONOTONIC, at, 0, 0) == -EFAULT);
	CHECK(system_call(SYS_getcpu, at, 0, 0, 0) == -EFAULT);
}

MAIN(bad_pointers)
{
	long child = spawn("hello", 3), edge = map(4096, PROT_READ | PROT_WRITE);
	int status = -1;

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

// Does what ring 3 may not, one thing by argument; tests/suite/process/user_programs.c has the
// list.

static volatile int zero;
static uint64_t stack_page;

#define TRY(number, ...)                                                                           \
	case number:                                                                               \
		__asm__ volatile(__VA_ARGS__);                                                     \
		break

/* Down the stack and out of it. */
static void push_without_end(void)
{
	__asm__ volatile("1: push %rax; jmp 1b");
}

MAIN(faults)
{
	switch (argument) {
		TRY(0, "movl 0, %eax");
		TRY(1, "movl $0, main(%rip)");
		TRY(2, "jmp *%0" : : "r"(&stack_page));
		TRY(3, "mov (%0), %%eax" : : "r"(0xffffffff80101000ul));
		TRY(4, "mov %%eax, (%0)" : : "r"(0xffff800000100000ul));
		TRY(5, "jmp *%0" : : "r"(0xffffffff80101000ul));
		TRY(6, "mov (%0), %%eax" : : "r"(0x0000800000000000ul));
		TRY(7, "jmp *%0" : : "r"(0x0000800000000000ul));
		TRY(8, "mov %0, %%rsp; push %%rax" : : "r"(0x0000900000000000ul));
		TRY(9, "ud2");
		TRY(10, "int3");
		TRY(11, "int $0x80");
		TRY(12, "int $1");
		TRY(13, "cli");
		TRY(14, "hlt");
		TRY(15, "in $0x60, %al");
		TRY(16, "mov $0x1d9, %ecx; rdmsr");
		TRY(17, "mov %%cr3, %%rax" : : : "rax");
		TRY(18, "pushq $0x302; popfq; nop");
		TRY(19, "int $0x20");
		TRY(20, "pushq $0x7202; popfq; cli");
		TRY(21, "swapgs");
		TRY(22, "int $2");
		TRY(23, "mov $-1, %ecx; xgetbv");
		TRY(24, "fninit; movw $0x37b, -8(%rsp); fldcw -8(%rsp); fld1; fldz; fdivrp; fwait");
	case 25:
		return 7 / zero;
	case 26:
		push_without_end();
	}
	return 0;
}

// Calls with random numbers and arguments. argument: seed in the low, count in the high 32 bits.

static uint64_t random_state;
static uint64_t buffer[64];

static const uint16_t numbers[] = {
	SYS_mmap,	   SYS_munmap, SYS_sched_yield,	 SYS_nanosleep,	     SYS_getpid,
	SYS_wait4,	   SYS_kill,   SYS_ptrace,	 SYS_getppid,	     SYS_sched_setaffinity,
	SYS_clock_gettime, SYS_getcpu, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_spawn,
	SYS_write,	   SYS_read,   SYS_open,	 SYS_poll,	     SYS_close,
	SYS_insntrace,	   SYS_fork,   SYS_getrlimit,	 SYS_setrlimit,
};
static const uint8_t numbers_32[] = {SYS_32_write,  SYS_32_getpid, SYS_32_ptrace,
				     SYS_32_ptrace, SYS_32_kill,   SYS_32_wait4};

/* Edges, addresses of the program and of the kernel, small numbers, anything. */
static uint64_t random_argument(void)
{
	uint64_t value = random_next(&random_state);

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

/* The end of a child: it returns from a handler that never ran, to anywhere. */
static void return_anywhere(void)
{
	static struct ucontext context;
	uint64_t *words = (uint64_t *)&context, number = SYS_rt_sigreturn;

	for (unsigned i = 0; i < sizeof(context) / sizeof(*words); i++)
		words[i] = random_argument();
	if (words[0] & 7) {
		context.uc_mcontext.cs = 0x23;
		context.uc_mcontext.ss = 0x1b;
	}
	if (words[1] & 7)
		context.uc_mcontext.fpstate = (uint64_t)buffer;
	__asm__ volatile("mov %1, %%rsp\n\tsyscall\n\tud2" : "+a"(number) : "r"(&context));
}

/* The requests for traces, and those to freeze. */
static uint64_t trace_request(uint64_t pick)
{
	return PTRACE_BTS_CONFIG + pick % (PTRACE_FREEZE_STATUS + 1 - PTRACE_BTS_CONFIG);
}

static void call_from_32(uint64_t pick)
{
	uint32_t registers[7];

	for (unsigned i = 0; i < 7; i++)
		registers[i] = (uint32_t)random_argument();
	if (pick & 7)
		registers[0] = numbers_32[pick / 8 % sizeof(numbers_32)];
	if (registers[0] == SYS_32_exit)
		return;
	if (registers[0] == SYS_32_kill && registers[1] < 100000)
		registers[1] = 0;
	if (registers[0] == SYS_32_ptrace && pick >> 40 & 1)
		registers[1] = (uint32_t)trace_request(pick >> 41);
	call_32(registers);
}

MAIN(random_calls)
{
	random_state = argument & UINT32_MAX;
	for (uint64_t left = argument >> 32; left; left--) {
		uint64_t pick = random_next(&random_state), a = random_argument(),
			 b = random_argument(), c = random_argument();
		long number = pick & 7 ? numbers[pick / 8 % (sizeof(numbers) / sizeof(numbers[0]))]
				       : (long)(pick >> 20 & 0x3ff);

		if (!(pick >> 61)) {
			call_from_32(pick);
			continue;
		}
		if (number == SYS_exit || number == SYS_rt_sigreturn ||
		    (number == SYS_fork && pick >> 54 & 63))
			continue;
		if (number == SYS_rt_sigaction) /* of signals that nobody sends, or none */
			a = pick & 1ul << 50 ? SIGUSR1 : a | SIGNALS;
		if (number == SYS_open && !(pick >> 40 & 127)) {
			a = (uint64_t)SERIAL_LINE;
			b = O_RDWR | O_NONBLOCK;
		}
		if (number == SYS_poll) /* or it waits for weeks */
			c &= 1;
		if ((number == SYS_read || number == SYS_close) && pick >> 40 & 1)
			a = 3;
		if (number == SYS_ptrace && pick >> 40 & 1)
			a = trace_request(pick >> 41);
		if (number == SYS_insntrace) { /* mostly with what a request is about */
			a = pick >> 40 & 1 ? a : (pick >> 41) % (INSNTRACE_GET_ITEMS + 1);
			b = pick >> 50 & 1 ? b : (pick >> 51) % 3;
		}
		if (number == SYS_kill && a < 100000)
			a = 0; /* not those that it could stop or end */
		if (number == SYS_nanosleep) {
			buffer[0] = 0;
			buffer[1] = pick >> 32 & 0xffff;
			a = pick & 1ul << 50 ? (uint64_t)buffer : a | 1ul << 63;
		}
		a = (uint64_t)system_call(number, a, b, c, random_argument());
		if (number == SYS_fork && a == 0)
			return_anywhere();
	}
	return 42;
}
