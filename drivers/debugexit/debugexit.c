// SPDX-License-Identifier: MIT
#include "drivers/debugexit/debugexit.h"
#include "drivers/acpi/acpi.h"
#include "drivers/clock/clock.h"
#include "drivers/processor.h"
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

/* Soft off, ACPI 6.5 sections 4.8.3.2 and 16.1.7. */

#define SCI_EN	       (1u << 0)
#define SLP_TYP_SHIFT  10
#define SLP_TYP_MASK   (7u << SLP_TYP_SHIFT)
#define SLP_EN	       (1u << 13)
#define ENABLE_POLLS   300 /* of 10 ms */
#define ENABLE_POLL_US 10000

/* Firmware owns the power registers until it has handed them over. */
static void enter_acpi_mode(const struct acpi_power *power)
{
	if (!power->smi_command_port || !power->acpi_enable ||
	    (inw(power->pm1a_control_port) & SCI_EN))
		return;
	outb(power->smi_command_port, power->acpi_enable);
	for (unsigned i = 0; i < ENABLE_POLLS && !(inw(power->pm1a_control_port) & SCI_EN); i++)
		delay_us(ENABLE_POLL_US);
}

static void sleep(uint16_t port, uint8_t type)
{
	const uint16_t kept = inw(port) & (uint16_t) ~(SLP_TYP_MASK | SLP_EN);
	const uint16_t with_type = (uint16_t)(kept | type << SLP_TYP_SHIFT);

	outw(port, with_type);
	outw(port, (uint16_t)(with_type | SLP_EN));
}

void machine_poweroff(void)
{
	const struct acpi_power *power = acpi_power();

	__asm__ volatile("cli");
	if (power->has_s5 && power->pm1a_control_port) {
		enter_acpi_mode(power);
		sleep(power->pm1a_control_port, power->s5_type_a);
		if (power->pm1b_control_port)
			sleep(power->pm1b_control_port, power->s5_type_b);
	}
	machine_halt();
}

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

	if (power->has_reset && power->reset_register.space == ACPI_IO_PORT &&
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
	static const struct table_pointer none = {0, 0};

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
