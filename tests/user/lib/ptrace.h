/* SPDX-License-Identifier: MIT */
/* For a program that traces another; see docs/ptrace-bts.2. */
#pragma once

#include "abi/ptrace.h"
#include "abi/ptrace_bts.h"
#include "tests/user/lib/user.h"

#define RECORD	     sizeof(struct ptrace_bts_record)
#define EVENT(event) ((event) << 16)

long ptrace(long request, long pid, uint64_t address, uint64_t data);

/* Lets it go on, with a signal or 0. */
long go_on(long pid, unsigned signal);

/* A child that is traced by the caller and stopped, with SIGSTOP, about to call body(argument). */
long traced_child(void (*body)(uint64_t argument), uint64_t argument);

/* Waits until it stops or ends: the status. */
int next_stop(long pid);

/* The same, but the next call reports it again: the trace of a child that ended can be read. */
int peek_stop(long pid);

/*
 * Lets it go on until it ends with 0, and has `drain` read its trace at each stop, of which each
 * has to have the status `stop`, and at its end. Returns the stops.
 */
uint64_t run_to_end(long pid, int stop, void (*drain)(long pid));

/* Gives the tracer a buffer of `records`. */
long trace_branches(long pid, uint32_t records, uint32_t flags, uint32_t signal);

/* Ends a child that is traced: SIGKILL, and waits for it. */
void end_child(long pid);

/* Names for addresses of a program that has no table of symbols when it runs. */

/* For a function whose call and return shall be branches. */
#define NOINLINE __attribute__((noinline))

struct name {
	const void *start;
	const char *name;
};

/* The functions that the program wants to be told by name; the last entry is NULL. */
extern const struct name names[];

/* The function that `address` is in; NULL: none of these. */
const struct name *find_name(uint64_t address);

/* Adds to a line on the console: the function that `address` is in and the offset, or the address.
 */
void say_place(uint64_t address);
