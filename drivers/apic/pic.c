/* SPDX-License-Identifier: MIT */
#include "drivers/apic/pic.h"
#include "lib/io.h"

#include <stdint.h>

#define COMMAND 0x20 /* of the first controller; data at +1, the second at +80H */
#define SECOND	0x80

static void initialize(uint16_t offset, uint8_t vector, uint8_t cascade)
{
	outb((uint16_t)(COMMAND + offset), 0x11);	 /* ICW1: four words, cascaded, edge */
	outb((uint16_t)(COMMAND + offset + 1), vector);	 /* ICW2 */
	outb((uint16_t)(COMMAND + offset + 1), cascade); /* ICW3 */
	outb((uint16_t)(COMMAND + offset + 1), 0x01);	 /* ICW4: 8086 mode */
	outb((uint16_t)(COMMAND + offset + 1), 0xff);	 /* OCW1: all masked */
}

void pic_disable(void)
{
	initialize(0, 0x20, 1u << 2);
	initialize(SECOND, 0x28, 2);
}
