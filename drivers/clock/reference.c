// SPDX-License-Identifier: MIT
#include "drivers/clock/reference.h"
#include "drivers/acpi/acpi.h"
#include "lib/io.h"

#include <stddef.h>

#define CHANNEL_2     0x42
#define CONTROL	      0x43
#define PORT_B	      0x61 /* of the PC's system control: bit 0 gate of channel 2, bit 1 speaker */
#define GATE	      0x01u
#define SPEAKER	      0x02u
#define MODE_0	      0xb0 /* channel 2, low byte then high byte, mode 0, binary */
#define LATCH	      0x80 /* channel 2 */
#define PIT_FREQUENCY 1193182u

static uint32_t read_pit(void)
{
	outb(CONTROL, LATCH);
	const uint32_t low = inb(CHANNEL_2);
	return UINT32_MAX - (low | (uint32_t)inb(CHANNEL_2) << 8); /* it counts down */
}

static const struct reference pit = {"pit", PIT_FREQUENCY, 0xffff, read_pit};

const struct reference *pit_start(void)
{
	outb(PORT_B, (uint8_t)((inb(PORT_B) & ~(GATE | SPEAKER)) | GATE));
	outb(CONTROL, MODE_0);
	outb(CHANNEL_2, 0xff);
	outb(CHANNEL_2, 0xff);
	return &pit;
}

#define PM_TIMER_FREQUENCY 3579545u

static uint16_t pm_timer_port;

static uint32_t read_pm_timer(void)
{
	return inl(pm_timer_port);
}

static const struct reference pm_timer = {"pm_timer", PM_TIMER_FREQUENCY, 0xffffff, read_pm_timer};

const struct reference *pm_timer_find(void)
{
	pm_timer_port = acpi_power()->pm_timer_port;
	return pm_timer_port ? &pm_timer : NULL;
}
