// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/ds/ds.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"
#include "tests/lib/viewer.h"

/* Whether a transition is recorded is for the silicon to say, but for each visit the same. */
static void expect_same_each_time(size_t recorded)
{
	EXPECT(recorded == 0 || recorded == VISITS);
}

// Erratum AR62 of the Core 2 family and the Celeron 500 series: with a filter by CPL the record of
// a change of privilege may have a wrong from address. The kernel filters in software there
// (`filter_changes_from` in drivers/ds/configuration.c). By SDM Vol 3, 17.4.9.4 and table 17-6 the
// filter chooses which branches are stored, and changes no address.
// On the listed models the log has "erratum AR62" with "visits.wrong_from == 0", and the result is
// XFAIL AR62. On any other the same line says "failed". The branches within ring 3 have to be right
// everywhere: "visits.user" and "visits.wrong" never are an erratum.
TEST(bts_filter_off_os, .group = "P", .ids = "P1 R5", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "with BTS_OFF_OS all branches within CPL 3 are recorded, and none within CPL 0",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	struct user_visits visits;

	RIG(rig, VISITS_SLOTS);
	user_visits_open();
	visits = user_visits_trace(&rig, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(visits.user, VISITS_BRANCHES);
	EXPECT_EQ(visits.kernel, 0);
	EXPECT_EQ(visits.wrong, 0);
	EXPECT_OR_ERRATUM(visits.wrong_from == 0, "AR62");
	expect_same_each_time(visits.to_user);
	expect_same_each_time(visits.to_kernel);
	test_observe("off_os_transitions", "to_user:%zu,to_kernel:%zu of %d", visits.to_user,
		     visits.to_kernel, VISITS);
	user_visits_close();
}

TEST(bts_filter_off_usr, .group = "P", .ids = "P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "with BTS_OFF_USR all branches within CPL 0 are recorded, and none within CPL 3",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	struct user_visits all, visits;

	RIG(rig, VISITS_SLOTS);
	user_visits_open();
	all = user_visits_trace(&rig, rig_all());
	visits = user_visits_trace(&rig, rig_all() | ds_configuration->off_usr);
	EXPECT_EQ(all.user, VISITS_BRANCHES);
	EXPECT_EQ(all.to_user, VISITS);
	EXPECT_EQ(all.wrong + all.wrong_from, 0);
	EXPECT_EQ(visits.user, 0);
	EXPECT_EQ(visits.kernel, all.kernel);
	EXPECT_EQ(visits.kernel_sum, all.kernel_sum);
	EXPECT_EQ(visits.wrong, 0);
	EXPECT_OR_ERRATUM(visits.wrong_from == 0, "AR62");
	expect_same_each_time(visits.to_user);
	expect_same_each_time(visits.to_kernel);
	test_observe("off_usr_transitions", "to_user:%zu,to_kernel:%zu of %d", visits.to_user,
		     visits.to_kernel, VISITS);
	user_visits_close();
}

/* Records within ring 3; more than USER_BRANCHES if one of them is not the branch whose turn it is.
 */
static size_t kinds_within_ring_3(struct rig *rig, uint64_t debugctl)
{
	size_t found = 0;

	EXACTLY (rig)
		user_branches_run(debugctl);
	for (size_t slot = 0; slot < rig_count(rig); slot++) {
		struct bts_struct record = rig_record(rig, slot);
		struct user_branch next = user_branch(found % USER_BRANCHES);

		if (record.from >> 63 || record.to >> 63)
			continue;
		found += record.from == next.from && record.to == next.to ? 1 : VISITS_SLOTS;
	}
	return found;
}

TEST(bts_filter_each_kind, .group = "P", .ids = "P1 P2 K12", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "BTS_OFF_OS lets each kind of branch within CPL 3 through, BTS_OFF_USR none",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	RIG(rig, VISITS_SLOTS);
	user_branches_open();
	EXPECT_EQ(kinds_within_ring_3(&rig, rig_all()), USER_BRANCHES);
	EXPECT_OR_ERRATUM(kinds_within_ring_3(&rig, rig_all() | ds_configuration->off_os) ==
				  USER_BRANCHES,
			  "AR62");
	EXPECT_EQ(kinds_within_ring_3(&rig, rig_all() | ds_configuration->off_usr), 0);
	user_branches_close();
}

/* Without TR nothing may happen at all; where only one flag is missing it has to be that one. */
static void expect_nothing(struct rig *rig, const char *what, uint64_t debugctl)
{
	struct user_visits visits = user_visits_trace(rig, debugctl);

	if (visits.count)
		test_note("%s: %zu records", what, visits.count);
	EXPECT_EQ(visits.count, 0);
	EXPECT_EQ(rig_record(rig, 0).from, 0);
}

TEST(bts_filter_all_off, .group = "P", .ids = "P3", .needs = NEED_BTS,
     .claim = "nothing is stored with both filters on, with BTS = 0 or with TR = 0",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t filters = ds_caps()->dscpl ? c->off_os | c->off_usr : 0;

	RIG(rig, VISITS_SLOTS);
	user_visits_open();
	expect_nothing(&rig, "nothing", 0);
	expect_nothing(&rig, "TR", c->tr);
	expect_nothing(&rig, "TR, BTINT", c->tr | c->btint);
	expect_nothing(&rig, "TR, filters", c->tr | filters);
	expect_nothing(&rig, "BTS", c->bts);
	expect_nothing(&rig, "BTS, BTINT, filters", c->bts | c->btint | filters);
	if (filters) {
		expect_nothing(&rig, "both filters", rig_all() | filters);
		expect_nothing(&rig, "both filters, BTINT", rig_interrupt() | filters);
	}
	TRACED(rig_all(), "jmp 1f\n1:\n");
	EXPECT_EQ(rig_count(&rig), 1);
	user_visits_close();
}

#define AT 0x00005a0000001000ul

extern const char filter_call[], filter_back[];

/* In the user's half, run at CPL 0: JMP over an UD2; RET */
static const uint8_t code[] = {0xeb, 0x02, 0x0f, 0x0b, 0xc3};

static __attribute__((noinline)) void trace(struct rig *rig, uint64_t debugctl)
{
	EXACTLY (rig)
		TRACED_WITH(debugctl, "filter_call: call *%[at]\nfilter_back:\n\t", ,
			    OPERANDS([at] "r"(AT)));
}

/* Recorded jumps within `ring`. Of the way there a record may have a wrong `from`: AR62. */
static size_t from_ring(struct rig *rig, unsigned ring, uint64_t filter)
{
	size_t count = 0;

	rig_reset(rig);
	own_ring_run(ring, IA32_DEBUGCTL, rig_all() | filter, 0);
	for (size_t n = 0; n < rig_count(rig); n++) {
		struct bts_struct record = rig_record(rig, n);

		count += own_ring_has(record.from) && record.to == record.from + 2;
	}
	return count;
}

TEST(bts_filter_rings_1_and_2, .group = "P", .ids = "P1 P2 P3", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "BTS_OFF_USR leaves out the branches of rings 1 and 2, BTS_OFF_OS does not",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	uint64_t os = ds_configuration->off_os, usr = ds_configuration->off_usr;

	RIG(rig, 64);
	own_gdt_load();
	for (unsigned ring = 1; ring <= 2; ring++) {
		EXPECT_EQ(from_ring(&rig, ring, os), OWN_RING_JUMPS);
		EXPECT_EQ(from_ring(&rig, ring, usr), 0);
		EXPECT_EQ(from_ring(&rig, ring, usr | os), 0);
	}
	own_gdt_unload();
}

TEST(bts_filter_by_cpl, .group = "P", .ids = "P1 P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "the filters go by the CPL, whatever the addresses of a branch",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const struct ds_configuration *c = ds_configuration;
	uint8_t *page = test_area(1);

	memcpy(page, code, sizeof(code));
	RIG(rig, 16);
	code_map(AT, page, VM_READ);
	trace(&rig, rig_all() | c->off_os);
	EXPECT_EQ(rig_count(&rig), 0);
	trace(&rig, rig_all() | c->off_usr);
	code_unmap(AT);
	EXPECT_EQ(rig_count(&rig), 3);
	rig_expect(&rig, 0, filter_call, (void *)AT);
	rig_expect(&rig, 1, (void *)AT, (void *)(AT + 4));
	rig_expect(&rig, 2, (void *)(AT + 4), filter_back);
}

extern const char filter_on[], filter_on_to[], filter_later[], filter_later_to[];

/* A jump with IA32_DEBUGCTL = `first`, and one with `then`. Returns the records. */
static __attribute__((noinline)) size_t change(struct rig *rig, uint64_t first, uint64_t then)
{
	EXACTLY (rig)
		TRACED_WITH(first,
			    "filter_on: jmp filter_on_to\n\tud2\n"
			    "filter_on_to: movl $0x1d9, %%ecx\n\tmovl %[then], %%eax\n\t"
			    "xorl %%edx, %%edx\n\twrmsr\n"
			    "filter_later: jmp filter_later_to\n\tud2\nfilter_later_to:\n\t",
			    , OPERANDS([then] "r"((uint32_t)then)));
	return rig_count(rig);
}

/* An exception, an interrupt and a software interrupt, with their IRETQs. */
static __attribute__((noinline)) size_t count(struct rig *rig, uint64_t debugctl)
{
	struct pending pending;

	EXACTLY (rig) {
		pending_raise(&pending);
		own_idt_load();
		TRACED_WITH(debugctl,
			    "leaq 1f(%%rip), %%rbx\n\tud2\n1:\tint %[vector]\n\t"
			    "sti\n\t.fill 64, 1, 0x90\n\tcli\n\t",
			    , OPERANDS([vector] "i"(VECTOR_TEST + 1)), "rbx");
		own_idt_unload();
		lapic_eoi();
		pending_settle();
	}
	return rig_count(rig);
}

TEST(bts_filter_events, .group = "P", .ids = "S1 P1 P2 P3",
     .needs = NEED_BTS | NEED_DSCPL | ON_EACH_CPU,
     .claim = "BTS_OFF_OS leaves out interrupts and exceptions within CPL 0, BTS_OFF_USR does not",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const struct ds_configuration *c = ds_configuration;
	size_t all;

	RIG(rig, 64);
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	own_idt_set(VECTOR_TEST, own_handler_return, false);
	own_idt_set(VECTOR_TEST + 1, own_handler_return, false);
	all = count(&rig, rig_all());
	EXPECT(all == 5 || all == 6); /* INT n may not be recorded */
	EXPECT_EQ(count(&rig, rig_all() | c->off_usr), all);
	EXPECT_EQ(count(&rig, rig_all() | c->off_os), 0);
	EXPECT_EQ(count(&rig, rig_all() | c->off_os | c->off_usr), 0);
}

// A filter by privilege level still stores branches that cross the levels, and those carry a kernel
// address at one end: Linux drops them in software for that reason. Passing means: over a thousand
// transitions a reader without the right to kernel addresses gets none, from either end.

#define TRANSITIONS		1000
#define NO_KERNEL_ADDRESS_WALKS (TRANSITIONS / 2)

/* One who may not see them; one who may, so that more is recorded than is shown; an observer. */
TEST(bts_filter_no_kernel_address, .group = "P", .ids = "P5 I11", .needs = NEED_BTS,
     .claim =
	     "a reader without the right to kernel addresses gets none over a thousand transitions",
     .source = "docs/design.md#views")
{
	struct walker walker = {
		.name = "both", .chain = &chain_a, .walks = NO_KERNEL_ADDRESS_WALKS};
	struct bts_options options =
		viewer_options(TRACE_USER | TRACE_KERNEL, NO_KERNEL_ADDRESS_WALKS);
	struct viewer viewers[2];
	USER_CHAIN(user);
	struct tracer *refused;

	walker.user = &user;
	walkers_create(&walker, 1);
	options.privileged = false;
	options.view = TRACE_USER;
	viewer_open(&viewers[0], &walker, &options);
	options.view = TRACE_USER | TRACE_KERNEL;
	EXPECT_EQ(bts_attach(walker.task, 0, &options, &refused), -EPERM);
	options.privileged = true;
	viewer_open(&viewers[1], &walker, &options);
	walker_run(&walker);
	for (unsigned i = 0; i < 2; i++) {
		viewer_expect(&viewers[i], NO_KERNEL_ADDRESS_WALKS);
		viewer_close(&viewers[i]);
	}
	test_observe("transitions", "%lu", viewers[1].between);
	walker_end(&walker);
}

#define SOFTWARE_SAME_WALKS 50

/* The same program: only a view that need not be filtered is made in the circular shape. */
static void trace_view(struct user_chain *user, unsigned view, enum trace_overflow overflow,
		       enum bts_filter filter)
{
	struct walker walker CLOSED_BY(walker_end) = {
		.name = "both", .chain = &chain_a, .walks = SOFTWARE_SAME_WALKS, .user = user};
	struct bts_options options = viewer_options(TRACE_USER | TRACE_KERNEL, SOFTWARE_SAME_WALKS);
	struct bts_status status;
	struct viewer viewer CLOSED_BY(viewer_close);

	if (view == (TRACE_USER | TRACE_KERNEL))
		filter = BTS_FILTER_NONE;
	options.view = view;
	options.overflow = overflow;
	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	walker_run(&walker);
	bts_status(viewer.tracer, &status);
	EXPECT_EQ(status.filter, filter);
	EXPECT_EQ(status.circular, filter == BTS_FILTER_NONE && overflow == TRACE_WRAP);
	viewer_expect(&viewer, SOFTWARE_SAME_WALKS);
}

TEST(bts_filter_software_same, .group = "P", .ids = "P4", .needs = NEED_BTS,
     .claim =
	     "a view is the same by DS-CPL and by the filter in software, whatever the buffer does when it is full",
     .source = "docs/design.md#views")
{
	static const enum trace_overflow overflows[] = {TRACE_STOP, TRACE_WRAP};
	USER_CHAIN(user);

	for (unsigned i = 0; i < 2; i++)
		for (unsigned view = TRACE_USER; view <= (TRACE_USER | TRACE_KERNEL); view++) {
			if (ds_caps()->filters)
				trace_view(&user, view, overflows[i], BTS_FILTER_HARDWARE);
			bts_filter_in_software(true);
			trace_view(&user, view, overflows[i], BTS_FILTER_SOFTWARE);
			bts_filter_in_software(false);
		}
}

#define AT	   0x00005a0000001000ul
#define JNZ_AT	   (AT + 7)
#define DEC_AT	   (AT + 5)
#define SYSCALL_AT (AT + 9)
#define UD2_AT	   (AT + 11)
enum { BRANCHES = 3, WAYS = 3, FAULTS = 5 };

/* MOV ECX, 4; DEC ECX; JNZ to the DEC; SYSCALL; UD2 */
static const uint8_t user_code[] = {0xb9, BRANCHES + 1, 0,    0,    0,	  0xff, 0xc9,
				    0x75, 0xfc,		0x0f, 0x05, 0x0f, 0x0b};

extern const char returns_iret[], returns_sysret[], returns_sysexit[], returns_far[],
	returns_back[], returns_undefined[], returns_refused[], undefined_ud2[], undefined_sysret[],
	refused_wrmsr[];
extern uint64_t returns_stack, returns_count, returns_efer, undefined_count, undefined_at[8];
extern uint64_t returns_rsp, returns_debugctl;
uint64_t returns_stack, returns_count, returns_efer, undefined_count, undefined_at[8];
uint64_t returns_rsp, returns_debugctl; /* that from the second visit on */

/* Where SYSCALL, #GP and #UD arrive: go on at RBX on the stack that was left. */
__asm__(".pushsection .text\n"
	"returns_refused: addq $8, %rsp\n"
	"returns_undefined: movq undefined_count(%rip), %rcx\n\tincq undefined_count(%rip)\n\t"
	"andl $7, %ecx\n\tleaq undefined_at(%rip), %rdx\n\tpopq (%rdx, %rcx, 8)\n"
	"returns_back: incq returns_count(%rip)\n\tmovq %rsp, returns_rsp(%rip)\n\t"
	"movq returns_stack(%rip), %rsp\n\tjmp *%rbx\n"
	".popsection\n");

/* To ring 3 at `target`, and back by RBX to what follows. */
#define BY_IRET(target)                                                                            \
	"leaq 1f(%%rip), %%rbx\n\tmovq $" target ", %%rax\n\t"                                     \
	"pushq $0x1b\n\tpushq $0\n\tpushq $2\n\tpushq $0x23\n\tpushq %%rax\n\t"
#define BY_SYSRET(target) "leaq 1f(%%rip), %%rbx\n\tmovq $" target ", %%rcx\n\tmovl $2, %%r11d\n\t"

/* The selectors of SYSEXIT are those of no user_code segment here: nothing loads them. */
static __attribute__((noinline)) void visit_each_way(uint64_t debugctl)
{
	TRACED_WITH(
		debugctl,
		"movq %%rsp, returns_stack(%%rip)\n\t" BY_IRET("0x5a0000001000") "returns_iret: iretq\n1:\tmovl $0x1d9, %%ecx\n\tmovl returns_debugctl(%%rip), %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\t" BY_SYSRET(
			"0x5a0000001000") "returns_sysret: sysretq\n1:\n\t"
					  "leaq 1f(%%rip), %%rbx\n\tmovq $0x5a0000001000, %%rdx\n\t"
					  "xorl %%ecx, %%ecx\n\treturns_sysexit: sysexitq\n1:\n\t",
		, , "rbx", "r11");
}

static __attribute__((noinline)) void visit_by_far_return(uint64_t debugctl)
{
	TRACED_WITH(debugctl,
		    "movq %%rsp, returns_stack(%%rip)\n\tleaq 1f(%%rip), %%rbx\n\t"
		    "movq $0x5a0000001000, %%rax\n\t"
		    "pushq $0x1b\n\tpushq $0\n\tpushq $0\n\tpushq $0x23\n\tpushq %%rax\n\t"
		    "returns_far: lretq $8\n1:\n\t",
		    , , "rbx", "r11");
}

/*
 * #UD of ring 0 and of ring 3; that of SYSRET without IA32_EFER.SCE; SYSCALL of ring 0, which is
 * none with it. EFER reads as it was written. #GP of WRMSR, whose error code is 0.
 */
static __attribute__((noinline)) void fault_each_way(uint64_t debugctl)
{
	TRACED_WITH(
		debugctl,
		"movq %%rsp, returns_stack(%%rip)\n\t"
		"leaq 1f(%%rip), %%rbx\n\tundefined_ud2: ud2\n1:\n\t" BY_IRET("0x5a000000100b") "iretq\n1:\n\t" BY_SYSRET(
			"0x5a000000100b") "sysretq\n1:\n\t"
					  "leaq 1f(%%rip), %%rbx\n\tsyscall\n1:\n\t"
					  "movl $0xc0000080, %%ecx\n\trdmsr\n\tmovq %%rax, returns_efer(%%rip)\n\t"
					  "andl $~1, %%eax\n\twrmsr\n\t" BY_SYSRET(
						  "0x5a0000001000") "undefined_sysret: sysretq\n1:\n\t"
								    "movl $0xc0000080, %%ecx\n\trdmsr\n\tshlq $32, %%rax\n\t"
								    "orq %%rax, returns_efer(%%rip)\n\tshrq $32, %%rax\n\torl $1, %%eax\n\twrmsr\n\t"
								    "leaq 1f(%%rip), %%rbx\n\tmovl $0x600, %%ecx\n\tmovl $0x80000000, %%edx\n"
								    "refused_wrmsr: wrmsr\n1:\n\t",
		, , "rbx", "r11");
}

static void run(struct rig *rig, void (*ways)(uint64_t debugctl), uint64_t debugctl)
{
	struct task_state *task_state = &this_cpu()->task_state;
	uint64_t stack = (uint64_t)test_area(1) + PAGE_SIZE, rsp0 = task_state->rsp[0];
	uint64_t entry = rdmsr(IA32_LSTAR), selector = rdmsr(IA32_SYSENTER_CS);

	EXACTLY (rig) {
		returns_count = undefined_count = 0;
		own_idt_load();
		task_state->rsp[0] = stack;
		wrmsr(IA32_LSTAR, (uint64_t)returns_back);
		wrmsr(IA32_SYSENTER_CS, 8);
		ways(debugctl);
		wrmsr(IA32_SYSENTER_CS, selector);
		wrmsr(IA32_LSTAR, entry);
		task_state->rsp[0] = rsp0;
		own_idt_unload();
	}
}

static void open(struct rig *rig)
{
	uint8_t *page = test_area(1);

	memcpy(page, user_code, sizeof(user_code));
	code_map(AT, page, VM_USER);
	own_idt_begin(VECTOR_UD, returns_undefined, false);
	own_idt_set(VECTOR_GP, returns_refused, false);
	rig_open(rig, 256);
}

static void close(struct rig *rig)
{
	rig_close(rig);
	code_unmap(AT);
}

/* Whether a transition is recorded is for the silicon to say; `*slot` is past it then. */
static void skip_transition(struct rig *rig, size_t *slot, const void *from, const void *to)
{
	struct bts_struct record = rig_record(rig, *slot);

	if (record.to == (uint64_t)to) {
		EXPECT_OR_ERRATUM(record.from == (uint64_t)from, "AR62");
		(*slot)++;
	}
}

static void expect_visit(struct rig *rig, size_t *slot, const char *from)
{
	skip_transition(rig, slot, from, (void *)AT);
	for (unsigned n = 0; n < BRANCHES; n++)
		rig_expect(rig, (*slot)++, (void *)JNZ_AT, (void *)DEC_AT);
	skip_transition(rig, slot, (void *)SYSCALL_AT, returns_back);
}

TEST(bts_filter_returns, .group = "P", .ids = "P1", .needs = NEED_BTS | NEED_DSCPL,
     .claim =
	     "with BTS_OFF_OS recording goes on with the first branch after IRET, SYSRET and SYSEXIT",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const char *const from[WAYS] = {returns_iret, returns_sysret, returns_sysexit};
	size_t slot = 0;
	struct rig rig CLOSED_BY(close);

	open(&rig);
	returns_debugctl = rig_all() | ds_configuration->off_os;
	run(&rig, visit_each_way, returns_debugctl);
	EXPECT_EQ(returns_count, WAYS);
	for (unsigned way = 0; way < WAYS; way++)
		expect_visit(&rig, &slot, from[way]);
	EXPECT_EQ(rig_count(&rig), slot);
}

/* A hypervisor may learn from the first visit that there are such returns, and has to say so. */
TEST(bts_filter_far_return, .group = "P", .ids = "P1",
     .needs = NEED_BTS | NEED_DSCPL | NEED_SELFTEST,
     .claim =
	     "with BTS_OFF_OS recording goes on after a far RET to ring 3, the second one at the latest",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	size_t slot = 0;
	struct rig rig CLOSED_BY(close);

	open(&rig);
	run(&rig, visit_by_far_return, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(returns_count, 1);
	test_observe("first_far_return", "%zu records", rig_count(&rig));
	run(&rig, visit_by_far_return, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(returns_count, 1);
	expect_visit(&rig, &slot, returns_far);
	EXPECT_EQ(rig_count(&rig), slot);
}

TEST(bts_filter_undefined, .group = "P", .ids = "P1 K12", .needs = NEED_BTS | NEED_DSCPL,
     .claim =
	     "with BTS_OFF_OS #UD and #GP arrive from ring 0 and ring 3, and IA32_EFER is as written",
     .source = "SDM Vol 3, 17.4.9.4 and 17.4.5: BTS stores records, and does nothing else")
{
	const uint64_t at[FAULTS] = {(uint64_t)undefined_ud2, UD2_AT, UD2_AT,
				     (uint64_t)undefined_sysret, (uint64_t)refused_wrmsr};
	struct rig rig CLOSED_BY(close);

	open(&rig);
	run(&rig, fault_each_way, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(returns_count, FAULTS + 1);
	EXPECT_EQ(undefined_count, FAULTS);
	for (unsigned n = 0; n < FAULTS; n++)
		EXPECT_EQ(undefined_at[n], at[n]);
	EXPECT_EQ(returns_efer & 0x100000001, 1);
	run(&rig, visit_by_far_return, rig_all());
	EXPECT_EQ(returns_rsp, 8); /* RET 8, to RSP = 0 */
	EXPECT(rig_record(&rig, 0).to != 0);
}

static size_t in_ring_3(const struct rig *rig)
{
	size_t found = 0;

	for (size_t slot = 0; slot < rig_count(rig); slot++)
		found += rig_record(rig, slot).from == JNZ_AT;
	return found;
}

/* BTF has no effect while TF is clear. */
TEST(bts_filter_while_on, .group = "P", .ids = "P1 P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "a filter that is set or cleared while branches are recorded is for the next branch",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	uint64_t os = ds_configuration->off_os, usr = ds_configuration->off_usr;
	struct rig rig CLOSED_BY(close);

	open(&rig);
	for (uint64_t btf = 0; btf <= DEBUGCTL_BTF; btf += DEBUGCTL_BTF) {
		uint64_t all = rig_all() | btf;

		EXPECT_EQ(change(&rig, all, all | os), 1);
		rig_expect(&rig, 0, filter_on, filter_on_to);
		EXPECT_EQ(change(&rig, all | os, all), 1);
		rig_expect(&rig, 0, filter_later, filter_later_to);
		EXPECT_EQ(change(&rig, all, all | usr), 2);
	}
	returns_debugctl = rig_all() | usr;
	run(&rig, visit_each_way, rig_all());
	EXPECT_EQ(in_ring_3(&rig), BRANCHES);
}
