// SPDX-License-Identifier: MIT
/* sources: drivers/lbr/lbr.c drivers/lbr/detect.c */
/* sources: drivers/debugctl.c tests/host/fake_cpu.c */
#include "drivers/lbr/lbr.h"

#include "drivers/lbr/registers.h"
#include "tests/host/fake_cpu.h"

enum { NETBURST_FORMAT = -1 };

/* Processors by SDM Vol 3, tables 17-4, 17-10 and 17-15, and chapter 35. */
struct model {
	uint32_t signature;
	int format;
	unsigned depth;
	uint32_t from, to, info, top;
	uint64_t select;
};

static const struct model core_2 = {0x6fb, 1, 4, 0x40, 0x60, 0, 0x1c9, 0};
static const struct model penryn = {0x1067a, 1, 4, 0x40, 0x60, 0, 0x1c9, 0};
static const struct model bonnell = {0x106c2, 2, 8, 0x40, 0x60, 0, 0x1c9, 0};
static const struct model silvermont = {0x30673, 3, 8, 0x40, 0x60, 0, 0x1c9, 0x1ff};
static const struct model netburst = {0xf41, NETBURST_FORMAT, 16, 0x680, 0x6c0, 0, 0x1da, 0};
static const struct model nehalem = {0x106a5, 3, 16, 0x680, 0x6c0, 0, 0x1c9, 0x1ff};
static const struct model haswell = {0x306c3, 4, 16, 0x680, 0x6c0, 0, 0x1c9, 0x3ff};
static const struct model skylake = {0x506e3, 5, 32, 0x680, 0x6c0, 0xdc0, 0x1c9, 0x3ff};
static const struct model ice_lake = {0x706e5, 5, 32, 0x680, 0x6c0, 0xdc0, 0x1c9, 0x3ff};
static const struct model goldmont = {0x506c9, 6, 32, 0x680, 0x6c0, 0, 0x1c9, 0x3ff};
static const struct model goldmont_plus = {0x706a1, 7, 32, 0x680, 0x6c0, 0xdc0, 0x1c9, 0x3ff};

static void make(const struct model *model)
{
	fake_cpu_reset(model->signature);
	if (model->format != NETBURST_FORMAT) {
		fake_cpu.leaf[1].ecx |= CPUID_1_ECX_PDCM;
		fake_msr(IA32_PERF_CAPABILITIES)->value = (uint64_t)model->format | 0xfc0;
	}
	for (unsigned i = 0; i < model->depth; i++) {
		fake_msr(model->from + i);
		fake_msr(model->to + i);
		if (model->info)
			fake_msr(model->info + i);
	}
	fake_msr(model->top)->writable = model->depth - 1;
	if (model->select)
		fake_msr(MSR_LBR_SELECT)->reserved = ~model->select;
}

static void begin(const struct model *model)
{
	make(model);
	lbr_init();
	fake_log_clear();
}

UNIT(each_generation_is_found)
{
	static const struct model *const models[] = {
		&core_2,  &penryn,  &bonnell,  &silvermont, &netburst,	    &nehalem,
		&haswell, &skylake, &ice_lake, &goldmont,   &goldmont_plus,
	};

	for (unsigned i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		const struct model *model = models[i];
		const struct lbr_caps *caps = lbr_caps();

		begin(model);
		assert_int_equal(caps->depth, model->depth);
		assert_int_equal(caps->format,
				 model->format == NETBURST_FORMAT ? 1 : model->format);
		assert_int_equal(caps->from, model->from);
		assert_int_equal(caps->to, model->to);
		assert_int_equal(caps->info, model->info);
		assert_int_equal(caps->top, model->top);
		assert_int_equal(caps->select, model->select);
		assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0);
	}
}

static void expect_absent(void)
{
	lbr_init();
	assert_int_equal(lbr_caps()->depth, 0);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0);
}

/* Of an unknown model; by another vendor; of a hypervisor that says so, or drops what is written.
 */
UNIT(what_is_not_there_is_not_found)
{
	begin(&haswell);
	fake_cpu.leaf[1].eax = 0x000806c0 | 0xf0000; /* 06_FCH */
	expect_absent();
	make(&haswell);
	fake_cpu.leaf[0].ebx++;
	expect_absent();
	make(&haswell);
	fake_msr(IA32_PERF_CAPABILITIES)->value = 0xfc0;
	expect_absent();
	make(&haswell);
	fake_msr(IA32_PERF_CAPABILITIES)->value = 8;
	expect_absent();
	make(&haswell);
	fake_msr(IA32_DEBUGCTL)->writable = ~1ull;
	expect_absent();
	make(&haswell);
	fake_msr(IA32_DEBUGCTL)->reserved = 1;
	expect_absent();
	make(&haswell);
	fake_msr(0x68f)->writable = 0;
	expect_absent();
	make(&skylake);
	fake_msr(0xddf)->writable = 0;
	expect_absent();
}

UNIT(freezing_is_optional)
{
	struct debugctl debugctl = {0};
	const struct lbr_program program = {PTRACE_LBR_KERNEL, PTRACE_LBR_KINDS};

	begin(&haswell);
	assert_true(lbr_caps()->freezes);
	lbr_start(&debugctl, &program);
	assert_writes({MSR_LBR_SELECT, 2}, {IA32_DEBUGCTL, 0x801});
	assert_false(lbr_is_frozen());
	fake_msr(IA32_DEBUGCTL)->value = 0x800;
	assert_true(lbr_is_frozen());
	lbr_stop(&debugctl);
	assert_false(lbr_is_frozen());
	make(&haswell);
	fake_msr(IA32_DEBUGCTL)->reserved = DEBUGCTL_FREEZE_LBRS;
	lbr_init();
	assert_int_equal(lbr_caps()->depth, 16);
	assert_false(lbr_caps()->freezes);
	debugctl = (struct debugctl){0};
	lbr_start(&debugctl, &program);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 1);
}

UNIT(other_units_keep_their_bits)
{
	const struct lbr_program program = {PTRACE_LBR_USER, PTRACE_LBR_KINDS};
	struct debugctl debugctl = {.others = DEBUGCTL_BTF};

	begin(&nehalem);
	fake_msr(IA32_DEBUGCTL)->value = 0x1c2;
	lbr_start(&debugctl, &program);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x1c3);
	debugctl_record(&debugctl, 0x2c0);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x2c3);
	/* A pause of the Debug Store leaves LBR to its owner. */
	assert_int_equal(debugctl_pause(0x40), 0x2c2);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x283);
	lbr_stop(&debugctl);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x282);
	assert_int_equal(debugctl.others, DEBUGCTL_BTF);
	fake_log_clear();
	lbr_stop(&debugctl);
	assert_no_writes();
}

/* #DB clears LBR and BTF; the first is set again, of one that was set. */
UNIT(a_debug_exception_is_made_up_for)
{
	const struct lbr_program program = {PTRACE_LBR_USER, PTRACE_LBR_KINDS};
	struct debugctl debugctl = {.others = DEBUGCTL_BTF};

	begin(&nehalem);
	fake_msr(IA32_DEBUGCTL)->value = 0x42;
	lbr_start(&debugctl, &program);
	fake_msr(IA32_DEBUGCTL)->value = 0x40;
	lbr_after_debug(&debugctl);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x41);
	lbr_stop(&debugctl);
	fake_log_clear();
	lbr_after_debug(&debugctl);
	assert_no_writes();
}

/* Held, the register has neither bit of the stack; each is as it was afterwards. */
UNIT(a_stack_is_held)
{
	const struct lbr_program program = {PTRACE_LBR_USER | PTRACE_LBR_KERNEL, PTRACE_LBR_KINDS};
	struct debugctl debugctl = {.others = DEBUGCTL_BTF};
	uint64_t held;

	begin(&nehalem);
	fake_msr(IA32_DEBUGCTL)->value = 0x42;
	assert_int_equal(debugctl_hold(&debugctl), 0);
	assert_no_writes();
	lbr_start(&debugctl, &program);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x843);
	held = debugctl_hold(&debugctl);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x42);
	assert_int_equal(debugctl_hold(&debugctl), 0);
	debugctl_go_on(&debugctl, 0);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x42);
	debugctl_go_on(&debugctl, held);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0x843);
}

static uint64_t select_of(uint64_t flags, unsigned kinds)
{
	const struct lbr_program program = {flags, kinds};
	struct debugctl debugctl = {0};

	lbr_start(&debugctl, &program);
	lbr_stop(&debugctl);
	return fake_msr(MSR_LBR_SELECT)->value;
}

UNIT(each_kind_has_its_bit)
{
	const uint64_t both = PTRACE_LBR_USER | PTRACE_LBR_KERNEL;
	const unsigned calls = PTRACE_LBR_CALL | PTRACE_LBR_CALL_INDIRECT | PTRACE_LBR_RETURN;

	begin(&haswell);
	assert_int_equal(select_of(both, PTRACE_LBR_KINDS), 0);
	assert_int_equal(select_of(PTRACE_LBR_USER, PTRACE_LBR_KINDS), 1);
	assert_int_equal(select_of(PTRACE_LBR_KERNEL, PTRACE_LBR_KINDS), 2);
	for (unsigned bit = 0; bit < 7; bit++)
		assert_int_equal(select_of(both, PTRACE_LBR_KINDS & ~(1u << bit)), 4u << bit);
	assert_int_equal(select_of(PTRACE_LBR_USER | PTRACE_LBR_CALL_STACK, calls), 0x3c5);
	lbr_unfilter();
	assert_int_equal(fake_msr(MSR_LBR_SELECT)->value, 0);
}

/* --- What entries say --- */

static struct ptrace_lbr_branch branches[LBR_MOST];

static void enter(const struct model *model, unsigned place, uint64_t from, uint64_t to)
{
	fake_msr(model->from + place)->value = from;
	fake_msr(model->to + place)->value = to;
}

UNIT(the_newest_is_first_from_each_place)
{
	static const struct model *const models[] = {&core_2, &bonnell, &netburst, &skylake};

	for (unsigned i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		const struct model *model = models[i];
		unsigned depth = model->depth;

		begin(model);
		for (unsigned place = 0; place < depth; place++)
			enter(model, place, 0x1000 + place, 0x2000 + place);
		for (unsigned top = 0; top < depth; top++) {
			fake_msr(model->top)->value = top;
			assert_int_equal(lbr_read(lbr_caps()->depth, branches), depth);
			for (unsigned n = 0; n < depth; n++) {
				assert_int_equal(branches[n].from,
						 0x1000 + (top + depth - n) % depth);
				assert_int_equal(branches[n].to, branches[n].from + 0x1000);
			}
		}
		fake_msr(model->from + depth - 2)->value = 0;
		assert_int_equal(lbr_read(lbr_caps()->depth, branches), 1);
		lbr_clear(lbr_caps()->depth);
		assert_int_equal(lbr_read(lbr_caps()->depth, branches), 0);
	}
}

static struct ptrace_lbr_branch read_one(const struct model *model, uint64_t from, uint64_t to,
					 uint64_t info)
{
	begin(model);
	enter(model, 0, from, to);
	if (model->info)
		fake_msr(model->info)->value = info;
	assert_int_equal(lbr_read(lbr_caps()->depth, branches), 1);
	return branches[0];
}

#define KERNEL	   0xffffffff80001000ull
#define MISPRED	   (1ull << 63)
#define IN_TX	   (1ull << 62)
#define TX_ABORT   (1ull << 61)
#define EVERY_FLAG (PTRACE_LBR_MISPREDICTED | PTRACE_LBR_IN_TX | PTRACE_LBR_TX_ABORT)

static void expect(struct ptrace_lbr_branch branch, uint64_t from, unsigned flags, unsigned cycles)
{
	assert_int_equal(branch.from, from);
	assert_int_equal(branch.flags, flags);
	assert_int_equal(branch.cycles, cycles);
}

UNIT(addresses_without_flags)
{
	expect(read_one(&core_2, KERNEL, 0x1000, 0), KERNEL, 0, 0);
	expect(read_one(&bonnell, 0x401000, 0x1000, 0), 0x401000, 0, 0);
	expect(read_one(&netburst, KERNEL, 0x1000, 0), KERNEL, 0, 0);
}

UNIT(flags_in_the_source)
{
	expect(read_one(&nehalem, 0x401000 | MISPRED, 0x1000, 0), 0x401000, PTRACE_LBR_MISPREDICTED,
	       0);
	expect(read_one(&nehalem, KERNEL & ~MISPRED, 0x1000, 0), KERNEL, 0, 0);
	expect(read_one(&nehalem, KERNEL, 0x1000, 0), KERNEL, PTRACE_LBR_MISPREDICTED, 0);
}

/* Bits 62 and 61 are flags where TSX is, and else of the sign. */
UNIT(transactions_in_the_source)
{
	make(&haswell);
	fake_cpu.leaf[7].ebx = 1 << 11;
	lbr_init();
	enter(&haswell, 0, 0x401000 | IN_TX | TX_ABORT, 0x1000);
	assert_int_equal(lbr_read(lbr_caps()->depth, branches), 1);
	expect(branches[0], 0x401000, PTRACE_LBR_IN_TX | PTRACE_LBR_TX_ABORT, 0);
	expect(read_one(&haswell, KERNEL & ~MISPRED, 0x1000, 0), KERNEL, 0, 0);
}

UNIT(flags_and_cycles_in_info)
{
	expect(read_one(&skylake, KERNEL, 0x1000, 0x123), KERNEL, 0, 0x123);
	expect(read_one(&skylake, KERNEL, 0x1000, MISPRED | IN_TX | TX_ABORT | 0xffff), KERNEL,
	       PTRACE_LBR_MISPREDICTED, 0xffff);
	fake_cpu.leaf[7].ebx = 1 << 11;
	lbr_init();
	enter(&skylake, 0, KERNEL, 0x1000);
	fake_msr(0xdc0)->value = MISPRED | IN_TX | TX_ABORT | 1;
	assert_int_equal(lbr_read(lbr_caps()->depth, branches), 1);
	expect(branches[0], KERNEL, EVERY_FLAG, 1);
	expect(read_one(&goldmont_plus, KERNEL, 0x1000, MISPRED | IN_TX | 7), KERNEL,
	       PTRACE_LBR_MISPREDICTED, 7);
}

UNIT(cycles_in_the_target)
{
	expect(read_one(&goldmont, 0x401000 | MISPRED, 0x1000 | 5ull << 48, 0), 0x401000,
	       PTRACE_LBR_MISPREDICTED, 5);
	assert_int_equal(branches[0].to, 0x1000);
}

/* --- Save and restore --- */

UNIT(what_was_saved_is_restored)
{
	static struct lbr_registers saved;

	begin(&skylake);
	for (unsigned i = 0; i < 32; i++) {
		enter(&skylake, i, 0x1000 + i, 0x2000 + i);
		fake_msr(0xdc0 + i)->value = 0x3000 + i;
	}
	fake_msr(skylake.top)->value = 19;
	lbr_save(&saved);
	lbr_clear(lbr_caps()->depth);
	fake_msr(skylake.top)->value = 3;
	lbr_restore(&saved);
	assert_int_equal(fake_msr(skylake.top)->value, 19);
	for (unsigned i = 0; i < 32; i++) {
		assert_int_equal(fake_msr(0x680 + i)->value, 0x1000 + i);
		assert_int_equal(fake_msr(0x6c0 + i)->value, 0x2000 + i);
		assert_int_equal(fake_msr(0xdc0 + i)->value, 0x3000 + i);
	}
}

/* Without TSX a source is written with bits 62:61 like 60:59, and its own bit 63. */
UNIT(the_sign_is_widened)
{
	static struct lbr_registers saved;

	begin(&haswell);
	saved.from[0] = KERNEL & ~(MISPRED | IN_TX | TX_ABORT);
	saved.from[1] = 0x401000 | MISPRED;
	lbr_restore(&saved);
	assert_int_equal(fake_msr(0x680)->value, KERNEL & ~MISPRED);
	assert_int_equal(fake_msr(0x681)->value, 0x401000 | MISPRED);
}

/* --- Architectural --- */

#define ARCH_CTL   0x14ceu
#define ARCH_DEPTH 0x14cfu
#define ARCH_FROM  0x1500u
#define ARCH_TO	   0x1600u
#define ARCH_INFO  0x1200u

/* Sapphire Rapids, with each depth, filter and field of INFO: CPUID leaf 1CH. */
static void make_architectural(void)
{
	fake_cpu_reset(0x806f8);
	fake_cpu.leaf[0].eax = 0x1f;
	fake_cpu.leaf[7].edx = 1u << 19;
	fake_cpu.leaf[0xa].eax = 5;
	fake_cpu.leaf[0x1c] = (struct cpuid_result){0x8000000f, 7, 7, 0};
	fake_msr(ARCH_CTL)->reserved = ~0x7f000full;
	fake_msr(ARCH_DEPTH)->value = 32;
	for (unsigned i = 0; i < 32; i++) {
		fake_msr(ARCH_FROM + i);
		fake_msr(ARCH_TO + i);
		fake_msr(ARCH_INFO + i);
	}
}

static void begin_architectural(void)
{
	make_architectural();
	lbr_init();
	fake_log_clear();
}

UNIT(architectural_is_found_by_its_leaf)
{
	begin_architectural();
	assert_true(lbr_caps()->architectural && lbr_caps()->freezes);
	assert_int_equal(lbr_caps()->depth, 32);
	assert_int_equal(lbr_caps()->format, 0x3f);
	assert_int_equal(lbr_caps()->select, 0x3ff);
	assert_int_equal(fake_msr(ARCH_CTL)->value, 0);
	assert_false(lbr_caps()->xsaves);
	fake_cpu.subleaf_1[0xd] = (struct cpuid_result){.eax = 8, .ecx = 1u << 15};
	lbr_init();
	assert_true(lbr_caps()->xsaves);
	make_architectural();
	fake_cpu.leaf[0x1c].eax = 3;
	lbr_init();
	assert_int_equal(lbr_caps()->depth, 16);
	assert_int_equal(fake_msr(ARCH_DEPTH)->value, 16);
	make_architectural();
	fake_cpu.leaf[7].edx = 0;
	expect_absent();
	make_architectural();
	fake_cpu.leaf[0x1c].eax = 0;
	expect_absent();
	make_architectural();
	fake_msr(ARCH_CTL)->writable = 0;
	expect_absent();
	make_architectural();
	fake_msr(ARCH_TO + 31)->writable = 0;
	expect_absent();
}

/* One write on arrival besides the one that empties it, one at departure; freezing is two more. */
UNIT(architectural_starts_and_stops)
{
	const struct lbr_program user = {PTRACE_LBR_USER, PTRACE_LBR_KINDS};
	const struct lbr_program kernel = {PTRACE_LBR_KERNEL, PTRACE_LBR_RETURN};
	const struct lbr_program samples = {PTRACE_LBR_USER | LBR_FREEZES, PTRACE_LBR_KINDS};
	struct debugctl debugctl = {.others = DEBUGCTL_BTF};

	begin_architectural();
	fake_msr(IA32_DEBUGCTL)->value = DEBUGCTL_BTF;
	lbr_clear(32);
	lbr_start(&debugctl, &user);
	assert_true(lbr_runs(&debugctl));
	lbr_stop(&debugctl);
	lbr_unfilter();
	assert_false(lbr_runs(&debugctl) || lbr_is_frozen());
	assert_writes({ARCH_DEPTH, 32}, {ARCH_CTL, 0x7f0005}, {ARCH_CTL, 0});
	fake_log_clear();
	lbr_start(&debugctl, &kernel);
	lbr_stop(&debugctl);
	assert_writes({IA32_DEBUGCTL, 0x802}, {ARCH_CTL, 0x200003}, {ARCH_CTL, 0},
		      {IA32_DEBUGCTL, 2});
	fake_log_clear();
	lbr_start(&debugctl, &samples);
	lbr_stop(&debugctl);
	assert_writes({IA32_DEBUGCTL, 0x802}, {ARCH_CTL, 0x7f0005}, {ARCH_CTL, 0},
		      {IA32_DEBUGCTL, 2});
	fake_log_clear();
	lbr_stop(&debugctl);
	assert_no_writes();
}

UNIT(architectural_goes_on_after_a_debug_exception)
{
	const struct lbr_program program = {PTRACE_LBR_USER, PTRACE_LBR_CONDITIONAL};
	struct debugctl debugctl = {0};

	begin_architectural();
	lbr_start(&debugctl, &program);
	fake_msr(ARCH_CTL)->value = 0x10004;
	fake_log_clear();
	lbr_after_debug(&debugctl);
	assert_writes({ARCH_CTL, 0x10005});
	lbr_stop(&debugctl);
	fake_log_clear();
	lbr_after_debug(&debugctl);
	assert_no_writes();
}

static uint64_t control_of(uint64_t flags, unsigned kinds)
{
	const struct lbr_program program = {flags, kinds};
	struct debugctl debugctl = {0};
	uint64_t control;

	lbr_start(&debugctl, &program);
	control = fake_msr(ARCH_CTL)->value;
	lbr_stop(&debugctl);
	return control;
}

UNIT(each_kind_has_its_architectural_bit)
{
	static const struct {
		unsigned kind, bit;
	} kinds[] = {
		{PTRACE_LBR_CONDITIONAL, 16},	{PTRACE_LBR_JUMP, 17},
		{PTRACE_LBR_JUMP_INDIRECT, 18}, {PTRACE_LBR_CALL, 19},
		{PTRACE_LBR_CALL_INDIRECT, 20}, {PTRACE_LBR_RETURN, 21},
		{PTRACE_LBR_FAR, 22},
	};

	begin_architectural();
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(control_of(PTRACE_LBR_USER, kinds[i].kind),
				 5 | 1u << kinds[i].bit);
	assert_int_equal(control_of(PTRACE_LBR_USER | PTRACE_LBR_CALL_STACK,
				    PTRACE_LBR_CALL | PTRACE_LBR_CALL_INDIRECT | PTRACE_LBR_RETURN),
			 0x38000d);
}

/* A processor without a filter keeps everything, and says so. */
UNIT(architectural_filters_are_enumerated)
{
	const struct lbr_program all = {PTRACE_LBR_USER | PTRACE_LBR_KERNEL, PTRACE_LBR_KINDS};
	const struct lbr_program user = {PTRACE_LBR_USER, PTRACE_LBR_KINDS};
	const struct lbr_program calls = {PTRACE_LBR_USER | PTRACE_LBR_CALL_STACK, PTRACE_LBR_CALL};

	begin_architectural();
	assert_true(lbr_supports(&all) && lbr_supports(&user) && lbr_supports(&calls));
	make_architectural();
	fake_cpu.leaf[0x1c].ebx = 1;
	lbr_init();
	assert_true(lbr_supports(&user) && !lbr_supports(&calls));
	assert_int_equal(control_of(PTRACE_LBR_USER, PTRACE_LBR_KINDS), 5);
	make_architectural();
	fake_cpu.leaf[0x1c].ebx = 0;
	lbr_init();
	assert_true(lbr_supports(&all) && !lbr_supports(&user));
	assert_int_equal(control_of(all.flags, all.kinds), 1);
}

UNIT(the_least_depth_with_room_is_chosen)
{
	static const unsigned expected[] = {8, 8, 16, 16, 24, 32, 32};
	static const unsigned entries[] = {1, 8, 9, 16, 17, 25, 64};

	begin_architectural();
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(lbr_depth_for(entries[i]), expected[i]);
	fake_cpu.leaf[0x1c].eax = 0xa;
	lbr_init();
	assert_int_equal(lbr_depth_for(8), 16);
	assert_int_equal(lbr_depth_for(17), 32);
	begin(&nehalem);
	assert_int_equal(lbr_depth_for(1), 16);
}

static struct ptrace_lbr_branch read_architectural(uint64_t from, uint64_t info)
{
	fake_msr(ARCH_FROM)->value = from;
	fake_msr(ARCH_TO)->value = 0x401000;
	fake_msr(ARCH_INFO)->value = info;
	assert_int_equal(lbr_read(32, branches), 1);
	return branches[0];
}

/* BR_TYPE, and CYC_CNT where CYC_CNT_VALID says that it is one. */
UNIT(what_architectural_info_says)
{
	static const unsigned kinds[] = {PTRACE_LBR_CONDITIONAL,
					 PTRACE_LBR_JUMP_INDIRECT,
					 PTRACE_LBR_JUMP,
					 PTRACE_LBR_CALL_INDIRECT,
					 PTRACE_LBR_CALL,
					 PTRACE_LBR_RETURN,
					 0,
					 0};

	begin_architectural();
	for (uint64_t type = 0; type < 16; type++)
		assert_int_equal(PTRACE_LBR_KIND(read_architectural(0x1000, type << 56).flags),
				 type < 8 ? kinds[type] : PTRACE_LBR_FAR);
	expect(read_architectural(KERNEL, MISPRED | IN_TX | 1ull << 60 | 0xffff), KERNEL,
	       PTRACE_LBR_MISPREDICTED | PTRACE_LBR_CONDITIONAL << 8, 0xffff);
	assert_int_equal(read_architectural(0x1000, 0x1234).cycles, 0);
	assert_int_equal(read_architectural(1ull << 55, 0).from, 1ull << 55);
	fake_cpu.leaf[0x1c].ecx = 0;
	lbr_init();
	expect(read_architectural(0x1000, MISPRED | 0x5ull << 56 | 1ull << 60 | 9), 0x1000, 0, 0);
}

/* Entry 0 is the newest; those after the depth are not read, which would raise #GP. */
UNIT(architectural_entries_are_in_order)
{
	static struct lbr_registers saved;

	begin_architectural();
	for (unsigned i = 0; i < 32; i++) {
		fake_msr(ARCH_FROM + i)->value = i < 20 ? 0x1000 + i : 0;
		fake_msr(ARCH_TO + i)->value = 0x2000 + i;
		fake_msr(ARCH_INFO + i)->value = 0x3000 + i;
	}
	assert_int_equal(lbr_read(8, branches), 8);
	assert_int_equal(lbr_read(32, branches), 20);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(branches[i].from, 0x1000 + i);
	lbr_save(&saved);
	for (unsigned i = 0; i < 32; i++)
		fake_msr(ARCH_FROM + i)->value = 0;
	fake_log_clear();
	lbr_restore(&saved);
	assert_int_equal(fake_cpu.writes, 1 + 3 * 20);
	assert_int_equal(fake_cpu.log[0].index, ARCH_DEPTH);
	assert_int_equal(fake_msr(ARCH_FROM + 19)->value, 0x1013);
	assert_int_equal(fake_msr(ARCH_INFO + 19)->value, 0x3013);
}
