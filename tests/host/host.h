/* SPDX-License-Identifier: MIT */
/* Every host unit test includes this: cmocka, with the headers that it wants before it. */
#ifndef SPOOR_TESTS_HOST_H
#define SPOOR_TESTS_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
