// SPDX-License-Identifier: MIT
// One run of a random program, as single steps, BTS, Intel PT, the LBR stack and PEBS have it.
#include "tests/suite/witnesses/witnesses.h"

#include "drivers/pmu/registers.h"
#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/random_programs/steps.h"

#define INSTRUCTIONS 1500
#define MOST_STEPS   60000
#define SLOTS	     8192
#define PROGRAMS     4
#define STOPS	     50
#define TRIES	     5

#define ADDRESS ((1ull << 48) - 1) /* without the flags of an LBR entry */

/* --- For the other file, too --------------------------------------------------------------------
 */

uint64_t units_debugctl(unsigned units)
{
	return (units & BTS_UNIT ? rig_all() : 0) | (units & LBR_UNIT ? LBR : 0);
}

bool units_hold_together(unsigned units)
{
	uint64_t value = units_debugctl(units);

	return msr_try(IA32_DEBUGCTL, value, 0).read_back == value;
}

static unsigned units_here(void)
{
	return (ds_has_bts() ? BTS_UNIT : 0) | (lbr_known() ? LBR_UNIT : 0) |
	       (pt_caps()->topa ? PT_UNIT : 0);
}

/* Memory first. */
void units_open(struct units *units, size_t slots)
{
	*units = (struct units){.have = units_here(), .lbr = lbr_known()};
	if (!units->have)
		test_skip("the processor has neither BTS nor Intel PT nor an LBR stack");
	units->opened_bts = units->have & BTS_UNIT;
	units->opened_pt = units->have & PT_UNIT;
	if (units->opened_bts) {
		rig_open(&units->rig, slots);
	} else {
		msrs_borrow();
	}
	if (units->have & LBR_UNIT && !units_hold_together(LBR_UNIT))
		units->have &= ~(unsigned)LBR_UNIT;
	if (units->opened_pt)
		pt_open(&units->pt, PT_RIG_CHUNKS, false);
	test_note("witnesses: single steps%s%s%s", units->have & BTS_UNIT ? ", BTS" : "; no BTS",
		  units->have & PT_UNIT ? ", Intel PT" : "; no Intel PT",
		  units->have & LBR_UNIT ? ", LBR" : "; no LBR stack");
}

void units_close(struct units *units)
{
	if (units->opened_pt)
		pt_close(&units->pt);
	if (units->opened_bts) {
		rig_close(&units->rig);
	} else {
		msrs_give_back();
	}
}

void units_each(const struct units *units, void (*check)(unsigned units, uint64_t seed),
		uint64_t seed)
{
	unsigned by_debugctl = units->have & (BTS_UNIT | LBR_UNIT);

	if (by_debugctl & LBR_UNIT && !units_hold_together(by_debugctl)) {
		check(LBR_UNIT, seed);
		by_debugctl &= ~(unsigned)LBR_UNIT;
	}
	if (units->have & PT_UNIT && by_debugctl && ds_caps()->suspended_by_pt) {
		check(PT_UNIT, seed);
		check(by_debugctl, seed);
	} else {
		check(by_debugctl | (units->have & PT_UNIT), seed);
	}
}

void units_clear_lbr(const struct lbr_stack *lbr)
{
	for (unsigned n = 0; n < lbr->depth; n++) {
		wrmsr(lbr->from + n, 0);
		wrmsr(lbr->to + n, 0);
	}
	if (lbr->select)
		wrmsr(MSR_LBR_SELECT, 0);
}

bool units_lbr_is(const struct lbr_stack *lbr, unsigned back, uint64_t from, uint64_t to)
{
	uint64_t from_there = lbr_newest(lbr, back, false), to_there = lbr_newest(lbr, back, true);

	return !((from_there ^ from) & ADDRESS) && !((to_there ^ to) & ADDRESS);
}

/* --- Programs ------------------------------------------------------------------------------------
 */

static struct program program;
static struct steps steps;
static struct units units;
static uint64_t branches_compared;
static const struct lbr_stack *lbr;
static bool differs; /* the LBR stack did: one note is enough */

/* What witness_run, the body of PT_TRACED(), gives to machine_run(). */
extern struct machine witness_machine;
struct machine witness_machine;
extern const void *volatile witness_code;
const void *volatile witness_code;
extern volatile uint64_t witness_debugctl;
volatile uint64_t witness_debugctl;

/* A program of `seed`, as the single steps have it. */
static void begin(uint64_t seed)
{
	program_fill_data(&program, seed);
	machine_randomize(&witness_machine, &(uint64_t){seed});
	witness_machine.registers[R15] = (uint64_t)program.data;
	witness_code = program.code + program.entry;
}

static void make_program(uint64_t seed, unsigned instructions)
{
	test_note("seed %lx, code at %p", seed, (void *)program.code);
	program_generate(&program, seed, instructions);
	begin(seed);
	steps_run(&steps, &program, &witness_machine, 0);
}

/* --- Intel PT ----------------------------------------------------------------------------------
 */

/* Jumps and calls of the program may be indirect, and a RET may be a jump. */
static enum flow_kind kind_of(const struct program_branch *branch)
{
	const uint8_t *bytes = program.code + branch->from;

	if (branch->kind == BRANCH_CONDITIONAL)
		return FLOW_JCC;
	bytes += (*bytes & 0xf0) == 0x40; /* REX */
	switch (*bytes) {
	case 0xe8:
		return FLOW_CALL;
	case 0xe9:
	case 0xeb:
		return FLOW_JMP;
	case 0xff:
		return branch->kind == BRANCH_CALL ? FLOW_CALL_INDIRECT : FLOW_JMP_INDIRECT;
	}
	return FLOW_RET;
}

/* The block of the program that `at` is in; machine_run() has the others. */
static bool find_block(const void *rig_of_pt, uint64_t at, struct flow_block *block)
{
	uint64_t code = (uint64_t)program.code;
	const struct program_branch *branch;

	if (at < code || at >= code + program.size)
		return pt_find_noted(rig_of_pt, at, block);
	branch = program_branch_from(&program, (uint32_t)(at - code));
	if (!branch)
		return false;
	*block = (struct flow_block){.kind = kind_of(branch),
				     .branch = code + branch->from,
				     .next = code + branch->next,
				     .target = code + branch->to};
	return true;
}

/* Compares the packets of the program with its steps. False: some were lost, by an overflow. */
static bool pt_agrees(size_t *branches)
{
	struct step_branch step = {0};
	struct flow_item item;
	struct flow flow;

	*branches = 0;
	flow_start(&flow, units.pt.memory, pt_state(&units.pt.trace).end, find_block, &units.pt);
	while (flow_next(&flow, &item)) {
		bool ours = item.from >= (uint64_t)program.code &&
			    item.from < (uint64_t)program.code + program.size;

		if (item.what == FLOW_LOST)
			return false;
		if (item.what != FLOW_BRANCH || !ours)
			continue;
		if (steps_next_branch(&steps, &program, &step) && item.from == step.from &&
		    item.to == step.to) {
			++*branches;
			continue;
		}
		test_note("branch %zu of the packets: %p to %p; of the steps: %p to %p", *branches,
			  (void *)item.from, (void *)item.to, (void *)step.from, (void *)step.to);
		EXPECT(false && "packets and single steps differ");
		return true;
	}
	pt_expect_end(&flow);
	EXPECT(!steps_next_branch(&steps, &program, &step));
	return true;
}

/* --- The LBR stack -----------------------------------------------------------------------------
 */

/* Handler of #DB: no more breakpoints, without a branch but the IRETQ. */
extern const char witness_stop[];
__asm__(".pushsection .text\n"
	"witness_stop: pushq %rax\n\txorl %eax, %eax\n\tmovq %rax, %dr7\n\tpopq %rax\n\tiretq\n"
	".popsection");

/* Breakpoint 0 on the execution of `address`: SDM Vol 3, 17.2.4. */
#define DR7_EXECUTE_0 0x402ull

/*
 * The stack's newest entries are the last branches before the step `stop`. The #DB that ended them
 * may be an entry itself: SDM Vol 3, 17.4.4, says when LBR is cleared, and of the entry nothing.
 * Returns how many entries were compared.
 */
static unsigned compare_tail(size_t stop, uint64_t stopped_at)
{
	struct step_branch last[64], branch = {0};
	size_t count = 0;
	unsigned back = stopped_at && units_lbr_is(lbr, 0, stopped_at, (uint64_t)witness_stop),
		 compared = 0;

	while (steps_next_branch(&steps, &program, &branch) && branch.step <= stop)
		last[count++ % 64] = branch;
	for (; back < lbr->depth && compared < count; back++, compared++) {
		const struct step_branch *expected = &last[(count - 1 - compared) % 64];

		if (units_lbr_is(lbr, back, expected->from, expected->to))
			continue;
		test_note("entry %u before the newest: %p to %p; of the steps: %p to %p", back,
			  (void *)lbr_newest(lbr, back, false), (void *)lbr_newest(lbr, back, true),
			  (void *)expected->from, (void *)expected->to);
		differs = true;
		return compared;
	}
	return compared;
}

/* --- Together ----------------------------------------------------------------------------------
 */

/* Records the program by the units `by` at once. */
static void record(unsigned by, uint64_t seed)
{
	uint64_t before;
	unsigned tries = 0;

	do {
		before = smi_count();
		begin(seed);
		witness_debugctl = units_debugctl(by);
		if (by & BTS_UNIT)
			rig_reset(&units.rig);
		if (by & LBR_UNIT)
			units_clear_lbr(lbr);
		if (by & PT_UNIT) {
			pt_again(&units.pt, PT_PLAIN);
			PT_TRACED(&units.pt, PT_PLAIN,
				  "leaq witness_machine(%%rip), %%rdi\n\t"
				  "movq witness_code(%%rip), %%rsi\n\t"
				  "movq witness_debugctl(%%rip), %%rdx\n\t" PT_NOTE(
					  "3", "machine_run", "call machine_run"));
		} else {
			machine_run(&witness_machine, witness_code, witness_debugctl);
		}
	} while (smi_count() != before && ++tries < TRIES);
}

/* Records by the units `by`, and compares each with the steps. */
static void check_units(unsigned by, uint64_t seed)
{
	size_t branches = 0;
	unsigned tries = 0;

	do {
		record(by, seed);
	} while (by & PT_UNIT && !pt_agrees(&branches) && ++tries < TRIES);
	EXPECT(tries < TRIES);
	if (by & PT_UNIT)
		EXPECT(branches > INSTRUCTIONS / 20);
	if (by & BTS_UNIT)
		steps_expect(&steps, &program, &units.rig);
	if (by & LBR_UNIT)
		EXPECT_EQ(compare_tail(steps.count, 0), lbr->depth);
}

/* Memory first. Without a unit after all: the test is closed, and skips. */
static void open_units(void)
{
	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&steps, MOST_STEPS);
	units_open(&units, SLOTS);
	lbr = units.lbr;
	if (units.opened_pt) {
		pt_add_branch(&units.pt, FLOW_CALL_INDIRECT, machine_call, 3);
		pt_add_branch(&units.pt, FLOW_RET, machine_return, 1);
	}
	machine_open();
}

static void close_units(void)
{
	machine_close();
	units_close(&units);
}

static void check_program(uint64_t seed)
{
	struct step_branch branch = {0};

	make_program(seed, INSTRUCTIONS);
	units_each(&units, check_units, seed);
	while (steps_next_branch(&steps, &program, &branch))
		branches_compared++;
}

TEST(witnesses_agree, .group = "witnesses", .ids = "",
     .claim =
	     "BTS, Intel PT and the LBR stack, at once where the processor has them so, record the "
	     "branches of a random program that single steps show, in that order",
     .source = "SDM Vol 3, 17.4.4, 17.4.8 and 36.4.2")
{
	uint64_t programs = test_scaled(PROGRAMS);

	open_units();
	if (!units.have) {
		close_units();
		test_skip("the hypervisor shows no LBR stack");
	}
	branches_compared = 0;
	for (uint64_t i = programs; i; i--)
		check_program(test_random());
	close_units();
	test_note("%lu programs, %lu branches", programs, branches_compared);
}

/* --- Stops -------------------------------------------------------------------------------------
 */

/* The first step at the place of a random one. */
static size_t random_stop(void)
{
	uint32_t at = steps.noted[test_random() % (steps.count - 1)];
	size_t first = 0;

	while (steps.noted[first] != at)
		first++;
	return first;
}

/* Returns how many entries were compared. */
static unsigned stop_somewhere(uint64_t seed)
{
	size_t stop = random_stop();
	uint64_t address =
		(uint64_t)program.code + steps.noted[stop] - (uint32_t)(uint64_t)program.code;

	if (address >= (uint64_t)program.code + program.size)
		return 0; /* it has returned */
	begin(seed);
	units_clear_lbr(lbr);
	__asm__ volatile("movq %0, %%dr0\n\tmovq %1, %%dr7" : : "r"(address), "r"(DR7_EXECUTE_0));
	own_idt_load();
	machine_run(&witness_machine, witness_code, LBR);
	own_idt_unload();
	__asm__ volatile("movq %0, %%dr7\n\tmovq %1, %%dr6" : : "r"(0x400ull), "r"(DR6_RESET));
	return compare_tail(stop, address);
}

TEST(witnesses_stop_anywhere, .group = "witnesses", .ids = "",
     .claim =
	     "at a breakpoint anywhere in a random program the LBR stack is the end of the branches "
	     "that single steps show up to there",
     .source = "SDM Vol 3, 17.4.4 and 17.4.8")
{
	unsigned compared = 0;

	differs = false;
	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&steps, MOST_STEPS);
	lbr = lbr_open();
	machine_open();
	for (uint64_t i = test_scaled(2); i; i--) {
		uint64_t seed = test_random();

		make_program(seed, INSTRUCTIONS);
		own_idt_begin(VECTOR_DB, witness_stop, false);
		for (unsigned stops = 0; stops < STOPS && !differs; stops++)
			compared += stop_somewhere(seed);
	}
	machine_close();
	lbr_close();
	EXPECT(!differs);
	EXPECT(compared > STOPS);
}

/* --- Samples -----------------------------------------------------------------------------------
 */

/* Places within the program, in the order of the samples, are steps in their order. Returns how
   many. */
static size_t samples_in_order(const struct pebs *pebs)
{
	uint64_t code = (uint64_t)program.code;
	size_t found = 0, step = 0;

	for (size_t slot = 0; slot < pebs_count(pebs); slot++) {
		struct pebs_sample sample = pebs_sample(pebs, slot);
		uint64_t place = pebs_place(&sample);

		if (place < code || place >= code + program.size)
			continue; /* of machine_run(), or of the WRMSRs around it */
		while (step < steps.count && steps.noted[step] != (uint32_t)place)
			step++;
		if (step == steps.count) {
			test_note(
				"sample %zu is at %p, which no step is at after the one before it",
				slot, (void *)place);
			EXPECT(false && "samples and single steps differ");
			return found;
		}
		found++;
	}
	return found;
}

TEST(witnesses_samples, .group = "witnesses", .ids = "", .needs = NEED_PEBS,
     .claim = "samples of each event in a random program are at places where single steps are, in "
	      "the same order",
     .source = "SDM Vol 3, 18.9.4.4: a sample has the state of its event, or of a later one")
{
	size_t slots = ds_caps()->pebs_format ? 400 : 24, found, period;
	uint64_t seed = test_random();

	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&steps, MOST_STEPS);
	PEBS(pebs, slots);
	period = 2 + pebs_longest_skid(&pebs);
	machine_open();
	make_program(seed, INSTRUCTIONS);
	pebs_arm(&pebs, 0, 1);
	begin(seed);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	machine_run(&witness_machine, witness_code, 0);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	machine_close();
	found = samples_in_order(&pebs);
	test_note("%zu samples of %zu steps", found, steps.count);
	EXPECT(found * period > slots / 4);
}
