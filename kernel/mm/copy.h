/* SPDX-License-Identifier: MIT */
/*
 * Copies from and to the memory of ring 3 in the address space that is loaded. The range is checked
 * before anything is touched; a page that is not there, or has not the rights, is -EFAULT, and what
 * was copied until then stays. The task of a process, in its system call.
 */
#ifndef SPOOR_KERNEL_MM_COPY_H
#define SPOOR_KERNEL_MM_COPY_H

#include <stddef.h>
#include <stdint.h>

int copy_from_user(void *to, uint64_t from, size_t bytes);
int copy_to_user(uint64_t to, const void *from, size_t bytes);

/* Copies a string of less than `size` characters and its NUL. -EINVAL if it is longer. */
int strncpy_from_user(char *to, uint64_t from, size_t size);

#endif
