// SPDX-License-Identifier: MIT
#include "tests/lib/code.h"
#include "tests/framework/pages.h"

#include "drivers/debugctl.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "tests/framework/test.h"

static void map(uint64_t linear, const void *page, unsigned flags)
{
	uint64_t physical = *vm_entry((uint64_t)page) & PTE_ADDRESS;

	if (!vm_map(linear, physical, flags))
		test_error("no memory for the page tables of %lx", linear);
}

void code_map(uint64_t linear, const void *page, unsigned flags)
{
	map(linear, page, VM_EXECUTE | flags);
}

void code_map_data(uint64_t linear, const void *page, unsigned flags)
{
	map(linear, page, VM_WRITE | flags);
}

void code_unmap(uint64_t linear)
{
	page_unmap(linear);
}

static void protect(void *area, size_t pages, unsigned flags)
{
	for (size_t i = 0; i < pages; i++)
		page_protect((uint64_t)area + i * PAGE_SIZE, flags);
}

void code_seal(void *area, size_t pages)
{
	protect(area, pages, VM_EXECUTE);
}

void code_unseal(void *area, size_t pages)
{
	protect(area, pages, VM_WRITE);
}

/* Below 4 GiB, for addresses of 32 bits. */
#define CODE_AT	 0x5a001000ul
#define DATA_AT	 (CODE_AT + PAGE_SIZE)
#define STACK_AT (DATA_AT + 0x500)
#define SLOTS_AT (DATA_AT + 0x800) /* operands in memory, 16 bytes each */
#define FRAME_AT (DATA_AT + 0xe00) /* of IRET */

enum { FORM_BYTES = 64, MOST_OF_A_FORM = 3 };
enum { RAX, RCX, RBX = 3, RSP, RBP, REGISTERS = 16, NONE = RSP };
enum { REX = 0x40, REX_W = 8, REX_X = 2, REX_B = 1 };
enum { GROUP_CALL = 2, GROUP_CALL_FAR, GROUP_JMP, GROUP_JMP_FAR };
enum { CF = 1, PF = 4, ZF = 0x40, SF = 0x80, OF = 0x800, ALWAYS_SET = 2 };

/* Of no meaning to a near branch, but of FS, GS and the size of addresses: SDM Vol 2, 2.1.1, table
   A-2 (f64) and JMP. */
static const struct prefix {
	uint8_t byte, rex;
} prefixes[] = {{0, 0},	   {0x66, 0}, {0, REX_W}, {0xf2, 0}, {0x2e, 0}, {0x3e, 0},
		{0x67, 0}, {0x64, 0}, {0x65, 0},  {0x26, 0}, {0x36, 0}};
enum { PREFIXES = sizeof(prefixes) / sizeof(prefixes[0]) };

static void put(struct code_branches *b, uint64_t value, unsigned bytes)
{
	memcpy(b->code + b->size, &value, bytes);
	b->size += bytes;
}

static uint64_t here(const struct code_branches *b)
{
	return CODE_AT + b->size;
}

static void put_mov(struct code_branches *b, unsigned reg, uint64_t value)
{
	put(b, REX | REX_W | (reg >= 8 ? REX_B : 0), 1);
	put(b, 0xb8 + (reg & 7), 1);
	put(b, value, 8);
}

/* The branch that begins here. */
static struct code_branch *begin(struct code_branches *b, enum code_branch_kind kind, unsigned form)
{
	struct code_branch *branch = &b->branch[b->count++];

	*branch = (struct code_branch){.from = here(b), .kind = kind, .form = form};
	return branch;
}

static void put_prefix(struct code_branches *b, struct prefix prefix, unsigned rex)
{
	if (prefix.byte)
		put(b, prefix.byte, 1);
	if (prefix.rex | rex)
		put(b, REX | prefix.rex | rex, 1);
}

/* It leads over an UD2 to here; the operand in memory of branch `n` says so. */
static uint64_t *slot(const struct code_branches *b, size_t n)
{
	return (uint64_t *)(b->data + (SLOTS_AT - DATA_AT)) + 2 * n;
}

static void land(struct code_branches *b, struct code_branch *branch)
{
	put(b, 0x0b0f, 2);
	branch->to = here(b);
}

static uint64_t segment_base(uint8_t prefix)
{
	return prefix == 0x64 ? rdmsr(0xc0000100) : prefix == 0x65 ? rdmsr(0xc0000101) : 0;
}

static enum code_branch_kind kind_of(unsigned group)
{
	if (group == GROUP_CALL_FAR || group == GROUP_JMP_FAR)
		return CODE_FAR;
	return group == GROUP_CALL ? CODE_CALL_INDIRECT : CODE_JUMP_INDIRECT;
}

/* FFH with an operand at base + index * 2^scale + displacement: SDM Vol 2, tables 2-2 and 2-3.
   `mod` is 0 to 2; `base` and `index` may be NONE, a base of REGISTERS is none at all. */
struct operand {
	unsigned base, index, mod;
	struct prefix prefix;
};

static void put_operand(struct code_branches *b, unsigned group, const struct operand *o,
			unsigned scale, int32_t displacement)
{
	bool based = o->base < REGISTERS;
	unsigned rex = (based && o->base >= 8 ? REX_B : 0) | (o->index >= 8 ? REX_X : 0);

	put_prefix(b, o->prefix, rex);
	put(b, 0xff, 1);
	if (based && o->index == NONE && (o->base & 7) != RSP) {
		put(b, o->mod << 6 | group << 3 | (o->base & 7), 1);
	} else {
		put(b, o->mod << 6 | group << 3 | 4, 1);
		put(b, scale << 6 | (o->index & 7) << 3 | (based ? o->base & 7 : 5), 1);
	}
	if (o->mod == 2 || !based)
		put(b, (uint32_t)displacement, 4);
	else if (o->mod == 1)
		put(b, (uint8_t)displacement, 1);
}

static void add_through_memory(struct code_branches *b, unsigned form, unsigned group,
			       struct operand o)
{
	static const int32_t displacements[] = {0, 0x40, 0x440};
	uint64_t at = SLOTS_AT + 16 * b->count - segment_base(o.prefix.byte), base;
	uint64_t index = o.index == NONE ? 0 : o.index & 1 ? -16ul : 16;
	unsigned scale = o.base == o.index ? 0 : (o.base + o.index + o.mod) & 3;
	size_t n = b->count;
	struct code_branch *branch;
	int32_t displacement;

	if (o.base >= REGISTERS)
		o.mod = 0;
	else if ((o.base & 7) == RBP && !o.mod)
		o.mod = 1;
	displacement = o.base & 1 ? -displacements[o.mod] : displacements[o.mod];
	if (o.base >= REGISTERS)
		displacement = (int32_t)(at - (index << scale));
	base = at - (uint64_t)(int64_t)displacement - (index << scale);
	if (o.base == o.index && o.index != NONE)
		base = index = (at - (uint64_t)(int64_t)displacement) / 2;
	if (o.index != NONE)
		put_mov(b, o.index, index);
	if (o.base < REGISTERS)
		put_mov(b, o.base, base);
	branch = begin(b, kind_of(group), form);
	put_operand(b, group, &o, scale, displacement);
	land(b, branch);
	slot(b, n)[0] = branch->to;
}

/* ModRM says RIP: the displacement is from the next instruction on. */
static void add_through_rip(struct code_branches *b, unsigned form, unsigned group,
			    struct prefix prefix)
{
	uint64_t at = SLOTS_AT + 16 * b->count - segment_base(prefix.byte);
	size_t n = b->count;
	struct code_branch *branch = begin(b, kind_of(group), form);

	put_prefix(b, prefix, 0);
	put(b, 0xff, 1);
	put(b, group << 3 | 5, 1);
	put(b, (uint32_t)(at - (here(b) + 4)), 4);
	land(b, branch);
	slot(b, n)[0] = branch->to;
}

static void add_by_register(struct code_branches *b, unsigned form, unsigned group, unsigned reg,
			    struct prefix prefix)
{
	size_t mov = b->size;
	struct code_branch *branch;

	put_mov(b, reg, 0);
	branch = begin(b, kind_of(group), form);
	put_prefix(b, prefix, reg >= 8 ? REX_B : 0);
	put(b, 0xff, 1);
	put(b, 0xc0 | group << 3 | (reg & 7), 1);
	land(b, branch);
	memcpy(b->code + mov + 2, &branch->to, 8);
}

/* Relative branches: opcodes from `opcode` on, of `bytes` bytes with as many of displacement. */
static const struct relative {
	uint16_t opcode;
	uint8_t bytes, width;
	enum code_branch_kind kind;
} relatives[] = {{0x70, 1, 1, CODE_JCC},  {0x800f, 2, 4, CODE_JCC}, {0xe0, 1, 1, CODE_JCC},
		 {0xe1, 1, 1, CODE_JCC},  {0xe2, 1, 1, CODE_JCC},   {0xe3, 1, 1, CODE_JCC},
		 {0xe8, 1, 4, CODE_CALL}, {0xe9, 1, 4, CODE_JUMP},  {0xeb, 1, 1, CODE_JUMP}};
enum { CONDITIONS = 16, CONDITIONALS = 2 * CONDITIONS };
enum { RELATIVES = CONDITIONALS - 2 + sizeof(relatives) / sizeof(relatives[0]) };
/* Of those that nothing decides, NOT_TAKEN is taken over nothing; TO_ITSELF is of LOOP alone. */
enum { FORWARDS, BACKWARDS, OVER_NOTHING, NOT_TAKEN, TO_ITSELF, WAYS };

/* Flags and RCX with which it is taken, by a LOOP once; or not. */
static void prepare(struct code_branches *b, unsigned opcode, unsigned condition, bool taken)
{
	static const uint16_t even[] = {OF, CF, ZF, CF, SF, PF, SF, ZF};
	bool met = !(condition & 1) == taken;
	uint16_t flags = met ? even[condition / 2] : 0;

	if (opcode == 0xe0 || opcode == 0xe1)
		flags = (opcode == 0xe1) == taken ? ZF : 0;
	put_mov(b, RCX, opcode == 0xe3 ? !taken : taken ? 2 : 1);
	put_mov(b, RAX, ALWAYS_SET | flags);
	put(b, 0x9d50, 2); /* PUSH RAX, POPFQ */
}

static void put_relative(struct code_branches *b, const struct relative *r, unsigned condition,
			 struct prefix prefix, uint64_t to, uint64_t distance)
{
	put_prefix(b, prefix, 0);
	put(b, r->opcode + (r->bytes == 2 ? condition << 8 : condition), r->bytes);
	put(b, to ? to - (here(b) + r->width) : distance, r->width);
}

static const struct prefix plain = {0, 0};
static const struct relative jmp_short = {0xeb, 1, 1, CODE_JUMP};

static void put_jmp(struct code_branches *b, unsigned form, unsigned distance)
{
	struct code_branch *branch = begin(b, CODE_JUMP, form);

	put_relative(b, &jmp_short, 0, plain, 0, distance);
	branch->to = here(b) + distance;
}

static void add_relative(struct code_branches *b, unsigned form, unsigned which, unsigned way,
			 struct prefix prefix)
{
	unsigned condition = which < CONDITIONALS ? which % CONDITIONS : 0;
	const struct relative *r =
		&relatives[which < CONDITIONALS ? which / CONDITIONS : which - CONDITIONALS + 2];
	bool loops = r->opcode >= 0xe0 && r->opcode <= 0xe2;
	struct code_branch *branch;
	uint64_t back = 0;

	/* F2H is reserved there: SDM Vol 2, 2.1.1. */
	if (r->opcode >= 0xe0 && r->opcode <= 0xe3 && prefix.byte == 0xf2)
		prefix = plain;
	prepare(b, r->opcode, condition, way != NOT_TAKEN);
	if (way == BACKWARDS) {
		put_jmp(b, form, 2);
		back = here(b);
		put(b, 0x9090, 2); /* a JMP after the branch: below */
	}
	branch = begin(b, r->kind, form);
	b->count -= way == NOT_TAKEN && r->kind == CODE_JCC;
	if (way == TO_ITSELF && loops)
		back = here(b);
	put_relative(b, r, condition, prefix, back, way == FORWARDS ? 2 : 0);
	branch->to = back ? back : here(b) + (way == FORWARDS ? 2 : 0);
	if (way == FORWARDS)
		put(b, 0x0b0f, 2);
	if (way != BACKWARDS)
		return;
	branch = begin(b, CODE_JUMP, form);
	branch->from = back;
	branch->to = here(b);
	b->code[back - CODE_AT] = 0xeb;
	b->code[back - CODE_AT + 1] = (uint8_t)(here(b) - back - 2);
}

/* Another RSP is a branch more: CMP RSP; JNZ to the next. */
static void expect_stack(struct code_branches *b, uint64_t rsp)
{
	put(b, 0xfc8148, 3);
	put(b, rsp, 4);
	put(b, 0x0075, 2);
}

/* RET and RET n, near and far, of the operand's size. */
static void add_return(struct code_branches *b, unsigned form, bool far, bool pops,
		       struct prefix prefix)
{
	uint64_t selector;
	size_t mov;
	struct code_branch *branch;

	__asm__("mov %%cs, %0" : "=r"(selector));
	if (far && prefix.rex) {
		put_mov(b, RAX, selector);
		put(b, 0x50, 1);
	}
	mov = b->size;
	put_mov(b, RAX, 0);
	put(b, 0x50, 1);
	branch = begin(b, far ? CODE_FAR : CODE_RETURN, form);
	put_prefix(b, prefix, 0);
	put(b, (far ? 0xca : 0xc2) + !pops, 1);
	if (pops)
		put(b, 16, 2);
	land(b, branch);
	expect_stack(b, STACK_AT + (pops ? 16 : 0));
	selector = far && !prefix.rex ? selector << 32 : 0;
	selector |= branch->to;
	memcpy(b->code + mov + 2, &selector, 8);
}

/* IRET of 32 bits loads RSP and SS as well. */
static void add_iret(struct code_branches *b, unsigned form)
{
	uint32_t words[] = {0, KERNEL_CODE, ALWAYS_SET, STACK_AT, KERNEL_DATA};
	struct code_branch *branch;

	put_mov(b, RSP, FRAME_AT);
	branch = begin(b, CODE_FAR, form);
	put(b, 0xcf, 1);
	land(b, branch);
	words[0] = (uint32_t)branch->to;
	memcpy(b->data + (FRAME_AT - DATA_AT), words, sizeof(words));
	expect_stack(b, STACK_AT);
}

/* Far JMP and CALL, of 32 bits or by REX.W of 64: the selector is after the offset. */
static void add_far(struct code_branches *b, unsigned form, unsigned group, struct operand o)
{
	size_t n = b->count;
	uint64_t selector;

	__asm__("mov %%cs, %0" : "=r"(selector));
	add_through_memory(b, form, group, o);
	if (o.prefix.rex)
		slot(b, n)[1] = selector;
	else
		slot(b, n)[0] |= selector << 32;
}

/* How many forms a family has, one after the other. */
enum {
	OF_MEMORY = 2 * (REGISTERS + 1) * REGISTERS * 3,
	OF_PREFIXES = 2 * PREFIXES * 2,
	OF_REGISTERS = 2 * REGISTERS * 4,
	OF_RELATIVES = RELATIVES * WAYS * PREFIXES,
	OF_RETURNS = 2 * 2 * 5,
	OF_IRETS = 1,
	OF_FAR = 2 * 2 * REGISTERS,
};

static void add_of_prefixes(struct code_branches *b, unsigned form, unsigned n)
{
	struct prefix prefix = prefixes[n / 4];
	unsigned group = n & 1 ? GROUP_CALL : GROUP_JMP;

	if (n & 2 && !segment_base(prefix.byte))
		add_through_rip(b, form, group, prefix);
	else
		add_through_memory(b, form, group, (struct operand){RBX, NONE, 0, prefix});
}

static void add_of_registers(struct code_branches *b, unsigned form, unsigned n)
{
	unsigned reg = n / 2 % REGISTERS;

	/* CALL by RSP would push into the code. */
	add_by_register(b, form, n & 1 && reg != RSP ? GROUP_CALL : GROUP_JMP, reg,
			prefixes[n / 2 / REGISTERS]);
}

static void add_of_returns(struct code_branches *b, unsigned form, unsigned n)
{
	static const struct prefix with[] = {{0, 0}, {0, REX_W}, {0x66, 0}, {0xf2, 0}, {0xf3, 0}};
	unsigned far = n & 1 && n / 4 < 2;

	add_return(b, form, far, n & 2, with[n / 4]);
}

static void add(struct code_branches *b, unsigned form)
{
	unsigned n = form;

	put_mov(b, RSP, STACK_AT);
	if (n < OF_MEMORY) {
		add_through_memory(
			b, form, n & 1 ? GROUP_CALL : GROUP_JMP,
			(struct operand){n / 6 / REGISTERS, n / 6 % REGISTERS, n / 2 % 3, plain});
	} else if ((n -= OF_MEMORY) < OF_PREFIXES) {
		add_of_prefixes(b, form, n);
	} else if ((n -= OF_PREFIXES) < OF_REGISTERS) {
		add_of_registers(b, form, n);
	} else if ((n -= OF_REGISTERS) < OF_RELATIVES) {
		add_relative(b, form, n / WAYS / PREFIXES, n % WAYS, prefixes[n / WAYS % PREFIXES]);
	} else if ((n -= OF_RELATIVES) < OF_RETURNS) {
		add_of_returns(b, form, n);
	} else if ((n -= OF_RETURNS) < OF_IRETS) {
		add_iret(b, form);
	} else {
		n -= OF_IRETS;
		add_far(b, form, n & 1 ? GROUP_CALL_FAR : GROUP_JMP_FAR,
			(struct operand){
				n / 4, NONE, n / 4 == RSP ? 2 : 0, {0, n & 2 ? REX_W : 0}});
	}
}

enum {
	FORMS = OF_MEMORY + OF_PREFIXES + OF_REGISTERS + OF_RELATIVES + OF_RETURNS + OF_IRETS +
		OF_FAR
};

void code_branches_open(struct code_branches *branches)
{
	branches->code = test_area(1);
	code_map(CODE_AT, branches->code, 0);
	branches->data = test_area(1);
	code_map_data(DATA_AT, branches->data, 0);
}

void code_branches_close(void)
{
	code_unmap(CODE_AT);
	code_unmap(DATA_AT);
}

/* EDI:ESI is the value of the MSR; RSP is kept at the start of the data. */
static void put_wrmsr(struct code_branches *b, bool clears)
{
	put_mov(b, RCX, b->msr ? b->msr : IA32_DEBUGCTL);
	if (clears) {
		put_mov(b, RAX, 0);
		put(b, 0xd231, 2); /* XOR EDX, EDX */
	} else {
		put(b, 0xf889, 2); /* MOV EAX, EDI */
		put(b, 0xf289, 2); /* MOV EDX, ESI */
	}
	put(b, 0x300f, 2);
}

unsigned code_branches_build(struct code_branches *b, unsigned form, size_t most)
{
	b->size = b->count = 0;
	put_wrmsr(b, false);
	while (form < FORMS && b->count + MOST_OF_A_FORM <= most &&
	       b->size + 2 * FORM_BYTES < PAGE_SIZE)
		add(b, form++);
	put_wrmsr(b, true);
	put(b, 0x25248b48, 4); /* MOV RSP, [DATA_AT] */
	put(b, DATA_AT, 4);
	put(b, 0xc3, 1);
	return form < FORMS ? form : 0;
}

void code_branches_run(uint64_t value)
{
	uint64_t low = value, high = value >> 32, entry = CODE_AT;

	__asm__ volatile("pushfq\n\tcli\n\tpushq %%rbp\n\tpushq %%rbx\n\t"
			 "leaq 1f(%%rip), %%rcx\n\tpushq %%rcx\n\tmovq %%rsp, %c[saved]\n\t"
			 "jmp *%%rax\n1:\tpopq %%rbx\n\tpopq %%rbp\n\tpopfq"
			 : "+D"(low), "+S"(high), "+a"(entry)
			 : [saved] "i"(DATA_AT)
			 : "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
			   "memory", "cc");
}
