/* SPDX-License-Identifier: MIT */
/* The two states that a processor of the guest starts in, apart from its Debug Store. */
#ifndef SPOOR_MONITOR_SVM_RESET_H
#define SPOOR_MONITOR_SVM_RESET_H

#include <stdint.h>

#include "monitor/boot/kernel.h"
#include "monitor/vcpu.h"

/* As the kernel's loader leaves the boot processor. */
void reset_to_kernel(struct vcpu *vcpu, const struct kernel_entry *kernel);

/* As INIT and then a start-up IPI with `vector` leave the others. */
void reset_by_init(struct vcpu *vcpu, uint8_t vector);

#endif
