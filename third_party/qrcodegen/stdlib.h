/* SPDX-License-Identifier: MIT */
/* For qrcodegen.c in a kernel: the two functions of <stdlib.h> that it calls. */
#ifndef SPOOR_QRCODEGEN_STDLIB_H
#define SPOOR_QRCODEGEN_STDLIB_H

#define abs(value)  __builtin_abs(value)
#define labs(value) __builtin_labs(value)

#endif
