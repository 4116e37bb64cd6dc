// SPDX-License-Identifier: MIT
// view rx: receives a trace stream from a line, and checks it.
#include "tools/view/output.h"
#include "tools/view/trace.h"
#include "tools/view/view.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct rx {
	const char *output;
	FILE *out;
	bool quiet;
	struct trace trace; /* counts and totals; the records themselves are let go */
	struct receiver receiver;
	time_t said;
};

static void write_all(const struct rx *rx, const void *bytes, size_t count)
{
	if (rx->out && fwrite(bytes, 1, count, rx->out) != count)
		output_keep(); /* says why it cannot */
}

static void receive_frame(void *argument, const struct trace_frame *header, const uint8_t *payload,
			  size_t size, const uint8_t *line, size_t line_size)
{
	struct rx *rx = argument;

	if (!trace_take(&rx->trace, header, payload, size, line_size + 2))
		fail("frame %u: %s", header->sequence, rx->trace.wrong);
	write_all(rx, "", 1);
	write_all(rx, line, line_size);
	write_all(rx, "", 1);
}

static void receive_text(void *argument, const uint8_t *bytes, size_t count)
{
	(void)argument;
	if (fwrite(bytes, 1, count, stdout) != count || fflush(stdout))
		fail("standard output: %s", strerror(errno));
}

static void say_progress(struct rx *rx)
{
	time_t now = time(NULL);

	if (!rx->said)
		rx->said = now;
	if (rx->quiet || now - rx->said < 2)
		return;
	rx->said = now;
	fprintf(stderr, "view: %llu frames, %llu bytes so far\n",
		(unsigned long long)rx->receiver.received.frames,
		(unsigned long long)rx->receiver.received.line_bytes);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
	(void)signal_number;
	interrupted = 1;
}

/* An interrupt ends the reception; read() returns. */
static void catch_interrupts(void)
{
	struct sigaction action = {.sa_handler = interrupt};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Until the end of the input, or of the stream where the line itself has no end, or an interrupt.
 */
static void receive(struct rx *rx, int line)
{
	static uint8_t bytes[1 << 16];
	ssize_t count;

	while (!interrupted && (count = read(line, bytes, sizeof(bytes))) != 0) {
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0 && errno == EIO && isatty(line))
			break;
		if (count < 0)
			fail("%s: %s", rx->trace.path, strerror(errno));
		receiver_feed(&rx->receiver, bytes, (size_t)count);
		say_progress(rx);
		if (rx->trace.ended && isatty(line))
			break;
	}
	receiver_end(&rx->receiver);
	rx->trace.received = rx->receiver.received;
}

static void print_summary(const struct rx *rx)
{
	const struct stream_received *received = &rx->trace.received;
	uint64_t records = 0, lost = 0;

	for (size_t i = 0; i < rx->trace.stream_count; i++) {
		records += rx->trace.streams[i].records;
		lost += rx->trace.streams[i].lost;
	}
	fprintf(stderr,
		"view: %llu frames, %zu streams, %llu records, %llu lost by the sender; "
		"%llu bytes of frames, %.2f a record\n",
		(unsigned long long)received->frames, rx->trace.stream_count,
		(unsigned long long)records, (unsigned long long)lost,
		(unsigned long long)(received->line_bytes - received->text_bytes),
		records ? (double)(received->line_bytes - received->text_bytes) / (double)records
			: 0.0);
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct rx *rx = state->input;

	switch (key) {
	case 'o':
		rx->output = argument;
		return 0;
	case 'q':
		rx->quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		if (rx->trace.path)
			argp_error(state, "one line at a time, not '%s' too", argument);
		rx->trace.path = argument;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output", 'o', "TRACE.spt", 0, "keep the frames there", 0},
	{"quiet", 'q', NULL, 0, "no progress", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "[LINE]",
	.doc = "Receives a trace stream from a file, a serial line (set it up with stty raw) or "
	       "standard input. Console text goes to standard output. Leaves with 1 if a frame is "
	       "damaged or missing, or if the totals at the end differ; the trace is kept all the "
	       "same, and `--damaged` of the other commands shows it.",
};

static int open_line(const struct rx *rx)
{
	int line = !strcmp(rx->trace.path, "-")
			   ? STDIN_FILENO
			   : open(rx->trace.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (line < 0)
		fail("%s: %s", rx->trace.path, strerror(errno));
	return line;
}

int view_rx(int argc, char **argv)
{
	struct rx *rx = allocate(1, sizeof(*rx));
	char flaw[256];
	int line;

	argp_parse(&argp, argc, argv, 0, NULL, rx);
	if (!rx->trace.path)
		rx->trace.path = "-";
	line = open_line(rx);
	rx->out = rx->output ? output_open(rx->output, &rx->trace) : NULL;
	catch_interrupts();
	receiver_init(&rx->receiver);
	rx->receiver.frame = receive_frame;
	rx->receiver.text = receive_text;
	rx->receiver.argument = rx;
	receive(rx, line);
	if (rx->trace.received.foreign)
		fail("%llu frames are of a version of the format that this program does not know",
		     (unsigned long long)rx->trace.received.foreign);
	if (!rx->trace.received.frames)
		fail("%s: no frame of a trace stream is in it", rx->trace.path);
	if (rx->out)
		output_keep();
	print_summary(rx);
	if (trace_flaw(&rx->trace, flaw, sizeof(flaw)))
		fail("%s", flaw);
	return 0;
}
