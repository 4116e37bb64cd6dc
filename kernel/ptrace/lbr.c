// SPDX-License-Identifier: MIT
// The newest branches of a tracee: which are kept; what is read of them.
#include "kernel/cpu.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/lbr/branch_stack.h"

#define BRANCH sizeof(struct ptrace_lbr_branch)

static int configure(struct attachment *at, const struct ptrace_lbr_config *config)
{
	const struct branch_stack_options options = {
		.flags = config->flags,
		.kinds = config->kinds,
		.entries = config->entries,
		.privileged = ptrace_may_see_kernel(at),
		.account = ptrace_account(at),
		.replaces = at->recordings[TRACE_LBR].tracer,
	};
	struct tracer *fresh = NULL;
	int error = 0;

	if (config->entries && config->branch_size && config->branch_size != BRANCH)
		return -EINVAL;
	if (config->entries)
		error = branch_stack_attach(at->task, at->cpu, &options, &fresh);
	if (error)
		return error;
	attachment_replace(at, TRACE_LBR, fresh);
	if (fresh) /* beside the one that it replaces it may have recorded what that wanted */
		trace_clear(fresh);
	return 0;
}

static long do_config(const struct ptrace_call *call)
{
	struct ptrace_lbr_config config;
	int error;

	if (call->data != sizeof(config))
		return -EINVAL;
	if (copy_from_user(&config, call->address, sizeof(config)))
		return -EFAULT;
	error = configure(call->at, &config);
	return error ? error : (long)sizeof(config);
}

static long do_status(const struct ptrace_call *call)
{
	struct ptrace_lbr_config config;

	if (call->data != sizeof(config))
		return -EINVAL;
	config = branch_stack_status(call->tracer);
	return ptrace_give(call, &config, sizeof(config));
}

_Static_assert(READ_MOST >= 32 * BRANCH, "the entries of any processor");
static const struct ptrace_row rows[] = {
	{PTRACE_LBR_CONFIG, NEEDS_STOPPED, do_config},
	{PTRACE_LBR_STATUS, NEEDS_READABLE, do_status},
	{PTRACE_LBR_CLEAR, NEEDS_BUFFER, ptrace_clear},
	{PTRACE_LBR_READ, NEEDS_BUFFER, ptrace_read_newest},
};
const struct ptrace_unit ptrace_lbr_unit = {.unit = TRACE_LBR, .record = BRANCH, PTRACE_ROWS(rows)};
