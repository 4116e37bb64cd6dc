// SPDX-License-Identifier: MIT
// Adaptive records: format 4 and IA32_PERF_CAPABILITIES.PEBS_BASELINE.
#include "drivers/clock/tsc.h"
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/lock.h"
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmu_rig.h"

enum { BASIC = 0x20, MEMINFO = 0x20, GENERAL = 0x90, XMM = 0x100, ENTRY = 0x18 };

static void open(struct pebs *pebs, size_t slots)
{
	pebs_open(pebs, slots);
	pebs_need(pebs, pebs->adaptive, "no PEBS_BASELINE");
}

static uint64_t size_of(uint64_t cfg)
{
	return BASIC + (cfg & CFG_MEMINFO ? MEMINFO : 0) + (cfg & CFG_GPR ? GENERAL : 0) +
	       (cfg & CFG_XMM ? XMM : 0) + (cfg & CFG_LBR ? ENTRY * (1 + (cfg >> 24 & 0xff)) : 0);
}

static uint64_t least_of(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* Of architectural last branch records no more than IA32_LBR_DEPTH says: check_calls(). */
static uint64_t most_entries(void)
{
	return least_of(32, lbr_caps()->architectural ? lbr_caps()->depth : 32);
}

static void check(struct pebs *pebs, uint64_t cfg)
{
	uint64_t size = size_of(cfg);

	for (unsigned room = 0; room < 2; room++) { /* at first for all but a quadword */
		pebs_reset(pebs);
		pebs_set(pebs, DS_PEBS_ABSOLUTE_MAXIMUM, pebs->base + size - 7 + 8 * room);
		pebs_arm(pebs, 0, 150);
		wrmsr(MSR_PEBS_DATA_CFG, cfg); /* while it is enabled, and stopped */
		EXPECT_EQ(rdmsr(MSR_PEBS_DATA_CFG), cfg);
		pebs_run_jumps(1, 200);
		EXPECT_EQ(pebs_get(pebs, DS_PEBS_INDEX), pebs->base + size * room);
	}
	EXPECT_EQ(pebs_quadword(pebs, 0, 0), size << 48 | cfg);
	EXPECT_EQ(pebs_quadword(pebs, 0, 2), 1);
	EXPECT(pebs_quadword(pebs, 0, size / 8 - 1) != 0xa5a5a5a5a5a5a5a5);
	EXPECT_EQ(pebs_quadword(pebs, 0, size / 8), 0xa5a5a5a5a5a5a5a5);
}

TEST(pebs_adaptive_groups, .group = "PE", .ids = "PE32 PE81 PE88 PE101", .needs = NEED_PEBS,
     .claim = "an adaptive record is as long as its groups, says which it has, needs room for all",
     .source = "Linux 6.1, perf_event.h")
{
	struct pebs pebs CLOSED_BY(pebs_close);

	open(&pebs, 8);
	for (uint64_t groups = 0; groups < 16; groups++)
		check(&pebs, groups | CFG_ENTRIES(least_of(1 + groups, most_entries())));
	for (uint64_t entries = 16; entries++ < most_entries();)
		check(&pebs, 15 | CFG_ENTRIES(entries));
}

TEST(pebs_adaptive_registers, .group = "PE", .ids = "PE32", .needs = NEED_PEBS,
     .claim = "registers of an adaptive record are in the order AX CX DX BX SP BP SI DI",
     .source = "Linux 6.1, perf_event.h")
{
	static const uint8_t set[] = {6, 7, 8, 9, 12, 13, 14, 21}; /* the quadword of each, too */
	struct pebs pebs CLOSED_BY(pebs_close);
	uint64_t stack, frame;

	open(&pebs, 8);
	wrmsr(MSR_PEBS_DATA_CFG, CFG_GPR);
	pebs_arm(&pebs, 0, 100);
	__asm__ volatile("movq %%rsp, %0\n\tmovq %%rbp, %1" : "=r"(stack), "=r"(frame));
	SAMPLED(1, "movl $6, %%eax\n\tmovl $7, %%ecx\n\tmovl $8, %%edx\n\tmovl $9, %%ebx\n\t"
		   "movl $12, %%esi\n\tmovl $13, %%edi\n\tmovl $14, %%r8d\n\tmovl $21, %%r15d\n\t"
		   "stc\n\t" JUMPS(150));
	REQUIRE_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + BASIC + GENERAL);
	EXPECT_EQ(pebs_quadword(&pebs, 0, 4) & 1, 1);
	for (unsigned i = 0; i < sizeof(set); i++)
		EXPECT_EQ(pebs_quadword(&pebs, 0, set[i]), set[i]);
	EXPECT(stack - pebs_quadword(&pebs, 0, 10) < 256);
	EXPECT_EQ(pebs_quadword(&pebs, 0, 11), frame);
}

/* Everything that is taken enters the LBR stack, of either kind. */
static const struct lbr_program all = {PTRACE_LBR_USER | PTRACE_LBR_KERNEL, PTRACE_LBR_KINDS};

TEST(pebs_adaptive_branches, .group = "PE", .ids = "PE32", .needs = NEED_PEBS | NEED_LBR,
     .claim = "the LBR group of an adaptive record holds the newest branches, the newest first",
     .source = "Linux 6.1, perf_event.h")
{
	struct debugctl debugctl = {0};
	struct pebs pebs CLOSED_BY(pebs_close);

	open(&pebs, 8);
	wrmsr(MSR_PEBS_DATA_CFG, CFG_LBR | CFG_ENTRIES(4));
	pebs_arm(&pebs, 0, 100);
	lbr_start(&debugctl, &all);
	pebs_run_jumps(1, 150);
	lbr_stop(&debugctl);
	REQUIRE_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + BASIC + 4 * ENTRY);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t from = pebs_quadword(&pebs, 0, 4 + 3 * i);

		EXPECT_EQ(pebs_quadword(&pebs, 0, 5 + 3 * i), from + 2);
		EXPECT_EQ(pebs_quadword(&pebs, 0, 7 + 3 * i), from - 2);
	}
	/* The sampled branch itself is the newest, or the one before it is. */
	EXPECT(pebs_quadword(&pebs, 0, 1) - pebs_quadword(&pebs, 0, 4) <= 2);
}

TEST(pebs_presets, .group = "PE", .ids = "PE12 PE33", .needs = NEED_PEBS,
     .claim = "a counter of -16, -2 or -1 is sampled after its overflow, one of 0 not for long, "
	      "fixed counter 0 not each time but with PDIR",
     .source = "Linux 6.1, perf_event.h")
{
	static const uint64_t periods[] = {16, 2, 1, 0};
	struct pebs pebs CLOSED_BY(pebs_close);
	uint64_t period = 5000, counts[3];

	open(&pebs, 8);
	for (unsigned i = 0; i < 4; i++) {
		pebs_reset(&pebs);
		pebs_arm(&pebs, 0, periods[i]);
		pebs_set(&pebs, DS_PEBS_COUNTER_RESET, 0);
		pebs_run_jumps(1, 40);
		EXPECT_EQ(pebs_count(&pebs), periods[i] ? 1 : 0);
	}
	/* Eleven instructions: of every second one at most, unless the last one is sampled that
	   overflows the counter. */
	for (unsigned i = 0; i < 3; i++) {
		pebs_reset(&pebs);
		pebs_arm(&pebs, PMU_FIXED, i < 2 ? period : 1);
		pebs_run_jumps(1ull << PMU_FIXED, 4);
		period += pmu_rig_value(PMU_FIXED);
		period &= pmu_rig_mask(PMU_FIXED);
		counts[i] = pebs_count(&pebs);
	}
	EXPECT(counts[2] > 0);
	EXPECT(counts[1] > 0 || counts[2] <= 6);
}

TEST(pebs_fixed_counter, .group = "PE", .ids = "PE31 PE33", .needs = NEED_PEBS,
     .claim =
	     "with PEBS_BASELINE fixed counter 0 takes samples, with its own reset value, none that "
	     "was due when it was disabled",
     .source = "Linux 6.1, perf_event.h")
{
	uint64_t mask = (1ull << pmu_caps()->fixed_width) - 1;
	struct pebs pebs CLOSED_BY(pebs_close);

	open(&pebs, 16);
	pebs_set(&pebs, DS_PEBS_COUNTER_RESET + 8, -50 & mask);
	wrmsr(IA32_FIXED_CTR_CTRL, FIXED_OS | 1ull << 32);
	pebs_set(&pebs, DS_PEBS_INDEX, pebs.base + 16 * pebs.record);
	for (unsigned room = 0; room < 2; room++) { /* what waits for it is void */
		wrmsr(IA32_FIXED_CTR0, -100 & mask);
		wrmsr(IA32_PEBS_ENABLE, 1ull << PMU_FIXED);
		pebs_run_jumps(1ull << PMU_FIXED, 300);
		if (!room)
			pebs_reset(&pebs);
	}
	wrmsr(IA32_FIXED_CTR_CTRL, 0);
	test_observe("samples", "%zu", pebs_count(&pebs));
	EXPECT(pebs_count(&pebs) == 4 || pebs_count(&pebs) == 5);
	EXPECT_EQ(pebs_sample(&pebs, 0).status, 1ull << PMU_FIXED);
	EXPECT(((rdmsr(IA32_FIXED_CTR0) + 50) & mask) <= 51);
}

/* Until there is a record, or 2^33 cycles have passed; the addresses of the loop, with the WRMSR
 * that starts it. */
__asm__(".pushsection .text\n"
	"pebs_await: movl $0x38f, %ecx\n\txorl %eax, %eax\n"
	"pebs_await_from: wrmsr\n\trdtsc\n\tleal 2(%edx), %r8d\n"
	"1: rdtsc\n\tcmpl %r8d, %edx\n\tjz pebs_await_to\n\tcmpq %rsi, (%rdi)\n\tjz 1b\n"
	"pebs_await_to: xorl %edx, %edx\n\txorl %eax, %eax\n\twrmsr\n\tret\n"
	".popsection");
void pebs_await(const uint64_t *index, uint64_t base, uint64_t fixed); /* runs these */
extern const uint8_t pebs_await_from[], pebs_await_to[];

static void sample_cycles(struct pebs *pebs, uint64_t levels)
{
	uint64_t flags, ip;

	pebs_reset(pebs);
	pebs_set_threshold(pebs, 1);
	wrmsr(IA32_FIXED_CTR_CTRL, (levels | 1ull << 32) << FIXED_BITS);
	wrmsr(IA32_FIXED_CTR0 + 1, -20000 & ((1ull << pmu_caps()->fixed_width) - 1));
	wrmsr(IA32_PEBS_ENABLE, 2ull << PMU_FIXED);
	/* The handler of an interrupt would be sampled as well. */
	flags = interrupts_save();
	pebs_await((const uint64_t *)((uint8_t *)pebs->rig.area + 0x28), pebs->base, 2);
	interrupts_restore(flags);
	wrmsr(IA32_FIXED_CTR_CTRL, 0);
	REQUIRE_EQ(pebs_count(pebs), 1);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS), GLOBAL_STATUS_OVF_BUF);
	EXPECT_EQ(pebs_sample(pebs, 0).status, 2ull << PMU_FIXED);
	ip = pebs_sample(pebs, 0).event_ip;
	EXPECT(ip >= (uint64_t)pebs_await_from && ip < (uint64_t)pebs_await_to);
}

static void await_records(const struct pebs *pebs, size_t count)
{
	uint64_t end = tsc_read() + (1ull << 33);

	while (pebs_count(pebs) < count && tsc_read() < end)
		__asm__ volatile("pause" : : : "memory");
}

/* The counter runs on while its buffer goes to another page: no register is written. One record may
   be on its way then. */
static void sample_remapped(struct pebs *pebs)
{
	uint8_t *other = memset(test_area(1), 0xa5, PAGE_SIZE);
	uint64_t *entry = vm_entry(pebs->base), old = *entry, flags;
	uint64_t new = *vm_entry((uint64_t)other);
	struct pebs moved = *pebs;
	size_t last;

	moved.base = (uint64_t)other + pebs->base % PAGE_SIZE;
	pebs_reset(pebs);
	pebs_arm(pebs, PMU_FIXED + 1, 1 << 23);
	flags = interrupts_save();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 2ull << PMU_FIXED);
	await_records(pebs, 1);
	*entry = new;
	vm_flush(pebs->base);
	last = pebs_count(pebs) + 1;
	await_records(pebs, last + 1);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	interrupts_restore(flags);
	*entry = old;
	vm_flush(pebs->base);
	EXPECT(!pebs_is_poison(&moved, last));
}

TEST(pebs_of_cycles, .group = "PE", .ids = "PE33 PE95 PE130", .needs = NEED_PEBS,
     .claim = "with PEBS_BASELINE a counter of cycles takes samples where the program is at its "
	      "overflow, to where the page tables say then",
     .source = "Linux 6.1, perf_event.h")
{
	struct pebs pebs CLOSED_BY(pebs_close);

	open(&pebs, 8);
	pebs_need(&pebs, pmu_caps()->fixed > 1, "no fixed counter 1");
	sample_cycles(&pebs, FIXED_OS);
	sample_cycles(&pebs, FIXED_OS | FIXED_USR);
	sample_remapped(&pebs);
}

/* Counters 1 and 2 count cycles, and go on after the record. */
TEST(pebs_fixed_reset_values, .group = "PE", .ids = "PE37 PE82 PE91 PE97 PE98", .needs = NEED_PEBS,
     .claim = "each fixed counter takes samples, is named by them, begins again with its own reset "
	      "value, and has the groups by its own adaptive bit",
     .source = "Linux 6.1, perf_event.h")
{
	uint64_t mask = (1ull << pmu_caps()->fixed_width) - 1;
	unsigned fixed = pmu_caps()->fixed < 3 ? pmu_caps()->fixed : 3;
	uint64_t adaptive_bits = (0x111ull >> FIXED_BITS * (3 - fixed)) << 32;
	struct pebs pebs CLOSED_BY(pebs_close);

	open(&pebs, 8);
	for (unsigned i = 0; i < 2 * fixed; i++) {
		unsigned n = i / 2, shift = n * FIXED_BITS;
		uint64_t value = (0x110080000000 * (n + 1)) & mask;
		bool adaptive = i % 2;

		pebs_reset(&pebs);
		for (unsigned other = 0; other < 12; other++)
			pebs_set(&pebs, DS_PEBS_COUNTER_RESET + other, 0x080000000000);
		pebs_set(&pebs, DS_PEBS_COUNTER_RESET + 8 + n, value);
		wrmsr(MSR_PEBS_DATA_CFG, CFG_GPR);
		/* The other counters' adaptive bits are the opposite. */
		wrmsr(IA32_FIXED_CTR_CTRL,
		      FIXED_OS << shift | (adaptive ? 1ull << (32 + shift)
						    : adaptive_bits & ~(1ull << (32 + shift))));
		wrmsr(IA32_FIXED_CTR0 + n, -2000 & mask);
		wrmsr(IA32_PEBS_ENABLE, 1ull << (PMU_FIXED + n));
		pebs_await((const uint64_t *)((uint8_t *)pebs.rig.area + 0x28), pebs.base, 1u << n);
		wrmsr(IA32_FIXED_CTR_CTRL, 0);
		EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX),
			  pebs.base + BASIC + (adaptive ? GENERAL : 0));
		EXPECT_EQ(pebs_quadword(&pebs, 0, 2), 1ull << (PMU_FIXED + n));
		EXPECT(((rdmsr(IA32_FIXED_CTR0 + n) - value) & mask) < 0x040000000000);
	}
}

TEST(pebs_not_adaptive, .group = "PE", .ids = "PE81 PE89 PE90", .needs = NEED_PEBS,
     .claim = "a counter without its adaptive bit writes the basic group alone, whatever "
	      "MSR_PEBS_DATA_CFG says, after one with all too",
     .source = "Linux 6.1, perf_event.h")
{
	const uint64_t cfg = CFG_MEMINFO | CFG_GPR | CFG_XMM | CFG_LBR | CFG_ENTRIES(3);
	struct pebs pebs CLOSED_BY(pebs_close);

	open(&pebs, 8);
	wrmsr(MSR_PEBS_DATA_CFG, cfg);
	for (unsigned n = 0; n < pmu_caps()->general; n++) {
		size_t at = n ? size_of(cfg) / 8 : 0;

		pebs_reset(&pebs);
		pebs_arm(&pebs, 0, 20); /* with the bit, unless n is 0 */
		pebs_set_reset(&pebs, 0, 0);
		pebs_arm(&pebs, n, 100);
		wrmsr(IA32_PERFEVTSEL0 + n, pebs.event | PERFEVTSEL_EN);
		wrmsr(IA32_PEBS_ENABLE, 1ull << n | 1);
		pebs_run_jumps(1ull << n | 1, 150);
		EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + 8 * at + BASIC);
		EXPECT_EQ(pebs_quadword(&pebs, 0, at), (uint64_t)BASIC << 48);
		EXPECT_EQ(pebs_quadword(&pebs, 0, at + 2), 1ull << n);
		EXPECT_EQ(pebs_quadword(&pebs, 0, at + BASIC / 8), 0xa5a5a5a5a5a5a5a5);
	}
}

/* Sixteen registers of the test's, in place of whatever they hold. */
static uint8_t kept[512] __attribute__((aligned(16)));
static uint64_t values[32] __attribute__((aligned(16)));

static void load_xmm(void)
{
	for (unsigned i = 0; i < 32; i++)
		values[i] = (i + 1) * 0x9e3779b97f4a7c15ull;
	__asm__ volatile("fxsave64 %0" : "=m"(kept));
	__asm__ volatile("movups 0(%0), %%xmm0\n\tmovups 16(%0), %%xmm1\n\t"
			 "movups 32(%0), %%xmm2\n\tmovups 48(%0), %%xmm3\n\t"
			 "movups 64(%0), %%xmm4\n\tmovups 80(%0), %%xmm5\n\t"
			 "movups 96(%0), %%xmm6\n\tmovups 112(%0), %%xmm7\n\t"
			 "movups 128(%0), %%xmm8\n\tmovups 144(%0), %%xmm9\n\t"
			 "movups 160(%0), %%xmm10\n\tmovups 176(%0), %%xmm11\n\t"
			 "movups 192(%0), %%xmm12\n\tmovups 208(%0), %%xmm13\n\t"
			 "movups 224(%0), %%xmm14\n\tmovups 240(%0), %%xmm15"
			 :
			 : "r"(values), "m"(values));
}

struct entry {
	uint64_t from, to, info;
};

/* Of the first record, whose LBR group is at this quadword. */
static const struct entry *entries_at(const struct pebs *pebs, size_t at)
{
	return (const struct entry *)(pebs->base + 8 * at);
}

/* One of the other entries that began at the same branch has the same three quadwords. Those of an
   empty entry may be old. */
static unsigned alike(const struct entry *some, unsigned count, const struct entry *others)
{
	unsigned found = 0;

	for (unsigned i = 0; i < count; i++)
		for (unsigned entry = 0; entry < 32 && some[i].from; entry++) {
			if (others[entry].from != some[i].from)
				continue;
			EXPECT_EQ(others[entry].to, some[i].to);
			EXPECT_EQ(others[entry].info, some[i].info);
			found++;
			break;
		}
	return found;
}

static unsigned alike_to_stack(const struct pebs *pebs, size_t at, unsigned count)
{
	const struct lbr_caps *lbr = lbr_caps();
	struct entry stack[32];

	for (unsigned i = 0; i < 32; i++)
		stack[i] = (struct entry){rdmsr(lbr->from + i), rdmsr(lbr->to + i),
					  rdmsr(lbr->info + i)};
	return alike(entries_at(pebs, at), count, stack);
}

static void check_entries(const struct pebs *pebs, size_t at, unsigned entries)
{
	uint64_t newest = pebs_quadword(pebs, 0, at);

	EXPECT(pebs_quadword(pebs, 0, 1) - newest <= 2);
	for (unsigned i = 0; i < entries; i++) {
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 3 * i), newest - 2 * i);
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 3 * i + 1), newest - 2 * i + 2);
	}
	EXPECT(alike_to_stack(pebs, at, entries) >= (entries < 8 ? entries : 8));
}

/* The record of these groups: each at its place, each quadword of it. One counter or another takes
   it, by `turn`. */
static void check_groups(struct pebs *pebs, uint64_t cfg, unsigned entries, unsigned turn)
{
	struct debugctl debugctl = {0};
	size_t at = BASIC / 8;
	uint64_t flags;
	unsigned n = turn % (pmu_caps()->general + 1);

	n = n < pmu_caps()->general ? n : PMU_FIXED;
	pebs_reset(pebs);
	wrmsr(MSR_PEBS_DATA_CFG, cfg | (cfg & CFG_LBR ? CFG_ENTRIES(entries) : 0));
	pebs_arm(pebs, n, 100);
	load_xmm();
	flags = interrupts_save(); /* a handler's branches would push out the record's */
	lbr_start(&debugctl, &all);
	SAMPLED(1ull << n,
		"movl $11, %%ebx\n\tmovl $12, %%esi\n\tmovl $13, %%r9d\n\tmovl $14, %%r14d\n\t" JUMPS(
			110));
	lbr_stop(&debugctl);
	interrupts_restore(flags);
	__asm__ volatile("fxrstor64 %0" : : "m"(kept));
	REQUIRE_EQ(pebs_get(pebs, DS_PEBS_INDEX), pebs->base + size_of(rdmsr(MSR_PEBS_DATA_CFG)));
	if (cfg & CFG_MEMINFO) { /* a jump accesses no data */
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 2), 0);
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 3), 0);
		at += MEMINFO / 8;
	}
	if (cfg & CFG_GPR) {
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 5), 11);
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 8), 12);
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 11), 13);
		EXPECT_EQ(pebs_quadword(pebs, 0, at + 16), 14);
		at += GENERAL / 8;
	}
	if (cfg & CFG_XMM) {
		for (unsigned i = 0; i < 32; i++)
			EXPECT_EQ(pebs_quadword(pebs, 0, at + i), values[i]);
		at += XMM / 8;
	}
	if (cfg & CFG_LBR)
		check_entries(pebs, at, entries);
}

/* One record, or with `again` as many as have room, of every 14th branch. */
static void sample_call(struct pebs *pebs, const struct lbr_program *program, unsigned entries,
			bool again)
{
	struct debugctl debugctl = {0};
	uint64_t flags;

	pebs_reset(pebs);
	wrmsr(MSR_PEBS_DATA_CFG, CFG_LBR | CFG_ENTRIES(entries));
	pebs_arm(pebs, 0, again ? 13 : 10);
	if (!again)
		pebs_set(pebs, DS_PEBS_COUNTER_RESET, 0);
	flags = interrupts_save();
	lbr_start(&debugctl, program);
	pebs_run_jumps(1, again ? 400 : 20);
	lbr_stop(&debugctl);
	interrupts_restore(flags);
}

/* A call to another place than before: what it was predicted is in its third quadword. Then a call
   stack, of which IA32_LBR_DEPTH says fewer entries than are asked for. A record says how many it
   has as MSR_PEBS_DATA_CFG does, less 1, or as that register. */
static void check_calls(struct pebs *pebs)
{
	static const struct lbr_program calls = {PTRACE_LBR_KERNEL | PTRACE_LBR_CALL_STACK,
						 PTRACE_LBR_CALL | PTRACE_LBR_CALL_INDIRECT |
							 PTRACE_LBR_RETURN};
	uint64_t first, bytes, size;

	pebs_trace_stopped(true); /* which leaves the LBR stack alone */
	sample_call(pebs, &all, 10, false);
	pebs_trace_stopped(false);
	EXPECT_EQ(alike_to_stack(pebs, BASIC / 8, 10), 10);
	if (!lbr_supports(&calls))
		return;
	for (unsigned depth = 8; depth < 32; depth *= 2) {
		unsigned has = lbr_depth_for(depth);

		lbr_clear(has);
		sample_call(pebs, &calls, 32, false);
		lbr_clear(32);
		size = BASIC + has * ENTRY;
		first = pebs_quadword(pebs, 0, 0);
		bytes = pebs_get(pebs, DS_PEBS_INDEX) - pebs->base;
		EXPECT(first >> 48 == size && bytes == size && has - (first >> 24 & 0xff) <= 1);
		EXPECT(pebs_quadword(pebs, 0, BASIC / 8));
	}
}

/* The second record has the branches of the first deeper in its stack. */
static void check_deeper(struct pebs *pebs)
{
	uint64_t size = BASIC + 32 * ENTRY;

	lbr_clear(32);
	sample_call(pebs, &all, 32, true);
	REQUIRE_EQ(pebs_get(pebs, DS_PEBS_INDEX), pebs->base + 2 * size);
	alike(entries_at(pebs, (size + BASIC) / 8), 32, entries_at(pebs, BASIC / 8));
}

/* The last record has what is newest then, not what was at the first. */
static void check_last(struct pebs *pebs)
{
	struct debugctl debugctl = {0};
	const uint64_t *last;
	bool newest;

	pebs_reset(pebs);
	wrmsr(MSR_PEBS_DATA_CFG, CFG_XMM | CFG_LBR);
	pebs_arm(pebs, 0, 100);
	load_xmm();
	lbr_start(&debugctl, &all);
	pebs_run_jumps(1, 150);
	__asm__ volatile("movaps %xmm1, %xmm0");
	pebs_run_jumps(1, 190);
	lbr_stop(&debugctl);
	__asm__ volatile("fxrstor64 %0" : : "m"(kept));
	last = (const uint64_t *)(pebs_get(pebs, DS_PEBS_INDEX) - BASIC - XMM - ENTRY);
	newest = last[BASIC / 8] == values[2] && last[1] - last[(BASIC + XMM) / 8] <= 2;
	EXPECT(newest);
}

static void check_ring(struct pebs *pebs)
{
	struct debugctl debugctl = {0};

	wrmsr(MSR_PEBS_DATA_CFG, CFG_XMM | CFG_LBR);
	load_xmm();
	lbr_start(&debugctl, &all);
	pebs_run_ring(pebs, 2, PMU_USR);
	lbr_stop(&debugctl);
	__asm__ volatile("fxrstor64 %0" : : "m"(kept));
	EXPECT_EQ(memcmp((uint8_t *)pebs->base + BASIC, values, XMM), 0);
	EXPECT(pebs_quadword(pebs, 0, (BASIC + XMM) / 8) - (uint64_t)own_ring_jumps <=
	       2 * OWN_RING_JUMPS); /* or INT n after them */
}

TEST(pebs_adaptive_contents, .group = "PE", .ids = "PE83 PE84 PE85 PE86 PE87 PE88 PE89 PE133",
     .needs = NEED_PEBS | ON_EACH_CPU,
     .claim =
	     "each quadword of the groups of an adaptive record is where the groups before it "
	     "end: registers, XMM registers of ring 2 too, entries of the LBR stack, as many as it has, "
	     "with all three quadwords",
     .source = "Linux 6.1, perf_event.h")
{
	static const uint8_t entries[] = {1, 2, 16, 17, 32};
	struct pebs pebs CLOSED_BY(pebs_close);

	open(&pebs, 8);
	pebs_need(&pebs, lbr_caps()->depth == 32 && lbr_caps()->info, "no LBR stack of 32 entries");
	lbr_clear(32);
	for (unsigned groups = 0; groups < 16; groups++)
		check_groups(&pebs, groups, 5, groups);
	for (unsigned i = 0; i < sizeof(entries); i++)
		check_groups(&pebs, CFG_XMM | CFG_LBR, entries[i], 7 + i);
	check_calls(&pebs);
	check_deeper(&pebs);
	check_last(&pebs);
	check_ring(&pebs);
}
