// SPDX-License-Identifier: MIT
// Calls of SYS_insntrace in random states, and what each has to return. argument: seed in the low
// 20 bits, CPUs in the next 11, then 1 where a buffer may have two chunks, count in the high 32. It
// ends as it is; the kernel gives all back.
#include "abi/insntrace.h"
#include "tests/user/lib/user.h"

enum { OS = 1 << 2, USER = 1 << 3, BRANCH_EN = 1 << 13, CHILDREN = 3, TRACES = 6 };

static uint64_t random_state;
static unsigned cpus, chunks;
static long children[CHILDREN];
static uint8_t bytes[300];

/* The session as it has to be. */
static struct {
	bool open, started;
	unsigned mode, traces;
	struct {
		bool there, stream;
		long pid; /* of the thread that has it, or 0 */
	} buffer[INSNTRACE_TRACES_MOST];
	uint32_t order;
} model;

static unsigned below(unsigned most)
{
	return (unsigned)random_below(&random_state, most);
}

static long call(unsigned request, uint64_t first, const void *address, uint64_t size)
{
	return system_call(SYS_insntrace, request, first, (uint64_t)address, size);
}

static unsigned buffers(bool with_thread)
{
	unsigned count = 0;

	for (unsigned n = 0; n < model.traces; n++)
		count += model.buffer[n].there && (!with_thread || model.buffer[n].pid);
	return count;
}

static void initialize(void)
{
	unsigned mode = below(2), traces = mode == INSNTRACE_CPUS ? cpus : TRACES;
	unsigned wrong = below(8) == 0;
	long result = call(INSNTRACE_INITIALIZE, mode, NULL, wrong ? 0 : traces);

	CHECK(result == (model.open ? -EBADFD : wrong ? -EINVAL : 0));
	if (result)
		return;
	model.open = true;
	model.mode = mode;
	model.traces = traces;
}

static void terminate(void)
{
	long result = call(INSNTRACE_TERMINATE, 0, NULL, 0);

	CHECK(result == (!model.open || model.started || buffers(true) ? -EBADFD : 0));
	for (unsigned n = 0; !result && n < model.traces; n++)
		model.buffer[n].there = false;
	model.open &= result != 0;
}

static void get_allocation(void)
{
	struct insntrace_allocation allocation = {0};

	CHECK(call(INSNTRACE_GET_ALLOCATION, 0, &allocation, sizeof(allocation)) ==
	      (model.open ? 0 : -EBADFD));
	CHECK(!model.open || (allocation.mode == model.mode && allocation.traces == model.traces &&
			      allocation.started == model.started));
}

/* A configuration that is wrong in itself, and its error. */
static long break_config(struct insntrace_config *config)
{
	switch (below(12)) {
	case 0:
		config->chunks = below(2) ? 0 : 4097;
		return -EINVAL;
	case 1:
		config->chunk_order = 9 + below(1000);
		return -EINVAL;
	case 2:
		config->flags = 1u << (8 + below(24));
		return -EINVAL;
	case 3:
		config->control |= 1ul << (48 + below(7));
		return -EINVAL;
	default:
		return 0;
	}
}

static void allocate(void)
{
	bool first = !buffers(false);
	struct insntrace_config config = {
		.chunks = chunks,
		.chunk_order = first ? below(4) : model.order,
		.flags = below(2)      ? 0
			 : chunks == 2 ? INSNTRACE_STREAM
				       : INSNTRACE_CIRCULAR,
		.control = BRANCH_EN | (model.mode == INSNTRACE_CPUS ? USER : 0),
	};
	long error = break_config(&config), result;
	unsigned free = 0;

	while (free < model.traces && model.buffer[free].there)
		free++;
	result = call(INSNTRACE_ALLOCATE_BUFFER, 0, &config, sizeof(config));
	if (!model.open || model.started)
		CHECK(result == -EBADFD);
	else if (free == model.traces)
		CHECK(result == -ENOSPC || result == error);
	else
		CHECK(error ? result == error : result == (long)free || result == -ENOMEM);
	if (result < 0)
		return;
	model.order = config.chunk_order;
	model.buffer[free].there = true;
	model.buffer[free].stream = config.flags & INSNTRACE_STREAM;
}

/* The error of every call with this descriptor. */
static long descriptor_error(unsigned n)
{
	return !model.open	       ? -EBADFD
	       : n >= model.traces     ? -EINVAL
	       : model.buffer[n].there ? 0
				       : -ENXIO;
}

static bool is_written(unsigned n)
{
	return model.started && (model.mode == INSNTRACE_CPUS || model.buffer[n].pid);
}

/* While CPUs are traced no buffer can be asked for, by any descriptor. */
static long resting_error(unsigned n)
{
	long error = model.open && model.started && model.mode == INSNTRACE_CPUS
			     ? -EBADFD
			     : descriptor_error(n);

	return error ? error : is_written(n) ? -EBADFD : 0;
}

/* A stream is read in any state, another buffer at rest. */
static void read_packets(unsigned n, uint64_t available)
{
	struct insntrace_read read = {below(200), (uint64_t)bytes, sizeof(bytes)};
	bool stream = n < model.traces && model.buffer[n].stream;
	long error = descriptor_error(n), result;

	if (below(8) == 0)
		read.address = random_next(&random_state) | 1ul << 63;
	result = call(INSNTRACE_READ_BUFFER, n, &read, sizeof(read));
	if (resting_error(n) || stream)
		CHECK(result == (resting_error(n) ? resting_error(n) : -EINVAL));
	else
		CHECK((result >= 0 && result <= (long)available) ||
		      (result == -EFAULT && read.address >> 63));
	read.offset = 0;
	result = call(INSNTRACE_READ_STREAM, n, &read, sizeof(read));
	if (error || !stream)
		CHECK(result == (error ? error : -EINVAL));
	else
		CHECK((result >= 0 && result <= (long)sizeof(bytes)) || result == -EPIPE ||
		      (result == -EFAULT && read.address >> 63));
}

static void look(unsigned n)
{
	struct insntrace_config config;
	struct insntrace_state state = {0};

	CHECK(call(INSNTRACE_GET_BUFFER_CONFIG, n, &config, sizeof(config)) == descriptor_error(n));
	CHECK(call(INSNTRACE_GET_BUFFER_STATE, n, &state, sizeof(state)) == resting_error(n));
	CHECK(resting_error(n) || state.pid == model.buffer[n].pid);
	read_packets(n, state.available);
}

static void free_buffer(unsigned n)
{
	long error = model.open && model.started ? -EBADFD : descriptor_error(n);
	long result = call(INSNTRACE_FREE_BUFFER, n, NULL, 0);

	if (!error && model.buffer[n].pid)
		error = -EBADFD;
	CHECK(result == error);
	if (!error)
		model.buffer[n].there = false;
}

static void start(void)
{
	bool ready = model.mode == INSNTRACE_CPUS ? buffers(false) == model.traces : buffers(true);
	long result = call(INSNTRACE_START, 0, NULL, 0);

	CHECK(result == (model.open && !model.started && ready ? 0 : -EBADFD));
	model.started |= result == 0;
}

static void stop(void)
{
	CHECK(call(INSNTRACE_STOP, 0, NULL, 0) == (model.open && model.started ? 0 : -EBADFD));
	model.started = false;
}

static void assign(unsigned n)
{
	long pid = children[below(CHILDREN)], error = descriptor_error(n);

	if (!error && model.mode != INSNTRACE_THREADS)
		error = -EBADFD;
	for (unsigned i = 0; !error && i < model.traces; i++)
		if (model.buffer[i].pid == pid || model.buffer[n].pid)
			error = -EBUSY;
	CHECK(call(INSNTRACE_ASSIGN_THREAD, n, (void *)pid, 0) == error);
	CHECK(call(INSNTRACE_ASSIGN_THREAD, n, (void *)0x7fffffff, 0) == -ESRCH);
	if (!error)
		model.buffer[n].pid = pid;
}

static void release(unsigned n)
{
	long error = descriptor_error(n);

	if (!error && !model.buffer[n].pid)
		error = -EBADFD;
	CHECK(call(INSNTRACE_RELEASE_THREAD, n, NULL, 0) == error);
	if (!error)
		model.buffer[n].pid = 0;
}

/* In any state: of the machine, of a child, or of nobody. */
static void get_items(void)
{
	struct insntrace_read read = {below(3000), (uint64_t)bytes, sizeof(bytes)};
	unsigned whose = below(3);
	uint64_t pid = whose == 0 ? 0 : whose == 1 ? (uint64_t)children[0] : 0x7fffffff;
	long result;

	if (below(8) == 0)
		read.address = random_next(&random_state) | 1ul << 63;
	result = call(INSNTRACE_GET_ITEMS, pid, &read, sizeof(read));
	CHECK(whose == 2 ? result == -ESRCH
			 : (result >= 0 && result <= (long)sizeof(bytes)) ||
				   (result == -EFAULT && read.address >> 63));
}

static void nonsense(void)
{
	unsigned request = below(20);
	long result = call(request, random_next(&random_state) | 1ul << 40,
			   (void *)random_next(&random_state), 1000 + below(1000));

	CHECK(result == -EINVAL || (request == INSNTRACE_INITIALIZE && result < 0));
}

static void step(void)
{
	unsigned n = below(10) ? below(TRACES) : (unsigned)random_next(&random_state);

	switch (below(21)) {
	case 0 ... 1:
		initialize();
		break;
	case 2:
		terminate();
		break;
	case 3:
		get_allocation();
		break;
	case 4 ... 7:
		allocate();
		break;
	case 8 ... 9:
		look(n);
		break;
	case 10:
		free_buffer(n);
		break;
	case 11 ... 12:
		start();
		break;
	case 13 ... 14:
		stop();
		break;
	case 15 ... 16:
		assign(n);
		break;
	case 17:
		release(n);
		break;
	case 18:
		yield();
		break;
	case 19:
		get_items();
		break;
	default:
		nonsense();
	}
}

int main(uint64_t argument)
{
	random_state = argument & 0xfffff;
	cpus = argument >> 20 & 0x7ff;
	chunks = argument >> 31 & 1 ? 2 : 1;
	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0);
		while (!children[i])
			sleep_us(2000);
	}
	for (uint64_t left = argument >> 32; left; left--)
		step();
	for (unsigned i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		CHECK(wait4(children[i], NULL, 0) == children[i]);
	}
	return 0;
}
