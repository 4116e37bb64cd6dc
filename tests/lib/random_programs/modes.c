// SPDX-License-Identifier: MIT
// Code that is the same bytes in 64-bit and in compatibility mode: SDM Vol 2. An address in memory
// is a SIB byte without base and index, since ModRM alone would be relative to RIP in 64-bit mode.
#include "tests/lib/random_programs/modes.h"

#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/framework/test.h"
#include "tests/lib/own_tables.h"

#define NMI_TO_ONE 0x4400u /* ICR: delivery mode NMI, assert. SDM Vol 3, 10.6.1 */

/* Bit 0: of 32 bits, bit 1: in ring 3. */
enum { CODE_64, CODE_32, USER_64, USER_32, MODES };

static const uint16_t code_of[MODES] = {KERNEL_CODE, OWN_CODE_32, OWN_FAST_USER_64,
					OWN_USER_CODE_32};
static const uint16_t stack_of[MODES] = {OWN_DATA_32, OWN_DATA_32, OWN_USER_DATA_32,
					 OWN_USER_DATA_32};
static const uint32_t top_of[2] = {MODES_STACK + MODES_STACK_TOP,
				   MODES_USER_STACK + MODES_STACK_TOP};

static uint32_t low(const char *label)
{
	return (uint32_t)(uint64_t)label;
}

/* --- Bytes -------------------------------------------------------------------------------------
 */

static struct modes_window *window_of(struct modes_program *p)
{
	return &p->window[p->mode >> 1];
}

static uint32_t here(struct modes_program *p)
{
	return window_of(p)->at + (uint32_t)window_of(p)->size;
}

static unsigned pick(struct modes_program *p, unsigned n)
{
	return (unsigned)random_below(&p->random, n);
}

static void put(struct modes_program *p, uint64_t value, unsigned bytes)
{
	struct modes_window *window = window_of(p);

	if (window->size + bytes > MODES_PAGES * PAGE_SIZE)
		test_error("a random program grew beyond %d pages", MODES_PAGES);
	memcpy(window->code + window->size, &value, bytes);
	window->size += bytes;
}

/* 48H, so that an IRET or RET has operands of 64 bits. */
static void put_wide(struct modes_program *p)
{
	if (!(p->mode & 1))
		put(p, 0x48, 1);
}

/* An opcode and an immediate of 32 bits: MOV to a register, PUSH. Returns where the latter is. */
static uint8_t *put_immediate(struct modes_program *p, unsigned opcode, uint32_t value)
{
	put(p, opcode, 1);
	put(p, value, 4);
	return window_of(p)->code + window_of(p)->size - 4;
}

/* Opcode, ModRM and SIB of an operand at `address`. */
static uint8_t *put_at(struct modes_program *p, unsigned opcode, unsigned reg, uint32_t address)
{
	put(p, opcode | (reg << 3 | 4) << 8 | 0x25 << 16, 3);
	put(p, address, 4);
	return window_of(p)->code + window_of(p)->size - 4;
}

/* What was put last, from `from` on, is a branch. */
static struct modes_branch *enter(struct modes_program *p, uint32_t from, enum modes_kind kind)
{
	struct modes_window *window = window_of(p);

	if (window->count == MODES_BRANCHES)
		test_error("a random program has more than %d branches", MODES_BRANCHES);
	window->branches[window->count] = (struct modes_branch){
		.from = from, .next = here(p), .kind = kind, .narrow = p->mode & 1};
	return &window->branches[window->count++];
}

/* A relative branch of `bytes` of opcode, whose displacement is of `width`. */
static struct modes_branch *put_relative(struct modes_program *p, enum modes_kind kind,
					 unsigned opcode, unsigned bytes, unsigned width)
{
	uint32_t from = here(p);

	put(p, opcode, bytes);
	put(p, 0, width);
	return enter(p, from, kind);
}

static void lead(struct modes_program *p, struct modes_branch *branch, uint32_t to, unsigned width)
{
	int32_t displacement = (int32_t)(to - branch->next);

	if (width == 1 && (displacement < -128 || displacement > 127))
		test_error("a random program's short branch is too far");
	branch->to = to;
	memcpy(window_of(p)->code + (branch->next - window_of(p)->at) - width, &displacement,
	       width);
}

/* --- Straight code -----------------------------------------------------------------------------
 */

/* Not ECX, which counts loops, and neither ESP nor EBP. */
static unsigned any_register(struct modes_program *p)
{
	static const uint8_t usable[] = {0, 2, 3, 6, 7};

	return usable[pick(p, sizeof(usable))];
}

/* ADD, SUB, XOR, AND, OR, CMP of two registers; ADD to CMP of an immediate; PUSH and POP. */
static void straight(struct modes_program *p)
{
	static const uint8_t operations[] = {0x01, 0x29, 0x31, 0x21, 0x09, 0x39};
	unsigned to = any_register(p), from = any_register(p);

	switch (pick(p, 3)) {
	case 0:
		put(p, operations[pick(p, sizeof(operations))] | (0xc0 | from << 3 | to) << 8, 2);
		break;
	case 1:
		put(p, 0x81 | (0xc0 | pick(p, 8) << 3 | to) << 8, 2);
		put(p, random_next(&p->random), 4);
		break;
	default:
		put(p, (0x50 | from) | (0x58 | to) << 8, 2);
	}
}

static void some(struct modes_program *p)
{
	for (unsigned i = 1 + pick(p, 3); i; i--)
		straight(p);
}

/* --- Near branches -----------------------------------------------------------------------------
 */

static void conditional(struct modes_program *p)
{
	bool near = pick(p, 2);
	unsigned condition = pick(p, 16);
	struct modes_branch *branch =
		near ? put_relative(p, MODES_JCC, 0x0f | (0x80 | condition) << 8, 2, 4)
		     : put_relative(p, MODES_JCC, 0x70 | condition, 1, 1);

	some(p);
	lead(p, branch, here(p), near ? 4 : 1);
}

/* JECXZ or JRCXZ, which is not taken. */
static void conditional_zero(struct modes_program *p)
{
	struct modes_branch *branch = put_relative(p, MODES_JCC, 0xe3, 1, 1);

	some(p);
	lead(p, branch, here(p), 1);
}

static void jump(struct modes_program *p)
{
	bool near = pick(p, 2);
	struct modes_branch *branch =
		put_relative(p, MODES_JMP, near ? 0xe9 : 0xeb, 1, near ? 4 : 1);

	some(p);
	lead(p, branch, here(p), near ? 4 : 1);
}

/* JMP of a register, or PUSH and RET. */
static void jump_indirect(struct modes_program *p)
{
	unsigned reg = any_register(p);
	bool by_ret = pick(p, 2);
	uint8_t *to = put_immediate(p, by_ret ? 0x68 : 0xb8 | reg, 0);
	uint32_t from = here(p), at;

	put(p, by_ret ? 0xc3 : 0xff | (0xe0 | reg) << 8, by_ret ? 1 : 2);
	enter(p, from, by_ret ? MODES_RET : MODES_JMP_INDIRECT);
	some(p);
	at = here(p);
	memcpy(to, &at, 4);
}

static void call(struct modes_program *p)
{
	unsigned reg = any_register(p);
	uint32_t from;

	if (pick(p, 2)) {
		lead(p, put_relative(p, MODES_CALL, 0xe8, 1, 4), p->function, 4);
		return;
	}
	put_immediate(p, 0xb8 | reg, p->function);
	from = here(p);
	put(p, 0xff | (0xd0 | reg) << 8, 2);
	enter(p, from, MODES_CALL_INDIRECT);
}

/* CALL of the next instruction, which is a POP. */
static void call_next(struct modes_program *p)
{
	struct modes_branch *branch = put_relative(p, MODES_CALL, 0xe8, 1, 4);

	lead(p, branch, here(p), 4);
	put(p, 0x58 | any_register(p), 1);
}

/*
 * XOR of the displacement of the JMP that follows, at its other address; hence the CPUID: SDM
 * Vol 3, 8.1.3. The JMP leads over two bytes or four of NOP, in turn.
 */
static void modify(struct modes_program *p)
{
	struct modes_branch *branch;
	uint8_t *place;

	if (p->site_count + 1 == MODES_SITES)
		return;
	place = put_at(p, 0x80, 6, 0);
	put(p, MODES_ONE_WAY ^ MODES_OTHER_WAY, 1);
	put(p, 0x51, 1);       /* PUSH ECX */
	put(p, 0xa20fc031, 4); /* XOR EAX, EAX; CPUID */
	put(p, 0x59, 1);
	branch = put_relative(p, MODES_JMP, 0xeb, 1, 1);
	branch->site = ++p->site_count;
	p->sites[branch->site].displacement = window_of(p)->code + window_of(p)->size - 1;
	memcpy(place, &(uint32_t){branch->next - 1 + MODES_WRITABLE}, 4);
	put(p, 0x90909090, 4);
}

static void near_branch(struct modes_program *p)
{
	static void (*const kinds[])(struct modes_program *) = {
		conditional,   conditional, conditional, conditional_zero, jump,
		jump_indirect, call,	    call,	 call_next};

	kinds[pick(p, sizeof(kinds) / sizeof(kinds[0]))](p);
}

/* --- Events and far branches --------------------------------------------------------------------
 */

/* EBP = where the handler goes on; the event; two bytes that nothing executes. */
static uint8_t *put_resume(struct modes_program *p)
{
	return put_immediate(p, 0xbd, 0);
}

static void resume_here(struct modes_program *p, uint8_t *resume)
{
	uint32_t at;

	put(p, 0x0b0f, 2);
	at = here(p);
	memcpy(resume, &at, 4);
}

/* #UD, #DE, #PF, INT3, INT n; #GP of a CLI in ring 3. */
static void event(struct modes_program *p)
{
	unsigned kind = pick(p, p->mode >> 1 ? 6 : 5);
	bool software = kind == 3 || kind == 4, error = kind == 2 || kind == 5;
	uint8_t *resume = put_resume(p);
	uint32_t from;

	if (kind == 1)
		put(p, 0xc931, 2); /* XOR ECX, ECX */
	from = here(p);
	if (kind == 2)
		put_at(p, 0x8b, 0, MODES_NOWHERE);
	else if (kind == 3 || kind == 5)
		put(p, kind == 3 ? 0xcc : 0xfa, 1);
	else
		put(p, kind == 0 ? 0x0b0f : kind == 1 ? 0xf1f7 : 0xcd | MODES_CALLED << 8, 2);
	enter(p, from, software ? MODES_SOFTWARE : MODES_FAULT)->to =
		low(error ? modes_resume_error : modes_resume);
	resume_here(p, resume);
}

/* To this CPU, and time for it to arrive. In ring 0. */
static void send_nmi(struct modes_program *p)
{
	struct modes_branch *branch;
	uint32_t top;

	if (lapic_is_x2apic()) {
		put_immediate(p, 0xb9, 0x830);
		put_immediate(p, 0xba, lapic_id());
		put_immediate(p, 0xb8, NMI_TO_ONE);
		put(p, 0x300f, 2);
	} else {
		put_at(p, 0xc7, 0, MODES_APIC + 0x310);
		put(p, lapic_id() << 24, 4);
		put_at(p, 0xc7, 0, MODES_APIC + 0x300);
		put(p, NMI_TO_ONE, 4);
	}
	put_immediate(p, 0xb9, 100);
	top = here(p);
	put(p, 0xc9ff, 2); /* DEC ECX */
	branch = put_relative(p, MODES_JCC, 0x850f, 2, 4);
	lead(p, branch, top, 4);
}

/* Code of mode `to` begins, and the 32 bits at `place` lead there. */
static void arrive(struct modes_program *p, unsigned to, uint8_t *place)
{
	uint32_t at;

	put(p, 0x0b0f, 2);
	p->transfers++;
	p->mode = to;
	at = here(p);
	memcpy(place, &at, 4);
}

/* SS and ESP, where a transfer to mode `to` takes them. */
static void put_stack(struct modes_program *p, unsigned to, bool always)
{
	if (!always && p->mode >> 1 == to >> 1)
		return;
	put_immediate(p, 0x68, stack_of[to]);
	put_immediate(p, 0x68, top_of[to >> 1]);
}

static void put_far(struct modes_program *p, unsigned opcode, unsigned bytes)
{
	uint32_t from = here(p);

	put(p, opcode, bytes);
	enter(p, from, MODES_FAR);
}

static void by_iret(struct modes_program *p, unsigned to)
{
	uint8_t *place;
	uint32_t from;

	put_stack(p, to, !(p->mode & 1));
	put(p, 0x9c, 1); /* PUSHF */
	put_immediate(p, 0x68, code_of[to]);
	place = put_immediate(p, 0x68, 0);
	from = here(p);
	put_wide(p);
	put(p, 0xcf, 1);
	enter(p, from, MODES_FAR);
	arrive(p, to, place);
}

static void by_ret(struct modes_program *p, unsigned to)
{
	uint8_t *place;
	uint32_t from;

	put_stack(p, to, false);
	put_immediate(p, 0x68, code_of[to]);
	place = put_immediate(p, 0x68, 0);
	from = here(p);
	put_wide(p);
	put(p, 0xcb, 1);
	enter(p, from, MODES_FAR);
	arrive(p, to, place);
}

/* An operand m16:32 in the code, which nothing executes. */
static uint8_t *put_pointer(struct modes_program *p, uint8_t *address, unsigned to)
{
	memcpy(address, &(uint32_t){here(p)}, 4);
	put(p, 0, 4);
	put(p, code_of[to], 2);
	return window_of(p)->code + window_of(p)->size - 6;
}

static void by_jmp(struct modes_program *p, unsigned to)
{
	uint32_t from = here(p);
	uint8_t *place = put_at(p, 0xff, 5, 0);

	enter(p, from, MODES_FAR);
	arrive(p, to, put_pointer(p, place, to));
}

static void by_direct_jmp(struct modes_program *p, unsigned to)
{
	uint32_t from = here(p);
	uint8_t *place = put_immediate(p, 0xea, 0);

	put(p, code_of[to], 2);
	enter(p, from, MODES_FAR);
	arrive(p, to, place);
}

static void by_syscall(struct modes_program *p, unsigned to)
{
	uint8_t *place = put_immediate(p, 0xbd, 0);

	put_far(p, 0x050f, 2);
	arrive(p, to, place);
}

static void by_sysret(struct modes_program *p, unsigned to)
{
	uint8_t *place = put_immediate(p, 0xb9, 0);

	put(p, 0x5b419c, 3); /* PUSHF; POP R11 */
	put_far(p, to == USER_64 ? 0x070f48 : 0x070f, to == USER_64 ? 3 : 2);
	arrive(p, to, place);
}

static void by_sysenter(struct modes_program *p, unsigned to)
{
	uint8_t *place = put_immediate(p, 0xbd, 0);

	put_far(p, 0x340f, 2);
	arrive(p, to, place);
}

static void by_sysexit(struct modes_program *p, unsigned to)
{
	uint8_t *place = put_immediate(p, 0xba, 0);

	put_immediate(p, 0xb9, top_of[1]);
	put_far(p, to == USER_64 ? 0x350f48 : 0x350f, to == USER_64 ? 3 : 2);
	arrive(p, to, place);
}

/* The handler does not return. */
static void by_int(struct modes_program *p, unsigned to)
{
	uint8_t *place = put_immediate(p, 0xbd, 0);
	uint32_t from = here(p);

	put(p, 0xcd | MODES_STAYING << 8, 2);
	enter(p, from, MODES_SOFTWARE)->to = low(modes_gate);
	arrive(p, to, place);
}

/* A far CALL to code of the other size in this ring, which returns. */
static void call_far(struct modes_program *p)
{
	unsigned to = p->mode ^ pick(p, 2), back = p->mode;
	uint32_t from = here(p), at;
	uint8_t *place = put_at(p, 0xff, 3, 0), *pointer;
	struct modes_branch *over;

	enter(p, from, MODES_FAR);
	over = put_relative(p, MODES_JMP, 0xe9, 1, 4);
	pointer = put_pointer(p, place, to);
	at = here(p);
	memcpy(pointer, &at, 4);
	p->mode = to;
	some(p);
	conditional(p);
	put_far(p, 0xcb, 1); /* of 32 bits in either mode */
	p->mode = back;
	lead(p, over, here(p), 4);
}

/* Sets of modes: bit n is mode n. */
static const struct way {
	uint8_t from, to;
	bool same_ring, fast;
	void (*go)(struct modes_program *p, unsigned to);
} ways[] = {
	{15, 15, false, false, by_iret},
	{15, 15, false, false, by_ret},
	{15, 15, true, false, by_jmp},
	{1 << CODE_32 | 1 << USER_32, 15, true, false, by_direct_jmp},
	{1 << USER_64, 1 << CODE_64, false, false, by_syscall},
	{1 << USER_64, 1 << CODE_64, false, false, by_syscall},
	{1 << CODE_64, 1 << USER_64 | 1 << USER_32, false, false, by_sysret},
	{1 << USER_64 | 1 << USER_32, 1 << CODE_64, false, true, by_sysenter},
	{1 << USER_64 | 1 << USER_32, 1 << CODE_64, false, true, by_sysenter},
	{1 << CODE_64, 1 << USER_64 | 1 << USER_32, false, true, by_sysexit},
	{15, 1 << CODE_64, false, false, by_int},
};

static bool fits(const struct modes_program *p, const struct way *way, unsigned to)
{
	bool inward = p->mode >> 1 > to >> 1, gate = !(way->to & (1 << USER_64 | 1 << USER_32));

	return way->from >> p->mode & 1 && way->to >> to & 1 && (!inward || gate) &&
	       (!way->same_ring || p->mode >> 1 == to >> 1) && (!way->fast || p->fast);
}

/* From ring 3 nothing leads to compatibility mode in ring 0. */
static void transfer(struct modes_program *p, unsigned to)
{
	const struct way *way;

	if (p->mode >> 1 && to == CODE_32)
		to = CODE_64;
	do
		way = &ways[pick(p, sizeof(ways) / sizeof(ways[0]))];
	while (!fits(p, way, to));
	way->go(p, to);
}

/* --- All of it ---------------------------------------------------------------------------------
 */

static void function(struct modes_program *p)
{
	struct modes_branch *over = put_relative(p, MODES_JMP, 0xe9, 1, 4);
	uint32_t from;

	p->function = here(p);
	some(p);
	conditional(p);
	from = here(p);
	put(p, 0xc3, 1);
	enter(p, from, MODES_RET);
	lead(p, over, here(p), 4);
}

static void part(struct modes_program *p, bool modifies)
{
	uint32_t top;

	put_immediate(p, 0xbc, top_of[p->mode >> 1]); /* ESP */
	put(p, 0xd839, 2); /* CMP EAX, EBX: SYSCALL of QEMU 7.2 clears flags */
	function(p);
	if (pick(p, 3) == 0)
		call_far(p);
	put_immediate(p, 0xb9, 10 + pick(p, 16));
	top = here(p);
	for (unsigned i = 4 + pick(p, 4); i; i--)
		near_branch(p);
	if (modifies)
		modify(p);
	put(p, 0xc9ff, 2);
	lead(p, put_relative(p, MODES_JCC, 0x850f, 2, 4), top, 4);
}

void modes_generate(struct modes_program *p, uint64_t seed, unsigned parts, bool fast)
{
	uint32_t from;

	p->random = seed;
	p->fast = fast;
	p->mode = p->site_count = p->transfers = 0;
	for (unsigned ring = 0; ring < 2; ring++)
		p->window[ring].size = p->window[ring].count = 0;
	for (unsigned i = 0; i < parts; i++) {
		part(p, i % 8 == 3);
		if (i % 4 == 1)
			event(p);
		if (!i)
			send_nmi(p);
		transfer(p, i + 1 < parts ? pick(p, MODES) : CODE_64);
	}
	put_immediate(p, 0xbd, low(modes_exit));
	put(p, 0xed6348, 3); /* MOVSXD RBP, EBP */
	from = here(p);
	put(p, 0xe5ff, 2);
	enter(p, from, MODES_JMP_INDIRECT);
}

struct modes_start modes_begin(struct modes_program *p, uint64_t seed, uint64_t debugctl)
{
	struct modes_start start = {.entry = MODES_CODE, .flags = 2, .debugctl = debugctl};
	uint64_t random = ~seed;

	for (unsigned i = 1; i <= p->site_count; i++) {
		*p->sites[i].displacement = MODES_ONE_WAY;
		p->sites[i].passes = 0;
	}
	for (unsigned i = 0; i < 5; i++)
		start.registers[i] = (uint32_t)random_next(&random);
	return start;
}
