/* SPDX-License-Identifier: MIT */
/* Soft off, ACPI 6.5 sections 4.8.3.2 and 16.1.7. */
#include "drivers/acpi/acpi.h"
#include "drivers/clock/clock.h"
#include "drivers/debugexit/debugexit.h"
#include "lib/io.h"

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
	if (power && power->has_s5 && power->pm1a_control_port) {
		enter_acpi_mode(power);
		sleep(power->pm1a_control_port, power->s5_type_a);
		if (power->pm1b_control_port)
			sleep(power->pm1b_control_port, power->s5_type_b);
	}
	machine_halt();
}
