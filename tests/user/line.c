// SPDX-License-Identifier: MIT
// The serial line as a descriptor. argument: what is tried, in the low byte; a number above it.
#include "tests/user/lib/user.h"

enum part { REFUSED, ONE_OWNER, STAYS, LOOPS, OVERRUNS, WEDGED, SENDS, ECHOES };

enum { LINE = 3, NOBODY_SENDS = 77, FIFO = 16, MOST_AT_ONCE = 64 << 10 };

#define STACK_TOP 0x00007fffffffe000ul /* nothing is mapped above it */

static uint8_t bytes[8192], found[8192], many[MOST_AT_ONCE + 1];
static uint64_t random_state = 1;

static long open_line(uint64_t flags)
{
	return system_call(SYS_open, (uint64_t)SERIAL_LINE, O_RDWR | flags, 0, 0);
}

static long read_line(void *to, size_t most)
{
	return system_call(SYS_read, LINE, (uint64_t)to, most, 0);
}

static long write_line(const void *from, size_t count)
{
	return system_call(SYS_write, LINE, (uint64_t)from, count, 0);
}

static long close_line(void)
{
	return system_call(SYS_close, LINE, 0, 0, 0);
}

/* What of `events` is there within so many milliseconds. */
static int poll_line(int events, int milliseconds)
{
	struct pollfd polls[] = {{-1, POLLOUT, 0}, {LINE, (int16_t)events, 0}, {1, POLLIN, 0}};
	long ready = system_call(SYS_poll, (uint64_t)polls, 3, (uint64_t)milliseconds, 0);

	CHECK(ready == (polls[1].revents != 0));
	CHECK(!polls[0].revents && !polls[2].revents);
	return polls[1].revents;
}

static void has_none(void)
{
	CHECK(read_line(found, 1) == -EBADF);
	CHECK(write_line(bytes, 1) == -EBADF);
	CHECK(close_line() == -EBADF);
	CHECK(poll_line(POLLIN, -1) == POLLNVAL);
}

static void refused(long error)
{
	CHECK(open_line(0) == -error);
	has_none();
}

static void bad_arguments(void)
{
	CHECK(system_call(SYS_open, (uint64_t) "/dev/ttyS0", O_RDWR, 0, 0) == -ENOENT);
	CHECK(system_call(SYS_open, (uint64_t) "/dev/ttyS10", O_RDWR, 0, 0) == -ENOENT);
	CHECK(system_call(SYS_open, 8, O_RDWR, 0, 0) == -EFAULT);
	CHECK(open_line(1) == -EINVAL && open_line(0x1000) == -EINVAL);
	CHECK(system_call(SYS_poll, (uint64_t)bytes, POLL_MOST + 1, 0, 0) == -EINVAL);
	CHECK(system_call(SYS_poll, (uint64_t)bytes, POLL_MOST, 0, 0) == POLL_MOST);
	CHECK(system_call(SYS_poll, 8, 1, 0, 0) == -EFAULT);
	CHECK(system_call(SYS_poll, 0, 0, 1, 0) == 0);
	CHECK(system_call(SYS_read, 0, (uint64_t)found, 1, 0) == -EBADF);
	CHECK(system_call(SYS_close, 1, 0, 0, 0) == -EBADF);
}

/* A child has no part in it while the parent has it, and gets it afterwards. */
static void one_owner(void)
{
	has_none();
	CHECK(open_line(0) == LINE && open_line(0) == -EBUSY);
	bad_arguments();
	CHECK(write_line((void *)8, 1) == -EFAULT);
	CHECK(write_line((void *)(STACK_TOP - FIFO), 2 * FIFO) > 0);
	CHECK(write_line(many, sizeof(many)) == MOST_AT_ONCE);
	for (unsigned round = 0; round < 2; round++) {
		long child = fork();
		int status;

		CHECK(child >= 0);
		if (!child) {
			has_none();
			CHECK(open_line(0) == (round ? LINE : -EBUSY));
			exit(0);
		}
		CHECK(wait4(child, &status, 0) == child && status == WAIT_EXITED(0));
		CHECK(round || close_line() == 0);
	}
}

static void fill(size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)random_next(&random_state);
}

/* What was written is there within ten seconds a piece: a busy host may stop for one. */
static void read_back(size_t count)
{
	for (size_t done = 0; done < count;) {
		long now;

		CHECK(poll_line(POLLIN, 10000) & POLLIN);
		now = read_line(found + done, count - done);
		CHECK(now > 0);
		done += (size_t)now;
	}
	for (size_t i = 0; i < count; i++)
		CHECK(found[i] == bytes[i]);
}

static void wait_for_test(void)
{
	CHECK(kill(getpid(), SIGSTOP) == 0);
}

/* The line is connected with itself: of what is not read a FIFO's worth is kept. */
static void loops(void)
{
	CHECK(open_line(O_NONBLOCK) == LINE);
	wait_for_test();
	CHECK(read_line(found, 1) == -EAGAIN && read_line(found, 0) == 0);
	CHECK(poll_line(POLLIN | POLLOUT, -1) == POLLOUT);
	for (unsigned round = 0; round < 200; round++) {
		size_t count = 1 + random_below(&random_state, FIFO);

		fill(count);
		for (size_t done = 0; done < count;) {
			long sent = write_line(bytes + done, count - done);

			CHECK(sent > 0 || sent == -EAGAIN);
			done += sent > 0 ? (size_t)sent : 0;
		}
		CHECK(poll_line(POLLIN, -1) == POLLIN);
		CHECK(read_line((void *)8, 1) == -EFAULT);
		read_back(count);
	}
	CHECK(read_line(found, 1) == -EAGAIN && write_line(bytes, FIFO) > 0);
	CHECK(close_line() == 0);
	has_none();
	CHECK(open_line(O_NONBLOCK) == LINE && read_line(found, FIFO) == -EAGAIN);
}

/* Nobody reads: what the UART has no room for is gone, and the reader learns it. */
static void overruns(void)
{
	CHECK(open_line(0) == LINE);
	wait_for_test();
	fill(4 * FIFO);
	CHECK(write_line(bytes, 4 * FIFO) == 4 * FIFO);
	sleep_us(20000);
	read_back(FIFO);
	CHECK(poll_line(POLLIN, 0) == POLLIN && read_line(found, 100) == -EIO);
	CHECK(poll_line(POLLIN, 0) == 0);
	fill(FIFO);
	CHECK(write_line(bytes, FIFO) == FIFO);
	read_back(FIFO);
	/* Of what was lost before it the next open() knows nothing. */
	CHECK(write_line(many, 4 * FIFO) == 4 * FIFO);
	sleep_us(20000);
	CHECK(close_line() == 0 && open_line(O_NONBLOCK) == LINE);
	CHECK(read_line(found, FIFO) == -EAGAIN);
}

static volatile unsigned handled;

static void count_handled(int signal, struct siginfo *info, struct ucontext *context)
{
	(void)signal, (void)info, (void)context;
	handled++;
}

/* The transmitter takes nothing until the test lets it, and then again. */
static void wedged(void)
{
	int64_t start = now_us();
	long child, parent = getpid();

	CHECK(open_line(O_NONBLOCK) == LINE);
	CHECK(write_line(bytes, 100) == -EAGAIN && read_line(found, 100) == -EAGAIN);
	CHECK(poll_line(POLLIN | POLLOUT, 0) == 0 && poll_line(POLLIN | POLLOUT, 30) == 0);
	CHECK(now_us() - start >= 30000);
	start = now_us();
	CHECK(close_line() == 0 && now_us() - start >= 900000); /* the last bit does not leave */
	CHECK(open_line(0) == LINE);
	CHECK(set_handler(SIGUSR1, count_handled, 0, 0) == 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		sleep_us(20000);
		kill(parent, SIGUSR1);
		exit(0);
	}
	CHECK(write_line(bytes, 100) == -EINTR && handled == 1);
	CHECK(wait4(child, NULL, 0) == child);
	wait_for_test();
	CHECK(poll_line(POLLOUT, -1) == POLLOUT);
	for (unsigned n = 0; n < 200; n++) /* it is not ready amid some of them */
		CHECK(write_line(bytes, sizeof(bytes)) == sizeof(bytes));
	wait_for_test();
	write_line(bytes, 100);
}

/* The host knows these bytes. */
static void sends(size_t count)
{
	CHECK(open_line(0) == LINE);
	for (size_t done = 0; done < count;) {
		size_t now = count - done < sizeof(bytes) ? count - done : sizeof(bytes);

		for (size_t i = 0; i < now; i++)
			bytes[i] = (uint8_t)((done + i) * (done + i) >> 5);
		for (size_t at = 0; at < now;) {
			long sent = write_line(bytes + at, now - at);

			CHECK(sent > 0);
			at += (size_t)sent;
		}
		done += now;
	}
	CHECK(close_line() == 0);
}

/* Says that it listens, and reads later than it could, so that the other end has to wait. */
static int echoes(size_t count)
{
	CHECK(open_line(0) == LINE && write_line("!", 1) == 1);
	if (!poll_line(POLLIN, 3000))
		return NOBODY_SENDS;
	sleep_us(300000);
	while (count) {
		long got = read_line(bytes, sizeof(bytes) < count ? sizeof(bytes) : count);

		CHECK(got > 0 && write_line(bytes, (size_t)got) == got);
		count -= (size_t)got;
	}
	return 0;
}

int main(uint64_t argument)
{
	uint64_t number = argument >> 8;

	switch ((enum part)(argument & 0xff)) {
	case REFUSED:
		refused((long)number);
		break;
	case ONE_OWNER:
		one_owner();
		break;
	case STAYS:
		CHECK(open_line(0) == LINE);
		break;
	case LOOPS:
		loops();
		break;
	case OVERRUNS:
		overruns();
		break;
	case WEDGED:
		wedged();
		break;
	case SENDS:
		sends(number);
		break;
	case ECHOES:
		return echoes(number);
	}
	return 0;
}
