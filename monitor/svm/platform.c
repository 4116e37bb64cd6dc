/* SPDX-License-Identifier: MIT */
/* What the interpreter reaches outside the processor: the machine itself. */
#include "lib/io.h"
#include "monitor/host/cpu.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/guest.h"

uint64_t platform_read_cr8(struct vcpu *vcpu)
{
	(void)vcpu;
	return read_cr8();
}

void platform_write_cr8(struct vcpu *vcpu, uint64_t value)
{
	(void)vcpu;
	write_cr8(value);
}

uint32_t platform_in(struct vcpu *vcpu, uint16_t port, unsigned bytes)
{
	(void)vcpu;
	if (bytes == 1)
		return inb(port);
	return bytes == 2 ? inw(port) : inl(port);
}

void platform_out(struct vcpu *vcpu, uint16_t port, unsigned bytes, uint32_t value)
{
	(void)vcpu;
	if (bytes == 1)
		outb(port, (uint8_t)value);
	else if (bytes == 2)
		outw(port, (uint16_t)value);
	else
		outl(port, value);
}
