/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#ifndef SPOOR_KERNEL_SMP_INTERNAL_H
#define SPOOR_KERNEL_SMP_INTERNAL_H

void smp_init_calls(void);
void smp_init_stop(void);

#endif
