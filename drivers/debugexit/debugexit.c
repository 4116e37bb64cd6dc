/* SPDX-License-Identifier: MIT */
#include "drivers/debugexit/debugexit.h"
#include "lib/io.h"

#define PORT 0xf4

void debug_exit(uint8_t value)
{
	outb(PORT, value);
	machine_halt();
}

void machine_halt(void)
{
	/* An NMI or SMI ends a HLT. */
	for (;;)
		__asm__ volatile("cli; hlt");
}
