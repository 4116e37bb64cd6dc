// SPDX-License-Identifier: MIT
#include "tests/lib/pmu_rig.h"

#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/silicon.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/framework/needs.h"
#include "tests/framework/test.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

static const struct pmu_owner owner = {.name = "test"};
static uint64_t interrupting;

struct pmu_rig_interrupt pmu_rig_interrupt;

int pmu_rig_request(unsigned n)
{
	struct pmu_cpu *pmu = &this_cpu()->trace->pmu;

	if (pmu->owner[n] == &owner)
		pmu_release(pmu, n, &owner);
	return pmu_request(pmu, n, &owner);
}

int pmu_rig_release(unsigned n)
{
	return pmu_release(&this_cpu()->trace->pmu, n, &owner);
}

static bool is_of_firmware(unsigned n)
{
	const char *name = pmu_owner(&this_cpu()->trace->pmu, n);

	return name && !strcmp(name, "firmware");
}

void pmu_rig_need(unsigned n)
{
	test_pin();
	if (is_of_firmware(n)) {
		for (unsigned taken = 0; taken < PMU_COUNTERS_MOST; taken++)
			pmu_rig_release(taken);
		test_skip("counter %u is firmware's", n);
	}
}

void pmu_rig_need_all(void)
{
	for (unsigned n = 0; n < PMU_COUNTERS_MOST; n++)
		pmu_rig_need(n);
}

void pmu_rig_take(unsigned n)
{
	pmu_rig_need(n);
	REQUIRE_EQ(pmu_rig_request(n), 0);
}

uint64_t pmu_rig_open(uint32_t unavailable)
{
	struct pmu_cpu *pmu = &this_cpu()->trace->pmu;
	uint64_t counters = 0;

	pmu_rig_need_version();
	if (pmu_caps()->unavailable & unavailable)
		test_skip("CPUID.0AH:EBX says that an event is not there: %x",
			  pmu_caps()->unavailable);
	test_pin();
	for (unsigned n = 0; n < PMU_COUNTERS_MOST; n++)
		if (!pmu_rig_request(n))
			counters |= 1ull << n;
		else
			EXPECT(!pmu_owner(pmu, n) || is_of_firmware(n));
	REQUIRE(counters);
	EACH_COUNTER (n, counters) {
		pmu_rig_control(n, 0);
		pmu_rig_load(n, 0);
	}
	return counters;
}

void pmu_rig_close(uint64_t counters)
{
	EACH_COUNTER (n, counters)
		EXPECT_EQ(pmu_rig_release(n), 0);
}

void pmu_rig_closed(const uint64_t *counters)
{
	pmu_rig_close(*counters);
}

uint64_t pmu_rig_here(void)
{
	struct cpuid_result leaf = cpuid(0x0a, 0);
	uint64_t general = (1ull << (leaf.eax >> 8 & 0xff)) - 1;
	uint64_t fixed = ((1ull << (leaf.edx & 0x1f)) - 1) | leaf.ecx;

	return general | fixed << PMU_FIXED;
}

uint32_t pmu_rig_msr(unsigned n)
{
	return pmu_rig_is_fixed(n) ? IA32_FIXED_CTR0 + n - PMU_FIXED : IA32_PMC0 + n;
}

uint64_t pmu_rig_mask(unsigned n)
{
	unsigned width = pmu_rig_is_fixed(n) ? pmu_caps()->fixed_width : pmu_caps()->general_width;

	return (1ull << width) - 1;
}

uint64_t pmu_rig_value(unsigned n)
{
	return rdmsr(pmu_rig_msr(n));
}

uint64_t pmu_rig_status(void)
{
	return rdmsr(IA32_PERF_GLOBAL_STATUS);
}

void pmu_rig_clear(uint64_t status)
{
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, status);
}

void pmu_rig_control(unsigned n, uint64_t control)
{
	unsigned shift = FIXED_BITS * (n - PMU_FIXED);

	if (pmu_rig_is_fixed(n))
		wrmsr(IA32_FIXED_CTR_CTRL,
		      (rdmsr(IA32_FIXED_CTR_CTRL) & ~(0xfull << shift)) | control << shift);
	else
		wrmsr(IA32_PERFEVTSEL0 + n, control);
}

uint64_t pmu_rig_counting(unsigned n, uint64_t levels, bool interrupt)
{
	if (pmu_rig_is_fixed(n))
		return (levels & PMU_OS ? FIXED_OS : 0) | (levels & PMU_USR ? FIXED_USR : 0) |
		       (interrupt ? FIXED_PMI : 0);
	return EVENT_INSTRUCTIONS | levels | PERFEVTSEL_EN | (interrupt ? PERFEVTSEL_INT : 0);
}

uint64_t pmu_rig_counting_cycles(unsigned n, uint64_t levels, bool interrupt)
{
	uint64_t control = pmu_rig_counting(n, levels, interrupt);

	return pmu_rig_is_fixed(n) ? control : control ^ EVENT_INSTRUCTIONS ^ EVENT_CYCLES;
}

void pmu_rig_load(unsigned n, uint64_t left)
{
	wrmsr(pmu_rig_msr(n), -left & pmu_rig_mask(n));
}

uint64_t pmu_rig_rdpmc(uint32_t selector)
{
	uint64_t low = UINT64_MAX, high = UINT64_MAX;

	__asm__ volatile("rdpmc" : "+a"(low), "+d"(high) : "c"(selector | 1ull << 63));
	return high << 32 | high >> 32 | low;
}

bool pmu_rig_rdpmc_refused(uint32_t selector)
{
	bool refused = true;

	__asm__ volatile("1:\trdpmc\n\tmovb $0, %[refused]\n2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : [refused] "+&q"(refused)
			 : "c"(selector)
			 : "rax", "rdx", "memory");
	return refused && trap_caught().vector == VECTOR_GP;
}

void pmu_rig_nops(void)
{
	__asm__ volatile(".rept 200\n\tnop\n\t.endr");
}

__attribute__((noinline)) void pmu_rig_run(uint64_t counters)
{
	uint32_t low = (uint32_t)counters, high = (uint32_t)(counters >> 32);

	__asm__ volatile("pushfq\n\tcli\n\twrmsr\n\t"
			 ".rept 200\n\tnop\n\t.endr\n\t"
			 "xorl %%eax, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\tpopfq"
			 : "+a"(low), "+d"(high)
			 : "c"(IA32_PERF_GLOBAL_CTRL)
			 : "memory", "cc");
}

unsigned pmu_rig_run_until(unsigned n, uint64_t counters)
{
	uint64_t before = rdmsr(pmu_rig_msr(n));

	for (unsigned runs = 1; runs <= PMU_RIG_RUNS; runs++) {
		pmu_rig_run(counters);
		if (rdmsr(pmu_rig_msr(n)) != before)
			return runs;
		if (pmu_rig_is_exact(n))
			break;
	}
	return 0;
}

uint64_t pmu_rig_count(unsigned n, uint64_t control, uint64_t global)
{
	pmu_rig_load(n, 0);
	pmu_rig_control(n, control);
	pmu_rig_run(global);
	pmu_rig_control(n, 0);
	return pmu_rig_value(n);
}

unsigned pmu_rig_counts(unsigned n, uint64_t control, uint64_t global)
{
	unsigned runs;

	pmu_rig_load(n, 0);
	pmu_rig_control(n, control);
	runs = pmu_rig_run_until(n, global);
	pmu_rig_control(n, 0);
	return pmu_rig_is_exact(n) && pmu_rig_value(n) < 200 ? 0 : runs;
}

bool pmu_rig_rests(unsigned n, uint64_t control, uint64_t global, unsigned runs)
{
	bool moved = false;

	for (unsigned run = 0; run < 2 * runs; run++)
		moved |= pmu_rig_count(n, control, global);
	return !moved;
}

bool pmu_rig_takes(unsigned n, uint64_t control)
{
	uint32_t msr = pmu_rig_is_fixed(n) ? IA32_FIXED_CTR_CTRL : IA32_PERFEVTSEL0 + n;
	uint64_t bits = pmu_rig_is_fixed(n) ? control << FIXED_BITS * (n - PMU_FIXED) : control;

	return msr_try(msr, bits, 0).read_back == bits;
}

uint64_t pmu_rig_branches(unsigned n, uint64_t conditions, uint64_t global)
{
	wrmsr(IA32_PMC0 + n, 0);
	pmu_rig_control(n, EVENT_BRANCHES | PMU_OS | PERFEVTSEL_EN | conditions);
	__asm__ volatile("pushfq\n\tcli\n\twrmsr\n\t"
			 ".rept 3\n\t.rept 70\n\tnop\n\t.endr\n\tjmp 1f\n1:\n\t.endr\n\t"
			 ".rept 70\n\tnop\n\t.endr\n\t"
			 "xorl %%eax, %%eax\n\twrmsr\n\tpopfq"
			 :
			 : "a"((uint32_t)global), "d"((uint32_t)(global >> 32)),
			   "c"(IA32_PERF_GLOBAL_CTRL)
			 : "memory", "cc");
	pmu_rig_control(n, 0);
	return rdmsr(IA32_PMC0 + n);
}

void pmu_rig_begin(unsigned n, uint64_t event)
{
	pmu_rig_load(n, 0);
	pmu_rig_control(n, event | PMU_OS | PMU_USR | PERFEVTSEL_EN);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
}

uint64_t pmu_rig_end(unsigned n)
{
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	pmu_rig_control(n, 0);
	return rdmsr(pmu_rig_msr(n));
}

void pmu_rig_expect_mispredicted(uint64_t counters, void (*run)(uint64_t directions),
				 unsigned (*marked)(void))
{
	unsigned n = (unsigned)__builtin_ctzll(counters);

	for (unsigned random = 0; random < 2; random++) {
		uint64_t counted = 0;
		unsigned seen = 0;

		for (unsigned turn = 0; turn < 40; turn++) {
			uint64_t directions = random ? test_random() : UINT64_MAX;

			pmu_rig_begin(n, EVENT_MISPREDICTED);
			run(directions);
			counted += pmu_rig_end(n);
			seen += marked();
		}
		test_observe("mispredicted", "%s: %u entries, %lu counted",
			     random ? "random" : "steady", seen, counted);
		EXPECT(seen <= counted);
		EXPECT(!random || seen > 0);
	}
}

void pmu_rig_need_version(void)
{
	if (!pmu_caps()->version)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
}

void pmu_rig_need_two(void)
{
	if (pmu_caps()->version && pmu_caps()->general < 2)
		test_skip("one general counter (CPUID.0AH:EAX[15:8])");
}

uint64_t pmu_rig_capabilities(void)
{
	return cpuid(1, 0).ecx & CPUID_1_ECX_PDCM ? rdmsr(IA32_PERF_CAPABILITIES) : 0;
}

void pmu_rig_need_freeze(uint64_t bit)
{
	struct msr_trial trial;

	if (!pmu_rig_capabilities() || pmu_caps()->version < 2)
		test_skip("no PDCM with version 2: IA32_DEBUGCTL has no freeze bits");
	msrs_borrow();
	trial = msr_try(IA32_DEBUGCTL, bit, 0);
	msrs_give_back();
	if (silicon_is_foreign_guest() && trial.refused)
		test_skip("the hypervisor refuses the freeze bits of IA32_DEBUGCTL");
	EXPECT_EQ(trial.read_back, bit);
}

/* Ours has masked the LVT entry, or else the counter says so. */
static bool overflowed(struct trap_frame *frame)
{
	uint64_t status = rdmsr(IA32_PERF_GLOBAL_STATUS);
	uint32_t lvtpc = apic_read(APIC_LVT_PC);

	(void)frame;
	if (!(lvtpc & LVT_MASKED) && !(status & interrupting))
		return false;
	pmu_rig_interrupt.lvtpc = lvtpc;
	pmu_rig_interrupt.control = rdmsr(IA32_PERF_GLOBAL_CTRL);
	pmu_rig_interrupt.debugctl = rdmsr(IA32_DEBUGCTL);
	pmu_rig_interrupt.status = status;
	EACH_COUNTER (n, interrupting)
		pmu_rig_interrupt.value[n] = rdmsr(pmu_rig_msr(n));
	pmu_rig_interrupt.count++;
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, status & interrupting);
	lapic_unmask_lvtpc();
	if (pmu_rig_interrupt.then)
		pmu_rig_interrupt.then();
	return true;
}

void pmu_rig_take_interrupts(uint64_t counters)
{
	msrs_borrow();
	interrupting = counters;
	pmu_rig_interrupt.count = 0;
	test_handle_nmis(overflowed);
}

unsigned pmu_rig_await_interrupt(void)
{
	uint64_t end = tsc_read() + 10000000;
	unsigned least = 1000; /* turns, where the clock has gone on without this CPU */

	while (!pmu_rig_interrupt.count && (least || tsc_read() < end)) {
		least -= least > 0;
		__asm__ volatile("pause");
	}
	return pmu_rig_interrupt.count;
}

void pmu_rig_run_interrupted(uint64_t counters)
{
	uint64_t flags = interrupts_save();

	wrmsr(IA32_PERF_GLOBAL_CTRL, counters);
	pmu_rig_await_interrupt();
	pmu_rig_nops();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	interrupts_restore(flags);
}

/* The visits take longer than ten cycles of a slow clock, and of instructions they are 168. */
void pmu_rig_overflow_in_user(unsigned n, uint64_t debugctl)
{
	pmu_rig_interrupt.count = 0;
	pmu_rig_load(n, 10);
	pmu_rig_control(n, pmu_rig_counting(n, PMU_USR, true));
	wrmsr(IA32_DEBUGCTL, debugctl);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
	user_visits_run();
	pmu_rig_await_interrupt();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	wrmsr(IA32_DEBUGCTL, 0);
	pmu_rig_control(n, 0);
	EXPECT_EQ(pmu_rig_interrupt.count, 1);
}

void pmu_rig_release_interrupts(void)
{
	wrmsr(IA32_DEBUGCTL, 0);
	test_handle_nmis(NULL);
	msrs_give_back();
}

/* By signature: SDM Vol 3, 17.5 to 17.13. */
static const struct lbr_stack stacks[] = {
	{0xf, 3, 6, 16, 0x680, 0x6c0, 0x1da, false},
	{6, 0x0f, 0x0f, 4, 0x40, 0x60, 0x1c9, false},
	{6, 0x16, 0x17, 4, 0x40, 0x60, 0x1c9, false},
	{6, 0x1d, 0x1d, 4, 0x40, 0x60, 0x1c9, false},
	{6, 0x1c, 0x1c, 8, 0x40, 0x60, 0x1c9, false},
	{6, 0x26, 0x27, 8, 0x40, 0x60, 0x1c9, false},
	{6, 0x35, 0x36, 8, 0x40, 0x60, 0x1c9, false},
	{6, 0x1a, 0x1a, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x1e, 0x1f, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x25, 0x25, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x2a, 0x2f, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x3a, 0x3f, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x45, 0x47, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x4f, 0x4f, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x56, 0x56, 16, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x4e, 0x4e, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x55, 0x55, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x5e, 0x5e, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x66, 0x6c, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x7d, 0x7e, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x8c, 0x8e, 32, 0x680, 0x6c0, 0x1c9, true},
	{6, 0x9e, 0xa7, 32, 0x680, 0x6c0, 0x1c9, true},
};

const struct lbr_stack *lbr_known(void)
{
	struct cpuid_signature is = cpuid_signature(cpuid(1, 0).eax);

	for (unsigned i = 0; cpuid_is_intel() && i < sizeof(stacks) / sizeof(stacks[0]); i++)
		if (stacks[i].family == is.family && is.model >= stacks[i].first &&
		    is.model <= stacks[i].last)
			return &stacks[i];
	return NULL;
}

const struct lbr_stack *lbr_either(void)
{
	static struct lbr_stack records = {
		.from = IA32_LBR_0_FROM_IP, .to = IA32_LBR_0_TO_IP, .select = true};

	if (!lbr_caps()->architectural)
		return lbr_known();
	if (needs_lbr_filters())
		return NULL;
	records.depth = (uint8_t)lbr_caps()->depth;
	return &records;
}

const struct lbr_stack *lbr_stack(void)
{
	const struct lbr_stack *s = lbr_known();

	if (!s && lbr_caps()->architectural)
		test_skip("last branch records are architectural: lbr_arch_*, lbr_driver_*, "
			  "lbr_tracer_*");
	if (!s)
		test_skip("no table here has the LBR stack of CPUID.1:EAX = %x", cpuid(1, 0).eax);
	return s;
}

uint64_t lbr_from_flags(const struct lbr_stack *stack)
{
	unsigned format = pmu_rig_capabilities() & 0x3f;

	if (!format && stack->family == 6)
		return 7ull << 61;
	return format == 3 || format == 6 ? 1ull << 63 : format == 4 ? 7ull << 61 : 0;
}

void lbr_close(void)
{
	msrs_give_back();
}

void lbr_closed(const struct lbr_stack *const *stack)
{
	(void)stack;
	lbr_close();
}

/* A hypervisor that shows no stack refuses LBR or drops it. */
const struct lbr_stack *lbr_open(void)
{
	const struct lbr_stack *s = lbr_stack();
	struct msr_trial trial;

	msrs_borrow();
	trial = msr_try(IA32_DEBUGCTL, LBR, 0);
	if (silicon_is_foreign_guest() && trial.read_back != LBR) {
		lbr_close();
		test_skip("the hypervisor shows no LBR stack: IA32_DEBUGCTL.LBR %s",
			  trial.refused ? "raises #GP" : "reads 0");
	}
	EXPECT_EQ(trial.read_back, LBR);
	return s;
}

uint64_t lbr_newest(const struct lbr_stack *stack, unsigned back, bool to)
{
	uint32_t place = stack->top ? (lbr_top(stack) - back) & (stack->depth - 1u) : back;
	uint64_t value = rdmsr((to ? stack->to : stack->from) + place);

	/* In format 6 bits 63:48 of TO are cycles. */
	return to && (pmu_rig_capabilities() & 0x3f) == 6 ? (uint64_t)((int64_t)(value << 16) >> 16)
							  : value;
}

void lbr_expect(const struct lbr_stack *stack, unsigned back, bool to, uint64_t address,
		uint32_t place, const char *path)
{
	const uint64_t bits = (1ull << 48) - 1;

	test_check_equal(lbr_newest(stack, back, to) & bits, address & bits, place, path);
}

uint32_t lbr_top(const struct lbr_stack *stack)
{
	return (uint32_t)rdmsr(stack->top);
}

unsigned lbr_since(const struct lbr_stack *stack, uint32_t before)
{
	return (lbr_top(stack) - before) & (stack->depth - 1u);
}

/* --- Architectural last branch records --- */

static void empty_and_off(void)
{
	wrmsr(IA32_LBR_CTL, 0);
	wrmsr(IA32_LBR_DEPTH, lbr_caps()->depth);
}

unsigned arch_lbr_borrow(void)
{
	if (!lbr_caps()->architectural)
		test_skip("no architectural last branch records: CPUID.7:EDX[19], leaf 1CH");
	msrs_borrow();
	empty_and_off();
	return lbr_caps()->depth;
}

void arch_lbr_give_back(void)
{
	empty_and_off();
	msrs_give_back();
}

const struct lbr_stack *lbr_open_either(void)
{
	if (!lbr_caps()->architectural)
		return lbr_open();
	if (needs_lbr_filters())
		test_skip("%s", needs_lbr_filters());
	arch_lbr_borrow();
	return lbr_either();
}
