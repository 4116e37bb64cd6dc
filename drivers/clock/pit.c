/* SPDX-License-Identifier: MIT */
#include "drivers/clock/pit.h"
#include "lib/io.h"

#define CHANNEL_2 0x42
#define CONTROL	  0x43
#define PORT_B	  0x61 /* of the PC's system control: bit 0 gate of channel 2, bit 1 speaker */
#define GATE	  0x01u
#define SPEAKER	  0x02u
#define MODE_0	  0xb0 /* channel 2, low byte then high byte, mode 0, binary */
#define LATCH	  0x80 /* channel 2 */
#define FREQUENCY 1193182u

static uint32_t read(void)
{
	outb(CONTROL, LATCH);
	const uint32_t low = inb(CHANNEL_2);
	return UINT32_MAX - (low | (uint32_t)inb(CHANNEL_2) << 8); /* it counts down */
}

static const struct reference reference = {"pit", FREQUENCY, 0xffff, read};

const struct reference *pit_start(void)
{
	outb(PORT_B, (uint8_t)((inb(PORT_B) & ~(GATE | SPEAKER)) | GATE));
	outb(CONTROL, MODE_0);
	outb(CHANNEL_2, 0xff);
	outb(CHANNEL_2, 0xff);
	return &reference;
}
