// SPDX-License-Identifier: MIT
#include "tests/lib/pebs_rig.h"

#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "lib/string.h"
#include "tests/lib/pmu_rig.h"

enum { POISON = 0xa5, BTS_SLOTS = 256, GUARD = 256, ALIGNMENT = 64 };

/* For JUMPS(). */
__asm__(".pushsection .text\n"
	"pebs_jumps: .rept 4000\n\tjmp 1f\n1:\n\t.endr\n\tret\n"
	".globl pebs_jumps\n\t.popsection");

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
	if (!pmu_caps()->version)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
	choose_event(pebs);
	if (!pebs->format && slots * pebs->record > PAGE_SIZE)
		test_error("%zu records are more than Core 2 takes", slots);
	bytes = GUARD + slots * pebs->record + GUARD;
	pebs->page_count = (bytes + PAGE_SIZE - 1) / PAGE_SIZE;
	pebs->pages = test_area(pebs->page_count);
	pebs->base = (uint64_t)pebs->pages + GUARD;
	test_pin();
	rig_open(&pebs->rig, BTS_SLOTS);
	for (unsigned n = 0; n < pmu_caps()->general; n++)
		REQUIRE_EQ(pmu_rig_request(n), 0);
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
	if (pebs->adaptive)
		wrmsr(MSR_PEBS_DATA_CFG, 0);
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
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, rdmsr(IA32_PERF_GLOBAL_STATUS));
}

void pebs_set(struct pebs *pebs, enum ds_field field, uint64_t value)
{
	ds_set(pebs->rig.area, field, value);
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
	uint64_t mask = (1ull << pmu_caps()->general_width) - 1;

	stop();
	wrmsr(IA32_PERFEVTSEL0 + n, 0);
	wrmsr(IA32_PMC0 + n, -period);
	pebs_set(pebs, DS_PEBS_COUNTER_RESET + n, -period & mask);
	wrmsr(IA32_PERFEVTSEL0 + n, event | adaptive | PERFEVTSEL_EN);
	wrmsr(IA32_PEBS_ENABLE, 1ull << n);
}

void pebs_arm(struct pebs *pebs, unsigned n, uint64_t period)
{
	pebs_arm_event(pebs, n, pebs->event, period);
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
	uint64_t events = EVENTS_OF(pebs, SAMPLED(1, JUMPS(100))), skid = 0;

	do {
		pebs_reset(pebs);
		pebs_arm(pebs, 0, events - 1 - skid);
		SAMPLED(1, JUMPS(100));
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

/* Figures 17-10 and 18-49: AX BX CX DX SI DI BP SP; adaptive: AX CX DX BX SP BP SI DI. */
struct pebs_sample pebs_sample(const struct pebs *pebs, size_t slot)
{
	static const uint8_t old[] = {0, 2, 3, 1, 7, 6, 4, 5}; /* of RAX, RCX, RDX, RBX, ... */
	const uint64_t *at = (const uint64_t *)(pebs->base + slot * pebs->record), *general = at;
	struct pebs_sample sample = {0};

	if (pebs->format >= 4) {
		sample.event_ip = at[1];
		sample.status = at[2];
		sample.tsc = at[3];
		if (!pebs->adaptive)
			return sample;
		sample.address = at[4];
		sample.source = at[5];
		sample.latency = at[6];
		general = at + 8;
	} else if (pebs->format) {
		sample.status = at[18];
		sample.address = at[19];
		sample.source = at[20];
		sample.latency = at[21];
		sample.event_ip = pebs->format >= 2 ? at[22] : 0;
		sample.tsc = pebs->format >= 3 ? at[24] : 0;
	}
	sample.flags = general[0];
	sample.ip = general[1];
	for (unsigned i = 0; i < 8; i++)
		sample.registers[i] = general[2 + (pebs->adaptive ? i : old[i])];
	for (unsigned i = 8; i < 16; i++)
		sample.registers[i] = general[2 + i];
	return sample;
}

void pebs_need_state(struct pebs *pebs)
{
	if (pebs_has_state(pebs))
		return;
	pebs_close(pebs);
	test_skip(
		"records of format 4 without PEBS_BASELINE have no registers and no data address");
}
