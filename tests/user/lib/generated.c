// SPDX-License-Identifier: MIT
#include "tests/user/lib/generated.h"

#include "tests/user/lib/ptrace.h"

#define MARGIN	  512 /* bytes that what has begun takes at most */
#define LOOPS	  4   /* in each other */
#define FUNCTIONS 4
#define CALL_COST 50 /* of what enters the kernel */
#define FORK_COST 400

/* The registers of the program: R15 counts blocks, R14 is a number to branch on, EBX, EBP, R12 and
   R13 count rounds, the others are scratch. */
__asm__(".pushsection .text.generated_area, \"ax\"\n"
	".globl generated_area\n"
	"generated_area:\n\t"
	".fill 2048, 1, 0xcc\n\t"
	".popsection");

struct generated generated;

static uint64_t state;
static struct {
	uint32_t start;
	unsigned cost;
} functions[FUNCTIONS];
static unsigned function_count, forks_left;

static uint32_t random(uint32_t below)
{
	return (uint32_t)random_below(&state, below);
}

/* --- Instructions --- */

#define EMIT(...)                                                                                  \
	emit((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}),               \
	     PART_INSTRUCTION)

static void put(uint64_t value, unsigned bytes)
{
	CHECK(generated.length + bytes <= GENERATED_BYTES);
	for (unsigned i = 0; i < bytes; i++)
		generated.code[generated.length++] = (uint8_t)(value >> 8 * i);
}

static void emit(const uint8_t *bytes, unsigned count, unsigned part)
{
	generated.parts[generated.length] = (uint8_t)part;
	for (unsigned i = 0; i < count; i++)
		put(bytes[i], 1);
}

/* Begins a basic block: every target of a branch, and what follows a branch. */
static uint32_t block(void)
{
	uint32_t start = generated.length;

	emit((const uint8_t[]){0x49, 0xff, 0xc7}, 3, PART_INSTRUCTION | PART_BLOCK); /* inc %r15 */
	return start;
}

/* The displacement that ends at the present end, of `bytes` bytes, leads from there to `target`. */
static void displace(uint32_t at, unsigned bytes, uint32_t target)
{
	uint32_t distance = target - (at + bytes);

	for (unsigned i = 0; i < bytes; i++)
		generated.code[at + i] = (uint8_t)(distance >> 8 * i);
}

/* A place for a displacement; displace() fills it. */
static uint32_t displacement(unsigned bytes)
{
	uint32_t at = generated.length;

	put(0, bytes);
	return at;
}

static void back_to(uint32_t target, unsigned bytes)
{
	displace(displacement(bytes), bytes, target);
}

/* mov $value, %e?? */
static void load(uint8_t opcode, uint32_t value)
{
	EMIT(opcode);
	put(value, 4);
}

#define EAX 0xb8
#define ECX 0xb9
#define ESI 0xbe
#define EDI 0xbf

/* lea target(%rip), register */
static uint32_t address_to(uint8_t rex, uint8_t modrm)
{
	EMIT(rex, 0x8d, modrm);
	return displacement(4);
}

/* --- Constructs: each returns what it costs at most, in instructions --- */

static unsigned straight(void)
{
	unsigned count = 1 + random(6);

	for (unsigned i = 0; i < count; i++) {
		switch (random(6)) {
		case 0:
			EMIT(0x90);
			break;
		case 1:
			EMIT(0x31, 0xc0); /* xor %eax, %eax */
			break;
		case 2:
			EMIT(0x48, 0x8d, 0x44, 0x24, 0xf8); /* lea -8(%rsp), %rax */
			break;
		case 3:
			EMIT(0x48, 0x89, 0x44, 0x24, 0xf0); /* mov %rax, -16(%rsp) */
			break;
		case 4:
			EMIT(0xf, 0x31); /* rdtsc */
			break;
		default:
			EMIT(0x83, 0xc0, 0x7f); /* add $127, %eax */
		}
	}
	return count;
}

/* imul, add, test: flags that are hard to foresee. */
static unsigned choose(void)
{
	EMIT(0x4d, 0x69, 0xf6);
	put(random_next(&state) >> 33 | 1, 4);
	EMIT(0x49, 0x81, 0xc6);
	put(random_next(&state) >> 33, 4);
	EMIT(0x41, 0xf7, 0xc6); /* test $x, %r14d */
	put(random_next(&state) >> random(64), 4);
	return 3;
}

/* A jump over some code if one of the sixteen conditions holds. */
static unsigned conditional(void)
{
	unsigned cost = choose();
	uint8_t condition = (uint8_t)random(16);
	bool near = random(2);
	uint32_t at;

	if (near)
		EMIT(0xf, 0x80 | condition);
	else
		EMIT(0x70 | condition);
	at = displacement(near ? 4 : 1);
	block();
	cost += straight();
	displace(at, near ? 4 : 1, block());
	return cost + 3;
}

/* jrcxz over some code in about half of the rounds. */
static unsigned if_counter_is_zero(void)
{
	unsigned cost = choose();
	uint32_t at;

	EMIT(0x44, 0x89, 0xf1); /* mov %r14d, %ecx */
	EMIT(0xc1, 0xe9, 0x1f); /* shr $31, %ecx */
	EMIT(0xe3);
	at = displacement(1);
	block();
	cost += straight();
	displace(at, 1, block());
	return cost + 5;
}

/* A block that repeats itself by LOOP. */
static unsigned tight_loop(unsigned budget)
{
	unsigned most = budget / 2 < 2000 ? budget / 2 : 2000, rounds = 1 + random(most ? most : 1);
	uint32_t top;

	load(ECX, rounds);
	top = block();
	EMIT(0xe2);
	back_to(top, 1);
	block();
	return 2 * rounds + 2;
}

/* jmp; jmp *%rax; jmp *(%rsp); push and ret: over a byte that nothing executes. */
static unsigned jump(void)
{
	unsigned form = random(5);
	uint32_t at = 0;

	if (form >= 2) {
		at = address_to(0x48, 0x05);
		if (form > 2)
			EMIT(0x50); /* push %rax */
	}
	switch (form) {
	case 0:
		EMIT(0xeb);
		at = displacement(1);
		break;
	case 1:
		EMIT(0xe9);
		at = displacement(4);
		break;
	case 2:
		EMIT(0xff, 0xe0);
		break;
	case 3:
		EMIT(0xff, 0x24, 0x24);
		break;
	default:
		EMIT(0xc3);
	}
	EMIT(0xcc);
	displace(at, form ? 4 : 1, block());
	if (form == 3)
		EMIT(0x58); /* pop %rax */
	return 5;
}

/* call; call *%rax: of a function that is there by now. */
static unsigned call(unsigned budget)
{
	unsigned which = function_count ? random(function_count) : 0;

	if (!function_count || functions[which].cost + 3 > budget)
		return 0;
	if (random(2)) {
		EMIT(0xe8);
		back_to(functions[which].start, 4);
	} else {
		displace(address_to(0x48, 0x05), 4, functions[which].start);
		EMIT(0xff, 0xd0);
	}
	block();
	return functions[which].cost + 3;
}

static unsigned string(void)
{
	unsigned count = random(40);

	load(ECX, count);
	EMIT(0x48, 0x8d, 0xbc, 0x24, 0, 0xfe, 0xff, 0xff); /* lea -512(%rsp), %rdi */
	emit((const uint8_t[]){0xf3, 0xaa}, 2, PART_INSTRUCTION | PART_STRING); /* rep stosb */
	return count + 3;
}

static void system_call_of(uint32_t number)
{
	load(EAX, number);
	EMIT(0xf, 5);
}

static unsigned system(void)
{
	static const uint16_t numbers[] = {SYS_getpid, SYS_getppid, SYS_sched_yield, 999};
	static const uint8_t signals[] = {SIGSTOP, SIGUSR1, SIGTSTP, SIGCHLD, SIGTERM};

	if (random(3)) {
		system_call_of(numbers[random(4)]);
		return CALL_COST;
	}
	/* A signal to itself. */
	system_call_of(SYS_getpid);
	EMIT(0x89, 0xc7); /* mov %eax, %edi */
	load(ESI, signals[random(5)]);
	system_call_of(SYS_kill);
	return 2 * CALL_COST;
}

#define TARGETS 4
static const uint64_t targets[TARGETS] = {0xffff800000000000, 0xffffffff80101000,
					  0xfffffffffffffff0, 0xffffffffffffffff};

/* jmp, call and ret to an address of the kernel's half; the tracer lets it go on at R11. */
static unsigned leave(void)
{
	uint32_t at = address_to(0x4c, 0x1d);
	unsigned form = random(3);

	EMIT(0x48, 0xb8); /* movabs $x, %rax */
	put(targets[random(TARGETS)], 8);
	if (form == 0) {
		EMIT(0xff, 0xe0);
	} else if (form == 1) {
		EMIT(0xff, 0xd0);
	} else {
		EMIT(0x50);
		EMIT(0xc3);
	}
	displace(at, 4, block());
	if (form == 1)
		EMIT(0x58);
	return CALL_COST + 6;
}

static unsigned fault(void)
{
	switch (random(7)) {
	case 0:
		EMIT(0xcc); /* int3 */
		break;
	case 1:
		EMIT(0xf, 0xb); /* ud2 */
		break;
	case 2:
		EMIT(0x8a, 4, 0x25, 0, 0, 0, 0); /* mov 0, %al */
		break;
	case 3:
		EMIT(0xf4); /* hlt */
		break;
	case 4:
		EMIT(0xcd, 0x80); /* int $0x80 */
		break;
	case 5:
		EMIT(0x31, 0xc9); /* xor %ecx, %ecx */
		EMIT(0xf7, 0xf1); /* div %ecx */
		break;
	default:
		return leave();
	}
	return CALL_COST;
}

static unsigned sequence(unsigned budget, unsigned depth);

/* fork(): the child executes some code, which may fork as well, and ends; its parent does not wait.
 */
static unsigned have_child(unsigned budget)
{
	unsigned cost = 3 * CALL_COST;
	uint32_t at;

	forks_left--;
	system_call_of(SYS_fork);
	EMIT(0x85, 0xc0); /* test %eax, %eax */
	EMIT(0xf, 0x85);  /* jnz */
	at = displacement(4);
	block();
	cost += sequence(random(budget / 2 + 1), 0);
	load(EDI, GENERATED_EXIT);
	system_call_of(SYS_exit);
	displace(at, 4, block());
	return cost;
}

/* A counted loop around anything: the number of rounds is put in when its body is known. */
static unsigned loop(unsigned budget, unsigned depth)
{
	static const uint8_t load_counter[LOOPS][2] = {
		{0x40, 0xbb}, {0x40, 0xbd}, {0x41, 0xbc}, {0x41, 0xbd}};
	static const uint8_t decrement[LOOPS][3] = {
		{0x40, 0xff, 0xcb}, {0x40, 0xff, 0xcd}, {0x41, 0xff, 0xcc}, {0x41, 0xff, 0xcd}};
	uint32_t top, rounds_at, rounds, cost;

	emit(load_counter[depth], 2, PART_INSTRUCTION);
	rounds_at = displacement(4);
	top = block();
	cost = sequence(budget / (1 + random(50)), depth + 1) + 4;
	emit(decrement[depth], 3, PART_INSTRUCTION);
	EMIT(0xf, 0x85); /* jnz */
	back_to(top, 4);
	block();
	rounds = 1 + random(budget / cost + 1);
	for (unsigned i = 0; i < 4; i++)
		generated.code[rounds_at + i] = (uint8_t)(rounds >> 8 * i);
	return cost * rounds + 3;
}

/* One that costs at most about `budget`; 0: it would have cost more. */
static unsigned construct(unsigned budget, unsigned depth)
{
	if (!depth && forks_left && budget > FORK_COST && !random(3))
		return have_child(budget - FORK_COST);
	switch (random(15)) {
	case 0:
		return budget > 3 * CALL_COST ? system() : 0;
	case 1 ... 3:
		return budget > 3 * CALL_COST ? fault() : 0;
	case 4 ... 5:
		return budget > 40 && depth < LOOPS ? loop(budget - 10, depth) : 0;
	case 6 ... 7:
		return call(budget);
	case 8:
		return budget > 20 ? tight_loop(budget - 10) : 0;
	case 9:
		return if_counter_is_zero();
	case 10:
		return string();
	case 11:
		return jump();
	default:
		return conditional();
	}
}

/* Constructs until they cost about `budget`, or one more: what they cost at most. */
static unsigned sequence(unsigned budget, unsigned depth)
{
	unsigned cost = straight();

	while (cost < budget && generated.length < GENERATED_BYTES - MARGIN)
		cost += construct(budget - cost, depth);
	return cost;
}

/* Functions that call those before them only, and have no counted loops. */
static void make_functions(unsigned cost)
{
	unsigned count = random(FUNCTIONS + 1);

	for (function_count = 0; function_count < count; function_count++) {
		functions[function_count].start = block();
		functions[function_count].cost = 3 + sequence(random(cost), LOOPS);
		if (random(2))
			EMIT(0xc3);
		else
			EMIT(0xc2, 0, 0); /* ret $0 */
	}
}

void generate(uint64_t seed, uint32_t cost, unsigned forks)
{
	uint32_t over;

	generated = (struct generated){.number = seed};
	for (unsigned i = 0; i < GENERATED_BYTES; i++)
		generated.code[i] = 0xcc;
	state = seed;
	forks_left = forks;
	EMIT(0xcc);
	block();
	EMIT(0xe9); /* jmp */
	over = displacement(4);
	EMIT(0xcc);
	make_functions(cost / 8 < 300 ? cost / 8 + 1 : 300);
	displace(over, 4, block());
	generated.cost = sequence(cost, 0);
	if (random(2)) {
		load(EDI, GENERATED_EXIT);
		system_call_of(SYS_exit);
	}
	EMIT(0xcc);
}

uint64_t generated_next(uint64_t rip)
{
	do
		rip++;
	while (!generated_part(rip) && rip < (uint64_t)generated_area + generated.length);
	return rip;
}

unsigned generated_part(uint64_t rip)
{
	uint64_t offset = rip - (uint64_t)generated_area;

	return offset < generated.length ? generated.parts[offset] : 0;
}

bool generated_is_end(uint64_t rip)
{
	return rip == (uint64_t)generated_area + generated.length;
}

bool generated_leaves(uint64_t address)
{
	for (unsigned i = 0; i < TARGETS; i++)
		if (address == targets[i])
			return true;
	return false;
}

void generated_skip_fault(struct ptrace_registers *registers)
{
	registers->rip = registers->rip >> 63 ? registers->r11 : generated_next(registers->rip);
}
