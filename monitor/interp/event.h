/* SPDX-License-Identifier: MIT */
/* Between the files that deliver events. */
#pragma once

#include "monitor/interp/context.h"

/* Delivers in real-address and protected mode. False leaves *fault, and
   nothing is changed. */
bool deliver_outside_ia32e(struct vcpu *vcpu, const struct event *event, struct fault *fault);

/* Its frame has RF set. */
bool is_fault(const struct event *event);

/* The code segment of a gate, and the privilege level that it runs at. */
bool read_handler_segment(struct vcpu *vcpu, uint16_t selector, struct segment *cs, unsigned *cpl,
			  struct fault *fault);
