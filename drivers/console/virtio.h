/* SPDX-License-Identifier: MIT */
/*
 * The output of a virtio console on PCI: port 0, without multiport (Virtual I/O Device 1.1, section
 * 5.3). Registers are reached through the PCI configuration access capability (4.1.4.7), so no
 * memory of the device has to be mapped. Kernel and monitor may both send to one device: each takes
 * it from the other. One device an image. Every wait is bounded. The caller serialises.
 */
#pragma once

#include "drivers/console/pci.h"

#include <stdbool.h>

/*
 * True if `function` is a virtio console of version 1.0 or later that takes a transmit queue: it is
 * the device from here on. Else false. Early boot.
 */
bool virtio_console_open(struct pci_function function);

/*
 * Adds a character to what virtio_console_flush() sends, which a full buffer does as well. False:
 * the device has kept a text for some seconds, or refuses. It counts as wedged then, and loses
 * texts, without more than one look, until it has taken the last one.
 */
void virtio_console_put(char c);
bool virtio_console_flush(void);
