/* SPDX-License-Identifier: MIT */
/* Physical memory is where the test says. */
#pragma once

#define direct direct_of_the_machine
#include_next "monitor/memory.h"
#undef direct

void *direct(uint64_t physical);
