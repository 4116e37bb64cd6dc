/* SPDX-License-Identifier: MIT */
/* For qrcodegen.c in a kernel: the one limit that it uses, without the C library's header. */
#ifndef SPOOR_QRCODEGEN_LIMITS_H
#define SPOOR_QRCODEGEN_LIMITS_H

#define LONG_MAX __LONG_MAX__

#endif
