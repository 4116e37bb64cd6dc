// SPDX-License-Identifier: MIT
// Intel PT by SYS_insntrace. argument: what is tried, in the low byte; the number of CPUs above it;
// << 32: a pid.
#include "abi/insntrace.h"
#include "abi/trace_stream.h"
#include "tests/user/lib/ptrace.h"

enum { OS = 1 << 2, USER = 1 << 3, CR3_FILTER = 1 << 7, BRANCH_EN = 1 << 13 };

static uint64_t cpus;

static long insntrace(unsigned request, uint64_t first, const void *address, uint64_t bytes)
{
	return system_call(SYS_insntrace, request, first, (uint64_t)address, bytes);
}

static long initialize(void)
{
	return insntrace(INSNTRACE_INITIALIZE, INSNTRACE_CPUS, NULL, cpus);
}

static struct insntrace_config config = {
	.chunks = 1, .flags = INSNTRACE_CIRCULAR, .control = USER | BRANCH_EN};

static long allocate(void)
{
	return insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &config, sizeof(config));
}

static void open_all(void)
{
	CHECK(initialize() == 0);
	for (uint64_t n = 0; n < cpus; n++)
		CHECK(allocate() == (long)n);
}

/* A process without the right to kernel addresses has no session, and nothing without one. */
static void refused(void)
{
	CHECK(initialize() == -EPERM);
	CHECK(allocate() == -EBADFD);
	for (unsigned request = INSNTRACE_TERMINATE; request <= INSNTRACE_STOP; request++)
		CHECK(insntrace(request, 0, NULL, 0) < 0);
}

static long get_items(uint64_t pid, uint64_t offset, const void *to, uint64_t most)
{
	struct insntrace_read read = {offset, (uint64_t)to, most};

	return insntrace(INSNTRACE_GET_ITEMS, pid, &read, sizeof(read));
}

static struct insntrace_state state_of(uint64_t n)
{
	struct insntrace_state state = {0};

	CHECK(insntrace(INSNTRACE_GET_BUFFER_STATE, n, &state, sizeof(state)) == 0);
	return state;
}

static uint8_t bytes[8192];

/* Anywhere: what else is before it is the processor's choice. */
static bool has_psb(uint64_t count)
{
	for (uint64_t at = 0; at + 16 <= count; at++) {
		unsigned n = 0;

		while (n < 16 && bytes[at + n] == (n % 2 ? 0x82 : 0x02))
			n++;
		if (n == 16)
			return true;
	}
	return false;
}

/* Every CPU: bytes that can be read have a PSB, and are no more than the state says. */
static void read_all(void)
{
	for (uint64_t n = 0; n < cpus; n++) {
		struct insntrace_read read = {0, (uint64_t)bytes, sizeof(bytes)};
		uint64_t available = state_of(n).available;
		uint8_t last;

		CHECK(insntrace(INSNTRACE_READ_BUFFER, n, &read, sizeof(read)) == (long)available);
		CHECK(has_psb(available));
		last = bytes[available - 1];
		bytes[0] = 0;
		read = (struct insntrace_read){available - 1, (uint64_t)bytes, 5};
		CHECK(insntrace(INSNTRACE_READ_BUFFER, n, &read, sizeof(read)) == 1);
		CHECK(bytes[0] == last);
		read.offset = available;
		CHECK(insntrace(INSNTRACE_READ_BUFFER, n, &read, sizeof(read)) == 0);
		read.offset = UINT64_MAX;
		CHECK(insntrace(INSNTRACE_READ_BUFFER, n, &read, sizeof(read)) == 0);
		read = (struct insntrace_read){0, 0xffffffff80000000, 16};
		CHECK(insntrace(INSNTRACE_READ_BUFFER, n, &read, sizeof(read)) == -EFAULT);
	}
}

static void life_cycle(void)
{
	struct insntrace_allocation allocation;
	struct insntrace_config found;

	open_all();
	CHECK(initialize() == -EBADFD && allocate() == -ENOSPC);
	CHECK(insntrace(INSNTRACE_GET_ALLOCATION, 0, &allocation, sizeof(allocation)) == 0);
	CHECK(allocation.mode == INSNTRACE_CPUS && allocation.traces == cpus);
	CHECK(insntrace(INSNTRACE_GET_BUFFER_CONFIG, 0, &found, sizeof(found)) == 0);
	CHECK(found.chunks == 1 && found.control == config.control);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);
		CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == -EBADFD);
		CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);
		read_all();
	}
	CHECK(insntrace(INSNTRACE_FREE_BUFFER, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == -EBADFD);
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == -EBADFD);
}

/* Calls that are refused for one argument. */
static void bad_arguments(void)
{
	struct insntrace_config bad = config;

	CHECK(insntrace(INSNTRACE_STOP + 100, 0, NULL, 0) == -EINVAL);
	CHECK(system_call(SYS_insntrace, UINT64_MAX, 0, 0, 0) == -EINVAL);
	CHECK(insntrace(INSNTRACE_INITIALIZE, 1ul << 32, NULL, cpus) == -EINVAL);
	CHECK(insntrace(INSNTRACE_INITIALIZE, INSNTRACE_CPUS, &bad, cpus) == -EINVAL);
	CHECK(insntrace(INSNTRACE_INITIALIZE, INSNTRACE_CPUS, NULL, cpus + 1) == -EINVAL);
	CHECK(initialize() == 0);
	CHECK(insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &config, sizeof(config) - 1) == -EINVAL);
	CHECK(insntrace(INSNTRACE_ALLOCATE_BUFFER, 1, &config, sizeof(config)) == -EINVAL);
	CHECK(insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, NULL, sizeof(config)) == -EFAULT);
	CHECK(insntrace(INSNTRACE_START, 0, &config, 0) == -EINVAL);
	bad.address_space = (uint64_t)getpid();
	CHECK(insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &bad, sizeof(bad)) == -EINVAL);
	bad.control |= CR3_FILTER;
	bad.address_space = 1ul << 32;
	CHECK(insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &bad, sizeof(bad)) == -ESRCH);
	bad.address_space = 0;
	CHECK(insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &bad, sizeof(bad)) == -ESRCH);
	CHECK(allocate() == 0);
	CHECK(insntrace(INSNTRACE_GET_BUFFER_STATE, 1ul << 32, &bad,
			sizeof(struct insntrace_state)) == -EINVAL);
	CHECK(insntrace(INSNTRACE_GET_BUFFER_STATE, 0, (void *)8, sizeof(struct insntrace_state)) ==
	      -EFAULT);
	CHECK(insntrace(INSNTRACE_FREE_BUFFER, 1ul << 32, NULL, 0) == -EINVAL);
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
}

/* It has the newest session, and is not the one that keeps others from a session of CPUs. */
static void have_threads(void)
{
	config.control = BRANCH_EN;
	CHECK(insntrace(INSNTRACE_INITIALIZE, INSNTRACE_THREADS, NULL, 1) == 0 && allocate() == 0);
	CHECK(insntrace(INSNTRACE_ASSIGN_THREAD, 0, (void *)getpid(), 0) == 0);
	CHECK(insntrace(INSNTRACE_GET_HOLDER, INSNTRACE_HOLDER_PT, NULL, 0) == getppid());
}

/* Another process has no part in the session, and gets none of CPUs beside it. */
static void another(void)
{
	long child;
	int status = -1;

	open_all();
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(initialize() == -EBUSY);
		CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == -EBADFD);
		CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == -EBADFD);
		have_threads();
		exit(0);
	}
	CHECK(wait4(child, &status, 0) == child && !status);
	CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
}

#define JUMP() __asm__ volatile("lea 1f(%%rip), %%rax\n\tjmp *%%rax\n1:" : : : "rax")

/* Three bytes each at the least, less than the chunk all together. */
enum { JUMPS = 1200, LEAST_OF_JUMPS = 3 * JUMPS };

/* Bytes of the CPU's trace, by CR3: what this process did, and nothing of the child's. Those of a
   CPU on which neither ran are fewer than JUMPS need. */
static uint64_t traced_by_space(long pid)
{
	uint64_t available;

	config.control = USER | BRANCH_EN | CR3_FILTER;
	config.address_space = (uint64_t)pid;
	open_all();
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);
	for (unsigned n = 0; n < JUMPS; n++)
		JUMP();
	CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);
	for (uint64_t n = 1; n < cpus; n++)
		CHECK(state_of(n).available < LEAST_OF_JUMPS);
	available = state_of(0).available;
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
	return available;
}

static void address_space(void)
{
	long child;

	CHECK(set_affinity(0, 1) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(set_affinity(0, 1) == 0);
		for (;;)
			sleep_us(1000000);
	}
	CHECK(traced_by_space(getpid()) >= LEAST_OF_JUMPS);
	CHECK(traced_by_space(child) < LEAST_OF_JUMPS);
	kill(child, SIGKILL);
	CHECK(wait4(child, NULL, 0) == child);
}

/* Each of the two has a target that the other has not; they go on when somebody lets them. */
static void jump_a(unsigned n)
{
	for (; n; n--) {
		JUMP();
		if (n % 50 == 0)
			yield();
	}
}

static void jump_b(unsigned n)
{
	for (; n; n--) {
		__asm__ volatile("nop");
		JUMP();
		if (n % 50 == 0)
			yield();
	}
}

static void wait_for_owner(void)
{
	CHECK(kill(getpid(), SIGSTOP) == 0);
}

/* Records by the CR3 of a process that ends meanwhile; 0: with the CR3 of each in its packets. */
static void root_outlives(uint64_t pid)
{
	config.control = USER | BRANCH_EN | (pid ? CR3_FILTER : OS);
	config.address_space = pid;
	open_all();
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);
	wait_for_owner();
	CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);
	wait_for_owner();
	CHECK(insntrace(INSNTRACE_FREE_BUFFER, 0, NULL, 0) == 0);
	CHECK(allocate() == (pid ? -ESRCH : 0));
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
}

/* After START: a child that inherits, or does not. */
static void jump_with_child(void)
{
	long child;

	wait_for_owner();
	child = fork();
	CHECK(child >= 0);
	if (child) {
		jump_a(120);
		CHECK(wait4(child, NULL, 0) == child);
	} else {
		jump_b(80);
	}
}

/* The item `tag` of such bytes, of `size` bytes or more; NULL: there is none. */
static const void *find_item(long all, unsigned tag, unsigned size)
{
	for (long at = 0; at + 4 <= all;) {
		const struct trace_item *item = (const struct trace_item *)(bytes + at);

		if (item->tag == tag && item->size >= size)
			return item + 1;
		at += 4 + item->size;
	}
	return NULL;
}

/* What a reader of packets has to know is for those that may see kernel addresses. */
static void items(bool may)
{
	const uint64_t *item;
	const char *name;
	long all = get_items(0, 0, bytes, sizeof(bytes)), child = fork();

	CHECK(child >= 0);
	if (!child)
		exit(0);
	CHECK(wait4(child, NULL, WNOWAIT) == child);
	if (may) {
		CHECK(all > 2000 && find_item(all, TRACE_ITEM_ENTRIES, 256 * 8));
		CHECK(*(const uint32_t *)find_item(all, TRACE_ITEM_CPUS, 4) == cpus);
		CHECK(get_items(0, (uint64_t)all - 1, bytes, 5) == 1);
		item = find_item(all, TRACE_ITEM_CPUS, 4);
		CHECK(get_items(0, (uint64_t)((const char *)item - (const char *)bytes), bytes,
				4) == 4 &&
		      *(const uint32_t *)bytes == cpus);
		CHECK(get_items(0, (uint64_t)all, bytes, 5) == 0);
		CHECK(get_items(0, UINT64_MAX, bytes, 5) == 0);
		CHECK(get_items(0, 0, (void *)8, 5) == -EFAULT);
		CHECK(get_items(0x7fffffff, 0, bytes, 5) == -ESRCH);
		CHECK(get_items(1ul << 32, 0, bytes, 5) == -ESRCH);
		all = get_items((uint64_t)child, 0, bytes, sizeof(bytes));
		item = find_item(all, TRACE_ITEM_CR3, 8);
		CHECK(item && *item && !(*item & 4095));
		CHECK(find_item(all, TRACE_ITEM_CHECKSUM, 4));
		name = find_item(all, TRACE_ITEM_PROGRAM, 9);
		CHECK(name && name[0] == 'i' && name[8] == 'e');
	} else {
		CHECK(all == -EPERM && get_items((uint64_t)child, 0, bytes, 5) == -EPERM);
	}
	CHECK(wait4(child, NULL, 0) == child);
	CHECK(get_items((uint64_t)child, 0, bytes, 5) == (may ? -ESRCH : -EPERM));
}

/* --- A program that traces another, without any right --- */

static long child_that_waits(void)
{
	long child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		wait_for_owner();
		jump_a(800);
		exit(0);
	}
	CHECK(wait4(child, &status, WUNTRACED) == child);
	return child;
}

static void open_thread(long child, uint32_t flags)
{
	config = (struct insntrace_config){.chunks = flags & INSNTRACE_STREAM ? 2 : 1,
					   .chunk_order = flags & INSNTRACE_STREAM ? 0 : 2,
					   .flags = flags,
					   .control = BRANCH_EN};
	CHECK(insntrace(INSNTRACE_INITIALIZE, INSNTRACE_THREADS, NULL, 1) == 0);
	config.control |= OS;
	CHECK(allocate() == -EOPNOTSUPP);
	config.control &= ~(uint64_t)OS;
	CHECK(allocate() == 0);
	CHECK(insntrace(INSNTRACE_ASSIGN_THREAD, 0, (void *)child, 0) == 0);
	CHECK(insntrace(INSNTRACE_GET_HOLDER, INSNTRACE_HOLDER_PT, NULL, 0) == getpid());
	CHECK(insntrace(INSNTRACE_GET_HOLDER, 2, NULL, 0) == -EINVAL);
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);
	CHECK(kill(child, SIGCONT) == 0);
}

static void close_thread(void)
{
	CHECK(insntrace(INSNTRACE_RELEASE_THREAD, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
}

/* Three bytes a jump at the least; the child's end does not end its trace. */
static void trace_child(void)
{
	struct insntrace_read read = {0, (uint64_t)bytes, sizeof(bytes)};
	long child = child_that_waits();

	open_thread(child, 0);
	CHECK(wait4(child, NULL, 0) == child);
	CHECK(insntrace(INSNTRACE_READ_BUFFER, 0, &read, sizeof(read)) == -EBADFD);
	CHECK(insntrace(INSNTRACE_RELEASE_THREAD, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_READ_BUFFER, 0, &read, sizeof(read)) >= 3 * 800);
	CHECK(has_psb(3 * 800) && state_of(0).pid == 0);
	CHECK(insntrace(INSNTRACE_STOP, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
}

static long read_stream(void)
{
	struct insntrace_read read = {0, (uint64_t)bytes, 1000};
	long count = insntrace(INSNTRACE_READ_STREAM, 0, &read, sizeof(read));

	if (count == -EPIPE) /* said once */
		count = insntrace(INSNTRACE_READ_STREAM, 0, &read, sizeof(read));
	CHECK(count >= 0 && count <= 1000);
	return count;
}

static void stream_child(void)
{
	struct insntrace_read read = {1, (uint64_t)bytes, 1000};
	long child = child_that_waits(), all = 0, count;

	open_thread(child, INSNTRACE_STREAM);
	for (; read.offset; read.offset <<= 1)
		CHECK(insntrace(INSNTRACE_READ_STREAM, 0, &read, sizeof(read)) == -EINVAL);
	while (wait4(child, NULL, WNOHANG) == 0) {
		all += read_stream();
		sleep_us(500);
	}
	while ((count = read_stream()))
		all += count;
	CHECK(all >= 3 * 800);
	close_thread();
}

/* `pid` has the right to kernel addresses, this one not. */
static void may_not_trace(long pid)
{
	CHECK(insntrace(INSNTRACE_INITIALIZE, INSNTRACE_THREADS, NULL, 2) == 0);
	CHECK(allocate() == 0);
	CHECK(insntrace(INSNTRACE_ASSIGN_THREAD, 0, (void *)pid, 0) == -EPERM);
	CHECK(insntrace(INSNTRACE_ASSIGN_THREAD, 0, (void *)(1ul << 32), 0) == -ESRCH);
	CHECK(insntrace(INSNTRACE_ASSIGN_THREAD, 0, (void *)getpid(), 0) == 0);
	CHECK(insntrace(INSNTRACE_ASSIGN_THREAD, 1, (void *)getpid(), 0) == -ENXIO);
}

/* --- Beside a tracer of branches --- */

static long begin_threads(void)
{
	return insntrace(INSNTRACE_INITIALIZE, INSNTRACE_THREADS, NULL, 2);
}

static long holder(unsigned unit)
{
	return insntrace(INSNTRACE_GET_HOLDER, unit, NULL, 0);
}

static void spin(uint64_t argument)
{
	(void)argument;
	for (;;)
		yield();
}

static long status_size(long pid)
{
	struct ptrace_bts_config status = {.size = 1};

	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&status, sizeof(status)) >= 0);
	return (long)status.size;
}

/* Another process is refused as well, and learns who has what. */
static void expect_from_another(long session, long pt, long bts)
{
	long child = fork();
	int status = -1;

	CHECK(child >= 0);
	if (!child) {
		CHECK(begin_threads() == session);
		CHECK(session || insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
		CHECK(holder(INSNTRACE_HOLDER_PT) == pt && holder(INSNTRACE_HOLDER_BTS) == bts);
		CHECK(trace_branches(getpid(), 10, PTRACE_BTS_TRACE, 0) == 24);
		CHECK(holder(INSNTRACE_HOLDER_BTS) == getpid()); /* the newest */
		exit(0);
	}
	CHECK(wait4(child, &status, 0) == child && !status);
}

static long assign(long pid)
{
	return insntrace(INSNTRACE_ASSIGN_THREAD, 0, (void *)pid, 0);
}

/* Of one child the second of both is refused where the processor lets one of them record nothing.
 */
static void beside_branches(bool excludes)
{
	long traced = traced_child(spin, 0), other = traced_child(spin, 0), self = getpid(),
	     second = excludes ? -EBUSY : 0;

	config.control = BRANCH_EN;
	CHECK(begin_threads() == 0 && allocate() == 0 && assign(traced) == 0);
	CHECK(trace_branches(traced, 100, 0, 0) == (excludes ? -EBUSY : 24));
	CHECK(status_size(traced) == (excludes ? 0 : 2400));
	expect_from_another(0, self, excludes ? -ENXIO : self);
	CHECK(trace_branches(other, 100, 0, 0) == 24);
	CHECK(insntrace(INSNTRACE_RELEASE_THREAD, 0, NULL, 0) == 0);
	CHECK(trace_branches(traced, 50, 0, 0) == 24 && assign(traced) == second);
	expect_from_another(0, second ? -ENXIO : self, self);
	CHECK(status_size(traced) == 1200); /* it has what it had */
	CHECK(second || insntrace(INSNTRACE_RELEASE_THREAD, 0, NULL, 0) == 0);
	CHECK(insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
	CHECK(go_on(traced, 0) == 0 && go_on(other, 0) == 0);
	end_child(traced);
	end_child(other);
	CHECK(holder(INSNTRACE_HOLDER_BTS) == -ENXIO);
	CHECK(begin_threads() == 0 && insntrace(INSNTRACE_TERMINATE, 0, NULL, 0) == 0);
}

static void start_all(bool stays)
{
	open_all();
	CHECK(insntrace(INSNTRACE_START, 0, NULL, 0) == 0);
	while (stays)
		;
}

static void jump_in_rounds(void)
{
	for (unsigned round = 0; round < 5; round++) {
		wait_for_owner();
		jump_a(400);
	}
}

int main(uint64_t argument)
{
	cpus = argument >> 8 & 0xffffff;
	switch (argument & 0xff) {
	case 0:
		refused();
		break;
	case 1:
		life_cycle();
		break;
	case 2:
		bad_arguments();
		break;
	case 3:
		another();
		break;
	case 4:
		address_space();
		break;
	case 5: /* leaves it all to the kernel */
	case 6: /* and is killed */
		start_all((argument & 0xff) == 6);
		break;
	case 7:
		wait_for_owner();
		jump_a(300);
		break;
	case 8:
		wait_for_owner();
		jump_b(200);
		break;
	case 9:
		jump_with_child();
		break;
	case 10: /* as often as it is continued */
		jump_in_rounds();
		break;
	case 11:
		trace_child();
		break;
	case 12:
		stream_child();
		break;
	case 13:
		may_not_trace((long)cpus);
		break;
	case 14:
		beside_branches(cpus);
		break;
	case 15:
		root_outlives(argument >> 32);
		break;
	case 16:
	case 17:
		items((argument & 0xff) == 16);
		break;
	default:
		return 1;
	}
	return 0;
}
