// SPDX-License-Identifier: MIT
// The fields of a record and of the DS area one by one, and each counter in turn.
#include "drivers/processor.h"
#include "lib/string.h"
#include "tests/lib/pebs_rig.h"

/* CF, PF, AF, ZF, SF, DF, OF, and the bit that is always set. */
#define FLAGS	     0xcd7ull
#define NO_FLAGS     0x002ull
#define FLAGS_LOOKED 0xfffull

enum { MOST_PATTERNS = 12, RESETS = 12 };

/* 300 jumps with sixteen registers and the flags as in `state`, RSP apart; where RSP was then. */
__asm__(".pushsection .text\n"
	"pebs_run_filled: pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\t"
	"pushq %r15\n\tpushfq\n\tcli\n\tmovl %esi, %eax\n\tmovl $0x38f, %ecx\n\twrmsr\n\t"
	"pushq 128(%rdi)\n\tpopfq\n\tleaq -8(%rsp), %rax\n\tmovq %rax, 32(%rdi)\n\t"
	"movq 0(%rdi), %rax\n\tmovq 8(%rdi), %rcx\n\tmovq 16(%rdi), %rdx\n\tmovq 24(%rdi), %rbx\n\t"
	"movq 40(%rdi), %rbp\n\tmovq 48(%rdi), %rsi\n\tmovq 64(%rdi), %r8\n\tmovq 72(%rdi), %r9\n\t"
	"movq 80(%rdi), %r10\n\tmovq 88(%rdi), %r11\n\tmovq 96(%rdi), %r12\n\tmovq 104(%rdi), %r13\n\t"
	"movq 112(%rdi), %r14\n\tmovq 120(%rdi), %r15\n\tmovq 56(%rdi), %rdi\n\t"
	"call pebs_jumps+2*(4000-300)\n\t"
	"movl $0x38f, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\tpopfq\n\t"
	"popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\tret\n"
	".popsection");

/* RAX, RCX, RDX, RBX, RSP (which is set to what it was), RBP, RSI, RDI, R8 to R15. */
struct state {
	uint64_t registers[16], flags;
};
void pebs_run_filled(struct state *state, uint64_t low, uint64_t high);
extern const uint8_t pebs_jumps[];

/* No two of them alike in either half, nor of another seed. */
static struct state fill(unsigned seed)
{
	struct state state = {.flags = seed % 2 ? FLAGS : NO_FLAGS};

	for (unsigned i = 0; i < 16; i++)
		state.registers[i] = (16 * seed + i + 1) * 0x9e3779b97f4a7c15ull;
	return state;
}

static void run(struct state *state, uint64_t counters)
{
	pebs_run_filled(state, (uint32_t)counters, counters >> 32);
}

static void expect_state(const struct pebs *pebs, size_t slot, const struct state *state)
{
	struct pebs_sample sample = pebs_sample(pebs, slot);

	for (unsigned i = 0; i < 16; i++)
		EXPECT_EQ(sample.registers[i], state->registers[i]);
	EXPECT_EQ(sample.flags & FLAGS_LOOKED, state->flags);
	EXPECT(sample.ip - (uint64_t)pebs_jumps <= 8000);
	if (sample.event_ip)
		EXPECT(sample.event_ip - (uint64_t)pebs_jumps < 8000);
}

/* The general counters that take samples. */
static bool takes_samples(unsigned n)
{
	return n < pmu_caps()->general &&
	       (ds_caps()->pebs_format >= 4 || ds_configuration->pebs_counters >> n & 1);
}

TEST(pebs_every_register, .group = "PE", .ids = "PE58 PE60 PE61 PE62 PE63 PE64 PE65 PE84",
     .needs = NEED_PEBS,
     .claim = "a record of each counter has each of sixteen registers, the flags and the address "
	      "in their own field",
     .source = "SDM Vol 3, figure 17-8, 18.4.4 and 18.8.1.1; Linux 6.1, perf_event.h")
{
	struct pebs pebs;

	pebs_open(&pebs, 8);
	pebs_need_state(&pebs);
	for (unsigned n = 0; takes_samples(n); n++)
		for (unsigned round = 0; round < 2; round++) {
			struct state state = fill(2 * n + round);

			pebs_reset(&pebs);
			pebs_arm(&pebs, n, 100);
			run(&state, 1ull << n);
			EXPECT(pebs_count(&pebs) >= 2);
			expect_state(&pebs, 0, &state);
			expect_state(&pebs, 1, &state);
		}
	pebs_close(&pebs);
}

/* The rig's buffer, 64 bytes later: then a record of every format lies across two pages. */
static void shift(struct pebs *pebs)
{
	pebs->base += 64;
	pebs->slots--;
	pebs_set(pebs, DS_PEBS_BUFFER_BASE, pebs->base);
	pebs_set(pebs, DS_PEBS_ABSOLUTE_MAXIMUM, pebs->base + pebs->slots * pebs->record + 1);
	pebs_reset(pebs);
}

/* One record: the counter then has a long way to go. */
static void take_one(struct pebs *pebs, struct state *state)
{
	pebs_arm(pebs, 0, 100);
	pebs_set(pebs, DS_PEBS_COUNTER_RESET, -5000ull & ((1ull << pmu_caps()->general_width) - 1));
	run(state, 1);
}

TEST(pebs_across_pages, .group = "PE", .ids = "PE104", .needs = NEED_PEBS,
     .claim = "records follow each other across the end of a page, and the one that lies on it is "
	      "whole",
     .source = "SDM Vol 3, 17.4.9.2 and 18.4.4")
{
	struct pebs pebs;
	bool crossed = false;

	pebs_open(&pebs, 28);
	pebs_need_state(&pebs);
	shift(&pebs);
	for (size_t slot = 0; slot < pebs.slots; slot++) {
		uint64_t at = pebs.base + slot * pebs.record;
		struct state state = fill((unsigned)slot);

		crossed |= at / 4096 != (at + pebs.record - 1) / 4096;
		take_one(&pebs, &state);
		REQUIRE_EQ(pebs_get(&pebs, DS_PEBS_INDEX), at + pebs.record);
		expect_state(&pebs, slot, &state);
	}
	EXPECT(crossed);
	for (size_t slot = 0; slot < pebs.slots; slot++) {
		struct state state = fill((unsigned)slot);

		state.registers[4] = pebs_sample(&pebs, slot).registers[4];
		expect_state(&pebs, slot, &state);
	}
	pebs_close(&pebs);
}

/* Counter n takes the sample; the next one and fixed counter 0 overflow before it. */
TEST(pebs_each_counter_named, .group = "PE", .ids = "PE72 PE73 PE82 PE95", .needs = NEED_PEBS,
     .claim = "a sample of each counter names it, before format 3 with all others that have "
	      "overflowed, and clears its status bit alone",
     .source = "SDM Vol 3, 18.8.1.1 and 18.13")
{
	struct pebs pebs;

	pebs_open(&pebs, 4);
	for (unsigned n = 0; takes_samples(n); n++) {
		unsigned other = (n + 1) % pmu_caps()->general;
		uint64_t fixed = pmu_caps()->fixed ? 1ull << PMU_FIXED : 0;
		uint64_t all = 1ull << n | 1ull << other | fixed;

		pebs_reset(&pebs);
		pebs_arm(&pebs, n, 100);
		wrmsr(IA32_PMC0 + other, (uint64_t)-10);
		wrmsr(IA32_PERFEVTSEL0 + other, pebs.event | PERFEVTSEL_EN);
		if (fixed) {
			wrmsr(IA32_FIXED_CTR0, -10 & ((1ull << pmu_caps()->fixed_width) - 1));
			wrmsr(IA32_FIXED_CTR_CTRL, FIXED_OS);
		}
		SAMPLED(all, JUMPS(150));
		EXPECT_EQ(pebs_count(&pebs), 1);
		if (pebs.format)
			EXPECT_EQ(pebs_sample(&pebs, 0).status & all,
				  pebs.format >= 3 ? 1ull << n : all);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & all, all & ~(1ull << n));
		wrmsr(IA32_PERFEVTSEL0 + other, 0);
		if (fixed)
			wrmsr(IA32_FIXED_CTR_CTRL, 0);
	}
	pebs_close(&pebs);
}

/* The borders of 32 bits and of the counter's width. */
static unsigned reset_values(uint64_t values[MOST_PATTERNS])
{
	unsigned width = pmu_caps()->general_width;
	uint64_t top = 1ull << (width - 1), mask = top | (top - 1);
	const uint64_t all[MOST_PATTERNS] = {0,		 1,	     2,		 0x7fffffff,
					     0x80000000, 0x80000001, 0xffffffff, 0x100000000,
					     top - 1000, top,	     top + 1,	 mask - 5000};

	memcpy(values, all, sizeof(all));
	return MOST_PATTERNS;
}

static void check_reset(struct pebs *pebs, unsigned n, uint64_t value)
{
	uint64_t mask = (1ull << pmu_caps()->general_width) - 1;

	pebs_reset(pebs);
	pebs_arm(pebs, n, 100);
	for (unsigned i = 0; i < RESETS; i++)
		pebs_set(pebs, DS_PEBS_COUNTER_RESET + i, (value + 0x123456 * (i + 1)) & mask);
	pebs_set(pebs, DS_PEBS_COUNTER_RESET + n, value);
	SAMPLED(1ull << n, JUMPS(150));
	EXPECT_EQ(pebs_count(pebs), 1);
	EXPECT(((rdmsr(IA32_PMC0 + n) - value) & mask) < 100);
}

TEST(pebs_each_reset_value, .group = "PE", .ids = "PE96 PE98", .needs = NEED_PEBS,
     .claim = "each counter begins again with its own reset value, all of its bits: at 0, 1, 2, "
	      "bit 31 and the counter's last bit",
     .source = "SDM Vol 3, 18.8.1.1 and figure 17-8")
{
	uint64_t values[MOST_PATTERNS];
	unsigned count = reset_values(values);
	struct pebs pebs;

	pebs_open(&pebs, 4);
	for (unsigned n = 0; takes_samples(n); n++)
		for (unsigned i = 0; i < count; i++)
			check_reset(&pebs, n, values[i]);
	pebs_close(&pebs);
}

TEST(pebs_threshold_border, .group = "PE", .ids = "PE105 PE106", .needs = NEED_PEBS,
     .claim = "OvfBuf is set by the record that makes the index the threshold, and by none before",
     .source = "SDM Vol 3, 18.4.4 and 18.8.1.1")
{
	static const size_t thresholds[] = {1, 2, 3, 7};
	struct pebs pebs;

	pebs_open(&pebs, 8);
	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		pebs_reset(&pebs);
		pebs_set_threshold(&pebs, thresholds[i]);
		for (size_t records = 1; records <= 7; records++) {
			struct state state = fill((unsigned)records);
			bool is_set;

			take_one(&pebs, &state);
			EXPECT_EQ(pebs_count(&pebs), records);
			is_set = rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVF_BUF;
			EXPECT_EQ(is_set, records >= thresholds[i]);
		}
	}
	pebs_close(&pebs);
}

/* `extra` bytes past two slots are too few for a third record. */
static void check_room(struct pebs *pebs, size_t extra)
{
	uint64_t end = pebs->base + 2 * pebs->record;

	pebs_reset(pebs);
	pebs_set(pebs, DS_PEBS_ABSOLUTE_MAXIMUM, end + extra + 1);
	for (unsigned i = 0; i < 4; i++) {
		struct state state = fill(i);

		take_one(pebs, &state);
	}
	EXPECT_EQ(pebs_get(pebs, DS_PEBS_INDEX), end);
	EXPECT(!pebs_is_poison(pebs, 0) && !pebs_is_poison(pebs, 1));
	EXPECT(pebs_is_poison(pebs, 2) && pebs_is_poison(pebs, 3));
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
}

TEST(pebs_room_for_a_part, .group = "PE", .ids = "PE100 PE101 PE102 PE103", .needs = NEED_PEBS,
     .claim = "two slots take two records; room for a part of a third takes nothing of it, and the "
	      "counter's overflow stays",
     .source = "SDM Vol 3, 17.4.9 and 18.8.1.1")
{
	struct pebs pebs;

	pebs_open(&pebs, 4);
	check_room(&pebs, 0);
	check_room(&pebs, 8);
	check_room(&pebs, pebs.record / 2);
	check_room(&pebs, pebs.record - 8);
	pebs_close(&pebs);
}

TEST(pebs_again_from_the_base, .group = "PE", .ids = "PE92 PE108", .needs = NEED_PEBS,
     .claim = "a full buffer takes records again once software has moved the index back",
     .source = "SDM Vol 3, 18.8.1.1")
{
	struct pebs pebs;

	pebs_open(&pebs, 2);
	for (unsigned round = 0; round < 3; round++) {
		pebs_set(&pebs, DS_PEBS_INDEX, pebs.base);
		for (unsigned i = 1; i <= 4; i++) {
			struct state state = fill(8 * round + i);

			take_one(&pebs, &state);
			EXPECT_EQ(pebs_count(&pebs), i < 2 ? i : 2);
			if (i <= 2 && pebs_has_state(&pebs))
				expect_state(&pebs, i - 1, &state);
		}
	}
	pebs_close(&pebs);
}
