// SPDX-License-Identifier: MIT
// One sample: when it is taken, what it holds, what else changes.
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "kernel/silicon.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/user_visits.h"

TEST(pebs_record_size, .group = "PE", .ids = "PE6 PE7", .needs = NEED_PEBS,
     .claim = "one sample writes one record of its format's size, and of the DS area its index",
     .source = "SDM Vol 3, 17.4.9, 18.4.4 and figure 17-8")
{
	uint8_t before[DS_AREA_SIZE];

	PEBS(pebs, 4);
	memset(pebs.rig.area_page, 0, 8 * DS_PEBS_BUFFER_BASE); /* no buffer of BTS */
	for (size_t i = 0x80; i < DS_AREA_SIZE; i++)
		pebs.rig.area_page[i] = (uint8_t)(i * 7 + 1);
	pebs_arm(&pebs, 0, 100);
	memcpy(before, pebs.rig.area_page, sizeof(before));
	pebs_run_jumps(1, 150);
	EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + pebs.record);
	EXPECT(!pebs_is_poison(&pebs, 0));
	for (size_t slot = 1; slot < pebs.slots; slot++)
		EXPECT(pebs_is_poison(&pebs, slot));
	for (size_t i = 0; i < DS_AREA_SIZE; i++)
		if (i < 8 * DS_PEBS_INDEX || i >= 8 * DS_PEBS_INDEX + 8)
			EXPECT_EQ(pebs.rig.area_page[i], before[i]);
}

extern const uint8_t pebs_jumps[];

static bool shows_next(void)
{
	return cpuid(1, 0).ecx & CPUID_1_ECX_PDCM &&
	       rdmsr(IA32_PERF_CAPABILITIES) & PERF_CAPABILITIES_PEBS_TRAP;
}

/* Events of the body and around it are counted first, without PEBS. The last one is the RET, which
   is sampled without a skid; with the reduced one of 18.7.1.2 where it overflows the counter. */
TEST(pebs_after_overflow, .group = "PE", .ids = "PE8 PE13", .needs = NEED_PEBS,
     .claim = "N events overflow a counter of -N and arm it, the last or one after is sampled",
     .source = "SDM Vol 3, 18.4.4 and 18.9.4.4")
{
	struct pebs_sample sample;
	uint64_t events;

	PEBS(pebs, 4);
	events = EVENTS_OF(&pebs, pebs_run_jumps(1, 1000));
	EXPECT(events >= 1000);
	pebs_arm(&pebs, 0, events + 1);
	pebs_run_jumps(1, 1000);
	EXPECT_EQ(pebs_count(&pebs), 0);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 0);
	pebs_arm(&pebs, 0, events);
	pebs_run_jumps(1, 1000);
	EXPECT_EQ(pebs_count(&pebs), ~rdmsr(IA32_PERF_GLOBAL_STATUS) & 1);
	pebs_reset(&pebs);
	pebs_arm(&pebs, 0, events - 1 - PEBS_SKID_MOST);
	if (pmu_caps()->version >= 4 && !pebs.adaptive) /* no overflow */
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, 1);
	pebs_run_jumps(1, 1000);
	EXPECT_EQ(pebs_count(&pebs), 1);
	pebs_reset(&pebs);
	pebs_arm(&pebs, 0, events - 1);
	pebs_run_jumps(1, 1000);
	sample = pebs_sample(&pebs, 0);
	if (sample.event_ip == (uint64_t)pebs_jumps + 8000)
		EXPECT(sample.ip != sample.event_ip || !shows_next());
}

/* Which of JUMPS(1000) was sampled, from 1 on. */
static uint64_t sampled_jump(const struct pebs *pebs)
{
	struct pebs_sample sample = pebs_sample(pebs, 0);
	uint64_t at = sample.event_ip ? sample.event_ip : sample.ip - (shows_next() ? 2 : 0);

	return (at - (uint64_t)pebs_jumps) / 2 - 2999;
}

/* A delay is before the sample: 18.9.4.4. Loaded with -1 it overflows again, and has no room. */
TEST(pebs_reloads_counter, .group = "PE", .ids = "PE9 PE10", .needs = NEED_PEBS,
     .claim = "a sample loads the counter with its reset value and clears its status bit",
     .source = "SDM Vol 3, 18.4.4")
{
	uint64_t mask = (1ull << pmu_caps()->general_width) - 1, value, events;

	PEBS(pebs, 1);
	events = EVENTS_OF(&pebs, pebs_run_jumps(1, 1000));
	for (uint64_t period = 1; period <= 5000; period += 4999) {
		pebs_reset(&pebs);
		pebs_arm(&pebs, 0, 899);
		pebs_set(&pebs, DS_PEBS_COUNTER_RESET, -period & mask);
		pebs_run_jumps(1, 1000);
		value = (rdmsr(IA32_PMC0) + period) & mask;
		EXPECT_EQ(pebs_count(&pebs), 1);
		EXPECT(value <= events - 899 && value + PEBS_SKID_MOST >= events - 900);
		if (pebs.branches) /* those after the CALL and the sampled one */
			EXPECT_EQ(value, events - 1 - sampled_jump(&pebs));
	}
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 0);
}

/* Counter 1 takes no samples. It overflows before counter 0, with it, or at the next event. */
TEST(pebs_leaves_others_alone, .group = "PE", .ids = "PE11", .needs = NEED_PEBS,
     .claim = "a sample changes neither value nor status of a counter without PEBS",
     .source = "SDM Vol 3, 18.4.4")
{
	uint64_t events;

	PEBS(pebs, 4);
	events = EVENTS_OF(&pebs, pebs_run_jumps(1, 1000));
	lapic_mask_lvtpc();
	for (uint64_t left = 599; left < 602; left++) {
		pebs_reset(&pebs);
		pebs_arm(&pebs, 0, 600);
		wrmsr(IA32_PMC0 + 1, -left);
		wrmsr(IA32_PERFEVTSEL0 + 1, pebs.event | PERFEVTSEL_INT | PERFEVTSEL_EN);
		pebs_run_jumps(3, 1000);
		EXPECT_EQ(pebs_count(&pebs), 1);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 3, 2);
		EXPECT_EQ(rdmsr(IA32_PMC0 + 1), events - left);
	}
	pebs_reset(&pebs);
	lapic_unmask_lvtpc();
}

uint32_t pebs_turns;

TEST(pebs_period, .group = "PE", .ids = "PE12 PE61 PE92", .needs = NEED_PEBS,
     .claim =
	     "a counter of -N takes a sample at every N+1st event, or as many later as its skid is",
     .source = "SDM Vol 3, 18.4.4 and 18.9.4.4")
{
	bool format_0 = !ds_caps()->pebs_format;
	struct pebs_sample sample;
	size_t count = 0;
	uint64_t skid;

	PEBS(pebs, format_0 ? 28 : 128);
	skid = pebs_skid(&pebs);
	for (unsigned round = 0; round < (format_0 ? 10 : 1); round++) {
		pebs_reset(&pebs);
		pebs_arm(&pebs, 0, 1000 - skid);
		pebs_turns = format_0 ? 5250 : 100100;
		SAMPLED(1, "movl pebs_turns(%%rip), %%ebx\n"
			   "1: decl %%ebx\n\tjnz 1b");
		count += pebs_count(&pebs);
	}
	sample = pebs_sample(&pebs, 0);
	EXPECT(sample.ip != sample.event_ip + 2); /* JNZ leads back */
	test_observe("samples", "%zu of 100100 events", count);
	EXPECT(count >= 98 && count <= 102);
}

extern const char pebs_body[];

/* RBX is the number of JMPs so far; each INC takes 3 bytes, each JMP 2. */
#define NUMBERED_JUMPS                                                                             \
	"movabsq $0x1111222233334444, %%r8\n\tleaq 1(%%r8), %%r9\n\tleaq 2(%%r8), %%r10\n\t"       \
	"leaq 3(%%r8), %%r11\n\tleaq 4(%%r8), %%r12\n\tleaq 5(%%r8), %%r13\n\t"                    \
	"leaq 6(%%r8), %%r14\n\tleaq 7(%%r8), %%r15\n\tleaq 8(%%r8), %%rax\n\t"                    \
	"leaq 9(%%r8), %%rcx\n\tleaq 10(%%r8), %%rdx\n\tleaq 11(%%r8), %%rsi\n\t"                  \
	"leaq 12(%%r8), %%rdi\n\txorl %%ebx, %%ebx\n"                                              \
	"pebs_body: .rept 170\n\tincq %%rbx\n\tjmp 771f\n771:\n\t.endr\n\t"

static __attribute__((noinline)) void run_numbered_jumps(void)
{
	SAMPLED(1, NUMBERED_JUMPS);
}

static void expect_registers(const struct pebs_sample *sample)
{
	static const uint8_t order[] = {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 6, 7};

	for (unsigned i = 0; i < sizeof(order); i++)
		EXPECT_EQ(sample->registers[order[i]], 0x1111222233334444 + i);
}

TEST(pebs_registers, .group = "PE", .ids = "PE13", .needs = NEED_PEBS,
     .claim = "a record has the registers as its instruction left them, and the next one's address",
     .source = "SDM Vol 3, 18.4.4 and figure 17-8")
{
	struct pebs_sample sample;
	uint64_t at, stack;

	PEBS(pebs, 8);
	pebs_need_state(&pebs);
	pebs_arm(&pebs, 0, 24);
	__asm__ volatile("movq %%rsp, %0" : "=r"(stack));
	run_numbered_jumps();
	REQUIRE_EQ(pebs_count(&pebs) > 2, true);
	for (size_t slot = 0; slot < 3; slot++) {
		sample = pebs_sample(&pebs, slot);
		expect_registers(&sample);
		at = sample.ip - (uint64_t)pebs_body;
		test_observe("ip", "%lu bytes, %lu jumps", at, sample.registers[3]);
		if (sample.event_ip == sample.ip) /* IA32_PERF_CAPABILITIES.PEBS_TRAP = 0 */
			EXPECT_EQ(at % 5, 3);
		else
			EXPECT(at == 5 * sample.registers[3] || at + 2 == 5 * sample.registers[3] ||
			       !pebs.branches);
		EXPECT(sample.registers[4] <= stack && stack - sample.registers[4] < 256);
		EXPECT(sample.flags & 2 && !(sample.flags & 0x200));
	}
}

extern const uint8_t pebs_far[], pebs_far_to[];

static __attribute__((noinline)) void run_far_returns(void)
{
	SAMPLED(1, "movl $60, %%ebx\n1: movq %%cs, %%rcx\n\tpushq %%rcx\n\t"
		   "leaq pebs_far_to(%%rip), %%rcx\n\tpushq %%rcx\n"
		   "pebs_far: lretq\npebs_far_to: decl %%ebx\n\tjnz 1b");
}

/* Every other branch is a far return: one period or the other samples some. */
static void check_far_returns(struct pebs *pebs)
{
	uint64_t to = (uint64_t)(shows_next() ? pebs_far_to : pebs_far);
	bool found = false;

	for (uint64_t period = 8; period < 10; period++) {
		pebs_reset(pebs);
		pebs_arm(pebs, 0, period);
		run_far_returns();
		for (size_t slot = 0; slot < pebs_count(pebs); slot++) {
			struct pebs_sample sample = pebs_sample(pebs, slot);

			EXPECT(sample.event_ip != (uint64_t)pebs_far || sample.ip == to);
			found |= sample.event_ip == (uint64_t)pebs_far;
		}
	}
	EXPECT(found);
}

TEST(pebs_event_address, .group = "PE", .ids = "PE14", .needs = NEED_PEBS,
     .claim = "EventingIP is the sampled instruction, IP where it leads to",
     .source = "SDM Vol 3, 18.11.2")
{
	PEBS(pebs, 8);
	pebs_need(&pebs, pebs.format >= 2, "no EventingIP");
	pebs_arm(&pebs, 0, 24);
	run_numbered_jumps();
	REQUIRE_EQ(pebs_count(&pebs) > 2, true);
	for (size_t slot = 0; slot < 3; slot++) {
		struct pebs_sample sample = pebs_sample(&pebs, slot);
		uint64_t at = sample.event_ip - (uint64_t)pebs_body;

		EXPECT_EQ(at % 5, 3);
		if (!pebs_has_state(&pebs))
			continue;
		EXPECT_EQ(at + 2, 5 * sample.registers[3]);
		EXPECT(sample.ip == sample.event_ip + 2 || sample.ip == sample.event_ip);
	}
	if (pebs_has_state(&pebs))
		check_far_returns(&pebs);
}

/* An instruction of format 0 may be INC or JMP. */
TEST(pebs_trap_bit, .group = "PE", .ids = "PE56 PE61 PE74", .needs = NEED_PEBS,
     .claim = "IP is the next instruction's where IA32_PERF_CAPABILITIES.PEBS_TRAP is set, else "
	      "the sampled one's",
     .source = "SDM Vol 3, 18.4.4 and 18.8.1.1")
{
	bool trap = shows_next();

	PEBS(pebs, 8);
	pebs_need_state(&pebs);
	pebs_arm(&pebs, 0, 24);
	run_numbered_jumps();
	EXPECT(pebs_count(&pebs) > 2);
	for (size_t slot = 0; slot < 3; slot++) {
		struct pebs_sample sample = pebs_sample(&pebs, slot);
		uint64_t at = sample.ip - (uint64_t)pebs_body;

		if (pebs.branches)
			EXPECT_EQ(at % 5, trap ? 0 : 3);
		if (pebs.branches && trap)
			EXPECT_EQ(at, 5 * sample.registers[3]);
		if (!pebs.branches && trap)
			EXPECT_EQ((at + 2) / 5, sample.registers[3]);
		if (sample.event_ip)
			EXPECT_EQ(sample.ip, sample.event_ip + (trap ? 2 : 0));
	}
}

TEST(pebs_says_which_counter, .group = "PE", .ids = "PE16", .needs = NEED_PEBS,
     .claim = "a record names the counter that was sampled, from format 3 on no other",
     .source = "SDM Vol 3, 18.8.1.1 and 18.13")
{
	PEBS(pebs, 4);
	pebs_need(&pebs, pebs.format, "records do not name counters");
	pebs_arm(&pebs, 0, 100);
	wrmsr(IA32_PMC0 + 1, (uint64_t)-10);
	wrmsr(IA32_PERFEVTSEL0 + 1, pebs.event | PERFEVTSEL_EN);
	pebs_run_jumps(3, 150);
	EXPECT_EQ(pebs_count(&pebs), 1);
	EXPECT_EQ(pebs_sample(&pebs, 0).status, pebs.format >= 3 ? 1 : 3);
}

TEST(pebs_time, .group = "PE", .ids = "PE17 PE75", .needs = NEED_PEBS,
     .claim = "the time stamps of records are within those of the program, in a guest as far apart "
	      "as those at most, and each is later than the one before",
     .source = "SDM Vol 3, 18.13")
{
	uint64_t began, before, after, last;

	PEBS(pebs, 16);
	pebs_need(&pebs, pebs.format >= 3, "no time stamp");
	EACH_COUNTER (n, pebs_counters(&pebs)) {
		pebs_reset(&pebs);
		pebs_arm(&pebs, n, 20);
		began = before = last = tsc_read();
		pebs_run_jumps(1ull << n, 200);
		after = tsc_read();
		REQUIRE(pebs_count(&pebs) >= 200 / (21 + PEBS_SKID_MOST));
		if (silicon_is_foreign_guest()) { /* its TSC may have an offset */
			before = pebs_sample(&pebs, 0).tsc;
			last = before - 1;
			after += before - began;
		}
		for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
			uint64_t tsc = pebs_sample(&pebs, slot).tsc;

			EXPECT(tsc > last && tsc <= after);
			last = tsc;
		}
		EXPECT(before < after);
	}
}

// The fields of a record and of the DS area one by one, and each counter in turn.

/* CF, PF, AF, ZF, SF, DF, OF, IOPL, NT, AC, VIF, VIP, ID, and the bit that is always set. */
#define FLAGS	     0x3c7cd7ull
#define NO_FLAGS     0x002ull
#define FLAGS_LOOKED 0x3c7fffull

enum { RESETS = 12, TF = 0x100 };

/* Two calls with a LEA between them, and 280 jumps, with sixteen registers and the flags as in
   `state`, RSP apart; where RSP was after a call: 16 bytes lower with AF. Of 5 bytes each. IRETQ
   loads VIF and VIP, which POPFQ does not, and wants NT clear. */
__asm__(".pushsection .text\n"
	"pebs_run_filled: pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\t"
	"pushq %r15\n\tpushfq\n\tcli\n\tmovl %esi, %eax\n\tmovl $0x38f, %ecx\n\twrmsr\n\t"
	"movq 128(%rdi), %rcx\n\tandl $16, %ecx\n\tmovq %rsp, %rax\n\tsubq %rcx, %rsp\n\tpushq %rax\n\t"
	"pushq 128(%rdi)\n\tcall pebs_load_flags\n\tleaq -8(%rsp), %rax\n\tmovq %rax, 32(%rdi)\n\t"
	"movq 0(%rdi), %rax\n\tmovq 8(%rdi), %rcx\n\tmovq 16(%rdi), %rdx\n\tmovq 24(%rdi), %rbx\n\t"
	"movq 40(%rdi), %rbp\n\tmovq 48(%rdi), %rsi\n\tmovq 64(%rdi), %r8\n\tmovq 72(%rdi), %r9\n\t"
	"movq 80(%rdi), %r10\n\tmovq 88(%rdi), %r11\n\tmovq 96(%rdi), %r12\n\tmovq 104(%rdi), %r13\n\t"
	"movq 112(%rdi), %r14\n\tmovq 120(%rdi), %r15\n\tmovq 56(%rdi), %rdi\n\t"
	"call 1f\n1: leaq 8(%rsp), %rsp\npebs_call: call pebs_jumps+2*(4000-280)\n\tpopq %rsp\n\t"
	"pushq $2\n\tcall pebs_load_flags\n\t"
	"movl $0x38f, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\tpopfq\n\t"
	"popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\tret\n"
	"pebs_load_flags: pushq $2\n\tpopfq\n\tpopq %rcx\n\tpopq %rdx\n\tmovq %rsp, %rax\n\t"
	"pushq $0x10\n\tpushq %rax\n\tpushq %rdx\n\tpushq $8\n\tpushq %rcx\n\tiretq\n"
	".popsection");

/* RAX, RCX, RDX, RBX, RSP (which is set to what it was), RBP, RSI, RDI, R8 to R15. */
struct state {
	uint64_t registers[16], flags;
};
void pebs_run_filled(struct state *state, uint64_t low, uint64_t high);
extern const uint8_t pebs_call[];

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
	EXPECT(pebs_quadword(pebs, slot, pebs->record / 8 - 1) != 0xa5a5a5a5a5a5a5a5);
	if (sample.ip != (uint64_t)pebs_call - (shows_next() ? 5 : 0))
		EXPECT(sample.ip - (uint64_t)pebs_jumps <= 8000);
	if (sample.event_ip && sample.event_ip != (uint64_t)pebs_call &&
	    sample.event_ip != (uint64_t)pebs_call - 10)
		EXPECT(sample.event_ip - (uint64_t)pebs_jumps < 8000);
}

/* What runs there changes RCX, and R11 and TF at its SYSCALL. It is stepped. */
static void check_ring_3(struct pebs *pebs)
{
	static const uint8_t order[] = {15, 14, 13, 12, 5, 3, 11, 10, 9, 8, 0, 1, 2, 6, 7};
	struct state state = fill(100);
	struct pebs_sample sample;

	user_visits_open();
	pebs_arm_event(pebs, 0, (pebs->event & 0xffff) | PMU_USR, 6);
	for (unsigned visit = 0; visit < 8 && !pebs_count(pebs); visit++) {
		struct trap_frame frame = {
			.rip = VISITS_AT, .rflags = TF, .rsp = state.registers[4]};
		uint64_t *registers = (uint64_t *)&frame; /* from R15 on */

		for (unsigned i = 0; i < sizeof(order); i++)
			registers[i] = state.registers[order[i]];
		wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
		do
			user_run(&frame);
		while (frame.vector == VECTOR_DB);
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	}
	user_visits_close();
	sample = pebs_sample(pebs, 0);
	EXPECT(sample.flags & TF || sample.ip >= VISITS_SYSCALL_AT);
	for (unsigned i = 0; i < 16; i++)
		if (i != 1 && (i != 11 || sample.ip < VISITS_SYSCALL_AT))
			EXPECT_EQ(sample.registers[i], state.registers[i]);
}

TEST(pebs_every_register, .group = "PE", .ids = "PE8 PE58 PE60 PE61 PE62 PE63 PE64 PE65 PE84",
     .needs = NEED_PEBS | ON_EACH_CPU,
     .claim = "a record of each counter has each of sixteen registers, the flags and the address "
	      "in their own field, in ring 3 too, stepped",
     .source = "SDM Vol 3, figure 17-8, 18.4.4 and 18.8.1.1; Linux 6.1, perf_event.h")
{
	size_t count;

	PEBS(pebs, 8);
	pebs_need_state(&pebs);
	check_ring_3(&pebs);
	EACH_COUNTER (n, pebs_counters(&pebs))
		for (unsigned round = 0; round < 2; round++) {
			bool branches = pebs.branches && !pmu_rig_is_fixed(n);
			struct state state = fill(2 * n + round);

			pebs_reset(&pebs);
			/* Without a skid the CALL, the fourth branch, is sampled. */
			pebs_arm(&pebs, n, round && branches ? 3 : 90);
			run(&state, 1ull << n);
			EXPECT(pebs_count(&pebs) >= 2);
			expect_state(&pebs, 0, &state);
			expect_state(&pebs, 1, &state);
			if (round && branches) /* it is full */
				continue;
			count = pebs_count(&pebs);
			state = fill(2 * n + round + 1);
			pmu_rig_load(n, 90); /* among the jumps, whatever was left */
			run(&state, 1ull << n);
			expect_state(&pebs, count, &state);
		}
}

/* The rig's buffer, up to a record later: one begins `before` bytes before a page ends. */
static void shift(struct pebs *pebs, uint64_t before)
{
	pebs->base += (4096 + pebs->record - before - pebs->base % 4096) % pebs->record;
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

/* Returns how many of the records, one after the other, begin so many bytes before a page ends. */
static unsigned expect_whole(struct pebs *pebs, uint64_t before)
{
	unsigned found = 0;

	for (size_t slot = 0; slot < pebs->slots; slot++) {
		uint64_t at = pebs->base + slot * pebs->record;
		struct state state = fill((unsigned)slot);

		found += (at + before) % 4096 == 0;
		take_one(pebs, &state);
		REQUIRE_EQ(pebs_get(pebs, DS_PEBS_INDEX), at + pebs->record);
		expect_state(pebs, slot, &state);
	}
	for (size_t slot = 0; slot < pebs->slots; slot++) {
		struct state state = fill((unsigned)slot);

		state.registers[4] = pebs_sample(pebs, slot).registers[4];
		expect_state(pebs, slot, &state);
	}
	return found;
}

TEST(pebs_across_pages, .group = "PE", .ids = "PE6 PE104", .needs = NEED_PEBS,
     .claim = "records follow each other across the end of a page, and those that lie on it, end "
	      "there or begin there are whole",
     .source = "SDM Vol 3, 17.4.9.2 and 18.4.4")
{
	static const int8_t places[] = {0, 4, 8, 76, -8, -4}; /* below 0: from its end */

	PEBS(pebs, 28);
	pebs_need_state(&pebs);
	for (unsigned i = 0; i < sizeof(places); i++) {
		uint64_t before = (pebs.record + places[i]) % pebs.record;
		struct pebs shifted = pebs;

		pebs_reset(&pebs);
		shift(&shifted, before);
		EXPECT(expect_whole(&shifted, before) > 0);
	}
}

/* Counter n takes the sample; the others overflow before it, the fixed ones surely. */
TEST(pebs_each_counter_named, .group = "PE", .ids = "PE36 PE72 PE73 PE82 PE95",
     .needs = NEED_PEBS | ON_EACH_CPU,
     .claim = "a sample of each counter names it, before format 3 with all others that have "
	      "overflowed, and clears its status bit alone",
     .source = "SDM Vol 3, 18.8.1.1 and 18.13")
{
	uint64_t topa = pt_caps()->topa ? TRACE_TOPA_PMI : 0; /* and the uncore's */
	uint64_t frozen = STATUS_LBR_FRZ | (silicon_is_foreign_guest() ? 0 : topa | 1ull << 61);
	uint64_t fixed = ((1ull << pmu_caps()->fixed) - 1) << PMU_FIXED;
	uint64_t all = ((1ull << pmu_caps()->general) - 1) | fixed;

	PEBS(pebs, 4);
	frozen = pmu_caps()->version < 4 ? 0 : frozen;
	EACH_COUNTER (n, pebs_counters(&pebs)) {
		pebs_reset(&pebs);
		for (unsigned other = 0; other < pmu_caps()->general; other++) {
			wrmsr(IA32_PMC0 + other, (uint64_t)-10);
			wrmsr(IA32_PERFEVTSEL0 + other, pebs.event | PERFEVTSEL_EN);
		}
		EACH_COUNTER (other, fixed) {
			pmu_rig_load(other, 1);
			pmu_rig_control(other, FIXED_OS);
			pmu_rig_run_until(other, 1ull << other);
			pmu_rig_load(other, 10);
		}
		pebs_arm(&pebs, n, 100);
		if (n && pebs.format < 4) /* load latency of counter 0, no fixed counter */
			wrmsr_safe(IA32_PEBS_ENABLE, 1ull << 32 | 1ull << n);
		if (frozen)
			wrmsr(IA32_PERF_GLOBAL_STATUS_SET, frozen);
		pebs_run_jumps(all, 150);
		EXPECT_EQ(pebs_count(&pebs), 1);
		if (pebs.format)
			EXPECT_EQ(pebs_sample(&pebs, 0).status & all,
				  pebs.format >= 3 ? 1ull << n : all);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & (all | frozen),
			  (all | frozen) & ~(1ull << n));
	}
	pebs_reset(&pebs); /* the status */
	if (fixed)
		wrmsr(IA32_FIXED_CTR_CTRL, 0);
}

static void check_reset(struct pebs *pebs, unsigned n, uint64_t value)
{
	uint64_t mask = pmu_rig_mask(n);
	uint8_t before[DS_AREA_SIZE];

	pebs_reset(pebs);
	pebs_arm(pebs, n, 100);
	for (unsigned i = 0; i < RESETS; i++)
		pebs_set(pebs, DS_PEBS_COUNTER_RESET + i, (value + 0x123456 * (i + 1)) & mask);
	pebs_set_reset(pebs, n, value);
	memcpy(before, pebs->rig.area, sizeof(before));
	wrmsr(IA32_PEBS_ENABLE, 0); /* nothing is loaded by that */
	wrmsr(IA32_PEBS_ENABLE, 1ull << n);
	pebs_run_jumps(1ull << n, 150);
	EXPECT_EQ(pebs_count(pebs), 1);
	EXPECT(pmu_rig_value(n) - (value & mask) < 100);
	pebs_set(pebs, DS_PEBS_INDEX, pebs->base);
	EXPECT_EQ(memcmp(before, pebs->rig.area, sizeof(before)), 0);
}

TEST(pebs_each_reset_value, .group = "PE", .ids = "PE7 PE9 PE24 PE96 PE97 PE98", .needs = NEED_PEBS,
     .claim = "each counter begins again with all of its reset value; of a DS area over the end "
	      "of a page the index alone moves",
     .source = "SDM Vol 3, 18.8.1.1 and figure 17-8")
{
	/* The borders of 32 bits and of the counter's width. */
	uint64_t top = 1ull << (pmu_caps()->general_width - 1);
	const uint64_t values[] = {0,	       1,	   2,	       0x7fffffff,
				   0x80000000, 0x80000001, 0xffffffff, 0x100000000,
				   top - 1000, top,	   top + 1,    2 * top - 5000};
	uint8_t *page_end = (uint8_t *)test_area(2) + PAGE_SIZE;

	PEBS(pebs, 4);
	/* The page ends before the index, or after it. */
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		pebs.rig.area = memcpy(page_end - 8 * (DS_PEBS_INDEX + i % 3), pebs.rig.area_page,
				       DS_AREA_SIZE);
		wrmsr(IA32_DS_AREA, (uint64_t)pebs.rig.area);
		EACH_COUNTER (n, pebs_counters(&pebs))
			check_reset(&pebs, n, values[i]);
	}
}

TEST(pebs_threshold_border, .group = "PE", .ids = "PE7 PE10 PE72 PE95 PE100 PE105 PE106",
     .needs = NEED_PEBS | ON_EACH_CPU,
     .claim = "OvfBuf is set by the record that makes the index the threshold, and by none before; "
	      "no later one clears it",
     .source = "SDM Vol 3, 18.4.4 and 18.8.1.1")
{
	static const size_t thresholds[] = {1, 2, 3, 7, 1ul << 32};

	PEBS(pebs, 8);
	/* In the next page. */
	pebs.rig.area =
		memcpy((uint8_t *)test_area(2) + PAGE_SIZE - 8 * DS_PEBS_INTERRUPT_THRESHOLD,
		       pebs.rig.area, DS_AREA_SIZE);
	wrmsr(IA32_DS_AREA, (uint64_t)pebs.rig.area);
	/* As far away as 32 bits do not show. */
	pebs_set(&pebs, DS_PEBS_ABSOLUTE_MAXIMUM, pebs.base + (1ull << 32) - PAGE_SIZE);
	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		pebs_reset(&pebs);
		pebs_set_threshold(&pebs, thresholds[i]);
		for (size_t records = 1; records <= 8; records++) {
			struct state state = fill((unsigned)records);

			if (records == 8) /* OvfBuf stays nevertheless */
				pebs_set_threshold(&pebs, thresholds[i] + 2);
			take_one(&pebs, &state);
			EXPECT_EQ(pebs_count(&pebs), records);
			EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & (GLOBAL_STATUS_OVF_BUF | 1),
				  records >= thresholds[i] ? GLOBAL_STATUS_OVF_BUF : 0);
			EXPECT_EQ(pebs_sample(&pebs, records - 1).status >> 62 & 1,
				  records > thresholds[i] && pebs.format - 1 < 2u);
		}
	}
}

/* `extra` bytes past so many slots are too few for one record more. */
static void check_room(struct pebs *pebs, size_t slots, size_t extra)
{
	uint64_t end = pebs->base + slots * pebs->record;

	pebs_reset(pebs);
	pebs_set(pebs, DS_PEBS_ABSOLUTE_MAXIMUM, end + extra + 1);
	for (unsigned i = 0; i < 4; i++) {
		struct state state = fill(i);

		take_one(pebs, &state);
	}
	EXPECT_EQ(pebs_get(pebs, DS_PEBS_INDEX), end);
	for (size_t slot = 0; slot < pebs->slots; slot++)
		EXPECT_EQ(pebs_is_poison(pebs, slot), slot >= slots);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
}

TEST(pebs_room_for_a_part, .group = "PE", .ids = "PE100 PE101 PE102 PE103", .needs = NEED_PEBS,
     .claim = "n slots take n records; room for a part of another takes nothing, and the counter's "
	      "overflow stays",
     .source = "SDM Vol 3, 17.4.9 and 18.8.1.1")
{
	PEBS(pebs, 4);
	check_room(&pebs, 2, 0);
	check_room(&pebs, 1, 8);
	check_room(&pebs, 2, pebs.record / 2);
	check_room(&pebs, 3, pebs.record - 8);
}

TEST(pebs_again_from_the_base, .group = "PE", .ids = "PE92 PE108", .needs = NEED_PEBS,
     .claim = "a full buffer takes records again once software has moved the index back",
     .source = "SDM Vol 3, 18.8.1.1")
{
	PEBS(pebs, 2);
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
}
