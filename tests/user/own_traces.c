// SPDX-License-Identifier: MIT
// Programs that trace themselves. argument >> 56: 0: a profiler of itself, by a handler that drains
// its buffer: how often each branch was taken, exactly; the rest: a seed; << 32: how many CPUs;
// bit 55: with the kernel's branches.
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"

#define MOST  4096
#define CALLS 400
#define WORK  3 /* functions */

static uint64_t state;

/* --- What is profiled: it counts its own branches --- */

extern const char count_down_again[], count_down_return[], skip_over[], skip_return[], nest_call[],
	nest_return[];
void count_down(uint64_t times);
void skip(uint64_t value);
void nest(uint64_t times);

__asm__(".pushsection .text.work, \"ax\"\n"
	"work_start:\n"
	"count_down:\n\t" /* `times` - 1 jumps back */
	"dec %rdi\n"
	"count_down_again:\n\t"
	"jnz count_down\n"
	"count_down_return:\n\t"
	"ret\n"
	"skip:\n\t" /* a jump if `value` is even */
	"test $1, %dil\n"
	"skip_over:\n\t"
	"jz 1f\n\t"
	"nop\n"
	"1:\n"
	"skip_return:\n\t"
	"ret\n"
	"nest:\n\t"
	"push %rdi\n"
	"nest_call:\n\t"
	"call count_down\n\t"
	"pop %rdi\n"
	"nest_return:\n\t"
	"ret\n"
	"work_end:\n\t"
	".popsection");
extern const char work_start[], work_end[];

static struct edge {
	const char *from;
	uint64_t own, seen; /* times: by its own count, and in the trace */
} edges[] = {{count_down_again, 0, 0}, {count_down_return, 0, 0}, {skip_over, 0, 0},
	     {skip_return, 0, 0},      {nest_call, 0, 0},	  {nest_return, 0, 0}};
enum { AGAIN, DOWN_RETURN, OVER, SKIP_RETURN, CALL, NEST_RETURN, EDGES };

static void work(void)
{
	uint64_t times = 1 + random_below(&state, 60);

	switch (random_below(&state, WORK)) {
	case 0:
		count_down(times);
		break;
	case 1:
		skip(times);
		edges[OVER].own += times % 2 == 0;
		edges[SKIP_RETURN].own++;
		return;
	default:
		nest(times);
		edges[CALL].own++;
		edges[NEST_RETURN].own++;
	}
	edges[AGAIN].own += times - 1;
	edges[DOWN_RETURN].own++;
}

/* --- The profiler --- */

static volatile uint64_t overflows, least_drained = UINT64_MAX;
static uint64_t all;
static unsigned signal_of_trace;
void on_overflow(int signal, struct siginfo *info, struct ucontext *context);
void own_handler(int signal, struct siginfo *info, struct ucontext *context);
extern const char own_handler_end[];

/* A branch that no trace may have: the handler is not recorded. */
__asm__(".pushsection .text.own_handler, \"ax\"\n"
	"own_handler:\n\t"
	"sub $8, %rsp\n\t"
	"call on_overflow\n\t"
	"add $8, %rsp\n\t"
	"ret\n"
	"own_handler_end:\n\t"
	".popsection");

static bool is_in(uint64_t address, const void *start, const void *end)
{
	return address >= (uint64_t)start && address < (uint64_t)end;
}

static void count(const struct ptrace_bts_record *record)
{
	bool work_is_known = (record->from | record->to) >> 63; /* an interrupt, and such */

	CHECK(record->qualifier == PTRACE_BTS_BRANCH);
	CHECK(!is_in(record->from, own_handler, own_handler_end));
	CHECK(!is_in(record->to, own_handler, own_handler_end));
	for (unsigned i = 0; i < EDGES; i++)
		if (!(record->to >> 63) && record->from == (uint64_t)edges[i].from) {
			edges[i].seen++;
			work_is_known = true;
		}
	CHECK(work_is_known || !is_in(record->from, work_start, work_end));
	all++;
}

static uint64_t drain(void)
{
	static struct ptrace_bts_record records[MOST];
	uint64_t count_before = all;
	long n;

	while ((n = ptrace(PTRACE_BTS_DRAIN, getpid(), (uint64_t)records, sizeof(records))) > 0)
		for (long i = 0; i < n; i++)
			count(&records[i]);
	CHECK(n == 0);
	return all - count_before;
}

void on_overflow(int signal, struct siginfo *info, struct ucontext *context)
{
	uint64_t drained;

	CHECK((unsigned)signal == signal_of_trace && info->si_signo == signal);
	CHECK(info->si_code == SI_EVENT(PTRACE_EVENT_BTS, signal) && info->si_pid == getpid());
	CHECK(context->uc_mcontext.rip > 0);
	drained = drain();
	CHECK(drain() == 0); /* nothing is added while the handler runs */
	least_drained = drained < least_drained ? drained : least_drained;
	overflows++;
}

static void move(uint64_t cpus)
{
	if (random_below(&state, 16) == 0)
		CHECK(run_on(0, random_below(&state, cpus)) == 0);
	else if (random_below(&state, 16) == 0)
		yield();
	else if (random_below(&state, 64) == 0)
		CHECK(sleep_us((int64_t)random_below(&state, 300)) != -EINVAL);
}

static unsigned draw_signal(void)
{
	unsigned signal;

	do
		signal = 1 + (unsigned)random_below(&state, SIGNALS - 1);
	while (signal == SIGKILL || signal == SIGSTOP || signal == SIGSEGV);
	return signal;
}

static void profile_branches(uint64_t argument)
{
	static const uint32_t sent[] = {0, PTRACE_BTS_SIGNAL_TRACEE, PTRACE_BTS_SIGNAL_TRACER};
	uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, size;
	struct ptrace_bts_config config;

	state = argument & UINT32_MAX;
	size = 16 + (uint32_t)random_below(&state, 1000);
	flags |= sent[random_below(&state, 3)];
	if (argument >> 55 & 1) {
		flags |= PTRACE_BTS_USER | PTRACE_BTS_KERNEL;
		size += 1500; /* the way out of the kernel is recorded, too */
	}
	signal_of_trace = random_below(&state, 4) ? draw_signal() : SIGIO;
	CHECK(set_handler(signal_of_trace, own_handler, SA_RESTART, 0) == 0);
	CHECK(trace_branches(getpid(), size, flags,
			     signal_of_trace == SIGIO ? 0 : signal_of_trace) > 0);
	for (unsigned i = 0; i < CALLS; i++) {
		work();
		move(argument >> 32 & 0xffff);
	}
	CHECK(trace_branches(getpid(), size, PTRACE_BTS_SIGNAL, signal_of_trace) > 0); /* no more */
	drain();
	CHECK(ptrace(PTRACE_BTS_STATUS, getpid(), (uint64_t)&config, sizeof(config)) > 0);
	CHECK(config.size == size * RECORD);
	CHECK(!(config.flags & (PTRACE_BTS_LOST | PTRACE_BTS_TRUNCATED)));
	for (unsigned i = 0; i < EDGES; i++)
		CHECK(edges[i].seen == edges[i].own);
	CHECK(overflows > 0 && least_drained >= (size >= 340 ? size - 170 : size - size / 2));
	CHECK(trace_branches(getpid(), 0, 0, 0) > 0);
	CHECK(ptrace(PTRACE_BTS_SIZE, getpid(), 0, 0) == -ENXIO);
}

// 1: a profiler of itself by samples, whose handler drains a buffer that is full. Each sample is at
// the program's own count. The rest of the argument is as for ptrace_pebs, with PEBS.

#define TURNS	 3050
#define PERIOD	 99
#define EACH	 4 /* samples of a buffer */
#define MOST_ALL (2 * TURNS / (PERIOD + 1) + 2 * EACH)

static struct ptrace_pebs_sample samples[MOST_ALL];
static volatile uint64_t sample_count;
static uint64_t skid;
static bool branches; /* are the event; else instructions are */

static long drain_samples(void)
{
	return ptrace(PTRACE_PEBS_DRAIN, getpid(), (uint64_t)(samples + sample_count),
		      (MOST_ALL - sample_count) * sizeof(samples[0]));
}

static void on_full(int signal, struct siginfo *info, struct ucontext *context)
{
	(void)context;
	CHECK(signal == SIGPROF && info->si_code == SI_EVENT(PTRACE_EVENT_PEBS, SIGPROF));
	CHECK(info->si_pid == getpid() && drain_samples() == EACH);
	sample_count += EACH;
	CHECK(ptrace(PTRACE_PEBS_SIZE, getpid(), 0, 0) == 0);
	overflows++;
}

static long configure(struct ptrace_pebs_config *config)
{
	return ptrace(PTRACE_PEBS_CONFIG, getpid(), (uint64_t)config, sizeof(*config));
}

/*
 * From one call to the next nothing is executed but TURNS turns of a loop that counts RBX down.
 * Returns what the second, DRAIN into `last`, returns.
 */
static long take_turns(struct ptrace_pebs_config *config, struct ptrace_pebs_sample *last)
{
	uint64_t pid = (uint64_t)getpid(), turns = TURNS, number = SYS_ptrace;
	uint64_t request = PTRACE_PEBS_CONFIG, address = (uint64_t)config;
	register uint64_t size __asm__("r10") = sizeof(*config);

	__asm__ volatile("syscall\n"
			 "1:\tdec %%rbx\n\t"
			 "jnz 1b\n\t"
			 "mov %[number], %%eax\n\t"
			 "mov %[drain], %%edi\n\t"
			 "mov %[last], %%rdx\n\t"
			 "mov %[bytes], %%r10d\n\t"
			 "syscall"
			 : "+a"(number), "+b"(turns), "+r"(size), "+D"(request), "+d"(address)
			 : "S"(pid), [last] "r"(last), [number] "i"(SYS_ptrace),
			   [drain] "i"(PTRACE_PEBS_DRAIN), [bytes] "i"(2 * EACH * sizeof(*last))
			 : "rcx", "r11", "cc", "memory");
	return (long)number;
}

/* RBX after event `n` of the loop, from 1 on. */
static uint64_t rbx_after(uint64_t n)
{
	return TURNS - (branches ? n : (n + 1) / 2);
}

static bool is_of(uint64_t n, uint64_t rbx)
{
	for (uint64_t late = 0; late < 2 + 2 * skid; late++)
		if (rbx == rbx_after(n + late))
			return true;
	return false;
}

static void profile_samples(uint64_t argument)
{
	static struct ptrace_pebs_sample last[2 * EACH];
	struct ptrace_pebs_config config = {.size = EACH * sizeof(samples[0]),
					    .flags = PTRACE_PEBS_SIGNAL,
					    .event = PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES};
	uint64_t expected;
	long rest;

	skid = argument >> 8 & 0xffff;
	config.period = PERIOD - skid;
	CHECK(set_handler(SIGPROF, on_full, 0, 0) == 0);
	branches = configure(&config) != -EOPNOTSUPP;
	if (!branches)
		config.event = PTRACE_PEBS_INST_RETIRED;
	expected = (branches ? TURNS : 2 * TURNS) / (PERIOD + 1);
	rest = take_turns(&config, last);
	config.size = 0; /* what follows is sampled no more */
	CHECK(configure(&config) > 0 && ptrace(PTRACE_PEBS_SIZE, getpid(), 0, 0) == -ENXIO);
	CHECK(rest >= 0 && (uint64_t)rest + sample_count == expected);
	CHECK(overflows == sample_count / EACH && overflows == expected / EACH);
	for (uint64_t i = 0; i < expected; i++) {
		const struct ptrace_pebs_sample *sample =
			i < sample_count ? &samples[i] : &last[i - sample_count];

		CHECK(sample->has & (PTRACE_PEBS_HAS_IP | PTRACE_PEBS_HAS_EVENT_IP));
		CHECK(!(argument & 4) || is_of((i + 1) * (PERIOD + 1), sample->general[3]));
	}
}

// 2: what a process can ask of itself, and what becomes of a signal that nothing takes; bit 0: it
// may see kernel addresses.

static void turn(uint64_t rounds)
{
	for (; rounds; rounds--)
		count_down(60);
}

static int end_of(void (*body)(void))
{
	int status = -1;
	long pid = fork();

	if (!pid) {
		body();
		exit(0);
	}
	CHECK(wait4(pid, &status, 0) == pid);
	return status;
}

#define OWN (PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL)

static void dies(void)
{
	CHECK(trace_branches(getpid(), 50, OWN, SIGXCPU) > 0);
	turn(10);
}

static bool is_lost(void)
{
	struct ptrace_bts_config config;

	CHECK(ptrace(PTRACE_BTS_STATUS, getpid(), (uint64_t)&config, sizeof(config)) > 0);
	return config.flags & PTRACE_BTS_LOST;
}

/* It is ignored: the recording goes on at once, until there is no room. */
static void ignores(void)
{
	CHECK(set_handler(SIGXCPU, (signal_handler *)SIG_IGN, 0, 0) == 0);
	CHECK(trace_branches(getpid(), 50, OWN, SIGXCPU) > 0);
	turn(200);
	CHECK(is_lost());
}

/* It is blocked: nothing is recorded from the threshold on until it is not. */
static void blocks(void)
{
	long size;

	signal_of_trace = SIGXCPU;
	CHECK(set_handler(SIGXCPU, own_handler, 0, 0) == 0);
	CHECK(set_mask(SIG_BLOCK, SIGSET(SIGXCPU), NULL) == 0);
	CHECK(trace_branches(getpid(), 50, OWN, SIGXCPU) > 0);
	turn(200);
	size = ptrace(PTRACE_BTS_SIZE, getpid(), 0, 0);
	turn(200);
	CHECK(size >= 25 && ptrace(PTRACE_BTS_SIZE, getpid(), 0, 0) == size && !is_lost());
	CHECK(!overflows && set_mask(SIG_SETMASK, 0, NULL) == 0 && overflows == 1);
	turn(10);
	CHECK(overflows > 1);
}

/* A child is not traced, and has the handler of its parent. */
static void forks(void)
{
	int status = -1;

	CHECK(trace_branches(getpid(), 50, PTRACE_BTS_TRACE, 0) > 0);
	if (fork() == 0)
		exit(ptrace(PTRACE_BTS_SIZE, getpid(), 0, 0) == -ENXIO ? 0 : 1);
	CHECK(wait4(-1, &status, 0) > 0 && status == WAIT_EXITED(0));
	CHECK(ptrace(PTRACE_BTS_SIZE, getpid(), 0, 0) > 0);
}

/* Another tracer stops it for the signal before its handler runs, and has the same branches. */
static void child_of_tracer(uint64_t argument)
{
	(void)argument;
	signal_of_trace = SIGXCPU;
	CHECK(set_handler(SIGXCPU, own_handler, 0, 0) == 0);
	CHECK(trace_branches(getpid(), 500, OWN, SIGXCPU) > 0);
	turn(20);
	exit(overflows ? 0 : 1);
}

static void is_traced_besides(void)
{
	long pid = traced_child(child_of_tracer, 0);
	unsigned stops = 0;
	int status;

	CHECK(trace_branches(pid, 10000, PTRACE_BTS_TRACE, 0) > 0 && go_on(pid, 0) == 0);
	while ((status = peek_stop(pid)) == WAIT_STOPPED(SIGXCPU)) {
		stops++;
		CHECK(next_stop(pid) == status && go_on(pid, SIGXCPU) == 0);
	}
	CHECK(status == WAIT_EXITED(0) && stops > 0);
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) > 20 * 60); /* the handler's as well */
	CHECK(next_stop(pid) == status);
}

/* A step into a handler ends after its first instruction. */
extern const char nop_handler[];
__asm__(".pushsection .text.nop_handler, \"ax\"\n"
	"nop_handler:\n\t"
	"nop\n\t"
	"ret\n\t"
	".popsection");

static void take_signal(uint64_t argument)
{
	CHECK(set_handler(SIGUSR1, (signal_handler *)(uint64_t)nop_handler, 0, 0) == 0);
	kill(getpid(), SIGUSR1);
	exit((int)argument);
}

static void step_into_handler(void)
{
	struct ptrace_registers registers;
	long pid = traced_child(take_signal, 5);

	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGUSR1));
	CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, SIGUSR1) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	CHECK(registers.rip == (uint64_t)nop_handler + 1 && registers.rdi == SIGUSR1);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_EXITED(5));
}

static void see_kernel(bool may)
{
	uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_KERNEL | PTRACE_BTS_USER;
	static struct ptrace_bts_record records[2000];
	bool kernel = false;
	long n;

	CHECK(trace_branches(getpid(), 2000, flags, 0) ==
	      (may ? (long)sizeof(struct ptrace_bts_config) : -EPERM));
	if (!may)
		return;
	turn(1);
	n = ptrace(PTRACE_BTS_READ, getpid(), (uint64_t)records, sizeof(records));
	CHECK(n > 60);
	for (long i = 0; i < n; i++)
		kernel |= records[i].from >> 63;
	CHECK(kernel && trace_branches(getpid(), 0, 0, 0) > 0);
}

/* Where it goes on unrecorded is a stamp, though it has not departed. */
static void pauses(void)
{
	struct ptrace_bts_record newest;

	CHECK(trace_branches(getpid(), 50, PTRACE_BTS_SCHED, 0) > 0);
	CHECK(trace_branches(getpid(), 50, 0, 0) > 0);
	ptrace(PTRACE_BTS_GET, getpid(), (uint64_t)&newest, 0);
	CHECK(newest.qualifier == PTRACE_BTS_TASK_DEPARTS);
}

static void request(bool privileged)
{
	static const uint16_t others[] = {PTRACE_CONT,	   PTRACE_KILL,	    PTRACE_SINGLESTEP,
					  PTRACE_GETREGS,  PTRACE_PEEKDATA, PTRACE_DETACH,
					  PTRACE_INTERRUPT};

	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK(ptrace(others[i], getpid(), 0, 0) == -ESRCH);
	CHECK(ptrace(PTRACE_SEIZE, getpid(), 0, 0) == -EPERM);
	CHECK(ptrace(PTRACE_BTS_SIZE, getpid(), 0, 0) == -ENXIO);
	CHECK(trace_branches(getpid(), 50, OWN | PTRACE_BTS_STOP, 0) == -EINVAL);
	CHECK(end_of(dies) == WAIT_KILLED(SIGXCPU));
	CHECK(end_of(ignores) == WAIT_EXITED(0));
	CHECK(end_of(blocks) == WAIT_EXITED(0));
	CHECK(end_of(forks) == WAIT_EXITED(0));
	CHECK(end_of(is_traced_besides) == WAIT_EXITED(0));
	step_into_handler();
	pauses();
	see_kernel(privileged);
}

int main(uint64_t argument)
{
	switch (argument >> 56) {
	case 0:
		profile_branches(argument);
		break;
	case 1:
		profile_samples(argument);
		break;
	default:
		request(argument & 1);
	}
	return 0;
}
