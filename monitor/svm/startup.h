/* SPDX-License-Identifier: MIT */
/*
 * INIT and start-up IPIs between the guest's processors: SDM Vol 3, 8.4 and 10.6.1; and the states
 * that a processor starts in.
 */
#pragma once

#include "monitor/boot/kernel.h"
#include "monitor/vcpu.h"

#include <stdbool.h>
#include <stdint.h>

struct guest;

/* Where the monitor's other processors start: wake_prepare(). 0: they cannot. */
void startup_init(uint64_t wake_page);

/* Does what an INIT or start-up IPI asks for; false if the command is something else. `destination`
   is bits 31:24 of ICR high. */
bool startup_command(struct guest *sender, uint32_t command, uint8_t destination);

/* If another processor sent INIT: waits for it, and does not return. To be called wherever the
   guest is between two instructions. */
void startup_obey(struct guest *guest);

/* The processor that calls has arrived as `guest`: the vector to start at. Does not return if the
   start-up IPI was followed by an INIT. */
uint8_t startup_arrive(struct guest *guest);

/* The two states that a processor of the guest starts in, apart from its Debug Store. */

/* As the kernel's loader leaves the boot processor. */
void reset_to_kernel(struct vcpu *vcpu, const struct kernel_entry *kernel);

/* As INIT and then a start-up IPI with `vector` leave the others. */
void reset_by_init(struct vcpu *vcpu, uint8_t vector);
