// SPDX-License-Identifier: MIT
#include "tests/lib/random_programs/program.h"
#include "kernel/mm/page.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"

#define BYTES_PER_INSTRUCTION 12
#define SLACK		      4096

void program_open(struct program *p, unsigned instructions)
{
	size_t bytes = (size_t)instructions * BYTES_PER_INSTRUCTION + SLACK;

	*p = (struct program){0};
	p->code_pages = (bytes + PAGE_SIZE - 1) / PAGE_SIZE;
	p->most_branches = instructions;
	p->code = test_area(p->code_pages);
	p->data = test_area(PROGRAM_DATA_PAGES);
	bytes = instructions * sizeof(struct program_branch);
	p->branches = test_area((bytes + PAGE_SIZE - 1) / PAGE_SIZE);
}

void program_generate(struct program *p, uint64_t seed, unsigned instructions)
{
	p->random = seed;
	code_unseal(p->code, p->code_pages);
	p->size = p->branch_count = 0;
	p->function_count = p->instructions = 0;
	while (p->function_count < PROGRAM_FUNCTIONS)
		program_function(p);
	p->entry = p->size;
	while (p->instructions < instructions)
		program_pick(p, 4) ? program_straight(p) : program_control(p);
	program_define_flags(p);
	program_return(p);
	code_seal(p->code, p->code_pages);
}

const struct program_branch *program_branch_from(const struct program *p, uint32_t offset)
{
	size_t low = 0, high = p->branch_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->branches[middle].from < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < p->branch_count ? &p->branches[low] : NULL;
}

void program_fill_data(struct program *p, uint64_t seed)
{
	uint64_t random = ~seed;

	for (size_t at = 0; at < PROGRAM_DATA_BYTES; at += 8) {
		uint64_t value = random_next(&random);

		memcpy(p->data + at, &value, 8);
	}
}

unsigned program_pick(struct program *p, unsigned n)
{
	return (unsigned)random_below(&p->random, n);
}

/* R15 is the base of the data, R14 counts loops. */
unsigned program_register(struct program *p)
{
	static const uint8_t usable[] = {RAX, RCX, RDX, RBX, RBP, RSI, RDI,
					 R8,  R9,  R10, R11, R12, R13};

	return usable[program_pick(p, sizeof(usable))];
}

/* An index register is masked first: 3F8H times 8 and FFFH stay below the end. */
struct operand program_memory(struct program *p, unsigned alignment)
{
	struct operand operand = {.memory = true, .base = R15};

	operand.displacement = (int32_t)(program_pick(p, 0x1000) & ~(alignment - 1));
	if (program_pick(p, 3) == 0) {
		operand.indexed = true;
		operand.index = (uint8_t)program_register(p);
		operand.scale = (uint8_t)program_pick(p, 4);
		program_add(p, (struct instruction){.opcode = 0x81,
						    .size = 4,
						    .reg = 4, /* AND */
						    .rm = {.base = operand.index},
						    .immediate_size = 4,
						    .immediate = 0x3f8 & ~(alignment - 1)});
	}
	return operand;
}

struct operand program_operand(struct program *p)
{
	if (program_pick(p, 2))
		return (struct operand){.base = (uint8_t)program_register(p)};
	return program_memory(p, 1);
}

void program_add(struct program *p, struct instruction instruction)
{
	uint8_t bytes[LONGEST_INSTRUCTION];

	program_add_bytes(p, bytes, encode(bytes, &instruction));
}

void program_add_bytes(struct program *p, const void *bytes, size_t count)
{
	if (p->size + count > p->code_pages * PAGE_SIZE)
		test_error("a random program grew beyond %zu pages", p->code_pages);
	memcpy(p->code + p->size, bytes, count);
	p->size += count;
	p->instructions++;
}

void program_define_flags(struct program *p)
{
	program_add(p, (struct instruction){.opcode = 0x39,
					    .size = 8,
					    .reg = (uint8_t)program_register(p),
					    .rm = {.base = (uint8_t)program_register(p)}});
}

void program_straight(struct program *p)
{
	static void (*const kinds[])(struct program *) = {program_arithmetic, program_integer,
							  program_memory_access, program_sse};

	kinds[program_pick(p, 4)](p);
}

#define OPERAND_SIZE 0x66
#define LOCK	     0xf0
#define RM_SIB	     4

static uint8_t *little_endian(uint8_t *at, uint32_t value, size_t bytes)
{
	memcpy(at, &value, bytes);
	return at + bytes;
}

static uint8_t *memory_operand(uint8_t *at, uint8_t reg, const struct operand *rm)
{
	bool near = rm->displacement >= -128 && rm->displacement < 128;
	unsigned mod = near ? 1 : 2, low = rm->indexed ? RM_SIB : rm->base & 7;

	*at++ = (uint8_t)(mod << 6 | (reg & 7) << 3 | low);
	if (rm->indexed)
		*at++ = (uint8_t)(rm->scale << 6 | (rm->index & 7) << 3 | (rm->base & 7));
	return little_endian(at, (uint32_t)rm->displacement, near ? 1 : 4);
}

/* There is always a REX prefix: byte registers are then the low ones of all sixteen. */
size_t encode(uint8_t *to, const struct instruction *i)
{
	uint8_t *at = to;
	unsigned index = i->rm.memory && i->rm.indexed ? i->rm.index : 0;

	if (i->lock)
		*at++ = LOCK;
	if (i->size == 2)
		*at++ = OPERAND_SIZE;
	if (i->prefix)
		*at++ = i->prefix;
	*at++ = (uint8_t)(0x40 | (i->size == 8) << 3 | (i->reg >> 3) << 2 | (index >> 3) << 1 |
			  i->rm.base >> 3);
	if (i->opcode >> 8)
		*at++ = (uint8_t)(i->opcode >> 8);
	*at++ = (uint8_t)i->opcode;
	if (i->rm.memory)
		at = memory_operand(at, i->reg, &i->rm);
	else
		*at++ = (uint8_t)(3 << 6 | (i->reg & 7) << 3 | (i->rm.base & 7));
	return (size_t)(little_endian(at, i->immediate, i->immediate_size) - to);
}
