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

#endif
