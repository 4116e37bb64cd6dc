/* SPDX-License-Identifier: MIT */
#include "drivers/clock/pm_timer.h"
#include "drivers/acpi/acpi.h"
#include "lib/io.h"

#include <stddef.h>

#define FREQUENCY 3579545u

static uint16_t port;

static uint32_t read(void)
{
	return inl(port);
}

static const struct reference reference = {"pm_timer", FREQUENCY, 0xffffff, read};

const struct reference *pm_timer_find(void)
{
	const struct acpi_power *power = acpi_power();

	if (!power || !power->pm_timer_port)
		return NULL;
	port = power->pm_timer_port;
	return &reference;
}
