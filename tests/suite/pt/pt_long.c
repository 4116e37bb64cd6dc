// SPDX-License-Identifier: MIT
// The state in PSB+, by what is enabled; times and frequencies in long traces; two at once.
#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/silicon.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pt_rig.h"

#define MSR_PLATFORM_INFO 0xceu

/* --- Long traces, in one region of 1 MiB ------------------------------------------------------ */

enum { ORDER = PAGE_ORDER_MOST };

static struct pt_rig rig;
static uint64_t region;

static void open(void)
{
	pt_open(&rig, 1, false);
	region = page_alloc_run(ORDER);
	EXPECT(region);
}

static void close(void)
{
	pt_close(&rig);
	page_free_run(region, ORDER);
}

uint32_t pt_long_turns;

/* Turns of a loop of one instruction, or of a jump to a register; `status` is that of the begin. */
static void run_long(uint64_t control, bool jumps, uint32_t turns, uint64_t status)
{
	rig.memory = direct(region);
	rig.table[0] = region | TOPA_SIZE(ORDER);
	pt_long_turns = turns;
	wrmsr(IA32_RTIT_OUTPUT_BASE, rig.trace.buffer.table_address);
	wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, 0);
	wrmsr(IA32_RTIT_STATUS, status);
	if (jumps)
		PT_TRACED(&rig, control,
			  "movl pt_long_turns(%%rip), %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\tdecl "
			  "%%esi\n\t" PT_JCC("jz", "2f") PT_JMP_TO("%%rbx") "2:");
	else
		PT_TRACED(&rig, control,
			  "movl pt_long_turns(%%rip), %%ecx\n1:\t" PT_JCC("loop", "1b"));
	EXPECT(!(rig.trace.status & (RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED)));
	EXPECT_EQ(RTIT_TABLE_INDEX(rig.trace.output_mask_ptrs), 0);
}

/* What PSB+ says, as often as there is one. */
struct status {
	unsigned syncs, ends, pips, tscs, ratios, modes, fups, others;
};

static void add_status(struct status *status, const struct packet *packet)
{
	switch (packet->kind) {
	case PACKET_PSB:
		status->syncs++;
		return;
	case PACKET_PSBEND:
		status->ends++;
		return;
	case PACKET_PIP:
		status->pips++;
		EXPECT_EQ(packet->value, pt_own_cr3() & 0xffffffffff000);
		EXPECT_EQ(packet->count & ~(unsigned)silicon_is_foreign_guest(), 0); /* NR */
		return;
	case PACKET_TSC:
		status->tscs++;
		return;
	case PACKET_CBR:
		status->ratios += !!(packet->value & 0xff);
		return;
	case PACKET_MODE_EXEC:
		status->modes++;
		EXPECT_EQ(packet->value, 1); /* CS.L */
		return;
	case PACKET_FUP:
		status->fups++;
		return;
	case PACKET_MODE_TSX: /* 36.3.7: where there is TSX, and in VMX operation */
	case PACKET_VMCS:
	case PACKET_PAD:
	case PACKET_MNT:
		return;
	default:
		status->others++;
	}
}

TEST(pt_long_status, .group = "PT", .ids = "PT98 PT99 PT100 PT101 PT102 PT107", .needs = NEED_PT,
     .claim = "amid a trace each PSB+ has the time, the ratio, CR3, the mode and the address of "
	      "the next instruction, and the time never goes back",
     .source = "SDM Vol 3, 36.3.7 and 36.4.2")
{
	enum { TURNS = 30000 };
	uint64_t taken = 0, first = 0, time = 0, before = pt_time_now();
	struct status status = {0};
	unsigned amid = 0, lost = 0;

	open();
	run_long(PT_PLAIN | RTIT_CTL_TSC_EN, false, TURNS, 0);
	EACH_FLOW (&rig, flow, item) {
		taken += item.what == FLOW_BRANCH;
		lost += item.what == FLOW_LOST;
		if (item.packet.kind == PACKET_PSB || item.packet.kind == PACKET_PSBEND ||
		    item.packet.role == ROLE_STATUS)
			add_status(&status, &item.packet);
		amid += item.packet.kind == PACKET_PSB && item.from;
		if (item.what != FLOW_PACKET || item.packet.kind != PACKET_TSC)
			continue;
		EXPECT(item.packet.value >= (time ? time : before));
		time = item.packet.value;
		first = first ? first : time;
	}
	EXPECT(time > first && (!before || time <= pt_time_now()));
	pt_expect_end(&flow);
	EXPECT(lost || taken == TURNS - 1);
	EXPECT(status.syncs > 2 && status.ends == status.syncs && status.pips == status.syncs);
	EXPECT(status.tscs == status.syncs && status.ratios == status.syncs);
	EXPECT(amid > 1 && status.modes >= amid && status.modes <= status.syncs);
	EXPECT_EQ(status.others, 0);
	close();
}

/* How many packets begin and end a trace; those of time and ratio that come before. */
struct course {
	unsigned begun, ended, early;
};

static struct course read_course(struct packet_reader *reader, struct status *in,
				 struct status *all)
{
	struct course course = {0};
	struct packet packet;

	while (packet_next(reader, &packet)) {
		add_status(all, &packet);
		if (packet.role == ROLE_STATUS)
			add_status(in, &packet);
		course.begun += packet.kind == PACKET_TIP_PGE;
		course.ended += packet.kind == PACKET_TIP_PGD;
		course.early +=
			(packet.kind == PACKET_CBR || packet.kind == PACKET_TSC) && !course.begun;
	}
	return course;
}

TEST(pt_begin_status, .group = "PT", .ids = "PT98 PT99 PT100 PT101 PT102 PT105 PT106 PT133 PT139",
     .needs = NEED_PT,
     .claim = "PSB+ has PIP with OS in context and the time with TSCEn, each only then; out of "
	      "context there is nothing else, and without PSB the time and the ratio come first",
     .source = "SDM Vol 3, 36.2.7, 36.3.7 and 36.4.2")
{
	static const struct {
		uint64_t control, bytes;
		bool on, pip;
	} rows[] = {
		{PT_PLAIN, 0, true, true},
		{PT_PLAIN | RTIT_CTL_TSC_EN, 0, true, true},
		{PT_PLAIN | RTIT_CTL_USER | RTIT_CTL_TSC_EN, 0, true, true},
		{RTIT_CTL_USER | RTIT_CTL_BRANCH_EN, 0, false, false},
		{RTIT_CTL_USER | RTIT_CTL_BRANCH_EN | RTIT_CTL_TSC_EN, 0, false, false},
		{PT_PLAIN | RTIT_CTL_CR3_FILTER, 0, false, false},
		{PT_PLAIN | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER), 0, false, true},
		{PT_PLAIN | RTIT_CTL_ADDR_CFG(1, RTIT_ADDR_FILTER), 0, false, true},
		{PT_PLAIN, 100, true, true},
		{PT_PLAIN | RTIT_CTL_TSC_EN, 100, true, true},
		{RTIT_CTL_USER | RTIT_CTL_BRANCH_EN | RTIT_CTL_TSC_EN, 100, false, false},
	};

	pt_open(&rig, 1, false);
	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		struct status in = {0}, all = {0};
		struct packet_reader reader;
		struct course course;
		unsigned sync;
		bool tsc = rows[n].control & RTIT_CTL_TSC_EN;

		if ((rows[n].control >> 36 && pt_caps()->ranges < 2) ||
		    (rows[n].control >> 32 && !pt_caps()->ranges) ||
		    (rows[n].control & RTIT_CTL_CR3_FILTER && !pt_caps()->cr3_filter) ||
		    (rows[n].bytes && !pt_caps()->psb_cyc))
			continue;
		pt_again(&rig, PT_PLAIN);
		if (pt_caps()->cr3_filter)
			wrmsr(IA32_RTIT_CR3_MATCH, pt_own_cr3() ^ 0x100000);
		wrmsr(IA32_RTIT_STATUS, rows[n].bytes << 32);
		PT_TRACED(&rig, rows[n].control,
			  "movl $20, %%ecx\n1:\tloop 1b\n\tmovq %%cr3, %%rax\n\tmovq %%rax, %%cr3");
		pt_reader(&rig, &reader);
		course = read_course(&reader, &in, &all);
		EXPECT(!reader.error && !reader.in_psb);
		sync = all.syncs; /* more than one, and one within the period, are allowed */
		EXPECT(sync || rows[n].bytes);
		EXPECT_EQ(all.ends, sync);
		EXPECT_EQ(in.pips, rows[n].pip ? sync : 0);
		/* MOV to CR3 */
		EXPECT_EQ(all.pips > in.pips, rows[n].pip);
		EXPECT(!sync || in.tscs == (tsc ? sync : 0));
		EXPECT(!tsc || sync || course.early >= 2);
		EXPECT_EQ(all.tscs > 0, tsc); /* one more after any event that stops clocks */
		EXPECT(sync ? in.ratios == sync : all.ratios >= 1);
		EXPECT_EQ(course.begun, rows[n].on);
		EXPECT_EQ(course.ended, rows[n].on);
		if (!rows[n].on)
			EXPECT(!all.fups && !all.modes && !all.others);
	}
	pt_close(&rig);
}

/* Of a long trace with PSBFreq. */
static uint64_t bytes_of_each_psb(uint64_t frequency, uint32_t turns, uint64_t status)
{
	uint64_t period = 2048ul << frequency, count = 0, average;

	run_long(PT_PLAIN | frequency << 24, true, turns, status);
	EACH_PACKET (&rig, reader, packet)
		count += packet.kind == PACKET_PSB;
	test_observe("psb", "%lu of PSBFreq %lu in %zu bytes", count, frequency, reader.size);
	EXPECT(!reader.error);
	REQUIRE(count > 0);
	average = reader.size / count;
	EXPECT(average < 2 * period);
	EXPECT(average > period / 8);
	return average;
}

TEST(pt_psb_frequency, .group = "PT", .ids = "PT104", .needs = NEED_PT,
     .claim =
	     "with each PSBFreq there is on average a PSB about every 2 KiB << PSBFreq of packets, "
	     "or in fewer, be it that the trace begins without",
     .source = "SDM Vol 3, 36.2.7 and 36.4.2")
{
	enum { TURNS = 1600, VALUES = 6 }; /* longer packets, and MNT, fit into the region */
	uint64_t average[VALUES] = {0};

	pt_need_cycles();
	open();
	for (uint64_t value = 0; value < VALUES; value++)
		if (pt_caps()->psb_frequencies >> value & 1)
			average[value] = bytes_of_each_psb(value, TURNS << value, 0);
	/* Four times the period, and nearly so many bytes. */
	EXPECT(!average[0] || !average[2] || average[2] > 2 * average[0]);
	if (average[0])
		bytes_of_each_psb(0, 8 * TURNS, 100ull << 32);
	close();
}

/* The bits that many a difference of two readings of the TSC has. A processor may count its TSC in
   steps, of 26 say: then bit 0 is set in none, or by chance in one. */
static uint64_t common_bits(void)
{
	enum { READINGS = 512, MANY = READINGS / 8 };
	unsigned set[64] = {0};
	uint64_t common = 0, last = __builtin_ia32_rdtsc();

	for (unsigned n = 0; n < READINGS; n++) {
		uint64_t now = __builtin_ia32_rdtsc();

		for (unsigned bit = 0; bit < 64; bit++)
			if (((now - last) >> bit & 1) && ++set[bit] == MANY)
				common |= 1ull << bit;
		last = now;
	}
	return common;
}

/* Whether so many cycles pass in as many ticks of the TSC, the core's clock being `ratio` times
   that of the bus: SDM Vol 3, 36.8.3.2. Where nothing says what the TSC's is either may be far
   slower. */
static bool is_time(uint64_t cycles, uint64_t least, uint64_t ticks, unsigned ratio)
{
	uint64_t info = 0, tsc = 0, parts = 16, fewest = 1, most = 8 * parts;

	if (!silicon_is_foreign_guest() && rdmsr_safe(MSR_PLATFORM_INFO, &info))
		tsc = info >> 8 & 0xff;
	if (ratio && tsc) {
		ticks = ticks * ratio / tsc;
		fewest = 10;
		most = 22;
	}
	return (cycles + least) * parts > ticks * fewest && cycles * parts < ticks * most;
}

/* The cycles of all CYC packets of a long trace are those that pass, but for fewer than CycThresh
   at its end. Of the low bits of their counts none is always set; of many without a threshold that
   have a higher one each is set in some. A host of virtual silicon that takes the processor away
   outside the trace spoils it. */
static bool cycles_pass(uint64_t threshold)
{
	enum { TURNS = 12000, MANY = 64, HIGH = 11, LOWEST = 0x1f };
	uint64_t least = threshold ? 1ul << (threshold - 1) : 0, passed, lost = 0;
	uint64_t sum = 0, set = 0, clear = 0, high = 0;
	unsigned ratio = 0;

	passed = __builtin_ia32_rdtsc();
	run_long(PT_PLAIN | RTIT_CTL_CYC_EN | threshold << 19, true, TURNS, 0);
	passed = __builtin_ia32_rdtsc() - passed;
	EACH_PACKET (&rig, reader, packet) {
		lost += packet.kind == PACKET_OVF;
		if (packet.kind == PACKET_CBR)
			ratio = packet.value & 0xff;
		if (packet.kind != PACKET_CYC)
			continue;
		sum += packet.value;
		set |= packet.value;
		clear |= ~packet.value;
		high += packet.value >> HIGH != 0;
		EXPECT(packet.value >= least);
	}
	EXPECT(!reader.error);
	if (threshold || high < MANY)
		set = ~0ul;
	return (lost || is_time(sum, least, passed, ratio)) && !(~clear & LOWEST) &&
	       !(~set & common_bits() & ((1ul << HIGH) - 1));
}

TEST(pt_cycles, .group = "PT", .ids = "PT109 PT110", .needs = NEED_PT,
     .claim =
	     "CYC packets together count the cycles that pass, each at least CycThresh, to the cycle",
     .source = "SDM Vol 3, 36.2.7 and 36.4.2")
{
	pt_need_cycles();
	open();
	for (uint64_t threshold = 0; threshold < 16; threshold++) {
		bool passed = !(pt_caps()->cycle_thresholds >> threshold & 1);

		for (unsigned turn = 0; turn < 10 && !passed; turn++)
			passed = cycles_pass(threshold);
		EXPECT(passed);
	}
	close();
}

/*
 * Cycles from one packet that may have a CYC to the next, by powers of two: those from 2^n on, up
 * to 2^(n+1), in a row of which the one before is not shorter. A threshold of 2^n lets both have a
 * CYC, and a larger one not.
 */
struct gaps {
	unsigned count, of[64];
};

static struct gaps read_gaps(uint64_t threshold)
{
	struct gaps gaps = {0};
	uint64_t sum = 0, before = 0;

	run_long(PT_PLAIN | RTIT_CTL_CYC_EN | threshold << 19, true, 3000, 0);
	EACH_PACKET (&rig, reader, packet) {
		if (packet.kind == PACKET_CYC)
			sum += packet.value;
		if (packet.kind == PACKET_PSB || packet.kind == PACKET_OVF)
			before = sum = 0;
		if (packet.kind != PACKET_TNT && packet.kind != PACKET_TIP)
			continue;
		gaps.count++;
		if (sum && before >> (63 - __builtin_clzll(sum)))
			gaps.of[63 - __builtin_clzll(sum)]++;
		before = sum;
		sum = 0;
	}
	EXPECT(!reader.error);
	return gaps;
}

/* Whether every eighth packet or more is 2^n cycles after the one before or up to twice as many,
   if each may have a CYC. */
static bool often(uint64_t n)
{
	struct gaps all = read_gaps(0);

	return all.of[n] > all.count / 8;
}

/*
 * A stand-alone CYC and the next one are one gap: 36.4.2. Gaps may be longer at times, where a host
 * takes the processor away, and all of them where it gets slower: so they are looked at before and
 * after.
 */
TEST(pt_cycle_threshold, .group = "PT", .ids = "PT150", .needs = NEED_PT,
     .claim = "packets CycThresh cycles apart, and up to twice as many, have a CYC",
     .source = "SDM Vol 3, 36.3.6")
{
	unsigned tried = 0;

	pt_need_cycles();
	open();
	for (uint64_t threshold = 1; threshold < 16; threshold++) {
		bool asked = pt_caps()->cycle_thresholds >> threshold & 1 && often(threshold - 1);
		unsigned found = 0, missed = 0;

		for (unsigned turn = 0; turn < 10 && asked && !found; turn++) {
			found = read_gaps(threshold).of[threshold - 1];
			missed += !found && often(threshold - 1);
		}
		tried += found > 0;
		EXPECT(found > 0 || missed < 5);
	}
	close();
	if (!tried)
		test_skip("no packets are so few cycles apart");
}

TEST(pt_only_what_is_asked, .group = "PT", .ids = "PT108", .needs = NEED_PT,
     .claim = "branches alone have no TSC, CYC, MTC and no packets of other events",
     .source = "SDM Vol 3, 36.2.7")
{
	unsigned others = 0;

	open();
	run_long(PT_PLAIN, true, 3000, 0);
	EACH_PACKET (&rig, reader, packet)
		others += packet.kind == PACKET_TSC || packet.kind == PACKET_TMA ||
			  packet.kind == PACKET_MTC || packet.kind == PACKET_CYC ||
			  packet.kind >= PACKET_PTW || packet.kind == PACKET_TRACE_STOP;
	EXPECT(!reader.error);
	EXPECT_EQ(others, 0);
	EXPECT(reader.size > 0);
	close();
}

/* --- Beside another processor ----------------------------------------------------------------- */

/*
 * Code far away. JUMPS: a direct jump to WAITS, 64 KiB away: a conditional branch, which
 * stays in TNT; says by RSI that it waits, and halts. ENDS: a WRMSR that ends a trace, and a jump
 * to RBX; the same in 32-bit code whose segment has a base, with a far jump between the two.
 */
enum { WAITS_PAGE = 16, HALTED = 12, ENDS = 32, IRETQ_BYTES = 2 };
#define BASED_AT 0x40100000u
static const uint8_t waits_code[] = {0x31, 0xc0, 0x74, 0x00, 0xc7, 0x06, 0x01,
				     0x00, 0x00, 0x00, 0xfb, 0xf4, 0xeb, 0xfd};
static const uint8_t ends_code[] = {0x0f, 0x30, 0xff, 0xe3};
static const uint8_t based_code[] = {0x0f, 0x30, 0xea, 0x09, 0x00, 0x10,
				     0x40, 0x08, 0x00, 0xff, 0xe3};
const uint8_t *pt_jumps, *pt_waits;
uint64_t pt_ends, pt_ends_code, pt_ends_from; /* offset, selector, the address in packets */

/* RSI times a CALL without its RET, then to RBX; after the CALL: to RDX. */
extern const char pt_many_calls[], pt_after_call[];
__asm__(".pushsection .text\n"
	"pt_many_calls:\n1:\t" PT_CALL("2f") "pt_after_call: " PT_JMP_TO(
		"%rdx") "2:\tpopq %rax\n\t"
			"decl %esi\n\t" PT_JCC("jnz", "1b") PT_JMP_TO("%rbx") ".popsection");
#define MANY_CALLS "movl $67, %%esi\n\tleaq 9f(%%rip), %%rbx\n\t" PT_JMP("pt_many_calls") "9:\t"

static struct pt_rig other;
atomic_uint pt_waiting, pt_calls_before;
uint32_t pt_ended; /* IA32_RTIT_CTL without TraceEn: KVM refuses a write that clears more */

/* While the first processor waits: a trace that ends where that one is. Then the interrupt, and
   others until that processor's trace is over. */
static void trace_beside(void *target)
{
	uint64_t period = pt_caps()->psb_frequencies >> 2 & 1 ? 2ull << 24 : 0;
	bool based = pt_ends_code == OWN_CODE_32_BASED;
	uint64_t flags = interrupts_save();

	while (!atomic_load(&pt_waiting))
		__asm__ volatile("pause");
	EXPECT_EQ(pt_load(&other.trace), 0);
	wrmsr(IA32_RTIT_STATUS, 0);
	pt_ended = (uint32_t)(pt_on(PT_PLAIN | period) & ~RTIT_CTL_TRACE_EN);
	own_gdt_load();
	PT_TRACED(
		&other, PT_PLAIN | period,
		MANY_CALLS
		"movl $0x570, %%ecx\n\tmovl pt_ended(%%rip), %%eax\n\txorl %%edx, %%edx\n\t"
		"leaq 8f(%%rip), %%rbx\n\tpushq pt_ends_code(%%rip)\n\tpushq pt_ends(%%rip)\n\t" PT_FAR(
			"lretq") "8:");
	own_gdt_unload();
	EXPECT(lapic_send_ipi(*(const uint32_t *)target, VECTOR_TEST));
	/* Out of context, over and over, but not for as long as the other may take; after code with
	   a base nothing. */
	for (unsigned n = 0; !based && n < 1000 && atomic_load(&pt_waiting) == 1; n++) {
		wrmsr(IA32_RTIT_CTL, pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN | period));
		pt_off();
	}
	wrmsr(IA32_RTIT_STATUS, 0);
	interrupts_restore(flags);
}

static void make_code(uint8_t *code)
{
	uint8_t jump[5] = {0xe9}, *waits = code + WAITS_PAGE * PT_RIG_BYTES;

	memcpy(jump + 1, &(uint32_t){WAITS_PAGE * PT_RIG_BYTES - sizeof(jump)}, 4);
	memcpy(code, jump, sizeof(jump));
	memcpy(waits, waits_code, sizeof(waits_code));
	memcpy(waits + ENDS, ends_code, sizeof(ends_code));
	code_seal(code, WAITS_PAGE + 1);
	pt_jumps = code;
	pt_waits = waits;
}

/* Where the other trace ends: near WAITS, or in code with a base, whose addresses in packets are
   within the segment, or linear. */
static void choose_end(bool based)
{
	pt_ends_code = based ? OWN_CODE_32_BASED : KERNEL_CODE;
	pt_ends = based ? BASED_AT - OWN_BASE : (uint64_t)pt_waits + ENDS;
	pt_ends_from = pt_ends + (based && cpuid(0x14, 0).ecx >> 31 ? OWN_BASE : 0);
}

#define WAITING                                                                                    \
	"cmpl $0, pt_calls_before(%%rip)\n\t" PT_JCC("je", "5f")                                   \
		PT_CALL("6f") "nop\n5:\tpushq %%rax\n6:\tpopq %%rax\n\t"                           \
			      "leaq pt_waiting(%%rip), %%rsi\n\tleaq 7f(%%rip), %%rbx\n\t"         \
			      "movq pt_jumps(%%rip), %%rax\n\t" PT_JMP_TO("%%rax") "7:\tcli\n\t"
#define RET_OF_OTHER                                                                               \
	"leaq 8f(%%rip), %%rdx\n\tleaq pt_after_call(%%rip), %%rax\n\tpushq %%rax\n\t" PT_RET      \
	"8:\tnop"
enum { RET_OF_OTHER_BYTES = 17 };

static void expect_waited(bool calls)
{
	uint64_t back = pt_body_end(&rig) - RET_OF_OTHER_BYTES - 1;

	PT_EXPECT_BODY(&rig, {.seen = calls ? SEEN_NOT_TAKEN : SEEN_TAKEN},
		       {.seen = SEEN_TARGET, .to = (uint64_t)pt_jumps}, {.seen = SEEN_TAKEN},
		       {.seen = SEEN_EVENT,
			.from = (uint64_t)pt_waits + HALTED,
			.to = (uint64_t)own_handler_resume},
		       {.seen = SEEN_TARGET, .to = back},
		       {.seen = SEEN_TARGET, .to = (uint64_t)pt_after_call},
		       {.seen = SEEN_TARGET, .to = pt_body_end(&rig) - 1});
}

static void expect_other(void)
{
	unsigned ended = 0;

	EACH_FLOW (&other, flow, item)
		ended += item.what == FLOW_EVENT && item.from == pt_ends_from;
	pt_expect_end(&flow);
	EXPECT_EQ(ended, 1);
}

static void expect_period(void)
{
	uint64_t last = 0;
	bool told = false;

	EACH_PACKET (&rig, reader, packet) {
		told |= packet.kind == PACKET_PIP;
		EXPECT(packet.kind != PACKET_PSBEND || told);
		if (packet.kind != PACKET_PSB)
			continue;
		EXPECT(packet.at - last < 4096);
		last = packet.at;
		told = false;
	}
	EXPECT(last && reader.size - last < 4096 &&
	       (!reader.error || rig.trace.status & RTIT_STATUS_STOPPED));
}

enum turn { PLAIN, CALLS, BASED, LONG, TURNS };

static void wait_in_trace(struct task *task, enum turn turn)
{
	atomic_store(&pt_waiting, 0);
	pt_calls_before = turn == CALLS;
	choose_end(turn == BASED);
	PT_TRACED(&rig, PT_PLAIN, MANY_CALLS "nop");
	pt_again(&rig, PT_PLAIN);
	lapic_set_task_priority(VECTOR_TEST - 1);
	own_idt_load();
	task_start(task);
	if (turn == LONG)
		PT_TRACED(&rig, PT_PLAIN,
			  WAITING
			  "movl $1300, %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\tdecl %%esi\n\t" PT_JCC(
				  "jz", "2f") PT_JMP_TO("%%rbx") "2:");
	else
		PT_TRACED(&rig, PT_PLAIN, WAITING RET_OF_OTHER);
	atomic_store(&pt_waiting, 2);
	own_idt_unload();
	lapic_eoi();
	lapic_set_task_priority(0);
}

static void note_code(const uint8_t *code)
{
	pt_add_branch(&rig, FLOW_JMP, code, 5);
	rig.blocks[0].target = (uint64_t)pt_waits;
	pt_add_branch(&rig, FLOW_JCC, pt_waits + 2, 2);
	rig.blocks[1].target = (uint64_t)pt_waits + 4;
	pt_add_branch(&rig, FLOW_JMP, pt_waits + HALTED, 2);
	pt_add_branch(&rig, FLOW_FAR, own_handler_resume_iret, IRETQ_BYTES);
}

TEST(pt_beside_another, .group = "PT", .ids = "PT147", .needs = NEED_PT | NEED_SMP,
     .claim = "a processor's packets have its own branches, calls, addresses and PSBFreq while "
	      "another is traced in between",
     .source = "SDM Vol 3, 36.2.7 and 36.4.2")
{
	uint8_t *code = test_area(WAITS_PAGE + 1), *based = test_area(1);
	uint32_t self;

	make_code(code);
	memcpy(based, based_code, sizeof(based_code));
	code_map(BASED_AT, based, 0);
	own_idt_begin(VECTOR_TEST, own_handler_resume, false);
	test_go_to(0);
	self = this_cpu()->apic_id;
	for (enum turn turn = PLAIN; turn < (pt_caps()->psb_cyc ? TURNS : LONG); turn++) {
		struct task *task = test_task("beside", trace_beside, &self);

		test_keep_on(task, cpu_count() - 1);
		pt_open(&other, 1, false);
		pt_close(&other);
		pt_open(&rig, 4, false);
		note_code(code);
		wait_in_trace(task, turn);
		pt_close(&rig);
		pt_join(task);
		if (turn == LONG)
			expect_period();
		else
			expect_waited(turn == CALLS);
		expect_other();
	}
	code_unmap(BASED_AT);
	code_unseal(code, WAITS_PAGE + 1);
}
