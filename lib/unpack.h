/* SPDX-License-Identifier: MIT */
/* Unpacks LZ4 blocks. */
#pragma once

#include <stddef.h>

/*
 * Unpacks `size` bytes at `packed` into `room` bytes at `to`. The number of bytes written; 0 if
 * they do not fit or `packed` is damaged.
 */
size_t unpack(const void *packed, size_t size, void *to, size_t room);
