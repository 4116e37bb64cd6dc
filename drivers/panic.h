/* SPDX-License-Identifier: MIT */
/*
 * How a driver ends on an error of its caller that it cannot return. A program that links drivers
 * supplies it: the kernel its panic(), a host test its own.
 */
#ifndef SPOOR_DRIVERS_PANIC_H
#define SPOOR_DRIVERS_PANIC_H

/* Any context, NMI included. */
_Noreturn void panic(const char *template, ...) __attribute__((format(printf, 1, 2)));

#endif
