/* SPDX-License-Identifier: MIT */
/* What ran where: lines of `# key=value` before any result. */
#ifndef SPOOR_KERNEL_BANNER_H
#define SPOOR_KERNEL_BANNER_H

#include "abi/boot_info.h"

void banner_print(const struct boot_info *info);

#endif
