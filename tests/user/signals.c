// SPDX-License-Identifier: MIT
// Handlers of signals. argument >> 56: 0: what a handler is given and what it gives back.
// 1: which signals wait for which handlers, and what they do to calls that wait.
// 2: stacks that have no room for a frame, and frames that ask for too much.
// 3: raises the signal of the lowest bits.
#include "tests/user/lib/user.h"

#define USER_CODE 0x23
#define USER_DATA 0x1b
#define RED_ZONE  128
#define CARRY	  1u
#define DIRECTION 0x400u

typedef struct ucontext context;

/* Into operand 0, past the red zone of the function. */
#define READ_FLAGS "lea -128(%%rsp), %%rsp\n\tpushfq\n\tpop %0\n\tlea 128(%%rsp), %%rsp\n\t"

/* --- All registers, held while a handler runs --- */

enum { RAX, RBX, RCX, RDX, RSI, RDI, RBP, R8, R9, R10, R11, R12, R13, R14, R15, GENERAL };

static volatile struct {
	uint64_t general[GENERAL];
	uint64_t xmm[2], red_zone[2], rflags;
	uint32_t mxcsr, zero;
	double x87;
} want, found;
static volatile uint32_t go_on; /* 0: hold_registers() waits for it; else it executes INT3 */
extern const char after_trap[];
void hold_registers(void);

__asm__(".pushsection .text.hold_registers, \"ax\"\n"
	"hold_registers:\n\t"
	"push %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"ldmxcsr want+160(%rip)\n\t"
	"fldl want+168(%rip)\n\t"
	"movups want+120(%rip), %xmm15\n\t"
	"mov want+136(%rip), %rax\n\tmov %rax, -16(%rsp)\n\t"
	"mov want+144(%rip), %rax\n\tmov %rax, -128(%rsp)\n\t"
	"mov want(%rip), %rax\n\tmov want+8(%rip), %rbx\n\tmov want+16(%rip), %rcx\n\t"
	"mov want+24(%rip), %rdx\n\tmov want+32(%rip), %rsi\n\tmov want+40(%rip), %rdi\n\t"
	"mov want+48(%rip), %rbp\n\tmov want+56(%rip), %r8\n\tmov want+64(%rip), %r9\n\t"
	"mov want+72(%rip), %r10\n\tmov want+80(%rip), %r11\n\tmov want+88(%rip), %r12\n\t"
	"mov want+96(%rip), %r13\n\tmov want+104(%rip), %r14\n\tmov want+112(%rip), %r15\n\t"
	"cmpl $0, go_on(%rip)\n\t"
	"je 1f\n\t"
	"std\n\tstc\n\t"
	"int3\n"
	"after_trap:\n\t"
	"jmp 2f\n"
	"1:\tcmpl $0, go_on(%rip)\n\t"
	"je 1b\n"
	"2:\tmov %rax, found(%rip)\n\tmov %rbx, found+8(%rip)\n\tmov %rcx, found+16(%rip)\n\t"
	"mov %rdx, found+24(%rip)\n\tmov %rsi, found+32(%rip)\n\tmov %rdi, found+40(%rip)\n\t"
	"mov %rbp, found+48(%rip)\n\tmov %r8, found+56(%rip)\n\tmov %r9, found+64(%rip)\n\t"
	"mov %r10, found+72(%rip)\n\tmov %r11, found+80(%rip)\n\tmov %r12, found+88(%rip)\n\t"
	"mov %r13, found+96(%rip)\n\tmov %r14, found+104(%rip)\n\tmov %r15, found+112(%rip)\n\t"
	"mov -16(%rsp), %rax\n\tmov %rax, found+136(%rip)\n\t"
	"mov -128(%rsp), %rax\n\tmov %rax, found+144(%rip)\n\t"
	"pushfq\n\tpopq found+152(%rip)\n\t"
	"cld\n\t"
	"movups %xmm15, found+120(%rip)\n\t"
	"fstpl found+168(%rip)\n\t"
	"stmxcsr found+160(%rip)\n\t"
	"pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\t"
	"ret\n\t"
	".popsection");

static void choose_registers(uint64_t *state)
{
	for (unsigned i = 0; i < GENERAL; i++)
		want.general[i] = random_next(state);
	for (unsigned i = 0; i < 2; i++) {
		want.xmm[i] = random_next(state);
		want.red_zone[i] = random_next(state);
	}
	want.mxcsr = 0x1f80 | (uint32_t)random_below(state, 4) << 13; /* rounding */
	want.x87 = (double)random_below(state, 1000) / 8;
}

static void expect_registers(void)
{
	for (unsigned i = 0; i < GENERAL; i++)
		CHECK(found.general[i] == want.general[i]);
	for (unsigned i = 0; i < 2; i++)
		CHECK(found.xmm[i] == want.xmm[i] && found.red_zone[i] == want.red_zone[i]);
	CHECK(found.mxcsr == want.mxcsr && found.x87 == want.x87);
}

/* A handler begins with x87 and SSE as a program does; it leaves them as it likes. */
static void use_every_register(void)
{
	uint32_t mxcsr = 0, other = 0x9fc0;
	uint16_t control = 0;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(control));
	CHECK(mxcsr == 0x1f80 && control == 0x37f);
	__asm__ volatile("ldmxcsr %0\n\tfldz\n\tfldz\n\tpcmpeqd %%xmm15, %%xmm15"
			 :
			 : "m"(other)
			 : "xmm15");
	__asm__ volatile("mov $-1, %%rbx\n\tmov $-1, %%r12\n\tmov $-1, %%r13\n\t"
			 "mov $-1, %%r14\n\tmov $-1, %%r15\n\tmov $-1, %%r11"
			 :
			 :
			 : "rbx", "r11", "r12", "r13", "r14", "r15", "memory");
}

static volatile unsigned handled;

/* The frame is below the red zone, with nothing to spare; RSP is as after a CALL. */
static void expect_frame(const struct siginfo *info, const context *c)
{
	uint64_t frame = (uint64_t)c - offsetof(struct signal_frame, context);
	uint64_t end = frame + sizeof(struct signal_frame), rsp = c->uc_mcontext.rsp;

	CHECK((uint64_t)info == frame + offsetof(struct signal_frame, info));
	CHECK(frame % 16 == 8 && end <= rsp - RED_ZONE && end + 24 > rsp - RED_ZONE);
	CHECK(*(const uint64_t *)frame == (uint64_t)signal_return);
	CHECK(c->uc_mcontext.fpstate == frame + offsetof(struct signal_frame, fpu));
	CHECK(c->uc_mcontext.fpstate % 16 == 0);
	CHECK(c->uc_mcontext.cs == USER_CODE && c->uc_mcontext.ss == USER_DATA);
	CHECK(!c->uc_flags && !c->uc_link && !c->uc_sigmask);
}

static void expect_general(const struct sigcontext *r)
{
	const uint64_t now[GENERAL] = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi,
				       r->rdi, r->rbp, r->r8,  r->r9,  r->r10,
				       r->r11, r->r12, r->r13, r->r14, r->r15};

	for (unsigned i = 0; i < GENERAL; i++)
		CHECK(now[i] == want.general[i]);
}

static void on_trap(int signal, struct siginfo *info, context *c)
{
	uint64_t rflags;

	__asm__ volatile(READ_FLAGS : "=r"(rflags));
	CHECK(!(rflags & DIRECTION) && signal == SIGTRAP);
	CHECK(info->si_signo == SIGTRAP && info->si_code == SI_KERNEL);
	expect_frame(info, c);
	expect_general(&c->uc_mcontext);
	CHECK(c->uc_mcontext.rip == (uint64_t)after_trap && c->uc_mcontext.trapno == 3);
	CHECK((c->uc_mcontext.rflags & (DIRECTION | CARRY)) == (DIRECTION | CARRY));
	handled++;
	use_every_register();
}

static void on_user(int signal, struct siginfo *info, context *c)
{
	CHECK(signal == SIGUSR1 && info->si_signo == SIGUSR1);
	CHECK(info->si_code == SI_USER && info->si_pid > 0);
	expect_frame(info, c);
	use_every_register();
	go_on = ++handled >= 20;
}

/* One that is sent while they are held, by a child that does it again and again. */
static void hold_them(uint64_t *state)
{
	long parent = getpid(), child;

	CHECK(set_handler(SIGTRAP, on_trap, SA_SIGINFO, 0) == 0);
	for (unsigned i = 0; i < 20; i++) {
		choose_registers(state);
		go_on = 1;
		hold_registers();
		expect_registers();
		CHECK((found.rflags & (DIRECTION | CARRY)) == (DIRECTION | CARRY));
	}
	CHECK(handled == 20 && set_handler(SIGUSR1, on_user, SA_RESTART | SA_SIGINFO, 0) == 0);
	choose_registers(state);
	handled = go_on = 0;
	child = fork();
	while (child == 0)
		kill(parent, SIGUSR1) == 0 ? (void)sleep_us(100) : exit(0);
	hold_registers();
	expect_registers();
	CHECK(kill(child, SIGKILL) == 0 && wait4(child, NULL, 0) == child);
}

/* --- Faults, which a handler mends --- */

static struct siginfo told;
static struct sigcontext at_fault;
extern const char fault_reads[], fault_writes[], fault_divides[], fault_undefined[], fault_jumps[];

static void on_fault(int signal, struct siginfo *info, context *c)
{
	CHECK(signal == info->si_signo);
	expect_frame(info, c);
	told = *info;
	at_fault = c->uc_mcontext;
	c->uc_mcontext.rip = c->uc_mcontext.r12;
	c->uc_mcontext.rax = 77;
}

/* An instruction that faults, at `name`; the handler goes on at the address in R12. */
#define FAULT(name, instruction, operand)                                                          \
	({                                                                                         \
		uint64_t result, given = (operand);                                                \
		__asm__ volatile("lea 9f(%%rip), %%r12\n\t"                                        \
				 "xor %%edx, %%edx\n" name ":\t" instruction "\n9:"                \
				 : "=a"(result), "+D"(given)                                       \
				 : "0"(1)                                                          \
				 : "r12", "rdx", "memory", "cc");                                  \
		result;                                                                            \
	})

static void expect_fault(int signal, int code, const char *at, unsigned vector)
{
	CHECK(told.si_signo == signal && told.si_code == code);
	CHECK(at_fault.trapno == vector && (!at || at_fault.rip == (uint64_t)at));
}

static void mend_faults(void)
{
	for (unsigned i = 0; i < 5; i++)
		CHECK(set_handler((const unsigned[]){SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP}[i],
				  on_fault, SA_SIGINFO, 0) == 0);
	CHECK(FAULT("fault_reads", "movq (%%rdi), %%rax", 0x123450) == 77);
	expect_fault(SIGSEGV, SEGV_MAPERR, fault_reads, 14);
	CHECK(told.si_addr == 0x123450 && at_fault.cr2 == 0x123450 && at_fault.err == 4);
	CHECK(FAULT("fault_writes", "movq %%rax, (%%rdi)", (uint64_t)mend_faults) == 77);
	expect_fault(SIGSEGV, SEGV_ACCERR, fault_writes, 14);
	CHECK(told.si_addr == (uint64_t)mend_faults && at_fault.err == 7);
	CHECK(FAULT("fault_divides", "div %%edi", 0) == 77);
	expect_fault(SIGFPE, FPE_INTDIV, fault_divides, 0);
	CHECK(FAULT("fault_undefined", "ud2", 0) == 77);
	expect_fault(SIGILL, ILL_ILLOPN, fault_undefined, 6);
	CHECK(FAULT("fault_jumps", "jmp *%%rdi", 0x0000800000000000) == 77);
	expect_fault(SIGSEGV, SI_KERNEL, NULL, 13);
}

static void frames(uint64_t seed)
{
	hold_them(&seed);
	mend_faults();
}

/* --- Masks --- */

static volatile unsigned count[SIGNALS];
static volatile uint64_t masks[SIGNALS];
static volatile unsigned order[16], ordered;

/* The handler's set in force is that of the process, the action's and the signal. */
static void on_any(int signal, struct siginfo *info, context *c)
{
	uint64_t blocked = 0;

	(void)info, (void)c;
	CHECK(set_mask(SIG_BLOCK, 0, &blocked) == 0);
	masks[signal] = blocked;
	count[signal]++;
	order[ordered++ % 16] = (unsigned)signal;
}

static long raise(unsigned signal)
{
	return kill(getpid(), signal);
}

static void forget(void)
{
	for (unsigned i = 0; i < SIGNALS; i++)
		count[i] = 0;
	ordered = 0;
}

static bool ran(unsigned first, unsigned second, unsigned third)
{
	return ordered == 3 && order[0] == first && order[1] == second && order[2] == third;
}

static uint64_t mask_now(void)
{
	uint64_t now = 0;

	CHECK(system_call(SYS_rt_sigprocmask, 99, 0, (uint64_t)&now, SIGSET_BYTES) == 0);
	return now;
}

static void block_and_unblock(void)
{
	const uint64_t both = SIGSET(SIGUSR1) | SIGSET(SIGUSR2);
	uint64_t old = 1;

	CHECK(set_handler(SIGUSR1, on_any, 0, 0) == 0 && set_handler(SIGUSR2, on_any, 0, 0) == 0);
	CHECK(set_mask(SIG_BLOCK, both, &old) == 0 && old == 0 && mask_now() == both);
	CHECK(raise(SIGUSR1) == 0 && raise(SIGUSR1) == 0 && raise(SIGUSR2) == 0 && !ordered);
	CHECK(set_mask(SIG_UNBLOCK, SIGSET(SIGUSR2), NULL) == 0);
	CHECK(count[SIGUSR2] == 1 && !count[SIGUSR1] && mask_now() == SIGSET(SIGUSR1));
	CHECK(masks[SIGUSR2] == both);
	CHECK(set_mask(SIG_SETMASK, 0, &old) == 0 && old == SIGSET(SIGUSR1));
	CHECK(count[SIGUSR1] == 1 && masks[SIGUSR1] == SIGSET(SIGUSR1)); /* two were one */
	CHECK(set_mask(SIG_SETMASK, UINT64_MAX, NULL) == 0);
	CHECK(mask_now() == (0x7fffffff & ~(SIGSET(SIGKILL) | SIGSET(SIGSTOP))));
	CHECK(set_mask(SIG_SETMASK, 0, NULL) == 0);
}

/* The frames of all that are due are built first: the last one's handler is the first to run. */
static void nest(void)
{
	const uint64_t three = SIGSET(SIGHUP) | SIGSET(SIGUSR1) | SIGSET(SIGUSR2);

	forget();
	CHECK(set_handler(SIGHUP, on_any, 0, 0) == 0 && set_mask(SIG_SETMASK, three, NULL) == 0);
	CHECK(raise(SIGUSR2) == 0 && raise(SIGHUP) == 0 && raise(SIGUSR1) == 0);
	CHECK(set_mask(SIG_SETMASK, 0, NULL) == 0);
	CHECK(ran(SIGUSR2, SIGUSR1, SIGHUP) && masks[SIGUSR2] == three);
	CHECK(masks[SIGHUP] == SIGSET(SIGHUP) && mask_now() == 0);
	forget();
	CHECK(set_handler(SIGHUP, on_any, 0, three) == 0 &&
	      set_mask(SIG_SETMASK, three, NULL) == 0);
	CHECK(raise(SIGUSR2) == 0 && raise(SIGHUP) == 0 && raise(SIGUSR1) == 0);
	CHECK(set_mask(SIG_SETMASK, 0, NULL) == 0);
	CHECK(ran(SIGHUP, SIGUSR2, SIGUSR1) && masks[SIGHUP] == three);
}

static volatile uint64_t depth, deepest;

/* Raises its signal again while it runs: at once with SA_NODEFER, else when it has returned. */
static void on_depth(int signal, struct siginfo *info, context *c)
{
	(void)info, (void)c;
	depth++;
	deepest = depth > deepest ? depth : deepest;
	if (++count[signal] < 9)
		raise((unsigned)signal);
	depth--;
}

static void defer(void)
{
	forget();
	CHECK(set_handler(SIGUSR1, on_depth, 0, 0) == 0 && raise(SIGUSR1) == 0);
	CHECK(count[SIGUSR1] == 9 && deepest == 1);
	forget();
	CHECK(set_handler(SIGUSR1, on_depth, SA_NODEFER, 0) == 0 && raise(SIGUSR1) == 0);
	CHECK(count[SIGUSR1] == 9 && deepest == 9 && depth == 0 && mask_now() == 0);
}

static int status_of(long child)
{
	int status = -1;

	CHECK(child > 0);
	while (wait4(child, &status, 0) == -EINTR)
		;
	return status;
}

/* Ends a child by the signal that it raises after the handler has run `times` times. */
static void expect_end_by(unsigned signal, unsigned times)
{
	long child = fork();

	if (!child) {
		for (unsigned i = 0; i <= times; i++) {
			raise(signal);
			CHECK(count[signal] == i + 1);
		}
		exit(0);
	}
	CHECK(status_of(child) == WAIT_KILLED((int)signal));
}

static void inherit(void)
{
	long child;

	forget();
	CHECK(set_handler(SIGUSR1, on_any, SA_RESETHAND, 0) == 0);
	expect_end_by(SIGUSR1, 1);
	CHECK(set_handler(SIGUSR1, on_any, 0, 0) == 0);
	CHECK(set_mask(SIG_BLOCK, SIGSET(SIGTERM), NULL) == 0 && raise(SIGTERM) == 0);
	child = fork(); /* has handlers and mask, not what is pending */
	if (!child) {
		CHECK(mask_now() == SIGSET(SIGTERM) && set_mask(SIG_SETMASK, 0, NULL) == 0);
		CHECK(raise(SIGUSR1) == 0 && count[SIGUSR1] == 1);
		exit(3);
	}
	CHECK(status_of(child) == WAIT_EXITED(3));
	CHECK(set_handler(SIGTERM, (signal_handler *)SIG_IGN, 0, 0) == 0); /* it is gone by that */
	CHECK(set_handler(SIGTERM, (signal_handler *)SIG_DFL, 0, 0) == 0);
	CHECK(set_mask(SIG_SETMASK, 0, NULL) == 0);
	CHECK(status_of(spawn("signals", 3ul << 56 | SIGUSR1)) == WAIT_KILLED(SIGUSR1));
}

/* One that is blocked or ignored when an instruction raises it ends the process. */
static void force(void)
{
	for (unsigned way = 0; way < 3; way++) {
		long child = fork();

		if (!child) {
			set_handler(SIGILL, way ? on_any : (signal_handler *)SIG_IGN, 0, 0);
			set_mask(SIG_SETMASK, way == 1 ? SIGSET(SIGILL) : 0, NULL);
			if (way == 2)
				set_handler(SIGILL, (signal_handler *)SIG_DFL, 0, 0);
			__asm__ volatile("ud2");
		}
		CHECK(status_of(child) == WAIT_KILLED(SIGILL));
	}
}

/* Sends the signal to its parent without an end. */
static long begin_to_send(unsigned signal)
{
	long parent = getpid(), child = fork();

	while (child == 0) {
		kill(parent, signal) == 0 ? (void)0 : exit(0);
		sleep_us(500);
	}
	CHECK(child > 0);
	return child;
}

static void end_sender(long child)
{
	CHECK(kill(child, SIGKILL) == 0 && status_of(child) == WAIT_KILLED(SIGKILL));
}

static void interrupt_calls(void)
{
	const int64_t long_time = 1000000000;
	int64_t start = now_us();
	long sender, child;
	int status;

	forget();
	CHECK(set_handler(SIGUSR1, on_any, SA_RESTART, 0) == 0 &&
	      set_handler(SIGUSR2, on_any, 0, 0) == 0);
	sender = begin_to_send(SIGUSR1);
	CHECK(sleep_us(long_time) == -EINTR && now_us() - start < long_time);
	child = fork();
	if (!child) {
		sleep_us(20000);
		exit(9);
	}
	CHECK(wait4(child, &status, 0) == child && status == WAIT_EXITED(9));
	end_sender(sender);
	CHECK(count[SIGUSR1] > 0 && !count[SIGUSR2]);
	sender = begin_to_send(SIGUSR2);
	CHECK(wait4(sender, &status, 0) == -EINTR && count[SIGUSR2] > 0);
	end_sender(sender);
}

/* What has no handler, or is blocked, ends no sleep. */
static void sleep_on(void)
{
	long parent = getpid(), sender = begin_to_send(SIGWINCH), child;
	int64_t start = now_us();

	CHECK(sleep_us(5000) == 0 && now_us() - start >= 5000);
	end_sender(sender);
	forget();
	CHECK(set_mask(SIG_BLOCK, SIGSET(SIGUSR2), NULL) == 0);
	sender = begin_to_send(SIGUSR2);
	start = now_us();
	CHECK(sleep_us(5000) == 0 && now_us() - start >= 5000 && !count[SIGUSR2]);
	end_sender(sender);
	child = fork(); /* the other may not have run yet */
	if (!child)
		exit(kill(parent, SIGUSR2) != 0);
	CHECK(status_of(child) == WAIT_EXITED(0));
	CHECK(set_mask(SIG_SETMASK, 0, NULL) == 0 && count[SIGUSR2] == 1);
}

/* A parent learns of a child that ended by wait4() though its handler runs as well. */
static void hear_of_children(void)
{
	long child;
	int status;

	forget();
	CHECK(set_handler(SIGCHLD, on_any, 0, 0) == 0);
	child = fork();
	if (!child)
		exit(4);
	CHECK(wait4(child, &status, 0) == child && status == WAIT_EXITED(4));
	CHECK(count[SIGCHLD] == 1);
	CHECK(set_handler(SIGCHLD, (signal_handler *)SIG_DFL, 0, 0) == 0);
}

static long change(unsigned signal, const struct sigaction *action, struct sigaction *old,
		   uint64_t bytes)
{
	return system_call(SYS_rt_sigaction, signal, (uint64_t)action, (uint64_t)old, bytes);
}

/* What is refused has changed nothing. */
static void refuse(void)
{
	struct sigaction good = {(uint64_t)on_any, SA_RESTORER | SA_NODEFER,
				 (uint64_t)signal_return, SIGSET(SIGHUP)},
			 bad = good, old;

	CHECK(change(SIGUSR1, &good, NULL, 8) == 0);
	for (unsigned signal = 0; signal < 70; signal++)
		if (signal == 0 || signal >= SIGNALS || signal == SIGKILL || signal == SIGSTOP)
			CHECK(change(signal, &good, NULL, 8) == -EINVAL);
	CHECK(change(SIGKILL, NULL, &old, 8) == 0 && old.handler == SIG_DFL);
	CHECK(change(SIGUSR1, &bad, NULL, 7) == -EINVAL);
	bad.flags = 0;
	CHECK(change(SIGUSR1, &bad, NULL, 8) == -EINVAL);
	for (unsigned bit = 0; bit < 64; bit++) {
		bad.flags = SA_RESTORER | 1ul << bit;
		if (!(SA_MASK & 1ul << bit))
			CHECK(change(SIGUSR1, &bad, NULL, 8) == -EINVAL);
	}
	bad = (struct sigaction){0xffffffff80101000, SA_RESTORER, 0, 0};
	CHECK(change(SIGUSR1, &bad, NULL, 8) == -EINVAL);
	bad.handler = SIG_DFL;
	CHECK(change(SIGUSR1, (void *)8, NULL, 8) == -EFAULT);
	CHECK(change(SIGUSR1, &bad, (void *)8, 8) == -EFAULT);
	CHECK(change(SIGUSR1, NULL, &old, 8) == 0 && old.handler == good.handler);
	CHECK(old.flags == good.flags && old.restorer == good.restorer && old.mask == good.mask);
	CHECK(set_mask(3, 1, NULL) == -EINVAL && set_mask(SIG_BLOCK, 1, (void *)8) == -EFAULT);
	CHECK(system_call(SYS_rt_sigprocmask, SIG_BLOCK, 8, 0, 8) == -EFAULT);
	CHECK(system_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, 0, 9) == -EINVAL && mask_now() == 0);
}

static void masks_and_calls(void)
{
	block_and_unblock();
	nest();
	defer();
	inherit();
	force();
	interrupt_calls();
	sleep_on();
	hear_of_children();
	refuse();
}

/* --- Frames that ask for too much --- */

#define FLAGS_KEPT 0xcd5u /* CF PF AF ZF SF DF OF */
#define FLAGS_NEVER                                                                                \
	(0x3000u | 0x4000u | 0x10000u | 0x20000u | 0x80000u | 0x100000u) /* IOPL NT RF VM VIF VIP  \
									  */
#define FLAG_IF 0x200u

static uint64_t what;

static void spoil(int signal, struct siginfo *info, context *c)
{
	static const uint64_t rips[] = {0x0000800000000000, 0xffff7fffffffffff, 0xffff800000000000,
					0xffffffff80101000, 0x00007ffffffff000, UINT64_MAX};
	struct sigcontext *r = &c->uc_mcontext;

	(void)signal, (void)info;
	switch (what) {
	case 0 ... 5:
		r->rip = rips[what];
		break;
	case 6 ... 11:
		r->cs = (const uint16_t[]){0, 8, 0x10, 0x20, 0x1b, 0x28}[what - 6];
		break;
	case 12 ... 15:
		r->ss = (const uint16_t[]){0, 0x10, 0x18, 0x23}[what - 12];
		break;
	case 16 ... 18:
		r->fpstate =
			(const uint64_t[]){8, 0xffffffff80101000, 0x0000800000000000}[what - 16];
		break;
	case 19 ... 21:
		__asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tsyscall"
				 :
				 : "r"((const uint64_t[]){0, 0xffffffff80101000,
							  0x0000800000000000}[what - 19]));
	}
}
enum { SPOILT = 22 };

static void exit_with_7(int signal, struct siginfo *info, context *c)
{
	(void)signal, (void)info, (void)c;
	exit(7);
}

/* Ends by SIGSEGV, which its handler does not get. */
static void expect_fatal(void (*function)(void))
{
	long child = fork();

	if (!child) {
		CHECK(set_handler(SIGSEGV, exit_with_7, 0, 0) == 0);
		function();
		exit(0);
	}
	CHECK(status_of(child) == WAIT_KILLED(SIGSEGV));
}

static void return_spoilt(void)
{
	set_handler(SIGUSR1, spoil, 0, 0);
	raise(SIGUSR1);
}

static uint64_t stack;

static void raise_there(void)
{
	set_handler(SIGUSR1, spoil, 0, 0);
	__asm__ volatile("mov %0, %%rsp\n\tsyscall\n\tud2"
			 :
			 : "r"(stack), "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1)
			 : "memory");
}

/* Flags that ring 3 may not set are taken away, and bits of MXCSR that there are not. */
static void ask_for_flags(int signal, struct siginfo *info, context *c)
{
	uint32_t *mxcsr = (uint32_t *)(c->uc_mcontext.fpstate + 24);

	(void)signal, (void)info;
	c->uc_mcontext.rflags = (c->uc_mcontext.rflags | FLAGS_NEVER | FLAGS_KEPT) & ~FLAG_IF;
	*mxcsr = UINT32_MAX & ~0x3fu;
}

static void sanitise(void)
{
	uint64_t rflags, number = SYS_kill, pid = (uint64_t)getpid();
	uint32_t mxcsr, usual = 0x1f80;

	CHECK(set_handler(SIGUSR1, ask_for_flags, 0, 0) == 0);
	__asm__ volatile("syscall\n\t" READ_FLAGS "cld\n\tstmxcsr %1\n\tldmxcsr %3"
			 : "=&r"(rflags), "=m"(mxcsr), "+a"(number)
			 : "m"(usual), "D"(pid), "S"(SIGUSR1)
			 : "rcx", "r11", "cc", "memory");
	CHECK((rflags & (FLAGS_NEVER | FLAG_IF | FLAGS_KEPT)) == (FLAG_IF | FLAGS_KEPT));
	CHECK(!(mxcsr >> 18) && (mxcsr & 0x1f80) == 0x1f80);
}

/* A frame that was written by hand is as good as the kernel's. */
static void go_without_frame(int signal, struct siginfo *info, context *c)
{
	static struct {
		uint64_t restorer;
		context saved;
	} own;

	(void)signal, (void)info;
	own.saved = *c;
	own.saved.uc_mcontext.fpstate = 0;
	own.saved.uc_mcontext.rax = 123;
	__asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tsyscall" : : "r"(&own.saved));
}

static void hostile(void)
{
	static const uint64_t stacks[] = {0,
					  8,
					  0x1000,
					  0x00007fffffffffff,
					  0x0000800000000000,
					  0xffff7ffffffffff8,
					  0xffff800000100000,
					  0xffffffff80101000,
					  UINT64_MAX};

	for (what = 0; what < SPOILT; what++)
		expect_fatal(return_spoilt);
	what = SPOILT;
	for (unsigned i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		stack = stacks[i];
		expect_fatal(raise_there);
	}
	stack = (uint64_t)hostile + 64; /* no stack: code */
	expect_fatal(raise_there);
	stack = (uint64_t)map(4096, PROT_READ | PROT_WRITE) + 900; /* a frame has more */
	expect_fatal(raise_there);
	sanitise();
	CHECK(set_handler(SIGUSR1, go_without_frame, 0, 0) == 0 && raise(SIGUSR1) == 123);
}

int main(uint64_t argument)
{
	switch (argument >> 56) {
	case 0:
		frames(argument);
		break;
	case 1:
		masks_and_calls();
		break;
	case 2:
		hostile();
		break;
	default:
		CHECK(mask_now() == 0 && raise((uint8_t)argument) == 0);
	}
	return 0;
}
