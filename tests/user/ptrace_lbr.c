// SPDX-License-Identifier: MIT
// The requests of docs/ptrace-lbr.2: what they give, and every row of their table of errors.
// argument, bits of this machine: 1: an LBR stack; 2: a filter; 4: call stacks; 8: this program may
// see kernel addresses. Of lbr_random: 8 too, a seed from bit 8 on, from bit 24 on the seconds
// after which it makes no more calls, and from bit 32 on how many it makes.
#include "abi/ptrace_lbr.h"
#include "tests/user/lib/ptrace.h"

#define BRANCH sizeof(struct ptrace_lbr_branch)
#define MOST   32
#define JUMPS  40
#define OTHERS 3 /* entries that interrupts and the way to ring 3 may take */

/* Nehalem leaves calls out where near jumps are (SDM Vol 3, 17.8). */
#define NEAR (PTRACE_LBR_CALL | PTRACE_LBR_JUMP | PTRACE_LBR_JUMP_INDIRECT)
/* And near jumps: leaving them out Nehalem may leave out returns (SDM Vol 3, 17.8). */
#define RETURNS (PTRACE_LBR_RETURN | PTRACE_LBR_JUMP | PTRACE_LBR_JUMP_INDIRECT)

extern const char jumps[], call_one[], call_two[];

static bool lbr, filter, call_stacks, privileged;
static struct ptrace_lbr_branch branches[MOST];

/* A stop, JUMPS jumps to the next instruction, a stop; two calls, a stop in the second, a stop. */
static void turn(uint64_t argument)
{
	for (; argument; argument--)
		__asm__ volatile("int3\n"
				 "jumps:\t.rept 40\n\tjmp 1f\n1:\n\t.endr\n\tint3\n\t"
				 "leaq -128(%%rsp), %%rsp\n"
				 "call_one:\tcall 2f\n\tleaq 128(%%rsp), %%rsp\n\tint3\n\tjmp 4f\n"
				 "2:\n"
				 "call_two:\tcall 3f\n\tret\n"
				 "3:\tint3\n\tret\n4:"
				 :
				 :
				 : "memory", "cc");
}

static struct ptrace_lbr_config config_of(uint32_t entries, uint64_t flags, uint32_t kinds)
{
	return (struct ptrace_lbr_config){.entries = entries, .flags = flags, .kinds = kinds};
}

static long configure(long pid, struct ptrace_lbr_config config)
{
	return ptrace(PTRACE_LBR_CONFIG, pid, (uint64_t)&config, sizeof(config));
}

static long keep(long pid, uint32_t entries, uint64_t flags, uint32_t kinds)
{
	return configure(pid, config_of(entries, flags, kinds));
}

static struct ptrace_lbr_config status_of(long pid)
{
	struct ptrace_lbr_config config;

	CHECK(ptrace(PTRACE_LBR_STATUS, pid, (uint64_t)&config, sizeof(config)) == sizeof(config));
	return config;
}

static long read_newest(long pid, unsigned most)
{
	return ptrace(PTRACE_LBR_READ, pid, (uint64_t)branches, most * BRANCH);
}

static void to_next_stop(long pid)
{
	CHECK(go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
}

/* --- What they give --- */

static void expect_jumps(long pid, long count)
{
	for (long i = 0; i < count; i++) {
		uint64_t from = (uint64_t)jumps + 2 * (uint64_t)(JUMPS - 1 - i);

		CHECK(branches[i].from == from && branches[i].to == from + 2);
		CHECK((uint32_t)branches[i].pid_cpu == pid);
	}
}

/* At the stop before the jumps, and at the one after them. */
static void keep_the_newest(long pid)
{
	struct ptrace_lbr_config status;
	long depth;

	CHECK(keep(pid, MOST, 0, 0) == sizeof(status));
	status = status_of(pid);
	depth = status.depth;
	CHECK(status.entries == depth && status.branch_size == BRANCH && !status.available);
	CHECK(status.flags == PTRACE_LBR_USER && status.kinds == PTRACE_LBR_KINDS);
	CHECK(status.format);
	CHECK(read_newest(pid, MOST) == 0);
	to_next_stop(pid);
	status = status_of(pid);
	CHECK(status.available >= depth - OTHERS && status.available <= depth);
	CHECK(read_newest(pid, MOST) == status.available);
	expect_jumps(pid, status.available);
	CHECK(read_newest(pid, 3) == 3);
	expect_jumps(pid, 3);
	CHECK(ptrace(PTRACE_LBR_CLEAR, pid, 0, 0) == 0);
	CHECK(read_newest(pid, MOST) == 0 && !status_of(pid).available);
}

static void to_first_stop(long pid)
{
	to_next_stop(pid);
	to_next_stop(pid);
	to_next_stop(pid);
}

/* What STATUS returned, with other kinds, is what CONFIG takes; the stack is empty then. */
static void keep_some(long pid)
{
	struct ptrace_lbr_config config;

	to_first_stop(pid);
	CHECK(keep(pid, 5, 0, 0) > 0);
	to_next_stop(pid);
	CHECK(read_newest(pid, MOST) == 5);
	expect_jumps(pid, 5);
	config = status_of(pid);
	CHECK(config.entries == 5 && config.available == 5);
	CHECK(configure(pid, config) == sizeof(config));
	CHECK(status_of(pid).available == 0);
	config.kinds = NEAR;
	CHECK(configure(pid, config) == sizeof(config));
	to_next_stop(pid);
	CHECK(read_newest(pid, MOST) == 2);
	CHECK(branches[0].from == (uint64_t)call_two && branches[1].from == (uint64_t)call_one);
	to_next_stop(pid);
	to_next_stop(pid);
	CHECK(keep(pid, MOST, 0, PTRACE_LBR_KINDS & ~PTRACE_LBR_JUMP) > 0);
	to_next_stop(pid);
	CHECK(read_newest(pid, MOST) == 0);
}

/* From the stop after the jumps: in the second call, and after both returned. */
static void keep_calls(long pid)
{
	CHECK(keep(pid, MOST, PTRACE_LBR_CALL_STACK, 0) > 0);
	CHECK(status_of(pid).flags == (PTRACE_LBR_USER | PTRACE_LBR_CALL_STACK));
	to_next_stop(pid);
	CHECK(read_newest(pid, MOST) == 2);
	CHECK(branches[0].from == (uint64_t)call_two && branches[1].from == (uint64_t)call_one);
	to_next_stop(pid);
	CHECK(read_newest(pid, MOST) == 0);
	CHECK(configure(pid, status_of(pid)) > 0);
	to_next_stop(pid);
	/* Once cleared it is empty, and a return from the second call leaves it so. */
	to_next_stop(pid);
	to_next_stop(pid);
	CHECK(read_newest(pid, MOST) == 2);
	CHECK(ptrace(PTRACE_LBR_CLEAR, pid, 0, 0) == 0);
	CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP) && read_newest(pid, MOST) == 0);
	to_next_stop(pid);
	to_next_stop(pid);
}

/* The stack can be read after the end, until wait4() has reported it. */
static void read_after_the_end(void)
{
	long pid = traced_child(turn, 1);

	CHECK(keep(pid, 4, 0, NEAR) > 0);
	for (unsigned i = 0; i < 4; i++)
		to_next_stop(pid);
	CHECK(go_on(pid, 0) == 0);
	CHECK(peek_stop(pid) == WAIT_EXITED(0));
	CHECK(read_newest(pid, MOST) > 0);
	CHECK(next_stop(pid) == WAIT_EXITED(0));
	CHECK(read_newest(pid, MOST) == -ESRCH);
}

/* A process, and its child, each the branches of itself alone, whatever the other wants. */
static void keep_ones_own(void)
{
	long self = getpid(), count, child;
	int status;

	CHECK(keep(self, MOST, 0, RETURNS) > 0);
	child = fork();
	if (!child) {
		CHECK(read_newest(getpid(), MOST) == -ENXIO);
		CHECK(keep(getpid(), 4, 0, PTRACE_LBR_CONDITIONAL) > 0);
		exit(0);
	}
	CHECK(wait4(child, &status, 0) == child && status == WAIT_EXITED(0));
	count = read_newest(self, MOST);
	CHECK(count > 0);
	for (long i = 0; i < count; i++)
		CHECK((uint32_t)branches[i].pid_cpu == self);
	CHECK(keep(self, 0, 0, 0) > 0);
}

/* Of the CPU that this runs on. */
static void keep_of_cpu(void)
{
	long cpu = PTRACE_LBR_CPU(0);
	const uint64_t both = PTRACE_LBR_USER | PTRACE_LBR_KERNEL;
	long other;

	CHECK(run_on(0, 0) == 0);
	CHECK(read_newest(cpu, MOST) == -ENXIO);
	CHECK(keep(cpu, MOST, both, 0) > 0);
	/* Another CPU's tracer may want other kinds. */
	other = keep(PTRACE_LBR_CPU(1), MOST, both, filter ? PTRACE_LBR_RETURN : 0);
	CHECK(other > 0 || other == -ESRCH);
	yield();
	CHECK(status_of(cpu).flags == both);
	CHECK(read_newest(cpu, MOST) > 0);
	CHECK(branches[0].to >> 63 && branches[0].pid_cpu >> 32 == 0);
	CHECK(keep(cpu, MOST, both | PTRACE_LBR_CALL_STACK, 0) == -EOPNOTSUPP);
	CHECK(keep(cpu, 0, 0, 0) > 0);
	keep(PTRACE_LBR_CPU(1), 0, 0, 0);
	CHECK(read_newest(cpu, MOST) == -ENXIO);
	CHECK(keep(PTRACE_LBR_CPU(1000), MOST, both, 0) == -ESRCH);
}

/* --- The table of errors --- */

/* Nothing is changed. */
static void refuse(long pid, long error, uint64_t flags, uint32_t kinds, uint32_t branch_size)
{
	struct ptrace_lbr_config refused = config_of(4, flags, kinds), kept = status_of(pid), now;

	refused.branch_size = branch_size;
	CHECK(configure(pid, refused) == -error);
	now = status_of(pid);
	CHECK(now.entries == kept.entries && now.flags == kept.flags && now.kinds == kept.kinds);
	CHECK(now.available == kept.available);
}

static void refuse_configurations(long pid)
{
	refuse(pid, EINVAL, 1, 0, 0);
	refuse(pid, EINVAL, 1ul << 32 | PTRACE_LBR_USER, 0, 0);
	refuse(pid, EINVAL, 0, 0, BRANCH + 1);
	refuse(pid, EINVAL, 0, PTRACE_LBR_KINDS + 1, 0);
	refuse(pid, EINVAL, PTRACE_LBR_CALL_STACK, 1, 0);
	if (!privileged)
		refuse(pid, EPERM, PTRACE_LBR_USER | PTRACE_LBR_KERNEL, 0, 0);
	if (!filter)
		refuse(pid, EOPNOTSUPP, PTRACE_LBR_USER, 0, 0);
	if (!call_stacks)
		refuse(pid, EOPNOTSUPP, PTRACE_LBR_CALL_STACK, 0, 0);
}

static void refuse_addresses(long pid)
{
	struct ptrace_lbr_config config = config_of(4, 0, 0), room[2];
	long cpu = PTRACE_LBR_CPU(0);

	CHECK(ptrace(PTRACE_LBR_CONFIG, pid, 8, sizeof(config)) == -EFAULT);
	CHECK(ptrace(PTRACE_LBR_CONFIG, pid, (uint64_t)&config, 24) == -EINVAL);
	CHECK(ptrace(PTRACE_LBR_STATUS, pid, (uint64_t)room, sizeof(config) + 8) == -EINVAL);
	CHECK(ptrace(PTRACE_LBR_STATUS, pid, 8, sizeof(config)) == -EFAULT);
	CHECK(ptrace(PTRACE_LBR_STATUS, pid, (uint64_t)&config, 0) == -EINVAL);
	CHECK(ptrace(PTRACE_LBR_READ, getppid(), (uint64_t)branches, BRANCH) == -ESRCH);
	if (!privileged)
		CHECK(ptrace(PTRACE_LBR_CONFIG, cpu, (uint64_t)&config, sizeof(config)) == -EPERM);
}

/* There is a stack, with branches. */
static void refuse_readings(long pid)
{
	CHECK(ptrace(PTRACE_LBR_READ, pid, (uint64_t)branches, 0) == -EIO);
	CHECK(ptrace(PTRACE_LBR_READ, pid, (uint64_t)branches, BRANCH + 1) == -EIO);
	CHECK(ptrace(PTRACE_LBR_READ, pid, 8, BRANCH) == -EFAULT);
	CHECK(read_newest(pid, 1) == 1);
}

/* A second process asks for other kinds than the first has, and for the same. */
static void refuse_other_kinds(long pid)
{
	long second = fork();
	int status;

	if (!second) {
		CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		next_stop(pid);
		CHECK(keep(pid, 4, 0, PTRACE_LBR_RETURN) == -EBUSY);
		CHECK(keep(pid, 4, 0, status_of(pid).kinds) > 0);
		exit(0);
	}
	CHECK(wait4(second, &status, 0) == second && status == WAIT_EXITED(0));
}

MAIN(ptrace_lbr)
{
	long pid = traced_child(turn, 100);

	lbr = argument & 1;
	filter = argument & 2;
	call_stacks = argument & 4;
	privileged = argument & 8;
	CHECK(read_newest(pid, MOST) == -ENXIO);
	CHECK(ptrace(PTRACE_LBR_CLEAR, pid, 0, 0) == -ENXIO);
	CHECK(!status_of(pid).entries && !status_of(pid).depth == !lbr);
	refuse_addresses(pid);
	if (!lbr)
		CHECK(keep(pid, 4, 0, 0) == -EOPNOTSUPP);
	if (lbr && privileged)
		keep_of_cpu();
	if (lbr)
		refuse_configurations(pid);
	if (filter) {
		to_next_stop(pid);
		keep_the_newest(pid);
		keep_some(pid);
		if (call_stacks)
			keep_calls(pid);
		else
			to_first_stop(pid);
		CHECK(keep(pid, 4, 0, 0) > 0);
		to_next_stop(pid);
		refuse_configurations(pid);
		refuse_readings(pid);
		refuse_other_kinds(pid);
		read_after_the_end();
		CHECK(keep(pid, 0, 0, 0) > 0);
		keep_ones_own();
		/* A page is charged. */
		CHECK(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){4095, 4095}) == 0);
		CHECK(keep(pid, 4, 0, 0) == -ENOMEM);
	}
	end_child(pid);
	return 0;
}

/* --- At random --- */

static uint64_t state;

static uint64_t below(uint64_t most)
{
	return random_below(&state, most);
}

/* Mostly `right`. */
static uint64_t mostly(uint64_t right)
{
	return below(12) ? right : below(2) ? below(200) : random_next(&state);
}

/* Mostly its child, itself, a CPU. */
static long any_pid(long child)
{
	switch (below(5)) {
	case 0:
		return getpid();
	case 1:
		return PTRACE_LBR_CPU(below(3));
	case 2:
		return (long)mostly((uint64_t)getppid());
	default:
		return child;
	}
}

/* On CPUs and the program itself mostly none: all that it does is slow while they are recorded. */
static long configure_at_random(long pid)
{
	static struct ptrace_lbr_config config;
	bool none = (pid < 0 || pid == getpid()) && below(4);

	config.entries = (uint32_t)mostly(none ? 0 : below(MOST + 2));
	config.branch_size = (uint32_t)mostly(below(2) * BRANCH);
	config.flags = mostly(random_next(&state) & PTRACE_LBR_SETTABLE);
	config.kinds = below(2) ? 0 : (uint32_t)mostly(random_next(&state) & PTRACE_LBR_KINDS);
	return ptrace(PTRACE_LBR_CONFIG, pid, mostly((uint64_t)&config), mostly(sizeof(config)));
}

/* What it reads is of ring 3 unless the program may see more. */
static long read_at_random(long pid)
{
	uint64_t asked = mostly(below(MOST + 2) * BRANCH);
	long count = ptrace(PTRACE_LBR_READ, pid, (uint64_t)branches, asked);

	CHECK(count <= MOST && (count < 0 || (uint64_t)count <= asked / BRANCH));
	for (long i = 0; i < count && !privileged; i++)
		CHECK(branches[i].from >> 47 == 0 && branches[i].to >> 47 == 0);
	return count;
}

static long call_at_random(long child)
{
	static struct ptrace_lbr_config status;
	long pid = any_pid(child);

	if (!below(80))
		to_next_stop(child);
	switch (below(4)) {
	case 0:
		return configure_at_random(pid);
	case 1:
		return ptrace(PTRACE_LBR_STATUS, pid, below(9) ? (uint64_t)&status : 8,
			      mostly(sizeof(status)));
	case 2:
		return ptrace(PTRACE_LBR_CLEAR, pid, random_next(&state), random_next(&state));
	default:
		return read_at_random(pid);
	}
}

MAIN(lbr_random)
{
	long child = traced_child(turn, UINT64_MAX);
	int64_t end = now_us() + (int64_t)(argument >> 24 & 0xff) * 1000000;
	uint64_t left = argument >> 32;

	privileged = argument & 8;
	state = argument >> 8 & 0xffff;
	for (; left && now_us() < end; left--)
		CHECK(call_at_random(child) > -200);
	if (left) {
		say_number(left, 10);
		say(" calls were not made: their time was over\n");
	}
	end_child(child);
	return 0;
}
