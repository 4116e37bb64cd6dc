/* SPDX-License-Identifier: MIT */
/*
 * The branches of the program that generate() made last, in order, as single-stepping shows them.
 * They are numbered from 0.
 */
#pragma once

#include "abi/ptrace_bts.h"
#include "tests/user/lib/generated.h"
#include "tests/user/lib/ptrace.h"

#define EXPECTED_MOST	   8192
#define EXPECTED_PROCESSES 4 /* that a program is at most, with its descendants */

/*
 * A child that is traced by the caller, with PTRACE_O_TRACEFORK, and has stopped after the first
 * INT3.
 */
long expected_child(void);

/* Steps a child through the program, to its end, and then each descendant. */
void expected_find(void);

/* How many processes the program is, and the number of the one that `process` makes as its child
   `number`, both from 0 on. The first is 0. */
unsigned expected_processes(void);
unsigned expected_descendant(unsigned process, unsigned number);

/* How many branches there are of process `run.process`. */
uint32_t expected_count(void);

/* Its branch `number` as a record. */
struct ptrace_bts_record expected_branch(uint32_t number);

/* How many it has taken with these registers. */
uint32_t expected_taken(const struct ptrace_registers *registers);

/*
 * The contents that the buffer of a debugged program has to have. A model of the buffer goes on
 * with the branches that expected_find() found; what does not agree with it ends this process, with
 * a line that says which run it was.
 */

#define MOST 10000 /* records that are read at once */

/* Stamps for which a large buffer has room. */
#define MOST_STAMPS 1000

enum { WRAP, SIGNAL, STOP };

/* The random choices of this run, and its progress. */
struct run {
	uint64_t seed;
	uint32_t size, flags, mode; /* of the buffer, in records */
	bool large;		    /* every buffer has room for everything, but for more stamps */
	bool branches;		    /* there is a buffer of branches */
	bool exact;		    /* it holds nothing but branches that stepping shows */
	bool cpus;		    /* all CPUs are traced as well */
	unsigned second;	    /* 1: another process traces it as well; 2: this is that one */
	unsigned process, forks;    /* its number; the children that it has by now */
	long pid;
	uint32_t taken; /* branches that the child has */
	unsigned dies;	/* of this signal, or 0 */
	bool goes;	/* it was continued already */
	uint32_t lost;	/* branches that found no room, or were overwritten */
};
extern struct run run;

/* What was done. */
extern struct figures {
	uint64_t stops, calls, samples, packets, marks;
} figures;

/* Says that something is missing in a buffer, why, and how much: only a buffer that is too small
   may have such a mark. */
void mark(const char *cause, uint64_t lost);

/* The records to be read, oldest first; contents_find() adds, contents_drop() removes. */
extern struct ptrace_bts_record contents[MOST];
extern uint32_t contents_count;

/* Records that were compared. */
extern uint64_t compared;

void say_value(const char *name, uint64_t value);

/* End this process: always; unless both are the same. */
_Noreturn void wrong(const char *what, uint64_t is, uint64_t should_be);
void expect(const char *what, uint64_t is, uint64_t should_be);
void expect_same(const char *what, const struct ptrace_bts_record *is,
		 const struct ptrace_bts_record *should_be, uint64_t place);

/* PTRACE_BTS_READ or DRAIN of `most` records. */
long copy_records(long request, struct ptrace_bts_record *to, uint64_t most);

/* The buffer is new, or was cleared. */
void contents_clear(void);

/* The child has taken all branches before `taken`. */
void contents_go(uint32_t taken);

/* Finds what there is to read: as the model has it, or, unless run.exact, by READ and a check. */
void contents_find(void);

/* The `count` oldest were removed. */
void contents_drop(uint32_t count);

/* The buffer is about to go: a mark if branches are missing in it, or were. */
void contents_end(void);

/* The bits of losses that STATUS has to have; in `*known` those that are certain. */
uint32_t contents_states(uint32_t *known);

/* --- The debugger's random choices; a number below `below` --- */

extern uint64_t random_state;
uint32_t random(uint32_t below);

/* --- Requests: requests.c --- */

/* Chooses a buffer; asks for it. */
void draw_buffer(bool privileged);
void configure(void);

/* Makes so many requests at random, of a stopped child. */
void use_buffer(uint32_t calls, bool can_configure);

/* All that is there: read; read and dropped, or (not all) some of it. */
void read_all(void);
void drain(bool all);

/* What the buffer is like, and whether anything is missing. */
void ask_status(void);

/* Samples of the child, perhaps; and what there is of them at a stop at which it has taken
   run.taken branches. */
void take_samples(void);
void read_samples(void);

/* The child has ended: a mark if any are missing. */
void samples_end(void);

/* --- Packets: packets.c --- */

/* Has the child traced by Intel PT, perhaps. False: branches cannot be traced beside. */
bool packets_begin(void);

/* Process `parent` has a child. */
void packets_forked(unsigned process, unsigned parent, long pid);

/* Reads what can be read while a child runs, and perhaps, at a stop, ends a trace and begins
   another. */
void packets_read(void);
void packets_stopped(void);

/* This process has ended. */
void packets_ended(void);

/* All have: compares what is left, and ends the trace. */
void packets_end(void);
