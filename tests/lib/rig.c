// SPDX-License-Identifier: MIT
#include "tests/lib/rig.h"

#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/trace/context.h"
#include "lib/string.h"

#define PATTERN 0x5a

void rig_open(struct rig *rig, size_t slots)
{
	rig_open_at(rig, slots, 0);
}

/* At least two records of pattern lie before the not-present page. */
void rig_open_at(struct rig *rig, size_t slots, size_t offset)
{
	size_t bytes;

	rig->slots = slots;
	rig->record = ds_configuration->record_size;
	bytes = offset + slots * rig->record;
	rig->page_count = (bytes + 2 * rig->record + PAGE_SIZE - 1) / PAGE_SIZE;
	rig->pages = test_area(rig->page_count);
	rig->area_page = test_area(1);
	rig->area = rig->area_page;
	rig->base = (uint64_t)rig->pages + offset;
	memset(rig->pages, PATTERN, rig->page_count * PAGE_SIZE);
	memset(rig->area_page + DS_AREA_SIZE, PATTERN, PAGE_SIZE - DS_AREA_SIZE);
	preemption_disable();
	REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
	ds_set(rig->area, DS_BTS_BUFFER_BASE, rig->base);
	ds_set(rig->area, DS_BTS_ABSOLUTE_MAXIMUM, rig->base + slots * rig->record);
	ds_set(rig->area, DS_BTS_INTERRUPT_THRESHOLD, rig->base + (slots + 1) * rig->record);
	rig_reset(rig);
	wrmsr(IA32_DS_AREA, (uint64_t)rig->area);
}

static void check_pattern(const uint8_t *from, const uint8_t *to, const char *where)
{
	for (const uint8_t *at = from; at < to; at++) {
		if (*at == PATTERN)
			continue;
		test_note("%s: %02x at offset %ld", where, *at, at - from);
		EXPECT(false && "memory outside the buffer was written");
		return;
	}
}

void rig_close_overrun(struct rig *rig, size_t overrun_records)
{
	const uint8_t *base = (const uint8_t *)rig->base;

	wrmsr(IA32_DEBUGCTL, 0);
	ds_checkin(&this_cpu()->trace->ds);
	preemption_enable();
	check_pattern(rig->pages, base, "before the buffer");
	check_pattern(base + (rig->slots + overrun_records) * rig->record,
		      rig->pages + rig->page_count * PAGE_SIZE, "behind the buffer");
	check_pattern(rig->area_page + DS_AREA_SIZE, rig->area_page + PAGE_SIZE,
		      "behind the DS area");
}

void rig_close(struct rig *rig)
{
	rig_close_overrun(rig, 0);
}

void rig_reset(struct rig *rig)
{
	memset((void *)rig->base, 0, rig->slots * rig->record);
	ds_set(rig->area, DS_BTS_INDEX, rig->base);
}

void rig_set_threshold(struct rig *rig, size_t slot)
{
	ds_set(rig->area, DS_BTS_INTERRUPT_THRESHOLD, rig->base + slot * rig->record);
}

uint64_t rig_index(const struct rig *rig)
{
	return ds_get(rig->area, DS_BTS_INDEX);
}

size_t rig_count(const struct rig *rig)
{
	return (rig_index(rig) - rig->base) / rig->record;
}

struct bts_struct rig_record(const struct rig *rig, size_t slot)
{
	struct bts_struct record = {0};

	ds_read_bts(rig->area, slot, &record);
	return record;
}

void rig_expect(const struct rig *rig, size_t slot, const void *from, const void *to,
		const char *what)
{
	struct bts_struct record = rig_record(rig, slot);

	if (record.from == (uint64_t)from && record.to == (uint64_t)to) {
		EXPECT(true);
		return;
	}
	test_note("record %zu (%s): %016lx -> %016lx, expected %016lx -> %016lx", slot, what,
		  record.from, record.to, (uint64_t)from, (uint64_t)to);
	EXPECT(false && "the record is the branch");
}
