/* SPDX-License-Identifier: MIT */
/* The first task. Whatever the kernel is linked with provides it; the kernel knows no more of it.
 */
#ifndef SPOOR_KERNEL_INIT_H
#define SPOOR_KERNEL_INIT_H

void init(void *argument);

#endif
