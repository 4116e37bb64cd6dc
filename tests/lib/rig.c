// SPDX-License-Identifier: MIT
#include "tests/lib/rig.h"

#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"

#define PATTERN	   0x5a
#define MOST_TRIES 20

void rig_open(struct rig *rig, size_t slots)
{
	rig_open_at(rig, slots, 0);
}

void msrs_borrow(void)
{
	preemption_disable();
	REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
}

void msrs_give_back(void)
{
	ds_checkin(&this_cpu()->trace->ds);
	preemption_enable();
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
	msrs_borrow();
	lapic_mask_lvtpc();
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
	pmu_take_overflows(0);
	lapic_unmask_lvtpc();
	preemption_enable();
	check_pattern(rig->pages, base, "before the buffer");
	check_pattern(base + (rig->slots + overrun_records) * rig->record,
		      rig->pages + rig->page_count * PAGE_SIZE, "after the buffer");
	check_pattern(rig->area_page + DS_AREA_SIZE, rig->area_page + PAGE_SIZE,
		      "after the DS area");
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
	size_t count = (rig_index(rig) - rig->base) / rig->record;

	return count < RIG_COUNT_MOST ? count : RIG_COUNT_MOST;
}

struct bts_struct rig_record(const struct rig *rig, size_t slot)
{
	struct bts_struct record = {0};

	ds_read_bts(rig->area, slot, &record);
	return record;
}

void rig_expect(const struct rig *rig, size_t slot, const void *from, const void *to)
{
	struct bts_struct record = rig_record(rig, slot);

	if (record.from == (uint64_t)from && record.to == (uint64_t)to) {
		EXPECT(true);
		return;
	}
	test_note("record %zu: %016lx -> %016lx, expected %016lx -> %016lx", slot, record.from,
		  record.to, (uint64_t)from, (uint64_t)to);
	EXPECT(false && "the record is the branch");
}

void rig_expect_records(const struct rig *rig, const void *const ends[][2], size_t count)
{
	EXPECT_EQ(rig_count(rig), count);
	for (size_t slot = 0; slot < count; slot++)
		rig_expect(rig, slot, ends[slot][0], ends[slot][1]);
}

uint64_t rig_all(void)
{
	return ds_configuration->tr | ds_configuration->bts;
}

uint64_t rig_interrupt(void)
{
	return rig_all() | ds_configuration->btint;
}

static struct exact begin(struct rig *rig)
{
	return (struct exact){.rig = rig};
}

bool exact_again(struct exact *exact)
{
	uint64_t count = smi_count();

	if (exact->tries && count == exact->smi_count)
		return false;
	if (exact->tries++ == MOST_TRIES)
		test_error("a system management interrupt came in each of %d tries", MOST_TRIES);
	exact->smi_count = count;
	rig_reset(exact->rig);
	return true;
}

struct exact exact_begin(struct rig *rig)
{
	for (struct exact control = begin(rig); exact_again(&control);)
		TRACED(rig_all(), "nop");
	REQUIRE_EQ(rig_index(rig), rig->base);
	return begin(rig);
}

static void set_end(struct rig *rig, size_t slots, uint64_t extra)
{
	uint64_t end = rig->base + slots * rig->record;

	ds_set(rig->area, DS_BTS_ABSOLUTE_MAXIMUM, end + extra);
	ds_set(rig->area, DS_BTS_INTERRUPT_THRESHOLD, end + rig->record);
}

void rig_shorten(struct rig *rig, size_t slots, uint64_t extra)
{
	rig_reset(rig);
	set_end(rig, slots, extra);
}

void rig_lengthen(struct rig *rig)
{
	set_end(rig, rig->slots, 0);
}

size_t rig_used(const struct rig *rig)
{
	const uint8_t *bytes = (const uint8_t *)rig->base;
	size_t end = rig->slots * rig->record;

	while (end > 0 && !bytes[end - 1])
		end--;
	return (end + rig->record - 1) / rig->record;
}

/* A page fault for the store would be blamed on the jump or on its target: both go on. */
bool two_jumps_fault(uint64_t debugctl)
{
	uint64_t faulted = 1;

	TRACED_WITH(debugctl,
		    ".globl two_jumps_from1, two_jumps_to1, two_jumps_from2, two_jumps_to2\n"
		    "two_jumps_from1: jmp two_jumps_to1\n\tud2\n"
		    "two_jumps_to1: nop\n"
		    "two_jumps_from2: jmp two_jumps_to2\n\tud2\n"
		    "two_jumps_to2: xorl %k[faulted], %k[faulted]\n"
		    "two_jumps_out:\n\t" EXCEPTION_TABLE("two_jumps_from1", "two_jumps_out")
			    EXCEPTION_TABLE("two_jumps_to1", "two_jumps_out")
				    EXCEPTION_TABLE("two_jumps_from2", "two_jumps_out")
					    EXCEPTION_TABLE("two_jumps_to2", "two_jumps_out"),
		    OPERANDS([faulted] "+&r"(faulted)), );
	return faulted;
}

struct msr_trial msr_try(uint32_t index, uint64_t value, uint64_t restore)
{
	uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32), read_low, read_high;
	bool refused = true;

	__asm__ volatile("pushfq\n\t"
			 "cli\n"
			 "1:\twrmsr\n\t"
			 "movb $0, %[refused]\n"
			 "2:\txorl %%eax, %%eax\n\t"
			 "xorl %%edx, %%edx\n"
			 "3:\trdmsr\n"
			 "4:\tmovl %%eax, %[read_low]\n\t"
			 "movl %%edx, %[read_high]\n\t"
			 "movl %[restore_low], %%eax\n\t"
			 "movl %[restore_high], %%edx\n"
			 "5:\twrmsr\n"
			 "6:\tpopfq\n\t" EXCEPTION_TABLE("1b", "2b") EXCEPTION_TABLE("3b", "4b")
				 EXCEPTION_TABLE("5b", "6b")
			 : "+&a"(low), "+&d"(high), [refused] "+&q"(refused),
			   [read_low] "=&r"(read_low), [read_high] "=&r"(read_high)
			 : "c"(index), [restore_low] "r"((uint32_t)restore),
			   [restore_high] "r"((uint32_t)(restore >> 32))
			 : "memory", "cc");
	return (struct msr_trial){refused, (uint64_t)read_high << 32 | read_low};
}

uint64_t rig_lbr(void)
{
	uint64_t both = rig_all() | DEBUGCTL_LBR;
	struct msr_trial trial = msr_try(IA32_DEBUGCTL, both, 0);

	return !trial.refused && trial.read_back == both ? DEBUGCTL_LBR : 0;
}

bool msr_is_refused(uint32_t index)
{
	uint64_t value;

	return !rdmsr_safe(index, &value) && !wrmsr_safe(index, 0);
}

const char *msr_trial_word(const struct msr_trial *trial, uint64_t bits)
{
	if (trial->refused)
		return "gp";
	return trial->read_back & bits ? "kept" : "ignored";
}
