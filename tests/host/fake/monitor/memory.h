/* SPDX-License-Identifier: MIT */
/* Physical memory is where the test says. */
#ifndef SPOOR_FAKE_MONITOR_MEMORY_H
#define SPOOR_FAKE_MONITOR_MEMORY_H

#define direct direct_of_the_machine
#include_next "monitor/memory.h"
#undef direct

void *direct(uint64_t physical);

#endif
