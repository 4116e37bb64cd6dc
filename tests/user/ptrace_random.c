// SPDX-License-Identifier: MIT
// Makes random requests of ptrace(), well-formed and not, among a family whose members start and
// end, and checks that it reads nothing of the kernel's. argument: seed in the low 32 bits, count
// in the next 22, seconds in the next 9: it makes no more when they have passed since its start.
// The highest bit says that there are branches: it reads those of a child before the others of its
// kind can disturb it. It traces itself too, with handlers for the signals of that.
#include "tests/user/lib/ptrace.h"

#define FAMILY 6

static uint64_t state;
static long family[FAMILY];
static struct ptrace_bts_record records[64];
static struct ptrace_bts_config config;
static struct ptrace_registers registers;
static struct siginfo info;
static uint64_t word;
static int64_t end; /* when its time is over */

static const uint16_t requests[] = {
	PTRACE_TRACEME,	    PTRACE_PEEKTEXT,   PTRACE_PEEKDATA,	  PTRACE_POKEDATA,
	PTRACE_CONT,	    PTRACE_CONT,       PTRACE_KILL,	  PTRACE_SINGLESTEP,
	PTRACE_GETREGS,	    PTRACE_SETREGS,    PTRACE_ATTACH,	  PTRACE_ATTACH,
	PTRACE_DETACH,	    PTRACE_SEIZE,      PTRACE_SEIZE,	  PTRACE_INTERRUPT,
	PTRACE_BTS_CONFIG,  PTRACE_BTS_CONFIG, PTRACE_BTS_CONFIG, PTRACE_BTS_STATUS,
	PTRACE_BTS_SIZE,    PTRACE_BTS_GET,    PTRACE_BTS_CLEAR,  PTRACE_BTS_DRAIN,
	PTRACE_BTS_READ,    PTRACE_INTERRUPT,  PTRACE_CONT,	  PTRACE_CONT,
	PTRACE_PEEKUSR,	    PTRACE_POKEUSR,    PTRACE_SETOPTIONS, PTRACE_SETOPTIONS,
	PTRACE_GETEVENTMSG, PTRACE_GETSIGINFO,
};

static void do_nothing(int signal, struct siginfo *at, struct ucontext *context)
{
	(void)signal, (void)at, (void)context;
}

static uint64_t random(uint64_t below)
{
	return random_below(&state, below);
}

/* Some address that is wrong for most purposes. */
static uint64_t wild(void)
{
	uint64_t value = random_next(&state);

	switch (value >> 61) {
	case 0:
		return value & 0xffff;
	case 1:
		return 0x00007fffffffe000 + (value & 0x1fff);
	case 2:
		return 0xffffffff80000000 + (value & 0x3fffff);
	case 3:
		return 0xffff800000000000 + (value & 0xfffffff);
	case 4:
		return 0x400000 + (value & 0xfff); /* code */
	default:
		return value;
	}
}

/* What a child does: lives a while, in its own way; traces others; ends. */
static _Noreturn void member(uint64_t way)
{
	if (way & 1ul << 40) {
		set_handlers((signal_handler *)SIG_DFL);
		set_mask(SIG_SETMASK, 0, NULL);
	}
	switch (way % 4) {
	case 0:
		for (unsigned turns = way >> 8 & 63; turns; turns--) {
			for (volatile unsigned i = 0; i < way % 5000; i++)
				;
			yield();
		}
		break;
	case 1:
		sleep_us((int64_t)(way % 3000));
		break;
	case 2:
		for (unsigned i = 0; i < way % 50; i++)
			yield();
		break;
	default:
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		kill(getpid(), (unsigned)(way % SIGNALS));
		*(volatile char *)way = 0;
	}
	exit(0);
}

static void renew(unsigned which)
{
	uint64_t way = random_next(&state) >> 2;
	long pid = fork();

	if (pid == 0)
		member(way);
	if (pid > 0)
		family[which] = pid;
}

static void choose_config(void)
{
	config = (struct ptrace_bts_config){
		(uint32_t)(random(4) ? random(4096) : random(1ul << 32)), (uint32_t)random(0x200),
		(uint32_t)random(40), random(8) ? 0 : 24};
	if (!(config.flags & PTRACE_BTS_SIGNAL) && random(4))
		config.signal = 0;
	if (random(4))
		config.flags &= ~(uint64_t)PTRACE_BTS_KERNEL;
	if (config.signal == SIGSEGV) /* it would end the caller */
		config.signal = SIGUSR2;
}

/* Arguments that are right more often than not. */
static void choose(long number, uint64_t *address, uint64_t *data)
{
	*address = *data = 0;
	switch (number) {
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_POKEDATA:
		*address = (uint64_t)&word;
		*data = (uint64_t)&word;
		break;
	case PTRACE_CONT:
	case PTRACE_SINGLESTEP:
	case PTRACE_DETACH:
		*data = random(SIGNALS + 1);
		break;
	case PTRACE_PEEKUSR:
	case PTRACE_POKEUSR:
		*address = 8 * random(120);
		*data = random(2) ? (uint64_t)&word : 0;
		break;
	case PTRACE_SETOPTIONS:
		*data = random(0x100);
		break;
	case PTRACE_GETEVENTMSG:
	case PTRACE_GETSIGINFO:
		*data = (uint64_t)&info;
		break;
	case PTRACE_GETREGS:
	case PTRACE_SETREGS:
		*data = (uint64_t)&registers;
		break;
	case PTRACE_BTS_CONFIG:
	case PTRACE_BTS_STATUS:
		choose_config();
		*address = (uint64_t)&config;
		*data = sizeof(config);
		break;
	default:
		*address = (uint64_t)records;
		*data = number == PTRACE_BTS_GET ? random(20) : sizeof(records);
	}
	if (number == PTRACE_SEIZE)
		*address = *data = 0;
	if (!random(6))
		*address = wild();
	if (!random(6))
		*data = number >= PTRACE_BTS_DRAIN && number <= PTRACE_BTS_READ ? random(1536)
										: wild();
}

/* The family, what others have by now, nobody, itself; never another of its kind. */
static long choose_pid(void)
{
	switch (random(16)) {
	case 0:
		return (long)random(8) - 7;
	case 1:
		return family[random(FAMILY)] + (long)random(8);
	case 2:
		return getpid();
	default:
		return family[random(FAMILY)];
	}
}

/* Any set of signals blocked, and one ignored or with another mask for its handler. */
static void change_handlers(void)
{
	unsigned signal = 1 + (unsigned)random(SIGNALS - 1);

	set_mask((int)random(4), random_next(&state), NULL);
	if (signal != SIGSEGV)
		set_handler(signal, random(4) ? do_nothing : (signal_handler *)SIG_IGN,
			    random(2) ? SA_RESTART : 0, random_next(&state));
}

/* Each call would take ten times as long. */
static void trace_itself_no_more(void)
{
	struct ptrace_bts_config none = {0};

	ptrace(PTRACE_BTS_CONFIG, getpid(), (uint64_t)&none, sizeof(none));
}

static void request(void)
{
	long number = random(32) ? requests[random(sizeof(requests) / sizeof(requests[0]))]
				 : (long)random(64);
	uint64_t address, data;
	long pid;

	if (number == PTRACE_TRACEME || (number == PTRACE_KILL && random(8)))
		return; /* nobody would let this process go on; too many would die */
	choose(number, &address, &data);
	pid = choose_pid();
	ptrace(number, pid, address, data);
	if (pid == getpid() && random(8))
		trace_itself_no_more();
}

/* Stops it, or gives up after four looks: others trace the same family, and it may have ended. */
static void stop(long pid)
{
	int status;

	ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	for (unsigned look = 0; look < 4 && wait4(pid, &status, WNOHANG | WUNTRACED) != pid; look++)
		look % 2 ? (void)sleep_us(100) : yield();
}

/* What has to be done for records, in order; each step may fail. */
static void trace_one(void)
{
	long pid = family[random(FAMILY)];

	config = (struct ptrace_bts_config){1000 * RECORD, PTRACE_BTS_TRACE, 0, 0};
	ptrace(PTRACE_SEIZE, pid, 0, 0);
	stop(pid);
	ptrace(PTRACE_BTS_CONFIG, pid, (uint64_t)&config, sizeof(config));
	ptrace(PTRACE_CONT, pid, 0, 0);
	yield();
	stop(pid);
	ptrace(PTRACE_BTS_READ, pid, (uint64_t)records, sizeof(records));
}

/* Only branches of ring 3 come into `records`, whatever was asked for. */
static void expect_no_kernel_address(void)
{
	for (unsigned i = 0; i < 64; i++) {
		CHECK(!(records[i].from >> 63) && records[i].qualifier <= PTRACE_BTS_GAP);
		CHECK(records[i].qualifier != PTRACE_BTS_BRANCH || !(records[i].to >> 63));
	}
}

static void loop_and_stop(uint64_t turns)
{
	for (volatile uint64_t i = 0; i < turns; i++)
		;
	kill(getpid(), SIGSTOP);
}

/* While the others of its kind are not there yet, each step succeeds. */
static void read_records(void)
{
	long pid = traced_child(loop_and_stop, 100);

	CHECK(trace_branches(pid, 1000, PTRACE_BTS_TRACE, 0) >= 0);
	go_on(pid, 0);
	next_stop(pid);
	CHECK(ptrace(PTRACE_BTS_READ, pid, (uint64_t)records, sizeof(records)) == 64);
	expect_no_kernel_address();
	end_child(pid);
}

int main(uint64_t argument)
{
	uint64_t left = argument >> 32 & 0x3fffff;

	state = argument & UINT32_MAX;
	end = now_us() + (int64_t)(argument >> 54 & 0x1ff) * 1000000;
	if (argument >> 63)
		read_records();
	set_handlers(do_nothing);
	kill(getpid(), SIGSTOP); /* until all of its kind are there */
	for (unsigned i = 0; i < FAMILY; i++)
		renew(i);
	for (; left && now_us() < end; left--) {
		int status;

		switch (random(64)) {
		case 0 ... 1:
			renew((unsigned)random(FAMILY));
			break;
		case 2 ... 5:
			wait4(-1, random(8) ? &status : (int *)wild(), WNOHANG | WUNTRACED);
			break;
		case 6:
			kill(family[random(FAMILY)], (unsigned)random(SIGNALS));
			break;
		case 7:
			random(4) ? yield() : (void)sleep_us((int64_t)random(500));
			break;
		case 8:
			change_handlers();
			trace_itself_no_more();
			break;
		case 9:
			trace_one();
			expect_no_kernel_address();
			break;
		default:
			request();
			expect_no_kernel_address();
		}
	}
	if (left) {
		say_number(left, 10);
		say(" calls were not made: their time was over\n");
	}
	/* Its family goes on without it, stopped or not. */
	return 42;
}
