// SPDX-License-Identifier: MIT
// One run of a random program, as single steps, BTS, Intel PT, the LBR stack and PEBS have it.
#include "drivers/pmu/registers.h"
#include "drivers/pt/registers.h"
#include "kernel/cpu.h"
#include "kernel/trap/trap.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/random_programs/steps.h"
#include "tests/lib/rig.h"

#define INSTRUCTIONS 1500
#define MOST_STEPS   60000
#define SLOTS	     8192
#define PROGRAMS     4
#define STOPS	     50
#define TRIES	     5
#define ADDRESS	     ((1ull << 48) - 1) /* without the flags of an LBR entry */

enum unit { BTS_UNIT = 1, LBR_UNIT = 2, PT_UNIT = 4 };

static struct program program;
static struct steps steps;
static struct rig rig;
static struct pt_rig pt;
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
	flow_start(&flow, pt.memory, pt_state(&pt.trace).end, find_block, &pt);
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

static void clear_lbr(void)
{
	for (unsigned n = 0; n < lbr->depth; n++) {
		wrmsr(lbr->from + n, 0);
		wrmsr(lbr->to + n, 0);
	}
	if (lbr->select)
		wrmsr(MSR_LBR_SELECT, 0);
}

static bool lbr_is(unsigned back, uint64_t from, uint64_t to)
{
	uint64_t from_there = lbr_newest(lbr, back, false), to_there = lbr_newest(lbr, back, true);

	return !((from_there ^ from) & ADDRESS) && !((to_there ^ to) & ADDRESS);
}

/*
 * The stack's newest entries are the last branches before the step `stop`. The #DB that ended them
 * may be an entry itself: SDM Vol 3, 17.4.4, says when LBR is cleared, and of the entry nothing.
 * Returns how many entries were compared.
 */
static unsigned compare_tail(size_t stop, uint64_t stopped_at)
{
	struct step_branch last[64], branch = {0};
	size_t count = 0;
	unsigned back = stopped_at && lbr_is(0, stopped_at, (uint64_t)witness_stop), compared = 0;

	while (steps_next_branch(&steps, &program, &branch) && branch.step <= stop)
		last[count++ % 64] = branch;
	for (; back < lbr->depth && compared < count; back++, compared++) {
		const struct step_branch *expected = &last[(count - 1 - compared) % 64];

		if (lbr_is(back, expected->from, expected->to))
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

/* Those of `units` whose bits IA32_DEBUGCTL holds together. */
static uint64_t debugctl_of(unsigned units)
{
	return (units & BTS_UNIT ? rig_all() : 0) | (units & LBR_UNIT ? LBR : 0);
}

static bool hold_together(unsigned units)
{
	uint64_t value = debugctl_of(units);

	return msr_try(IA32_DEBUGCTL, value, 0).read_back == value;
}

/* Records the program by `units` at once. */
static void record(unsigned units, uint64_t seed)
{
	uint64_t before;
	unsigned tries = 0;

	do {
		before = smi_count();
		begin(seed);
		witness_debugctl = debugctl_of(units);
		if (units & BTS_UNIT)
			rig_reset(&rig);
		if (units & LBR_UNIT)
			clear_lbr();
		if (units & PT_UNIT) {
			pt_again(&pt, PT_PLAIN);
			PT_TRACED(&pt, PT_PLAIN,
				  "leaq witness_machine(%%rip), %%rdi\n\t"
				  "movq witness_code(%%rip), %%rsi\n\t"
				  "movq witness_debugctl(%%rip), %%rdx\n\t" PT_NOTE(
					  "3", "machine_run", "call machine_run"));
		} else {
			machine_run(&witness_machine, witness_code, witness_debugctl);
		}
	} while (smi_count() != before && ++tries < TRIES);
}

/* Records by `units`, and compares each with the steps. */
static void check_units(unsigned units, uint64_t seed)
{
	size_t branches = 0;
	unsigned tries = 0;

	do {
		record(units, seed);
	} while (units & PT_UNIT && !pt_agrees(&branches) && ++tries < TRIES);
	EXPECT(tries < TRIES);
	if (units & PT_UNIT)
		EXPECT(branches > INSTRUCTIONS / 20);
	if (units & BTS_UNIT)
		steps_expect(&steps, &program, &rig);
	if (units & LBR_UNIT)
		EXPECT_EQ(compare_tail(steps.count, 0), lbr->depth);
}

static unsigned here(void)
{
	return (ds_has_bts() ? BTS_UNIT : 0) | (lbr_known() ? LBR_UNIT : 0) |
	       (pt_caps()->topa ? PT_UNIT : 0);
}

/* Memory first; from here to close_units() preemption is off and IA32_DEBUGCTL is the test's. */
static unsigned open_units(void)
{
	unsigned units = here();

	if (!units)
		test_skip("the processor has neither BTS nor Intel PT nor an LBR stack");
	lbr = lbr_known();
	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&steps, MOST_STEPS);
	if (units & BTS_UNIT) {
		rig_open(&rig, SLOTS);
	} else {
		preemption_disable();
		REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
	}
	if (units & LBR_UNIT && !hold_together(LBR_UNIT))
		units &= ~(unsigned)LBR_UNIT;
	if (units & PT_UNIT) {
		pt_open(&pt, PT_RIG_CHUNKS, false);
		pt_add_branch(&pt, FLOW_CALL_INDIRECT, machine_call, 3);
		pt_add_branch(&pt, FLOW_RET, machine_return, 1);
	}
	machine_open();
	return units;
}

static void close_units(void)
{
	machine_close();
	if (pt_caps()->topa)
		pt_close(&pt);
	if (ds_has_bts()) {
		rig_close(&rig);
	} else {
		ds_checkin(&this_cpu()->trace->ds);
		preemption_enable();
	}
}

/* Intel PT suspends BTS and LBR on some processors, and LBR cannot be set beside TR on others: each
   of these runs alone there. */
static void check_program(unsigned units, uint64_t seed)
{
	unsigned by_debugctl = units & (BTS_UNIT | LBR_UNIT);

	make_program(seed, INSTRUCTIONS);
	if (by_debugctl & LBR_UNIT && !hold_together(by_debugctl)) {
		check_units(LBR_UNIT, seed);
		by_debugctl &= ~(unsigned)LBR_UNIT;
	}
	if (units & PT_UNIT && by_debugctl && ds_caps()->suspended_by_pt) {
		check_units(PT_UNIT, seed);
		check_units(by_debugctl, seed);
	} else {
		check_units(by_debugctl | (units & PT_UNIT), seed);
	}
}

TEST(witnesses_agree, .group = "witnesses", .ids = "",
     .claim =
	     "BTS, Intel PT and the LBR stack, at once where the processor has them so, record the "
	     "branches of a random program that single steps show, in that order",
     .source = "SDM Vol 3, 17.4.4, 17.4.8 and 36.4.2")
{
	unsigned units = open_units();

	if (!units) {
		close_units();
		test_skip("the hypervisor shows no LBR stack");
	}
	for (uint64_t i = test_scaled(PROGRAMS); i; i--)
		check_program(units, test_random());
	close_units();
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
	clear_lbr();
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
		own_idt_copy();
		own_idt_set(VECTOR_DB, witness_stop, false);
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
	size_t slots = ds_caps()->pebs_format ? 400 : 24, found;
	uint64_t seed = test_random();

	program_open(&program, INSTRUCTIONS + 100);
	steps_open(&steps, MOST_STEPS);
	PEBS(pebs, slots);
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
	EXPECT(found > slots / 8);
}
