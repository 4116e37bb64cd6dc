// SPDX-License-Identifier: MIT
// Each kind of indirect and far branch; calls and their returns; address ranges that filter or
// stop, each of them, by branches, events and MOV to CR3; TraceEn of two
// processors.
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pt_rig.h"

static struct pt_rig rig;

/* Each is entered by a jump to RAX: one that leads on to RBX, by way of pt_onward to RDX; a direct
   jump, a CALL and a RET to pt_out_of or RBX. After these a CALL of the RET before it; INT3; NOP
   and MOV of RCX to CR3. */
extern const char pt_ladder[], pt_out_jump[], pt_out_call[], pt_out_return[], pt_out_of[],
	pt_out_pops[], pt_out_calls[], pt_out_called[], pt_out_jcc[], pt_onward[], pt_breaks[],
	pt_nears_cr3[], pt_loads_cr3[];
__asm__(".pushsection .text\n"
	"pt_ladder: nop\n\tnop\n\tnop\n\tnop\n\t" PT_JMP_TO(
		"%rbx") "\n"
			"pt_out_jump: " PT_JMP(
				"pt_out_of") ".skip 8, 0xcc\n"
					     "pt_out_call: " PT_CALL(
						     "pt_out_pops") ".skip 8, 0xcc\n"
								    "pt_out_return: pushq %rbx\n\t" PT_RET
								    ".skip 8, 0xcc\n"
								    "pt_out_pops: popq %rax\n"
								    "pt_out_of: " PT_JMP_TO(
									    "%rbx") "\n"
										    "pt_onward: " PT_JMP_TO(
											    "%rdx") "\n"
												    "pt_breaks: int3\n\tnop\n\t" PT_JMP_TO(
													    "%rbx") "\n"
														    "pt_nears_cr3: nop\n"
														    "pt_loads_cr3: " PT_CR3(
															    "movq %rcx, %cr3")
															    PT_JMP_TO(
																    "%rbx") "\n"
																	    ".popsection");
#define AT(place) ((uint64_t)(place))

const void *pt_place, *pt_second;
uint64_t pt_cr3_loaded; /* in RCX */

#define NOWHERE 0x1000ul
struct range {
	unsigned use;
	uint64_t first, last;
};
enum { NONE, FILTER = RTIT_ADDR_FILTER, STOP = RTIT_ADDR_TRACE_STOP };

/* Jumps to `place`, with the second place, or else what follows the body, in RBX. Every third time
   with packets of time. */
static void go(uint64_t control, const struct range range[2], const void *place, const void *second)
{
	static unsigned turn;

	pt_again(&rig, PT_PLAIN);
	if (!(turn++ % 3))
		control |= RTIT_CTL_TSC_EN | (pt_caps()->psb_cyc ? RTIT_CTL_CYC_EN : 0);
	for (unsigned n = 0; n < 2 && n < pt_caps()->ranges; n++) {
		wrmsr(IA32_RTIT_ADDR0_A + 2 * n, range[n].first);
		wrmsr(IA32_RTIT_ADDR0_A + 2 * n + 1, range[n].last);
		control |= RTIT_CTL_ADDR_CFG(n, range[n].use);
	}
	pt_place = place;
	pt_second = second;
	PT_TRACED(
		&rig, control,
		"movq pt_second(%%rip), %%rbx\n\tleaq 771f(%%rip), %%rdx\n\ttestq %%rbx, "
		"%%rbx\n\tcmoveq %%rdx, %%rbx\n\tmovq pt_cr3_loaded(%%rip), %%rcx\n\tmovq pt_place(%%rip), "
		"%%rax\n\t" PT_JMP_TO("%%rax") "771:");
}

/* One range alone. */
static void go_one(uint64_t control, unsigned n, struct range range, const void *place,
		   const void *second)
{
	struct range both[2] = {{NONE, 0, 0}, {NONE, 0, 0}};

	both[n] = range;
	go(control, both, place, second);
}

static bool is_stopped(void)
{
	return rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_STOPPED;
}

/* Packets begin, go to a target unless it is 0, and end with a branch; 0: to what follows the body.
   There the trace may be stopped. */
static void expect_way(uint64_t begin, uint64_t target, uint64_t leave)
{
	struct pt_expected all[4] = {{.seen = SEEN_BEGIN, .to = begin},
				     {.seen = SEEN_TARGET, .to = target}};
	size_t n = target ? 2 : 1;

	all[n++] =
		(struct pt_expected){.seen = SEEN_LEAVE, .to = leave ? leave : pt_body_end(&rig)};
	all[n].seen = SEEN_STOP;
	pt_expect_flow(&rig, all, n + is_stopped());
}

#define ENABLES (RTIT_STATUS_FILTER_EN | RTIT_STATUS_CONTEXT_EN)

/* Skips the test where there are not two ranges. */
static void open_ranges(void)
{
	pt_need_ranges(2);
	pt_open(&rig, 1, false);
	pt_cr3_loaded = pt_own_cr3();
}

/* pt_ladder + 2 is the place. */
static void try_range(unsigned n, unsigned use, uint64_t first, uint64_t last, unsigned other)
{
	uint64_t place = AT(pt_ladder + 2);
	struct range range[2] = {{other, NOWHERE, NOWHERE}, {other, NOWHERE, NOWHERE}};
	bool in = first <= place && place <= last;

	range[n] = (struct range){use, first, last};
	go(PT_PLAIN, range, pt_ladder + 2, NULL);
	EXPECT_EQ(is_stopped(), use == STOP && in);
	if (use == STOP && other == FILTER) {
		if (in)
			PT_EXPECT_FLOW(&rig, {.seen = SEEN_STOP});
		else
			pt_expect_flow(&rig, NULL, 0);
	} else if (use == STOP && in) {
		expect_way(rig.first, 0, place);
	} else if (use == STOP) {
		PT_EXPECT_BODY(&rig, {.seen = SEEN_TARGET, .to = place},
			       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
	} else if (in) {
		expect_way(place, 0, 0);
	} else {
		pt_expect_flow(&rig, NULL, 0);
	}
}

TEST(pt_range_borders, .group = "PT", .ids = "PT124 PT126 PT128 PT129", .needs = NEED_PT,
     .claim = "each range, filtering or stopping, has its first and its last byte for what a "
	      "branch leads to; running into it or out of it counts for nothing",
     .source = "SDM Vol 3, 36.2.4")
{
	static const int64_t borders[][2] = {{0, 0}, {-1, 0},  {0, 1},	 {-2, 2}, {1, 2},
					     {1, 1}, {-2, -1}, {-1, -1}, {1, -1}, {0, 7}};
	const uint64_t place = AT(pt_ladder + 2);

	open_ranges();
	for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++)
		for (unsigned n = 0; n < 2; n++)
			for (unsigned use = FILTER; use <= STOP; use++)
				for (unsigned other = NONE; other <= STOP; other++)
					try_range(n, use, place + (uint64_t)borders[i][0],
						  place + (uint64_t)borders[i][1], other);
	/* Each bit of an address counts; bits 63:47 are all alike. */
	for (unsigned bit = 4; bit <= 47; bit++)
		for (unsigned n = 0; n < 4; n++) {
			uint64_t away = place ^ (bit < 47 ? 1ull << bit : ~0ull << bit);

			try_range(n % 2, n / 2 ? STOP : FILTER, away, away, NONE);
		}
	/* Addresses are unsigned: all of them, of the lower half and of the upper one. */
	for (unsigned n = 0; n < 2; n++) {
		go_one(PT_PLAIN, n, (struct range){FILTER, 0, ~0ull}, pt_ladder, NULL);
		PT_EXPECT_BODY(&rig, {.seen = SEEN_TARGET, .to = AT(pt_ladder)},
			       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
		go_one(PT_PLAIN, n, (struct range){STOP, 0, ~0ull}, pt_ladder, NULL);
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_STOP});
	}
	pt_close(&rig);
}

/* The ranges in one order, and in the other. */
static void go_pair(unsigned n, const struct range *one, const struct range *other,
		    const void *place, const void *second)
{
	struct range range[2];

	range[n] = *one;
	range[!n] = *other;
	go(PT_PLAIN, range, place, second);
}

/* IA32_RTIT_STATUS after TraceStop, while TraceEn is set: ContextEn is by IA32_RTIT_CTL (36.2.5.3).
   Goes to RDX. */
extern const char pt_reads_stopped[];
uint32_t pt_status_stopped;
__asm__(".pushsection .text\n"
	"pt_reads_stopped: movq %rdx, %rbx\n\tmovl $0x571, %ecx\n\trdmsr\n\t"
	"movl %eax, pt_status_stopped(%rip)\n\tjmp *%rbx\n"
	".popsection");

TEST(pt_two_ranges, .group = "PT", .ids = "PT73 PT74 PT125 PT129 PT130", .needs = NEED_PT,
     .claim = "of two ranges that filter either lets packets pass, and a direct jump between them "
	      "has none; one that stops prevails over one that filters, and stops nothing out of "
	      "context",
     .source = "SDM Vol 3, 36.2.4")
{
	static const struct range none = {NONE, 0, 0};
	const struct range ladder = {FILTER, AT(pt_ladder), AT(pt_ladder)},
			   onward = {FILTER, AT(pt_onward), AT(pt_onward)},
			   stop = {STOP, AT(pt_ladder), AT(pt_ladder)},
			   jump = {FILTER, AT(pt_out_jump), AT(pt_out_jump)},
			   out = {FILTER, AT(pt_out_of), AT(pt_out_of)};

	open_ranges();
	for (unsigned n = 0; n < 2; n++) {
		go_pair(n, &jump, &out, pt_out_jump, NULL);
		expect_way(AT(pt_out_jump), 0, 0);
		go_pair(n, &ladder, &onward, pt_ladder, pt_onward);
		expect_way(AT(pt_ladder), AT(pt_onward), 0);
		go_pair(n, &ladder, &none, pt_ladder, pt_onward);
		expect_way(AT(pt_ladder), 0, AT(pt_onward));
		go_pair(n, &onward, &none, pt_ladder, pt_onward);
		expect_way(AT(pt_onward), 0, 0);
		go_pair(n, &ladder, &stop, pt_ladder, pt_reads_stopped);
		EXPECT_EQ(pt_status_stopped & (RTIT_STATUS_STOPPED | ENABLES),
			  RTIT_STATUS_STOPPED | RTIT_STATUS_CONTEXT_EN);
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_STOP});
		go(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN,
		   (struct range[]){n ? stop : onward, n ? onward : stop}, pt_ladder, NULL);
		EXPECT(!is_stopped());
		pt_expect_flow(&rig, NULL, 0);
	}
	pt_close(&rig);
}

__asm__(".pushsection .text\n"
	"1:\t" PT_RET "pt_out_calls: " PT_CALL("1b") "pt_out_called: " PT_JMP_TO(
		"%rbx") "pt_out_jcc: " PT_JCC("jz", "pt_out_of") ".popsection");

/* Each a branch that the packets of `place` lead to, and where it goes; NULL: to RBX. ZF is set. */
static const struct {
	const char *place, *to;
} ways_out[] = {{pt_out_jump, pt_out_of},
		{pt_out_call, pt_out_pops},
		{pt_out_calls, pt_out_called},
		{pt_out_jcc, pt_out_of},
		{pt_out_return, NULL}};
enum { WAYS_OUT = 5 };

static bool ends_with_target(void)
{
	bool told = false;

	EACH_PACKET (&rig, reader, packet)
		told |= packet.kind == PACKET_TIP_PGD && packet.has_ip;
	return told;
}

/* They lead into range `n` as well, which filters, or stops the trace. */
static void expect_entered(unsigned n, const char *place, uint64_t to)
{
	go_one(PT_PLAIN, n, (struct range){FILTER, to, to}, place, NULL);
	expect_way(to, 0, 0);
	go_one(PT_PLAIN, n, (struct range){STOP, to, to}, place, NULL);
	expect_way(rig.first, AT(place), to);
}

/* Out of range `n` to a place whose upper bytes are others, and back: that target is the last
   address for the one where packets begin again. */
static void expect_far_and_back(unsigned n)
{
	static const uint8_t back[] = {0x48, 0x87, 0xd3, 0xff, 0xe0}; /* XCHG RBX, RDX; JMP RAX */
	const uint64_t far = 2ull << 32, place = AT(pt_ladder);
	uint8_t *page = test_area(1);

	memcpy(page, back, sizeof(back));
	code_map(far, page, 0);
	go_one(PT_PLAIN, n, (struct range){FILTER, place, place}, pt_ladder, (const void *)far);
	code_unmap(far);
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = place}, {.seen = SEEN_LEAVE, .to = far},
		       {.seen = SEEN_BEGIN, .to = place},
		       {.seen = SEEN_LEAVE, .to = pt_body_end(&rig)});
}

TEST(pt_range_left, .group = "PT", .ids = "PT20 PT31 PT124 PT127 PT128", .needs = NEED_PT,
     .claim = "a jump, a CALL and a RET out of a range that filters end the packets with their "
	      "target, from which the next address follows; into one they begin them, and into one "
	      "that stops they stop the trace",
     .source = "SDM Vol 3, 36.4.2 and 36.7")
{
	open_ranges();
	for (unsigned n = 0; n < 2 * WAYS_OUT; n++) {
		const char *place = ways_out[n / 2].place, *to = ways_out[n / 2].to;

		go_one(PT_PLAIN, n % 2, (struct range){FILTER, AT(place) - 1, AT(place) + 4}, place,
		       NULL);
		if (!to || place == pt_out_calls || place == pt_out_jcc ||
		    EXPECT_OR_ERRATUM(ends_with_target(), "SKL014"))
			expect_way(AT(place), 0, AT(to));
		if (to)
			expect_entered(n % 2, place, AT(to));
	}
	for (unsigned n = 0; n < 2; n++)
		expect_far_and_back(n);
	pt_close(&rig);
}

TEST(pt_range_events, .group = "PT", .ids = "PT29 PT122 PT123 PT131", .needs = NEED_PT,
     .claim = "an event out of a range that filters has its place and its handler, and IRET begins "
	      "packets again; one into it begins them; one into a range that stops stops",
     .source = "SDM Vol 3, 36.7")
{
	const uint64_t handler = AT(own_handler_return), place = AT(pt_breaks);

	open_ranges();
	own_idt_begin(VECTOR_BP, own_handler_return, false);
	own_idt_load();
	pt_add_branch(&rig, FLOW_FAR, own_handler_return, 2);
	for (unsigned n = 0; n < 2; n++) {
		go_one(PT_PLAIN, n, (struct range){FILTER, place, place + 1}, pt_breaks, NULL);
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = place},
			       {.seen = SEEN_END, .from = place, .to = handler, .bytes = 1},
			       {.seen = SEEN_BEGIN, .to = place + 1},
			       {.seen = SEEN_LEAVE, .to = pt_body_end(&rig)});
		go_one(PT_PLAIN, n, (struct range){FILTER, handler, handler}, pt_breaks, NULL);
		expect_way(handler, 0, place + 1);
		go_one(PT_PLAIN, n, (struct range){STOP, handler, handler}, pt_breaks, NULL);
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = rig.first},
			       {.seen = SEEN_TARGET, .to = place},
			       {.seen = SEEN_END, .from = place, .to = handler, .bytes = 1},
			       {.seen = SEEN_STOP});
		EXPECT(is_stopped());
		go_pair(n, &(struct range){STOP, handler, handler},
			&(struct range){FILTER, NOWHERE, NOWHERE}, pt_breaks, NULL);
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_STOP});
	}
	/* CR3 is not 0. */
	if (pt_caps()->cr3_filter) {
		go(PT_PLAIN | RTIT_CTL_CR3_FILTER, (struct range[2]){0}, pt_breaks, NULL);
		pt_expect_flow(&rig, NULL, 0);
	}
	own_idt_unload();
	pt_close(&rig);
}

TEST(pt_range_without_branch, .group = "PT", .ids = "PT132 PT146", .needs = NEED_PT,
     .claim =
	     "the WRMSR that sets TraceEn, and MOV to CR3 after its PIP, in a TraceStop range stop "
	     "the trace",
     .source = "SDM Vol 3, 36.4.2 and 36.7")
{
	const uint64_t next = AT(pt_loads_cr3) + 3, cr3 = pt_own_cr3() & 0xffffffffff000;

	open_ranges();
	for (unsigned n = 0; n < 2; n++) {
		go_one(PT_PLAIN, n, (struct range){STOP, 1ull << 47 | ~((1ull << 48) - 1), ~0ull},
		       pt_ladder, NULL);
		EXPECT(is_stopped());
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_STOP});
		/* Running into it does not count. */
		go_one(PT_PLAIN, n, (struct range){STOP, next - 3, next}, pt_nears_cr3, NULL);
		EXPECT(is_stopped());
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = rig.first},
			       {.seen = SEEN_TARGET, .to = AT(pt_nears_cr3)},
			       {.seen = SEEN_CR3, .to = cr3}, {.seen = SEEN_LEAVE, .to = next},
			       {.seen = SEEN_STOP});
		/* Nor does whether packets are on. */
		go_pair(n, &(struct range){STOP, next - 3, next},
			&(struct range){FILTER, NOWHERE, NOWHERE}, pt_nears_cr3, NULL);
		EXPECT(is_stopped());
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_STOP});
	}
	pt_close(&rig);
}

TEST(pt_range_of_space, .group = "PT", .ids = "PT29 PT31 PT74 PT124 PT130 PT132", .needs = NEED_PT,
     .claim =
	     "with a range and CR3Filter packets pass, FilterEn changes and a TraceStop range stops "
	     "where both the address and CR3 match",
     .source = "SDM Vol 3, 36.2.4")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CR3_FILTER, cr3 = pt_own_cr3();
	const uint64_t own = cr3 & 0xffffffffff000, space = pt_other_cr3();

	open_ranges();
	for (unsigned n = 0; n < 4; n++) {
		struct range range = {FILTER, AT(pt_ladder), AT(pt_ladder)};
		bool other = n / 2;

		rig.trace.configuration.cr3_match = other ? own ^ 0x1000 : own;
		go_one(control, n % 2, range, pt_ladder, NULL);
		if (other)
			pt_expect_flow(&rig, NULL, 0);
		else
			expect_way(AT(pt_ladder), 0, 0);
		range.use = STOP;
		go_one(control, n % 2, range, pt_ladder, NULL);
		EXPECT_EQ(is_stopped(), !other);
	}
	/* Out of the range once the context is left: that is not told. In one that stops when the
	   context begins. */
	pt_cr3_loaded = space;
	for (unsigned use = FILTER; use <= STOP; use++) {
		bool stops = use == STOP;
		uint64_t status;

		rig.trace.configuration.cr3_match = stops ? space : own;
		go_one(control, 0, (struct range){use, AT(pt_loads_cr3), AT(pt_loads_cr3) + 4},
		       pt_loads_cr3, NULL);
		__asm__ volatile("movq %0, %%cr3" : : "r"(cr3) : "memory");
		/* Out of context. Where it stopped ContextEn may follow IA32_RTIT_CTL: 0. */
		status = rdmsr(IA32_RTIT_STATUS) & (RTIT_STATUS_STOPPED | ENABLES);
		if (stops)
			EXPECT_EQ(status & ~RTIT_STATUS_CONTEXT_EN, RTIT_STATUS_STOPPED);
		else
			EXPECT_EQ(status, RTIT_STATUS_FILTER_EN);
	}
	pt_close(&rig);
}

extern const char pt_goes_far[];
__asm__(".pushsection .text\npt_goes_far: pushq $8\n\tpushq %rbx\n\t" PT_FAR(
	"lretq") ".popsection");

TEST(pt_stop_by_far, .group = "PT", .ids = "PT128", .needs = NEED_PT,
     .claim = "a far branch into a TraceStop range stops the trace as a near one does",
     .source = "SDM Vol 3, 36.2.4")
{
	open_ranges();
	for (unsigned n = 0; n < 2; n++) {
		go_one(PT_PLAIN, n, (struct range){STOP, AT(pt_onward), AT(pt_onward)}, pt_goes_far,
		       pt_onward);
		EXPECT(is_stopped());
		expect_way(rig.first, AT(pt_goes_far), AT(pt_onward));
	}
	pt_close(&rig);
}

/* --- Indirect branches, calls and returns -------------------------------------------------------
 */

uint64_t pt_pointer;

#define NEXT_IN_RAX    "leaq 771f(%%rip), %%rax\n\t"
#define NEXT_IN_MEMORY NEXT_IN_RAX "movq %%rax, pt_pointer(%%rip)\n\t"
#define IRET_TO_RAX                                                                                \
	"movq %%rsp, %%rdx\n\tpushq $0x10\n\tpushq %%rdx\n\tpushfq\n\tpushq $8\n\tpushq "          \
	"%%rax\n\t" PT_FAR("iretq")
#define TO_NEXT(body)                                                                              \
	do {                                                                                       \
		PT_TRACED(&rig, PT_PLAIN, body);                                                   \
		expect_next();                                                                     \
	} while (0)

static void expect_next(void)
{
	PT_EXPECT_BODY(&rig, {.seen = SEEN_TARGET, .to = pt_body_end(&rig) - 1});
	pt_again(&rig, PT_PLAIN);
}

TEST(pt_each_indirect, .group = "PT", .ids = "PT114 PT115", .needs = NEED_PT,
     .claim = "a jump or CALL through a register or memory, a RET with or without immediate, a far "
	      "RET and an IRET have their target",
     .source = "SDM Vol 3, 36.4.2 and 36.7")
{
	pt_open(&rig, 1, false);
	TO_NEXT(NEXT_IN_RAX PT_JMP_TO("%%rax") "ud2\n771:\tnop");
	TO_NEXT(NEXT_IN_MEMORY PT_JMP_TO("pt_pointer(%%rip)") "ud2\n771:\tnop");
	TO_NEXT(NEXT_IN_RAX PT_NOTE("5", "0", "call *%%rax") "ud2\n771:\tpopq %%rax");
	TO_NEXT(NEXT_IN_MEMORY PT_NOTE("5", "0",
				       "call *pt_pointer(%%rip)") "ud2\n771:\tpopq %%rax");
	TO_NEXT(NEXT_IN_RAX "pushq %%rax\n\t" PT_RET "ud2\n771:\tnop");
	TO_NEXT(NEXT_IN_RAX
		"pushq $0\n\tpushq %%rax\n\t" PT_NOTE("6", "0", "ret $8") "ud2\n771:\tnop");
	TO_NEXT(NEXT_IN_RAX "pushq $8\n\tpushq %%rax\n\t" PT_FAR("lretq") "ud2\n771:\tnop");
	TO_NEXT(NEXT_IN_RAX IRET_TO_RAX "ud2\n771:\tnop");
	pt_close(&rig);
}

TEST(pt_returns_far, .group = "PT", .ids = "PT119", .needs = NEED_PT,
     .claim = "a far RET or IRET to after a CALL has its target, however it came there",
     .source = "SDM Vol 3, 36.4.2")
{
	enum { CALL_BYTES = 5 };

	pt_open(&rig, 1, false);
	for (unsigned n = 0; n < 2; n++) {
		pt_again(&rig, PT_PLAIN);
		if (n)
			PT_TRACED(&rig, PT_PLAIN,
				  PT_CALL("1f") PT_JMP("9f") "1:\tpopq %%rax\n\t" IRET_TO_RAX "9:");
		else
			PT_TRACED(&rig, PT_PLAIN,
				  PT_CALL("1f") PT_JMP("9f") "1:\tpopq %%rax\n\tpushq $8\n\tpushq "
							     "%%rax\n\t" PT_FAR("lretq") "9:");
		PT_EXPECT_BODY(&rig, {.seen = SEEN_TARGET, .to = rig.first + CALL_BYTES});
	}
	pt_close(&rig);
}

/* A CALL, out of the range by way of RDX; back in, a RET to after the CALL. */
extern const char pt_leaves[], pt_comes_back[], pt_leaves_end[];
__asm__(".pushsection .text\n"
	"pt_leaves: " PT_CALL("1f")
		PT_JMP_TO("%rbx") "1:\t" PT_JMP_TO("%rdx") "pt_comes_back: " PT_RET
							   "pt_leaves_end:\n"
							   ".popsection");

TEST(pt_calls_out_of_range, .group = "PT", .ids = "PT120", .needs = NEED_PT,
     .claim = "a RET whose CALL was before the code left the address range has its target",
     .source = "SDM Vol 3, 36.4.2")
{
	enum { CALL_BYTES = 5, JMP_BYTES = 5 };

	pt_need_ranges(1);
	pt_open(&rig, 1, false);
	wrmsr(IA32_RTIT_ADDR0_A, AT(pt_leaves));
	wrmsr(IA32_RTIT_ADDR0_A + 1, AT(pt_leaves_end) - 1);
	PT_TRACED(&rig, PT_PLAIN | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER),
		  "leaq 771f(%%rip), %%rbx\n\tleaq 772f(%%rip), %%rdx\n\tjmp pt_leaves\n"
		  "772:\tjmp pt_comes_back\n771:");
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = AT(pt_leaves)},
		       {.seen = SEEN_LEAVE, .to = pt_body_end(&rig) - JMP_BYTES},
		       {.seen = SEEN_BEGIN, .to = AT(pt_comes_back)},
		       {.seen = SEEN_TARGET, .to = AT(pt_leaves) + CALL_BYTES},
		       {.seen = SEEN_LEAVE, .to = pt_body_end(&rig)});
	pt_close(&rig);
}

/* The CALL is before the range, what follows it within. */
extern const char pt_calls_in[], pt_called_in[];
__asm__(".pushsection .text\n"
	"pt_calls_in: call 1f\n"
	"pt_called_in: " PT_JMP_TO("%rbx") "1:\t" PT_RET ".popsection");

TEST(pt_call_into_range, .group = "PT", .ids = "PT120", .needs = NEED_PT,
     .claim = "a RET whose CALL led into the address range has its target",
     .source = "SDM Vol 3, 36.4.2")
{
	uint64_t first = AT(pt_called_in);

	open_ranges();
	go_one(PT_PLAIN, 0, (struct range){FILTER, first, first + 2}, pt_calls_in, NULL);
	expect_way(first + 2, first, 0);
	pt_close(&rig);
}

uint32_t pt_depth, pt_bytes_before;

/* A CALL and jumps; the trace ends, in the second turn since its output is full; the RET is in one
   that begins without PSB, where there is PacketByteCnt. */
TEST(pt_calls_forgotten, .group = "PT", .ids = "PT120", .needs = NEED_PT,
     .claim = "a RET whose CALL was before packets were off has its target",
     .source = "SDM Vol 3, 36.4.2")
{
	enum { CALL_BYTES = 5, RET_BYTES = 1, ROOM = 500 };

	pt_open(&rig, 1, false);
	pt_bytes_before = pt_caps()->psb_cyc ? 100 : 0;
	for (pt_depth = 1; pt_depth <= 2 * ROOM; pt_depth *= 2 * ROOM) {
		pt_again(&rig, PT_PLAIN);
		wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, RTIT_POINTERS(0, PT_RIG_BYTES - ROOM));
		PT_TRACED(
			&rig, PT_PLAIN,
			PT_CALL("1f") PT_JMP(
				"9f") "1:\tmovl pt_depth(%%rip), %%esi\n\t"
				      "leaq 2f(%%rip), %%rbx\n2:\tdecl %%esi\n\t" PT_JCC("jz", "3f") PT_JMP_TO(
					      "%%rbx") "3:\tmovl $0x570, %%ecx\n\trdmsr\n\tmovl %%eax, %%edi\n\t"
						       "xorl $1, %%eax\n\twrmsr\n\tincl %%ecx\n\txorl %%eax, %%eax\n\t"
						       "movl pt_bytes_before(%%rip), %%edx\n\twrmsr\n\t"
						       "movl $0x561, %%ecx\n\tmovl $0x7f, %%eax\n\txorl %%edx, %%edx\n\t"
						       "wrmsr\n\tmovl $0x570, %%ecx\n\tmovl %%edi, %%eax\n\twrmsr\n\t" PT_RET
						       "9:");
		PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = pt_body_end(&rig) - RET_BYTES},
			       {.seen = SEEN_TARGET, .to = rig.first + CALL_BYTES},
			       {.seen = SEEN_END, .from = rig.last});
	}
	pt_close(&rig);
}

/* A CALL, into the range that stops; a trace whose range is elsewhere and without PSB; the RET. */
extern const char pt_stops[], pt_stops_here[], pt_stops_return[];
__asm__(".pushsection .text\n"
	"pt_stops: " PT_CALL("1f") PT_JMP_TO("%rbx") "1:\t" PT_JMP(
		"pt_stops_here") "ud2\n"
				 "pt_stops_here: movl $0x570, %ecx\n\trdmsr\n\tmovl %eax, %esi\n\tmovl %edx, %edi\n\t"
				 "xorl $1, %eax\n\twrmsr\n\tmovl $0x571, %ecx\n\txorl %eax, %eax\n\tmovl $100, %edx\n\t"
				 "wrmsr\n\tmovl $0x580, %ecx\n\txorl %edx, %edx\n\twrmsr\n\tincl %ecx\n\twrmsr\n\t"
				 "movl $0x570, %ecx\n\tmovl %esi, %eax\n\tmovl %edi, %edx\n\twrmsr\n"
				 "pt_stops_return: " PT_RET ".popsection");

TEST(pt_calls_before_stop, .group = "PT", .ids = "PT120 PT128", .needs = NEED_PT,
     .claim = "a RET whose CALL was before TraceStop has its target", .source = "SDM Vol 3, 36.4.2")
{
	enum { CALL_BYTES = 5 };
	const struct range range[2] = {{STOP, AT(pt_stops_here), AT(pt_stops_here)}, {NONE, 0, 0}};

	pt_need_cycles();
	open_ranges();
	go(PT_PLAIN, range, pt_stops, NULL);
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = rig.first},
		       {.seen = SEEN_TARGET, .to = AT(pt_stops)},
		       {.seen = SEEN_LEAVE, .to = AT(pt_stops_here)}, {.seen = SEEN_STOP},
		       {.seen = SEEN_BEGIN, .to = AT(pt_stops_return)},
		       {.seen = SEEN_TARGET, .to = AT(pt_stops) + CALL_BYTES},
		       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)},
		       {.seen = SEEN_END, .from = rig.last});
	pt_close(&rig);
}

TEST(pt_deep_calls, .group = "PT", .ids = "PT118", .needs = NEED_PT,
     .claim = "of more than 64 calls that did not return the oldest are forgotten",
     .source = "SDM Vol 3, 36.4.2")
{
	pt_open(&rig, 1, false);
	for (pt_depth = 62; pt_depth < 69; pt_depth++) {
		unsigned branches = 0;

		pt_again(&rig, PT_PLAIN);
		PT_TRACED(&rig, PT_PLAIN,
			  "movl pt_depth(%%rip), %%esi\n\t" PT_CALL("1f")
				  PT_JMP("9f") "1:\tdecl %%esi\n\t" PT_JCC("jz", "2f")
					  PT_CALL("1b") "2:\t" PT_RET "9:");
		EACH_FLOW (&rig, flow, item)
			branches += item.what == FLOW_BRANCH || item.what == FLOW_NOT_TAKEN;
		pt_expect_end(&flow); /* it forgets them too */
		EXPECT_EQ(branches, 3 * pt_depth + 1);
	}
	pt_close(&rig);
}

/* --- Two processors that begin and end traces ------------------------------------------------- */

enum { SWITCHES = 600 };

TEST(pt_switch_beside_another, .group = "PT", .ids = "PT65 PT147", .needs = NEED_PT | NEED_SMP,
     .claim = "two processors that set and clear TraceEn at once have each its own IA32_RTIT_CTL",
     .source = "SDM Vol 3, 36.2.7")
{
	struct pt_beside beside;

	test_go_to(0);
	pt_beside_open(&beside, pt_switch_beside);
	pt_open(&rig, 1, true);
	pt_beside_start(&beside);
	for (unsigned n = 0; n < SWITCHES; n++) {
		pt_switch(PT_PLAIN, PT_PLAIN | RTIT_CTL_DIS_RETC);
		EXPECT(wrmsr_safe(IA32_RTIT_STATUS, 0));
	}
	pt_close(&rig);
	pt_beside_close(&beside);
}

/* --- Events of two processors at once --------------------------------------------------------- */

enum { INT3S = 40, INT3_AT = 5, ROUNDS = 45, IRETQ_BYTES = 2 };

/* Each has one event and one return. */
static void trace_int3s(struct pt_rig *traced)
{
	const uint64_t handler = (uint64_t)own_handler_return;
	unsigned events = 0, returns = 0;

	pt_again(traced, PT_PLAIN);
	own_idt_load();
	PT_TRACED(traced, PT_PLAIN,
		  "movl $40, %%esi\n1:\tint3\n\tdecl %%esi\n\t" PT_JCC("jnz", "1b"));
	own_idt_unload();
	EACH_FLOW (traced, flow, item) {
		events += item.what == FLOW_EVENT && item.from == traced->first + INT3_AT &&
			  item.to == handler;
		returns += item.what == FLOW_BRANCH && item.from == handler;
	}
	pt_expect_end(&flow);
	EXPECT_EQ(events, INT3S);
	EXPECT_EQ(returns, INT3S);
}

TEST(pt_events_beside_another, .group = "PT", .ids = "PT147", .needs = NEED_PT | NEED_SMP,
     .claim = "an INT3 has its own address and one target while another processor has its own",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_beside beside;

	own_idt_begin(VECTOR_BP, own_handler_return, false);
	test_go_to(0);
	pt_beside_open(&beside, trace_int3s);
	pt_add_branch(&beside.rig, FLOW_FAR, own_handler_return, IRETQ_BYTES);
	pt_open(&rig, 1, false);
	pt_add_branch(&rig, FLOW_FAR, own_handler_return, IRETQ_BYTES);
	pt_beside_start(&beside);
	for (unsigned n = 0; n < ROUNDS; n++)
		trace_int3s(&rig);
	pt_close(&rig);
	pt_beside_close(&beside);
}
