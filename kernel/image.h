/* SPDX-License-Identifier: MIT */
/* Where the linker put the parts of the kernel (linker.ld). */
#ifndef SPOOR_KERNEL_IMAGE_H
#define SPOOR_KERNEL_IMAGE_H

#include <stdint.h>

#define KERNEL_BASE 0xffffffff80000000ul
#define KERNEL_LOAD 0x100000ul

extern const uint8_t text_start[], text_end[], rodata_end[];
extern uint8_t kernel_end[];

#endif
