/* SPDX-License-Identifier: MIT */
/* x86 port I/O: inb(), inw(), inl(), outb(), outw(), outl(). CPL 0 only; any context. */
#pragma once

#include <stdint.h>

#define PORT_ACCESS(suffix, type)                                                                  \
	static inline type in##suffix(uint16_t port)                                               \
	{                                                                                          \
		type value;                                                                        \
		__asm__ volatile("in" #suffix " %1, %0" : "=a"(value) : "Nd"(port));               \
		return value;                                                                      \
	}                                                                                          \
	static inline void out##suffix(uint16_t port, type value)                                  \
	{                                                                                          \
		__asm__ volatile("out" #suffix " %0, %1" : : "a"(value), "Nd"(port));              \
	}
PORT_ACCESS(b, uint8_t)
PORT_ACCESS(w, uint16_t)
PORT_ACCESS(l, uint32_t)
