// SPDX-License-Identifier: MIT
/* Nested page tables: guest-physical is physical, except for the monitor's own memory. */
#include "lib/string.h"
#include "monitor/boot/information.h"
#include "monitor/host/lapic.h"
#include "monitor/host/lock.h"
#include "monitor/host/paging.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/lapic.h"
#include "monitor/svm/vmcb.h"

#define NESTED_FLAGS (PAGE_WRITABLE | PAGE_USER)
enum { MOST_HIDDEN = 2 };

/*
 * The page that the guest finds in place of each page of the monitor. QEMU 7.2 may leave nested
 * paging on at an exit of its first processor (docs/tricks.md). Each of the monitor's page tables
 * is this page then, and leads from vmrun_window_end to `refused_code`, whose VMRUN is refused:
 * that exit ends nested paging. The guest cannot write to that code. QEMU walks tables in writable
 * pages alone, so that the guest may spoil this one: SECURITY.md.
 */
static uint64_t nobody[PAGE_SIZE / sizeof(uint64_t)] __attribute__((aligned(PAGE_SIZE)));
static uint8_t refused_code[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));
static struct vmcb refused __attribute__((aligned(PAGE_SIZE)));
/* MOV RAX, the VMCB; VMRUN; JMP to the MOV. vmrun.asm has as many bytes of NOP there, with which
   the refused VMRUN's exit goes on. */
static const uint8_t refusal[15] = {0x48, 0xb8, [10] = 0x0f, 0x01, 0xd8, 0xeb, 0xf1};
enum { REFUSAL_VMCB = 2 };
extern const char vmrun_window_end[];
static struct range hidden[MOST_HIDDEN];
static unsigned hidden_count;
/* The page in place of a local APIC that does not answer: SDM Vol 3, 10.4.3 and 10.12.2. */
static uint8_t silence[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));
static uint64_t roots[LAPIC_VIEWS];
static const struct boot_info *map;
/* Memory of the guest's without a page that is hidden, in one piece: most of it. */
static struct range plain;

void nested_hide(struct range range)
{
	hidden[hidden_count++] = range;
}

static bool hides_in(struct range range)
{
	for (unsigned i = 0; i < hidden_count; i++)
		if (ranges_overlap(range, hidden[i]))
			return true;
	return false;
}

static bool is_hidden(uint64_t physical)
{
	return hides_in((struct range){physical, physical + 1});
}

static bool is_refusal(uint64_t page)
{
	return page == page_down(image_physical(vmrun_window_end));
}

bool nested_is_read_only(uint64_t page)
{
	return lapic_is_watched(page) || is_refusal(page);
}

static uint64_t stand_in(uint64_t hidden_page)
{
	return image_physical(is_refusal(hidden_page) ? (void *)refused_code : (void *)nobody);
}

static void prepare_refusal(void)
{
	const uint64_t flags = PAGE_PRESENT | PAGE_WRITABLE | PAGE_ACCESSED | PAGE_DIRTY;
	uint64_t at = (uint64_t)vmrun_window_end, vmcb = image_physical(&refused);
	uint8_t *code = &refused_code[at % PAGE_SIZE];

	for (unsigned i = 0; i < PAGE_SIZE / sizeof(uint64_t); i++)
		nobody[i] = image_physical(nobody) | flags;
	nobody[at / PAGE_SIZE % 512] = page_down(image_physical(vmrun_window_end)) | flags;
	memcpy(code, refusal, sizeof(refusal));
	memcpy(code + REFUSAL_VMCB, &vmcb, sizeof(vmcb));
}

static void map_by_pages(uint64_t large_page)
{
	for (uint64_t at = large_page; at < large_page + LARGE_PAGE_SIZE; at += PAGE_SIZE) {
		uint64_t flags = nested_is_read_only(at) ? PAGE_USER : NESTED_FLAGS;
		uint64_t to = is_hidden(at) ? stand_in(at) : at;
		bool lapic = lapic_is_watched(at);

		map_page(roots[LAPIC_WATCHED], at, to, flags);
		map_page(roots[LAPIC_OPEN], at, to, lapic ? NESTED_FLAGS : flags);
		map_page(roots[LAPIC_SILENT], at, lapic ? image_physical(silence) : to, flags);
	}
}

static void map_large_page(uint64_t at)
{
	for (unsigned i = 0; i < LAPIC_VIEWS; i++)
		map_page(roots[i], at, at, NESTED_FLAGS | PAGE_LARGE);
}

static void map_finely(uint64_t large_page)
{
	const uint64_t flags = NESTED_FLAGS | PAGE_PRESENT | PAGE_ACCESSED | PAGE_DIRTY;
	uint64_t table = page_allocate(), *entries = direct(table);

	for (unsigned i = 0; i < LARGE_PAGE_SIZE / PAGE_SIZE; i++)
		entries[i] = (large_page + i * PAGE_SIZE) | flags;
	for (unsigned i = 0; i < LAPIC_VIEWS; i++)
		map_table(roots[i], large_page, table);
}

/* Entries only ever come to be, or are replaced by the same: other processors need not be told. */
void nested_map(uint64_t physical)
{
	static struct lock lock;
	uint64_t large_page = physical & ~(LARGE_PAGE_SIZE - 1);
	struct range range = {large_page, large_page + LARGE_PAGE_SIZE};

	lock_take(&lock);
	if (hides_in(range) || lapic_page() - large_page < LARGE_PAGE_SIZE)
		map_by_pages(large_page);
	else if (maps_finely(map, large_page))
		map_finely(large_page);
	else
		map_large_page(large_page);
	lock_release(&lock);
}

static bool is_plain(uint64_t physical)
{
	return physical - plain.start < plain.end - plain.start;
}

static void find_plain(void)
{
	for (unsigned i = 0; i < map->region_count; i++) {
		const struct boot_region *region = &map->regions[i];
		struct range range = {page_up(region->base),
				      page_down(region->base + region->length)};

		for (unsigned n = 0; n < hidden_count; n++)
			if (ranges_overlap(range, hidden[n]))
				range.end = hidden[n].start;
		if (range.end > range.start && range.end <= direct_end() &&
		    range.end - range.start > plain.end - plain.start && memory_usable(map, range))
			plain = range;
	}
}

uint64_t nested_root(enum lapic_view view)
{
	return roots[view];
}

void nested_init(const struct boot_info *info)
{
	uint64_t end = memory_end(info);

	map = info;
	prepare_refusal();
	memset(silence, 0xff, sizeof(silence));
	for (unsigned i = 0; i < LAPIC_VIEWS; i++)
		roots[i] = page_allocate();
	for (uint64_t at = 0; at < end; at += LARGE_PAGE_SIZE)
		nested_map(at);
	find_plain();
}

bool nested_is_memory(uint64_t physical)
{
	physical = page_down(physical);
	return is_plain(physical) ||
	       (!is_hidden(physical) &&
		memory_usable(map, (struct range){physical, physical + PAGE_SIZE}));
}

uint8_t *nested_page(uint64_t physical)
{
	physical = page_down(physical);
	if (is_plain(physical))
		return direct(physical);
	/* What the interpreter writes never goes to `refused_code`. */
	if (is_hidden(physical))
		return direct(image_physical(nobody));
	if (lapic_is_watched(physical) && !lapic_answers())
		return silence;
	if (!lockstep_allows(physical) && !lapic_is_watched(physical))
		return NULL;
	return physical < direct_end() ? direct(physical) : NULL;
}
