/* SPDX-License-Identifier: MIT */
/* What a driver of BTS in interrupt mode does, as a test: T10 of the reference. */
#ifndef SPOOR_TESTS_LIB_DRAIN_H
#define SPOOR_TESTS_LIB_DRAIN_H

#include "tests/lib/pmi.h"

/*
 * Walks many times the buffer's size while the interrupt's handler empties it (TR cleared first,
 * index back to the base, LVT entry unmasked, TR restored), and fails the test unless every branch
 * came through, once and in order. With NMI delivery interrupts are off all the time.
 */
void drain_walks(enum pmi_delivery delivery);

#endif
