// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/rig.h"

/* Whether a buffer works that begins `offset` bytes past the start of a page. */

#define ALIGNED_BRANCHES 24

/*
 * Traces so many branches into such a buffer and returns how many of the first records are right.
 * Fails the test if anything around the buffer was written.
 */
static size_t aligned_right(size_t offset)
{
	struct rig rig;
	size_t right = 0;

	rig_open_at(&rig, 2 * ALIGNED_BRANCHES, offset);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, ALIGNED_BRANCHES);
	if (rig_index(&rig) == rig.base + ALIGNED_BRANCHES * rig.record)
		for (; right < ALIGNED_BRANCHES; right++) {
			struct bts_struct record = rig_record(&rig, right);
			struct branch branch = chain_branch(&chain_a, ALIGNED_BRANCHES, right);

			if (record.from != branch.from || record.to != branch.to)
				break;
		}
	rig_close(&rig);
	return right;
}

TEST(bts_base_alignment, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer may begin at any multiple of 64 or of 8",
     .source = "SDM Vol 3, 17.4.9 and 17.4.9.2: doubleword boundary, cache line recommended")
{
	static const size_t offsets[] = {0, 64, 192, 8, 16, 24, 56, 4096 - 64, 4096 - 8};

	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		EXPECT_EQ(aligned_right(offsets[i]), ALIGNED_BRANCHES);
}

/* The manual allows it, no system is known to do it: measured, not required. */
TEST(bts_base_doubleword, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer that begins at an odd multiple of 4 makes the processor write nowhere else",
     .source = "SDM Vol 3, 17.4.9: natural doubleword boundary")
{
	EXPECT_EQ(aligned_right(0), ALIGNED_BRANCHES);
	test_observe("right_at_4", "%zu_of_%d", aligned_right(4), ALIGNED_BRANCHES);
	test_observe("right_at_60", "%zu_of_%d", aligned_right(60), ALIGNED_BRANCHES);
	test_observe("right_at_4092", "%zu_of_%d", aligned_right(4092), ALIGNED_BRANCHES);
}

#define BRANCHES 12

/* The area of `rig` from here on: the fields of the one that it has, and no pattern. */
static void move(struct rig *rig, void *area)
{
	for (unsigned field = DS_BTS_BUFFER_BASE; field <= DS_BTS_INTERRUPT_THRESHOLD; field++)
		ds_set(area, field, ds_get(rig->area, field));
	rig->area = area;
	wrmsr(IA32_DS_AREA, (uint64_t)area);
}

TEST(bts_area_anywhere, .group = "L", .ids = "L1 L4", .needs = NEED_BTS,
     .claim = "the DS area may begin anywhere in a page, and its fields may lie in two",
     .source = "SDM Vol 3, 17.4.9, 17.4.9.2 and figure 17-8: contiguous linear addresses")
{
	static const size_t offsets[] = {0,	    64,	       2048 + 8, 4096 - 32,
					 4096 - 24, 4096 - 16, 4096 - 8, 4096};
	const struct calibration *c = calibration();
	uint8_t *pages = test_area(3);
	struct rig rig, moved;

	page_part(pages);
	memset(pages + 2 * PAGE_SIZE, 0xff, PAGE_SIZE);
	rig_open(&rig, 2 * BRANCHES);
	rig_shorten(&rig, BRANCHES, maximum_extra(c->maximum));
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		moved = rig;
		move(&moved, pages + offsets[i]);
		EXACTLY (&moved)
			chain_trace(&moved, rig_all(), &chain_a, 3 * BRANCHES - 1);
		circular_expect(&moved, BRANCHES - c->unused, &chain_a, 3 * BRANCHES - 1);
	}
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	rig_close(&rig);
}

/* The page of the DS area becomes another, with the same content, between two jumps. */
static void remap(uint64_t *place, uint64_t entry, const void *area)
{
	TRACED_WITH(rig_all(),
		    "jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\tinvlpg (%[area])\n\t"
		    "jmp 2f\n\tud2\n2:\n\t",
		    , OPERANDS([entry] "r"(entry), [place] "r"(place), [area] "r"(area)));
}

/* IA32_DS_AREA gets another address between two jumps. */
static void rewrite(uint64_t area)
{
	TRACED_WITH(rig_all(),
		    "jmp 1f\n\tud2\n1:\tmovl %[area], %%eax\n\tmovl %[high], %%edx\n\t"
		    "movl $0x600, %%ecx\n\twrmsr\n\tjmp 2f\n\tud2\n2:\n\t",
		    , OPERANDS([area] "r"((uint32_t)area), [high] "r"((uint32_t)(area >> 32))));
}

TEST(bts_area_remapped, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the DS area is found as WRMSR and INVLPG left IA32_DS_AREA and the page tables",
     .source = "SDM Vol 3, 17.4.9.2 and 4.10.4: linear addresses, invalidation")
{
	uint8_t *other = test_area(1);
	uint64_t *place, old;
	struct rig rig, moved;

	rig_open(&rig, 16);
	moved = rig;
	move(&moved, other);
	place = vm_entry((uint64_t)rig.area);
	old = *place;
	for (unsigned way = 0; way < 2; way++) {
		if (way) /* both in one page */
			move(&rig, other + PAGE_SIZE / 2);
		rig_reset(&rig);
		ds_set(other, DS_BTS_INDEX, rig.base + 4 * rig.record);
		wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
		if (way) {
			rewrite((uint64_t)other);
		} else {
			remap(place, *vm_entry((uint64_t)other), rig.area);
			*place = old;
			vm_flush((uint64_t)rig.area);
		}
		EXPECT_EQ(rig_count(&rig), 1);
		EXPECT_EQ(rig_count(&moved), 5);
		EXPECT(rig_record(&rig, 0).from != 0);
		EXPECT(rig_record(&rig, 4).from > rig_record(&rig, 0).from);
	}
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	rig_reset(&rig);
	rewrite((uint64_t)rig.area); /* the same */
	EXPECT_EQ(rig_count(&rig), 2);
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	rig_close(&rig);
}

#define MANY 100000 /* 2.4 MB */

TEST(bts_buffer_large, .group = "L", .ids = "L1", .needs = NEED_BTS,
     .claim = "a buffer of more than 2 MiB is filled from end to end",
     .source = "SDM Vol 3, 17.4.9: BTS absolute maximum")
{
	RIG(rig, MANY + 2);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, MANY);
	EXPECT_EQ(rig_count(&rig), MANY);
	chain_expect(&rig, 0, MANY, &chain_a, MANY, 0);
}

/* Software must set both bits before, or nothing may work; what happens else is only measured. */
static uint64_t *clear(const void *linear)
{
	uint64_t *entry = vm_entry((uint64_t)linear);

	*entry &= ~(PTE_ACCESSED | PTE_DIRTY);
	vm_flush((uint64_t)linear);
	return entry;
}

/* Whether the record is right. The manual forbids such pages to software: of what else is in the
   slot it says nothing. */
static size_t right(const struct rig *rig, size_t slot, const char *from, const char *to)
{
	struct bts_struct record = rig_record(rig, slot);

	return record.from == (uint64_t)from && record.to == (uint64_t)to;
}

/* With the bits clear in the entry of one page, the buffer's or the DS area's. */
static void measure(const char *key, bool buffer)
{
	uint64_t *entry, before, after;
	size_t found = 0;
	bool faulted;

	RIG(rig, 16);
	EXPECT(!two_jumps_fault(rig_all()));
	EXPECT_EQ(right(&rig, 0, two_jumps_from1, two_jumps_to1), 1);
	EXPECT_EQ(rig_count(&rig), 2);
	rig_reset(&rig);
	entry = clear(buffer ? rig.pages : rig.area_page);
	before = *entry;
	faulted = two_jumps_fault(rig_all());
	after = *entry;
	*entry = before | PTE_ACCESSED | PTE_DIRTY;
	EXPECT_EQ(after & ~(PTE_ACCESSED | PTE_DIRTY), before);
	if (!faulted) {
		found = right(&rig, 0, two_jumps_from1, two_jumps_to1);
		found += right(&rig, 1, two_jumps_from2, two_jumps_to2);
		EXPECT(rig_count(&rig) <= 2);
		for (size_t slot = 2; slot < 16; slot++)
			EXPECT_EQ(rig_record(&rig, slot).from | rig_record(&rig, slot).to, 0);
	}
	test_observe(key, "accessed:%d,dirty:%d,fault:%d,records:%zu,right:%zu",
		     (after & PTE_ACCESSED) != 0, (after & PTE_DIRTY) != 0, faulted,
		     rig_count(&rig), found);
}

TEST(bts_accessed_dirty_clear, .group = "L", .ids = "L5", .needs = NEED_BTS | NEED_UNSAFE,
     .claim =
	     "clear Accessed and Dirty bits of a page of the DS corrupt no memory and hang nothing",
     .source = "SDM Vol 3, 17.4.9.2: all pages pre-marked Accessed and Dirty")
{
	measure("buffer_page", true);
	measure("area_page", false);
}

#define ONLY_INDEX_CHANGES_BRANCHES 7

/* Everything but the four BTS fields: PEBS fields, counter resets, what follows. */
static void fill(struct rig *rig)
{
	for (size_t i = 0x20; i < DS_AREA_SIZE; i++)
		rig->area_page[i] = (uint8_t)(i * 7 + 1);
}

static void expect_kept(const struct rig *rig, const uint8_t before[DS_AREA_SIZE])
{
	for (size_t i = 0; i < DS_AREA_SIZE; i++)
		if (i < 8 || i >= 16)
			EXPECT_EQ(rig->area_page[i], before[i]);
}

TEST(bts_only_index_changes, .group = "L", .ids = "L1", .needs = NEED_BTS,
     .claim = "storing k records adds k times 24 to the BTS index and changes no other byte, nor "
	      "do threshold and wrap",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-8")
{
	uint8_t before[DS_AREA_SIZE];
	RIG(rig, 64);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};

	fill(&rig);
	for (size_t threshold = 56; threshold <= 65; threshold++) {
		rig_set_threshold(&rig, threshold);
		EXACTLY (&rig) {
			memcpy(before, rig.area_page, sizeof(before));
			chain_trace(&rig, rig_all(), &chain_a, ONLY_INDEX_CHANGES_BRANCHES);
		}
		EXPECT_EQ(*(uint64_t *)&rig.area_page[8],
			  rig.base + 24 * ONLY_INDEX_CHANGES_BRANCHES);
		expect_kept(&rig, before);
		chain_expect(&rig, 0, ONLY_INDEX_CHANGES_BRANCHES, &chain_a,
			     ONLY_INDEX_CHANGES_BRANCHES, 0);
	}
	pmi_take(&pmi);
	for (unsigned interrupt = 0; interrupt < 2; interrupt++) {
		rig_shorten(&rig, 8, 0);
		rig_set_threshold(&rig, 4);
		memcpy(before, rig.area_page, sizeof(before));
		chain_trace(&rig, interrupt ? rig_interrupt() : rig_all(), &chain_a, 20);
		pmi_settle();
		expect_kept(&rig, before);
	}
}

/* Multiples of 4 GiB that nothing is mapped at. */
#define BOUNDARY(n) (0x00005a0200000000ul + ((uint64_t)(n) << 32))
#define BOUNDARIES  3
#define PAGES	    2 /* one on either side */
#define PAGE_AT(i)  (BOUNDARY((i) / PAGES) - PAGE_SIZE + (i) % PAGES * PAGE_SIZE)
#define BEFORE	    5 /* whole records before a boundary, of 4 GiB or of pages */
#define SLOTS	    12

static void place(struct rig *rig, const struct calibration *c, uint64_t base)
{
	rig->base = base;
	rig->slots = SLOTS;
	ds_set(rig->area, DS_BTS_BUFFER_BASE, rig->base);
	rig_shorten(rig, SLOTS, maximum_extra(c->maximum));
	/* In the other half of the addresses, a multiple of a record from the base. */
	ds_set(rig->area, DS_BTS_INTERRUPT_THRESHOLD,
	       (uint64_t)rig->area - ((uint64_t)rig->area - rig->base) % rig->record);
}

static void check_across(struct rig *rig, const struct calibration *c)
{
	/* With BTINT = 0 some silicon never compares the threshold. */
	chain_trace(rig, rig_interrupt(), &chain_a, SLOTS - 2);
	EXPECT_EQ(rig_index(rig), rig->base + (SLOTS - 2) * rig->record);
	chain_expect(rig, 0, SLOTS - 2, &chain_a, SLOTS - 2, 0);
	rig_reset(rig);
	chain_trace(rig, rig_all(), &chain_a, 3 * SLOTS);
	EXPECT(rig_index(rig) >= rig->base && rig_index(rig) <= rig->base + SLOTS * rig->record);
	EXPECT_EQ(rig_used(rig), SLOTS - c->unused);
}

/* While it records, from a buffer to one that is 4 GiB higher. */
static void check_moved(struct rig *rig, const struct calibration *c)
{
	struct rig higher = *rig;

	move(&higher, test_area(1));
	place(rig, c, BOUNDARY(0) - BEFORE * rig->record);
	place(&higher, c, BOUNDARY(1) - BEFORE * rig->record);
	wrmsr(IA32_DS_AREA, (uint64_t)rig->area);
	rewrite((uint64_t)higher.area);
	wrmsr(IA32_DS_AREA, (uint64_t)rig->area);
	EXPECT(rig_used(rig) == 1 && rig_used(&higher) == 1);
}

TEST(bts_buffer_across_4g, .group = "L", .ids = "L4 W9", .needs = NEED_BTS,
     .claim = "base, index, maximum and threshold are compared and moved as 64-bit addresses",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-8")
{
	const struct calibration *c = calibration();
	const uint8_t *pages = test_area(BOUNDARIES * PAGES);
	struct rig rig, own; /* whose own buffer waits meanwhile */
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, SLOTS);
	own = rig;
	for (size_t i = 0; i < BOUNDARIES * PAGES; i++)
		code_map_data(PAGE_AT(i), pages + i * PAGE_SIZE, 0);
	pmi_take(&pmi);
	/* A record may lie on both sides: no field of it, one, two. */
	for (size_t n = 0; n < BOUNDARIES; n++) {
		place(&rig, c, BOUNDARY(n) - BEFORE * rig.record - 8 * n);
		check_across(&rig, c);
	}
	check_moved(&rig, c);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0); /* the threshold is above the maximum */
	pmi_release(&pmi);
	rig_close(&own);
	for (size_t i = 0; i < BOUNDARIES * PAGES; i++)
		code_unmap(PAGE_AT(i));
}

/* The record that crosses has its first `bytes` bytes in the first page. */
static void cross(size_t bytes)
{
	struct rig rig CLOSED_BY(rig_close);

	rig_open_at(&rig, 2 * BRANCHES, PAGE_SIZE - 24 * BEFORE - bytes);
	page_part(rig.pages);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, BRANCHES);
	EXPECT_EQ(rig_index(&rig), rig.base + 24 * BRANCHES);
	chain_expect(&rig, 0, BRANCHES, &chain_a, BRANCHES, 0);
}

TEST(bts_buffer_across_pages, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the buffer is contiguous in linear memory only: a record may cross physical pages",
     .source = "SDM Vol 3, 17.4.9.2: contiguous linear addresses")
{
	for (size_t bytes = 0; bytes < 24; bytes += 8)
		cross(bytes);
}

#define OFF "movl $0x1d9, %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\t"
#define ON  "movl $0x1d9, %%ecx\n\tmovl %[on], %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\t"

enum remapping { BY_INVLPG, BY_CR3, BY_PGE, REMAPPINGS };

/*
 * The page at the base gets the physical page that `entry` names; the record of a jump follows at
 * once. A change to CR3 may change no address of the DS area but while recording is off (18.15.8).
 */
static void remap_buffer(struct rig *rig, uint64_t entry, enum remapping by)
{
	uint64_t *place = vm_entry(rig->base);

	if (by == BY_CR3)
		TRACED_WITH(rig_all(),
			    "jmp 1f\n\tud2\n1:\t" OFF "movq %[entry], (%[place])\n\t"
			    "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n\t" ON "jmp 2f\n\tud2\n2:\n\t",
			    ,
			    OPERANDS([entry] "r"(entry), [place] "r"(place),
				     [on] "r"((uint32_t)rig_all())));
	else if (by == BY_PGE)
		TRACED_WITH(rig_all(),
			    "jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\t"
			    "movq %%cr4, %%rax\n\txorb $0x80, %%al\n\tmovq %%rax, %%cr4\n\t"
			    "xorb $0x80, %%al\n\tmovq %%rax, %%cr4\n\tjmp 2f\n\tud2\n2:\n\t",
			    , OPERANDS([entry] "r"(entry), [place] "r"(place)));
	else
		TRACED_WITH(
			rig_all(),
			"jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\t"
			"invlpg (%[linear])\n\tjmp 2f\n\tud2\n2:\n\t",
			,
			OPERANDS([entry] "r"(entry), [place] "r"(place), [linear] "r"(rig->base)));
}

/* The first jump is recorded in the one page, the second in the other. */
static void check(struct rig *rig, enum remapping by)
{
	uint64_t *own = vm_entry(rig->base), old = *own;
	uint8_t *other = test_area(1);
	uint64_t *there = (uint64_t *)(void *)(other + (rig->base & (PAGE_SIZE - 1)));

	remap_buffer(rig, *vm_entry((uint64_t)other), by);
	*own = old;
	vm_flush(rig->base);
	EXPECT_EQ(rig_count(rig), 2);
	EXPECT(rig_record(rig, 0).from != 0);
	EXPECT_EQ(rig_record(rig, 1).from, 0);
	EXPECT_EQ(there[0], 0);
	EXPECT(there[3] != 0 && there[4] > there[3]);
	rig_reset(rig);
}

TEST(bts_buffer_remapped, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the buffer is found by the page tables: INVLPG and CR4.PGE make a change count, and "
	      "MOV CR3 while recording is off",
     .source = "SDM Vol 3, 17.4.9.2: linear addresses, CR3; SDM Vol 3, 4.10.4")
{
	/* At pages of even and odd numbers: an area of n pages moves the next one. */
	for (size_t n = 1; n <= 3; n++) {
		RIG(rig, 16);
		for (enum remapping by = 0; by < REMAPPINGS; by++)
			check(&rig, by);
		test_area(n);
	}
}

/* Four pages below 1 MiB, mapped where they stand: code, data with pointers to a page directory,
   that directory and the DS area, BTS buffer. */
#define AT	   0x20000ul
#define MODE_PAGES 4
#define DATA	   (AT + PAGE_SIZE)
#define POINTERS   (DATA + 0x8e0)
#define DIRECTORY  (AT + 2 * PAGE_SIZE)
#define AREA	   (DIRECTORY + 0x100)
#define BUFFER	   (AT + 3 * PAGE_SIZE)
#define MODE_SLOTS 64
#define RECORD	   24
#define INT_N	   13 /* the record of INT n among the others */
#define LAST	   (AT + 0xffef)

extern const uint8_t modes_start[], modes_in[], modes_32[], modes_unpaged[], modes_unpaged_next[],
	modes_to_16[], modes_16[], modes_to_real[], modes_real[], modes_again[], modes_last[],
	modes_call[], modes_called[], modes_callee[], modes_callee_ret[], modes_ud[],
	modes_ud_next[], modes_fault[], modes_fault_iret[], modes_int[], modes_int_next[],
	modes_handler[], modes_handler_iret[], modes_to_32[], modes_32_again[], modes_out[],
	modes_64[], modes_ret[], modes_end[];

/*
 * From 64-bit to compatibility mode, protected mode without paging (CR3 is that of no page table),
 * with PAE paging and without again, 16 bits, real-address mode (CS is 1FFFH), and back. INT 60H,
 * #GP and #UD are borrowed. Counts in BX, and adds the upper half of ESP once SP has wrapped; a
 * fault goes on at BP. The last byte of CS there is a RET. The page of data: RSP, 10H the kernel's
 * GDTR, 20H its IDTR, 30H the GDTR here, 40H IDTR in real mode.
 */
__asm__(".pushsection .rodata\n"
	"modes_start: movq %rsp, 0x21000\n\tsgdt 0x21010\n\tsidt 0x21020\n\tlgdt 0x21030\n\t"
	"xorl %ebx, %ebx\n\tpushq $0x80\n\tpushq $0x20000+modes_32-modes_start\n"
	"modes_in: lretq\n\t.code32\n"
	"modes_32: movw $0x88, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\tmovw %ax, %es\n\t"
	"movl $0x21ff0, %esp\n\tmovl %cr0, %eax\n\tandl $0x7fffffff, %eax\n\tmovl %eax, %cr0\n\t"
	"movl %cr3, %edx\n\tmovl $0x21003, %eax\n\tmovl %eax, %cr3\n"
	"modes_unpaged: jmp modes_unpaged_next\n\tnop\n"
	"modes_unpaged_next: movl %edx, %edi\n\tmovl $0xc0000080, %ecx\n\trdmsr\n\t"
	"btrl $8, %eax\n\twrmsr\n\tmovl $0x218e0, %esi\n\tmovl %esi, %cr3\n\t"
	"movl %cr0, %ebp\n\tleal 0x80000000(%ebp), %eax\n\tmovl %eax, %cr0\n\t"
	"movl %esi, %cr3\n\tmovl %ebp, %cr0\n\trdmsr\n\tbtsl $8, %eax\n\twrmsr\n\t"
	"movl %edi, %cr3\n\tincl %ebx\n"
	"modes_to_16: ljmpl $0x90, $modes_16-modes_start\n\t.code16\n"
	"modes_16: movw $0x98, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\tmovw %ax, %es\n\t"
	"incw %bx\n\tmovl %cr0, %eax\n\tandb $0xfe, %al\n\tmovl %eax, %cr0\n"
	"modes_to_real: ljmpw $0x1fff, $modes_real-modes_start+16\n"
	"modes_real: movw $0x2000, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\t"
	"movl $0xfffe, %esp\n\tpopw %ax\n\tshrl $16, %esp\n\taddw %sp, %bx\n\tmovw $0x1ff0, %sp\n\t"
	"xorw %ax, %ax\n\tmovw %ax, %es\n\tlidtl 0x1040\n\t"
	"movl %es:0x180, %edi\n\tmovl $0x20000000+modes_handler-modes_start, %es:0x180\n\t"
	"movw $3, %cx\n"
	"modes_again: loop modes_again\n"
	"modes_call: call modes_callee\n"
	"modes_called: movl %es:0x18, %edx\n\tmovl $0x20000000+modes_fault-modes_start, %es:0x18\n\t"
	"movl %es:0x34, %esi\n\tmovl $0x20000000+modes_fault-modes_start, %es:0x34\n\t"
	"movw $modes_ud_next-modes_start+16, %bp\n"
	"modes_last: .byte 0xe8\n\t.word 0xffef-(modes_ud-modes_start)\n"
	"modes_ud: ud2\n"
	"modes_ud_next: movl %edx, %es:0x18\n\tmovw $modes_int_next-modes_start+16, %bp\n"
	"modes_int: int $0x60\n"
	"modes_int_next: movl %esi, %es:0x34\n\tmovl %edi, %es:0x180\n\tmovl %cr0, %eax\n\t"
	"orb $1, %al\n\tmovl %eax, %cr0\n"
	"modes_to_32: ljmpl $0x80, $0x20000+modes_32_again-modes_start\n"
	"modes_callee: incw %bx\n"
	"modes_callee_ret: ret\n"
	"modes_fault: incw %bx\n\tpopw %ax\n\tpushw %bp\n"
	"modes_fault_iret: iretw\n"
	"modes_handler: incw %bx\n"
	"modes_handler_iret: iretw\n\t.code32\n"
	"modes_32_again: movw $0x88, %ax\n\tmovw %ax, %ss\n\tmovw %ax, %ds\n\tmovw %ax, %es\n\t"
	"movl %cr0, %eax\n\torl $0x80000000, %eax\n\tmovl %eax, %cr0\n"
	"modes_out: ljmpl $0x8, $0x20000+modes_64-modes_start\n\t.code64\n"
	"modes_64: movq 0x21000, %rsp\n\tlgdt 0x21010\n\tlidt 0x21020\n\tmovl $0x10, %eax\n\t"
	"movl %eax, %ss\n\tmovl %eax, %ds\n\tmovl %eax, %es\n"
	"modes_ret: ret\n"
	"modes_end: .popsection");

static uint8_t saved[MODE_PAGES * PAGE_SIZE], saved_last;
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
	memcpy((void *)POINTERS, (uint64_t[4]){DIRECTORY | PTE_PRESENT}, 4 * sizeof(uint64_t));
	*(uint64_t *)DIRECTORY = PTE_PRESENT | PTE_WRITABLE | PTE_LARGE;
	write_pointer(DATA + 0x30, sizeof(gdt) - 1, DATA + 0x100);
	write_pointer(DATA + 0x40, 0x60 * 4 + 3, 0); /* INT 60H is the last */
}

static void open_low_memory(void)
{
	memcpy(saved, direct(AT), sizeof(saved));
	saved_last = *(uint8_t *)direct(LAST);
	*(uint8_t *)direct(LAST) = 0xc3;
	memcpy(direct(AT), modes_start, (size_t)(modes_end - modes_start));
	for (uint64_t at = AT; at < AT + MODE_PAGES * PAGE_SIZE; at += PAGE_SIZE)
		if (!vm_map(at, at, at == AT ? VM_EXECUTE : VM_WRITE))
			test_error("no memory for page tables");
	prepare_data();
}

static void close_low_memory(void)
{
	for (uint64_t at = AT; at < AT + MODE_PAGES * PAGE_SIZE; at += PAGE_SIZE)
		page_unmap(at);
	memcpy(direct(AT), saved, sizeof(saved));
	*(uint8_t *)direct(LAST) = saved_last;
}

static uint64_t run(uint64_t debugctl)
{
	static struct machine machine;
	const uint64_t fields[4] = {BUFFER, BUFFER, BUFFER + MODE_SLOTS * RECORD,
				    BUFFER + (MODE_SLOTS + 1) * RECORD};

	memcpy((void *)AREA, fields, sizeof(fields));
	machine_randomize(&machine, &(uint64_t){1});
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
	} expected[] = {
		{machine_call, at(modes_start)},
		{at(modes_in), at(modes_32)},
		{at(modes_unpaged), at(modes_unpaged_next)},
		{at(modes_to_16), at(modes_16)},
		{at(modes_to_real), at(modes_real)},
		{at(modes_again), at(modes_again)},
		{at(modes_again), at(modes_again)},
		{at(modes_call), at(modes_callee)},
		{at(modes_callee_ret), at(modes_called)},
		{at(modes_last), (void *)LAST},
		{(void *)LAST, at(modes_ud)},
		{at(modes_ud), at(modes_fault)},
		{at(modes_fault_iret), at(modes_ud_next)},
		[INT_N] = {at(from_next ? modes_int_next : modes_int), at(modes_handler)},
		{at(modes_handler_iret), at(modes_int_next)},
		{at(modes_to_32), at(modes_32_again)},
		{at(modes_out), at(modes_64)},
		{at(modes_ret), machine_back},
	};
	const size_t count = sizeof(expected) / sizeof(expected[0]);

	EXPECT_EQ(rig_count(low), count - !recorded);
	for (size_t n = 0, slot = 0; n < count; n++)
		if (n != INT_N || recorded)
			rig_expect(low, slot++, expected[n].from, expected[n].to);
}

TEST(bts_format_in_all_modes, .group = "L", .ids = "L2 K2 K12", .needs = NEED_BTS | NEED_DTES64,
     .claim = "with DTES64 the 64-bit format is used in real-address and protected mode too",
     .source = "SDM Vol 3, 17.4.9.1: DTES64; SDM Vol 3, 17.4.9: real-address mode")
{
	struct rig rig, low;

	rig_open(&rig, 16);
	open_low_memory();
	low = rig;
	low.area = (void *)AREA;
	low.base = BUFFER;
	low.slots = MODE_SLOTS;
	machine_open();
	EXPECT_EQ(run(0), 5);
	wrmsr(IA32_DS_AREA, AREA);
	EXPECT_EQ(run(rig_all()), 5);
	machine_close();
	expect_records(&low);
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	close_low_memory();
	rig_close(&rig);
}

/* Places that packets name: that, the segment's base / 16, packet, perhaps LACKS, MODE.Exec. */
enum { SEEN_MOST = 15, LACKS = 8 }; /* RET may be compressed, INT n have one FUP */
_Static_assert(PACKET_TIP == 2 && PACKET_FUP == 5, "SEEN()");
extern const uint16_t modes_seen[SEEN_MOST][4];
#define SEEN(label, others) ".short modes_" #label "-modes_start, " others "\n"
__asm__(".pushsection .rodata\nmodes_seen:\n" SEEN(start, "0,2,1") SEEN(32, "0,2,2")
		SEEN(16, "0x2000,2,0") SEEN(real, "0x1fff,2,0") SEEN(called, "0x1fff,10,0")
			SEEN(ud, "0x1fff,10,0") SEEN(ud, "0x1fff,5,0") SEEN(fault, "0x2000,2,0")
				SEEN(ud_next, "0x1fff,2,0") SEEN(int, "0x1fff,5,0")
					SEEN(int_next, "0x1fff,13,0") SEEN(handler, "0x2000,2,0")
						SEEN(int_next, "0x1fff,2,0") SEEN(32_again, "0,2,2")
							SEEN(64, "0,2,1") ".popsection");

TEST(pt_in_all_modes, .group = "PT", .ids = "PT30 PT73 PT136 PT138 PT155", .needs = NEED_PT,
     .claim = "without paging and in real-address mode code is traced as of CPL 0, by addresses "
	      "within its segment; of PAE paging PIP has bits 11:5",
     .source = "SDM Vol 3, 36.2.5, 36.3.1 and 36.4.2")
{
	uint64_t mode = 0, n = 0, unit = cpuid(0x14, 0).ecx >> 31 ? 0 : 16;
	const uint16_t *seen;
	bool right = true, pae = false;

	open_low_memory();
	PT_RIG(rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN,
		  ".irp r, rbp, r12, r13, r14, r15\n\tpushq %%\\r\n\t.endr\n\t"
		  "movl $0x20000, %%eax\n\tcall *%%rax\n\t"
		  ".irp r, r15, r14, r13, r12, rbp\n\tpopq %%\\r\n\t.endr");
	EACH_PACKET (&rig, reader, packet) {
		mode = packet.kind == PACKET_MODE_EXEC ? packet.value : mode;
		pae |= packet.kind == PACKET_PIP && packet.value == POINTERS;
		if (n == SEEN_MOST || (packet.kind != PACKET_TIP && packet.role != ROLE_SOURCE))
			continue;
		while ((modes_seen[n][2] ^ packet.kind) > LACKS)
			n++;
		seen = modes_seen[n++];
		right &= packet.kind == seen[2] % LACKS && mode == seen[3] &&
			 packet.value == AT + seen[0] - seen[1] * unit;
	}
	EXPECT(right && pae && !reader.error && n == SEEN_MOST);
	close_low_memory();
}
