/* SPDX-License-Identifier: MIT */
/*
 * The branches of the program that generate() made last, in order, as single-stepping shows them.
 * They are numbered from 0.
 */
#ifndef SPOOR_TESTS_USER_LIB_CONTENTS_H
#define SPOOR_TESTS_USER_LIB_CONTENTS_H

#include "abi/ptrace_bts.h"
#include "tests/user/lib/generated.h"
#include "tests/user/lib/ptrace.h"

#define EXPECTED_MOST 8192

/* Steps a child through the program, to its end. */
void expected_find(void);

/* How many there are. */
uint32_t expected_count(void);

/* The branch `number` as a record. */
struct ptrace_bts_record expected_branch(uint32_t number);

/* How many a child with these registers has taken. */
uint32_t expected_taken(const struct ptrace_registers *registers);

/*
 * The contents that the buffer of a debugged program has to have. A model of the buffer goes on
 * with the branches that expected_find() found; what does not agree with it ends this process, with
 * a line that says which run it was.
 */

#define MOST EXPECTED_MOST /* records that are read at once */

enum { WRAP, SIGNAL, STOP };

/* The random choices of this run, and its progress. */
struct run {
	uint64_t seed;
	uint32_t size, flags, mode; /* of the buffer, in records */
	bool exact;		    /* it holds nothing but branches that stepping shows */
	bool cpus;		    /* all CPUs are traced as well */
	unsigned second;	    /* 1: another process traces it as well; 2: this is that one */
	long pid;
	uint32_t taken; /* branches that the child has */
	unsigned dies;	/* of this signal, or 0 */
};
extern struct run run;

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

/* The bits of losses that STATUS has to have; in `*known` those that are certain. */
uint32_t contents_states(uint32_t *known);

#endif
