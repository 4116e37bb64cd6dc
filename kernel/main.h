/* SPDX-License-Identifier: MIT */
#pragma once

#include "abi/boot_info.h"
#include "drivers/processor.h"

#include <stdint.h>

/* From the 32-bit entry (boot/entry.asm): what the loader left in EAX and EBX. */
_Noreturn void kernel_main(uint32_t magic, uint64_t information);

/* The first task. The payload that the kernel is linked with provides it. */
void init(void *argument);

/* banner.c: prints kernel, loader and machine as lines of `# key=value`, before any result. */
void banner_print(const struct boot_info *info);

/* What the boot CPU, or another that asks, says of itself; texts are printable. Any context. */
struct processor {
	struct cpuid_signature signature;
	uint64_t microcode;
	char vendor[13], name[49];
};
void banner_processor(struct processor *processor);
