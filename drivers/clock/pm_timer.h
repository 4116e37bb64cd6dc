/* SPDX-License-Identifier: MIT */
/* ACPI power management timer (ACPI 6.5 section 4.8.3.3). */
#ifndef SPOOR_DRIVERS_PM_TIMER_H
#define SPOOR_DRIVERS_PM_TIMER_H

#include "drivers/clock/reference.h"

/* NULL: ACPI names none. After acpi_init(). */
const struct reference *pm_timer_find(void);

#endif
