/* SPDX-License-Identifier: MIT */
/* Branch trace as a user program sees it. */
#ifndef SPOOR_ABI_PTRACE_BTS_H
#define SPOOR_ABI_PTRACE_BTS_H

#include <stdint.h>

enum {
	PTRACE_BTS_BRANCH = 1,
	PTRACE_BTS_TASK_ARRIVES = 2, /* recording begins on a CPU */
	PTRACE_BTS_TASK_DEPARTS = 3, /* recording ends there */
};

struct ptrace_bts_record {
	uint64_t qualifier;
	union {
		struct {
			uint64_t from, to; /* linear addresses */
		};
		struct {
			uint64_t tsc;
			uint64_t pid_cpu; /* pid | cpu << 32 */
		};
	};
};
_Static_assert(sizeof(struct ptrace_bts_record) == 24, "the interface");

#endif
