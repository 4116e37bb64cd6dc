// SPDX-License-Identifier: MIT
/* Bytes to the guest's memory: SDM Vol 3, 36.2.6. */
#include "lib/string.h"
#include "monitor/pt/rules.h"
#include "monitor/silicon.h"

/* A ToPA entry: table 36-3. */
#define ENTRY_END      (1ull << 0)
#define ENTRY_INT      (1ull << 2)
#define ENTRY_STOP     (1ull << 4)
#define ENTRY_SIZE(e)  (0x1000ull << ((e) >> 6 & 0xf))
#define ENTRY_ADDRESS  (~0xfffull)
#define ENTRY_RESERVED (1ull << 1 | 1ull << 3 | 1ull << 5 | 3ull << 10)
enum { PAGE_BYTES = 4096, INDEX_SHIFT = 7 };
enum { EARLY_BYTES = 256 };	  /* before its end: any number will do */
enum { TABLE_PAGE, OUTPUT_PAGE }; /* of pt_state.page */

static unsigned physical_bits(const struct vcpu *vcpu)
{
	return vcpu->silicon->physical_bits;
}

static uint64_t table_index(const struct vcpu *vcpu)
{
	return (uint32_t)vcpu->pt.output_mask_ptrs >> INDEX_SHIFT;
}

static uint32_t offset(const struct vcpu *vcpu)
{
	return (uint32_t)(vcpu->pt.output_mask_ptrs >> PT_OFFSET_SHIFT);
}

static void set_pointers(struct vcpu *vcpu, uint64_t index, uint32_t at)
{
	vcpu->pt.output_mask_ptrs = (uint64_t)at << PT_OFFSET_SHIFT |
				    (uint32_t)(index << INDEX_SHIFT) | MASK_PTRS_FIXED;
}

static bool fails(struct vcpu *vcpu)
{
	vcpu->pt.status |= STATUS_ERROR;
	return false;
}

/* Where the guest's page is in the host, for as long as there is one: looked up once. */
static uint8_t *find_page(struct vcpu *vcpu, unsigned which, uint64_t physical)
{
	struct pt_page *page = &vcpu->pt.page[which];

	if (page->host && page->physical == physical)
		return page->host;
	*page = (struct pt_page){physical, platform_unit_page(vcpu, physical)};
	return page->host;
}

/* "ToPA errors". An address without memory cannot be written to; nor is it read as a table. */
static bool read_entry(struct vcpu *vcpu, uint64_t *entry)
{
	uint64_t at = vcpu->pt.output_base + table_index(vcpu) * sizeof(*entry);
	const uint8_t *page;

	if (vcpu->pt.output_base % PAGE_BYTES || at >> physical_bits(vcpu) ||
	    !(page = find_page(vcpu, TABLE_PAGE, at & ENTRY_ADDRESS)))
		return fails(vcpu);
	*entry = *(const uint64_t *)(const void *)(page + at % PAGE_BYTES);
	if (*entry & ENTRY_RESERVED || *entry >> physical_bits(vcpu))
		return fails(vcpu);
	if (*entry & ENTRY_END)
		return !(*entry & (ENTRY_INT | ENTRY_STOP)) && table_index(vcpu) ? true
										 : fails(vcpu);
	if ((*entry & ENTRY_ADDRESS) & (ENTRY_SIZE(*entry) - 1) ||
	    offset(vcpu) >= ENTRY_SIZE(*entry))
		return fails(vcpu);
	return true;
}

/* With one output region the second entry leads back to it: 36.2.6.2. */
static bool is_single_entry_table(struct vcpu *vcpu)
{
	uint64_t old = vcpu->pt.output_mask_ptrs, entry;
	bool good;

	if (pt_of(vcpu)->ecx & ECX_TOPA_MANY)
		return true;
	if (table_index(vcpu))
		return fails(vcpu);
	set_pointers(vcpu, 1, 0);
	good = read_entry(vcpu, &entry) && entry & ENTRY_END &&
	       (entry & ENTRY_ADDRESS) == vcpu->pt.output_base;
	vcpu->pt.output_mask_ptrs = old;
	return good ? true : fails(vcpu);
}

/* The region to write to. END leads to one at most: as the first entry it is an error. */
static bool find_region(struct vcpu *vcpu, uint64_t *entry)
{
	while (read_entry(vcpu, entry)) {
		if (!(*entry & ENTRY_END))
			return true;
		vcpu->pt.output_base = *entry & ENTRY_ADDRESS;
		set_pointers(vcpu, 0, 0);
	}
	return false;
}

/* 36.2.6.1: the mask is contiguous ones from bit 0, the base aligned to it. */
static bool is_valid_range(struct vcpu *vcpu)
{
	uint64_t mask = vcpu->pt.output_mask_ptrs & 0xffffffff;

	if (mask & (mask + 1) || vcpu->pt.output_base & mask || offset(vcpu) > mask)
		return fails(vcpu);
	return true;
}

void pt_check_output(struct vcpu *vcpu)
{
	uint64_t entry;

	if (!(vcpu->pt.ctl & CTL_TOPA))
		is_valid_range(vcpu);
	else if (is_single_entry_table(vcpu))
		find_region(vcpu, &entry);
}

/* STOP leaves the pointers at the end of the region, and acts before INT. */
void pt_rule_region_full(struct vcpu *vcpu, uint64_t entry)
{
	if (entry & ENTRY_STOP)
		vcpu->pt.status |= STATUS_STOPPED;
	if (entry & ENTRY_INT)
		platform_unit_interrupt(vcpu);
	if (entry & ENTRY_STOP)
		return;
	set_pointers(vcpu, table_index(vcpu) + 1, 0);
	find_region(vcpu, &entry);
}

/*
 * Of `count` bytes those that fit into `room` and into the page at `physical`; 0: Error, which
 * 36.2.6.4 allows where there is no memory. For the local APIC's page "no error is signaled": they
 * are lost.
 */
static unsigned store(struct vcpu *vcpu, uint64_t physical, const uint8_t *bytes, unsigned count,
		      uint64_t room)
{
	unsigned at = physical % PAGE_BYTES;
	uint8_t *page = find_page(vcpu, OUTPUT_PAGE, physical & ENTRY_ADDRESS);

	if (!page && !platform_unit_is_apic(vcpu, physical & ENTRY_ADDRESS))
		return fails(vcpu);
	count = pt_least(pt_least(count, PAGE_BYTES - at), room);
	if (!page)
		return count;
	memcpy(page + at, bytes, count);
	vcpu->pt.to = page + at + count;
	vcpu->pt.room = pt_least(PAGE_BYTES - at - count, room - count ? room - count - 1 : 0);
	return count;
}

static unsigned put_in_range(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	uint32_t mask = (uint32_t)vcpu->pt.output_mask_ptrs, at = offset(vcpu);

	count = store(vcpu, vcpu->pt.output_base + at, bytes, count, (uint64_t)mask + 1 - at);
	vcpu->pt.output_mask_ptrs = (uint64_t)((at + count) & mask) << PT_OFFSET_SHIFT | mask;
	return count;
}

/* "ToPA PMIs will be delivered before the region is filled": table 36-11. */
static uint64_t interrupt_early(struct vcpu *vcpu, uint64_t entry, unsigned count)
{
	if (pt_of(vcpu)->ecx & ECX_TOPA_MANY)
		return entry;
	if (entry & ENTRY_INT && ENTRY_SIZE(entry) - EARLY_BYTES - offset(vcpu) - 1 < count)
		platform_unit_interrupt(vcpu);
	return entry & ~ENTRY_INT;
}

static unsigned put_in_region(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	uint64_t entry;

	if (!find_region(vcpu, &entry))
		return 0;
	count = store(vcpu, (entry & ENTRY_ADDRESS) + offset(vcpu), bytes, count,
		      ENTRY_SIZE(entry) - offset(vcpu));
	if (pt_behaviour_of(vcpu)->interrupt == PT_INTERRUPTS_EARLY)
		entry = interrupt_early(vcpu, entry, count);
	set_pointers(vcpu, table_index(vcpu), offset(vcpu) + count);
	if (offset(vcpu) == ENTRY_SIZE(entry))
		vcpu->silicon->pt.region_full(vcpu, entry);
	return count;
}

/*
 * A packet may go on in the next region; what does not fit before a STOP is lost. An entry is read
 * once for all bytes that go into its region: a table may be changed while TraceEn is clear only.
 */
void pt_rule_output(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	if (vcpu->pmu.global_status & PT_STATUS_PMI &&
	    pt_behaviour_of(vcpu)->interrupt == PT_INTERRUPTS_ON)
		platform_unit_interrupt(vcpu);
	vcpu->pt.room = 0;
	while (count && !(vcpu->pt.status & (STATUS_ERROR | STATUS_STOPPED))) {
		unsigned done = vcpu->pt.ctl & CTL_TOPA ? put_in_region(vcpu, bytes, count)
							: put_in_range(vcpu, bytes, count);

		bytes += done;
		count -= done;
	}
}
