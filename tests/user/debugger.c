// SPDX-License-Identifier: MIT
// A debugger's use of branch traces, at random: small programs with buffers of any size and kind,
// stopped in any way and read by any request. What a buffer holds is compared with the branches
// that single-stepping of the same program shows. Some have a second tracer with a buffer of its
// own, which stops them and reads as it likes. argument: a seed in the low 32 bits; how many runs
// in the next 16; 1 << 48: with the right to kernel addresses.
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/contents.h"

#define MOST_RECORDS 5000 /* of a buffer */
#define MOST_SAMPLES 2000

static uint64_t state;
static bool privileged;
static struct ptrace_bts_record records[MOST];

static struct {
	uint64_t runs, branches, stops, calls, two_tracers, samples;
} figures;

static uint32_t random(uint32_t below)
{
	return (uint32_t)(next_random(&state) % below);
}

/* --- Requests --- */

static void ask_size(void)
{
	expect("SIZE", (uint64_t)ptrace(PTRACE_BTS_SIZE, run.pid, 0, 0), contents_count);
}

static void get_one(void)
{
	uint32_t index = random(random(2) ? contents_count + 2 : 3);
	long result = ptrace(PTRACE_BTS_GET, run.pid, (uint64_t)records, index);

	expect("GET", (uint64_t)result, index < contents_count ? RECORD : (uint64_t)-EINVAL);
	if (index < contents_count)
		expect_same("GET", records, &contents[contents_count - 1 - index], index);
}

static void copy_some(const char *what, long request, uint32_t most)
{
	uint32_t count = most < contents_count ? most : contents_count;

	expect(what, (uint64_t)copy_records(request, records, most), count);
	for (uint32_t i = 0; i < count; i++)
		expect_same(what, &records[i], &contents[i], i);
	if (request == PTRACE_BTS_DRAIN)
		contents_drop(count);
}

/* Some, all but one, all, or more than there are. */
static uint32_t some(void)
{
	uint32_t count =
		random(2) ? contents_count + 2 - random(4) : 1 + random(contents_count + 1);

	return count && count <= MOST ? count : 1;
}

/* What is read stays: where it cannot be foretold how much of the buffer is taken, it stays full.
 */
static bool can_drop(void)
{
	return run.exact || run.mode != STOP;
}

static void read_some(void)
{
	copy_some("READ", PTRACE_BTS_READ, some());
}

static void read_all(void)
{
	copy_some("READ of all", PTRACE_BTS_READ, MOST);
}

static void drain_some(void)
{
	if (can_drop())
		copy_some("DRAIN", PTRACE_BTS_DRAIN, some());
}

static void drain_all(void)
{
	if (can_drop())
		copy_some("DRAIN of all", PTRACE_BTS_DRAIN, MOST);
}

static void clear(void)
{
	if (!can_drop())
		return;
	expect("CLEAR", (uint64_t)ptrace(PTRACE_BTS_CLEAR, run.pid, 0, 0), 0);
	contents_clear();
}

static void ask_status(void)
{
	struct ptrace_bts_config config;
	uint32_t states, expected = contents_states(&states);

	expect("STATUS",
	       (uint64_t)ptrace(PTRACE_BTS_STATUS, run.pid, (uint64_t)&config, sizeof(config)),
	       sizeof(config));
	expect("STATUS, size", config.size, run.size * RECORD);
	expect("STATUS, flags", config.flags & PTRACE_BTS_SETTABLE, run.flags);
	expect("STATUS, LOST and others", config.flags & states, expected & states);
}

static void configure(void)
{
	struct ptrace_bts_config config = {(uint32_t)(run.size * RECORD + random(RECORD)),
					   run.flags, run.mode == SIGNAL ? SIGUSR2 : 0,
					   random(2) ? RECORD : 0};

	expect("CONFIG",
	       (uint64_t)ptrace(PTRACE_BTS_CONFIG, run.pid, (uint64_t)&config, sizeof(config)),
	       sizeof(config));
}

/* The same size keeps the records, and whether any were lost. */
static void configure_again(void)
{
	if (!random(4))
		run.flags ^= PTRACE_BTS_TRACE;
	if (!random(4))
		run.flags ^= PTRACE_BTS_CUT_SIZE;
	configure();
}

static uint32_t draw_size(void)
{
	uint32_t size = 1 + random(1u << (1 + random(13)));

	if (run.flags & PTRACE_BTS_KERNEL && run.mode == SIGNAL)
		size += 600; /* to get from stop to stop: the kernel's way is itself recorded */
	if (run.flags & PTRACE_BTS_SCHED && run.mode == STOP)
		size += 3; /* arrival, gap, departure */
	return size < MOST_RECORDS ? size : MOST_RECORDS;
}

static void configure_anew(void)
{
	uint32_t size = draw_size();

	if (size == run.size)
		return;
	run.size = size;
	configure();
	contents_clear();
}

static void use_buffer(uint32_t calls, bool can_configure)
{
	static void (*const requests[])(void) = {
		ask_size,   get_one, get_one,	get_one,    read_some,	     read_all,
		drain_some, clear,   drain_all, ask_status, configure_again, configure_anew};
	const uint32_t kinds = sizeof(requests) / sizeof(requests[0]);

	if (!calls)
		return;
	contents_find();
	while (calls--) {
		requests[random(can_configure ? kinds : kinds - 2)]();
		figures.calls++;
	}
}

/* --- Samples --- */

static struct ptrace_pebs_sample samples[MOST_SAMPLES];

static struct sampling {
	uint64_t period; /* 0: none are taken */
	uint64_t count;
	bool are_all;	 /* each branch that is taken is an event */
	uint32_t branch; /* the number of the one after the newest sample's */
} sampling;

static void take_samples(void)
{
	struct ptrace_pebs_config config = {.size = sizeof(samples),
					    .flags = PTRACE_PEBS_STOP,
					    .period = 2 + random(50),
					    .event = PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES +
						     random(5)};
	long result;

	sampling = (struct sampling){0};
	if (random(2))
		return;
	result = ptrace(PTRACE_PEBS_CONFIG, run.pid, (uint64_t)&config, sizeof(config));
	if (result == -EOPNOTSUPP || result == -EBUSY)
		return; /* no such event, or no PEBS; or it is somebody else's */
	expect("PEBS_CONFIG", (uint64_t)result, sizeof(config));
	sampling.period = config.period;
	sampling.are_all = config.event == PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES ||
			   config.event == PTRACE_PEBS_BR_INST_RETIRED_NEAR_TAKEN;
}

/* It is of an instruction that fell through, or of a branch behind those of the samples before. */
static void check_sample(const struct ptrace_pebs_sample *sample)
{
	const uint64_t both = PTRACE_PEBS_HAS_IP | PTRACE_PEBS_HAS_EVENT_IP;
	bool in_kernel =
		sample->event_ip >> 63 || (sample->ip >> 63 && !generated_leaves(sample->ip));
	struct ptrace_bts_record branch;

	if ((sample->has & both) != both || in_kernel || sample->ip == sample->event_ip ||
	    sample->ip == generated_next(sample->event_ip))
		return;
	do {
		if (sampling.branch >= run.taken)
			wrong("a sample of no branch", sample->event_ip, sample->ip);
		branch = expected_branch(sampling.branch++);
	} while (branch.from != sample->event_ip || branch.to != sample->ip);
}

/* At a stop at which the child has taken run.taken branches. */
static void read_samples(void)
{
	const uint64_t missing =
		PTRACE_PEBS_LOST | PTRACE_PEBS_TRUNCATED | PTRACE_PEBS_FULL | PTRACE_PEBS_BLOCKED;
	struct ptrace_pebs_config status;
	long count;

	if (!sampling.period)
		return;
	CHECK(ptrace(PTRACE_PEBS_STATUS, run.pid, (uint64_t)&status, sizeof(status)) > 0);
	count = ptrace(PTRACE_PEBS_DRAIN, run.pid, (uint64_t)samples, sizeof(samples));
	CHECK(count >= 0);
	for (long i = 0; i < count; i++)
		check_sample(&samples[i]);
	figures.samples += (uint64_t)count;
	sampling.count += (uint64_t)count;
	/* A processor may arm a little late; one may be about to be taken. */
	if (sampling.are_all && !(status.flags & missing) &&
	    2 * sampling.count + 2 < run.taken / (sampling.period + 1))
		wrong("samples are missing", sampling.count, run.taken / (sampling.period + 1));
}

/* --- A run --- */

static bool is_fault(int status)
{
	return status == WAIT_STOPPED(SIGSEGV) || status == WAIT_STOPPED(SIGILL) ||
	       status == WAIT_STOPPED(SIGFPE);
}

static void draw_buffer(void)
{
	static const uint32_t modes[] = {0, PTRACE_BTS_SIGNAL, PTRACE_BTS_STOP};

	run.mode = random(2) ? WRAP : random(3);
	run.flags = PTRACE_BTS_TRACE | modes[run.mode];
	run.flags |= random(4) ? 0u : PTRACE_BTS_SCHED;
	run.flags |= random(4) ? 0u : PTRACE_BTS_CUT_SIZE;
	run.flags |= privileged && !random(3) ? PTRACE_BTS_KERNEL : 0u;
	run.flags |= !(run.flags & PTRACE_BTS_KERNEL) || random(4) ? PTRACE_BTS_USER : 0u;
	run.exact = !(run.flags & (PTRACE_BTS_SCHED | PTRACE_BTS_KERNEL));
	run.size = draw_size();
}

/* Gives each CPU a buffer of `records`, or none if that is 0. */
static void trace_cpus(uint32_t records_of_each)
{
	const uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_USER | PTRACE_BTS_KERNEL;

	for (unsigned cpu = 0;; cpu++) {
		long result = trace_branches(PTRACE_BTS_CPU(cpu), records_of_each,
					     records_of_each ? flags : 0, 0);

		if (result == -ESRCH)
			return;
		CHECK(result > 0);
	}
}

/* Lets the child go on, and perhaps stops it at any time. */
static void let_go(unsigned signal)
{
	expect("CONT", (uint64_t)go_on(run.pid, signal), 0);
	if (random(2))
		return;
	sleep_us(random(random(4) ? 100 : 2000));
	if (random(2))
		ptrace(PTRACE_INTERRUPT, run.pid, 0, 0);
	else
		kill(run.pid, SIGUSR1);
}

/* At a stop of the child: where it is, if its registers say so, and what the buffer holds. */
static bool look(int status, struct ptrace_registers *registers)
{
	bool by_buffer = status == (int)(EVENT(PTRACE_EVENT_BTS) | WAIT_STOPPED(SIGUSR2));

	CHECK(ptrace(PTRACE_GETREGS, run.pid, 0, (uint64_t)registers) == 0);
	if (run.dies)
		return false; /* before its end */
	/* It jumped there, but has its fault yet to come, or this stop goes before that signal. */
	if (registers->rip >> 63 && !is_fault(status))
		return false;
	contents_go(expected_taken(registers));
	read_samples();
	figures.stops++;
	if (status >> 16 == PTRACE_EVENT_BTS && (!by_buffer || run.mode != SIGNAL))
		wrong("stop", (uint64_t)status, 0);
	use_buffer(random(random(2) ? 5 : 1), true);
	if (by_buffer) {
		contents_find();
		random(4) ? drain_all() : drain_some();
	}
	return true;
}

/* Whether all tracers are told of this stop, and it is behind the last instruction. */
static bool is_end(int status, const struct ptrace_registers *registers)
{
	return !(status >> 16) && generated_is_end(registers->rip);
}

/* At a stop of the child, which is then to go on, or (false) to end here. */
static bool stopped(int status)
{
	struct ptrace_registers registers;

	if (!look(status, &registers))
		return true;
	if (is_end(status, &registers) || (!run.second && !random(200)))
		return false;
	run.dies = is_fault(status) && !random(8) ? (unsigned)status >> 8 : 0;
	if (is_fault(status) && !run.dies) {
		generated_skip_fault(&registers);
		CHECK(ptrace(PTRACE_SETREGS, run.pid, 0, (uint64_t)&registers) == 0);
	}
	return true;
}

static void ended(int status)
{
	int expected = run.dies ? WAIT_KILLED((int)run.dies) : WAIT_EXITED(GENERATED_EXIT);

	expect("end", (uint64_t)status, (uint64_t)expected);
	if (!run.dies)
		contents_go(expected_count());
	read_samples();
	use_buffer(1 + random(5), false);
	contents_find();
	read_all();
	ask_status();
	expect("end", (uint64_t)next_stop(run.pid), (uint64_t)expected);
}

static bool is_stop(int status)
{
	return (status & 0xff) == 0x7f;
}

/* Its end is only seen: until it is reported once more its buffer can be read. */
static int next_event(void)
{
	int status = peek_stop(run.pid);

	return is_stop(status) ? next_stop(run.pid) : status;
}

/* --- The second tracer --- */

static int await_stop(long pid)
{
	int status = -1;

	CHECK(wait4(pid, &status, WUNTRACED) == pid);
	return status;
}

/*
 * What acts on the child is for the first tracer to say: 0 from it averts a signal whatever is
 * named here, and the only ones that it lets act are faults, the newest each time.
 */
static _Noreturn void trace_as_second(void)
{
	struct ptrace_registers registers;
	unsigned fault = 0;
	int status;

	run.second = 2;
	state = ~state;
	run.taken = 0;
	draw_buffer();
	contents_clear();
	CHECK(ptrace(PTRACE_SEIZE, run.pid, 0, 0) == 0);
	CHECK(ptrace(PTRACE_INTERRUPT, run.pid, 0, 0) == 0);
	CHECK(next_stop(run.pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
	configure();
	take_samples();
	kill(getpid(), SIGSTOP); /* ready */
	let_go(0);
	while (is_stop(status = next_event())) {
		bool known = look(status, &registers);

		if (is_fault(status))
			fault = (unsigned)status >> 8;
		if (known && is_end(status, &registers))
			kill(getpid(), SIGSTOP); /* until the first one has killed it */
		else
			let_go(status >> 16 ? 0 : fault);
	}
	run.dies = status & 0x7f;
	ended(status);
	exit(0);
}

static long start_second(void)
{
	long pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		trace_as_second();
	expect("the second tracer", (uint64_t)await_stop(pid), WAIT_STOPPED(SIGSTOP));
	kill(pid, SIGCONT);
	return pid;
}

static void end_second(long pid)
{
	if (run.dies == SIGKILL)
		kill(pid, SIGCONT);
	expect("the second tracer", (uint64_t)next_stop(pid), WAIT_EXITED(0));
}

static void run_traced(void)
{
	long second = 0;
	int status;

	run.pid = generated_child();
	configure();
	take_samples();
	if (run.cpus)
		trace_cpus(100);
	if (run.second)
		second = start_second();
	do {
		let_go(run.dies);
		status = next_event();
	} while (is_stop(status) && stopped(status));
	if (is_stop(status)) {
		if (run.second)
			expect("the second tracer", (uint64_t)await_stop(second),
			       WAIT_STOPPED(SIGSTOP));
		run.dies = SIGKILL;
		expect("KILL", (uint64_t)ptrace(PTRACE_KILL, run.pid, 0, 0), 0);
		status = next_event();
	}
	ended(status);
	if (run.second)
		end_second(second);
	if (run.cpus)
		trace_cpus(0);
}

static void one_run(uint64_t seed)
{
	run = (struct run){.seed = seed};
	state = ~seed;
	generate(seed, 100 + random(1u << (8 + random(6))));
	expected_find();
	draw_buffer();
	run.cpus = privileged && !random(4);
	run.second = !random(3);
	contents_clear();
	run_traced();
	figures.runs++;
	figures.branches += expected_count();
	figures.two_tracers += run.second;
}

int main(uint64_t argument)
{
	uint64_t seed = argument & UINT32_MAX, count = argument >> 32 & 0xffff;

	privileged = argument >> 48 & 1;
	for (uint64_t i = 0; i < count; i++)
		one_run(seed + i);
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	say_value("runs", figures.runs);
	say_value("branches", figures.branches);
	say_value("stops", figures.stops);
	say_value("calls", figures.calls);
	say_value("compared", compared);
	say_value("with_two_tracers", figures.two_tracers);
	say_value("samples", figures.samples);
	say("\n");
	return 0;
}
