// SPDX-License-Identifier: MIT
// Load latency: its enable bits, its threshold, and the fields of its records; the precise events
// of each model, and selects that change what is counted.
#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "tests/lib/code.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

enum { WORDS = 256, MOST_ROUNDS = 64 };

/* The data source has a cache's level, and in later families bits for its TLB and lock. */
#define SOURCE_BITS 0xffffull

/* Loads that are sampled are chosen at random (18.8.1.2): so many rounds are enough for some. */
uint64_t pebs_words[WORDS];

/* MEM_INST_RETIRED or MEM_TRANS_RETIRED, LATENCY_ABOVE_THRESHOLD: SDM Vol 3, tables 19-4 to 19-13.
 */
static uint64_t latency_event(const struct pebs *pebs)
{
	return (pebs->format == 1 ? 0x100b : 0x01cd) | PMU_OS | PMU_USR;
}

static uint8_t model_here(void)
{
	return (uint8_t)cpuid_signature(cpuid(1, 0).eax).model;
}

/* On Sapphire Rapids another event has to be counted beside: Linux 6.1, is_mem_loads_aux_event().
 */
#define AUXILIARY 0x8203ull
static bool has_auxiliary(void)
{
	return model_here() == 0x8f;
}

/* On Sandy Bridge and Ivy Bridge IA32_PMC3 alone has the event, on Sapphire Rapids all but
   IA32_PMC0 have: Linux 6.1, ds.c. */
static bool is_chosen(const struct pebs *pebs, unsigned n)
{
	uint8_t model = model_here();

	if (model == 0x2a || model == 0x2d || model == 0x3a || model == 0x3e)
		return n == 3;
	if (has_auxiliary() && !n)
		return false;
	return n < pmu_caps()->general && (pebs->adaptive || n < 4);
}

static void open(struct pebs *pebs)
{
	pebs_open(pebs, 8);
	pebs_need(pebs,
		  pebs->format &&
			  (pebs->adaptive ||
			   (ds_configuration->pebs_counters & 2 && pebs->format < 4)) &&
			  !(silicon_is_foreign_guest() && msr_try(MSR_PEBS_LD_LAT, 4, 0).refused),
		  "no load latency, or the hypervisor hides it");
}

/* Format 4 has no bits of load latency: those from 32 on are fixed counters'. */
static uint64_t both_bits(const struct pebs *pebs, unsigned n)
{
	return 1ull << n | (pebs->adaptive ? 0 : 1ull << (32 + n));
}

/* RBX is the number of the element that was loaded last, R8 and R15 are pebs_words. */
static void load_all(uint64_t counters)
{
	__asm__ volatile("movq %[words], %%r8\n\tmovq %%r8, %%r15\n\t"
			 "pushfq\n\tcli\n\twrmsr\n\txorl %%ebx, %%ebx\n"
			 "1: movq (%[words], %%rbx, 8), %%rsi\n\tnop\n\tincl %%ebx\n\t"
			 "cmpl $256, %%ebx\n\tjb 1b\n\t"
			 "movl $0x38f, %%ecx\n\txorl %%eax, %%eax\n\twrmsr\n\tpopfq"
			 :
			 : [words] "r"(pebs_words), "a"(counters), "d"(0),
			   "c"(IA32_PERF_GLOBAL_CTRL)
			 : "rbx", "rsi", "r8", "r15", "memory", "cc");
}

static void store_all(uint64_t counters)
{
	__asm__ volatile("pushfq\n\tcli\n\twrmsr\n\txorl %%ebx, %%ebx\n"
			 "1: movq %%rbx, (%[words], %%rbx, 8)\n\tnop\n\tincl %%ebx\n\t"
			 "cmpl $256, %%ebx\n\tjb 1b\n\t"
			 "movl $0x38f, %%ecx\n\txorl %%eax, %%eax\n\twrmsr\n\tpopfq"
			 :
			 : [words] "r"(pebs_words), "a"(counters), "d"(0),
			   "c"(IA32_PERF_GLOBAL_CTRL)
			 : "rbx", "memory", "cc");
}

static void put_threshold(void *value)
{
	wrmsr(MSR_PEBS_LD_LAT, (uint64_t)value);
}

/* Another CPU's threshold, which is to change nothing. */
static void put_another(uint64_t value)
{
	if (cpu_count() > 1)
		smp_call(this_cpu()->index ? 0 : 1, put_threshold, (void *)value);
}

static void close(struct pebs *pebs)
{
	wrmsr(MSR_PEBS_LD_LAT, 0);
	put_another(0);
	pebs_close(pebs);
}

/* Ready to sample every third such load of counter n, with `enable` in IA32_PEBS_ENABLE. */
static void arm(struct pebs *pebs, unsigned n, uint64_t threshold, uint64_t enable)
{
	pebs_reset(pebs);
	wrmsr(MSR_PEBS_LD_LAT, threshold);
	put_another(0xffff);
	pebs_arm_event(pebs, n, latency_event(pebs), 2);
	if (has_auxiliary())
		wrmsr(IA32_PERFEVTSEL0, AUXILIARY | PMU_OS | PERFEVTSEL_EN);
	wrmsr(IA32_PEBS_ENABLE, enable);
}

/* Rounds until there is a record; MOST_ROUNDS: there may be none. */
static unsigned rounds_of(struct pebs *pebs, unsigned n, unsigned most)
{
	unsigned rounds = 0;

	while (rounds < most && !pebs_count(pebs)) {
		load_all(1ull << n | has_auxiliary());
		rounds++;
	}
	return rounds;
}

static void expect_loads(const struct pebs *pebs, uint64_t threshold)
{
	for (size_t slot = 0; slot < pebs_count(pebs); slot++) {
		struct pebs_sample sample = pebs_sample(pebs, slot);

		EXPECT(sample.latency > threshold);
		EXPECT(sample.source <= SOURCE_BITS);
		EXPECT_EQ(sample.address, (uint64_t)&pebs_words[sample.registers[3]]);
		EXPECT_EQ(sample.registers[8], (uint64_t)pebs_words);
		EXPECT_EQ(sample.registers[15], (uint64_t)pebs_words);
	}
}

/* Sources 1 to 6 are hits of a cache (table 18-24): so is one of many loads of words that were all
   loaded just before. */
static bool has_hit(const struct pebs *pebs)
{
	for (size_t slot = 0; slot < pebs_count(pebs); slot++) {
		uint64_t source = pebs_sample(pebs, slot).source & 0xf;

		if (source >= 1 && source <= 6)
			return true;
	}
	return false;
}

TEST(pebs_load_latency, .group = "PE", .ids = "PE47 PE64 PE65 PE76 PE77 PE78 PE83",
     .needs = NEED_PEBS | ON_EACH_CPU,
     .claim = "each counter with its load latency bit samples loads: their address, a source, a "
	      "cache of some, registers, and a latency above the threshold",
     .source = "SDM Vol 3, 18.8.1.1 and 18.11.2; Linux 6.1, perf_event.h")
{
	struct pebs pebs CLOSED_BY(close);

	open(&pebs);
	for (unsigned n = 0; n < pmu_caps()->general; n++) {
		if (!is_chosen(&pebs, n))
			continue;
		load_all(0);
		arm(&pebs, n, 3, both_bits(&pebs, n));
		rounds_of(&pebs, n, MOST_ROUNDS);
		test_observe("records", "counter %u: %zu", n, pebs_count(&pebs));
		EXPECT(pebs_count(&pebs) > 0);
		expect_loads(&pebs, 3);
		EXPECT(has_hit(&pebs));
	}
}

/* Until there is a record. Each CALL there stores to the stack, which is the page after the code,
   and each RET loads. */
static void visit_user(struct pebs *pebs, uint64_t counters)
{
	user_branches_open();
	for (unsigned visit = 0; visit < MOST_ROUNDS && !pebs_count(pebs); visit++) {
		wrmsr(IA32_PERF_GLOBAL_CTRL, counters);
		user_branches_run(0);
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	}
	user_branches_close();
}

/* Where the load is and what it got are in the record of whatever latency the silicon has. */
TEST(pebs_latency_threshold, .group = "PE", .ids = "PE48", .needs = NEED_PEBS,
     .claim = "loads are sampled whose latency is above MSR_PEBS_LD_LAT_THRESHOLD, and no other",
     .source = "SDM Vol 3, 18.8.1.1: latencies greater than this value")
{
	static const uint64_t thresholds[] = {3, 4, 5, 6, 7, 8, 16, 0x100, 0x8000, 0xffff};
	struct pebs pebs CLOSED_BY(close);
	uint64_t least = UINT64_MAX;
	unsigned n, rounds;

	open(&pebs);
	n = is_chosen(&pebs, 0) ? 0 : 3;
	arm(&pebs, n, 3, both_bits(&pebs, n));
	rounds = rounds_of(&pebs, n, MOST_ROUNDS);
	EXPECT(pebs_count(&pebs) > 0);
	for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
		uint64_t latency = pebs_sample(&pebs, slot).latency;

		least = latency < least ? latency : least;
	}
	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		uint64_t threshold = i || has_auxiliary() ? thresholds[i] : least - 1;

		arm(&pebs, n, threshold, both_bits(&pebs, n));
		rounds_of(&pebs, n, i ? 2 * rounds : MOST_ROUNDS);
		if (!i)
			EXPECT(pebs_count(&pebs) > 0);
		expect_loads(&pebs, threshold);
	}
	visit_user(&pebs, 1ull << n | has_auxiliary());
	EXPECT(pebs_sample(&pebs, 0).latency > 0xffff); /* so it is without a record */
}

TEST(pebs_latency_enable, .group = "PE", .ids = "PE36 PE47", .needs = NEED_PEBS,
     .claim = "without a load latency bit, or without a PEBS bit, no latency is reported",
     .source = "SDM Vol 3, 18.8.1.1: both bits must be set")
{
	struct pebs pebs CLOSED_BY(close);
	unsigned n, rounds;

	open(&pebs);
	pebs_need(&pebs, !pebs.adaptive, "load latency has no enable bits");
	n = is_chosen(&pebs, 2) ? 2 : is_chosen(&pebs, 3) ? 3 : 1;
	arm(&pebs, n, 3, both_bits(&pebs, n));
	rounds = rounds_of(&pebs, n, MOST_ROUNDS);
	EXPECT(pebs_count(&pebs) > 0);
	for (uint64_t bits = 0; bits < 16; bits += 15) { /* those of the other counters too */
		arm(&pebs, n, 3, 1ull << n | (bits & ~(1ull << n)) << 32);
		rounds_of(&pebs, n, 2 * rounds);
		for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
			struct pebs_sample sample = pebs_sample(&pebs, slot);

			EXPECT(!sample.latency || (bits && !sample.source));
		}
	}
	arm(&pebs, n, 3, 0xfull << 32);
	rounds_of(&pebs, n, 2 * rounds);
	EXPECT_EQ(pebs_count(&pebs), 0);
}

TEST(pebs_latency_of_loads, .group = "PE", .ids = "PE49", .needs = NEED_PEBS,
     .claim = "the event of load latency counts loads, and ignores stores",
     .source = "SDM Vol 3, 18.8.1.1")
{
	struct pebs pebs CLOSED_BY(close);
	unsigned n;
	uint64_t before;

	open(&pebs);
	n = is_chosen(&pebs, 1) ? 1 : 3;
	arm(&pebs, n, 3, both_bits(&pebs, n));
	before = rdmsr(IA32_PMC0 + n);
	store_all(1ull << n);
	EXPECT_EQ(rdmsr(IA32_PMC0 + n), before);
	EXPECT_EQ(pebs_count(&pebs), 0);
	rounds_of(&pebs, n, MOST_ROUNDS);
	EXPECT(pebs_count(&pebs) > 0);
}

/* MEM_INST_RETIRED or MEM_UOPS_RETIRED, ALL_LOADS and ALL_STORES. */
static const uint16_t accesses[] = {0x81d0, 0x82d0};

extern const uint8_t pebs_load[], pebs_store[], pebs_stored[];

/* Each turn loads a word from here on, the one here with a mask of 0, and stores one 1024 bytes
   further. */
uint8_t *pebs_from;
uint32_t pebs_mask;

static void check_addresses(struct pebs *pebs, unsigned n, unsigned half)
{
	pebs_reset(pebs);
	pebs_arm_event(pebs, n, accesses[half] | PMU_OS, 20);
	SAMPLED(1ull << n,
		"xorl %%ebx, %%ebx\n\tmovq pebs_from(%%rip), %%rdi\n\tmovl pebs_mask(%%rip), %%esi\n"
		"1: movl %%ebx, %%edx\n\tandl %%esi, %%edx\n"
		"pebs_load: movq (%%rdi, %%rdx, 8), %%rax\n"
		"pebs_store: movq %%rax, 1024(%%rdi, %%rdx, 8)\n"
		"pebs_stored: incl %%ebx\n\tcmpl $128, %%ebx\n\tjb 1b");
	EXPECT(pebs_count(pebs) > 0);
	for (size_t slot = 0; slot < pebs_count(pebs); slot++) {
		struct pebs_sample sample = pebs_sample(pebs, slot);

		EXPECT_EQ(sample.address,
			  (uint64_t)pebs_from + 1024 * half + 8 * sample.registers[2]);
		EXPECT_EQ(sample.event_ip, (uint64_t)(half ? pebs_store : pebs_load));
		if (!ds_caps()->pebs_fault)
			EXPECT_EQ(sample.ip, (uint64_t)(half ? pebs_stored : pebs_store));
	}
}

static void check_user_address(struct pebs *pebs, unsigned half)
{
	pebs_reset(pebs);
	pebs_arm_event(pebs, 0, accesses[half] | PMU_USR, 1);
	visit_user(pebs, 1);
	EXPECT_EQ(pebs_sample(pebs, 0).address / PAGE_SIZE, VISITS_AT / PAGE_SIZE + 1);
}

/* MOVS loads from one place, by the base of GS, and stores to another. */
static void check_copies(struct pebs *pebs, unsigned half)
{
	pebs_reset(pebs);
	pebs_arm_event(pebs, 0, accesses[half] | PMU_OS, 20);
	pebs_from = (uint8_t *)((uint64_t)pebs_words - (uint64_t)this_cpu());
	SAMPLED(1, "movq pebs_from(%%rip), %%r8\n\tmovl $128, %%ebx\n1: movq %%r8, %%rsi\n\t"
		   "leaq pebs_words+1024(%%rip), %%rdi\n\tmovsq %%gs:(%%rsi), %%es:(%%rdi)\n\t"
		   "decl %%ebx\n\tjnz 1b");
	EXPECT_EQ(pebs_sample(pebs, 0).address, (uint64_t)pebs_words + 1024 * half);
}

/* The four counters that these events have on each model: Linux 6.1, ds.c. */
TEST(pebs_data_address, .group = "PE", .ids = "PE14 PE61 PE74 PE76 PE83", .needs = NEED_PEBS,
     .claim = "the record of a load or store has the linear address that it accessed, of ring 3, "
	      "two pages and MOVS too",
     .source = "SDM Vol 3, 18.8.1.1 and 18.11.2")
{
	PEBS(pebs, 8);
	pebs_need(&pebs, pebs.format >= 2, "addresses of the load latency event alone");
	pebs_need_state(&pebs);
	for (unsigned half = 0; half < 2; half++) {
		pebs_from = (uint8_t *)pebs_words;
		pebs_mask = UINT32_MAX;
		EACH_COUNTER (n, pebs_counters(&pebs) & 0xf)
			check_addresses(&pebs, n, half);
		/* Over the end of a page. */
		pebs_from = (uint8_t *)test_area(2) + PAGE_SIZE - 3 - 1024 * half;
		pebs_mask = 0;
		check_addresses(&pebs, 0, half);
		check_user_address(&pebs, half);
		check_copies(&pebs, half);
	}
}

/* 100 times: a conditional branch of a random direction, an indirect call to one of two places, a
   PUSH of memory and a POP, the return and the branch back; a direct jump, an indirect one, a far
   return. */
uint32_t pebs_directions; /* random, and others in each run: no predictor knows them */
#define ROUNDS 100
#define RANDOM_STEPS                                                                               \
	"movl $100, %%esi\n\tmovl pebs_directions(%%rip), %%eax\n\tleaq 5f(%%rip), %%rdx\n"        \
	"1: movl %%eax, %%ecx\n\tshll $13, %%ecx\n\txorl %%ecx, %%eax\n\t"                         \
	"movl %%eax, %%ecx\n\tshrl $17, %%ecx\n\txorl %%ecx, %%eax\n\t"                            \
	"movl %%eax, %%ecx\n\tshll $5, %%ecx\n\txorl %%ecx, %%eax\n\t"                             \
	"leaq 3f(%%rip), %%rbx\n\ttestl $2, %%eax\n\tcmovzq %%rdx, %%rbx\n\t"                      \
	"testl $1, %%eax\n\tjz 2f\n\tnop\n2: call *%%rbx\n\tdecl %%esi\n\tjnz 1b\n\tjmp 4f\n"      \
	"3: pushq pebs_words(%%rip)\n\tpopq %%rcx\n\tret\n"                                        \
	"5: pushq pebs_words(%%rip)\n\tpopq %%rcx\n\tret\n"                                        \
	"4: leaq 7f(%%rip), %%rbx\n\tjmp *%%rbx\n"                                                 \
	"7: movq %%cs, %%rcx\n\tpushq %%rcx\n\tleaq 6f(%%rip), %%rcx\n\tpushq %%rcx\n\tlretq\n6:"

/* An event, how often it occurs in RANDOM_STEPS, and the counters that sample it. */
struct precise {
	uint16_t event, least, most;
	uint8_t counters;
};
enum { ALL_BRANCHES = 4 * ROUNDS + 3, FEW = ROUNDS / 8, OVER = 40 };

#define INSTRUCTIONS 17 * ROUNDS, 23 * ROUNDS
#define LOADS	     3 * ROUNDS, 3 * ROUNDS + OVER
#define STORES	     2 * ROUNDS, 2 * ROUNDS + OVER

static const struct precise of_core[] = {
	{0x00c0, INSTRUCTIONS, 1}, {0x00c5, 1, ALL_BRANCHES, 1}, {0}};
static const struct precise of_nehalem[] = {
	{0x010b, LOADS, 0xf},
	{0x020b, STORES, 0xf},
	{0x00c0, INSTRUCTIONS, 0xf},
	{0x01c0, INSTRUCTIONS, 0xf},
	{0x01c4, 2 * ROUNDS, 2 * ROUNDS, 0xf},
	{0x02c4, ROUNDS, ROUNDS, 0xf},
	{0x04c4, ALL_BRANCHES, ALL_BRANCHES, 0xf},
	{0x02c5, 1, ROUNDS, 0xf},
	{0},
};
/* The first one is not of skylake: SDM Vol 3, table 18-56. */
static const struct precise of_haswell[] = {
	{0x01c2, 17 * ROUNDS, 60 * ROUNDS, 0xf},
	{0x00c0, INSTRUCTIONS, 0},
	{0x00c4, ALL_BRANCHES, ALL_BRANCHES, 0},
	{0x81d0, LOADS, 0xf},
	{0x82d0, STORES, 0xf},
	{0x01c0, INSTRUCTIONS, 2},
	{0x01c4, 2 * ROUNDS, 2 * ROUNDS, 0xf},
	{0x02c4, ROUNDS, ROUNDS, 0xf},
	{0x04c4, ALL_BRANCHES, ALL_BRANCHES, 0xf},
	{0x08c4, ROUNDS, ROUNDS, 0xf},
	{0x10c4, FEW, ROUNDS + 1, 0},
	{0x20c4, 3 * ROUNDS, ALL_BRANCHES, 0xf},
	{0x40c4, 1, OVER, 0},
	{0x01c5, 1, 2 * ROUNDS, 0xf},
	{0x04c5, 1, ALL_BRANCHES, 0xf},
	{0x20c5, 1, ALL_BRANCHES, 0xf},
	{0},
};
/* The first two by four counters, and the third not by all: Linux 6.1, ds.c. */
static const struct precise of_icelake[] = {
	{0x81d0, LOADS, 0xf},
	{0x82d0, STORES, 0xf},
	{0x00c0, INSTRUCTIONS, 0xfe},
	{0x00c4, ALL_BRANCHES, ALL_BRANCHES, 0xff},
	{0x01c4, ROUNDS - 1, 2 * ROUNDS - 1, 0xff},
	{0x02c4, ROUNDS, ROUNDS, 0xff},
	{0x08c4, ROUNDS, ROUNDS, 0xff},
	{0x10c4, FEW, ROUNDS + 1, 0xff},
	{0x11c4, 2 * ROUNDS, 2 * ROUNDS, 0xff},
	{0x20c4, 3 * ROUNDS, ALL_BRANCHES, 0xff},
	{0x40c4, 1, OVER, 0},
	{0x80c4, ROUNDS + 1, ROUNDS + 1, 0xff},
	{0x00c5, 1, ALL_BRANCHES, 0xff},
	{0},
};

/* By the model of CPUID.1: SDM Vol 3, chapter 19. */
static const struct precise *precise_events(void)
{
	struct cpuid_signature signature = cpuid_signature(cpuid(1, 0).eax);

	if (signature.family != 6)
		return NULL;
	switch (signature.model) {
	case 0x0f:
	case 0x17:
	case 0x1c:
		return of_core;
	case 0x1a:
	case 0x1e:
	case 0x2e:
		return of_nehalem;
	case 0x3c:
	case 0x3d:
	case 0x45:
	case 0x46:
	case 0x47:
		return of_haswell;
	case 0x4e:
	case 0x5e:
		return &of_haswell[1];
	case 0x6a:
	case 0x6c:
	case 0x7d:
	case 0x7e:
	case 0x8f:
		return of_icelake;
	default:
		return NULL;
	}
}

/* Of RANDOM_STEPS: whether a branch that has the event is at this address. */
static bool is_branch_of(uint16_t event, uint64_t address)
{
	const uint8_t *at = (const uint8_t *)address;
	bool calls, jumps, returns, conditional;

	if (!text_is(address, at, 0))
		return false;
	calls = at[0] == 0xff && at[1] == 0xd3;
	jumps = at[0] == 0xff && at[1] == 0xe3;
	returns = at[0] == 0xc3;
	conditional = at[0] >> 4 == 7;
	switch (event) {
	case 0x01c4:
	case 0x10c4:
	case 0x11c4:
	case 0x01c5:
		return conditional;
	case 0x02c4:
	case 0x02c5:
		return calls;
	case 0x08c4:
		return returns;
	case 0x80c4:
		return calls || jumps;
	default: /* or a Jcc, a direct jump, a far return */
		return calls || jumps || returns || conditional || at[0] == 0xeb || at[1] == 0xcb;
	}
}

static void check_event(struct pebs *pebs, const struct precise *precise)
{
	bool branches = pebs->format >= 2 && (precise->event & 0xfe) == 0xc4;
	uint64_t count, within;
	static const uint8_t push[] = {0xff, 0x35}; /* where a call leads to */
	bool random;

	pebs_arm_event(pebs, 0, precise->event | PMU_OS, 0);
	wrmsr(IA32_PEBS_ENABLE, 0);
	wrmsr(IA32_PERFEVTSEL0 + 1, pebs->event | PERFEVTSEL_EN); /* beside it */
	pebs_directions = (uint32_t)test_random() | 1;
	SAMPLED(3, RANDOM_STEPS);
	wrmsr(IA32_PERFEVTSEL0 + 1, 0);
	count = rdmsr(IA32_PMC0);
	within = count < precise->least ? precise->least : count;
	within = within > precise->most ? precise->most : within;
	EXPECT_EQ((uint64_t)precise->event << 32 | count, (uint64_t)precise->event << 32 | within);
	for (unsigned n = 0; n < pmu_caps()->general; n++) {
		if (!(precise->counters >> n & 1))
			continue;
		pebs_reset(pebs);
		pebs_arm_event(pebs, n, precise->event | PMU_OS, FEW / 2);
		for (unsigned round = 0; round < MOST_ROUNDS && !pebs_count(pebs); round++) {
			pebs_directions = (uint32_t)test_random() | 1;
			SAMPLED(1u << n, RANDOM_STEPS);
		}
		EXPECT(pebs_count(pebs) > 0);
		/* Most are of JZ: JNZ goes back 99 times. */
		random = precise->event != 0x01c5 || !branches;
		for (size_t slot = 0; branches && slot < pebs_count(pebs); slot++) {
			struct pebs_sample sample = pebs_sample(pebs, slot);
			uint64_t step = sample.ip - sample.event_ip; /* 2 of a Jcc not taken */

			bool right = is_branch_of(precise->event, sample.event_ip);

			right &= (precise->event == 0x10c4 ? step == 2 : step != 0) ||
				 ds_caps()->pebs_fault;
			EXPECT(right);
			random |= right && *(const uint8_t *)sample.event_ip == 0x74;
		}
		if (precise->event == 0x02c4 && !ds_caps()->pebs_fault && pebs_has_state(pebs))
			random = text_is(pebs_sample(pebs, 0).ip, push, sizeof(push));
		EXPECT(random);
	}
	pebs_reset(pebs);
}

TEST(pebs_precise_events, .group = "PE", .ids = "PE14 PE61 PE74 PE111", .needs = NEED_PEBS,
     .claim = "each precise event of the model counts what it names, and each counter that has it "
	      "samples such, and where they lead",
     .source = "SDM Vol 3, 18.8.1.1 and 18.13; Linux 6.1, ds.c")
{
	const struct precise *precise = precise_events();

	if (!precise || silicon_is_foreign_guest())
		test_skip("the precise events of this model are not listed here");
	PEBS(pebs, 4);
	for (; precise->event; precise++)
		if (!pmu_lacks_event(precise->event))
			check_event(&pebs, precise);
}

#define EDGE (1ull << 18)
#define INV  (1ull << 23)

/* PEBS wants them clear: how many samples there are is not said (18.9.4). */
static void check_select(struct pebs *pebs, uint64_t flags)
{
	uint64_t whole = pebs->event | flags | PERFEVTSEL_EN;

	pebs_reset(pebs);
	wrmsr(IA32_PERFEVTSEL0, whole);
	EXPECT_EQ(rdmsr(IA32_PERFEVTSEL0), whole);
	pebs_arm_event(pebs, 0, pebs->event | flags, 10);
	pebs_run_jumps(1, 90);
	test_observe("samples", "flags %lx: %zu", flags, pebs_count(pebs));
	EXPECT(pebs_count(pebs) <= pebs->slots);
	if (!flags)
		EXPECT(pebs_count(pebs) > 0);
}

TEST(pebs_odd_selects, .group = "PE", .ids = "PE26", .needs = NEED_PEBS,
     .claim = "edge detect, INV or CMASK of a sampled counter write nothing out of bounds",
     .source = "SDM Vol 3, 18.8.1.1 and 18.2.1.1")
{
	static const uint64_t flags[] = {0,
					 EDGE,
					 INV,
					 1ull << 24,
					 INV | 1ull << 24,
					 2ull << 24,
					 255ull << 24,
					 EDGE | 2ull << 24};

	PEBS(pebs, 4);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		check_select(&pebs, flags[i]);
}

/* The event of PDIR, of counter 1 alone: Sandy Bridge to Skylake. */
static bool has_pdir(const struct pebs *pebs)
{
	uint32_t eax = cpuid(1, 0).eax;
	unsigned model = (eax >> 4 & 0xf) | (eax >> 12 & 0xf0);

	if (pebs->format == 1)
		return model == 0x2a || model == 0x2d || model == 0x3a || model == 0x3e;
	return (pebs->format == 2 || pebs->format == 3) && (pebs->event & 0xffff) == 0x04c4;
}

TEST(pebs_pdir_next_event, .group = "PE", .ids = "PE8", .needs = NEED_PEBS,
     .claim = "with PDIR the event that overflows the counter or the next is sampled, no later one",
     .source = "SDM Vol 3, 18.9.4.4")
{
	const uint64_t event = 0x01c0 | PMU_OS | PMU_USR;
	uint64_t events;

	PEBS(pebs, 4);
	pebs_need(&pebs, has_pdir(&pebs), "no PDIR on counter 1");
	wrmsr(IA32_PMC0 + 1, 0);
	wrmsr(IA32_PERFEVTSEL0 + 1, event | PERFEVTSEL_EN);
	pebs_run_jumps(2, 1000);
	events = rdmsr(IA32_PMC0 + 1);
	EXPECT(events >= 1000);
	for (unsigned less = 0; less < 3; less++) {
		pebs_reset(&pebs);
		pebs_arm_event(&pebs, 1, event, events + 1 - less);
		pebs_run_jumps(2, 1000);
		EXPECT_EQ(pebs_count(&pebs) + (rdmsr(IA32_PERF_GLOBAL_STATUS) >> 1 & 1), less > 0);
		if (less != 1)
			EXPECT_EQ(pebs_count(&pebs), less / 2);
	}
}
