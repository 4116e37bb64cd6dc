/* SPDX-License-Identifier: MIT */
/* What tests of the buffer's end share: a rig whose buffer ends before its memory does. */
#ifndef SPOOR_TESTS_LIB_CIRCULAR_H
#define SPOOR_TESTS_LIB_CIRCULAR_H

#include "tests/lib/rig.h"

struct chain;

/*
 * Gives the buffer of `rig` its first `slots` slots only, with the maximum `extra` bytes above
 * their end and the threshold one record above that: what is written further on can be seen.
 * Empties the buffer.
 */
void rig_shorten(struct rig *rig, size_t slots, uint64_t extra);

/* Makes all slots readable again; the buffer keeps its content and index. TR must be clear. */
void rig_lengthen(struct rig *rig);

/* Slots from 0 on, up to the last one that is not all zero. Whatever the maximum. */
size_t rig_used(const struct rig *rig);

/*
 * Fails the test unless the buffer looks as `n` branches of chain_trace() leave it that went round
 * `capacity` slots: the newest in each slot, nothing behind them, the index behind the newest. If
 * that is the last slot the index may stand at the base as well: no manual says when it wraps.
 */
void circular_expect(struct rig *rig, size_t capacity, const struct chain *chain, uint64_t n);

#endif
