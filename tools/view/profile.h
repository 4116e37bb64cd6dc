/* SPDX-License-Identifier: MIT */
/*
 * The calls of a stream on their way into a page. They are numbers of 7 bits a byte, the lowest
 * first, the eighth bit set in all but the last. An entry has 0 for a return, or one more than the
 * place in "frames" of the function that is entered. The instructions since the entry before
 * follow. Functions that are inlined are frames in those of the function that they are in.
 */
#pragma once

#include "tools/view/follow.h"

struct profile_frame {
	const char *name;
	struct line line;
	long within; /* of an inlined function: the frame of a function that it was in; -1: it is
			none */
};

/* All zero but for `packed` and `cut`: nothing is in it. */
struct profile {
	FILE *packed;		   /* where the calls go */
	bool cut;		   /* the axis begins with the first instruction that is shown */
	uint64_t base, shift, end; /* instructions before the axis; what gaps take of it; its end */
	uint64_t calls;		   /* without those of inlined functions */
	bool based;
	uint64_t inlined;
	struct profile_frame *frames;
	size_t frame_count, *slots, slot_count; /* of `frames`, plus one; 0: free */
	struct profile_open *open;		/* frames that were entered */
	size_t depth, room;
};

/* False: there are more calls than a browser can show. */
bool profile_enter(struct profile *profile, const struct frame *frame, uint64_t position);
void profile_leave(struct profile *profile, uint64_t position);

/* A gap as wide as so many instructions. */
void profile_gap(struct profile *profile, uint64_t wide, uint64_t position);

/* What ran in the innermost frame: inlined functions of its code are entered and left. */
void profile_block(struct profile *profile, const struct follow_block *block);

/* The place on the axis, which begins now if it has not. */
uint64_t profile_place(struct profile *profile, uint64_t position);

/* The place in "frames" of the one with this name, the same pointer; -1: there is none. */
long profile_frame(const struct profile *profile, const char *name);

/* Writes "frames" as speedscope takes them. */
void profile_put_frames(const struct profile *profile, FILE *page);

/* All but `packed`. */
void profile_free(struct profile *profile);
