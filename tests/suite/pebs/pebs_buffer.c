// SPDX-License-Identifier: MIT
// The buffer of PEBS: bounds, and what is enabled.
#include "drivers/processor.h"
#include "kernel/trap/user.h"
#include "tests/lib/code.h"
#include "tests/lib/pebs_rig.h"
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
	SAMPLED(1, JUMPS(200));
	expect_nothing(pebs, index);
}

TEST(pebs_full_writes_nothing, .group = "PE", .ids = "PE21", .needs = NEED_PEBS,
     .claim = "with the index at the absolute maximum nothing is written, and the index stays",
     .source = "SDM Vol 3, 18.4.4")
{
	struct pebs pebs;

	pebs_open(&pebs, 4);
	run_at(&pebs, pebs_get(&pebs, DS_PEBS_ABSOLUTE_MAXIMUM));
	EXPECT(rdmsr(IA32_PMC0) < 400); /* no reload: the counter runs on */
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
	run_at(&pebs, pebs.base + pebs.slots * pebs.record);
	pebs_close(&pebs);
}

TEST(pebs_index_out_of_bounds, .group = "PE", .ids = "PE22", .needs = NEED_PEBS | NEED_UNSAFE,
     .claim = "an index below the base or far above the maximum writes nothing outside the buffer",
     .source = "SDM Vol 3, 18.4.4")
{
	struct pebs pebs;

	pebs_open(&pebs, 4);
	run_at(&pebs, pebs.base - pebs.record);
	run_at(&pebs, pebs.base + (pebs.slots + 1) * pebs.record + 1);
	run_at(&pebs, pebs.base + pebs.slots * pebs.record - 8);
	pebs_close(&pebs);
}

/* The manual wants base + n * size + 1; Linux leaves the 1 out. */
TEST(pebs_maximum_conventions, .group = "PE", .ids = "PE23 PE24", .needs = NEED_PEBS,
     .claim = "a buffer takes as many records as fit, then no more: the index never returns",
     .source = "SDM Vol 3, 18.4.4 and 17.4.9.2")
{
	struct pebs_sample first, second;
	struct pebs pebs;

	pebs_open(&pebs, 4);
	for (unsigned plus = 0; plus < 2; plus++) {
		size_t count;

		pebs_reset(&pebs);
		pebs_set(&pebs, DS_PEBS_ABSOLUTE_MAXIMUM,
			 pebs.base + pebs.slots * pebs.record + plus);
		pebs_arm(&pebs, 0, 10);
		SAMPLED(1, JUMPS(300));
		count = pebs_count(&pebs);
		test_observe(plus ? "with_one" : "without", "%zu of 4", count);
		EXPECT(count == pebs.slots || (!plus && count == pebs.slots - 1));
		EXPECT(!pebs_is_poison(&pebs, 0));
		EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + count * pebs.record);
		first = pebs_sample(&pebs, 0);
		second = pebs_sample(&pebs, 1);
		EXPECT(pebs_place(&first) < pebs_place(&second));
	}
	pebs_close(&pebs);
}

#define EDGE (1ull << 18)
#define INV  (1ull << 23)

/* INV counts cycles without the event, as many as there are: no figure to compare with. */
static void check_select(struct pebs *pebs, uint64_t flags)
{
	uint64_t events, whole = pebs->event | flags | PERFEVTSEL_EN;

	pebs_reset(pebs);
	wrmsr(IA32_PERFEVTSEL0, 0);
	wrmsr(IA32_PMC0, 0);
	wrmsr(IA32_PERFEVTSEL0, whole);
	EXPECT_EQ(rdmsr(IA32_PERFEVTSEL0), whole);
	SAMPLED(1, JUMPS(30));
	events = rdmsr(IA32_PMC0);
	pebs_arm_event(pebs, 0, pebs->event | flags, 10);
	SAMPLED(1, JUMPS(30));
	test_observe("samples", "flags %lx: %lu events, %zu", flags, events, pebs_count(pebs));
	if (!(flags & INV))
		EXPECT(pebs_count(pebs) <= events / 11);
	EXPECT(pebs_count(pebs) <= pebs->slots);
	if (!flags)
		EXPECT(pebs_count(pebs) >= 2);
}

TEST(pebs_odd_selects, .group = "PE", .ids = "PE26", .needs = NEED_PEBS,
     .claim = "edge detect, INV or CMASK of a sampled counter sample no more than they count, and "
	      "write nothing out of bounds",
     .source = "SDM Vol 3, 18.8.1.1 and 18.2.1.1")
{
	static const uint64_t flags[] = {0,
					 EDGE,
					 INV,
					 1ull << 24,
					 INV | 1ull << 24,
					 2ull << 24,
					 255ull << 24,
					 EDGE | 2ull << 24};
	struct pebs pebs;

	pebs_open(&pebs, 4);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		check_select(&pebs, flags[i]);
	pebs_close(&pebs);
}

TEST(pebs_four_counters, .group = "PE", .ids = "PE27 PE96", .needs = NEED_PEBS,
     .claim = "four counters at once, each with its own value: every record is whole, and each "
	      "counter is sampled at its own rate",
     .source = "SDM Vol 3, 18.8.1.1")
{
	static const uint64_t periods[] = {29, 59, 107, 199};
	uint64_t mask = (1ull << pmu_caps()->general_width) - 1;
	size_t seen[4] = {0};
	struct pebs pebs;

	pebs_open(&pebs, ds_caps()->pebs_format ? 64 : 4);
	if (!pebs.format || pmu_caps()->general < 4) {
		pebs_close(&pebs);
		test_skip("format 0 samples counter 0 alone");
	}
	for (unsigned n = 0; n < 4; n++)
		pebs_arm(&pebs, n, periods[n]);
	wrmsr(IA32_PEBS_ENABLE, 0xf);
	SAMPLED(0xf, JUMPS(900));
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
		EXPECT(seen[n] + 3 >= 900 / (periods[n] + 1));
		EXPECT(pebs.format < 3 || seen[n] <= 902 / (periods[n] + 1));
		EXPECT((-rdmsr(IA32_PMC0 + n) & mask) <= periods[n]);
	}
	pebs_close(&pebs);
}

/* The instructions that change the level, and where they lead to. */
static bool is_transition(uint64_t ip)
{
	return ip == VISITS_AT || ip == VISITS_SYSCALL_AT || ip == (uint64_t)syscall_entry ||
	       (ip >> 63 && text_is_iretq(ip));
}

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

/*
 * SYSCALL and IRETQ may count at either level: their records may show either side. A counter that
 * is armed before them takes its sample after them. Samples of different distances reach every
 * place of a visit, however many branches the kernel has between two.
 */
TEST(pebs_privilege, .group = "PE", .ids = "PE30", .needs = NEED_PEBS,
     .claim = "a counter of ring 3 samples no instruction of the kernel, and conversely",
     .source = "SDM Vol 3, 18.2.1.1: USR and OS of IA32_PERFEVTSELx")
{
	enum { DISTANCES = 4 };
	static const uint64_t distances[DISTANCES] = {2, 3, 4, 6};
	size_t kernel[2] = {0}, user[2] = {0};
	struct pebs pebs;

	pebs_open(&pebs, ds_caps()->pebs_format ? 128 : 28);
	user_visits_open();
	for (unsigned trial = 0; trial < 2 * DISTANCES; trial++) {
		bool level = trial & 1;

		pebs_reset(&pebs);
		pebs_arm_event(&pebs, 0, (pebs.event & 0xffff) | (level ? PMU_USR : PMU_OS),
			       distances[trial / 2] + (pebs.branches ? 0 : 38));
		wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
		user_visits_run();
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
		for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
			struct pebs_sample sample = pebs_sample(&pebs, slot);
			uint64_t ip = pebs_place(&sample);

			(is_kernel(ip) ? kernel : user)[level]++;
			EXPECT(is_kernel(ip) == !level || is_transition(ip));
		}
	}
	user_visits_close();
	test_observe("samples", "OS: %zu kernel, %zu user; USR: %zu kernel, %zu user", kernel[0],
		     user[0], kernel[1], user[1]);
	EXPECT(kernel[0] > DISTANCES && user[0] <= VISITS * DISTANCES);
	EXPECT(user[1] > DISTANCES && kernel[1] <= VISITS * DISTANCES);
	pebs_close(&pebs);
}

TEST(pebs_off_counts_plainly, .group = "PE", .ids = "PE31", .needs = NEED_PEBS,
     .claim = "with IA32_PEBS_ENABLE clear the counter overflows, and nothing is sampled",
     .source = "SDM Vol 3, 18.4.4 and 18.2.2")
{
	struct pebs pebs;

	pebs_open(&pebs, 4);
	pebs_arm(&pebs, 0, 10);
	wrmsr(IA32_PEBS_ENABLE, 0);
	SAMPLED(1, JUMPS(100));
	expect_nothing(&pebs, pebs.base);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
	EXPECT(rdmsr(IA32_PMC0) >= 90 && rdmsr(IA32_PMC0) < 120);
	pebs_close(&pebs);
}
