// SPDX-License-Identifier: MIT
// The requests of docs/ptrace-pebs.2: what they give, and every row of their table of errors.
// argument, bits of this machine: 1: PEBS; 2: one counter for it alone; 4: records have registers;
// 8: BTS; 16: records have branches; 32: a stack with a filter freezes at a counter's interrupt.
// From bit 8 on: the events that a sample is late by.
#include "abi/ptrace_pebs.h"
#include "abi/ptrace_lbr.h"
#include "tests/user/lib/ptrace.h"

#define SAMPLE sizeof(struct ptrace_pebs_sample)
#define MOST   400
#define TURNS  3000
#define PERIOD 99
#define STOP   PTRACE_PEBS_STOP
#define NEWEST 3 /* branches of a sample */

extern const char loop_top[], loop_branch[];

struct with_branches {
	struct ptrace_pebs_sample sample;
	struct ptrace_pebs_branch branches[NEWEST];
};
_Static_assert(sizeof(struct with_branches) == SAMPLE + NEWEST * 24, "the interface");

static uint64_t skid;
static struct ptrace_pebs_sample samples[MOST];
static bool pebs, one_counter, registers, bts, branches, freezes;
static uint32_t event; /* that every processor with PEBS has: branches, or instructions */

/* A stop, TURNS turns of a loop, a stop: after the first nothing else is executed. */
static void turn(uint64_t argument)
{
	for (; argument; argument--)
		__asm__ volatile("mov %0, %%rcx\n\tint3\n"
				 "loop_top:\tdec %%rcx\n"
				 "loop_branch:\tjnz loop_top\n\tint3"
				 :
				 : "i"(TURNS)
				 : "rcx", "cc");
}

static bool counts_branches(void)
{
	return event == PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES;
}

static uint64_t events(void)
{
	return counts_branches() ? TURNS : 2 * TURNS;
}

/* RCX after event `n`, from 1 on. */
static uint64_t rcx_after(uint64_t n)
{
	return TURNS - (counts_branches() ? n : (n + 1) / 2);
}

static struct ptrace_pebs_config config_of(uint64_t size, uint64_t flags)
{
	return (struct ptrace_pebs_config){
		.size = size * SAMPLE, .flags = flags, .period = PERIOD - skid, .event = event};
}

static long configure(long pid, struct ptrace_pebs_config *config)
{
	return ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)config, sizeof(*config));
}

static long take_samples(long pid, uint64_t size, uint64_t flags)
{
	struct ptrace_pebs_config config = config_of(size, flags);

	return configure(pid, &config);
}

static struct ptrace_pebs_config status_of(long pid)
{
	struct ptrace_pebs_config config;

	CHECK(ptrace(PTRACE_PEBS_STATUS, pid, (uint64_t)&config, sizeof(config)) == sizeof(config));
	return config;
}

static long drain(long pid, unsigned from, unsigned most)
{
	return ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)(samples + from), most * SAMPLE);
}

static void choose_event(long pid)
{
	event = PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES;
	if (take_samples(pid, 1, STOP) == -EOPNOTSUPP)
		event = PTRACE_PEBS_INST_RETIRED;
	CHECK(take_samples(pid, 1, STOP) == sizeof(struct ptrace_pebs_config));
	CHECK(take_samples(pid, 0, 0) > 0);
}

/* --- What they give --- */

static bool is_of(uint64_t n, uint64_t rcx)
{
	for (uint64_t late = 0; late < 2 + 2 * skid; late++)
		if (rcx == rcx_after(n + late))
			return true;
	return false;
}

static void expect_samples(long count)
{
	CHECK(count == (long)(events() / (PERIOD + 1)));
	for (long i = 0; i < count; i++) {
		CHECK(samples[i].has & (PTRACE_PEBS_HAS_IP | PTRACE_PEBS_HAS_EVENT_IP));
		CHECK(!(samples[i].has & PTRACE_PEBS_HAS_ADDRESS) && !samples[i].address);
		CHECK(!(samples[i].has & PTRACE_PEBS_HAS_REGISTERS) == !registers);
		if (!registers)
			continue;
		/* Interrupted just before it, it is of the next event, or of one within the skid.
		 */
		CHECK(is_of((uint64_t)(i + 1) * (PERIOD + 1), samples[i].general[1]));
	}
}

static void to_next_loop(long pid)
{
	CHECK(go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
}

static void keep_the_oldest(long pid)
{
	struct ptrace_pebs_config status;

	to_next_loop(pid);
	CHECK(take_samples(pid, MOST, STOP) > 0);
	to_next_loop(pid);
	CHECK(ptrace(PTRACE_PEBS_READ, pid, (uint64_t)samples, sizeof(samples)) ==
	      (long)(events() / (PERIOD + 1)));
	CHECK(drain(pid, 0, 7) == 7);
	CHECK(ptrace(PTRACE_PEBS_SIZE, pid, 0, 0) == (long)(events() / (PERIOD + 1)) - 7);
	expect_samples(7 + drain(pid, 7, MOST - 7));
	status = status_of(pid);
	CHECK(status.size == sizeof(samples) && status.sample_size == SAMPLE);
	CHECK(status.flags == (STOP | PTRACE_PEBS_USER) && status.event == event);
	CHECK(status.period == PERIOD - skid && !status.holder[0]);
}

static void stop_when_full(long pid)
{
	CHECK(take_samples(pid, 5, STOP) > 0);
	to_next_loop(pid);
	to_next_loop(pid);
	CHECK(status_of(pid).flags & PTRACE_PEBS_FULL);
	CHECK(ptrace(PTRACE_PEBS_SIZE, pid, 0, 0) == 5);
	CHECK(ptrace(PTRACE_PEBS_CLEAR, pid, 0, 0) == 0);
	CHECK(!(status_of(pid).flags & PTRACE_PEBS_FULL));
	CHECK(ptrace(PTRACE_PEBS_SIZE, pid, 0, 0) == 0);
}

/* CONFIG takes the structure of STATUS with another flag. */
static void signal_no_more(long pid)
{
	struct ptrace_pebs_config config;

	CHECK(take_samples(pid, 4, PTRACE_PEBS_SIGNAL) > 0);
	config = status_of(pid);
	CHECK(config.signal == SIGPROF);
	config.flags ^= PTRACE_PEBS_SIGNAL | PTRACE_PEBS_STOP;
	CHECK(ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, sizeof(config)) == sizeof(config));
	CHECK(!status_of(pid).signal);
}

/* Its buffer is full each time; no sample is lost between, and none is there twice. */
static void stop_the_tracee(long pid)
{
	long count = 0;
	int status;

	signal_no_more(pid);
	to_next_loop(pid);
	CHECK(take_samples(pid, 4, PTRACE_PEBS_SIGNAL) > 0);
	CHECK(status_of(pid).signal == SIGPROF);
	CHECK(go_on(pid, 0) == 0);
	while ((status = next_stop(pid)) == (EVENT(PTRACE_EVENT_PEBS) | WAIT_STOPPED(SIGPROF))) {
		long more = drain(pid, (unsigned)count, MOST - (unsigned)count);

		CHECK(more == 4);
		count += more;
		CHECK(go_on(pid, 0) == 0);
	}
	CHECK(status == WAIT_STOPPED(SIGTRAP));
	expect_samples(count + drain(pid, (unsigned)count, MOST - (unsigned)count));
	CHECK(take_samples(pid, 0, 0) > 0);
	CHECK(ptrace(PTRACE_PEBS_SIZE, pid, 0, 0) == -ENXIO);
}

/* The branches of the same loop, at the same time: TURNS - 1 are taken. */
static void beside_branches(long pid)
{
	static struct ptrace_bts_record records[TURNS];

	to_next_loop(pid);
	CHECK(take_samples(pid, MOST, STOP) > 0);
	CHECK(trace_branches(pid, TURNS, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
	to_next_loop(pid);
	CHECK(ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records)) == TURNS - 1);
	expect_samples(drain(pid, 0, MOST));
	for (unsigned i = 0; counts_branches() && i < TURNS / (PERIOD + 1) - 1; i++)
		CHECK(records[i].to == samples[i].ip || /* each branch of the loop is the same */
		      !(samples[i].has & PTRACE_PEBS_HAS_IP));
	CHECK(trace_branches(pid, 0, 0, 0) > 0);
	CHECK(take_samples(pid, 0, 0) > 0);
}

static struct ptrace_pebs_config with_newest(void)
{
	struct ptrace_pebs_config config = config_of(0, STOP);

	config.size = 40 * sizeof(struct with_branches);
	config.branches = NEWEST;
	return config;
}

/* All branches are those of the loop. A switch just before a sample leaves it fewer. */
static void with_branches(long pid)
{
	static struct with_branches read[40];
	struct ptrace_pebs_config config = with_newest();
	unsigned whole = 0;
	long count;

	to_next_loop(pid);
	CHECK(configure(pid, &config) == sizeof(config));
	config = status_of(pid);
	CHECK(config.branches == NEWEST && config.sample_size == sizeof(*read));
	CHECK(configure(pid, &config) == sizeof(config));
	to_next_loop(pid);
	CHECK(ptrace(PTRACE_PEBS_READ, pid, (uint64_t)read, SAMPLE) == -EIO);
	count = ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)read, sizeof(read));
	CHECK(count == (long)(events() / (PERIOD + 1)));
	for (long i = 0; i < count; i++) {
		CHECK(read[i].sample.has & PTRACE_PEBS_HAS_BRANCHES);
		for (unsigned n = 0; n < NEWEST && read[i].branches[n].from; n++) {
			CHECK(read[i].branches[n].from == (uint64_t)loop_branch);
			CHECK(read[i].branches[n].to == (uint64_t)loop_top);
			whole += n == NEWEST - 1;
		}
	}
	CHECK(whole > count / 2);
	CHECK(take_samples(pid, 0, 0) > 0);
}

/* By no PEBS: the loop's branches, of which a jump to its top is the newest. */
static void at_interrupts(long pid)
{
	static struct with_branches read[40];
	struct ptrace_pebs_config config = with_newest();
	unsigned whole = 0;
	long count;

	config.flags |= PTRACE_PEBS_INTERRUPT | PTRACE_PEBS_RAW;
	config.event = 0xc4;
	config.period = PERIOD;
	to_next_loop(pid);
	CHECK(configure(pid, &config) == sizeof(config));
	CHECK(status_of(pid).flags == (config.flags | PTRACE_PEBS_USER));
	CHECK(status_of(pid).kinds == PTRACE_LBR_KINDS);
	to_next_loop(pid);
	count = ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)read, sizeof(read));
	CHECK(count >= TURNS / (PERIOD + 1) && count <= TURNS / (PERIOD + 1) + 2);
	for (long i = 0; i < count; i++) {
		CHECK(read[i].sample.has & PTRACE_PEBS_HAS_SKID);
		CHECK(!(read[i].sample.has & PTRACE_PEBS_HAS_EVENT_IP));
		for (unsigned n = 0; n < NEWEST && read[i].branches[n].from; n++) {
			CHECK(read[i].branches[n].from == (uint64_t)loop_branch);
			CHECK(read[i].branches[n].to == (uint64_t)loop_top);
			whole += n == NEWEST - 1;
		}
	}
	CHECK(whole > count / 2);
	config.flags ^= PTRACE_PEBS_STOP | PTRACE_PEBS_COUNT;
	CHECK(configure(pid, &config) == -EINVAL);
	CHECK(take_samples(pid, 0, 0) > 0);
}

/* A program from before samples had branches: its structure has none, nor have its samples. */
static void as_before(long pid)
{
	struct ptrace_pebs_config config = config_of(MOST, STOP);

	to_next_loop(pid);
	config.branches = NEWEST;
	CHECK(ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, PTRACE_PEBS_CONFIG_BYTES_1) ==
	      PTRACE_PEBS_CONFIG_BYTES_1);
	CHECK(ptrace(PTRACE_PEBS_STATUS, pid, (uint64_t)&config, PTRACE_PEBS_CONFIG_BYTES_1) ==
	      PTRACE_PEBS_CONFIG_BYTES_1);
	CHECK(config.sample_size == SAMPLE && config.branches == NEWEST);
	CHECK(!status_of(pid).branches);
	to_next_loop(pid);
	expect_samples(drain(pid, 0, MOST));
	for (unsigned i = 0; i < events() / (PERIOD + 1); i++)
		CHECK(!(samples[i].has & PTRACE_PEBS_HAS_BRANCHES));
}

/* --- The table of errors --- */

#define REFUSED(pid, error, ...)                                                                   \
	do {                                                                                       \
		struct ptrace_pebs_config refused = config_of(4, STOP), kept = status_of(pid);     \
		struct ptrace_pebs_config now;                                                     \
                                                                                                   \
		__VA_ARGS__;                                                                       \
		CHECK(configure(pid, &refused) == -(error));                                       \
		now = status_of(pid);                                                              \
		CHECK(now.size == kept.size && now.flags == kept.flags);                           \
		CHECK(now.period == kept.period && now.event == kept.event);                       \
	} while (0)

static void refuse_configurations(long pid)
{
	REFUSED(pid, EINVAL, refused.flags = STOP | 1);
	REFUSED(pid, EINVAL, refused.flags = STOP | 0x200000);
	REFUSED(pid, EINVAL, refused.flags = STOP | 1ul << 32);
	REFUSED(pid, EINVAL, refused.flags = STOP | PTRACE_PEBS_SIGNAL);
	REFUSED(pid, EINVAL, refused.flags = PTRACE_PEBS_SIGNAL; refused.signal = SIGKILL);
	REFUSED(pid, EINVAL, refused.flags = PTRACE_PEBS_SIGNAL; refused.signal = SIGSTOP);
	REFUSED(pid, EINVAL, refused.flags = PTRACE_PEBS_SIGNAL; refused.signal = SIGNALS);
	REFUSED(pid, EINVAL, refused.sample_size = SAMPLE + 1);
	REFUSED(pid, EINVAL, refused.size = SAMPLE - 1);
	REFUSED(pid, EINVAL, refused.counter = 1);
	REFUSED(pid, EINVAL, refused.flags |= PTRACE_PEBS_COUNTER; refused.counter = 64);
	REFUSED(pid, EINVAL, refused.flags |= PTRACE_PEBS_COUNTER; refused.counter = 33);
	REFUSED(pid, EINVAL, refused.flags |= PTRACE_PEBS_RAW; refused.event = 0x4100c0);
	REFUSED(pid, ENOENT, refused.flags |= PTRACE_PEBS_RAW; refused.event = 0xffff);
	REFUSED(pid, EINVAL, refused.flags |= PTRACE_PEBS_COUNT);
	REFUSED(pid, EINVAL, refused.flags = PTRACE_PEBS_COUNT; refused.size = 8);
	REFUSED(pid, EINVAL, refused.flags = PTRACE_PEBS_COUNT; refused.size = 8;
		refused.period = 0; refused.branches = NEWEST);
	REFUSED(pid, EINVAL, refused.event = 0);
	REFUSED(pid, EINVAL, refused.event = PTRACE_PEBS_EVENTS);
	REFUSED(pid, EINVAL, refused.period = 0);
	REFUSED(pid, EINVAL, refused.period = 1);
	REFUSED(pid, EINVAL, refused.period = 0x80000000);
	REFUSED(pid, EINVAL, refused.flags |= PTRACE_PEBS_INTERRUPT; refused.period = 0x7fffffff);
	REFUSED(pid, EOPNOTSUPP, refused.flags = 0);
	REFUSED(pid, EINVAL, refused.flags |= PTRACE_PEBS_KERNEL; refused.period = 1999);
	REFUSED(pid, EPERM, refused.flags |= PTRACE_PEBS_KERNEL; refused.period = 2000);
	REFUSED(pid, EINVAL, refused.kinds = PTRACE_LBR_CALL);
	REFUSED(pid, EINVAL, refused.flags |= PTRACE_PEBS_CALL_STACK);
	if (branches) {
		REFUSED(pid, EINVAL, refused = with_newest(); refused.kinds = PTRACE_LBR_KINDS + 1);
		REFUSED(pid, EINVAL, refused = with_newest(); refused.sample_size = SAMPLE);
	} else {
		REFUSED(pid, EOPNOTSUPP, refused.branches = 1; refused.size *= 2);
	}
	REFUSED(pid, ENOMEM, refused.size = 0x4000000);
	REFUSED(pid, ENOMEM, refused.size = UINT64_MAX);
}

static void refuse_addresses(long pid)
{
	struct ptrace_pebs_config config = config_of(4, STOP);

	CHECK(ptrace(PTRACE_PEBS_CONFIG, pid, 8, sizeof(config)) == -EFAULT);
	CHECK(ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, 24) == -EINVAL);
	CHECK(ptrace(PTRACE_PEBS_STATUS, pid, 8, sizeof(config)) == -EFAULT);
	CHECK(ptrace(PTRACE_PEBS_STATUS, pid, (uint64_t)&config, 0) == -EINVAL);
	CHECK(ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)samples, 0) == -EIO);
	CHECK(ptrace(PTRACE_PEBS_READ, pid, (uint64_t)samples, SAMPLE + 1) == -EIO);
	CHECK(ptrace(PTRACE_PEBS_READ, pid, 8, SAMPLE) == -EFAULT);
	CHECK(ptrace(PTRACE_PEBS_CONFIG, PTRACE_PEBS_CPU(0), (uint64_t)&config, sizeof(config)) ==
	      -EPERM);
	CHECK(ptrace(PTRACE_PEBS_SIZE, getppid(), 0, 0) == -ESRCH);
}

/* A second process asks for what the first has, by its number, and learns whose it is. */
static void refuse_counter(long pid)
{
	struct ptrace_pebs_config config = config_of(4, STOP | PTRACE_PEBS_COUNTER);
	int status;
	long second;

	CHECK(configure(pid, &config) > 0);
	CHECK(configure(pid, &config) > 0); /* its own does not count */
	second = fork();
	if (!second) {
		CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		next_stop(pid);
		CHECK(configure(pid, &config) == -EBUSY);
		for (unsigned i = 0; i < 15; i++)
			CHECK(config.holder[i] == "tracer of task "[i]);
		config.flags = STOP;
		CHECK(configure(pid, &config) == (one_counter ? -EBUSY : (long)sizeof(config)));
		exit(0);
	}
	CHECK(wait4(second, &status, 0) == second && status == WAIT_EXITED(0));
}

int main(uint64_t argument)
{
	long pid = traced_child(turn, 100);

	pebs = argument & 1;
	one_counter = argument & 2;
	registers = argument & 4;
	bts = argument & 8;
	branches = argument & 16;
	freezes = argument & 32;
	skid = argument >> 8;
	event = PTRACE_PEBS_INST_RETIRED;
	CHECK(ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)samples, SAMPLE) == -ENXIO);
	CHECK(ptrace(PTRACE_PEBS_CLEAR, pid, 0, 0) == -ENXIO);
	CHECK(!status_of(pid).size);
	if (!pebs) {
		CHECK(take_samples(pid, 4, STOP) == -EOPNOTSUPP);
		if (freezes)
			at_interrupts(pid);
		end_child(pid);
		return 0;
	}
	choose_event(pid);
	keep_the_oldest(pid);
	stop_when_full(pid);
	refuse_configurations(pid);
	refuse_addresses(pid);
	stop_the_tracee(pid);
	if (bts)
		beside_branches(pid);
	if (branches)
		with_branches(pid);
	if (freezes)
		at_interrupts(pid);
	as_before(pid);
	refuse_counter(pid);
	end_child(pid);
	return 0;
}
