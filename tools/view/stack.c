// SPDX-License-Identifier: MIT
#include "tools/view/stack.h"

#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

#define FARTHEST_UNWIND 64   /* frames that a jump into the middle of a function is looked for in */
#define FARTHEST_AHEAD	4096 /* branches, until the way out of what was not recorded is known */
#define DEEPEST_AHEAD	64

/* Looking ahead costs no more than that many branches, and so many for each that was seen. */
#define AHEAD_FREE (1u << 20)
#define AHEAD_EACH 64
#define BEGIN_COST 512 /* of the first one */

void stack_init(struct stack *stack, const struct space *space)
{
	*stack = (struct stack){.space = space};
}

void stack_free(struct stack *stack)
{
	free(stack->frames);
	free(stack->places);
	stack->places = NULL;
	stack->place_count = stack->place_room = 0;
	stack->frames = NULL;
	stack->depth = stack->room = 0;
}

/* --- Where the innermost frame with a key is: a walk down deep recursion would be quadratic
 * -------
 */

struct stack_place {
	uint64_t key;
	unsigned which; /* one more; 0: free */
	size_t depth;	/* one more than the frame's place; 0: it is gone */
};

static struct stack_place *find_place(const struct stack *stack, unsigned which, uint64_t key)
{
	size_t slot = hash_of(key, which) & (stack->place_room - 1);

	while (stack->places[slot].which &&
	       (stack->places[slot].which != which + 1 || stack->places[slot].key != key))
		slot = (slot + 1) & (stack->place_room - 1);
	return &stack->places[slot];
}

static void grow_places(struct stack *stack)
{
	struct stack_place *old = stack->places;
	size_t room = stack->place_room;

	stack->place_room = room ? 2 * room : 256;
	stack->places = allocate(stack->place_room, sizeof(*stack->places));
	for (size_t i = 0; i < room; i++)
		if (old[i].which)
			*find_place(stack, old[i].which - 1, old[i].key) = old[i];
	free(old);
}

/* One more than the place of the innermost frame; 0: there is none. */
static size_t innermost(const struct stack *stack, unsigned which, uint64_t key)
{
	return stack->place_room ? find_place(stack, which, key)->depth : 0;
}

/* The innermost frame of all has this key. */
static void add_key(struct stack *stack, unsigned which, uint64_t key)
{
	struct stack_place *place;

	if (2 * stack->place_count >= stack->place_room)
		grow_places(stack);
	place = find_place(stack, which, key);
	stack->place_count += !place->which;
	stack->frames[stack->depth - 1].below[which] = place->depth;
	*place = (struct stack_place){key, which + 1, stack->depth};
}

static void remove_key(struct stack *stack, unsigned which, uint64_t key)
{
	find_place(stack, which, key)->depth = stack->frames[stack->depth - 1].below[which];
}

/* Of the innermost frame. */
static void change_keys(struct stack *stack, void (*change)(struct stack *, unsigned, uint64_t))
{
	const struct frame *frame = stack_top(stack);

	change(stack, STACK_FUNCTION, (uintptr_t)frame->function);
	if (frame->resume)
		change(stack, STACK_RESUME, frame->resume);
	if (frame->resume && frame->resume_after)
		change(stack, STACK_RESUME_AFTER, frame->resume_after);
	if (frame->set_jump)
		change(stack, STACK_SET_JUMP, frame->set_jump);
}

static bool is_call(const struct frame *frame)
{
	return frame->kind != FRAME_ROOT && frame->kind != FRAME_TAIL;
}

static void push(struct stack *stack, struct frame frame)
{
	if (stack->depth == stack->room) {
		stack->room = stack->room ? 2 * stack->room : 64;
		stack->frames = reallocate(stack->frames, stack->room, sizeof(*stack->frames));
	}
	frame.position = stack->position;
	frame.space = stack->space;
	stack->frames[stack->depth++] = frame;
	stack->calls += is_call(&frame);
	stack->unasked += frame.unasked;
	change_keys(stack, add_key);
	if (stack->observer && stack->observer->entered)
		stack->observer->entered(stack->observer->argument, stack, stack->depth - 1);
}

/* Removes frames until `depth` are left. */
static void truncate_to(struct stack *stack, size_t depth)
{
	while (stack->depth > depth) {
		if (stack->observer && stack->observer->left)
			stack->observer->left(stack->observer->argument, stack, stack->depth - 1);
		change_keys(stack, remove_key);
		stack->calls -= is_call(stack_top(stack));
		stack->unasked -= stack_top(stack)->unasked;
		stack->depth--;
	}
}

static void push_root(struct stack *stack, uint64_t address)
{
	push(stack, (struct frame){.function = space_function(stack->space, address),
				   .kind = FRAME_ROOT,
				   .entered = address});
}

void stack_gap(struct stack *stack)
{
	truncate_to(stack, 0);
	stack->at = 0;
	stack->counts.gaps++;
}

void stack_switch(struct stack *stack)
{
	stack->switched = stack->resuming = stack->depth;
}

void stack_end(struct stack *stack)
{
	truncate_to(stack, 0);
}

static bool is_entry(const struct stack *stack, uint64_t address)
{
	size_t below = COUNT_FIRST(stack->entry_count, at, stack->entries[at] < address);

	return below < stack->entry_count && stack->entries[below] == address;
}

/* An interrupt or an exception, rather than what the instruction at `from` does. */
static bool is_event(const struct stack *stack, const struct instruction *instruction,
		     uint64_t from, uint64_t to)
{
	switch (instruction->flow) {
	case FLOW_NONE:
	case FLOW_REPEAT:
	case FLOW_INTERRUPT:
		return true;
	case FLOW_UNKNOWN: /* a jump to nowhere has faulted there, say */
		return is_entry(stack, to) || (!(from >> 63) && to >> 63);
	default:
		if (instruction->direct && instruction->target != to)
			return true;
		return is_entry(stack, to) || (!(from >> 63) && to >> 63);
	}
}

/* The innermost frame that `to` is the resumption of; 0: none. One more than its index. */
static size_t find_resumption(const struct stack *stack, uint64_t to)
{
	size_t at = innermost(stack, STACK_RESUME, to);
	size_t after = innermost(stack, STACK_RESUME_AFTER, to);

	return at > after ? at : after;
}

/* The number of frames up to the innermost one of `function`; 0: none. */
static size_t find_function(const struct stack *stack, const struct function *function, size_t most)
{
	size_t depth = innermost(stack, STACK_FUNCTION, (uintptr_t)function);

	return depth && stack->depth - depth < most ? depth : 0;
}

/* Of the function that runs now, and of what it calls: where the way out is looked for. */
struct ahead {
	struct {
		uint64_t resume, resume_after;
	} inner[DEEPEST_AHEAD]; /* calls that begin after now */
	size_t inner_count;
	uint64_t unseen[DEEPEST_AHEAD]; /* that runs now, then where each returns to */
	size_t unseen_count;
	size_t found; /* frames of the stack that are left then; 0: none is known */
};

static bool ahead_enter(struct ahead *ahead, uint64_t resume, uint64_t resume_after)
{
	if (ahead->inner_count == DEEPEST_AHEAD)
		return false;
	ahead->inner[ahead->inner_count].resume = resume;
	ahead->inner[ahead->inner_count++].resume_after = resume_after;
	return true;
}

/* False: nothing more can be told. */
static bool ahead_return(const struct stack *stack, struct ahead *ahead, uint64_t to)
{
	for (size_t depth = ahead->inner_count; depth > 0; depth--)
		if (ahead->inner[depth - 1].resume == to ||
		    ahead->inner[depth - 1].resume_after == to) {
			ahead->inner_count = depth - 1;
			return true;
		}
	if (ahead->inner_count || ahead->unseen_count == DEEPEST_AHEAD ||
	    to >> 63 != ahead->unseen[0] >> 63)
		return false;
	ahead->unseen[ahead->unseen_count++] = to;
	ahead->found = find_resumption(stack, to);
	if (ahead->found)
		ahead->found--;
	else
		ahead->found = find_function(stack, space_function(stack->space, to), stack->depth);
	return !ahead->found;
}

static bool ahead_branch(const struct stack *stack, struct ahead *ahead, uint64_t from, uint64_t to)
{
	struct instruction instruction = space_instruction(stack->space, from);

	if (is_event(stack, &instruction, from, to))
		return ahead_enter(ahead, from, instruction.next);
	if (instruction.flow == FLOW_CALL)
		return to == instruction.next || ahead_enter(ahead, instruction.next, 0);
	if (instruction.flow == FLOW_RETURN || instruction.flow == FLOW_INTERRUPT_RETURN ||
	    (from >> 63 && !(to >> 63)))
		return ahead_return(stack, ahead, to);
	return true;
}

/*
 * The code at `now`, in a function that no branch led to, was called while nothing was recorded.
 * The returns that are to come tell by how many calls from which frame: those become frames. The
 * branch from `from` to `to` is the first of them, unless it is 0. False: they do not tell.
 */
static bool add_unseen(struct stack *stack, uint64_t now, uint64_t from, uint64_t to)
{
	struct ahead ahead = {.unseen = {now}, .unseen_count = 1};
	unsigned looked = 0;
	bool more = true;

	/* The kernel turns recording off for itself alone. */
	if (!stack->future || !(now >> 63) ||
	    stack->looked_ahead > AHEAD_FREE + AHEAD_EACH * stack->counts.branches)
		return false;
	stack->future->begin(stack->future->argument);
	if (from)
		more = ahead_branch(stack, &ahead, from, to);
	for (; more && looked < FARTHEST_AHEAD &&
	       stack->future->next(stack->future->argument, &from, &to);
	     looked++)
		more = ahead_branch(stack, &ahead, from, to);
	stack->looked_ahead += BEGIN_COST + looked;
	if (!ahead.found)
		return false;
	truncate_to(stack, ahead.found);
	for (size_t i = ahead.unseen_count - 1; i-- > 0;)
		push(stack,
		     (struct frame){.function = space_function(stack->space, ahead.unseen[i]),
				    .resume = ahead.unseen[i + 1],
				    .kind = FRAME_UNSEEN,
				    .entered = ahead.unseen[i]});
	return true;
}

/* The number of frames up to the innermost one in which setjmp() returned to `to`; 0: none. */
static size_t find_set_jump(const struct stack *stack, uint64_t to)
{
	return innermost(stack, STACK_SET_JUMP, to);
}

/* A jump, out of the innermost function perhaps. */
static void go_to(struct stack *stack, uint64_t to, bool direct)
{
	const struct function *function = space_function(stack->space, to);
	size_t found = direct ? 0 : find_set_jump(stack, to);

	if (!found && stack->depth && stack_top(stack)->function == function)
		return;
	if (!found && function && to != function->start)
		found = find_function(stack, function, FARTHEST_UNWIND);
	/* Also into a function's middle, or to what the linker made and no symbol has. */
	if (!found && (direct || !function || to == function->start)) {
		stack->counts.tail_calls++;
		push(stack,
		     (struct frame){.function = function, .kind = FRAME_TAIL, .entered = to});
		return;
	}
	if (found && found < stack->depth) {
		stack->counts.unwound += !stack->resuming;
		stack->resuming = false;
		truncate_to(stack, found);
	}
}

/*
 * The kernel returns to ring 3, elsewhere than it came from: to a handler of a signal, which is an
 * event in its turn, or after a handler. No frame of the kernel outlasts that.
 */
static void leave_kernel(struct stack *stack, uint64_t to)
{
	const struct function *function = space_function(stack->space, to);
	struct frame event = {0};

	while (stack->depth && stack_top(stack)->entered >> 63) {
		event = *stack_top(stack);
		truncate_to(stack, stack->depth - 1);
	}
	if (event.kind != FRAME_EVENT || !function || to != function->start)
		return;
	event.function = function;
	event.entered = to;
	push(stack, event);
}

/*
 * RSP is another one, by a jump of the stack that no symbol tells of: what was called since the
 * innermost event is over.
 */
static void return_elsewhere(struct stack *stack, uint64_t to)
{
	const struct function *function = space_function(stack->space, to);
	size_t depth = stack->depth;

	while (depth > 0 && stack->frames[depth - 1].kind != FRAME_EVENT)
		depth--;
	truncate_to(stack, depth);
	push(stack, (struct frame){.function = function,
				   .kind = depth ? FRAME_TAIL : FRAME_ROOT,
				   .entered = to});
}

/* setjmp() returned to `to` in the innermost frame. */
static void note_set_jump(struct stack *stack, uint64_t to)
{
	struct frame *frame = &stack->frames[stack->depth - 1];

	if (frame->set_jump)
		remove_key(stack, STACK_SET_JUMP, frame->set_jump);
	frame->set_jump = to;
	if (to)
		add_key(stack, STACK_SET_JUMP, to);
}

static void return_to(struct stack *stack, uint64_t from, uint64_t to, bool leaves_kernel)
{
	size_t found = find_resumption(stack, to);

	if (found) {
		const struct function *left = stack->frames[found - 1].function;

		truncate_to(stack, found - 1);
		stack->resuming = false;
		if (left && stack->depth && strstr(left->name, "setjmp"))
			note_set_jump(stack, to);
		return;
	}
	stack->resuming |= stack->at && space_has_wrmsr(stack->space, stack->at, from);
	if (stack->resuming && !leaves_kernel && add_unseen(stack, to, 0, 0)) {
		stack->resuming = false;
		return;
	}
	stack->counts.unmatched_returns += !stack->resuming;
	if (leaves_kernel)
		leave_kernel(stack, to);
	if (stack->calls && !stack->resuming && !leaves_kernel && !find_set_jump(stack, to) &&
	    !find_function(stack, space_function(stack->space, to), FARTHEST_UNWIND)) {
		return_elsewhere(stack, to);
	} else if (stack->calls) {
		go_to(stack, to, false);
	} else {
		truncate_to(stack, 0); /* it was entered before the trace began */
		push_root(stack, to);
	}
}

/* The innermost frame is that of the function at `address`. */
static void repair(struct stack *stack, uint64_t address, uint64_t *counter)
{
	const struct function *function = space_function(stack->space, address);
	size_t found;

	if (stack->depth && stack_top(stack)->function == function)
		return;
	if (counter && stack->depth)
		(*counter)++;
	found = find_function(stack, function, stack->depth);
	if (found) {
		truncate_to(stack, found);
	} else if (stack->depth) {
		struct frame top = *stack_top(stack);

		truncate_to(stack, stack->depth - 1);
		top.function = function;
		top.entered = address;
		push(stack, top);
	} else {
		push_root(stack, address);
	}
}

static void go_on_at(struct stack *stack, uint64_t from, uint64_t to)
{
	uint64_t count;

	if (!stack->depth) {
		push_root(stack, from);
	} else if (stack->switched) {
		if (stack_top(stack)->function != space_function(stack->space, from) &&
		    !add_unseen(stack, from, from, to))
			repair(stack, from, NULL);
	} else if (stack->at && space_walk(stack->space, stack->at, from, &count) == WALK_BROKEN) {
		stack->counts.discontinuities++;
		repair(stack, from, &stack->counts.repairs);
	}
	stack->switched = false;
}

static void push_event(struct stack *stack, const struct instruction *instruction, uint64_t from,
		       uint64_t to)
{
	stack->counts.events++;
	push(stack, (struct frame){.function = space_function(stack->space, to),
				   .resume = from,
				   .resume_after = instruction->next,
				   .kind = FRAME_EVENT,
				   .unasked = instruction->flow != FLOW_INTERRUPT,
				   .entered = to});
}

bool stack_executes(const struct stack *stack, uint64_t from, uint64_t to)
{
	struct instruction instruction = space_instruction(stack->space, from);
	return instruction.flow == FLOW_INTERRUPT ||
	       (instruction.flow != FLOW_UNKNOWN && !is_event(stack, &instruction, from, to));
}

void stack_branch(struct stack *stack, uint64_t from, uint64_t to)
{
	struct instruction instruction = space_instruction(stack->space, from);
	bool leaves_kernel = from >> 63 && !(to >> 63);

	stack->counts.branches++;
	go_on_at(stack, from, to);
	if (is_event(stack, &instruction, from, to)) {
		push_event(stack, &instruction, from, to);
	} else if (instruction.flow == FLOW_CALL) {
		if (to != instruction.next)
			push(stack, (struct frame){.function = space_function(stack->space, to),
						   .resume = instruction.next,
						   .kind = FRAME_CALL,
						   .entered = to});
	} else if (instruction.flow == FLOW_RETURN || instruction.flow == FLOW_INTERRUPT_RETURN ||
		   leaves_kernel) {
		return_to(stack, from, to, leaves_kernel);
	} else {
		go_to(stack, to, instruction.direct);
	}
	/* The way into a switch is not the way out of it. */
	repair(stack, to, stack->resuming ? NULL : &stack->counts.repairs);
	stack->at = to;
}
