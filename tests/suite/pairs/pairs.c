// SPDX-License-Identifier: MIT
// Each unit records the same branches of a program alone and beside other units.
#include "drivers/lbr/lbr.h"
#include "drivers/pmu/registers.h"
#include "drivers/pt/registers.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/silicon.h"
#include "lib/string.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"
#include "tests/suite/pairs/program.h"

#define ADDRESS	       ((1ull << 48) - 1)
#define NOT_CPL0       1ull /* MSR_LBR_SELECT: SDM Vol 3, 17.7.2 */
#define NOT_USER       2ull
#define PEBS_FORMATS   5
#define TRIES	       5
#define LEAST_COUNTED  8 /* branches that a run has in the program at the least */
#define LEAST_RECORDED 2

enum unit { BTS_UNIT, LBR_UNIT, COUNTER_UNIT, PEBS_UNIT, PT_UNIT, ALL_UNIT };

static const struct {
	uint8_t unit, beside;
} units_of[] = {
#define PAIR(unit, beside) [UNITS_##unit##_##beside] = {unit##_UNIT, beside##_UNIT}
	PAIR(BTS, LBR),	     PAIR(BTS, COUNTER),  PAIR(BTS, PEBS),    PAIR(BTS, PT),
	PAIR(BTS, ALL),	     PAIR(LBR, BTS),	  PAIR(LBR, COUNTER), PAIR(LBR, PEBS),
	PAIR(LBR, PT),	     PAIR(LBR, ALL),	  PAIR(COUNTER, BTS), PAIR(COUNTER, LBR),
	PAIR(COUNTER, PEBS), PAIR(COUNTER, PT),	  PAIR(COUNTER, ALL), PAIR(PEBS, BTS),
	PAIR(PEBS, LBR),     PAIR(PEBS, COUNTER), PAIR(PEBS, PT),     PAIR(PEBS, ALL),
	PAIR(PT, BTS),	     PAIR(PT, LBR),	  PAIR(PT, COUNTER),  PAIR(PT, PEBS),
	PAIR(PT, ALL)};

/* The branches that a unit recorded, or places of its samples; of a counter their number. */
enum { MOST = 64 };
struct list {
	uint64_t number;
	uint64_t instructions; /* of the fixed counter beside a counter */
	struct {
		uint64_t from, to;
	} at[MOST];
};

/* Of the test that runs. */
static struct pair_program program;
static struct pebs pebs; /* its `rig` is the DS area and the buffer of BTS without PEBS too */
static struct pt_rig pt;
static const struct lbr_stack *lbr;
static uint64_t counters;
static unsigned counting;	   /* the counter that counts, each in turn */
static uint64_t loaded;		   /* into it */
static enum pair_filter pt_filter; /* the row's, or beside another unit each in turn: BF7 */
static bool calls;		   /* that of the row is a call stack */
static unsigned here, on; /* bits of enum unit: what the processor has; what a run has on */
static struct pair_row row_that_runs;
static const struct pair_row *const row = &row_that_runs;

static const char *const names[] = {"BTS", "LBR", "the counter", "PEBS", "Intel PT"};

static bool has(unsigned set, enum unit unit)
{
	return set >> unit & 1;
}

/* The one that is looked at. */
static enum unit row_unit(void)
{
	return (enum unit)units_of[row->units].unit;
}

/* --- Switched on ----------------------------------------------------------------------------- */

/* Whether `unit` can leave out a ring. */
static bool has_levels(enum unit unit)
{
	if (unit == BTS_UNIT)
		return ds_caps()->dscpl && ds_configuration->off_os;
	return unit != LBR_UNIT || (lbr && lbr->select);
}

static bool has_filter(unsigned filter)
{
	bool second = filter == FILTER_RANGE1 || filter == FILTER_RANGES;

	if (filter >= FILTER_SPACE)
		return pt_caps()->cr3_filter;
	if (filter >= FILTER_RANGE0)
		return pt_caps()->ranges >= 1u + second;
	return has_levels(row_unit());
}

/* The row's, or none where the processor has no such filter. */
static enum pair_filter filter(void)
{
	return has_filter(row->filter) ? (enum pair_filter)row->filter : FILTER_NONE;
}

static void choose_pt_filter(size_t n)
{
	static const uint8_t in_turn[] = {FILTER_NONE, FILTER_RANGE0, FILTER_OTHER};
	unsigned turn = in_turn[n % sizeof(in_turn)];

	pt_filter = row_unit() == PT_UNIT ? filter() : FILTER_NONE;
	if (row_unit() != PT_UNIT && has_filter(turn))
		pt_filter = (enum pair_filter)turn;
}

/* Whether `unit` records one ring alone: by `own` if it is the one that is looked at, else by
 * `others`. */
static bool is_of_one(enum unit unit, enum pair_filter own, enum pair_beside others)
{
	if (unit == row_unit())
		return filter() == own;
	return row->beside == others && has_levels(unit);
}

/* The bit by which `unit` leaves out the ring that its filter excludes; 0: it excludes none. */
static uint64_t left_out(enum unit unit, uint64_t ring_0, uint64_t ring_3)
{
	if (is_of_one(unit, FILTER_OS, BESIDE_OS))
		return ring_3;
	return is_of_one(unit, FILTER_USR, BESIDE_USR) ? ring_0 : 0;
}

/* Whether the ring of the program is one that `unit` records. */
static bool has_ring(enum unit unit)
{
	return !left_out(unit, row->ring == RING_0, row->ring != RING_0);
}

static uint64_t debugctl(void)
{
	uint64_t value = has(on, LBR_UNIT) && lbr->top ? LBR : 0;

	if (has(on, BTS_UNIT))
		value |= rig_all() |
			 left_out(BTS_UNIT, ds_configuration->off_os, ds_configuration->off_usr);
	return value;
}

/* Beside another unit one kind of branch enters, Jcc or near relative jumps. In its own rows all
   enter, or a call stack records. SDM Vol 3, 17.7.2 and 17.9; SDM Vol 3 of 2022, 18.1.2. */
static const struct {
	uint32_t select, control;
} kinds[] = {{0x17c, 1 << 17},
	     {0x1f8, 1 << 16},
	     {0, LBR_CTL_KINDS},
	     {0x3c4, LBR_CTL_CALL_STACK | 7 << 19}};

static void prepare_lbr(void)
{
	unsigned chosen = row_unit() == LBR_UNIT ? 2 + calls : row->event & 1;

	if (!lbr->top) {
		wrmsr(IA32_LBR_DEPTH, lbr->depth);
		pair_set_write(&program, 2, IA32_LBR_CTL,
			       (LBR_CTL_LBREN | LBR_CTL_OS | LBR_CTL_USR | kinds[chosen].control) ^
				       left_out(LBR_UNIT, LBR_CTL_OS, LBR_CTL_USR),
			       0);
		return;
	}
	for (unsigned n = 0; n < lbr->depth; n++)
		wrmsr(lbr->to + n, 0);
	if (lbr->select)
		wrmsr(MSR_LBR_SELECT,
		      left_out(LBR_UNIT, NOT_CPL0, NOT_USER) | kinds[chosen].select);
}

static uint64_t levels(enum unit unit)
{
	return (PMU_OS | PMU_USR) & ~left_out(unit, PMU_OS, PMU_USR);
}

/* The fixed counter of instructions runs with it. Beside another unit both overflow on the way. */
static void prepare_counter(void)
{
	uint64_t left = row_unit() == COUNTER_UNIT ? 0 : 5;

	pmu_rig_load(counting, left);
	loaded = pmu_rig_value(counting);
	pmu_rig_control(counting, EVENT_BRANCHES | levels(COUNTER_UNIT) | PERFEVTSEL_EN);
	if (!pmu_caps()->fixed)
		return;
	pmu_rig_load(PMU_FIXED, left);
	pmu_rig_control(PMU_FIXED, pmu_rig_counting(PMU_FIXED, levels(COUNTER_UNIT), false));
}

static void end_counter(void)
{
	pmu_rig_control(counting, 0);
	if (pmu_caps()->fixed)
		pmu_rig_control(PMU_FIXED, 0);
}

static uint64_t bits_of_counters(void)
{
	return 1ull << counting | (pmu_caps()->fixed ? 1ull << PMU_FIXED : 0);
}

/* One sample, since the event that it is of need not be a certain one: SDM Vol 3, 18.9.4.4. */
static void prepare_pebs(void)
{
	uint64_t event = (pebs.event & ~(PMU_OS | PMU_USR)) | levels(PEBS_UNIT);

	pebs_arm_event(&pebs, 0, event, pebs.branches ? 3 : 9);
	pebs_set(&pebs, DS_PEBS_COUNTER_RESET, 0);
}

static void prepare_range(unsigned n, uint64_t start, uint64_t end)
{
	pt.trace.configuration.range[n].first = start;
	pt.trace.configuration.range[n].last = end - 1;
	pt.trace.configuration.range[n].use = RTIT_ADDR_FILTER;
}

/* The address space that runs, or another one. */
static void prepare_space(void)
{
	uint64_t cr3 = pt_own_cr3() & PTE_ADDRESS;

	pt.trace.configuration.cr3_match = pt_filter == FILTER_OTHER ? cr3 ^ PAGE_SIZE : cr3;
}

/* With PT beside the unit, a PSB follows in the middle of a run, not only at its beginning. */
#define BEFORE_PSB ((2048ull - 24) << 32) /* PacketByteCnt */

static void prepare_pt(void)
{
	struct pair_places places = pair_places(row);
	uint64_t control = RTIT_CTL_BRANCH_EN | RTIT_CTL_OS | RTIT_CTL_USER;

	pt.trace.configuration = (struct pt_configuration){0};
	if (pt_filter == FILTER_RANGE0 || pt_filter == FILTER_RANGES)
		prepare_range(0, places.start, places.event);
	if (pt_filter == FILTER_RANGE1 || pt_filter == FILTER_RANGES)
		prepare_range(1, places.event, places.end);
	if (pt_filter == FILTER_SPACE || pt_filter == FILTER_OTHER) {
		prepare_space();
		control |= RTIT_CTL_CR3_FILTER;
	}
	pt_again(&pt, control & ~left_out(PT_UNIT, RTIT_CTL_OS, RTIT_CTL_USER));
	if (row_unit() != PT_UNIT && pt_caps()->psb_cyc)
		wrmsr(IA32_RTIT_STATUS, BEFORE_PSB);
}

/* LBR_Frz and CTR_Frz where what they stop is off. From version 4 on: SDM Vol 3, 18.2.4. */
static uint64_t frozen(void)
{
	return (has(on, LBR_UNIT) ? 0 : STATUS_LBR_FRZ) |
	       (on & (1u << COUNTER_UNIT | 1u << PEBS_UNIT) ? 0 : STATUS_CTR_FRZ);
}

static void prepare(void)
{
	uint64_t counts = (has(on, COUNTER_UNIT) ? bits_of_counters() : 0) | has(on, PEBS_UNIT);

	if (has(here, PEBS_UNIT))
		pebs_reset(&pebs);
	if (has(here, BTS_UNIT))
		rig_reset(&pebs.rig);
	if (has(on, PEBS_UNIT))
		prepare_pebs();
	if (has(on, COUNTER_UNIT))
		prepare_counter();
	if (has(on, PT_UNIT))
		prepare_pt();
	pair_set_write(&program, 0, counts ? IA32_PERF_GLOBAL_CTRL : IA32_DEBUGCTL, counts, 0);
	for (unsigned n = 1; n < PAIR_WRITES; n++)
		pair_set_write(&program, n, IA32_DEBUGCTL, debugctl(), 0);
	if (has(on, LBR_UNIT))
		prepare_lbr();
	if (has(on, PT_UNIT))
		pair_set_write(&program, PAIR_WRITES - 1, IA32_RTIT_CTL, pt_control(&pt.trace),
			       pt_control(&pt.trace) & ~RTIT_CTL_TRACE_EN);
	if (pmu_caps()->version >= 4)
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, frozen());
}

/* --- What they say --------------------------------------------------------------------------- */

static void add(struct list *list, uint64_t from, uint64_t to)
{
	if (list->number < MOST) {
		list->at[list->number].from = from & ADDRESS;
		list->at[list->number].to = to & ADDRESS;
	}
	list->number++;
}

/* The newest first, up to a place that prepare_lbr() emptied. */
static void read_lbr(struct list *list)
{
	for (unsigned n = 0; n < lbr->depth && lbr_newest(lbr, n, true); n++)
		add(list, lbr_newest(lbr, n, false), lbr_newest(lbr, n, true));
}

/* Where packets end the target may be missing. */
static void read_pt(struct list *list)
{
	struct flow_item item;
	struct flow flow CLOSED_BY(pt_expect_end);

	flow_start(&flow, pt.memory, pt_state(&pt.trace).end, pair_find, &program);
	while (flow_next(&flow, &item))
		if (item.what == FLOW_BRANCH || item.what == FLOW_NOT_TAKEN ||
		    item.what == FLOW_EVENT)
			add(list, item.from, item.ends ? 0 : item.to);
}

static void read_unit(enum unit unit, struct list *list)
{
	*list = (struct list){0};
	switch (unit) {
	case BTS_UNIT:
		for (size_t n = 0; n < rig_count(&pebs.rig); n++)
			add(list, rig_record(&pebs.rig, n).from, rig_record(&pebs.rig, n).to);
		break;
	case LBR_UNIT:
		read_lbr(list);
		break;
	case COUNTER_UNIT:
		list->number = rdmsr(IA32_PMC0 + counting) - loaded;
		list->instructions = pmu_caps()->fixed ? rdmsr(pmu_rig_msr(PMU_FIXED)) : 0;
		break;
	case PEBS_UNIT:
		for (size_t n = 0; n < pebs_count(&pebs); n++) {
			struct pebs_sample sample = pebs_sample(&pebs, n);

			add(list, pebs_place(&sample), 0);
		}
		break;
	default:
		read_pt(list);
	}
}

/* The program once more if a system management interrupt came: its branches may be recorded. */
static void run(unsigned units)
{
	uint64_t before;
	unsigned tries = 0;

	on = units;
	do {
		before = smi_count();
		prepare();
		pair_run(&program, row);
		if (pmu_caps()->version >= 4)
			pmu_rig_clear(STATUS_LBR_FRZ | STATUS_CTR_FRZ);
		if (has(on, PT_UNIT))
			pt_stop(&pt.trace);
		if (has(on, PEBS_UNIT))
			wrmsr(IA32_PEBS_ENABLE, 0);
		if (has(on, COUNTER_UNIT))
			end_counter();
	} while (smi_count() != before && ++tries < TRIES);
}

/* --- Rows ------------------------------------------------------------------------------------ */

static bool holds_debugctl(unsigned units)
{
	on = units;
	return msr_try(IA32_DEBUGCTL, debugctl(), 0).read_back == debugctl();
}

/* Returns the units that run beside the row's, as bits; 0 if this processor lacks them. */
static unsigned others(void)
{
	unsigned unit = 1u << row_unit(), branches = 1u << BTS_UNIT | 1u << LBR_UNIT;
	unsigned beside_it = units_of[row->units].beside, beside = here & ~unit;

	if (beside_it != ALL_UNIT)
		beside &= 1u << beside_it;
	if (row->relation != RELATION_SAME && ((unit | beside) & branches) == branches &&
	    !holds_debugctl(branches))
		beside &= unit & branches ? ~branches : ~(1u << LBR_UNIT);
	return beside;
}

/* True if the row's filter passes the program's own branches. */
static bool is_recorded(void)
{
	return has_ring(row_unit()) && filter() != FILTER_OTHER;
}

/* No branch is within the program. */
static bool is_left_out(const struct list *list)
{
	struct pair_places places = pair_places(row);
	uint64_t start = places.start & ADDRESS, length = places.end - places.start;

	for (size_t n = 0; n < list->number; n++)
		if (list->at[n].from - start < length && list->at[n].to - start < length)
			return false;
	return true;
}

static bool is_whole(const struct list *list)
{
	bool whole = list->number < MOST;

	if (row_unit() == COUNTER_UNIT)
		return !is_recorded() || list->number >= LEAST_COUNTED;
	if (row_unit() != PEBS_UNIT)
		return whole &&
		       (is_recorded() ? list->number >= LEAST_RECORDED : is_left_out(list));
	for (size_t n = 0; whole && n < list->number; n++)
		whole = pair_has(row, list->at[n].from) ||
			pair_has(row, list->at[n].from | ~ADDRESS);
	return whole && (!is_recorded() || list->number == 1);
}

static bool is_same(const struct list *alone, const struct list *beside)
{
	bool number_alone = row_unit() == COUNTER_UNIT || row_unit() == PEBS_UNIT;

	return alone->number == beside->number && alone->instructions == beside->instructions &&
	       (number_alone ||
		!memcmp(alone->at, beside->at, alone->number * sizeof(alone->at[0])));
}

static void show(const char *name, const struct list *list)
{
	test_note("%s: %lu, %lu instructions", name, list->number, list->instructions);
	for (size_t n = 0; row_unit() != COUNTER_UNIT && n < list->number && n < MOST; n++)
		test_note("%p %p", (void *)list->at[n].from, (void *)list->at[n].to);
}

/* True while Intel PT suspends BTS and LBR on this processor: SDM Vol 3, 36.3.1.2. */
static bool is_suspending(void)
{
	bool can = row->relation == RELATION_SUSPENDED || row->relation == RELATION_SUSPENDS;

	return can && has(on, PT_UNIT) && ds_caps()->suspended_by_pt;
}

/* The control of a run with several units: each of these did work. */
static bool have_recorded(unsigned units)
{
	static struct list list;

	for (unsigned unit = 0; unit < ALL_UNIT; unit++) {
		if (!has(units, (enum unit)unit))
			continue;
		if (unit != PT_UNIT)
			read_unit((enum unit)unit, &list);
		if (unit == PT_UNIT ? pt_state(&pt.trace).end : list.number)
			continue;
		test_note("%s recorded nothing", names[unit]);
		return false;
	}
	return true;
}

/* Returns false, with a note, if the relation of the row of this number does not hold. */
static bool compare(size_t number, unsigned beside_it)
{
	static struct list alone, beside;
	enum unit unit = row_unit();
	unsigned recording = 1u << unit | beside_it;
	bool suspends;

	run(1u << unit);
	read_unit(unit, &alone);
	run(recording);
	read_unit(unit, &beside);
	suspends = is_suspending();
	if (suspends)
		recording &= ~(1u << BTS_UNIT | 1u << LBR_UNIT);
	if (pt_filter == FILTER_OTHER)
		recording &= ~(1u << PT_UNIT);
	for (unsigned each = 0; each < ALL_UNIT; each++)
		if (each == unit ? !is_recorded() : !has_ring((enum unit)each))
			recording &= ~(1u << each);
	if (is_whole(&alone) && have_recorded(recording) &&
	    (suspends && row->relation == RELATION_SUSPENDED
		     ? !beside.number
		     : is_whole(&beside) && is_same(&alone, &beside)))
		return true;
	test_note("row %zu of rows.h, ring %u, %s", number, row->ring == RING_0 ? 0 : 3,
		  row->filter == FILTER_NONE ? "unfiltered" : "filtered");
	show("alone", &alone);
	show("beside", &beside);
	return false;
}

/* --- Tests ----------------------------------------------------------------------------------- */

/* Memory first, then what is lent; preemption is off from here on. */
static void open_units(enum unit unit)
{
	bool counts = pmu_caps()->version && pmu_caps()->general > 1 &&
		      !(pmu_caps()->unavailable & NO_BRANCHES);

	lbr = lbr_either();
	here = counts ? 1u << COUNTER_UNIT : 0;
	here |= counts && ds_caps()->pebs && ds_caps()->pebs_format < PEBS_FORMATS ? 1u << PEBS_UNIT
										   : 0;
	here |= ds_has_bts() ? 1u << BTS_UNIT : 0;
	here |= lbr ? 1u << LBR_UNIT : 0;
	here |= pt_caps()->topa ? 1u << PT_UNIT : 0;
	if (!has(here, unit))
		test_skip("the processor does not have this unit");
	if (here == 1u << unit)
		test_skip("the processor has no unit beside it");
	pair_open(&program);
	if (has(here, PEBS_UNIT)) {
		pebs_open(&pebs, 4);
		if (pmu_caps()->fixed)
			pmu_rig_take(PMU_FIXED);
	} else if (counts)
		counters = pmu_rig_open(0);
	if (!has(here, PEBS_UNIT) && has(here, BTS_UNIT))
		rig_open(&pebs.rig, 128);
	else if (!has(here, PEBS_UNIT)) {
		msrs_borrow();
	}
	if (lbr && lbr->top && silicon_is_foreign_guest() &&
	    msr_try(IA32_DEBUGCTL, LBR, 0).read_back != LBR)
		here &= ~(1u << LBR_UNIT);
	if (has(here, PT_UNIT))
		pt_open(&pt, 1, false);
}

static void close_units(void)
{
	if (has(here, PT_UNIT))
		pt_close(&pt);
	if (has(here, LBR_UNIT) && lbr->top && lbr->select)
		wrmsr(MSR_LBR_SELECT, 0);
	if (!has(here, PEBS_UNIT) && has(here, BTS_UNIT))
		rig_close(&pebs.rig);
	else if (!has(here, PEBS_UNIT))
		lbr_close();
	if (has(here, PEBS_UNIT)) {
		EXPECT_EQ(pmu_caps()->fixed ? pmu_rig_release(PMU_FIXED) : 0, 0);
		pebs_close(&pebs);
	} else if (has(here, COUNTER_UNIT))
		pmu_rig_close(counters);
	pair_close(&program);
}

enum { VARIANTS = 6 };

/* tests/pairs.txt forbids the same: BF9, BF10. */
static bool is_of_ring(enum pair_event event, enum pair_ring ring)
{
	return event != (ring == RING_0 ? EVENT_SYSCALL : EVENT_XSAVES);
}

/* Variant `n` of a row: in either ring, with its filters, without, and with them and a call stack.
   False: the row has no such one. */
static bool choose(const struct pair_row *of, unsigned n)
{
	bool with_filters = n / 2 != 1,
	     has_any = of->filter != FILTER_NONE || of->beside != BESIDE_NONE;

	row_that_runs = *of;
	row_that_runs.ring = n % 2 ? RING_3 : RING_0;
	calls = n >= 4;
	if (calls && (row_unit() != LBR_UNIT || of->filter == FILTER_NONE ||
		      !(lbr_caps()->select & LBR_SELECT_CALL_STACK)))
		return false;
	if (!with_filters) {
		row_that_runs.filter = FILTER_NONE;
		row_that_runs.beside = BESIDE_NONE;
	}
	return is_of_ring((enum pair_event)of->event, (enum pair_ring)row->ring) &&
	       (with_filters || has_any);
}

/* Counter 0 takes the samples, if any. */
static void choose_counter(unsigned n, bool samples)
{
	counting = pmu_caps()->general ? n % pmu_caps()->general : 0;
	if (!counting && samples)
		counting = 1;
}

/* Each event meets each unit unfiltered, and each filter each unit in both rings. */
static void expect_same(enum unit unit)
{
	unsigned ran = 0, wrong = 0, beside;

	open_units(unit);
	if (!has(here, unit)) {
		close_units();
		test_skip("the hypervisor shows no LBR stack");
	}
	for (size_t n = 0; n < VARIANTS * sizeof(pair_rows) / sizeof(pair_rows[0]); n++) {
		if (!choose(&pair_rows[n / VARIANTS], (unsigned)(n % VARIANTS)) ||
		    row_unit() != unit || !pair_has_event(row))
			continue;
		beside = others();
		choose_pt_filter(n / VARIANTS);
		choose_counter((unsigned)n, (beside | 1u << unit) >> PEBS_UNIT & 1);
		ran += beside != 0;
		wrong += beside && !compare(n / VARIANTS, beside);
	}
	close_units();
	test_note("%u rows", ran);
	if (!ran)
		test_skip("the processor can run none of the rows");
	EXPECT_EQ(wrong, 0);
}

TEST(pairs_bts, .group = "pairs", .ids = "BF1 BF6", .needs = NEED_BTS,
     .claim = "BTS records the same branches alone and beside LBR, a counter, PEBS and Intel PT, "
	      "but none while TraceEn suspends it",
     .source = "SDM Vol 3, 17.4.5 and 36.3.1.2")
{
	expect_same(BTS_UNIT);
}

TEST(pairs_lbr, .group = "pairs", .ids = "BF2 BF6", .needs = 0,
     .claim = "the LBR stack holds the same branches alone and beside BTS, a counter, PEBS and "
	      "Intel PT, but none after TraceEn suspended it",
     .source = "SDM Vol 3, 17.4.8 and 36.3.1.2; SDM Vol 3 of 2022, 18.1")
{
	expect_same(LBR_UNIT);
}

TEST(pairs_counters, .group = "pairs", .ids = "BF3", .needs = 0,
     .claim = "each counter counts the same branches, and a fixed one the same instructions, alone "
	      "and beside BTS, LBR, PEBS and Intel PT",
     .source = "SDM Vol 3, 18.2.2")
{
	expect_same(COUNTER_UNIT);
}

TEST(pairs_pebs, .group = "pairs", .ids = "BF4", .needs = NEED_PEBS,
     .claim = "a counter that overflows once takes one sample of the program, alone and beside "
	      "BTS, LBR, another counter and Intel PT",
     .source = "SDM Vol 3, 18.4.4")
{
	expect_same(PEBS_UNIT);
}

TEST(pairs_pt, .group = "pairs", .ids = "BF5", .needs = NEED_PT,
     .claim = "packets of Intel PT tell the same branches alone and beside BTS, LBR, a counter and "
	      "PEBS",
     .source = "SDM Vol 3, 36.4.2")
{
	expect_same(PT_UNIT);
}
