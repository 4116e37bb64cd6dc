// SPDX-License-Identifier: MIT
#include "tests/host/pt_program.h"

#include "tests/framework/random.h"

#define EMIT(...) emit((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static uint64_t seed;
static uint8_t *code;
static const uint8_t iretq[] = {0x48, 0xcf};
/* add qword [rsp], 2; iretq: past UD2 */
static const uint8_t skip_two[] = {0x48, 0x83, 0x04, 0x24, 0x02, 0x48, 0xcf};

unsigned below(unsigned n)
{
	return (unsigned)random_below(&seed, n);
}

static void emit(const void *bytes, unsigned count)
{
	memcpy(code, bytes, count);
	code += count;
}

static void emit32(uint32_t value)
{
	emit(&value, sizeof(value));
}

uint8_t *function(unsigned n)
{
	return rig.memory + (n < FUNCTIONS / 2 ? RIG_CODE : FAR_CODE) + 64 + n * FUNCTION_BYTES;
}

/* One of what control flow knows. Only later functions are called: the program ends. */
static void emit_step(unsigned n)
{
	unsigned next = n + 1 + below(3), skip;

	EMIT(0x48, 0x69, 0xc0); /* imul rax, rax, odd */
	emit32(below(1 << 20) * 2 + 1);
	EMIT(0x48, 0x05); /* add rax, x */
	emit32(below(1 << 30));
	EMIT(0x48, 0x0f, 0xba, 0xe0, (uint8_t)(20 + below(40))); /* bt rax, bit */
	switch (below(9)) {
	case 0:
	case 1: /* jc or jnc over nothing much */
		skip = 1 + below(4);
		EMIT((uint8_t)(0x72 + below(2)), (uint8_t)skip);
		while (skip--)
			EMIT(0x90);
		break;
	case 2: /* jc to the next; jc near; another jump */
		EMIT(0x72, 0, 0x0f, 0x82, 2, 0, 0, 0, 0xeb, 0);
		break;
	case 3: /* a loop */
		EMIT(0xb9, (uint8_t)(1 + below(9)), 0, 0, 0, 0x90, 0xe2, 0xfd);
		break;
	case 4: /* call, jump to the return address instead of RET: the stack of returns differs */
		EMIT(0xe8, 2, 0, 0, 0, 0xeb, 4, 0x59, 0xff, 0xe1, 0x90);
		break;
	case 5: /* call of the next instruction */
		EMIT(0xe8, 0, 0, 0, 0, 0x59);
		break;
	case 6: /* RET to what was pushed */
		EMIT(0x48, 0x8d, 0x0d, 2, 0, 0, 0, 0x51, 0xc3);
		break;
	case 7:
		if (next >= FUNCTIONS)
			break;
		EMIT(0xe8);
		emit32((uint32_t)(function(next) - (code + 4)));
		break;
	default:
		if (next >= FUNCTIONS)
			break;
		EMIT(0xb9); /* mov ecx, function; call rcx */
		emit32((uint32_t)(uintptr_t)function(next));
		EMIT(0xff, 0xd1);
	}
}

void make_program(uint64_t with_seed, bool events)
{
	seed = with_seed;
	for (unsigned n = 0; n < FUNCTIONS; n++) {
		code = function(n);
		for (unsigned steps = 3 + below(6); steps--;)
			emit_step(n);
		if (events && !below(3))
			EMIT(0xcd, VECTOR);
		if (events && !below(3))
			EMIT(0x0f, 0x0b);
		EMIT(0xc3);
	}
	rig_code(RIG_HANDLERS + VECTOR * 16, iretq, sizeof(iretq));
	rig_code(RIG_HANDLERS + 2 * 16, iretq, sizeof(iretq));
	rig_code(RIG_HANDLERS + 6 * 16, skip_two, sizeof(skip_two));
	/* call function 0; again */
	code = rig.memory + RIG_CODE;
	EMIT(0xe8);
	emit32((uint32_t)(function(0) - (code + 4)));
	EMIT(0xeb, 0xf9);
}

void make_user_program(uint64_t with_seed, unsigned first, bool events)
{
	static const uint8_t entry[] = {0xeb, 0x00, 0x48, 0x0f, 0x07};

	make_program(with_seed, events);
	rig_code(SYSCALL_ENTRY, entry, sizeof(entry));
	code = rig.memory + RIG_CODE; /* call it; push rax; syscall; pop rax; again */
	EMIT(0xe8);
	emit32((uint32_t)(function(first) - (code + 4)));
	EMIT(0x50, 0x0f, 0x05, 0x58, 0xeb, 0xf5);
	rig.vcpu.lstar = RIG_BASE + SYSCALL_ENTRY;
	rig.vcpu.star = (uint64_t)(RIG_KERNEL_CS | (uint64_t)RIG_KERNEL_SS << 16) << 32;
	rig_gate(VECTOR, 0xee, 0);
	rig_to_user();
}
