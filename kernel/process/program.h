/* SPDX-License-Identifier: MIT */
/* Programs for ring 3: ELF executables that the kernel was linked with. */
#pragma once

#include "abi/boot_info.h"
#include "kernel/mm/space.h"
#include "kernel/trap/trap.h"

/* One after the other, each at a multiple of 8 bytes, in the archive of tests/user/archive.asm. */
struct program {
	char name[24];
	uint64_t size; /* of the image, in bytes */
	uint8_t image[];
};

/* Unpacks what the kernel was linked with; once, while it boots, before any other function here. */
void programs_init(const struct boot_info *info);

/* NULL if there is none of that name. */
const struct program *program_find(const char *name);

/* CRC32C over the file bytes of its segments, by which a reader of a trace knows it; 0: none. */
uint32_t program_checksum(const char *name);

/*
 * The boot loader's module, if it gave one: a program that program_find() finds by its name. NULL:
 * none. `*argument` is the number after its name in the module's words, 0 without one.
 */
const struct program *program_given(uint64_t *argument);

#define STACK_TOP    0x00007fffffffe000ul /* nothing is mapped above it, or below the stack */
#define STACK_TOP_32 0x00000000ffffe000ul /* of a program for i386 */
#define STACK_PAGES  16

/*
 * Loads an executable into an empty space, with a stack; RIP, RSP and CS of `frame` are how it
 * starts. -ENOEXEC: not an executable for x86-64 or i386, a segment outside ring 3's half, writable
 * and executable, or in the same page as another; -ENOMEM. What was mapped by then stays, for
 * space_destroy().
 */
int program_load(struct space *space, const void *image, size_t size, struct trap_frame *frame);
