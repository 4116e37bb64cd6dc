/* SPDX-License-Identifier: MIT */
/* A session of Intel PT as a test has it, by the kernel's interface. */
#pragma once

#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "kernel/cpu.h"
#include "kernel/trace/pt/insntrace.h"
#include "tests/framework/test.h"

/* Everything that branches. */
#define INSNTRACE_ALL (RTIT_CTL_OS | RTIT_CTL_USER | RTIT_CTL_BRANCH_EN)

/* `chunks` of 4 KiB << `order`, at most one where the processor has tables of one only. */
struct insntrace_config insntrace_config(unsigned chunks, unsigned order, unsigned flags);

/* A session of all CPUs, each with a buffer of `config`. Ends the test if that fails. */
void insntrace_open(struct trace_account *owner, const struct insntrace_config *config);

/* Stops it if it is started, and ends it. */
void insntrace_close(struct trace_account *owner);

/* Copies what descriptor `n` has, from `offset` on: the number of bytes. */
size_t insntrace_copy(struct trace_account *owner, unsigned n, uint64_t offset, uint8_t *to,
		      size_t bytes);

/* The targets of indirect branches in the packets of a trace, and how often each is there. */
struct insntrace_targets {
	size_t count, bytes;
	bool kernel; /* some packet has an address in the kernel's half */
	bool lost;   /* packets, by an overflow of the processor's */
	struct {
		uint64_t ip;
		unsigned times;
	} target[64];
};

/* Of bytes that begin with a packet, where a trace begins or at a PSB. A check fails where a packet
   is not legal there. */
struct insntrace_targets insntrace_targets_of(const uint8_t *packets, size_t bytes);

/* Of what descriptor `n` holds. */
struct insntrace_targets insntrace_targets(struct trace_account *owner, unsigned n);

/* The times that packets go to `ip`. */
unsigned insntrace_times(const struct insntrace_targets *targets, uint64_t ip);

/* The times that they go to their most frequent target, `*ip`; a check fails if `kernel` is set. */
unsigned insntrace_most(const struct insntrace_targets *targets, uint64_t *ip);

/* How many CPUs have IA32_RTIT_CTL.TraceEn set. */
unsigned insntrace_traced_cpus(void);

/*
 * Whether a session can have `buffers`, each of so many chunks of 4 KiB << `order`. No session is
 * open before and after.
 */
bool insntrace_can_have(unsigned buffers, uint64_t chunks, unsigned order);

/*
 * Chunks of the largest buffer that a session can have, of order INSNTRACE_ORDER_MOST: as many as a
 * buffer may have, or the runs of that order less those that the session's own pages take. Without
 * Intel PT, the runs. No session is open before and after.
 */
uint64_t insntrace_largest(void);

/* Jumps indirectly `n` times, which takes three bytes of packets each time and more; to where. */
uint64_t insntrace_jump(unsigned n);
