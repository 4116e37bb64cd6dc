// SPDX-License-Identifier: MIT
// Intel PT of a debugged program and its descendants: the branches in its packets are those that
// single-stepping shows.
#include "abi/insntrace.h"
#include "tests/lib/pt_decode.h"
#include "tests/user/lib/contents.h"

enum {
	CYC_EN = 1 << 1,
	MTC_EN = 1 << 9,
	TSC_EN = 1 << 10,
	DIS_RETC = 1 << 11,
	BRANCH_EN = 1 << 13
};
enum { MOST_BYTES = 256 << 10, MOST_PIECES = 200 };

static uint8_t bytes[MOST_BYTES];

/* Branches without one missing between; pieces of what was read lie between two gaps. */
static struct {
	uint64_t from, to;
} decoded[EXPECTED_MOST];
static struct piece {
	uint32_t first, count;
} pieces[MOST_PIECES];
static unsigned piece_count;

static struct {
	bool open;
	struct insntrace_config config;
	unsigned traces;
	uint64_t count; /* bytes of descriptor 0 that were read */
	uint64_t gaps[MOST_PIECES];
	unsigned gap_count;
	struct {
		long pid;
		int parent;	       /* -1: it has none */
		uint32_t first, taken; /* branches when its trace began, and at its end */
		bool traced;
	} process[EXPECTED_PROCESSES];
} trace;

static long insntrace(unsigned request, uint64_t first, void *address, uint64_t size)
{
	return system_call(SYS_insntrace, request, first, (uint64_t)address, size);
}

/* --- The program, block by block --- */

static const uint8_t *code_at(uint64_t ip)
{
	return &generated.code[ip - (uint64_t)generated_area];
}

static enum flow_kind kind_at(uint64_t ip)
{
	const uint8_t *code = code_at(ip);

	if ((code[0] & 0xf0) == 0x70 || code[0] == 0xe2 || code[0] == 0xe3 ||
	    (code[0] == 0xf && (code[1] & 0xf0) == 0x80))
		return FLOW_JCC;
	if (code[0] == 0xeb || code[0] == 0xe9)
		return FLOW_JMP;
	if (code[0] == 0xe8)
		return FLOW_CALL;
	if (code[0] == 0xff)
		return code[1] == 0xd0 ? FLOW_CALL_INDIRECT : FLOW_JMP_INDIRECT;
	if (code[0] == 0xc3 || code[0] == 0xc2)
		return FLOW_RET;
	return code[0] == 0xf && code[1] == 5 ? FLOW_FAR : FLOW_FALLS;
}

/* Its displacement ends the instruction: of one byte, or of four. */
static uint64_t target_of(uint64_t ip, uint64_t next)
{
	const uint8_t *end = code_at(next);
	int32_t distance;

	if (next - ip == 2)
		return next + (uint64_t)(int8_t)end[-1];
	__builtin_memcpy(&distance, end - 4, 4);
	return next + (uint64_t)distance;
}

static bool find_block(const void *program, uint64_t ip, struct flow_block *block)
{
	(void)program;
	while (generated_part(ip) && kind_at(ip) == FLOW_FALLS)
		ip = generated_next(ip);
	if (!generated_part(ip) && !generated_is_end(ip))
		return false;
	*block = (struct flow_block){FLOW_FAR, ip, ip, 0};
	if (generated_is_end(ip))
		return true;
	block->kind = kind_at(ip);
	block->next = generated_next(ip);
	if (block->kind == FLOW_JCC || block->kind == FLOW_JMP || block->kind == FLOW_CALL)
		block->target = target_of(ip, block->next);
	return true;
}

/* --- Packets to branches --- */

static void begin_piece(void)
{
	const struct piece *last = &pieces[piece_count - 1];

	CHECK(piece_count < MOST_PIECES);
	pieces[piece_count] = (struct piece){piece_count ? last->first + last->count : 0, 0};
	piece_count++;
}

static void add_branch(const struct flow_item *item)
{
	struct piece *piece = &pieces[piece_count - 1];
	uint32_t at = piece->first + piece->count++;

	if (at >= EXPECTED_MOST)
		wrong("more branches in packets than there are", at, expected_count());
	decoded[at].from = item->from;
	decoded[at].to = item->to;
}

/* `begins`: with the first packet of a trace; `ends`: with its last one. */
static void decode(const uint8_t *from, uint64_t size, bool begins, bool ends)
{
	struct flow_item item;
	struct flow flow;

	begin_piece();
	flow_start(&flow, from, size, find_block, NULL);
	if (!begins && !packet_synchronise(&flow.reader))
		return;
	while (flow_next(&flow, &item)) {
		figures.packets++;
		if (item.what == FLOW_LOST)
			begin_piece();
		if (item.what == FLOW_BRANCH && kind_at(item.from) != FLOW_FAR)
			add_branch(&item);
	}
	if (!flow.error && !(ends && flow.reader.cut))
		return;
	if (!ends && flow.reader.at == size)
		return;
	say(flow.error ? flow.error : "the last packet is cut");
	say("\n");
	wrong("packets", flow.at, size);
}

/* --- Branches of packets and those of single-stepping --- */

static bool fits(const struct piece *piece, uint32_t at)
{
	for (uint32_t i = 0; i < piece->count; i++) {
		struct ptrace_bts_record branch = expected_branch(at + i);

		if (decoded[piece->first + i].from != branch.from ||
		    decoded[piece->first + i].to != branch.to)
			return false;
	}
	return true;
}

/* Where the piece is among the branches from `at` to before `end`; one that begins or ends the
   trace is there or nowhere. */
static uint32_t place_of(const struct piece *piece, uint32_t at, uint32_t end, bool begins,
			 bool ends)
{
	if (piece->count > end - at)
		wrong("branches in packets that were not", piece->count, end - at);
	if (ends && !begins)
		at = end - piece->count;
	while (!fits(piece, at)) {
		at++;
		if (begins || ends || piece->count > end - at)
			wrong("branches in packets", piece->first, piece->count);
	}
	compared += piece->count;
	return at;
}

/* How many branches of `first` to before `end` are not in the pieces. */
static uint32_t compare(uint32_t first, uint32_t end, bool begins, bool ends)
{
	uint32_t at = first, lost = 0;

	for (unsigned i = 0; i < piece_count; i++) {
		uint32_t place = at;

		if (pieces[i].count)
			place = place_of(&pieces[i], at, end, begins && !i,
					 ends && i + 1 == piece_count);
		lost += place - at;
		at = place + pieces[i].count;
	}
	return lost + end - at;
}

/* --- Reading --- */

/* Descriptor `n`, of which the first `*count` bytes are there. True: there may be more. */
static bool read_piece(unsigned n, uint64_t *count, uint64_t most)
{
	struct insntrace_read read = {0, (uint64_t)bytes + *count, most};
	long result;

	if (most > MOST_BYTES - *count)
		read.bytes = MOST_BYTES - *count;
	result = insntrace(INSNTRACE_READ_STREAM, n, &read, sizeof(read));
	if (result == -EPIPE) {
		CHECK(trace.gap_count < MOST_PIECES);
		trace.gaps[trace.gap_count++] = *count;
		return true;
	}
	if (result < 0 || (uint64_t)result > read.bytes)
		wrong("READ_STREAM", (uint64_t)result, read.bytes);
	*count += (uint64_t)result;
	CHECK(*count < MOST_BYTES);
	return result > 0;
}

static bool is_stream(void)
{
	return trace.config.flags & INSNTRACE_STREAM;
}

void packets_read(void)
{
	struct insntrace_read read = {0, (uint64_t)bytes, 1};

	if (!trace.open || run.second == 2)
		return;
	for (unsigned i = random(4); i; i--)
		if (is_stream())
			read_piece(0, &trace.count, 1 + random(5000));
		else
			expect("READ_BUFFER",
			       (uint64_t)insntrace(INSNTRACE_READ_BUFFER, 0, &read, sizeof(read)),
			       (uint64_t)-EBADFD);
}

/* All that is left of a trace that is stopped. */
static void read_rest(unsigned n, const struct insntrace_state *state)
{
	struct insntrace_read read = {0, (uint64_t)bytes, MOST_BYTES};

	if (is_stream()) {
		while (read_piece(n, &trace.count, 1 + random(50000)))
			;
		return;
	}
	trace.count = state->available;
	expect("READ_BUFFER", (uint64_t)insntrace(INSNTRACE_READ_BUFFER, n, &read, sizeof(read)),
	       trace.count);
}

static void decode_all(bool wrapped, bool full)
{
	uint64_t at = 0;

	piece_count = 0;
	for (unsigned i = 0; i <= trace.gap_count; i++) {
		bool last = i == trace.gap_count;
		uint64_t end = last ? trace.count : trace.gaps[i];

		decode(bytes + at, end - at, !i && !wrapped, last && !full);
		at = end;
	}
}

static void check_buffer(unsigned n, unsigned process)
{
	const char *cause = "packets-full";
	struct insntrace_state state;
	struct run own = run;
	bool wrapped, full;
	uint32_t lost;

	CHECK(insntrace(INSNTRACE_GET_BUFFER_STATE, n, &state, sizeof(state)) == 0);
	expect("an error of the packets' output", state.flags & INSNTRACE_ERROR, 0);
	expect("a buffer's thread", state.pid, (uint64_t)trace.process[process].pid);
	read_rest(n, &state);
	run.process = process;
	wrapped = state.flags & INSNTRACE_WRAPPED;
	full = !is_stream() && state.flags & (INSNTRACE_STOPPED | INSNTRACE_FULL);
	decode_all(wrapped, full);
	lost = compare(trace.process[process].first, trace.process[process].taken, !wrapped, !full);
	if (wrapped)
		cause = "packets-overwritten";
	else if (trace.gap_count)
		cause = "packets-gap";
	else if (piece_count > 1) {
		cause = "packets-overflow"; /* SDM Vol 3, 36.3.8: at any time */
		run.large = false;
	} else if (lost && !full)
		wrong("packets are missing", lost, 0);
	if (lost || (run.large && (wrapped || full || trace.gap_count)))
		mark(cause, lost);
	run.process = own.process;
	run.large = own.large;
	trace.count = trace.gap_count = 0;
}

/* --- A trace --- */

static void draw_config(void)
{
	static const uint32_t ways[] = {0, INSNTRACE_CIRCULAR, INSNTRACE_STREAM, INSNTRACE_STREAM};
	uint32_t way = ways[random(4)];

	trace.config = (struct insntrace_config){
		.chunks = run.large || way == INSNTRACE_STREAM ? 2 : 1,
		.chunk_order = run.large ? 4 : 0,
		.flags = way | (random(3) ? INSNTRACE_INHERIT : 0),
		.control = BRANCH_EN | (random(2) ? TSC_EN : 0) | (random(2) ? DIS_RETC : 0) |
			   (random(3) ? 0 : CYC_EN) | (random(3) ? 0 : MTC_EN),
	};
	trace.config.chunks += random(2) && (run.large || !random(3));
}

static long allocate(void)
{
	return insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &trace.config, sizeof(trace.config));
}

/* What the processor does not have is left out. */
static void allocate_all(void)
{
	long result = allocate();

	if (result == -EOPNOTSUPP) {
		trace.config.control = BRANCH_EN;
		result = allocate();
	}
	if (result == -EOPNOTSUPP) {
		trace.config.chunks = 1;
		trace.config.chunk_order += run.large ? 1 : 0;
		trace.config.flags &= ~(uint32_t)INSNTRACE_STREAM;
		result = allocate();
	}
	expect("ALLOCATE_BUFFER", (uint64_t)result, 0);
	for (unsigned n = 1; n < trace.traces; n++)
		expect("ALLOCATE_BUFFER", (uint64_t)allocate(), n);
}

static void start(void)
{
	expect("START", (uint64_t)insntrace(INSNTRACE_START, 0, NULL, 0), 0);
	trace.process[0].first = run.taken;
}

bool packets_begin(void)
{
	long result = random(2) ? insntrace(INSNTRACE_INITIALIZE, INSNTRACE_THREADS, NULL,
					    EXPECTED_PROCESSES)
				: -EOPNOTSUPP;

	if (result == -EOPNOTSUPP)
		return true;
	expect("INITIALIZE", (uint64_t)result, 0);
	__builtin_memset(&trace, 0, sizeof(trace));
	trace.open = true;
	trace.traces = run.large ? expected_processes() : 1 + random(EXPECTED_PROCESSES);
	trace.process[0].pid = run.pid;
	trace.process[0].traced = true;
	draw_config();
	allocate_all();
	expect("ASSIGN_THREAD", (uint64_t)insntrace(INSNTRACE_ASSIGN_THREAD, 0, (void *)run.pid, 0),
	       0);
	start();
	result = trace_branches(run.pid, 10, PTRACE_BTS_TRACE, 0);
	if (result != -EBUSY)
		CHECK(result > 0 && trace_branches(run.pid, 0, 0, 0) > 0);
	return result != -EBUSY;
}

void packets_forked(unsigned process, unsigned parent, long pid)
{
	trace.process[process].pid = pid;
	trace.process[process].parent = (int)parent;
}

/* Before it has a child: whose buffer would be emptied as well. */
void packets_stopped(void)
{
	if (!trace.open || run.second == 2 || trace.process[1].pid || random(6))
		return;
	trace.process[0].taken = run.taken;
	expect("STOP", (uint64_t)insntrace(INSNTRACE_STOP, 0, NULL, 0), 0);
	check_buffer(0, 0);
	start();
}

void packets_ended(void)
{
	if (run.second != 2)
		trace.process[run.process].taken = run.taken;
}

/* Each child has a buffer that was to have one, if there was one left. */
static void check_inherited(void)
{
	bool inherits = trace.config.flags & INSNTRACE_INHERIT;
	struct insntrace_allocation allocation;
	unsigned missed = 0, buffers = 1;

	for (unsigned i = 1; i < EXPECTED_PROCESSES; i++) {
		bool has = inherits && trace.process[i].pid &&
			   trace.process[trace.process[i].parent].traced;

		missed += has && !trace.process[i].traced;
		buffers += trace.process[i].traced;
	}
	CHECK(insntrace(INSNTRACE_GET_ALLOCATION, 0, &allocation, sizeof(allocation)) == 0);
	expect("children without a buffer", allocation.missed, missed);
	if (missed)
		expect("buffers of children", buffers, trace.traces);
	if (missed)
		mark("no-buffer-for-a-child", 0);
}

/* Marks the process that has the buffer. */
static unsigned process_of(unsigned n)
{
	struct insntrace_state state;

	CHECK(insntrace(INSNTRACE_GET_BUFFER_STATE, n, &state, sizeof(state)) == 0);
	for (unsigned i = 0; i < EXPECTED_PROCESSES; i++)
		if (state.pid && trace.process[i].pid == state.pid) {
			trace.process[i].traced = true;
			return i;
		}
	expect("a buffer's thread", state.pid, 0);
	return EXPECTED_PROCESSES;
}

void packets_end(void)
{
	if (!trace.open)
		return;
	expect("STOP", (uint64_t)insntrace(INSNTRACE_STOP, 0, NULL, 0), 0);
	for (unsigned n = 0; n < trace.traces; n++) {
		unsigned process = process_of(n);

		if (process == EXPECTED_PROCESSES)
			continue;
		check_buffer(n, process);
		expect("RELEASE_THREAD", (uint64_t)insntrace(INSNTRACE_RELEASE_THREAD, n, NULL, 0),
		       0);
	}
	check_inherited();
	expect("TERMINATE", (uint64_t)insntrace(INSNTRACE_TERMINATE, 0, NULL, 0), 0);
	trace.open = false;
}
