/* SPDX-License-Identifier: MIT */
/* The PC's two 8259 interrupt controllers, which this kernel does not use. */
#ifndef SPOOR_DRIVERS_PIC_H
#define SPOOR_DRIVERS_PIC_H

/*
 * Moves their vectors to 20H-2FH, where even a spurious one hits no exception, and masks every
 * input. Only where acpi_has_8259(). Boot, with IF = 0.
 */
void pic_disable(void);

#endif
