/* SPDX-License-Identifier: MIT */
/*
 * The calls that a task is in, from its branches alone. A call and its return are matched by the
 * address that the call returns to, never by counting: longjmp(), a tail call, an interrupt in the
 * kernel and a switch of tasks leave no frame. One stack a task.
 */
#pragma once

#include "tools/view/code.h"

enum frame_kind {
	FRAME_ROOT,   /* the trace begins in it, or goes on in it after a gap */
	FRAME_CALL,   /* by a call */
	FRAME_UNSEEN, /* by a call that was not recorded; the return from it is */
	FRAME_TAIL,   /* by a jump to its first instruction; ends with the frame below */
	FRAME_EVENT,  /* by an interrupt, an exception or a system call */
};

/* What a frame is looked for by. */
enum { STACK_RESUME, STACK_RESUME_AFTER, STACK_SET_JUMP, STACK_FUNCTION, STACK_KEYS };

struct frame {
	const struct function *function; /* NULL: outside of any */
	const struct space *space;	 /* the stack's: what its addresses are in */
	uint64_t resume;       /* where the frame below goes on; 0: unknown, or a tail call's */
	uint64_t resume_after; /* an event's other possible place: after the instruction */
	enum frame_kind kind;
	bool unasked;		  /* an event that is no system call or INT */
	uint64_t set_jump;	  /* where setjmp() returned to in it, last; 0: nowhere */
	uint64_t entered;	  /* the address of its first instruction that was seen */
	uint64_t position;	  /* the caller's own, at the time: instructions, say */
	size_t below[STACK_KEYS]; /* the next frame outwards with the same key; 0: none */
};

struct stack_counts {
	uint64_t branches, events, tail_calls, unwound, unmatched_returns, repairs, discontinuities,
		gaps;
};

struct stack;

/*
 * What a stack reports: a frame that was added, and one that is about to be removed. `depth` is
 * its place, 0 for the outermost.
 */
struct stack_observer {
	void (*entered)(void *argument, const struct stack *stack, size_t depth);
	void (*left)(void *argument, const struct stack *stack, size_t depth);
	void *argument;
};

/* The branches of this task that are still to come, up to the next gap. */
struct stack_future {
	void (*begin)(void *argument);
	bool (*next)(void *argument, uint64_t *from, uint64_t *to); /* false: there are no more */
	void *argument;
};

struct stack {
	const struct space *space;
	struct frame *frames;
	size_t depth, room;
	uint64_t position; /* given to frames that are entered; the caller sets it */
	uint64_t at;	   /* where the code goes on: the last branch's target; 0: unknown */
	bool switched;	   /* the task was away: it may go on elsewhere in the switch */
	bool resuming;	   /* and has not returned from the switch to what called it */
	/* Entry points of interrupts and system calls, sorted; may be NULL. */
	const uint64_t *entries;
	size_t entry_count;
	const struct stack_observer *observer; /* NULL: none */
	const struct stack_future *future;     /* NULL: it is not known */
	struct stack_place *places;	       /* of keys: a hash table */
	size_t place_count, place_room;
	size_t calls, unasked; /* frames that no jump made; interrupts and exceptions */
	uint64_t looked_ahead; /* what looking ahead has cost */
	struct stack_counts counts;
};

void stack_init(struct stack *stack, const struct space *space);
void stack_free(struct stack *stack);

/*
 * Whether the instruction at `from` was executed by the branch: an event precedes the one that it
 * is from, unless that causes it.
 */
bool stack_executes(const struct stack *stack, uint64_t from, uint64_t to);

/* The next branch of this task. */
void stack_branch(struct stack *stack, uint64_t from, uint64_t to);

/* The task left its CPU, and goes on with the next branch. */
void stack_switch(struct stack *stack);

/* Branches are missing: all frames end. */
void stack_gap(struct stack *stack);

/* Ends all frames. */
void stack_end(struct stack *stack);

/* The innermost frame; NULL if there is none. */
static inline const struct frame *stack_top(const struct stack *stack)
{
	return stack->depth ? &stack->frames[stack->depth - 1] : NULL;
}
