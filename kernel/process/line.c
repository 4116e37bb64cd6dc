// SPDX-License-Identifier: MIT
// The serial line as a descriptor: docs/serial-line.4. The UART is its owner's alone, so that no
// lock is needed. A call that waits looks again each half millisecond, in which 115200 baud bring 6
// bytes and a FIFO has room for 16.
#include "abi/errno.h"
#include "abi/syscall.h"
#include "drivers/console/console.h"
#include "kernel/console.h"
#include "kernel/options.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "lib/string.h"

#define COM2	     1
#define LOOK_US	     500
#define MOST_LOOKS   2000
#define MOST_AT_ONCE (64ul << 10) /* of a call, which no signal ends while the line takes them */

struct uart line_uart;

static _Atomic unsigned owner; /* a pid; 0: nobody's */
static bool waits;	       /* it did not say O_NONBLOCK */

static bool has_line(const struct process *self, uint64_t descriptor)
{
	return descriptor == LINE_FD && owner == self->pid;
}

/* From a process that has ended the next one takes the line over. */
static bool is_owned(unsigned pid)
{
	struct process *process = pid ? process_find(pid) : NULL;
	bool lives = process && process->state != PROCESS_ENDED;

	if (process)
		process_put(process);
	return lives;
}

/* NULL, or why the machine has no line. */
static const char *open_uart(void)
{
	if (uart_is_open(&line_uart))
		return NULL;
	if (console_has_port(uart_com_bases[COM2]))
		return "the console has it: name the console's devices by console=";
	if (!strcmp(options.export, "com2"))
		return "the kernel's traces leave by it: export=com2";
	return uart_init(&line_uart, uart_com_bases[COM2], (uint32_t)options.baud) ? NULL : "";
}

static long refuse_line(const struct process *self, const char *why)
{
	printk("# com2: not for %s: %s\n", self->name, *why ? why : "no UART answers at port 2F8H");
	return *why ? -EBUSY : -ENXIO;
}

long call_open(struct process *self, const uint64_t *argument)
{
	char name[sizeof(SERIAL_LINE)];
	int error = strncpy_from_user(name, argument[0], sizeof(name));
	unsigned before = owner;
	const char *why;

	if (error || strcmp(name, SERIAL_LINE))
		return error == -EFAULT ? error : -ENOENT;
	if ((argument[1] & ~(uint64_t)O_NONBLOCK) != O_RDWR)
		return -EINVAL;
	if (is_owned(before) || !atomic_compare_exchange_strong(&owner, &before, self->pid))
		return refuse_line(self, "a process has it");
	why = open_uart();
	if (why) {
		owner = 0;
		return refuse_line(self, why);
	}
	uart_receive(&line_uart, (uint8_t[UART_FIFO]){0}, UART_FIFO); /* sent to nobody */
	line_uart.overrun = false;
	waits = !(argument[1] & O_NONBLOCK);
	return LINE_FD;
}

/* What is still in the UART leaves before another process can have it. */
long call_close(struct process *self, const uint64_t *argument)
{
	if (!has_line(self, argument[0]))
		return -EBADF;
	for (unsigned n = 0; n < MOST_LOOKS && !uart_is_empty(&line_uart); n++)
		task_sleep(LOOK_US);
	owner = 0;
	return 0;
}

/* True: a handler is to run, and the call ends. */
static bool wait_is_over(struct process *self)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool interrupted;

	timer_start(&self->task->sleep, LOOK_US);
	interrupted = process_sleep(self, flags);
	spin_unlock(&processes_lock, flags);
	timer_stop(&self->task->sleep);
	return interrupted;
}

/* The bytes received, none where that would wait; or an error, with nothing taken. */
static long receive(uint64_t to, size_t most)
{
	uint8_t bytes[UART_FIFO];
	size_t count = most < sizeof(bytes) ? most : sizeof(bytes);

	/* Try the buffer first: bytes that have left the UART must not be lost. */
	if (copy_from_user(bytes, to, count) || copy_to_user(to, bytes, count))
		return -EFAULT;
	count = uart_receive(&line_uart, bytes, count);
	if (count || !line_uart.overrun)
		return copy_to_user(to, bytes, count) ? -EFAULT : (long)count;
	line_uart.overrun = false;
	return -EIO;
}

static long send(uint64_t from, size_t most)
{
	uint8_t bytes[UART_FIFO];
	size_t count = most < sizeof(bytes) ? most : sizeof(bytes);

	return copy_from_user(bytes, from, count) ? -EFAULT
						  : (long)uart_send(&line_uart, bytes, count);
}

/* Moves what it can, and waits: for the first byte, or `all`. */
static long transfer(struct process *self, const uint64_t *argument,
		     long (*move)(uint64_t at, size_t most), bool all)
{
	uint64_t most = argument[2] < MOST_AT_ONCE ? argument[2] : MOST_AT_ONCE, done = 0;
	long moved = 1;

	if (!has_line(self, argument[0]))
		return -EBADF;
	while (done < most && moved > 0) {
		moved = move(argument[1] + done, most - done);
		done += moved > 0 ? (uint64_t)moved : 0;
		if (moved || (done && !all))
			continue;
		moved = !waits ? -EAGAIN : wait_is_over(self) ? interrupted_result(self) : 1;
	}
	return done || !most ? (long)done : moved;
}

long call_read(struct process *self, const uint64_t *argument)
{
	return transfer(self, argument, receive, false);
}

long call_write_line(struct process *self, const uint64_t *argument)
{
	return transfer(self, argument, send, true);
}

static int events_of(const struct process *self, const struct pollfd *poll)
{
	if (poll->fd < 0)
		return 0;
	if (poll->fd == 1 || poll->fd == 2)
		return poll->events & POLLOUT;
	if (!has_line(self, (uint64_t)poll->fd))
		return POLLNVAL;
	return ((uart_has_received(&line_uart) ? POLLIN : 0) |
		(uart_is_ready(&line_uart) ? POLLOUT : 0)) &
	       poll->events;
}

long call_poll(struct process *self, const uint64_t *argument)
{
	int32_t milliseconds = (int32_t)argument[2];
	uint64_t start = clock_us(), count = argument[1];
	struct pollfd polls[POLL_MOST];
	long ready = 0;

	if (count > POLL_MOST)
		return -EINVAL;
	if (copy_from_user(polls, argument[0], count * sizeof(polls[0])))
		return -EFAULT;
	for (;;) {
		for (uint64_t i = 0; i < count; i++) {
			polls[i].revents = (int16_t)events_of(self, &polls[i]);
			ready += polls[i].revents != 0;
		}
		if (ready ||
		    (milliseconds >= 0 && clock_us() - start >= (uint64_t)milliseconds * 1000))
			break;
		if (wait_is_over(self))
			return -EINTR;
	}
	return copy_to_user(argument[0], polls, count * sizeof(polls[0])) ? -EFAULT : ready;
}
