/* SPDX-License-Identifier: MIT */
/* Replaces drivers/mmio.h on the host, where the test that links the driver plays the device. */
#pragma once

#include <stdint.h>

volatile void *mmio_map(uint64_t physical, uint64_t bytes);
const void *physical_map(uint64_t physical, uint64_t bytes);
uint32_t mmio_read32(const volatile void *base, uint32_t offset);
void mmio_write32(volatile void *base, uint32_t offset, uint32_t value);
