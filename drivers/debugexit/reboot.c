/* SPDX-License-Identifier: MIT */
#include "drivers/acpi/acpi.h"
#include "drivers/clock/clock.h"
#include "drivers/debugexit/debugexit.h"
#include "lib/io.h"

#define PATIENCE_US	   50000 /* for each way to take effect */
#define KEYBOARD	   0x64
#define KEYBOARD_BUSY	   0x02u
#define KEYBOARD_PULSE	   0xfe /* resets the processor */
#define RESET_CONTROL	   0xcf9
#define RESET_CONTROL_HARD 0x02
#define RESET_CONTROL_CPU  0x04 /* its rising edge does it */

/* One in memory space is left out: it would have to be mapped, and the last way works as well. */
static void by_acpi(void)
{
	const struct acpi_power *power = acpi_power();

	if (power && power->has_reset && power->reset_register.space == ACPI_IO_PORT &&
	    power->reset_register.address <= 0xffff)
		outb((uint16_t)power->reset_register.address, power->reset_value);
}

static void by_keyboard_controller(void)
{
	for (unsigned i = 0; i < 1000 && (inb(KEYBOARD) & KEYBOARD_BUSY); i++)
		delay_us(10);
	outb(KEYBOARD, KEYBOARD_PULSE);
}

static void by_chip_set(void)
{
	outb(RESET_CONTROL, RESET_CONTROL_HARD);
	outb(RESET_CONTROL, RESET_CONTROL_HARD | RESET_CONTROL_CPU);
}

/* With an empty IDT, an exception ends in shutdown, which boards turn into a reset. */
static void by_triple_fault(void)
{
	static const struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) none = {0, 0};

	__asm__ volatile("lidt %0; int3" : : "m"(none));
}

void machine_reboot(void)
{
	static void (*const ways[])(void) = {by_acpi, by_keyboard_controller, by_chip_set,
					     by_triple_fault};

	__asm__ volatile("cli");
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		ways[i]();
		delay_us(PATIENCE_US);
	}
	machine_halt();
}
