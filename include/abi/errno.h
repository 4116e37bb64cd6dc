/* SPDX-License-Identifier: MIT */
/* Error numbers of the system call interface, with Linux's values. Functions return them negated.
 */
#pragma once

enum {
	EPERM = 1,	 /* not the holder, or no right to it */
	ENOENT = 2,	 /* no such thing */
	ESRCH = 3,	 /* no such task, or not in the state the request needs */
	EINTR = 4,	 /* a signal came first */
	EIO = 5,	 /* structure too small, or an address of the tracee that is not there */
	ENXIO = 6,	 /* no buffer */
	ENOEXEC = 8,	 /* not a program that can be run */
	EBADF = 9,	 /* no such descriptor */
	ECHILD = 10,	 /* no child to wait for */
	EAGAIN = 11,	 /* not now */
	ENOMEM = 12,	 /* no memory, or over the limit */
	EFAULT = 14,	 /* bad user address */
	EBUSY = 16,	 /* in use by another */
	EEXIST = 17,	 /* there already */
	ENODEV = 19,	 /* the hardware is not there */
	EINVAL = 22,	 /* a value out of range */
	ENOSPC = 28,	 /* full */
	EPIPE = 32,	 /* what is next does not follow what was read */
	ENOSYS = 38,	 /* no such call */
	EBADFD = 77,	 /* not in the state that the call needs */
	EOPNOTSUPP = 95, /* the hardware cannot do that */
	ETIMEDOUT = 110, /* it took too long */
};
