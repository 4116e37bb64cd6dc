/* SPDX-License-Identifier: MIT */
/*
 * A Linux kernel as a bzImage: where its parts go, and the boot parameters that it is given.
 * Source: the Linux kernel's Documentation/arch/x86/boot.rst and zero-page.rst. Pure: any context,
 * host tests too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/boot_info.h"
#include "monitor/memory.h"

/* A Linux image by its setup header. */
struct linux_image {
	const uint8_t *base;
	uint32_t setup_size;   /* bytes in front of the protected-mode kernel */
	uint32_t payload_size; /* bytes of the protected-mode kernel */
	uint32_t memory_size;  /* bytes that it needs until it reads the memory map */
	uint32_t alignment;    /* bytes */
	uint64_t preferred;    /* physical address */
	uint64_t initrd_end;   /* no byte of the initrd is at or above it */
	uint32_t words_most;   /* bytes of the command line, without the NUL */
	bool relocatable;
};

/* Whether `image` is a Linux kernel with a setup header, of whatever protocol. */
bool linux_recognised(const void *image, size_t size);

/* False, with a sentence in `error`, unless `image` can be entered at its 32-bit entry point. */
bool linux_open(struct linux_image *kernel, const void *image, size_t size, char *error,
		size_t error_size);

/* Physical addresses of what is loaded. */
struct linux_places {
	struct range kernel;
	struct range initrd; /* empty: there is none */
};

/*
 * Finds memory for both, outside `taken`. An initrd that the kernel can reach where it is now stays
 * there; `now` is its range, within `taken` or not. False, with a sentence in `error`: no memory.
 */
bool linux_place(struct linux_places *places, const struct linux_image *kernel,
		 const struct boot_info *info, struct range taken, struct range now, char *error,
		 size_t error_size);

#define LINUX_PARAMETERS_BYTES 4096u

/* Writes LINUX_PARAMETERS_BYTES of boot parameters. `words` and `rsdp` are physical addresses below
   4 GiB, the latter 0 if there is no RSDP. */
void linux_parameters(void *page, const struct linux_image *kernel,
		      const struct linux_places *places, const struct boot_info *info,
		      uint64_t words, uint64_t rsdp);
