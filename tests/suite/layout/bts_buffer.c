// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"

#define BOUNDARY 0xffffc7ff00000000ul /* a multiple of 4 GiB that nothing is mapped at */
#define PAGES	 2		      /* one on either side */
#define BEFORE	 5		      /* slots before it */
#define SLOTS	 12

static void map(const uint8_t *pages)
{
	for (size_t i = 0; i < PAGES; i++) {
		uint64_t physical = *vm_entry((uint64_t)pages + i * PAGE_SIZE) & PTE_ADDRESS;

		if (!vm_map(BOUNDARY - PAGE_SIZE + i * PAGE_SIZE, physical, VM_WRITE))
			test_error("no memory for page tables");
	}
}

static void unmap(void)
{
	for (size_t i = 0; i < PAGES; i++)
		vm_unmap(BOUNDARY - PAGE_SIZE + i * PAGE_SIZE);
}

/* The rig's own buffer waits meanwhile. */
static void place(struct rig *rig, const struct calibration *c)
{
	rig->base = BOUNDARY - BEFORE * rig->record;
	rig->slots = SLOTS;
	ds_set(rig->area, DS_BTS_BUFFER_BASE, rig->base);
	rig_shorten(rig, SLOTS, maximum_extra(c->maximum));
}

TEST(bts_buffer_across_4g, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "base, index, maximum and threshold are compared and moved as 64-bit addresses",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-8")
{
	const struct calibration *c = calibration();
	const uint8_t *pages = test_area(PAGES);
	struct rig rig, own;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, SLOTS);
	own = rig;
	map(pages);
	place(&rig, c);
	pmi_take(&pmi);
	chain_trace(&rig, rig_all(), &chain_a, SLOTS - 2);
	EXPECT_EQ(rig_index(&rig), rig.base + (SLOTS - 2) * rig.record);
	chain_expect(&rig, 0, SLOTS - 2, &chain_a, SLOTS - 2, 0);
	rig_reset(&rig);
	chain_trace(&rig, rig_all(), &chain_a, 3 * SLOTS);
	EXPECT(rig_index(&rig) >= rig.base && rig_index(&rig) <= rig.base + SLOTS * rig.record);
	EXPECT_EQ(rig_used(&rig), SLOTS - c->unused);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0); /* the threshold is above the maximum */
	pmi_release(&pmi);
	rig_close(&own);
	unmap();
}

#define BRANCHES 12
#define IN_FIRST 5 /* whole records before the page boundary */

static void exchange(uint8_t *a, uint8_t *b, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		uint8_t byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

/* The first two pages of the buffer get physical pages that do not follow each other. */
static void part(struct rig *rig)
{
	uint64_t linear = (uint64_t)rig->pages;
	uint64_t *first = vm_entry(linear), *second = vm_entry(linear + PAGE_SIZE);
	uint64_t entry = *first;

	if ((*first & PTE_ADDRESS) + PAGE_SIZE == (*second & PTE_ADDRESS)) {
		exchange(rig->pages, rig->pages + PAGE_SIZE, PAGE_SIZE);
		*first = *second;
		*second = entry;
		vm_flush(linear);
		vm_flush(linear + PAGE_SIZE);
	}
	REQUIRE((*first & PTE_ADDRESS) + PAGE_SIZE != (*second & PTE_ADDRESS));
}

/* The record that crosses has its first `bytes` bytes in the first page. */
static void cross(size_t bytes)
{
	struct rig rig;

	rig_open_at(&rig, 2 * BRANCHES, PAGE_SIZE - 24 * IN_FIRST - bytes);
	part(&rig);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, BRANCHES);
	EXPECT_EQ(rig_index(&rig), rig.base + 24 * BRANCHES);
	chain_expect(&rig, 0, BRANCHES, &chain_a, BRANCHES, 0);
	rig_close(&rig);
}

TEST(bts_buffer_across_pages, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the buffer is contiguous in linear memory only: a record may cross physical pages",
     .source = "SDM Vol 3, 17.4.9.2: contiguous linear addresses")
{
	cross(0);
	cross(8);
	cross(16);
}

/* `linear` gets the physical page that `entry` names; the record of a jump follows at once. */
static void remap(struct rig *rig, uint64_t entry, bool by_cr3)
{
	uint64_t *place = vm_entry(rig->base);

	if (by_cr3)
		TRACED_WITH(rig_all(),
			    "jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\t"
			    "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n\tjmp 2f\n\tud2\n2:\n\t",
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
static void check(struct rig *rig, bool by_cr3)
{
	uint64_t *own = vm_entry(rig->base), old = *own;
	uint8_t *other = test_area(1);
	uint64_t *there = (uint64_t *)(void *)(other + (rig->base & (PAGE_SIZE - 1)));

	remap(rig, *vm_entry((uint64_t)other), by_cr3);
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
     .claim = "the buffer is found by the page tables: INVLPG or MOV CR3 makes a change count",
     .source = "SDM Vol 3, 17.4.9.2: linear addresses; SDM Vol 3, 4.10.4")
{
	struct rig rig;

	rig_open(&rig, 16);
	check(&rig, false);
	check(&rig, true);
	rig_close(&rig);
}
