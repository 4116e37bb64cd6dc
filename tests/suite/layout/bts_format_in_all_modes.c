// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/rig.h"

/* Four pages below 1 MiB, mapped where they stand: code, data, DS area, BTS buffer. */
#define AT     0x20000ul
#define PAGES  4
#define DATA   (AT + PAGE_SIZE)
#define AREA   (AT + 2 * PAGE_SIZE)
#define BUFFER (AT + 3 * PAGE_SIZE)
#define SLOTS  64
#define RECORD 24
#define INT_N  9 /* the record of INT n among the others */

extern const uint8_t modes_start[], modes_in[], modes_32[], modes_unpaged[], modes_unpaged_next[],
	modes_to_16[], modes_16[], modes_to_real[], modes_real[], modes_again[], modes_call[],
	modes_callee[], modes_callee_ret[], modes_int[], modes_int_next[], modes_handler[],
	modes_handler_iret[], modes_to_32[], modes_32_again[], modes_out[], modes_64[], modes_ret[],
	modes_end[];

/*
 * From 64-bit mode to compatibility mode, protected mode without paging, 16 bits, real-address
 * mode, and back. The page of data: RSP, 10H the kernel's GDTR, 20H its IDTR, 30H the GDTR here,
 * 40H an IDTR for real-address mode. INT 60H is borrowed. Counts in BX. Without paging CR3 is for a
 * while that of no page table, which nothing may look at: SDM Vol 3, 4.1.1.
 */
__asm__(".pushsection .rodata\n"
	"modes_start: movq %rsp, 0x21000\n\tsgdt 0x21010\n\tsidt 0x21020\n\tlgdt 0x21030\n\t"
	"xorl %ebx, %ebx\n\tpushq $0x80\n\tpushq $0x20000+modes_32-modes_start\n"
	"modes_in: lretq\n\t.code32\n"
	"modes_32: movw $0x88, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\tmovw %ax, %es\n\t"
	"movl $0x21ff0, %esp\n\tmovl %cr0, %eax\n\tandl $0x7fffffff, %eax\n\tmovl %eax, %cr0\n\t"
	"movl %cr3, %edx\n\tmovl $0x21003, %eax\n\tmovl %eax, %cr3\n"
	"modes_unpaged: jmp modes_unpaged_next\n\tnop\n"
	"modes_unpaged_next: movl %edx, %cr3\n\tincl %ebx\n"
	"modes_to_16: ljmpl $0x90, $modes_16-modes_start\n\t.code16\n"
	"modes_16: movw $0x98, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\tmovw %ax, %es\n\t"
	"incw %bx\n\tmovl %cr0, %eax\n\tandb $0xfe, %al\n\tmovl %eax, %cr0\n"
	"modes_to_real: ljmpw $0x2000, $modes_real-modes_start\n"
	"modes_real: movw $0x2000, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\tmovw $0x1ff0, %sp\n\t"
	"xorw %ax, %ax\n\tmovw %ax, %es\n\tlidtl 0x1040\n\t"
	"movl %es:0x180, %edi\n\tmovl $0x20000000+modes_handler-modes_start, %es:0x180\n\t"
	"movw $3, %cx\n"
	"modes_again: loop modes_again\n"
	"modes_call: call modes_callee\n"
	"modes_int: int $0x60\n"
	"modes_int_next: movl %edi, %es:0x180\n\tmovl %cr0, %eax\n\torb $1, %al\n\t"
	"movl %eax, %cr0\n"
	"modes_to_32: ljmpl $0x80, $0x20000+modes_32_again-modes_start\n"
	"modes_callee: incw %bx\n"
	"modes_callee_ret: ret\n"
	"modes_handler: incw %bx\n"
	"modes_handler_iret: iretw\n\t.code32\n"
	"modes_32_again: movw $0x88, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\tmovw %ax, %es\n\t"
	"movl %cr0, %eax\n\torl $0x80000000, %eax\n\tmovl %eax, %cr0\n"
	"modes_out: ljmpl $0x8, $0x20000+modes_64-modes_start\n\t.code64\n"
	"modes_64: movq 0x21000, %rsp\n\tlgdt 0x21010\n\tlidt 0x21020\n\tmovl $0x10, %eax\n\t"
	"movl %eax, %ss\n\tmovl %eax, %ds\n\tmovl %eax, %es\n"
	"modes_ret: ret\n"
	"modes_end: .popsection");

static uint8_t saved[PAGES * PAGE_SIZE];
static uint64_t gdt[32];

static void write_pointer(uint64_t at, uint16_t limit, uint64_t base)
{
	memcpy((void *)at, &limit, sizeof(limit));
	memcpy((void *)(at + 2), &base, sizeof(base));
}

/* The same segments at other places: 16 bits from AT on. */
static void prepare_data(void)
{
	own_gdt_load();
	own_gdt_copy(gdt, sizeof(gdt));
	own_gdt_unload();
	gdt[OWN_CODE_16 / 8] |= AT << 16;
	gdt[OWN_DATA_16 / 8] |= AT << 16;
	memcpy((void *)(DATA + 0x100), gdt, sizeof(gdt));
	write_pointer(DATA + 0x30, sizeof(gdt) - 1, DATA + 0x100);
	write_pointer(DATA + 0x40, 0x3ff, 0);
}

static void open_low_memory(void)
{
	memcpy(saved, direct(AT), sizeof(saved));
	memcpy(direct(AT), modes_start, (size_t)(modes_end - modes_start));
	for (uint64_t at = AT; at < AT + PAGES * PAGE_SIZE; at += PAGE_SIZE)
		if (!vm_map(at, at, at == AT ? VM_EXECUTE : VM_WRITE))
			test_error("no memory for page tables");
	prepare_data();
}

static void close_low_memory(void)
{
	for (uint64_t at = AT; at < AT + PAGES * PAGE_SIZE; at += PAGE_SIZE)
		vm_unmap(at);
	memcpy(direct(AT), saved, sizeof(saved));
}

static uint64_t run(uint64_t debugctl)
{
	static struct machine machine;
	const uint64_t fields[4] = {BUFFER, BUFFER, BUFFER + SLOTS * RECORD,
				    BUFFER + (SLOTS + 1) * RECORD};

	memcpy((void *)AREA, fields, sizeof(fields));
	machine_randomize(&machine, &(struct random){1});
	machine_run(&machine, (void *)AT, debugctl);
	return machine.registers[RBX] & 0xffff;
}

static const void *at(const uint8_t *label)
{
	return (const void *)(AT + (uint64_t)(label - modes_start));
}

/* INT n may be recorded as from the next instruction, or not at all: bts_software_interrupts. */
static void expect_records(const struct rig *low)
{
	struct bts_struct software = rig_record(low, INT_N);
	bool recorded = software.to == (uint64_t)at(modes_handler);
	bool from_next = software.from == (uint64_t)at(modes_int_next);
	const struct {
		const void *from, *to;
		const char *what;
	} expected[] = {
		{machine_call, at(modes_start), "call"},
		{at(modes_in), at(modes_32), "into compatibility mode"},
		{at(modes_unpaged), at(modes_unpaged_next), "jmp in protected mode"},
		{at(modes_to_16), at(modes_16), "into 16-bit code"},
		{at(modes_to_real), at(modes_real), "into real-address mode"},
		{at(modes_again), at(modes_again), "loop"},
		{at(modes_again), at(modes_again), "loop"},
		{at(modes_call), at(modes_callee), "call in real-address mode"},
		{at(modes_callee_ret), at(modes_int), "ret in real-address mode"},
		[INT_N] = {at(from_next ? modes_int_next : modes_int), at(modes_handler),
			   "INT n in real-address mode"},
		{at(modes_handler_iret), at(modes_int_next), "iret in real-address mode"},
		{at(modes_to_32), at(modes_32_again), "into protected mode"},
		{at(modes_out), at(modes_64), "into 64-bit mode"},
		{at(modes_ret), machine_back, "ret"},
	};
	const size_t count = sizeof(expected) / sizeof(expected[0]);

	EXPECT_EQ(rig_count(low), count - !recorded);
	for (size_t n = 0, slot = 0; n < count; n++)
		if (n != INT_N || recorded)
			rig_expect(low, slot++, expected[n].from, expected[n].to, expected[n].what);
}

TEST(bts_format_in_all_modes, .group = "L", .ids = "L2", .needs = NEED_BTS | NEED_DTES64,
     .claim = "with DTES64 the 64-bit format is used in real-address and protected mode too",
     .source = "SDM Vol 3, 17.4.9.1: DTES64; SDM Vol 3, 17.4.9: real-address mode")
{
	struct rig rig, low;

	rig_open(&rig, 16);
	open_low_memory();
	low = rig;
	low.area = (void *)AREA;
	low.base = BUFFER;
	low.slots = SLOTS;
	machine_open();
	EXPECT_EQ(run(0), 4);
	wrmsr(IA32_DS_AREA, AREA);
	EXPECT_EQ(run(rig_all()), 4);
	machine_close();
	expect_records(&low);
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	close_low_memory();
	rig_close(&rig);
}
