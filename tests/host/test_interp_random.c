// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c tests/host/interp_observer.c tests/host/interp_rig.c */
/* sources: monitor/interp/?*.c lib/format.c */
/*
 * Random integer instructions, run by the processor of this machine and by the interpreter, from
 * the same state: registers, flags and memory must agree.
 */
#include <stdio.h>

#include "tests/framework/random.h"
#include "tests/host/interp_rig.h"

enum { DATA_BYTES = 4096, SEQUENCES = 40000, LONGEST = 12 };

/* At RIG_BASE + RIG_STATE; the assembly below knows the offsets. */
struct state {
	uint64_t gpr[16];
	uint64_t rflags;
	uint64_t host_rsp;
	uint64_t code;
	uint64_t back;
};
#define STATE ((struct state *)(RIG_BASE + RIG_STATE))

static uint64_t seed = 0x5eed5eed5eed0001;

static unsigned below(unsigned n)
{
	return (unsigned)random_below(&seed, n);
}

/* Runs the code at STATE->code, which ends in a jump through STATE->back. */
__attribute__((noinline)) static void run_natively(void)
{
	__asm__ volatile("pushq %%rbx\n\tpushq %%rbp\n\tpushq %%r12\n\tpushq %%r13\n\t"
			 "pushq %%r14\n\tpushq %%r15\n\t"
			 "leaq 1f(%%rip), %%rax\n\tmovq %%rax, 0x10008098\n\t"
			 "movq %%rsp, 0x10008088\n\t"
			 "pushq 0x10008080\n\tpopfq\n\t"
			 "movq 0x10008000, %%rax\n\tmovq 0x10008008, %%rcx\n\t"
			 "movq 0x10008010, %%rdx\n\tmovq 0x10008018, %%rbx\n\t"
			 "movq 0x10008020, %%rsp\n\tmovq 0x10008028, %%rbp\n\t"
			 "movq 0x10008030, %%rsi\n\tmovq 0x10008038, %%rdi\n\t"
			 "movq 0x10008040, %%r8\n\tmovq 0x10008048, %%r9\n\t"
			 "movq 0x10008050, %%r10\n\tmovq 0x10008058, %%r11\n\t"
			 "movq 0x10008060, %%r12\n\tmovq 0x10008068, %%r13\n\t"
			 "movq 0x10008070, %%r14\n\tmovq 0x10008078, %%r15\n\t"
			 "jmp *0x10008090\n\t"
			 "1:\n\t"
			 "movq %%rax, 0x10008000\n\tmovq %%rcx, 0x10008008\n\t"
			 "movq %%rdx, 0x10008010\n\tmovq %%rbx, 0x10008018\n\t"
			 "movq %%rsp, 0x10008020\n\tmovq %%rbp, 0x10008028\n\t"
			 "movq %%rsi, 0x10008030\n\tmovq %%rdi, 0x10008038\n\t"
			 "movq %%r8, 0x10008040\n\tmovq %%r9, 0x10008048\n\t"
			 "movq %%r10, 0x10008050\n\tmovq %%r11, 0x10008058\n\t"
			 "movq %%r12, 0x10008060\n\tmovq %%r13, 0x10008068\n\t"
			 "movq %%r14, 0x10008070\n\tmovq %%r15, 0x10008078\n\t"
			 "movq 0x10008088, %%rsp\n\t"
			 "pushfq\n\tpopq 0x10008080\n\tcld\n\t"
			 "popq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\tpopq %%r12\n\t"
			 "popq %%rbp\n\tpopq %%rbx"
			 :
			 :
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc",
			   "memory");
}

/* RBX, R9 and R12 hold addresses and RSP the stack: never written. */
static unsigned writable_register(void)
{
	static const uint8_t registers[] = {0, 1, 2, 5, 6, 7, 8, 10, 11, 13, 14, 15};

	return registers[below(sizeof(registers))];
}

static uint8_t *code;

static void emit(unsigned byte)
{
	*code++ = (uint8_t)byte;
}

static void emit32(uint32_t value)
{
	memcpy(code, &value, 4);
	code += 4;
}

enum {
	BYTE = 1,
	NO_LOCK = 2,
	READ_ONLY = 4,
	ONLY_REGISTER = 8,
	ONLY_MEMORY = 16,
	IMM8 = 32,
	IMM = 64,
	WIDE_ONLY = 128,
	LOCKABLE = 256
};

/* The ModRM byte, SIB and displacement. `mode` < 0: register `rm`, else one of five ways to address
   memory; `immediate` bytes are still to come after it. */
static void emit_operand(int mode, unsigned r, unsigned rm, unsigned immediate)
{
	if (mode < 0) {
		emit(0xc0 | (r & 7) << 3 | (rm & 7));
	} else if (mode == 0) {
		emit(0x43 | (r & 7) << 3); /* [rbx + d8] */
		emit(below(256));
	} else if (mode == 1) {
		emit(0x84 | (r & 7) << 3); /* [r12 + d32] */
		emit(0x24);
		emit32(below(2000) - 1000u);
	} else if (mode == 2) {
		emit(0x44 | (r & 7) << 3); /* [rbx + r9 * n + d8] */
		emit(0x0b | below(4) << 6);
		emit(below(256));
	} else if (mode == 3) {
		emit(0x05 | (r & 7) << 3); /* RIP-relative */
		emit32((uint32_t)(DATA + 64 + below(3900) - ((uint64_t)code + 4 + immediate)));
	} else {
		emit(0x04 | (r & 7) << 3); /* absolute */
		emit(0x25);
		emit32((uint32_t)(DATA + 64 + below(3900)));
	}
}

/* ModRM with `reg` and a random operand after `opcode`; `reg` < 0: a random register. */
static void emit_modrm(unsigned flags, unsigned opcode, int reg, unsigned immediate_bytes)
{
	bool memory = flags & ONLY_MEMORY || (!(flags & ONLY_REGISTER) && below(2));
	bool byte = flags & BYTE;
	unsigned r = reg < 0 ? writable_register() : (unsigned)reg, rm = writable_register();
	unsigned rex = below(3) ? 0x40 | (below(2) ? 8 : 0) : 0;
	unsigned mode = below(5), size = 4;

	if (byte && !rex) { /* AH and its kin: BL and BH hold part of an address */
		static const uint8_t bytes[] = {0, 1, 2, 4, 5, 6};

		r = reg < 0 ? bytes[below(6)] : r;
		rm = bytes[below(6)];
	}
	if (r > 7 || (!memory && rm > 7) || (memory && (mode == 1 || mode == 2)))
		rex |= 0x40;
	if (byte && rex & 0x40 && reg < 0 && r < 8 && (r & 7) == 4)
		r = 0;
	if (rex & 8)
		size = 8;
	else if (below(4) == 0) {
		emit(0x66);
		size = 2;
	}
	if (flags & LOCKABLE && memory && below(2))
		emit(0xf0);
	rex |= (r & 8) >> 1;
	if (memory && mode == 1)
		rex |= 1; /* R12 */
	else if (memory && mode == 2)
		rex |= 2; /* R9 as index */
	else if (!memory && rm & 8)
		rex |= 1;
	if (byte && !memory && rex && rm == 4)
		rm = 0;
	if (rex)
		emit(rex);
	if (opcode > 0xff)
		emit(0x0f);
	emit(opcode);
	unsigned bytes = immediate_bytes == 4 ? (byte ? 1 : size == 2 ? 2 : 4) : immediate_bytes;

	emit_operand(memory ? (int)mode : -1, r, rm, bytes);
	for (unsigned n = 0; n < bytes; n++)
		emit(below(256));
}

static const struct {
	uint16_t opcode;
	int8_t reg; /* -1: a register, -2: any of eight, -3: as -2 without TEST, MUL and DIV */
	uint16_t flags;
	uint8_t immediate;
} instructions[] = {
	{0x00, -1, BYTE | LOCKABLE, 0},
	{0x01, -1, LOCKABLE, 0},
	{0x02, -1, BYTE, 0},
	{0x03, -1, 0, 0},
	{0x08, -1, BYTE, 0},
	{0x09, -1, LOCKABLE, 0},
	{0x0b, -1, 0, 0},
	{0x10, -1, BYTE, 0},
	{0x11, -1, LOCKABLE, 0},
	{0x13, -1, 0, 0},
	{0x18, -1, BYTE, 0},
	{0x19, -1, LOCKABLE, 0},
	{0x1b, -1, 0, 0},
	{0x21, -1, LOCKABLE, 0},
	{0x23, -1, 0, 0},
	{0x29, -1, LOCKABLE, 0},
	{0x2a, -1, BYTE, 0},
	{0x2b, -1, 0, 0},
	{0x31, -1, LOCKABLE, 0},
	{0x33, -1, 0, 0},
	{0x38, -1, BYTE, 0},
	{0x39, -1, 0, 0},
	{0x3b, -1, 0, 0},
	{0x63, -1, 0, 0},
	{0x69, -1, 0, 4},
	{0x6b, -1, 0, 1},
	{0x80, -2, BYTE, 1},
	{0x81, -2, 0, 4},
	{0x83, -2, 0, 1},
	{0x84, -1, BYTE, 0},
	{0x85, -1, 0, 0},
	{0x86, -1, BYTE, 0},
	{0x87, -1, 0, 0},
	{0x88, -1, BYTE, 0},
	{0x89, -1, 0, 0},
	{0x8a, -1, BYTE, 0},
	{0x8b, -1, 0, 0},
	{0x8d, -1, ONLY_MEMORY, 0},
	{0xc0, -2, BYTE, 1},
	{0xc1, -2, 0, 1},
	{0xc6, 0, BYTE, 1},
	{0xc7, 0, 0, 4},
	{0xd0, -2, BYTE, 0},
	{0xd1, -2, 0, 0},
	{0xd2, -2, BYTE, 0},
	{0xd3, -2, 0, 0},
	{0xf6, 0, BYTE, 1},
	{0xf7, 0, 0, 4},
	{0xf6, 2, BYTE | LOCKABLE, 0},
	{0xf7, 2, LOCKABLE, 0},
	{0xf6, 3, BYTE, 0},
	{0xf7, 3, LOCKABLE, 0},
	{0xf6, 4, BYTE, 0},
	{0xf7, 4, 0, 0},
	{0xf6, 5, BYTE, 0},
	{0xf7, 5, 0, 0},
	{0xfe, 0, BYTE, 0},
	{0xff, 0, LOCKABLE, 0},
	{0xfe, 1, BYTE, 0},
	{0xff, 1, LOCKABLE, 0},
	{0x1a3, -1, ONLY_REGISTER, 0},
	{0x1ab, -1, ONLY_REGISTER, 0},
	{0x1b3, -1, ONLY_REGISTER, 0},
	{0x1bb, -1, ONLY_REGISTER, 0},
	{0x1ba, 4, 0, 1},
	{0x1ba, 5, LOCKABLE, 1},
	{0x1ba, 6, LOCKABLE, 1},
	{0x1ba, 7, LOCKABLE, 1},
	{0x1a4, -1, 0, 1},
	{0x1a5, -1, 0, 0},
	{0x1ac, -1, 0, 1},
	{0x1ad, -1, 0, 0},
	{0x1af, -1, 0, 0},
	{0x1b0, -1, BYTE | LOCKABLE, 0},
	{0x1b1, -1, LOCKABLE, 0},
	{0x1b6, -1, 0, 0},
	{0x1b7, -1, 0, 0},
	{0x1bc, -1, 0, 0},
	{0x1bd, -1, 0, 0},
	{0x1be, -1, 0, 0},
	{0x1bf, -1, 0, 0},
	{0x1c0, -1, BYTE | LOCKABLE, 0},
	{0x1c1, -1, LOCKABLE, 0},
};
enum { INSTRUCTIONS = sizeof(instructions) / sizeof(instructions[0]) };

static void emit_plain(void)
{
	static const uint8_t one[] = {0x98, 0x99, 0x9e, 0x9f, 0xf5, 0xf8, 0xf9, 0x90, 0xd7};
	unsigned byte = one[below(sizeof(one) - 1)], r = writable_register();

	switch (below(7)) {
	case 0:
		emit(0x48 | r >> 3); /* MOV of 64 bits */
		emit(0xb8 | (r & 7));
		emit32((uint32_t)random_next(&seed));
		emit32((uint32_t)random_next(&seed));
		break;
	case 1:
		emit(0x48 | r >> 3);
		emit(0x0f);
		emit(0xc8 | (r & 7));
		break;
	case 2:
		emit(0x48 | r >> 3);
		emit(0x90 | (r & 7));
		break;
	case 3:
		emit(0x40 | r >> 3); /* PUSH, POP elsewhere */
		emit(0x50 | (r & 7));
		r = writable_register();
		emit(0x40 | r >> 3);
		emit(0x58 | (r & 7));
		break;
	case 4:
		emit(below(2) ? 0x48 : 0x66);
		emit(byte == 0x9e ? 0x98 : byte);
		break;
	default:
		emit(byte);
		break;
	}
}

static bool tests_bits(unsigned opcode)
{
	return (opcode & ~0x18u) == 0x1a3 || opcode == 0x1ba;
}

static bool shifts(unsigned opcode)
{
	return (opcode & ~1u) == 0xc0 || (opcode & ~1u) == 0xd2 || (opcode & ~9u) == 0x1a4;
}

static bool multiplies(unsigned opcode, int reg)
{
	return opcode == 0x69 || opcode == 0x6b || opcode == 0x1af ||
	       ((opcode & ~1u) == 0xf6 && (reg == 4 || reg == 5));
}

static bool scans_bits(unsigned opcode)
{
	return (opcode & ~1u) == 0x1bc;
}

/*
 * Replaces the flags that the manual leaves undefined: processors differ in them, and some keep
 * what the flag was before.
 */
static void emit_defined_flags(unsigned opcode, int reg)
{
	if (tests_bits(opcode) || multiplies(opcode, reg)) {
		/* CF is defined, and OF is the same after a multiplication: SETC DL, then ADD AL,
		 * 0. */
		memcpy(code, "\x0f\x92\xc2\x04\x00", 5);
		code += 5;
	} else if (scans_bits(opcode)) {
		/* Only ZF is defined: SETZ DL, then ADD AL, 0. */
		memcpy(code, "\x0f\x94\xc2\x04\x00", 5);
		code += 5;
	} else if (shifts(opcode)) {
		/* OF is not defined: LAHF, ADD AL, 0, SAHF. */
		memcpy(code, "\x9f\x04\x00\x9e", 4);
		code += 4;
	}
}

static void emit_one(void)
{
	unsigned which = below(INSTRUCTIONS + 18);

	if (which >= INSTRUCTIONS + 8) {
		emit_plain();
	} else if (which >= INSTRUCTIONS + 4) {
		emit_modrm(0, 0x140 + below(16), -1, 0);
	} else if (which >= INSTRUCTIONS) {
		emit_modrm(BYTE, 0x190 + below(16), 0, 0);
	} else {
		int reg = instructions[which].reg;

		emit_modrm(instructions[which].flags, instructions[which].opcode,
			   reg == -2 ? (int)below(8) : reg, instructions[which].immediate);
		emit_defined_flags(instructions[which].opcode, instructions[which].reg);
	}
}

/* A memory operand's byte register may be one with REX: SPL is not to be written. */
static void emit_end(void)
{
	emit(0xff); /* jmp *STATE->back */
	emit(0x24);
	emit(0x25);
	emit32(RIG_BASE + RIG_STATE + 0x98);
}

static void report(const uint8_t *from, const struct state *before)
{
	print_error("seed now %llx; code:", (unsigned long long)seed);
	for (const uint8_t *at = from; at < code; at++)
		print_error(" %02x", *at);
	print_error("\nrflags %llx -> native %llx, interpreted %llx\n",
		    (unsigned long long)before->rflags, (unsigned long long)STATE->rflags,
		    (unsigned long long)rig.vcpu.rflags);
	for (unsigned n = 0; n < 16; n++)
		if (STATE->gpr[n] != rig.vcpu.gpr[n])
			print_error("register %u: %llx -> native %llx, interpreted %llx\n", n,
				    (unsigned long long)before->gpr[n],
				    (unsigned long long)STATE->gpr[n],
				    (unsigned long long)rig.vcpu.gpr[n]);
}

static void one_sequence(unsigned count)
{
	static uint8_t data[DATA_BYTES], native_data[DATA_BYTES];
	struct state before;
	struct vcpu *v = &rig.vcpu;
	uint8_t *start = rig.memory + RIG_CODE + below(2) * (PAGE - 20);

	code = start;
	for (unsigned n = 0; n < count; n++)
		emit_one();

	uint64_t end = (uint64_t)code;

	emit_end();
	for (unsigned n = 0; n < sizeof(data); n += 8)
		memcpy(data + n, &(uint64_t){random_next(&seed)}, 8);
	for (unsigned n = 0; n < 16; n++)
		before.gpr[n] = below(4) ? random_next(&seed) : random_next(&seed) >> below(64);
	before.gpr[RBX] = DATA + 1024 + below(64);
	before.gpr[R12] = DATA + 2048 + below(64);
	before.gpr[R9] = below(64);
	before.gpr[RSP] = RIG_BASE + RIG_STACK;
	before.rflags = (random_next(&seed) & FLAG_ARITHMETIC) | FLAG_FIXED | FLAG_IF;
	before.code = (uint64_t)start;

	memcpy(rig.memory + RIG_DATA, data, sizeof(data));
	*STATE = before;
	run_natively();
	memcpy(native_data, rig.memory + RIG_DATA, sizeof(data));

	struct state native = *STATE;

	memcpy(rig.memory + RIG_DATA, data, sizeof(data));
	memcpy(v->gpr, before.gpr, sizeof(v->gpr));
	v->rflags = before.rflags;
	v->rip = before.code;
	if (below(2)) {
		while (v->rip != end)
			assert_int_equal(interp_run(v, 1), INTERP_BUDGET);
	} else {
		for (unsigned n = 0; v->rip != end && n < 20; n++) {
			memcpy((void *)end, "\xf4", 1); /* HLT stops a whole block */
			assert_int_equal(interp_run(v, 1000), INTERP_HALTED);
			v->halted = false;
			v->rip--;
		}
	}
	*STATE = native;
	if (memcmp(native.gpr, v->gpr, sizeof(v->gpr)) || (native.rflags ^ v->rflags) & 0xcd5 ||
	    memcmp(native_data, rig.memory + RIG_DATA, sizeof(data))) {
		report(start, &before);
		fail();
	}
	assert_int_equal(observer.branches, 0);
}

UNIT(random_instructions_agree_with_the_processor)
{
	unsigned long instructions_run = 0;

	print_message("# seed %llx\n", (unsigned long long)seed);
	rig_reset();
	observer_reset();
	for (unsigned n = 0; n < SEQUENCES; n++) {
		unsigned count = 1 + below(LONGEST);

		one_sequence(count);
		instructions_run += count;
	}
	print_message("# %lu instructions\n", instructions_run);
}
