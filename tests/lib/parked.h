/* SPDX-License-Identifier: MIT */
/* A CPU that a test takes through INIT. */
#pragma once

#include <stdbool.h>

/*
 * Takes this CPU, not the boot CPU, through INIT: waits in a loop of one branch until another CPU
 * calls cpu_unpark(), and returns when it has been started again. `started(argument)` is called
 * before anything of what INIT left is set: no per-CPU data, no IDT. IF = 0, preemption off, the
 * debug MSRs borrowed (ds_checkout()); what INIT did to them is the caller's to see to. One CPU at
 * a time.
 */
void cpu_park(void (*started)(void *argument), void *argument);

/*
 * Sends INIT to CPU `index`, which waits in cpu_park(), and starts it again (SDM Vol 3, 8.4.4.1).
 * False: it does not wait there, or did not return from there within two seconds. Task context.
 */
bool cpu_unpark(unsigned index);
