/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#ifndef SPOOR_KERNEL_PTRACE_INTERNAL_H
#define SPOOR_KERNEL_PTRACE_INTERNAL_H

#include "kernel/ptrace/attachment.h"
#include "kernel/ptrace/ptrace.h"

/* A page of zeroes; NULL when memory is out. One that is not linked is freed without more. */
struct attachment *attachment_create(void);
void attachment_free(struct attachment *attachment);

/* The parent of `self` becomes its tracer. -EPERM, -ENOMEM. */
long ptrace_traceme(struct process *self);

/* Registers as the call has them, at `user` in the caller's memory. -ESRCH, -EFAULT, -EIO. */
long ptrace_get_registers(struct attachment *attachment, uint64_t user);
long ptrace_set_registers(struct attachment *attachment, uint64_t user);

/* Of a buffer that there is, to `user`, which has room for `bytes`. -EFAULT, -EINVAL, -EIO. */
long bts_get(struct attachment *attachment, uint64_t user, uint64_t index);
long bts_read(struct attachment *attachment, uint64_t user, uint64_t bytes, bool remove);
long bts_clear(struct attachment *attachment);

/* Stops or goes on with recording; an error cannot be. */
void bts_pause(struct attachment *attachment, bool pause);

#endif
