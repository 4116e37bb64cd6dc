// SPDX-License-Identifier: MIT
/* The cache of decoded code. */
#include "lib/string.h"
#include "monitor/interp/context.h"
#include "monitor/interp/decode.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/thunk.h"

enum {
	BLOCK_BYTES = BLOCK_INSNS * INSN_BYTES,
	BLOCK_MOST = sizeof(struct block) + (BLOCK_INSNS + 1) * sizeof(struct insn) + BLOCK_BYTES,
};

void undefined(struct vcpu *vcpu, const struct insn *i)
{
	raise_vector(vcpu, i, VECTOR_UD);
}

void unknown(struct vcpu *vcpu, const struct insn *i)
{
	native_step(vcpu, i);
}

void too_long(struct vcpu *vcpu, const struct insn *i)
{
	general_protection(vcpu, i);
}

static inline uint64_t word_at(const uint8_t *at)
{
	return *(const any64 *)(const void *)at;
}

/* The compiler reads a block again from here on: go_on() has no registers to keep what it read. */
static inline void forget_what_was_read(void)
{
	__asm__ volatile("" : : : "memory");
}

/*
 * True if the guest's bytes in the block's first page are those that were decoded. Without memcmp()
 * and with few variables: go_on() would need a frame. QEMU's translator begins anew at each turn of
 * the loop, so that one compares two words; the last turn may repeat some bytes.
 */
static inline bool same_bytes(const struct block *b)
{
	const uint8_t *at = b->word, *end = b->end;
	ptrdiff_t copy;

	if (((word_at(at) ^ b->first) | (word_at(end) ^ b->last)) & b->mask)
		return false;
	at += 8;
	if (at >= end)
		return true;
	copy = b->copy - b->word;
	do {
		if (at > end - 8)
			at = end - 8;
		__asm__("" : "+r"(copy)); /* no second variable for copy + 8 */
		if ((word_at(at) ^ word_at(at + copy)) | (word_at(at + 8) ^ word_at(at + 8 + copy)))
			return false;
		at += 16;
	} while (at < end);
	forget_what_was_read();
	return true;
}

/* Fewer than eight bytes are the low ones of a word, or the high ones at the end of a page. */
static void keep_words(struct block *b)
{
	uint32_t bytes = b->bytes[0], missing = bytes < 8 ? 8 - bytes : 0;
	unsigned shift = (uintptr_t)b->code[0] % PAGE > PAGE - 8 ? missing * 8 : 0;

	b->word = b->code[0] - shift / 8;
	b->mask = ~0ULL >> missing * 8 << shift;
	b->end = b->word + (missing ? 0 : bytes - 8);
	memcpy(&b->first, b->copy, 8 - missing);
	b->first <<= shift;
	memcpy(&b->last, b->copy + (b->end - b->word), 8 - missing);
	b->last <<= shift;
}

static bool unchanged(const struct block *b)
{
	return same_bytes(b) &&
	       (!b->bytes[1] || !memcmp(b->code[1], b->copy + b->bytes[0], b->bytes[1]));
}

/* The bytes at `offset` in the code segment, up to the end of their page; raises what fetching them
   does. */
static const uint8_t *fetch(struct vcpu *vcpu, uint64_t offset)
{
	uint64_t linear = code_linear(vcpu->interp, offset);
	unsigned access = ACCESS_EXECUTE | (vcpu->cpl == 3 ? ACCESS_USER : 0);
	struct fault fault = {.vector = VECTOR_GP, .has_error = true};
	struct code_page *known = &vcpu->interp->code_pages[linear / PAGE % CODE_PAGES];
	uint64_t physical, validity = vcpu->hot.validity;

	if (in_64_bit_mode(vcpu) ? !canonical(linear) : offset > vcpu->segment[CS].limit)
		raise_at(vcpu, vcpu->rip, &fault);
	if (known->validity == validity && known->linear == linear / PAGE)
		return known->host + linear % PAGE;
	if (!walk(vcpu, linear, access, &physical, &fault.error)) {
		fault.vector = VECTOR_PF;
		fault.address = linear;
		raise_at(vcpu, vcpu->rip, &fault);
	}

	const uint8_t *page = platform_guest_page(physical & ~(uint64_t)(PAGE - 1));

	if (!page) {
		vcpu->interp->native = true;
		__builtin_longjmp(vcpu->interp->escape, 1);
	}
	*known = (struct code_page){validity, linear / PAGE, page};
	return page + physical % PAGE;
}

/* Of no code; its validity is no interpreter's. */
static struct block none;

void forget_blocks(struct interp *interp)
{
	for (unsigned n = 0; n < BLOCKS; n++)
		interp->blocks[0][n] = interp->blocks[1][n] = &none;
	interp->arena_used = 0;
	interp->thunks_used = 0;
}

static void *allocate(struct interp *interp, size_t bytes)
{
	void *at = interp->arena + interp->arena_used;

	interp->arena_used += (bytes + 63) & ~(size_t)63;
	return at;
}

/* Appends the instruction at `code`; true if the block goes on after it. */
static bool append(struct vcpu *vcpu, struct block *b, const uint8_t *code, unsigned available)
{
	struct insn *i = &b->insn[b->count];
	bool ends;

	if (decode(code, available, b->rip + b->bytes[0], vcpu->hot.mode, i, &ends) == DECODE_SHORT)
		return false;
	if (thunk_wanted(i))
		thunk_make(vcpu->interp, i);
	b->bytes[0] += i->length;
	b->count++;
	return !ends;
}

/* The first instruction reaches into the next page. */
static void build_straddling(struct vcpu *vcpu, struct block *b, unsigned first)
{
	uint8_t code[INSN_BYTES];
	const uint8_t *low = b->code[0];

	b->code[1] = fetch(vcpu, b->rip + first);
	memcpy(code, low, first);
	memcpy(code + first, b->code[1], INSN_BYTES - first);
	append(vcpu, b, code, INSN_BYTES);
	b->bytes[1] = b->bytes[0] - first;
	b->bytes[0] = first;
}

static struct block *build(struct vcpu *vcpu, const uint8_t *code)
{
	struct interp *interp = vcpu->interp;
	unsigned available = PAGE - (unsigned)(code_linear(interp, vcpu->rip) % PAGE);

	if (interp->arena_used + BLOCK_MOST > BLOCK_ARENA ||
	    (interp->thunks &&
	     interp->thunks_used + BLOCK_INSNS * THUNK_BYTES > interp->thunk_bytes))
		forget_blocks(interp);

	struct block *b = (struct block *)(void *)(interp->arena + interp->arena_used);

	*b = (struct block){.rip = vcpu->rip, .mode = vcpu->hot.mode, .code = {code}};
	while (b->count < (interp->single ? 1 : BLOCK_INSNS) && b->bytes[0] < available)
		if (!append(vcpu, b, code + b->bytes[0], available - b->bytes[0]))
			break;
	if (!b->count)
		build_straddling(vcpu, b, available);

	/* The copy follows the instructions. */
	unsigned bytes = b->bytes[0] + b->bytes[1];
	struct insn *last = &b->insn[b->count];
	uint8_t *copy = (uint8_t *)(last + 1);

	*last = (struct insn){.run = end_of_block, .rip = b->rip + bytes};
	memcpy(copy, b->code[0], b->bytes[0]);
	if (b->bytes[1])
		memcpy(copy + b->bytes[0], b->code[1], b->bytes[1]);
	b->copy = copy;
	keep_words(b);
	for (uint32_t n = 0; n < b->count; n++)
		b->insn[n].behind = (uint8_t)(b->count - 1 - n);
	allocate(interp, (size_t)(copy + bytes - (uint8_t *)b));
	return b;
}

/* Out of line, so that find_block() has no registers to save. */
static __attribute__((noinline)) struct block *find_or_build(struct vcpu *vcpu, struct block **slot)
{
	struct block *known = *slot;
	bool here = known->rip == vcpu->rip && known->mode == vcpu->hot.mode;
	const uint8_t *code = fetch(vcpu, vcpu->rip);
	bool usable = here && known->code[0] == code;

	if (usable && known->bytes[1])
		usable = known->code[1] == fetch(vcpu, vcpu->rip + known->bytes[0]);
	if (!usable || !unchanged(known))
		known = build(vcpu, code);
	/* What straddles two pages is never valid: it is looked at here each time. */
	known->validity = known->bytes[1] ? 0 : vcpu->hot.validity;
	*slot = known;
	return known;
}

/* True if `b` is valid and begins at `rip`, as long as its bytes have not changed. */
static inline bool is_of(const struct vcpu *vcpu, const struct block *b, uint64_t rip)
{
	return !((b->rip ^ rip) | (b->validity ^ vcpu->hot.validity));
}

const struct block *find_block(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	struct block **slot = &interp->blocks[interp->single][vcpu->rip % BLOCKS];

	if (is_of(vcpu, *slot, vcpu->rip) && same_bytes(*slot))
		return *slot;
	return find_or_build(vcpu, slot);
}

static inline void enter(struct vcpu *vcpu, const struct block *b, int64_t budget)
{
	vcpu->hot.watched_page = (uintptr_t)b->word / PAGE;
	vcpu->hot.budget = budget - b->count;
	b->insn->run(vcpu, b->insn);
}

void enter_block(struct vcpu *vcpu, const struct block *block)
{
	enter(vcpu, block, vcpu->hot.budget);
}

/* `attention` is set while instructions are executed one at a time: only then does anybody ask for
   `branched`. */
static inline void go_on_behind(struct vcpu *vcpu, uint64_t rip, uint64_t left, bool branch)
{
	int64_t budget = vcpu->hot.budget + (int64_t)left;
	const struct block *b;

	if (!vcpu->hot.attention && !vcpu->attention && budget >= 0) {
		b = vcpu->interp->blocks[false][rip % BLOCKS];
		if (is_of(vcpu, b, rip)) {
			forget_what_was_read();
			if (same_bytes(b)) {
				enter(vcpu, b, budget);
				return;
			}
			rip = b->rip; /* the same number, which no register has to keep */
		}
	}
	vcpu->hot.budget = budget;
	vcpu->rip = rip;
	if (branch)
		vcpu->hot.branched = true;
}

HOT void go_on(struct vcpu *vcpu, uint64_t rip, uint64_t left)
{
	go_on_behind(vcpu, rip, left, true);
}

void end_of_block(struct vcpu *vcpu, const struct insn *i)
{
	go_on_behind(vcpu, insn_next(i), 0, false);
}
