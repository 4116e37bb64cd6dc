/* SPDX-License-Identifier: MIT */
/*
 * The memory accesses of the Debug Store: linear, through the guest's page tables, as the
 * supervisor at any CPL.
 */
#ifndef SPOOR_MONITOR_DS_MEMORY_H
#define SPOOR_MONITOR_DS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

/* Quadwords at any alignment. False: a page is not mapped for the access; nothing was changed. */
bool ds_load(struct vcpu *vcpu, uint64_t linear, uint64_t *values, unsigned count);
bool ds_store(struct vcpu *vcpu, uint64_t linear, const uint64_t *values, unsigned count);

#endif
