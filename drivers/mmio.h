/* SPDX-License-Identifier: MIT */
/*
 * Physical memory as drivers reach it. The kernel implements both mappings (kernel/mm); host
 * tests define the same names.
 */
#pragma once

#include <stdint.h>

/*
 * Device registers: uncached, writable, mapped permanently. NULL if they cannot be mapped. Not in
 * an interrupt or NMI.
 */
volatile void *mmio_map(uint64_t physical, uint64_t bytes);

/*
 * Firmware's tables in memory, to be read only, mapped permanently. NULL if [physical, physical +
 * bytes) is not memory that can be read. Not in an interrupt or NMI.
 */
const void *physical_map(uint64_t physical, uint64_t bytes);

static inline uint32_t mmio_read32(const volatile void *base, uint32_t offset)
{
	return *(const volatile uint32_t *)((uintptr_t)base + offset);
}

static inline void mmio_write32(volatile void *base, uint32_t offset, uint32_t value)
{
	*(volatile uint32_t *)((uintptr_t)base + offset) = value;
}
