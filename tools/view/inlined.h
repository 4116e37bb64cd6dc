/* SPDX-License-Identifier: MIT */
/* Functions whose code is in that of others, by DWARF: DW_TAG_inlined_subroutine. */
#pragma once

#include <elfutils/libdw.h>
#include <stdint.h>

struct inlined;

/* One that is inlined at one place; the same pointer for all of its code. */
struct inline_frame {
	const char *name; /* "NAME [inlined]", by names_keep() */
	const struct inline_frame *outer;
	unsigned depth; /* 1: in a function that has no `outer` */
};

/* Of a file; `dwarf` may be NULL, and both stay valid until inlined_free(). */
struct inlined *inlined_open(Dwarf *dwarf, void **names);
void inlined_free(struct inlined *inlined);

/*
 * The innermost one whose code is at `address` of the file; NULL: none is. A unit of compilation is
 * read when the first address of it is asked for.
 */
const struct inline_frame *inlined_at(struct inlined *inlined, uint64_t address);
