// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/lib/code.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/rig.h"

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

static uint64_t run(uint8_t *page, uint64_t debugctl)
{
	static struct machine machine;

	memcpy(page, modify_start, (size_t)(modify_end - modify_start));
	machine_randomize(&machine, &(struct random){1});
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

TEST(bts_transparent_self_modifying, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "self-modifying code computes the same traced, and its records show what it became",
     .source = "SDM Vol 3, 8.1.3, 11.6 and 17.4.4")
{
	uint8_t *page = test_area(1);
	size_t slot = 1;
	struct rig rig;

	code_map(AT, page, 0);
	rig_open(&rig, 3 * ROUNDS);
	machine_open();
	EXPECT_EQ(run(page, 0), expected_result());
	EXACTLY (&rig)
		EXPECT_EQ(run(page, rig_all()), expected_result());
	machine_close();
	code_unmap(AT);
	EXPECT_EQ(rig_count(&rig), 2 * ROUNDS + 1);
	rig_expect(&rig, 0, machine_call, at(modify_start), "call");
	for (uint32_t round = ROUNDS; round; round--) {
		rig_expect(&rig, slot++, at(modify_jump),
			   at(modify_jump + 2 + (round & 1 ? SKIP : 0)), "patched jmp");
		if (round > 1)
			rig_expect(&rig, slot++, at(modify_again), at(modify_start), "jnz");
	}
	rig_expect(&rig, slot, at(modify_ret), machine_back, "ret");
	rig_close(&rig);
}
