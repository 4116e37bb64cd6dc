// SPDX-License-Identifier: MIT
// The serial line of a process. Tests of which no byte may leave the machine give it a UART in
// memory, whose transmitter is as ready as the test says, or loop COM2 back.
#include "abi/errno.h"
#include "kernel/process/process.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "lib/io.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/programs.h"

enum part { REFUSED, ONE_OWNER, STAYS, LOOPS, OVERRUNS, WEDGED, SENDS, ECHOES };

enum { COM2 = 0x2f8, MODEM_CONTROL = 4, LINE_STATUS = 5 };
enum { MODEM_LOOP = 0x10 };
enum { TRANSMITTER_READY = 0x20, ALL_SENT = 0x40 };
enum { NOBODY_SENDS = 77 };

static volatile uint8_t registers[8]; /* of a UART in memory */
static struct uart machines;	      /* the line's, while a test has given it another */

static void use_memory(uint8_t status)
{
	machines = line_uart;
	memset((void *)registers, 0, sizeof(registers));
	registers[LINE_STATUS] = status;
	line_uart = (struct uart){.memory = registers, .size = 1};
}

static void use_machines(void)
{
	line_uart = machines;
}

static uint64_t with(enum part part, uint64_t number)
{
	return number << 8 | part;
}

TEST(user_line_refused, .group = "process", .ids = "SL1",
     .claim = "without COM2 the line is refused with ENXIO, and with EBUSY where the console or "
	      "export= has it; every call without the line is EBADF",
     .source = "docs/serial-line.4, ERRORS")
{
	bool is_taken;

	if (programs_have_line(&is_taken))
		test_skip("COM2 is there and free");
	program_expect("line", with(REFUSED, is_taken ? EBUSY : ENXIO), false);
}

TEST(user_line_of_one, .group = "process", .ids = "SL1",
     .claim = "one process at a time has the line, a child does not inherit it, and its end gives "
	      "it back; bad names, flags, descriptors and addresses are refused",
     .source = "docs/serial-line.4, ERRORS")
{
	use_memory(TRANSMITTER_READY | ALL_SENT);
	program_expect("line", ONE_OWNER, false);
	program_expect("line", STAYS, false);
	program_expect("line", STAYS, false);
	use_machines();
}

#define AT_ONCE 500000 /* microseconds in which a machine that waits for no UART does anything */

/* True if another task that wants to sleep a millisecond does not sleep for long, most times of so
   many: a busy host may stop the machine now and then. */
static bool sleeps_at_once(unsigned times)
{
	unsigned at_once = 0;

	for (unsigned n = 0; n < times; n++) {
		uint64_t start = clock_us();

		task_sleep(1000);
		at_once += clock_us() - start < AT_ONCE;
	}
	return at_once > times / 2;
}

TEST(user_line_wedged, .group = "process", .ids = "SL2 SL3",
     .claim = "a transmitter that takes nothing has a writer wait without holding up any other "
	      "task; it goes on when the transmitter does, and a signal ends the wait",
     .source = "docs/serial-line.4, DESCRIPTION")
{
	PROGRAMS(before);
	struct process *process;

	use_memory(0);
	process = program_start("line", WEDGED);
	EXPECT(sleeps_at_once(5));
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	process_signal(process, SIGCONT);
	for (unsigned n = 0; n < 20; n++) { /* now and then, ready at last */
		registers[LINE_STATUS] = n % 2 ? TRANSMITTER_READY : 0;
		task_sleep(1000);
	}
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	registers[LINE_STATUS] = 0;
	process_signal(process, SIGCONT);
	EXPECT(sleeps_at_once(20));
	process_signal(process, SIGKILL);
	EXPECT_EQ(program_end(process), WAIT_KILLED(SIGKILL));
	use_machines();
}

/* Runs `part` with COM2 connected with itself once it is open. */
static void run_looped(enum part part)
{
	PROGRAMS(before);
	struct process *process;

	programs_require_line();
	process = program_start("line", part);
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	outb(COM2 + MODEM_CONTROL, inb(COM2 + MODEM_CONTROL) | MODEM_LOOP);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	outb(COM2 + MODEM_CONTROL, inb(COM2 + MODEM_CONTROL) & (uint8_t)~MODEM_LOOP);
}

TEST(user_line_loops, .group = "process", .ids = "SL3",
     .claim = "what a process writes to a line that is connected with itself it reads, all of it "
	      "and in order, and poll() says when",
     .source = "docs/serial-line.4, DESCRIPTION")
{
	run_looped(LOOPS);
}

TEST(user_line_overruns, .group = "process", .ids = "SL3",
     .claim =
	     "bytes that were received and found no room are missed after those that did, by EIO once",
     .source = "docs/serial-line.4, ERRORS")
{
	run_looped(OVERRUNS);
}

/* tests/runner/line.sh compares. */
TEST(user_line_sends, .group = "process", .ids = "SL3",
     .claim = "a process sends 100,000 bytes over COM2",
     .source = "docs/serial-line.4, DESCRIPTION")
{
	programs_require_host();
	program_expect("line", with(SENDS, 100000), false);
}

TEST(user_line_echoes, .group = "process", .ids = "SL3",
     .claim = "a process that reads late sends back all of 30,000 bytes that the other end sent",
     .source = "docs/serial-line.4, DESCRIPTION")
{
	PROGRAMS(before);
	int status;

	programs_require_host();
	status = program_run("line", with(ECHOES, 30000));
	if (status == WAIT_EXITED(NOBODY_SENDS))
		test_skip("the other end of COM2 sends nothing");
	EXPECT_EQ(status, WAIT_EXITED(0));
}
