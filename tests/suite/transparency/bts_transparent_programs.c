// SPDX-License-Identifier: MIT
#include "drivers/processor.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/lib/code.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/random_programs/program.h"
#include "tests/lib/random_programs/steps.h"
#include "tests/lib/rig.h"

#define INSTRUCTIONS 10000
#define PROGRAMS     3

struct outcome {
	struct machine machine;
	uint8_t data[PROGRAM_DATA_BYTES];
};

static struct machine start;
static struct outcome untraced, again, traced;

static void run(struct program *program, uint64_t seed, uint64_t debugctl, struct outcome *outcome)
{
	program_fill_data(program, seed);
	outcome->machine = start;
	machine_run(&outcome->machine, program->code + program->entry, debugctl);
	memcpy(outcome->data, program->data, PROGRAM_DATA_BYTES);
}

static bool same(const struct outcome *a, const struct outcome *b)
{
	size_t at = 0;

	while (at < PROGRAM_DATA_BYTES && a->data[at] == b->data[at])
		at++;
	if (at < PROGRAM_DATA_BYTES)
		test_note("data at %zx: %02x and %02x", at, a->data[at], b->data[at]);
	return machine_same(&a->machine, &b->machine) && at == PROGRAM_DATA_BYTES;
}

/* True if tracing made no difference to the program of `seed`, or to the beginning of it. */
static bool transparent(struct program *program, uint64_t seed, unsigned instructions)
{
	program_generate(program, seed, instructions);
	machine_randomize(&start, &(uint64_t){seed});
	start.registers[R15] = (uint64_t)program->data;
	run(program, seed, 0, &untraced);
	run(program, seed, 0, &again);
	if (!same(&untraced, &again))
		test_error("the program of seed %lx ends differently each time", seed);
	run(program, seed, rig_all(), &traced);
	return same(&untraced, &traced);
}

/* The shortest beginning that fails, whose newest instructions are to blame: from `back` on. */
static void shrink(struct program *program, uint64_t seed)
{
	unsigned passes = 0, fails = INSTRUCTIONS, back = 40;

	while (fails - passes > 1) {
		unsigned middle = passes + (fails - passes) / 2;

		*(transparent(program, seed, middle) ? &passes : &fails) = middle;
	}
	transparent(program, seed, fails);
	test_note("seed %lx, the first %u instructions, at %lx; the last ones are:", seed, fails,
		  (uint64_t)program->code);
	for (size_t at = program->size - back; at + 8 <= program->size; at += 8) {
		const uint8_t *b = program->code + at;

		test_note("%04zx: %02x %02x %02x %02x %02x %02x %02x %02x", at, b[0], b[1], b[2],
			  b[3], b[4], b[5], b[6], b[7]);
	}
}

static void check(struct program *program, struct rig *rig, uint64_t seed)
{
	bool is_transparent = transparent(program, seed, INSTRUCTIONS);

	EXPECT(rig_record(rig, 0).from != 0);
	if (!is_transparent)
		shrink(program, seed);
	EXPECT(is_transparent);
	rig_reset(rig);
}

TEST(bts_transparent_programs, .group = "transparency", .ids = "K12", .needs = NEED_BTS,
     .claim = "a random program ends in the same registers, flags and memory traced and untraced",
     .source = "SDM Vol 3, 17.4.5: BTS stores records, and does nothing else")
{
	struct program program;

	program_open(&program, INSTRUCTIONS + 100);
	RIG(rig, 4096);
	machine_open();
	for (uint64_t i = test_scaled(PROGRAMS); i; i--)
		check(&program, &rig, test_random());
	machine_close();
}

#define FOLLOWED 2
#define SLOTS	 32768

static struct machine followed;

static void start_followed(struct program *program, uint64_t seed)
{
	program_fill_data(program, seed);
	machine_randomize(&followed, &(uint64_t){seed});
	followed.registers[R15] = (uint64_t)program->data;
}

static void check_followed(struct program *program, struct steps *steps, struct rig *rig,
			   uint64_t seed)
{
	test_note("seed %lx, code at %lx", seed, (uint64_t)program->code);
	program_generate(program, seed, INSTRUCTIONS);
	start_followed(program, seed);
	steps_run(steps, program, &followed, 0);
	EXACTLY (rig) {
		start_followed(program, seed);
		machine_run(&followed, program->code + program->entry, rig_all());
	}
	EXPECT(rig_count(rig) < SLOTS);
	steps_expect(steps, program, rig);
}

TEST(bts_trace_follows_programs, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "the records of a random program are exactly the branches that single-stepping shows",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: each taken branch")
{
	struct program program;
	struct steps steps;

	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&steps, 20 * INSTRUCTIONS);
	RIG(rig, SLOTS);
	machine_open();
	for (uint64_t i = test_scaled(FOLLOWED); i; i--)
		check_followed(&program, &steps, &rig, test_random());
	machine_close();
}

// Code of AVX, and code that changes itself.

#define CR4_OSXSAVE  (1ul << 18)
#define LEAF_1_XSAVE (1u << 26)
#define LEAF_1_AVX   (1u << 28)
#define XCR0_AVX     7u
#define AVX_ROUNDS   50
#define VECTORS	     8
#define BYTES	     (VECTORS * 32)

extern const char avx_code[];

/* RDI: eight vectors of 256 bits, RSI: rounds. Branches, so that there is something to record. */
__asm__(".pushsection .text\n"
	"avx_code: vmovups (%rdi), %ymm0\n\tvmovups 32(%rdi), %ymm1\n"
	"1:\tvxorps %ymm0, %ymm1, %ymm2\n\tvandnps 64(%rdi), %ymm2, %ymm3\n\t"
	"vshufps $0x1b, %ymm3, %ymm0, %ymm4\n\tvperm2f128 $1, %ymm4, %ymm2, %ymm5\n\t"
	"vpermilps $0x39, %ymm5, %ymm6\n\tvblendps $0x5a, %ymm6, %ymm1, %ymm7\n\t"
	"vunpcklps %ymm7, %ymm4, %ymm8\n\tvextractf128 $1, %ymm8, 96(%rdi)\n\t"
	"vinsertf128 $0, 112(%rdi), %ymm8, %ymm9\n\tvmovups %ymm9, 128(%rdi)\n\t"
	"vpaddd %xmm9, %xmm2, %xmm10\n\tvpsrlq $3, %xmm10, %xmm11\n\tvmovdqu %xmm11, 160(%rdi)\n\t"
	"vmovmskps %ymm9, %eax\n\tvorps %ymm9, %ymm1, %ymm0\n\tvmovups %ymm4, %ymm1\n\t"
	"vmovups %ymm0, 192(%rdi)\n\tdecq %rsi\n\tjnz 1b\n\tvmovups %ymm1, 224(%rdi)\n\t"
	"vzeroupper\n\tret\n"
	".popsection");

static uint8_t data[2][BYTES];

static void run_avx(uint64_t debugctl, struct machine *machine, uint8_t *vectors)
{
	uint64_t random = 7;

	for (size_t at = 0; at < BYTES; at++)
		vectors[at] = (uint8_t)random_next(&random);
	machine_randomize(machine, &(uint64_t){1});
	machine->registers[RDI] = (uint64_t)vectors;
	machine->registers[RSI] = AVX_ROUNDS;
	machine_run(machine, avx_code, debugctl);
	machine->registers[RDI] = 0;
}

TEST(bts_transparent_avx, .group = "transparency", .ids = "K12", .needs = NEED_BTS,
     .claim = "a loop of AVX instructions ends in the same vectors traced and untraced",
     .source = "SDM Vol 3, 17.4.5: BTS stores records, and does nothing else")
{
	static struct machine without, with;
	uint64_t cr4;

	if (~cpuid(1, 0).ecx & (LEAF_1_XSAVE | LEAF_1_AVX))
		test_skip("no AVX (CPUID.1:ECX[28])");
	RIG(rig, 256);
	machine_open();
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | CR4_OSXSAVE));
	__asm__ volatile("xsetbv" : : "a"(XCR0_AVX), "d"(0), "c"(0));
	run_avx(0, &without, data[0]);
	run_avx(rig_all(), &with, data[1]);
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4));
	machine_close();
	EXPECT(machine_same(&without, &with));
	EXPECT(memcmp(data[0], data[1], BYTES) == 0);
	EXPECT_EQ(rig_count(&rig), AVX_ROUNDS + 1);
}

#define AT     0x00005a0000001000ul
#define ROUNDS 200
#define SKIP   7 /* bytes of the ADD that the patched jump skips or not */

extern const uint8_t modify_start[], modify_end[], modify_jump[], modify_again[], modify_ret[];

/*
 * Each round (R8 counts down) writes an immediate, an opcode (ADD or XOR) and a displacement of
 * itself through RDI, another linear address of the same page; hence the CPUID (SDM Vol 3, 8.1.3).
 */
__asm__(".pushsection .rodata\n"
	"modify_start: imull $0x01010193, %r8d, %eax\n\tmovl %eax, modify_immediate-modify_start(%rdi)\n\t"
	"movl %r8d, %eax\n\tandl $2, %eax\n\timull $0x18, %eax, %eax\n\taddl $1, %eax\n\t"
	"movb %al, modify_opcode-modify_start(%rdi)\n\t"
	"movl %r8d, %eax\n\tandl $1, %eax\n\timull $7, %eax, %eax\n\t"
	"movb %al, modify_jump+1-modify_start(%rdi)\n\t"
	"xorl %eax, %eax\n\tcpuid\n\t"
	".byte 0xb8\nmodify_immediate: .long 0\n\t"	/* MOV EAX, immediate */
	".byte 0x41\nmodify_opcode: .byte 0x01, 0xc1\n" /* ADD or XOR R9D, EAX */
	"modify_jump: .byte 0xeb, 0\n\t"
	"addl $0x12345678, %r9d\n\t"
	"roll $3, %r9d\n\tdecl %r8d\n"
	"modify_again: jnz modify_start\n"
	"modify_ret: ret\n"
	"modify_end: .popsection");

static uint32_t expected_result(void)
{
	uint32_t result = 0;

	for (uint32_t round = ROUNDS; round; round--) {
		uint32_t immediate = round * 0x01010193;

		result = round & 2 ? result ^ immediate : result + immediate;
		if (!(round & 1))
			result += 0x12345678;
		result = result << 3 | result >> 29;
	}
	return result;
}

static uint64_t run_page(uint8_t *page, uint64_t debugctl)
{
	static struct machine machine;

	memcpy(page, modify_start, (size_t)(modify_end - modify_start));
	machine_randomize(&machine, &(uint64_t){1});
	machine.registers[RDI] = (uint64_t)page;
	machine.registers[R8] = ROUNDS;
	machine.registers[R9] = 0;
	machine_run(&machine, (void *)AT, debugctl);
	return machine.registers[R9];
}

static const void *at(const uint8_t *label)
{
	return (const void *)(AT + (uint64_t)(label - modify_start));
}

TEST(bts_transparent_self_modifying, .group = "transparency", .ids = "K12", .needs = NEED_BTS,
     .claim = "self-modifying code computes the same traced, and its records show what it became",
     .source = "SDM Vol 3, 8.1.3, 11.6 and 17.4.4")
{
	uint8_t *page = test_area(1);
	size_t slot = 1;

	code_map(AT, page, 0);
	RIG(rig, 3 * ROUNDS);
	machine_open();
	EXPECT_EQ(run_page(page, 0), expected_result());
	EXACTLY (&rig)
		EXPECT_EQ(run_page(page, rig_all()), expected_result());
	machine_close();
	code_unmap(AT);
	EXPECT_EQ(rig_count(&rig), 2 * ROUNDS + 1);
	rig_expect(&rig, 0, machine_call, at(modify_start));
	for (uint32_t round = ROUNDS; round; round--) {
		rig_expect(&rig, slot++, at(modify_jump),
			   at(modify_jump + 2 + (round & 1 ? SKIP : 0)));
		if (round > 1)
			rig_expect(&rig, slot++, at(modify_again), at(modify_start));
	}
	rig_expect(&rig, slot, at(modify_ret), machine_back);
}
