/* SPDX-License-Identifier: MIT */
/* For qrcodegen.c in a kernel: all that it needs of <string.h> is in lib/. */
#ifndef SPOOR_QRCODEGEN_STRING_H
#define SPOOR_QRCODEGEN_STRING_H

#include "lib/string.h"

#endif
