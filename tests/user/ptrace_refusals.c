// SPDX-License-Identifier: MIT
// Every row of the table of errors in docs/ptrace-bts.2: what it returns, and that nothing changed.
// argument: bit 0: there is BTS; bit 1: BTF; << 8: the pid of a process that may see kernel
// addresses.
#include "tests/user/lib/ptrace.h"

/* The processes that the rows are about. */
enum who { STOPPED, BUFFERED, RUNNING, STRANGER, TAKEN, ENDED, NOBODY, SELF, PRIVILEGED, MOST_WHO };

static long pids[MOST_WHO];
static bool bts;

static void spin(uint64_t argument)
{
	while (argument)
		;
}

/* --- What must stay as it is --- */

struct state {
	struct ptrace_registers registers;
	struct ptrace_bts_config config;
	struct ptrace_bts_record records[200];
	long size, news;
	uint64_t word;
};

static uint64_t cell = 0x1234;
static struct state before, after;

static void look(struct state *state)
{
	long pid = pids[bts ? BUFFERED : STOPPED];

	*state = (struct state){.news = wait4(-1, NULL, WNOHANG | WUNTRACED)};
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&state->registers) == 0);
	CHECK(ptrace(PTRACE_PEEKDATA, pid, (uint64_t)&cell, (uint64_t)&state->word) == 0);
	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&state->config, 24) == 24);
	state->size = ptrace(PTRACE_BTS_SIZE, pid, 0, 0);
	ptrace(PTRACE_BTS_READ, pid, (uint64_t)state->records, sizeof(state->records));
}

static bool unchanged(void)
{
	look(&after);
	for (size_t i = 0; i < sizeof(before); i++)
		if (((uint8_t *)&before)[i] != ((uint8_t *)&after)[i])
			return false;
	return true;
}

/* --- The rows --- */

static struct ptrace_registers registers; /* as they are, but for one */
static uint64_t word;
static struct ptrace_bts_record record;

#define SIGNALLED (PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL)

static const struct ptrace_bts_config configs[] = {
	{4096, 0x200, 0, 0},
	{4096, PTRACE_BTS_TRACE | 0x100000, 0, 0},
	{4096, PTRACE_BTS_SIGNAL | PTRACE_BTS_STOP, 0, 0},
	{95, PTRACE_BTS_TRACE | PTRACE_BTS_SCHED | PTRACE_BTS_STOP, 0, 0},
	{4096, PTRACE_BTS_SIGNAL, SIGNALS, 0},
	{4096, PTRACE_BTS_TRACE, 0, 25},
	{4096, SIGNALLED, SIGKILL, 0},
	{23, PTRACE_BTS_TRACE, 0, 0},
	{4096, PTRACE_BTS_TRACE | PTRACE_BTS_KERNEL, 0, 0},
	{0x4000000, PTRACE_BTS_TRACE, 0, 24}, /* more than RLIMIT_MEMLOCK */
	{UINT32_MAX, PTRACE_BTS_TRACE, 0, 24},
	{4096, SIGNALLED, SIGSTOP, 0},
	{4096, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL_TRACEE, 0, 0},
	{4096, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL_TRACER, 0, 0},
	{4096, SIGNALLED | PTRACE_BTS_SIGNAL_TRACEE | PTRACE_BTS_SIGNAL_TRACER, 0, 0},
	{4096 | 1ul << 32, PTRACE_BTS_TRACE, 0, 0},
	{4096, PTRACE_BTS_TRACE | 1ul << 32, 0, 0},
	{4096, PTRACE_BTS_TRACE, 0, 12},
};
#define CONFIG(n) PTRACE_BTS_CONFIG, AT_CONFIG + (n), 24

/* Arguments of the rows, negative: addresses. */
enum {
	AT_NOTHING = -64,
	AT_CODE,
	AT_WORD,
	AT_CELL,
	AT_RECORD,
	AT_REGISTERS,
	AT_KERNEL,
	AT_MEMORY,
	AT_STACK_END,
	AT_END,
	AT_ALL,
	AT_4_GIB,
	AT_CONFIG,
};

static uint64_t argument_of(int code)
{
	static const uint64_t addresses[] = {
		0x0000200000000000, /* not mapped */
		(uint64_t)main,	    /* not to be written */
		(uint64_t)&word,      (uint64_t)&cell,	  (uint64_t)&record,
		(uint64_t)&registers, 0xffffffff80101000, /* the kernel's */
		0xffff800000100000,   0x00007fffffffdffc, 0x00007ffffffff000 - RECORD,
		UINT64_MAX,	      1ul << 32,
	};

	if (code >= AT_CONFIG)
		return code < 0 ? (uint64_t)&configs[code - AT_CONFIG] : (uint64_t)code;
	return addresses[code - AT_NOTHING];
}

struct row {
	uint8_t error, who;
	uint16_t request;
	int16_t address, data;
};

static const struct row rows[] = {
	{EIO, STOPPED, 10, 0, 0},
	{EIO, STOPPED, 47, 0, 0},
	{EIO, SELF, 0x4208, 0, 0},
	{ESRCH, NOBODY, PTRACE_ATTACH, 0, 0},
	{ESRCH, ENDED, PTRACE_ATTACH, 0, 0},
	{ESRCH, NOBODY, PTRACE_SEIZE, 0, 0},
	{EPERM, SELF, PTRACE_ATTACH, 0, 0},
	{EPERM, SELF, PTRACE_SEIZE, 0, 0},
	{EPERM, STOPPED, PTRACE_ATTACH, 0, 0},
	{EPERM, RUNNING, PTRACE_SEIZE, 0, 0},
	{EPERM, PRIVILEGED, PTRACE_ATTACH, 0, 0},
	{EPERM, PRIVILEGED, PTRACE_SEIZE, 0, 0},
	{EPERM, TAKEN, PTRACE_ATTACH, 0, 0},
	{EPERM, NOBODY, PTRACE_TRACEME, 0, 0}, /* the kernel's child */
	{EIO, STRANGER, PTRACE_SEIZE, 1, 0},
	{EIO, STRANGER, PTRACE_SEIZE, 0, 1},
	{EIO, STOPPED, PTRACE_CONT, 0, SIGNALS},
	{EIO, STOPPED, PTRACE_CONT, 0, AT_4_GIB},
	{EIO, STOPPED, PTRACE_SINGLESTEP, 0, AT_ALL},
	{EIO, STOPPED, PTRACE_SINGLEBLOCK, 0, SIGNALS},
	{EIO, STOPPED, PTRACE_DETACH, 0, SIGNALS},
	{EIO, STOPPED, PTRACE_PEEKDATA, AT_NOTHING, AT_WORD},
	{EIO, STOPPED, PTRACE_PEEKTEXT, AT_KERNEL, AT_WORD},
	{EIO, STOPPED, PTRACE_PEEKTEXT, AT_STACK_END, AT_WORD},
	{EIO, STOPPED, PTRACE_POKEDATA, AT_NOTHING, 0},
	{EIO, STOPPED, PTRACE_POKETEXT, AT_MEMORY, 0},
	{EFAULT, STOPPED, PTRACE_PEEKDATA, AT_CELL, AT_NOTHING},
	{EFAULT, STOPPED, PTRACE_PEEKDATA, AT_CELL, AT_CODE},
	{EFAULT, STOPPED, PTRACE_GETREGS, 0, AT_CODE},
	{EFAULT, STOPPED, PTRACE_GETREGS, 0, AT_KERNEL},
	{EFAULT, STOPPED, PTRACE_SETREGS, 0, AT_NOTHING},
	{EIO, STOPPED, PTRACE_PEEKUSR, 4, AT_WORD},
	{EIO, STOPPED, PTRACE_PEEKUSR, 27 * 8, AT_WORD},
	{EIO, STOPPED, PTRACE_PEEKUSR, PTRACE_USER_DEBUGREG_END, AT_WORD},
	{EIO, STOPPED, PTRACE_PEEKUSR, AT_ALL, AT_WORD},
	{EFAULT, STOPPED, PTRACE_PEEKUSR, 0, AT_CODE},
	{EIO, STOPPED, PTRACE_POKEUSR, 4, 0},
	{EIO, STOPPED, PTRACE_POKEUSR, 27 * 8, 0},
	{EIO, STOPPED, PTRACE_POKEUSR, 16 * 8, AT_KERNEL}, /* RIP */
	{EIO, STOPPED, PTRACE_POKEUSR, PTRACE_USER_DEBUGREG, 1},
	{EINVAL, STOPPED, PTRACE_SETOPTIONS, 0, 1},
	{EINVAL, STOPPED, PTRACE_SETOPTIONS, 0, AT_ALL},
	{EINVAL, STOPPED, PTRACE_SETOPTIONS, 0, AT_4_GIB},
	{EFAULT, STOPPED, PTRACE_GETEVENTMSG, 0, AT_CODE},
	{EFAULT, STOPPED, PTRACE_GETSIGINFO, 0, AT_NOTHING},
	{EFAULT, STOPPED, PTRACE_BTS_CONFIG, AT_NOTHING, 24},
	{EFAULT, STOPPED, PTRACE_BTS_CONFIG, AT_MEMORY, 24},
	{EFAULT, STOPPED, PTRACE_BTS_CONFIG, AT_MEMORY, 0},
	{EFAULT, STOPPED, PTRACE_BTS_STATUS, AT_CODE, 24},
	{EFAULT, STOPPED, PTRACE_BTS_STATUS, AT_CODE, 0},
	{EINVAL, STOPPED, CONFIG(0)},
	{EINVAL, STOPPED, CONFIG(1)},
	{EINVAL, STOPPED, CONFIG(2)},
	{EINVAL, STOPPED, CONFIG(4)},
	{EINVAL, STOPPED, CONFIG(5)},
	{EINVAL, STOPPED, CONFIG(6)},
	{EINVAL, STOPPED, CONFIG(7)},
	{EPERM, STOPPED, CONFIG(8)},
	{EINVAL, STOPPED, CONFIG(11)},
	{EINVAL, STOPPED, CONFIG(12)},
	{EINVAL, STOPPED, CONFIG(13)},
	{EINVAL, STOPPED, CONFIG(14)},
	{EINVAL, STOPPED, CONFIG(16)},
	{EINVAL, STOPPED, CONFIG(17)},
	{ENXIO, STOPPED, PTRACE_BTS_SIZE, 0, 0},
	{ENXIO, STOPPED, PTRACE_BTS_GET, AT_RECORD, 0},
	{ENXIO, STOPPED, PTRACE_BTS_CLEAR, 0, 0},
	{ENXIO, STOPPED, PTRACE_BTS_DRAIN, AT_RECORD, 24},
	{ENXIO, STOPPED, PTRACE_BTS_READ, AT_RECORD, 24},
};

static const struct row bts_rows[] = {
	{EINVAL, STOPPED, CONFIG(3)},
	{EINVAL, BUFFERED, CONFIG(0)},
	{EINVAL, BUFFERED, CONFIG(2)},
	{EINVAL, BUFFERED, CONFIG(4)},
	{EINVAL, BUFFERED, CONFIG(5)},
	{EINVAL, BUFFERED, CONFIG(6)},
	{EPERM, BUFFERED, CONFIG(8)},
	{ENOMEM, BUFFERED, CONFIG(9)},
	{ENOMEM, BUFFERED, CONFIG(10)},
	{ENOMEM, STOPPED, CONFIG(9)},
	{EINVAL, BUFFERED, PTRACE_BTS_GET, AT_RECORD, 100},
	{EINVAL, BUFFERED, PTRACE_BTS_GET, AT_RECORD, AT_ALL},
	{EINVAL, BUFFERED, PTRACE_BTS_GET, AT_RECORD, AT_4_GIB},
	{EIO, BUFFERED, PTRACE_BTS_DRAIN, AT_RECORD, 23},
	{EIO, BUFFERED, PTRACE_BTS_READ, AT_RECORD, 0},
	{EIO, BUFFERED, PTRACE_BTS_DRAIN, AT_RECORD, 25},
	{EIO, BUFFERED, PTRACE_BTS_DRAIN, AT_RECORD, AT_ALL},
	{ENOMEM, BUFFERED, CONFIG(15)},
	{EFAULT, BUFFERED, PTRACE_BTS_GET, AT_CODE, 0},
	{EFAULT, BUFFERED, PTRACE_BTS_DRAIN, AT_NOTHING, 2400},
	{EFAULT, BUFFERED, PTRACE_BTS_DRAIN, AT_KERNEL, 24},
	{EFAULT, BUFFERED, PTRACE_BTS_DRAIN, AT_END, 2400},
	{EFAULT, BUFFERED, PTRACE_BTS_READ, AT_CODE, 24},
	{EFAULT, BUFFERED, PTRACE_BTS_STATUS, AT_NOTHING, 24},
};

static void refused(const struct row *row)
{
	long result = ptrace(row->request, pids[row->who], argument_of(row->address),
			     argument_of(row->data));

	if (result == -row->error && unchanged())
		return;
	say("request ");
	say_number((uint64_t)row->request, 10);
	say(" of ");
	say_number(row->who, 10);
	say(" gave -");
	say_number((uint64_t)-result, 10);
	say(", not -");
	say_number((uint64_t)row->error, 10);
	say("\n");
	CHECK(false);
}

/* --- Rows that hold for many requests --- */

static void refused_for_all(void)
{
	static const uint16_t need_stop[] = {
		PTRACE_PEEKTEXT,   PTRACE_PEEKDATA,    PTRACE_POKETEXT,	  PTRACE_POKEDATA,
		PTRACE_CONT,	   PTRACE_SINGLESTEP,  PTRACE_GETREGS,	  PTRACE_SETREGS,
		PTRACE_PEEKUSR,	   PTRACE_POKEUSR,     PTRACE_SETOPTIONS, PTRACE_GETEVENTMSG,
		PTRACE_GETSIGINFO, PTRACE_DETACH,      PTRACE_BTS_CONFIG, PTRACE_BTS_STATUS,
		PTRACE_BTS_SIZE,   PTRACE_BTS_GET,     PTRACE_BTS_CLEAR,  PTRACE_BTS_DRAIN,
		PTRACE_BTS_READ,   PTRACE_SINGLEBLOCK,
	};

	for (unsigned i = 0; i < sizeof(need_stop) / sizeof(need_stop[0]); i++) {
		static const uint8_t whos[] = {RUNNING, STRANGER, ENDED, NOBODY, SELF};

		bool is_of_buffer =
			need_stop[i] >= PTRACE_BTS_CONFIG && need_stop[i] <= PTRACE_BTS_READ;

		for (unsigned who = 0; who < (is_of_buffer ? 4 : 5); who++)
			refused(&(struct row){ESRCH, whos[who], need_stop[i], 0, 0});
		if (is_of_buffer && need_stop[i] >= PTRACE_BTS_SIZE)
			refused(&(struct row){ENXIO, SELF, need_stop[i], AT_RECORD, RECORD});
		if (is_of_buffer) { /* of a CPU */
			pids[NOBODY] = PTRACE_BTS_CPU(0);
			refused(&(struct row){EPERM, NOBODY, need_stop[i], AT_RECORD, 16});
			pids[NOBODY] = 123456789;
		}
	}
	refused(&(struct row){ESRCH, STRANGER, PTRACE_KILL, 0, 0});
	refused(&(struct row){ESRCH, STRANGER, PTRACE_INTERRUPT, 0, 0});
}

/* One register at a time that ring 3 may not have. */
static void refused_registers(void)
{
	static const struct {
		size_t at;
		uint64_t value;
	} wrong[] = {
#define REGISTER(name, value) {offsetof(struct ptrace_registers, name), value}
		REGISTER(rip, 0xffffffff80101000),
		REGISTER(rip, 0x0000800000000000),
		REGISTER(cs, 0x08),
		REGISTER(ss, 0x10),
		REGISTER(rflags, 0x3202),  /* IOPL */
		REGISTER(rflags, 0x2),	   /* IF clear */
		REGISTER(rflags, 0x20202), /* VM */
		REGISTER(fs_base, 1),
		REGISTER(gs_base, 0xffff800000000000),
		REGISTER(ds, 0x1b),
		REGISTER(es, 1),
		REGISTER(fs, 0x1b),
		REGISTER(gs, 0x1b),
		REGISTER(orig_rax, 1),
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK(ptrace(PTRACE_GETREGS, pids[STOPPED], 0, (uint64_t)&registers) == 0);
		*(uint64_t *)((char *)&registers + wrong[i].at) = wrong[i].value;
		refused(&(struct row){EIO, STOPPED, PTRACE_SETREGS, 0, AT_REGISTERS});
	}
}

/* In a child: a parent that traces it already, or whose other child's place is taken. */
static void refused_traceme(void)
{
	long pid = fork();

	if (!pid) {
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == -EPERM);
		exit(0);
	}
	CHECK(next_stop(pid) == WAIT_EXITED(0));
}

static void set_up(void)
{
	for (unsigned who = STOPPED; who <= ENDED; who++) {
		if (who <= BUFFERED) {
			pids[who] = traced_child(spin, 0);
			continue;
		}
		pids[who] = fork();
		if (!pids[who])
			spin(who != ENDED);
		if (!pids[who])
			exit(0);
	}
	pids[NOBODY] = 123456789;
	pids[SELF] = getpid();
	CHECK(ptrace(PTRACE_SEIZE, pids[RUNNING], 0, 0) == 0);
	CHECK(wait4(pids[ENDED], NULL, 0) == pids[ENDED]);
}

/* Takes TAKEN and stays until it is killed. */
static long take(void)
{
	long pid = fork();

	if (!pid) {
		CHECK(ptrace(PTRACE_ATTACH, pids[TAKEN], 0, 0) == 0);
		next_stop(pids[TAKEN]);
		kill(getpid(), SIGSTOP);
	}
	CHECK(wait4(pid, NULL, WUNTRACED) == pid);
	return pid;
}

int main(uint64_t argument)
{
	long taker;

	bts = argument & 1;
	set_up();
	pids[PRIVILEGED] = (long)(argument >> 8);
	taker = take();
	if (bts) {
		CHECK(trace_branches(pids[BUFFERED], 100, PTRACE_BTS_TRACE, 0) > 0);
		while (ptrace(PTRACE_BTS_SIZE, pids[BUFFERED], 0, 0) == 0) {
			CHECK(ptrace(PTRACE_SINGLESTEP, pids[BUFFERED], 0, 0) == 0);
			CHECK(next_stop(pids[BUFFERED]) == WAIT_STOPPED(SIGTRAP));
		}
	}
	look(&before);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		refused(&rows[i]);
	for (unsigned i = 0; bts && i < sizeof(bts_rows) / sizeof(bts_rows[0]); i++)
		refused(&bts_rows[i]);
	if (!(argument & 2))
		refused(&(struct row){EOPNOTSUPP, STOPPED, PTRACE_SINGLEBLOCK, 0, 0});
	if (!bts)
		CHECK(trace_branches(pids[STOPPED], 100, PTRACE_BTS_TRACE, 0) == -EOPNOTSUPP);
	refused_for_all();
	refused_registers();
	refused_traceme();
	CHECK(unchanged());
	end_child(pids[STOPPED]);
	end_child(pids[BUFFERED]);
	end_child(pids[RUNNING]);
	CHECK(kill(taker, SIGKILL) == 0 && next_stop(taker) == WAIT_KILLED(SIGKILL));
	return 0;
}
