// SPDX-License-Identifier: MIT
#include "tests/lib/pebs_rig.h"

#include "drivers/lbr/registers.h"
#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "kernel/mm/page.h"
#include "kernel/silicon.h"
#include "lib/string.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"

#define POISONED 0xa5a5a5a5a5a5a5a5
enum { POISON = 0xa5, BTS_SLOTS = 256, GUARD = 256, ALIGNMENT = 64 };

__asm__(".pushsection .text\n"
	"pebs_run_jumps: pushfq\n\tcli\n\tmovl %edi, %eax\n\tmovq %rdi, %rdx\n\tshrq $32, %rdx\n\t"
	"addq %rsi, %rsi\n\tleaq pebs_jumps+2*4000(%rip), %r8\n\tsubq %rsi, %r8\n\t"
	"movl $0x38f, %ecx\n\twrmsr\n\tcall *%r8\n\t"
	"movl $0x38f, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\tpopfq\n\tret\n"
	"pebs_jumps: .rept 4000\n\tjmp 1f\n1:\n\t.endr\n\tret\n"
	".globl pebs_jumps, pebs_run_jumps\n\t.popsection");

/* The portable event: SDM Vol 3, chapter 19. Silvermont and Goldmont have C4/00 precise. */
static void choose_event(struct pebs *pebs)
{
	uint32_t eax = cpuid(1, 0).eax;
	unsigned model = (eax >> 4 & 0xf) | (eax >> 12 & 0xf0);
	bool atom = model == 0x37 || model == 0x4a || model == 0x4c || model == 0x4d ||
		    model == 0x5a || model == 0x5c || model == 0x5d || model == 0x5f ||
		    model == 0x7a;

	pebs->branches = pebs->format > 0;
	pebs->event = pebs->format ? atom || pebs->format >= 4 ? 0x00c4 : 0x04c4 : 0x00c0;
	pebs->event |= PMU_OS | PMU_USR;
}

/* SDM Vol 3, tables 18-10, 18-23, 18-44, 18-55. Format 4: the basic group, and with PEBS_BASELINE
   those of memory and registers. */
static size_t record_bytes(const struct pebs *pebs)
{
	static const size_t bytes[] = {144, 176, 192, 200, 0x20};

	if (pebs->format >= sizeof(bytes) / sizeof(bytes[0]))
		test_skip("PEBS format %u is unknown here", pebs->format);
	return bytes[pebs->format] + (pebs->adaptive ? 0x20 + 0x90 : 0);
}

static bool has_baseline(void)
{
	return cpuid(1, 0).ecx & CPUID_1_ECX_PDCM && rdmsr(IA32_PERF_CAPABILITIES) & BASELINE;
}

static void map_fields(struct pebs *pebs)
{
	pebs_set(pebs, DS_PEBS_BUFFER_BASE, pebs->base);
	pebs_set(pebs, DS_PEBS_ABSOLUTE_MAXIMUM, pebs->base + pebs->slots * pebs->record + 1);
}

void pebs_open(struct pebs *pebs, size_t slots)
{
	size_t bytes;

	*pebs = (struct pebs){
		.format = ds_caps()->pebs_format, .adaptive = has_baseline(), .slots = slots};
	pebs->record = record_bytes(pebs);
	pmu_rig_need_version();
	pmu_rig_need_two();
	choose_event(pebs);
	if (!pebs->format && slots * pebs->record > PAGE_SIZE)
		test_error("%zu records are more than Core 2 takes", slots);
	bytes = GUARD + slots * pebs->record + GUARD;
	pebs->page_count = (bytes + PAGE_SIZE - 1) / PAGE_SIZE;
	pebs->pages = test_area(pebs->page_count);
	pebs->base = (uint64_t)pebs->pages + GUARD;
	for (unsigned n = 0; n < pmu_caps()->general; n++)
		pmu_rig_take(n);
	rig_open(&pebs->rig, BTS_SLOTS);
	memset(pebs->pages, POISON, pebs->page_count * PAGE_SIZE);
	map_fields(pebs);
	pebs_reset(pebs);
	if (pebs->adaptive)
		wrmsr(MSR_PEBS_DATA_CFG, CFG_MEMINFO | CFG_GPR);
}

static void stop(void)
{
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	wrmsr(IA32_PEBS_ENABLE, 0);
}

static bool is_poison(const uint8_t *from, const uint8_t *to)
{
	while (from < to)
		if (*from++ != POISON)
			return false;
	return true;
}

void pebs_close(struct pebs *pebs)
{
	const uint8_t *base = (const uint8_t *)pebs->base;

	stop();
	for (unsigned n = 0; n < pmu_caps()->general; n++)
		EXPECT_EQ(pmu_rig_release(n), 0);
	if (pebs->adaptive) {
		wrmsr(MSR_PEBS_DATA_CFG, 0);
		wrmsr(IA32_FIXED_CTR_CTRL, 0);
	}
	rig_close(&pebs->rig);
	EXPECT(is_poison(pebs->pages, base));
	EXPECT(is_poison(base + pebs->slots * pebs->record,
			 pebs->pages + pebs->page_count * PAGE_SIZE));
}

void pebs_reset(struct pebs *pebs)
{
	stop();
	memset((void *)pebs->base, POISON, pebs->slots * pebs->record);
	pebs_set(pebs, DS_PEBS_INDEX, pebs->base);
	pebs_set_threshold(pebs, pebs->slots + 1);
	/* The write of OvfBuf has to clear the other bits that it names as well. */
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, rdmsr(IA32_PERF_GLOBAL_STATUS) | 1);
}

void pebs_set(struct pebs *pebs, enum ds_field field, uint64_t value)
{
	ds_set(pebs->rig.area, field, value);
}

void pebs_set_reset(struct pebs *pebs, unsigned n, uint64_t value)
{
	pebs_set(pebs, DS_PEBS_COUNTER_RESET + (pmu_rig_is_fixed(n) ? 8 + n - PMU_FIXED : n),
		 value);
}

uint64_t pebs_get(const struct pebs *pebs, enum ds_field field)
{
	return ds_get(pebs->rig.area, field);
}

void pebs_set_threshold(struct pebs *pebs, size_t slot)
{
	pebs_set(pebs, DS_PEBS_INTERRUPT_THRESHOLD, pebs->base + slot * pebs->record);
}

size_t pebs_count(const struct pebs *pebs)
{
	size_t count = (pebs_get(pebs, DS_PEBS_INDEX) - pebs->base) / pebs->record;

	return count <= pebs->slots ? count : pebs->slots + 1; /* there is no memory for more */
}

bool pebs_is_poison(const struct pebs *pebs, size_t slot)
{
	const uint8_t *at = (const uint8_t *)pebs->base + slot * pebs->record;

	return is_poison(at, at + pebs->record);
}

void pebs_arm_event(struct pebs *pebs, unsigned n, uint64_t event, uint64_t period)
{
	uint64_t adaptive = pebs->adaptive ? PERFEVTSEL_ADAPTIVE : 0;

	stop();
	pmu_rig_control(n, 0);
	wrmsr(pmu_rig_msr(n), pmu_rig_is_fixed(n) ? -period & pmu_rig_mask(n) : -period);
	pebs_set_reset(pebs, n, -period & pmu_rig_mask(n));
	pmu_rig_control(n, pmu_rig_is_fixed(n) ? pmu_rig_counting(n, event, false) | FIXED_ADAPTIVE
					       : event | adaptive | PERFEVTSEL_EN);
	wrmsr(IA32_PEBS_ENABLE, 1ull << n);
}

void pebs_arm(struct pebs *pebs, unsigned n, uint64_t period)
{
	pebs_arm_event(pebs, n, pebs->event, period);
}

void pebs_trace_stopped(bool on)
{
	if (!pt_caps()->topa)
		return;
	if (on)
		wrmsr(IA32_RTIT_STATUS, RTIT_STATUS_STOPPED);
	wrmsr(IA32_RTIT_CTL, on ? RTIT_CTL_TRACE_EN | RTIT_CTL_TOPA | RTIT_CTL_BRANCH_EN : 0);
	if (!on)
		wrmsr(IA32_RTIT_STATUS, 0);
}

void pebs_expect_samples(struct pebs *pebs)
{
	pebs_reset(pebs);
	pebs_arm(pebs, 0, 10);
	pebs_run_jumps(1, 200);
	EXPECT(pebs_count(pebs) > 0);
}

void pebs_run_ring(struct pebs *pebs, unsigned ring, uint64_t levels)
{
	unsigned n = ring == 2 && pebs->adaptive ? PMU_FIXED : 0;

	pebs_reset(pebs);
	pebs_arm_event(pebs, n, (pebs->event & 0xffff) | levels, 3);
	own_gdt_load();
	for (unsigned i = 0; i < 8 + PEBS_SKID_MOST; i += OWN_RING_JUMPS)
		own_ring_run(ring, IA32_PERF_GLOBAL_CTRL, 1ull << n, 0);
	own_gdt_unload();
}

uint64_t pebs_counters(const struct pebs *pebs)
{
	uint64_t general = (1ull << pmu_caps()->general) - 1;

	if (pebs->format < 4)
		general &= ds_configuration->pebs_counters;
	return general | (pebs->adaptive ? 1ull << PMU_FIXED : 0);
}

void pebs_count_plainly(struct pebs *pebs)
{
	stop();
	wrmsr(IA32_PERFEVTSEL0, 0);
	wrmsr(IA32_PMC0, 0);
	wrmsr(IA32_PERFEVTSEL0, pebs->event | PERFEVTSEL_EN);
}

uint64_t pebs_skid(struct pebs *pebs)
{
	uint64_t events = EVENTS_OF(pebs, pebs_run_jumps(1, 100)), skid = 0;

	do {
		pebs_reset(pebs);
		pebs_arm(pebs, 0, events - 1 - skid);
		pebs_run_jumps(1, 100);
	} while (!pebs_count(pebs) && ++skid <= PEBS_SKID_MOST);
	pebs_reset(pebs);
	test_observe("skid", "%lu", skid);
	EXPECT(skid <= PEBS_SKID_MOST);
	return skid;
}

uint64_t pebs_longest_skid(struct pebs *pebs)
{
	uint64_t longest = 0;

	for (unsigned turn = 0; turn < 8; turn++) {
		uint64_t skid = pebs_skid(pebs);

		longest = skid > longest ? skid : longest;
	}
	return longest;
}

#define ARCH_CAPABILITIES      (1u << 29) /* CPUID.7:EDX */
#define IA32_ARCH_CAPABILITIES 0x10au
#define TSX_CTRL	       (1u << 7) /* IA32_TSX_CTRL can hide transactions */

/* Transactions are listed by CPUID, or a hypervisor or IA32_TSX_CTRL may hide them. */
static bool may_have_transactions(void)
{
	struct cpuid_result leaf = cpuid(0, 0).eax >= 7 ? cpuid(7, 0) : (struct cpuid_result){0};

	return leaf.ebx & CPUID_7_EBX_TSX || silicon_is_foreign_guest() ||
	       (leaf.edx & ARCH_CAPABILITIES && rdmsr(IA32_ARCH_CAPABILITIES) & TSX_CTRL);
}

/* No abort, neither HLE's nor RTM's; of a processor that has neither, nothing at all. On Atoms the
   field is reserved: tables 18-13 and 18-20. */
static void expect_no_transaction(const struct pebs *pebs, uint64_t quadword)
{
	bool reserved = ds_configuration->pebs_reserved && pebs->format < 4;

	if (!quadword || quadword == POISONED || reserved)
		return;
	EXPECT(may_have_transactions());
	EXPECT_EQ(quadword >> 32 & 3, 0);
}

/* Figures 17-10 and 18-49: AX BX CX DX SI DI BP SP; adaptive: AX CX DX BX SP BP SI DI. */
struct pebs_sample pebs_sample(const struct pebs *pebs, size_t slot)
{
	static const uint8_t old[] = {0, 2, 3, 1, 7, 6, 4, 5}; /* of RAX, RCX, RDX, RBX, ... */
	uint64_t at[26] = {0}; /* a record begins at any doubleword */
	const uint64_t *general = at;
	struct pebs_sample sample = {0};

	memcpy(at, (const void *)(pebs->base + slot * pebs->record),
	       pebs->record < sizeof(at) ? pebs->record : sizeof(at));
	if (pebs->format >= 4) {
		sample.event_ip = at[1];
		sample.status = at[2];
		sample.tsc = at[3];
		if (!pebs->adaptive)
			return sample;
		sample.address = at[4];
		sample.source = at[5];
		sample.latency = at[6];
		expect_no_transaction(pebs, at[7]);
		general = at + 8;
	} else if (pebs->format) {
		sample.status = at[18];
		sample.address = at[19];
		sample.source = at[20];
		sample.latency = at[21];
		sample.event_ip = pebs->format >= 2 ? at[22] : 0;
		sample.tsc = pebs->format >= 3 ? at[24] : 0;
		expect_no_transaction(pebs, at[23]);
	}
	sample.flags = general[0];
	sample.ip = general[1];
	for (unsigned i = 0; i < 8; i++)
		sample.registers[i] = general[2 + (pebs->adaptive ? i : old[i])];
	for (unsigned i = 8; i < 16; i++)
		sample.registers[i] = general[2 + i];
	return sample;
}

void pebs_need(struct pebs *pebs, bool has, const char *lacks)
{
	if (has)
		return;
	pebs_close(pebs);
	test_skip("format %u: %s", pebs->format, lacks);
}

void pebs_need_state(struct pebs *pebs)
{
	pebs_need(pebs, pebs_has_state(pebs), "no PEBS_BASELINE, no registers and no address");
}
