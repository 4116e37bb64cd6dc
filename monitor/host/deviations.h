/* SPDX-License-Identifier: MIT */
/*
 * Where the processor that the monitor runs on deviates from the manual, found by trying: an
 * emulator's version says nothing of a patched one.
 */
#pragma once

#include <stdint.h>

/* Steps a repeated string instruction, says what deviates, and returns that (enum deviation). On
   the first processor, before there is a guest. */
unsigned deviations_probe(void);

/* A #DB of the monitor itself, with RCX and RFLAGS as they were pushed. */
void deviations_trap(uint64_t rip, uint64_t rcx, uint64_t rflags);
