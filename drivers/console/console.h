/* SPDX-License-Identifier: MIT */
/*
 * The devices of the console, of kernel and monitor alike: serial ports, a virtio console,
 * QEMU's debug console, the screen. One console an image. The caller serialises; console_open() and
 * console_move() belong to the boot of the first CPU, the others to any context.
 */
#pragma once

#include "lib/boot_info.h"

#include <stdbool.h>
#include <stdint.h>

/* The words of console_open(), to be listed. */
#define CONSOLE_WORDS                                                                              \
	"auto com1..com4 io,PORT mmio,ADDRESS mmio32,ADDRESS acpi pci virtio debugcon screen none"

/*
 * Opens the devices that `list` names, separated by commas, and closes all others:
 *
 *	auto			all of the following that answer
 *	com1..com4		3F8H, 2F8H, 3E8H, 2E8H; ttyS0..ttyS3 are the same
 *	acpi			what the tables SPCR and DBG2 name
 *	pci			the serial ports on PCI
 *	virtio			the first virtio console on PCI; hvc0 is the same
 *	debugcon		QEMU's debug console, port E9H
 *	screen			framebuffer or text screen
 *	io,PORT			a 16550 at another I/O port
 *	mmio,ADDRESS		one in memory, registers of a byte
 *	mmio32,ADDRESS		one in memory, registers of 4 bytes
 *	none			nothing
 *
 * A number after a serial port is its speed; without one `baud` counts (one that uart_can_give())
 * for com1..com4 and pci, and what firmware has set for the others. A device twice in the list is
 * opened once. Where nothing in a list without `none` can be used, `auto` is opened. `memory` gives
 * access to registers, tables and framebuffer now; what it cannot reach waits for console_move().
 * `info` has to stay where it is until then; its RSDP is looked for as acpi_find_rsdp() does.
 *
 * Returns sentences, separated by "; ", on each word that could not be followed and on firmware's
 * mistakes, or "".
 */
const char *console_open(const char *list, uint32_t baud, struct boot_info *info,
			 boot_memory memory);

/* Reaches the devices in memory by `memory` from here on. Returns sentences as console_open(). */
const char *console_move(boot_memory memory);

/* The devices in use, as "com1,pci-00:03.0,debugcon,screen", or "none". */
const char *console_names(void);

/* Sends a text, newlines as CR LF, to all but the screen. */
void console_write(const char *text);

/* Whether the serial port at I/O port `base` is one of the devices, whatever it was named by. */
bool console_has_port(uint16_t base);

/* The name of a serial port or virtio console that has stopped taking characters since the last
 * call, or NULL. */
const char *console_lost(void);

/* Whether the screen is one of the devices (drivers/console/screen.h). */
bool console_has_screen(void);

/* Where an object of this image is in physical memory now. Each image has its own. */
uint64_t console_physical(const void *object);

/* Waits until everything has left the machine. */
void console_flush(void);
