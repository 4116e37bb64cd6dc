/* SPDX-License-Identifier: MIT */
/* Thresholds that are reached somewhere on the way through a switch. */
#ifndef SPOOR_TESTS_LIB_AT_SWITCH_H
#define SPOOR_TESTS_LIB_AT_SWITCH_H

#include <stdbool.h>

/*
 * Two traced tasks take turns; before each turn the running one puts its threshold 0, 1, 2, ...
 * records ahead and gives up the CPU, so that over the turns it is reached at every branch of the
 * way out of the CPU and back. Interrupts stay off from there to the other task's turn: a PMI by
 * fixed vector (`nmi` false) pends across the switch. Fails the test unless no branch of either
 * was lost or came twice and no record was misplaced.
 */
void threshold_at_switch(bool nmi);

#endif
