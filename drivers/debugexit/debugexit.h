/* SPDX-License-Identifier: MIT */
/* How a machine is left. Nothing here returns; any context; interrupts go off. */
#pragma once

#include <stdint.h>

/* QEMU's isa-debug-exit at port F4H: QEMU exits with 2 * value + 1. Halts where there is none. */
_Noreturn void debug_exit(uint8_t value);

/* Tries ACPI's reset register, the keyboard controller, the chip set, a triple fault. */
_Noreturn void machine_reboot(void);

/* ACPI soft off (S5), the first time after acpi_init(). Halts where that does nothing. */
_Noreturn void machine_poweroff(void);

_Noreturn void machine_halt(void);
