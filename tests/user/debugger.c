// SPDX-License-Identifier: MIT
// A debugger's use of traces, at random: small programs and their children, with buffers of any
// size and kind for branches, samples and packets, stopped in any way, moved, and read by any
// request. What a buffer holds is compared with the branches that single-stepping of the same
// program shows. Some have a second tracer with a separate buffer, which stops them and reads as
// it likes. argument: a seed in the low 32 bits; how many runs in the next 16; 1 << 48: with the
// right to kernel addresses; 1 << 49: in 29 of 30 runs every buffer has room for everything.
#include "abi/insntrace.h"
#include "tests/user/lib/contents.h"

static bool privileged, sessions;
static uint64_t runs, branches, two_tracers, forks, moves, marked, largest;

/* --- A run --- */

static bool is_fault(int status)
{
	return status == WAIT_STOPPED(SIGSEGV) || status == WAIT_STOPPED(SIGILL) ||
	       status == WAIT_STOPPED(SIGFPE);
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

/* To one CPU, which there may not be, or to all. */
static void move(void)
{
	moves += set_affinity(run.pid, 1 + random(3)) == 0;
}

/* Lets the child go on, and perhaps stops it at any time. */
static void let_go(unsigned signal)
{
	if (!random(4))
		move();
	expect("CONT", (uint64_t)go_on(run.pid, signal), 0);
	packets_read();
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
		drain(run.large || random(4));
	}
	if (status >> 16 != PTRACE_EVENT_FORK) /* its child has a buffer by now */
		packets_stopped();
	return true;
}

/* Whether this stop is every tracer's, and after the last instruction. */
static bool is_end(int status, const struct ptrace_registers *registers)
{
	return !(status >> 16) && generated_is_end(registers->rip);
}

static void follow(void);

/* At a stop of the child, which is then to go on, or (false) to end here. */
static bool stopped(int status)
{
	struct ptrace_registers registers;
	bool known = look(status, &registers);

	run.goes = false;
	if (status >> 16 == PTRACE_EVENT_FORK)
		follow();
	if (!known)
		return true;
	if (is_end(status, &registers) ||
	    (!run.second && !run.process && !run.goes && !random(200)))
		return false;
	run.dies = is_fault(status) && !random(run.large ? 32 : 8) ? (unsigned)status >> 8 : 0;
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
	samples_end();
	if (run.branches) {
		use_buffer(1 + random(5), false);
		contents_find();
		read_all();
		ask_status();
		contents_end();
	}
	packets_ended();
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
	figures.marks = 0;
	random_state = ~random_state;
	run.taken = 0;
	draw_buffer(privileged);
	contents_clear();
	CHECK(ptrace(PTRACE_SEIZE, run.pid, 0, 0) == 0);
	CHECK(ptrace(PTRACE_INTERRUPT, run.pid, 0, 0) == 0);
	CHECK(next_stop(run.pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
	if (run.branches)
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
	exit(figures.marks != 0);
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
	int status;

	if (run.dies == SIGKILL)
		kill(pid, SIGCONT);
	status = next_stop(pid);
	if (status != WAIT_EXITED(1))
		expect("the second tracer", (uint64_t)status, WAIT_EXITED(0));
	else
		figures.marks++;
}

static int go_to_end(void)
{
	int status;

	do {
		if (!run.goes)
			let_go(run.dies);
		status = next_event();
	} while (is_stop(status) && stopped(status));
	return status;
}

/* A child of the traced one, which has nothing of its parent's buffer. */
static void debug_child(void)
{
	struct ptrace_bts_config status;

	expect("a child", (uint64_t)next_stop(run.pid), WAIT_STOPPED(SIGSTOP));
	CHECK(ptrace(PTRACE_BTS_STATUS, run.pid, (uint64_t)&status, sizeof(status)) > 0);
	expect("a child's buffer", status.size | status.flags, 0);
	expect("a child's records", (uint64_t)ptrace(PTRACE_BTS_SIZE, run.pid, 0, 0),
	       (uint64_t)-ENXIO);
	draw_buffer(privileged);
	contents_clear();
	if (run.branches)
		configure();
	take_samples();
	ended(go_to_end());
	forks++;
}

/* The child has stopped in fork(). It waits until its own child has ended, or goes on beside. */
static void follow(void)
{
	struct run parent;
	uint64_t pid;

	CHECK(ptrace(PTRACE_GETEVENTMSG, run.pid, 0, (uint64_t)&pid) == 0);
	if (random(2)) {
		let_go(0);
		run.goes = true;
	}
	parent = run;
	run.process = expected_descendant(parent.process, parent.forks);
	run.pid = (long)pid;
	run.taken = run.forks = run.lost = run.second = run.dies = 0;
	run.goes = false;
	packets_forked(run.process, parent.process, run.pid);
	debug_child();
	run = parent;
	run.forks++;
}

/* The limit leaves as much for a buffer as it left in the beginning. */
static void expect_nothing_charged(void)
{
	struct ptrace_bts_config config = {UINT32_MAX, PTRACE_BTS_TRACE | PTRACE_BTS_CUT_SIZE, 0,
					   RECORD};
	const uint64_t bytes = sizeof(config);

	CHECK(ptrace(PTRACE_BTS_CONFIG, run.pid, (uint64_t)&config, bytes) > 0);
	CHECK(ptrace(PTRACE_BTS_STATUS, run.pid, (uint64_t)&config, bytes) > 0);
	CHECK(trace_branches(run.pid, 0, 0, 0) > 0);
	largest = largest ? largest : config.size;
	expect("the largest buffer", config.size, largest);
}

static void run_traced(void)
{
	long second = 0;
	int status;

	run.pid = expected_child();
	expect_nothing_charged();
	run.branches = packets_begin();
	if (run.branches)
		configure();
	take_samples();
	if (run.cpus && run.branches)
		trace_cpus(100);
	if (run.second)
		second = start_second();
	status = go_to_end();
	if (is_stop(status)) {
		if (run.second)
			expect("the second tracer", (uint64_t)await_stop(second),
			       WAIT_STOPPED(SIGSTOP));
		run.dies = SIGKILL;
		expect("KILL", (uint64_t)ptrace(PTRACE_KILL, run.pid, 0, 0), 0);
		status = next_event();
	}
	ended(status);
	packets_end();
	if (run.second)
		end_second(second);
	if (run.cpus && run.branches)
		trace_cpus(0);
}

static long holder(unsigned unit)
{
	return system_call(SYS_insntrace, INSNTRACE_GET_HOLDER, unit, 0, 0);
}

static void one_run(uint64_t seed)
{
	uint64_t marks = figures.marks;

	run = (struct run){.seed = seed};
	random_state = ~seed;
	run.large = sessions && random(30);
	generate(seed, 100 + random(1u << (8 + random(6))), random(EXPECTED_PROCESSES));
	expected_find();
	draw_buffer(privileged);
	run.cpus = privileged && !random(4);
	run.second = !random(3);
	contents_clear();
	run_traced();
	expect("a holder of Intel PT", (uint64_t)holder(INSNTRACE_HOLDER_PT), (uint64_t)-ENXIO);
	expect("a tracer of branches", (uint64_t)holder(INSNTRACE_HOLDER_BTS), (uint64_t)-ENXIO);
	runs++;
	branches += expected_count();
	two_tracers += run.second;
	marked += figures.marks != marks;
}

int main(uint64_t argument)
{
	uint64_t seed = argument & UINT32_MAX, count = argument >> 32 & 0xffff;

	privileged = argument >> 48 & 1;
	sessions = argument >> 49 & 1;
	for (uint64_t i = 0; i < count; i++)
		one_run(seed + i);
	run.pid = expected_child();
	expect_nothing_charged();
	end_child(run.pid);
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	say_value(sessions ? "sessions" : "runs", runs);
	say_value("branches", branches);
	say_value("stops", figures.stops);
	say_value("calls", figures.calls);
	say_value("compared", compared);
	say_value("with_two_tracers", two_tracers);
	say_value("samples", figures.samples);
	say_value("marked", marked);
	say("\n"); /* a line is as long as the console has it */
	say_value("forks", forks);
	say_value("moves", moves);
	say_value("packets", figures.packets);
	say("\n");
	return 0;
}
