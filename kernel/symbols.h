/* SPDX-License-Identifier: MIT */
/* The kernel's own functions by address, for backtraces: a table made at link time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SYMBOL_PAIR  128 /* bytes of a name from this on mean a pair of others */
#define SYMBOL_PAIRS 128

/* Written by tools/symbols. Either half of a pair may stand for a pair again. */
extern const uint8_t symbol_pairs[SYMBOL_PAIRS][2];

/*
 * For each function, by address: two bytes, low one first, of how far it is from the one before
 * (the first: from text_start); its name; a zero byte. A function without a name ends the table.
 */
extern const uint8_t symbols[];

/* Adds the text of a packed byte to what ends at `used`; returns its new end, below `size`. */
size_t symbol_unpack(uint8_t byte, char *text, size_t size, size_t used);

/* Writes `function+0x12` into `text`, or `?` if `address` is in no function of the kernel. */
void symbol_describe(uint64_t address, char *text, size_t size);

/* Where the function that holds `address` begins; 0 if none does. */
uint64_t symbol_start(uint64_t address);
