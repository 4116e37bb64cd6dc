// SPDX-License-Identifier: MIT
// The buffer of PEBS: bounds, and what is enabled.
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "drivers/processor.h"
#include "drivers/pt/registers.h"
#include "kernel/mm/vm.h"
#include "kernel/silicon.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

/* A bad index or a full buffer writes nowhere. */
static void expect_nothing(struct pebs *pebs, uint64_t index)
{
	EXPECT_EQ(pebs_get(pebs, DS_PEBS_INDEX), index);
	for (size_t slot = 0; slot < pebs->slots; slot++)
		EXPECT(pebs_is_poison(pebs, slot));
	test_observe("status", "%lx, counter %lx", rdmsr(IA32_PERF_GLOBAL_STATUS),
		     rdmsr(IA32_PMC0));
}

static void run_at(struct pebs *pebs, uint64_t index)
{
	pebs_reset(pebs);
	pebs_set(pebs, DS_PEBS_INDEX, index);
	pebs_arm(pebs, 0, 10);
	pebs_run_jumps(1, 200);
	expect_nothing(pebs, index);
}

TEST(pebs_full_writes_nothing, .group = "PE", .ids = "PE21", .needs = NEED_PEBS | ON_EACH_CPU,
     .claim = "with the index at the absolute maximum nothing is written",
     .source = "SDM Vol 3, 18.4.4")
{
	PEBS(pebs, 4);
	run_at(&pebs, pebs_get(&pebs, DS_PEBS_ABSOLUTE_MAXIMUM));
	EXPECT(rdmsr(IA32_PMC0) < 400); /* no reload: the counter runs on */
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
	run_at(&pebs, pebs.base + pebs.slots * pebs.record);
	pebs_expect_samples(&pebs);
}

TEST(pebs_index_out_of_bounds, .group = "PE", .ids = "PE22", .needs = NEED_PEBS | NEED_UNSAFE,
     .claim = "an index below the base or far above the maximum writes nothing outside the buffer",
     .source = "SDM Vol 3, 18.4.4")
{
	PEBS(pebs, 4);
	run_at(&pebs, pebs.base - pebs.record);
	run_at(&pebs, pebs.base + (pebs.slots + 1) * pebs.record + 1);
	run_at(&pebs, pebs.base + pebs.slots * pebs.record - 8);
	pebs_expect_samples(&pebs);
}

/* The manual wants base + n * size + 1; Linux leaves the 1 out. */
TEST(pebs_maximum_conventions, .group = "PE", .ids = "PE23 PE24", .needs = NEED_PEBS,
     .claim = "a buffer takes as many records as fit, then no more: the index never returns",
     .source = "SDM Vol 3, 18.4.4 and 17.4.9.2")
{
	struct pebs_sample first, second;

	PEBS(pebs, 4);
	for (unsigned plus = 0; plus < 2; plus++) {
		size_t count;

		pebs_reset(&pebs);
		pebs_set(&pebs, DS_PEBS_ABSOLUTE_MAXIMUM,
			 pebs.base + pebs.slots * pebs.record + plus);
		pebs_arm(&pebs, 0, 10);
		pebs_run_jumps(1, 300);
		count = pebs_count(&pebs);
		test_observe(plus ? "with_one" : "without", "%zu of 4", count);
		EXPECT(count == pebs.slots || (!plus && count == pebs.slots - 1));
		EXPECT(!pebs_is_poison(&pebs, 0));
		EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + count * pebs.record);
		first = pebs_sample(&pebs, 0);
		second = pebs_sample(&pebs, 1);
		EXPECT(pebs_place(&first) < pebs_place(&second));
	}
}

TEST(pebs_four_counters, .group = "PE", .ids = "PE11 PE27 PE72 PE73 PE82 PE92 PE96",
     .needs = NEED_PEBS,
     .claim = "four counters at once: records are whole, each counter is sampled at its own rate",
     .source = "SDM Vol 3, 18.8.1.1")
{
	static const uint64_t periods[] = {29, 59, 107, 199}; /* some are due at once */
	uint64_t mask = (1ull << pmu_caps()->general_width) - 1, late;
	size_t seen[4] = {0};

	PEBS(pebs, ds_caps()->pebs_format ? 64 : 4);
	pebs_need(&pebs, (~pebs_counters(&pebs) & 0xf) == 0, "counter 0 alone is sampled");
	late = 2 * pebs_longest_skid(&pebs) + 8;
	for (unsigned n = 0; n < 4; n++)
		pebs_arm(&pebs, n, periods[n]);
	wrmsr(IA32_PEBS_ENABLE, 0xf);
	pebs_run_jumps(0xf, 900);
	EXPECT(pebs_count(&pebs) >= 20 && pebs_count(&pebs) < 64);
	for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
		struct pebs_sample sample = pebs_sample(&pebs, slot);

		for (unsigned n = 0; n < 4; n++)
			seen[n] += sample.status >> n & 1;
		EXPECT(pebs_place(&sample) >> 47 == 0x1ffff);
	}
	test_observe("samples", "%zu, %zu, %zu and %zu", seen[0], seen[1], seen[2], seen[3]);
	for (unsigned n = 0; n < 4; n++) {
		/* Two that are due at once may share a record, or one may have none. */
		EXPECT(seen[n] + 3 >= 900 / (periods[n] + 1 + late));
		EXPECT(pebs.format < 3 || seen[n] <= 902 / periods[n]);
		EXPECT(((rdmsr(IA32_PMC0 + n) + periods[n]) & mask) <= periods[n] + PEBS_SKID_MOST);
	}
}

/* The instructions that change the level, and where they lead to. */
static bool is_transition(uint64_t ip)
{
	return ip == VISITS_AT || ip == VISITS_SYSCALL_AT || ip == (uint64_t)syscall_entry ||
	       (ip >> 63 && text_is_iretq(ip));
}

/* By PEBS_TRAP the state is that after SYSCALL, which left its next instruction in RCX. */
static bool is_of_syscall(const struct pebs_sample *sample)
{
	if (sample->ip == VISITS_SYSCALL_AT)
		return ds_caps()->pebs_fault;
	return sample->ip == (uint64_t)syscall_entry &&
	       sample->registers[1] == VISITS_SYSCALL_AT + 2;
}

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

/*
 * SYSCALL and IRETQ may count at either level: their records may show either side. A counter that
 * is armed before them takes its sample after them. Samples of different distances reach every
 * place of a visit, however many branches the kernel has between two. With PEBS_BASELINE the last
 * distance is of cycles, which are sampled at the next opportunity (18.7.1): that may be later.
 */
#define CYCLES 0x3cull
#define IF     0x200
TEST(pebs_privilege, .group = "PE", .ids = "PE13 PE30 PE61 PE62", .needs = NEED_PEBS,
     .claim = "a counter of rings 1 to 3 samples each of these and no instruction of the kernel, "
	      "and conversely, SYSCALL with its RCX",
     .source = "SDM Vol 3, 18.2.1.1: USR and OS of IA32_PERFEVTSELx")
{
	enum { DISTANCES = 5 };
	static const uint64_t distances[DISTANCES] = {2, 3, 4, 6, 20};
	size_t kernel[2] = {0}, user[2] = {0};

	PEBS(pebs, ds_caps()->pebs_format ? 128 : 28);
	user_visits_open();
	for (unsigned trial = 0; trial / 2 + !pebs.adaptive < DISTANCES; trial++) {
		bool level = trial & 1, precise = trial < 2 * DISTANCES - 2, found = precise;
		uint64_t event = precise ? pebs.event & 0xffff : CYCLES;

		pebs_reset(&pebs);
		pebs_arm_event(&pebs, 0, event | (level ? PMU_USR : PMU_OS),
			       distances[trial / 2] + (pebs.branches ? 0 : 38));
		wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
		user_visits_run();
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		EXPECT(pebs_count(&pebs) > 0);
		for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
			struct pebs_sample sample = pebs_sample(&pebs, slot);
			uint64_t ip = pebs_place(&sample);

			found |= is_kernel(ip) != level;
			(is_kernel(ip) ? kernel : user)[level] += precise;
			EXPECT(sample.event_ip != VISITS_SYSCALL_AT || !pebs_has_state(&pebs) ||
			       is_of_syscall(&sample));
			if (is_transition(ip) || !precise)
				continue;
			EXPECT_EQ(is_kernel(ip), !level);
			EXPECT(!level || !pebs_has_state(&pebs) || sample.flags & IF);
		}
		EXPECT(found);
	}
	user_visits_close();
	test_observe("samples", "OS: %zu kernel, %zu user; USR: %zu kernel, %zu user", kernel[0],
		     user[0], kernel[1], user[1]);
	/* The first jump is where the kernel's IRETQ leads; INT, after the last one, may count at
	   either level too. */
	for (unsigned trial = 2; trial < 6; trial++) {
		bool found = false;

		pebs_run_ring(&pebs, trial / 2, trial & 1 ? PMU_USR : PMU_OS);
		for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
			struct pebs_sample sample = pebs_sample(&pebs, slot);
			uint64_t place = pebs_place(&sample);

			found |= own_ring_has(place - 2) && own_ring_has(place);
		}
		EXPECT_EQ(found, trial & 1);
	}
	EXPECT(kernel[0] > DISTANCES && user[0] <= VISITS * DISTANCES);
	EXPECT(user[1] > DISTANCES && kernel[1] <= VISITS * DISTANCES);
}

TEST(pebs_off_counts_plainly, .group = "PE", .ids = "PE31", .needs = NEED_PEBS,
     .claim = "with IA32_PEBS_ENABLE clear the counter overflows, and nothing is sampled",
     .source = "SDM Vol 3, 18.4.4 and 18.2.2")
{
	PEBS(pebs, 4);
	pebs_arm(&pebs, 0, 10);
	wrmsr(IA32_PEBS_ENABLE, 0);
	pebs_run_jumps(1, 100);
	expect_nothing(&pebs, pebs.base);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
	EXPECT(rdmsr(IA32_PMC0) >= 90 && rdmsr(IA32_PMC0) < 120);
	pebs_expect_samples(&pebs);
}

/* `linear` is in the page of `entry` from here on. Returns the entry of the one before. */
static uint64_t remap(uint64_t linear, uint64_t entry)
{
	uint64_t *place = vm_entry(linear), old = *place;

	*place = entry;
	vm_flush(linear);
	return old;
}

static void take_one(struct pebs *pebs)
{
	pebs_arm(pebs, 0, 100);
	pebs_run_jumps(1, 150);
}

/* One record lies on the end of a page and of 32 bits of the index; the threshold is far off. */
static void cross_4_gib(struct pebs *pebs, const uint8_t *pages)
{
	const uint64_t end = 1ull << 32, at = end - 64;
	const uint64_t kept = pebs->base;

	pebs->base = at;
	code_map_data(end - PAGE_SIZE, pages, 0);
	code_map_data(end, pages + PAGE_SIZE, 0);
	pebs_set(pebs, DS_PEBS_BUFFER_BASE, at);
	pebs_set(pebs, DS_PEBS_ABSOLUTE_MAXIMUM, at + 2 * pebs->record + 1);
	pebs_reset(pebs);
	pebs_set_threshold(pebs, 1ul << 32);
	take_one(pebs);
	EXPECT_EQ(pebs_count(pebs), 1);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVF_BUF, 0);
	EXPECT(pebs_quadword(pebs, 0, pebs->record / 8 - 1) != 0xa5a5a5a5a5a5a5a5);
	EXPECT(pebs_is_poison(pebs, 1));
	pebs->base = kept;
	code_unmap(end);
	code_unmap(end - PAGE_SIZE);
}

TEST(pebs_remapped, .group = "PE", .ids = "PE7 PE104 PE105 PE130", .needs = NEED_PEBS,
     .claim = "the buffer of samples and the DS area are found by the page tables: INVLPG makes a "
	      "change count",
     .source = "SDM Vol 3, 17.4.9.2 and 4.10.4")
{
	uint8_t *other = test_area(2), *area;
	struct pebs moved;
	uint64_t old;

	PEBS(pebs, 4);
	area = (uint8_t *)((uint64_t)pebs.rig.area & ~(PAGE_SIZE - 1ul));
	take_one(&pebs);
	EXPECT_EQ(pebs_count(&pebs), 1);
	moved = pebs;
	moved.base = (uint64_t)other + (pebs.base & (PAGE_SIZE - 1));
	memcpy(other, pebs.pages, PAGE_SIZE);
	old = remap(pebs.base, *vm_entry((uint64_t)other));
	take_one(&pebs);
	remap(pebs.base, old);
	EXPECT_EQ(pebs_count(&pebs), 2);
	EXPECT(pebs_is_poison(&pebs, 1) && !pebs_is_poison(&moved, 1));
	memcpy(other + PAGE_SIZE, area, PAGE_SIZE);
	old = remap((uint64_t)area, *vm_entry((uint64_t)other + PAGE_SIZE));
	pebs_set(&pebs, DS_PEBS_INDEX, pebs.base + 3 * pebs.record);
	take_one(&pebs);
	EXPECT_EQ(pebs_count(&pebs), 4);
	remap((uint64_t)area, old);
	EXPECT_EQ(pebs_count(&pebs), 2);
	EXPECT(pebs_is_poison(&pebs, 2) && !pebs_is_poison(&pebs, 3));
	cross_4_gib(&pebs, other);
}

// The threshold of PEBS and its interrupt, alone and beside BTS.

/* At the newest interrupt, the first things that its handler read. */
static struct {
	struct pebs *pebs;
	uint64_t index, bts_index, status, control, debugctl;
	uint32_t entry;
	unsigned count, shown; /* those with OvfBuf */
	bool go_on, samples;   /* after it; in the handler too */
} seen;

/* Where delivery as NMI does not mask the LVT entry. */
static bool is_due(const struct pebs *pebs)
{
	return rdmsr(IA32_PERF_GLOBAL_STATUS) & (GLOBAL_STATUS_OVF_BUF | 3) ||
	       rig_index(&pebs->rig) >= ds_get(pebs->rig.area, DS_BTS_INTERRUPT_THRESHOLD);
}

static bool nmi(struct trap_frame *frame)
{
	uint32_t entry = apic_read(APIC_LVT_PC);

	(void)frame;
	if (!(entry & LVT_MASKED) && !is_due(seen.pebs))
		return false;
	seen.bts_index = rig_index(&seen.pebs->rig);
	seen.status = rdmsr(IA32_PERF_GLOBAL_STATUS);
	seen.control = rdmsr(IA32_PERF_GLOBAL_CTRL);
	seen.debugctl = rdmsr(IA32_DEBUGCTL);
	if (seen.samples)
		pebs_run_jumps(seen.control, 4000);
	seen.index = pebs_get(seen.pebs, DS_PEBS_INDEX);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	seen.entry = entry;
	seen.count++;
	seen.shown += seen.status >> 62 & 1;
	wrmsr(IA32_DEBUGCTL, 0);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, seen.status);
	pebs_set(seen.pebs, DS_PEBS_INDEX, seen.pebs->base);
	lapic_unmask_lvtpc();
	if (seen.go_on && seen.count < 100)
		wrmsr(IA32_PERF_GLOBAL_CTRL, seen.control);
	return true;
}

static void take(struct pebs *pebs)
{
	seen.pebs = pebs;
	seen.count = seen.shown = 0;
	seen.go_on = seen.samples = false;
	test_handle_nmis(nmi);
	lapic_unmask_lvtpc();
}

static void release(void)
{
	pmi_settle();
	lapic_mask_lvtpc();
	test_handle_nmis(NULL);
}

static unsigned by_vector;

static void fixed(struct trap_frame *frame)
{
	by_vector++;
	nmi(frame);
	lapic_eoi();
}

/* Delivered by a vector; the kernel's own interrupts wait. Returns what the LVT entry was. */
static uint32_t take_by_vector(struct pebs *pebs)
{
	uint32_t entry = apic_read(APIC_LVT_PC);

	take(pebs);
	by_vector = 0;
	interrupt_set_handler(PMI_VECTOR, fixed);
	lapic_set_task_priority(BELOW_PMI_VECTOR);
	lapic_set_lvtpc(PMI_VECTOR, false);
	return entry;
}

static void release_by_vector(uint32_t entry)
{
	release();
	interrupt_set_handler(PMI_VECTOR, NULL);
	lapic_set_task_priority(0);
	lapic_set_lvtpc((uint8_t)(entry & LVT_VECTOR_MASK), entry & LVT_NMI);
}

static size_t records_then(const struct pebs *pebs)
{
	return (seen.index - pebs->base) / pebs->record;
}

TEST(pebs_threshold_interrupts, .group = "PE", .ids = "PE8 PE19", .needs = NEED_PEBS | ON_EACH_CPU,
     .claim = "the record that brings the index to the threshold interrupts and sets OvfBuf",
     .source = "SDM Vol 3, 18.4.4 and 17.4.9.5")
{
	PEBS(pebs, 16);
	take(&pebs);
	for (unsigned records = 1; records <= 9; records++) { /* of another counter each */
		unsigned n = records < 9 ? records - 1 : PMU_FIXED;
		if (!(pebs_counters(&pebs) >> n & 1))
			n = 0;
		pebs_reset(&pebs);
		seen.count = 0;
		seen.samples = records == 2;
		pebs_set_threshold(&pebs, records);
		pebs_arm(&pebs, n, 400);
		wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, TRACE_TOPA_PMI); /* waits for software */
		pebs_run_jumps(1ull << n, 4000);
		pmi_settle();
		EXPECT_EQ(seen.count, 1);
		EXPECT_EQ(records_then(&pebs) - records > 1, seen.samples);
		EXPECT_EQ(seen.status & (GLOBAL_STATUS_OVF_BUF | 1ull << n), GLOBAL_STATUS_OVF_BUF);
	}
	release();
}

TEST(pebs_threshold_interrupts_fixed, .group = "PE", .ids = "PE19 PE20", .needs = NEED_PEBS,
     .claim =
	     "by a fixed vector the threshold interrupts as by NMI, and masks the LVT entry, where "
	     "interrupts are on; where they are off it waits, and samples go on",
     .source = "SDM Vol 3, 18.4.4, 17.4.9.5 and 10.5.1")
{
	uint32_t entry;

	PEBS(pebs, 16);
	entry = take_by_vector(&pebs);
	pebs_set_threshold(&pebs, 3);
	pebs_arm(&pebs, 0, 400);
	SAMPLED(1, "sti\n\t" JUMPS(4000) "cli\n\t");
	pmi_settle();
	EXPECT_EQ(seen.count, 1);
	EXPECT(records_then(&pebs) == 3 || records_then(&pebs) == 4);
	EXPECT_EQ(seen.status & GLOBAL_STATUS_OVF_BUF, GLOBAL_STATUS_OVF_BUF);
	pebs_reset(&pebs);
	pebs_set_threshold(&pebs, 3);
	pebs_arm(&pebs, 0, 400);
	pebs_run_jumps(1, 4000);
	pmi_settle();
	EXPECT_EQ(seen.count, 2);
	EXPECT(records_then(&pebs) >= 9);
	EXPECT_EQ(by_vector, 2);
	if (!silicon_is_foreign_guest()) /* KVM's mistake is pmu_interrupt_masks' */
		EXPECT(seen.entry & LVT_MASKED);
	release_by_vector(entry);
}

TEST(pebs_below_threshold_silent, .group = "PE", .ids = "PE19", .needs = NEED_PEBS,
     .claim = "records that stay below the threshold neither interrupt nor set OvfBuf",
     .source = "SDM Vol 3, 18.4.4 and 17.4.9.5")
{
	PEBS(pebs, 16);
	take(&pebs);
	pebs_set_threshold(&pebs, 12);
	pebs_arm(&pebs, 0, 20);
	pebs_run_jumps(1, 200);
	pmi_settle();
	EXPECT(pebs_count(&pebs) >= 200 / (21 + PEBS_SKID_MOST));
	EXPECT_EQ(seen.count, 0);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVF_BUF, 0);
	release();
}

/* Interrupts off at the local APIC: what the status says stays until software clears it. */
TEST(pebs_status_is_cleared, .group = "PE", .ids = "PE20", .needs = NEED_PEBS,
     .claim = "IA32_PERF_GLOBAL_OVF_CTRL clears OvfBuf, and no other bit with it",
     .source = "SDM Vol 3, 18.2.2 and 18.4.4")
{
	PEBS(pebs, 16);
	lapic_mask_lvtpc();
	pebs_set_threshold(&pebs, 1);
	pebs_arm(&pebs, 0, 20);
	wrmsr(IA32_PMC0 + 1, (uint64_t)-95); /* after the sample */
	wrmsr(IA32_PERFEVTSEL0 + 1, pebs.event | PERFEVTSEL_EN);
	pebs_run_jumps(3, 100);
	wrmsr(IA32_PEBS_ENABLE, 0); /* clears nothing */
	wrmsr(IA32_DS_AREA, rdmsr(IA32_DS_AREA));
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & (GLOBAL_STATUS_OVF_BUF | 2),
		  GLOBAL_STATUS_OVF_BUF | 2);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, GLOBAL_STATUS_OVF_BUF);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & (GLOBAL_STATUS_OVF_BUF | 2), 2);
	EXPECT(apic_read(APIC_LVT_PC) & LVT_MASKED);
	lapic_unmask_lvtpc();
}

TEST(pebs_delivery_masks, .group = "PE", .ids = "PE20 PE106", .needs = NEED_PEBS,
     .claim = "each crossing sets OvfBuf and interrupts once the LVT entry is unmasked and the "
	      "index at the base",
     .source = "SDM Vol 3, 10.5.1")
{
	PEBS(pebs, 16);
	take(&pebs);
	seen.go_on = true;
	pebs_set_threshold(&pebs, 2);
	pebs_arm(&pebs, 0, 100);
	wrmsr(IA32_PMC0 + 1, 0);
	wrmsr(IA32_PERFEVTSEL0 + 1, pebs.event | PERFEVTSEL_EN);
	pebs_run_jumps(3, 1000);
	pmi_settle();
	test_observe("interrupts", "%u", seen.count);
	/* The handler's own events are counted as well. */
	EXPECT(seen.shown >= 2 && seen.count <= rdmsr(IA32_PMC0 + 1) / 100);
	if (!silicon_is_foreign_guest())
		EXPECT(seen.entry & LVT_MASKED);
	release();
}

// While the LVT entry is masked a PMI waits or is lost: the manual does not settle it (SDM Vol 3,
// 10.5.1 and 18.4.4). Linux unmasks after it has enabled the counters, except on small cores, which
// lose the interrupt (6.1.192, arch/x86/events/intel/core.c:3069). The virtual silicon lost it on
// other models too: a record stayed in the buffer, where a later `perf record` with another
// MSR_PEBS_DATA_CFG found it. Linux then read the next one, of another size, wrongly, and warned
// in setup_pebs_adaptive_sample_data().
// The observation "masked_interrupt_comes_later" says which it is here.
// On a failure the log has "seen.count": an interrupt through the mask, or more than one after it.
// "rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVF_BUF" means that OvfBuf does not show what is
// to be emptied.
TEST(pebs_threshold_masked, .group = "PE", .ids = "PE20", .needs = NEED_PEBS,
     .claim = "a threshold that is reached while the LVT entry is masked sets OvfBuf and "
	      "interrupts once at most when the entry is unmasked",
     .source = "SDM Vol 3, 10.5.1 and 18.4.4")
{
	PEBS(pebs, 16);
	take(&pebs);
	lapic_mask_lvtpc();
	pebs_set_threshold(&pebs, 1);
	pebs_arm(&pebs, 0, 400);
	pebs_run_jumps(1, 1000);
	pmi_settle();
	EXPECT_EQ(seen.count, 0);
	EXPECT(pebs_count(&pebs) >= 1);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVF_BUF, GLOBAL_STATUS_OVF_BUF);
	lapic_unmask_lvtpc();
	pmi_settle();
	test_observe("masked_interrupt_comes_later", "%u", seen.count);
	EXPECT(seen.count == 0 || (seen.count == 1 && records_then(&pebs) >= 1));
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVF_BUF,
		  seen.count ? 0 : GLOBAL_STATUS_OVF_BUF);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, GLOBAL_STATUS_OVF_BUF);
	lapic_unmask_lvtpc();
	release();
}

TEST(pebs_with_counter_interrupt, .group = "PE", .ids = "PE25", .needs = NEED_PEBS,
     .claim = "INT of a sampled counter adds interrupts of its overflows, and no storm",
     .source = "SDM Vol 3, 18.8.1.1")
{
	PEBS(pebs, 16);
	take(&pebs);
	seen.go_on = true;
	pebs_set_threshold(&pebs, 3);
	/* More than the handler itself has of the event, even where that is an instruction. */
	pebs_arm_event(&pebs, 0, (pebs.event & 0xffff) | PMU_OS | PERFEVTSEL_INT, 900);
	pebs_run_jumps(1, 4000);
	pmi_settle();
	test_observe("interrupts", "%u", seen.count);
	EXPECT(seen.count >= 1 && seen.count < 100);
	release();
	pebs_expect_samples(&pebs);
}

TEST(pebs_beside_an_interrupt, .group = "PE", .ids = "PE31 PE105", .needs = NEED_PEBS,
     .claim = "a counter that takes no samples interrupts at its overflow while another takes them",
     .source = "SDM Vol 3, 18.2.2 and 18.4.4")
{
	PEBS(pebs, 16);
	take(&pebs);
	pebs_arm(&pebs, 0, 40);
	wrmsr(IA32_PMC0 + 1, (uint64_t)-300);
	wrmsr(IA32_PERFEVTSEL0 + 1, pebs.event | PERFEVTSEL_INT | PERFEVTSEL_EN);
	pebs_run_jumps(3, 1000);
	pmi_settle();
	wrmsr(IA32_PERFEVTSEL0 + 1, 0);
	release();
	REQUIRE_EQ(seen.count, 1);
	EXPECT_EQ(seen.status & (GLOBAL_STATUS_OVF_BUF | 2), 2);
	EXPECT(seen.index > pebs.base);
}

TEST(pebs_and_bts_thresholds, .group = "PE", .ids = "PE28 B2", .needs = NEED_BTS | NEED_PEBS,
     .claim = "each threshold interrupts beside the other half, whatever the filter of BTS; both "
	      "indices have moved at a branch that crosses both",
     .source = "SDM Vol 3, 18.4.4 and 17.4.9.5")
{
	uint64_t flags, off_os = ds_caps()->dscpl ? ds_configuration->off_os : 0;

	PEBS(pebs, 16);
	take(&pebs);
	for (unsigned half = 1; half <= 3; half++) { /* 1: of PEBS; 2: of BTS */
		pebs_reset(&pebs);
		rig_reset(&pebs.rig);
		seen.count = 0;
		pebs_set_threshold(&pebs, half & 1 ? 1 : 17);
		rig_set_threshold(&pebs.rig, half & 2 ? 42 : 257);
		if (half == 1 && off_os) /* full; BTS takes no branch */
			ds_set(pebs.rig.area, DS_BTS_INDEX, pebs.rig.base + 256 * pebs.rig.record);
		pebs_arm(&pebs, 0, 40);
		flags = interrupts_save();
		wrmsr(IA32_DEBUGCTL, rig_interrupt() | (half & 2 ? 0 : off_os));
		pebs_run_jumps(1, 60);
		wrmsr(IA32_DEBUGCTL, 0);
		interrupts_restore(flags);
		pmi_settle();
		test_observe("interrupts", "%u", seen.count);
		EXPECT(seen.count >= 1 && seen.count <= 2);
		if (half & 1)
			EXPECT(seen.index >= pebs.base + pebs.record || seen.count == 2);
		if (half & 2)
			EXPECT(seen.bts_index > pebs.rig.base + 38 * pebs.rig.record);
	}
	release();
}

TEST(pebs_agrees_with_bts, .group = "PE", .ids = "PE15 PE21 B2", .needs = NEED_BTS | NEED_PEBS,
     .claim = "a sampled branch is among the records of BTS", .source = "SDM Vol 3, 18.4.4")
{
	struct bts_struct record;
	struct pebs_sample sample;
	uint64_t flags;

	PEBS(pebs, 1);
	pebs_arm(&pebs, 0, 20);
	flags = interrupts_save();
	wrmsr(IA32_DEBUGCTL, rig_all());
	pebs_run_jumps(1, 150);
	wrmsr(IA32_DEBUGCTL, 0);
	interrupts_restore(flags);
	EXPECT(rig_count(&pebs.rig) >= 150);
	EXPECT(pebs_count(&pebs) > 0);
	for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
		bool found = false;

		sample = pebs_sample(&pebs, slot);
		for (size_t i = 0; i < rig_count(&pebs.rig); i++) {
			record = rig_record(&pebs.rig, i);
			found |= (!sample.event_ip || record.from == sample.event_ip) &&
				 (record.to == sample.ip || record.from == pebs_place(&sample));
		}
		EXPECT(found);
	}
}

static bool can_freeze(void)
{
	return cpuid(1, 0).ecx & CPUID_1_ECX_PDCM;
}

TEST(pebs_threshold_freezes, .group = "PE", .ids = "PE9 PE10 PE29 PE95 PE106 LB25 BF1",
     .needs = NEED_PEBS | ON_EACH_CPU,
     .claim = "FREEZE_PERFMON_ON_PMI and FREEZE_LBRS_ON_PMI, together and alone, stop counters and "
	      "LBR stack at the threshold of each counter, as the version says, in ring 3 too; BTS "
	      "goes on",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4")
{
	const uint64_t lbrs = FREEZE_LBRS | DEBUGCTL_LBR;
	const uint64_t bts = ds_has_bts() ? rig_all() : 0;
	const uint64_t ways[] = {FREEZE_PERFMON | lbrs, lbrs, FREEZE_PERFMON | bts};
	PEBS(pebs, 16);
	unsigned last = 31u - (unsigned)__builtin_clz((uint32_t)pebs_counters(&pebs));
	pebs_need(&pebs,
		  can_freeze() && !(silicon_is_foreign_guest() &&
				    msr_try(IA32_DEBUGCTL, ways[0], 0).refused),
		  "no PDCM, or the hypervisor refuses the freeze bits of IA32_DEBUGCTL");
	user_visits_open();
	take(&pebs);
	for (unsigned turn = 0; turn < 4u + pebs.adaptive; turn++) {
		unsigned n = turn == 4 ? PMU_FIXED : last - (turn < last ? turn : last);
		uint64_t way = ways[turn % 4 % 3];
		bool user = turn == 3;

		pebs_reset(&pebs);
		seen.count = 0;
		pebs_set_threshold(&pebs, 1);
		pebs_arm_event(&pebs, n, (pebs.event & 0xffff) | (user ? PMU_USR : PMU_OS),
			       user ? 10 : 400);
		pebs_set_reset(&pebs, n, -5000 & pmu_rig_mask(n));
		wrmsr(IA32_DEBUGCTL, way);
		if (user) {
			wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
			user_visits_run();
		} else {
			pebs_run_jumps(1ull << n, 4000);
		}
		pmi_settle();
		wrmsr(IA32_DEBUGCTL, 0);
		EXPECT(seen.bts_index != rig_index(&pebs.rig) || !(way & bts));
		EXPECT_EQ(seen.count, 1);
		EXPECT_EQ(seen.status & (GLOBAL_STATUS_OVF_BUF | 1ull << n), GLOBAL_STATUS_OVF_BUF);
		EXPECT_EQ(records_then(&pebs), 1);
		EXPECT(((pmu_rig_value(n) + 5000) & pmu_rig_mask(n)) < 5000);
		if (pmu_caps()->version >= 4) {
			EXPECT_EQ(seen.control, 1ull << n);
			EXPECT_EQ(!(seen.status & STATUS_CTR_FRZ), !(way & FREEZE_PERFMON));
			EXPECT_EQ(!(seen.status & STATUS_LBR_FRZ), !(way & FREEZE_LBRS));
		} else {
			EXPECT_EQ(seen.control, way & FREEZE_PERFMON ? 0 : 1ull << n);
			EXPECT_EQ(seen.debugctl & way & DEBUGCTL_LBR, 0);
		}
	}
	release();
	user_visits_close();
}
