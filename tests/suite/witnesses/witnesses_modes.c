// SPDX-License-Identifier: MIT
// One run of a program that changes mode and privilege level, as all witnesses have it. Each gives
// a list of branches; the lists are the same, but for what a row lets one leave out.
#include "drivers/pmu/registers.h"
#include "kernel/mm/page.h"
#include "kernel/silicon.h"
#include "kernel/trap/trap.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/random_programs/modes.h"
#include "tests/lib/random_programs/steps.h"
#include "tests/suite/witnesses/witnesses.h"

enum { PARTS = 2, PROGRAMS = 32, MOST_STEPS = 40000, MOST = 8192, SLOTS = 8192 };
enum { STOPS = 50, TRIES = 5, HANDLER = 64, AROUND = 3, SAMPLES = 2000 };

/*
 * What a witness may leave out, or have elsewhere than the others. On virtual silicon a row without
 * a use is not needed, and one that more than 1 % of the branches use hides something: both fail.
 */
enum row_of { ROW_GATE, ROW_NMI, ROW_SYSCALL, ROW_INT_N, ROW_STOP, ROWS };
static struct row {
	const char *what, *source;
	bool open; /* the manual leaves it to the processor: it may have no use */
	uint64_t uses;
} rows[] = {
	[ROW_GATE] = {"steps miss the start of a handler: its gate clears TF",
		      "SDM Vol 3, 6.12.1.3", false, 0},
	[ROW_NMI] = {"the place of an NMI is not the same in two runs", "SDM Vol 3, 6.7", false, 0},
	[ROW_SYSCALL] = {"steps miss the first instruction after SYSCALL or SYSENTER",
			 "SDM Vol 3, 17.3.1.4", true, 0},
	[ROW_INT_N] = {"BTS has INT n from the next instruction, or not at all",
		       "SDM Vol 3, 17.4.4", true, 0},
	[ROW_STOP] = {"the #DB that ends a run is an entry of the LBR stack", "SDM Vol 3, 17.4.4",
		      true, 0},
};

struct listed {
	uint64_t from, to;
	uint64_t next; /* of INT n and INT3, else 0 */
	size_t step;   /* the first one after it, of those that are from steps */
};

struct list {
	const char *name;
	struct listed *branch;
	size_t count;
	uint64_t interrupted; /* by an NMI that is under way */
	unsigned nmis;
};

static struct modes_program program;
static struct steps steps;
static struct units units;
static struct list expected = {.name = "steps"}, seen;
static uint64_t branches, seed_now;
static bool differs; /* one report is enough */
/* How BTS has INT n, and how INT3: one way, whichever. */
static enum { UNKNOWN, FROM_INSTRUCTION, FROM_NEXT, NOT_RECORDED } int_n[2];

/* What the body of PT_TRACED() gives to modes_enter(). */
extern struct modes_start witness_modes;
struct modes_start witness_modes;

/* --- Lists -------------------------------------------------------------------------------------
 */

static void empty(struct list *list, const char *name)
{
	list->name = name;
	list->count = list->nmis = 0;
	list->interrupted = 0;
}

static void fail(const char *what, uint64_t from, uint64_t to)
{
	test_note("seed %lx: %s: %p to %p", seed_now, what, (void *)from, (void *)to);
	differs = true;
}

/* Without the entry of an NMI and its IRETQ, which leads back to where it came from. */
static void add(struct list *list, struct listed branch)
{
	if (branch.to == (uint64_t)modes_nmi) {
		list->interrupted = branch.from;
		list->nmis++;
	} else if (branch.from == (uint64_t)modes_nmi_iret) {
		if (branch.to != list->interrupted)
			fail("an NMI does not return to where it came from", list->interrupted,
			     branch.to);
	} else if (list->count < MOST) {
		list->branch[list->count++] = branch;
	} else {
		test_error("a program has more than %d branches", MOST);
	}
}

static void print_around(const struct list *list, size_t at)
{
	size_t first = at > AROUND ? at - AROUND : 0;

	for (size_t n = first; n < list->count && n <= at + AROUND; n++)
		test_note("%s%s %zu: %p to %p", n == at ? "-> " : "", list->name, n,
			  (void *)list->branch[n].from, (void *)list->branch[n].to);
}

static void report(size_t at, size_t at_seen)
{
	test_note("seed %lx: branch %zu of %zu by steps, %zu of %zu by %s", seed_now, at,
		  expected.count, at_seen, seen.count, seen.name);
	print_around(&expected, at);
	print_around(&seen, at_seen);
	differs = true;
}

static bool is_same(const struct listed *a, const struct listed *b)
{
	return a->from == b->from && a->to == b->to;
}

/* BTS has INT n one way: from the instruction, from the next one, or not at all. */
static bool takes_int_n(size_t at, size_t at_seen, unsigned *way)
{
	const struct listed *branch = &expected.branch[at], *there = &seen.branch[at_seen];
	bool is_int3 = branch->next == branch->from + 1;

	if (at_seen < seen.count && is_same(branch, there))
		*way = FROM_INSTRUCTION;
	else if (at_seen < seen.count && there->from == branch->next && there->to == branch->to)
		*way = FROM_NEXT;
	else
		*way = NOT_RECORDED;
	if (int_n[is_int3] == UNKNOWN)
		int_n[is_int3] = *way;
	rows[ROW_INT_N].uses += *way != FROM_INSTRUCTION;
	return int_n[is_int3] == *way;
}

/* `seen` has the branches of the steps. */
static void compare(bool bts)
{
	size_t at_seen = 0;
	unsigned way;

	for (size_t at = 0; at < expected.count && !differs; at++) {
		const struct listed *branch = &expected.branch[at];

		way = FROM_INSTRUCTION;
		if (bts && branch->next) {
			if (!takes_int_n(at, at_seen, &way))
				report(at, at_seen);
		} else if (at_seen == seen.count || !is_same(branch, &seen.branch[at_seen])) {
			report(at, at_seen);
		}
		at_seen += way != NOT_RECORDED;
	}
	if (at_seen < seen.count && !differs)
		report(expected.count, at_seen);
	rows[ROW_NMI].uses += seen.nmis;
	if (!seen.nmis)
		fail("no NMI is recorded", 0, 0);
}

/* --- Single steps ------------------------------------------------------------------------------
 */

static uint64_t step_at(size_t n)
{
	return modes_address(steps.noted[n]);
}

static bool is_within(uint64_t address, const char *entry, const char *end)
{
	return address > (uint64_t)entry && address <= (uint64_t)end;
}

/* Where the branch at step `n` leads. The first step in a handler is not its first instruction. */
static uint64_t target_of(size_t n, const struct modes_branch *branch)
{
	uint64_t next = step_at(n + 1), entry = modes_address(branch->to);

	if (branch->kind == MODES_FAR && is_within(next, modes_syscall, modes_nmi)) {
		rows[ROW_SYSCALL].uses++;
		return (uint64_t)modes_syscall;
	}
	if (branch->kind < MODES_SOFTWARE || next <= entry || next > entry + HANDLER)
		return next;
	rows[ROW_GATE].uses++;
	return entry;
}

/* The steps of an NMI's handler, from `n` on: the first one after them. */
static size_t pass_nmi(size_t n)
{
	while (n + 1 < steps.count && is_within(step_at(n), modes_nmi, modes_nmi_iret))
		n++;
	return n;
}

static void list_steps(void)
{
	size_t n = 0;

	empty(&expected, "steps");
	while (n + 1 < steps.count && step_at(n) != (uint64_t)modes_first)
		n++;
	while (n + 1 < steps.count && step_at(n) != (uint64_t)modes_exit) {
		const struct modes_branch *branch = modes_branch_at(&program, step_at(n));
		uint64_t next = step_at(n + 1), from = step_at(n);

		if (is_within(next, modes_nmi, modes_nmi_iret)) {
			n = pass_nmi(n + 1);
			if (step_at(n) != from)
				fail("an NMI does not return to where it came from", from,
				     step_at(n));
			continue;
		}
		n++;
		if (!branch || (branch->kind == MODES_JCC && next != branch->to))
			continue;
		add(&expected,
		    (struct listed){from, target_of(n - 1, branch),
				    branch->kind == MODES_SOFTWARE ? branch->next : 0, n});
	}
}

/* --- BTS, Intel PT -----------------------------------------------------------------------------
 */

static void list_bts(void)
{
	empty(&seen, "BTS");
	for (size_t slot = 0; slot < rig_count(&units.rig); slot++) {
		struct bts_struct record = rig_record(&units.rig, slot);

		add(&seen, (struct listed){.from = record.from, .to = record.to});
	}
}

static enum flow_kind flow_kind_of(const struct modes_branch *branch)
{
	static const enum flow_kind kinds[] = {
		[MODES_JCC] = FLOW_JCC,	  [MODES_JMP] = FLOW_JMP,
		[MODES_CALL] = FLOW_CALL, [MODES_JMP_INDIRECT] = FLOW_JMP_INDIRECT,
		[MODES_RET] = FLOW_RET,	  [MODES_CALL_INDIRECT] = FLOW_CALL_INDIRECT,
		[MODES_FAR] = FLOW_FAR};

	return kinds[branch->kind];
}

/* A window's block ends with a branch; an event in it, also after the last branch, is in the
   packets. */
static bool find_block(const void *rig_of_pt, uint64_t at, struct flow_block *block)
{
	const struct modes_branch *branch;

	if (!modes_is_code(&program, at))
		return pt_find_noted(rig_of_pt, at, block);
	branch = modes_branch_after(&program, at);
	*block = (struct flow_block){.branch = at + PAGE_SIZE, .next = at + PAGE_SIZE};
	if (branch)
		*block = (struct flow_block){.kind = flow_kind_of(branch),
					     .branch = branch->from,
					     .next = branch->next,
					     .target = modes_target(&program, branch)};
	return true;
}

/* The program changes a JMP before each time that it is executed. */
static void pass_site(uint64_t from)
{
	const struct modes_branch *branch = modes_branch_at(&program, from);

	if (branch && branch->site)
		program.sites[branch->site].passes++;
}

/* The branch is in code of the size that `mode` says. True if the size may be another after it: of
   the direct branches before a far one the packets of that are read first. */
static bool expect_size(const struct flow_item *item, uint64_t mode)
{
	const struct modes_branch *branch = modes_branch_at(&program, item->from);

	if (branch && modes_is_code(&program, item->from) && mode != (branch->narrow ? 2 : 1))
		fail("MODE.Exec says another size of the code", item->from, mode);
	return !branch || branch->kind >= MODES_FAR || item->what == FLOW_EVENT;
}

/* False: some packets were lost, by an overflow. */
static bool list_pt(void)
{
	uint64_t mode = 0, next_mode = 0;
	struct flow_item item;
	struct flow flow;

	empty(&seen, "Intel PT");
	flow_start(&flow, units.pt.memory, pt_state(&units.pt.trace).end, find_block, &units.pt);
	while (flow_next(&flow, &item)) {
		if (item.what == FLOW_LOST)
			return false;
		if (item.what == FLOW_PACKET && item.packet.kind == PACKET_MODE_EXEC)
			next_mode = item.packet.value;
		if (item.what != FLOW_PACKET && expect_size(&item, mode))
			mode = next_mode;
		if ((item.what != FLOW_BRANCH && item.what != FLOW_EVENT) ||
		    !modes_has(&program, item.from))
			continue;
		pass_site(item.from);
		add(&seen, (struct listed){.from = item.from, .to = item.to});
	}
	pt_expect_end(&flow);
	return true;
}

/* --- The LBR stack -----------------------------------------------------------------------------
 */

/* Of the stack, whatever flags are above it. */
static bool is_address(uint64_t entry, uint64_t address)
{
	return !((entry ^ address) << 16);
}

/* Its newest entries from `back` on are the last branches before `step`. Returns how many entries
   were compared; an NMI takes two that are not. */
static unsigned compare_lbr(unsigned back, size_t step)
{
	const struct lbr_stack *lbr = units.lbr;
	size_t left = expected.count;
	unsigned compared = 0;

	while (left && expected.branch[left - 1].step > step)
		left--;
	for (; back < lbr->depth && left && !differs; back++) {
		uint64_t from = lbr_newest(lbr, back, false), to = lbr_newest(lbr, back, true);
		const struct listed *branch = &expected.branch[left - 1];

		if (is_address(from, (uint64_t)modes_nmi_iret) ||
		    is_address(to, (uint64_t)modes_nmi)) {
			rows[ROW_NMI].uses++;
			continue;
		}
		left--;
		compared++;
		if (is_address(from, branch->from) && is_address(to, branch->to))
			continue;
		test_note("seed %lx: LBR entry %u before the newest: %p to %p", seed_now, back,
			  (void *)from, (void *)to);
		print_around(&expected, left);
		differs = true;
	}
	return compared;
}

/* --- Together ----------------------------------------------------------------------------------
 */

/* Records by `by` at once; without a unit, by single steps. */
static void record(unsigned by, uint64_t seed)
{
	witness_modes = modes_begin(&program, seed, units_debugctl(by));
	if (by & BTS_UNIT)
		rig_reset(&units.rig);
	if (by & LBR_UNIT)
		units_clear_lbr(units.lbr);
	modes_prepare();
	modes_load(&program);
	if (by & PT_UNIT) {
		pt_again(&units.pt, PT_PLAIN | RTIT_CTL_USER);
		PT_TRACED(&units.pt, PT_PLAIN | RTIT_CTL_USER,
			  "leaq witness_modes(%%rip), %%rdi\n\t" PT_NOTE("3", "modes_enter",
									 "call modes_enter"));
	} else {
		modes_enter(&witness_modes);
	}
	modes_unload(&program);
}

static void record_without_smi(unsigned by, uint64_t seed)
{
	uint64_t before;
	unsigned tries = 0;

	do {
		before = smi_count();
		record(by, seed);
	} while (smi_count() != before && ++tries < TRIES);
}

/* A program with SYSENTER is stepped with BTS on: a processor of AMD's raises #UD for it in IA-32e
   mode (tests/user/compat.c), and one that is emulated on it may do so until it is traced. */
static void make_program(uint64_t seed, unsigned parts, bool fast)
{
	seed_now = seed;
	modes_generate(&program, seed, parts, fast);
	witness_modes = modes_begin(&program, seed, fast ? rig_all() : 0);
	witness_modes.flags |= FLAG_TF;
	modes_prepare();
	steps_begin(&steps);
	modes_load(&program);
	modes_enter(&witness_modes);
	modes_unload(&program);
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
	steps_finish(&steps);
	list_steps();
	branches += expected.count;
}

static uint64_t full; /* programs whose packets had no room in the one region of a table */

static void check_units(unsigned by, uint64_t seed)
{
	bool whole = true;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		record_without_smi(by, seed);
		if (by & PT_UNIT && pt_state(&units.pt.trace).full) {
			by &= ~PT_UNIT;
			full++;
		}
		whole = !(by & PT_UNIT) || list_pt();
		if (whole)
			break;
		modes_begin(&program, seed, 0);
	}
	EXPECT(whole);
	if (by & PT_UNIT && whole && !differs)
		compare(false);
	if (by & BTS_UNIT)
		list_bts();
	if (by & BTS_UNIT && !differs)
		compare(true);
	if (by & LBR_UNIT && !differs)
		EXPECT(compare_lbr(0, steps.count) >= units.lbr->depth - 2u);
}

static void open_modes(size_t slots)
{
	size_t bytes = MOST * sizeof(struct listed);

	if (slots)
		units_open(&units, slots);
	differs = false;
	branches = 0;
	int_n[0] = int_n[1] = UNKNOWN;
	for (unsigned n = 0; n < ROWS; n++)
		rows[n].uses = 0;
	expected.branch = test_area((bytes + PAGE_SIZE - 1) / PAGE_SIZE);
	seen.branch = test_area((bytes + PAGE_SIZE - 1) / PAGE_SIZE);
	steps_open(&steps, MOST_STEPS);
	modes_open(&program);
}

static void check_row(const struct row *row)
{
	bool fits = row->uses * 100 <= branches && (row->uses || row->open);

	test_note("%lu times: %s (%s)", row->uses, row->what, row->source);
	if (silicon_is_virtual())
		EXPECT(fits);
}

TEST(witnesses_modes, .group = "witnesses", .ids = "",
     .claim = "BTS, Intel PT and the LBR stack, at once where the processor has them so, record "
	      "the branches that single steps show of a random program in rings 0 and 3, in 64-bit "
	      "and compatibility mode, with events, far branches and an NMI",
     .source = "SDM Vol 3, 17.4.4, 17.4.8 and 36.4.2")
{
	uint64_t programs = test_scaled(PROGRAMS), transfers = 0, done = 0;

	full = 0;
	open_modes(SLOTS);
	for (uint64_t i = 0; i < programs && units.have && !differs; i++, done++) {
		uint64_t seed = test_random();

		make_program(seed, PARTS, i & 1 && units.have & BTS_UNIT);
		EXPECT(expected.count > PARTS * 20);
		units_each(&units, check_units, seed);
		transfers += program.transfers;
	}
	units_close(&units);
	modes_close(&program);
	if (!units.have)
		test_skip("the hypervisor shows no LBR stack");
	test_note("%lu programs, %lu branches, %lu changes of mode or ring", done, branches,
		  transfers);
	EXPECT(!differs && full < done);
	for (unsigned n = ROW_GATE; n <= ROW_INT_N && !differs; n++)
		if (n != ROW_NMI || units.have & (BTS_UNIT | PT_UNIT))
			check_row(&rows[n]);
}

/* --- Stops -------------------------------------------------------------------------------------
 */

/* Handler of #DB: no more breakpoints, without a branch but the IRETQ. */
extern const char modes_stop[];
__asm__(".pushsection .text\n"
	"modes_stop: pushq %rax\n\txorl %eax, %eax\n\tmovq %rax, %dr7\n\tpopq %rax\n\tiretq\n"
	".popsection");

/* Breakpoint 0 on the execution of an address: SDM Vol 3, 17.2.4. */
#define DR7_EXECUTE_0 0x402ull
#define DR7_RESET     0x400ull

/* The first step at the place of a random one that is in a window. */
static size_t random_stop(void)
{
	size_t chosen, first = 0;

	do
		chosen = test_random() % steps.count;
	while (!modes_is_code(&program, step_at(chosen)));
	while (steps.noted[first] != steps.noted[chosen])
		first++;
	return first;
}

/* Returns how many entries were compared. */
static unsigned stop_somewhere(uint64_t seed)
{
	size_t stop = random_stop();
	uint64_t address = step_at(stop);
	unsigned own;

	witness_modes = modes_begin(&program, seed, LBR);
	units_clear_lbr(units.lbr);
	modes_prepare();
	own_idt_set(VECTOR_DB, modes_stop, false);
	modes_load(&program);
	__asm__ volatile("movq %0, %%dr0\n\tmovq %1, %%dr7" : : "r"(address), "r"(DR7_EXECUTE_0));
	modes_enter(&witness_modes);
	modes_unload(&program);
	__asm__ volatile("movq %0, %%dr7\n\tmovq %1, %%dr6" : : "r"(DR7_RESET), "r"(DR6_RESET));
	own = units_lbr_is(units.lbr, 0, address, (uint64_t)modes_stop);
	rows[ROW_STOP].uses += own;
	return compare_lbr(own, stop);
}

TEST(witnesses_modes_stop, .group = "witnesses", .ids = "",
     .claim = "at a breakpoint anywhere in a program that changes mode and privilege level the LBR "
	      "stack is the end of the branches that single steps show up to there",
     .source = "SDM Vol 3, 17.4.4 and 17.4.8")
{
	unsigned compared = 0;
	uint64_t programs = test_scaled(1);

	units.lbr = lbr_open();
	open_modes(0);
	for (uint64_t i = 0; i < programs && !differs; i++) {
		uint64_t seed = test_random();

		make_program(seed, 4 * PARTS, false);
		for (unsigned stops = 0; stops < STOPS && !differs; stops++)
			compared += stop_somewhere(seed);
	}
	lbr_close();
	modes_close(&program);
	test_note("%lu program(s), %lu branches, %u entries compared", programs, branches,
		  compared);
	EXPECT(!differs);
	EXPECT(compared > STOPS);
}

/* --- Samples -----------------------------------------------------------------------------------
 */

/* Branch instructions of the program that were executed, taken or not. */
static size_t executed(void)
{
	size_t count = 0;

	for (size_t n = 0; n < steps.count; n++) {
		const struct modes_branch *branch = modes_branch_at(&program, step_at(n));

		count += branch && branch->kind <= MODES_FAR && modes_is_code(&program, step_at(n));
	}
	return count;
}

/* Samples in the windows are at places of steps, in their order. Returns how many. */
static size_t samples_in_order(const struct pebs *pebs)
{
	size_t found = 0, step = 0;

	for (size_t slot = 0; slot < pebs_count(pebs); slot++) {
		struct pebs_sample sample = pebs_sample(pebs, slot);
		uint64_t place = pebs_place(&sample);

		if (!modes_is_code(&program, place))
			continue;
		while (step < steps.count && step_at(step) != place)
			step++;
		if (step == steps.count) {
			test_note(
				"seed %lx: sample %zu is at %p, which no step is at after the one "
				"before it",
				seed_now, slot, (void *)place);
			differs = true;
			return found;
		}
		found++;
	}
	return found;
}

TEST(witnesses_modes_samples, .group = "witnesses", .ids = "", .needs = NEED_PEBS,
     .claim = "samples of each event in a program that changes mode and privilege level are at "
	      "places where single steps are, in the same order, and one of so many events as the "
	      "processor's delay leaves has one",
     .source = "SDM Vol 3, 18.9.4.4: a sample has the state of its event, or of a later one")
{
	size_t slots = ds_caps()->pebs_format ? SAMPLES : 24, found, all, period;
	uint64_t seed = test_random();

	PEBS(pebs, slots);
	open_modes(0);
	period = 2 + pebs_longest_skid(&pebs);
	pebs_reset(&pebs);
	make_program(seed, 8 * PARTS, false);
	pebs_arm(&pebs, 0, 1);
	witness_modes = modes_begin(&program, seed, 0);
	modes_prepare();
	modes_load(&program);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	modes_enter(&witness_modes);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	modes_unload(&program);
	modes_close(&program);
	found = samples_in_order(&pebs);
	all = executed();
	test_note("1 program, %lu branches, %zu samples of %zu branch instructions, one in %zu",
		  branches, found, all, period);
	EXPECT(!differs);
	if (pebs.branches && pebs_count(&pebs) < slots)
		EXPECT((found + 4) * period + all / 100 >= all);
	else
		EXPECT(found > slots / 8);
}
