/* SPDX-License-Identifier: MIT */
/*
 * A tracer's buffer of branches, as its requests have it. Its caller is the tracer; the tracee is
 * stopped for it or, for all but _config(), has ended. Errors as in docs/ptrace-bts.2.
 */
#pragma once

#include "abi/ptrace_bts.h"
#include "kernel/ptrace/ptrace.h"

long ptrace_bts_config(struct attachment *attachment, const struct ptrace_bts_config *config);
void ptrace_bts_status(struct attachment *attachment, struct ptrace_bts_config *config);
