/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#ifndef SPOOR_KERNEL_PTRACE_INTERNAL_H
#define SPOOR_KERNEL_PTRACE_INTERNAL_H

#include "kernel/process/attachment.h"
#include "kernel/ptrace/ptrace.h"

/* The parent of `self` becomes its tracer. -EPERM, -ENOMEM. */
long ptrace_traceme(struct process *self);

/* Registers as the call has them, at `user` in the caller's memory. -ESRCH, -EFAULT, -EIO. */
long ptrace_get_registers(struct attachment *attachment, uint64_t user);
long ptrace_set_registers(struct attachment *attachment, uint64_t user);

/* One register, at `address` of struct user. -ESRCH, -EIO; to or from `user`: -EFAULT. */
long ptrace_peek_register(struct attachment *attachment, uint64_t address, uint64_t user);
long ptrace_poke_register(struct attachment *attachment, uint64_t address, uint64_t value);

/* Of a stopped tracee, as the calls have it. -EINVAL, -EFAULT. */
long ptrace_set_options(struct attachment *attachment, uint64_t options);
long ptrace_get_message(struct attachment *attachment, uint64_t user);
long ptrace_get_siginfo(struct attachment *attachment, uint64_t user);

/* Of a buffer that there is, to `user`, which has room for `bytes`. -EFAULT, -EINVAL, -EIO. */
long ptrace_bts_get(struct attachment *attachment, uint64_t user, uint64_t index);
long ptrace_bts_read(struct attachment *attachment, uint64_t user, uint64_t bytes, bool remove);
long ptrace_bts_clear(struct attachment *attachment);

/*
 * The buffer of samples. CONFIG writes the name of the holder that it is refused for (EBUSY) to
 * config->holder. The others need a buffer. Errors as in the manual page docs/ptrace-pebs.2.
 */
long ptrace_pebs_config(struct attachment *attachment, struct ptrace_pebs_config *config);
void ptrace_pebs_status(struct attachment *attachment, struct ptrace_pebs_config *config);
long ptrace_pebs_read(struct attachment *attachment, uint64_t user, uint64_t bytes, bool remove);
long ptrace_pebs_clear(struct attachment *attachment);

/* -EFAULT unless `bytes` can be stored at `user`: nothing is changed. */
int ptrace_check_writable(uint64_t user, size_t bytes);

/* Whether the tracer has the right to kernel addresses. */
bool ptrace_may_see_kernel(const struct attachment *attachment);

/* A tracer's `overflowed`: the tracee of its attachment stops as soon as it looks. */
void ptrace_stop_at_threshold(struct tracer *tracer, void *attachment);

/* SYS_insntrace, of which docs/insntrace.2 is the manual page. */
system_call call_insntrace;

#endif
