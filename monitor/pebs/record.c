// SPDX-License-Identifier: MIT
/* The records that the assist writes, by format. */
#include "lib/string.h"
#include "monitor/pebs/rules.h"
#include "monitor/silicon.h"

enum { XMM_WORDS = 32, WORD_BYTES = 8 };

/* The state after the instruction, or before it where IA32_PERF_CAPABILITIES.PEBS_TRAP is clear:
   then only RIP can differ, since this silicon keeps no copy of registers. */
static uint64_t recorded_rip(const struct vcpu *vcpu, const struct retired *retired)
{
	return pebs_behaviour_of(vcpu)->ip == PEBS_IP_OF_INSTRUCTION ? retired->rip : vcpu->rip;
}

static uint64_t data_address(const struct retired *retired, const struct pmu_event *event)
{
	if (event->has & RETIRED_LOAD)
		return retired->load;
	return event->has & RETIRED_STORE ? retired->store : 0;
}

/* RFLAGS, RIP, RAX to R15 in the order of their numbers, as format 4 has them. */
static void add_registers(const struct vcpu *vcpu, const struct retired *retired, uint64_t *to)
{
	to[0] = vcpu->rflags;
	to[1] = recorded_rip(vcpu, retired);
	memcpy(to + 2, vcpu->gpr, sizeof(vcpu->gpr));
}

/* Formats 0 to 3: tables 18-10, 18-23, 18-44 and 18-55. */
static unsigned fixed_record(struct vcpu *vcpu, unsigned n, const struct retired *retired,
			     uint64_t *record)
{
	static const uint8_t order[] = {RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP};
	static const uint8_t words[] = {18, 22, 24, 25};
	unsigned format = pebs_format(vcpu->silicon->profile);
	const struct pmu_event *event = pmu_event_of(vcpu, n);
	bool memory = event->has & (RETIRED_LOAD | RETIRED_STORE);
	/* Before format 2 the address of loads whose latency is sampled alone. */
	bool has_address = memory && (format >= 2 || event->kind == EVENT_LATENCY);

	add_registers(vcpu, retired, record);
	for (unsigned i = 0; i < sizeof(order); i++)
		record[2 + i] = vcpu->gpr[order[i]];
	record[18] = format >= 3 ? pmu_bit(n) : vcpu->pmu.global_status;
	record[19] = has_address ? data_address(retired, event) : 0;
	record[20] = has_address ? SOURCE_L1 : 0;
	record[21] = event->kind == EVENT_LATENCY ? LOAD_LATENCY : 0;
	record[22] = retired->from;
	record[23] = 0; /* no transactional memory here */
	record[24] = __builtin_ia32_rdtsc();
	return words[format];
}

/* The guest's XMM registers are live in the processor while the guest is interpreted. */
static void save_xmm(uint64_t *to)
{
	uint8_t state[512] __attribute__((aligned(16)));

	__asm__ volatile("fxsave64 %0" : "=m"(state));
	memcpy(to, state + 160, XMM_WORDS * WORD_BYTES);
}

static unsigned add_lbr(struct vcpu *vcpu, uint64_t cfg, uint64_t *to)
{
	unsigned entries = CFG_LBR_ENTRIES(cfg);

	for (unsigned i = 0; i < entries; i++)
		memcpy(to + i * 3, lbr_place(vcpu, i), 3 * WORD_BYTES);
	return entries * 3;
}

static bool is_adaptive(const struct vcpu *vcpu, unsigned n)
{
	if (n < PMU_GENERAL)
		return vcpu->pmu.event_select[n] & SELECT_ADAPTIVE;
	return vcpu->pmu.fixed_control >> (32 + FIXED_SHIFT(n)) & 1;
}

/* No more entries of architectural last branch records than there are: SDM Vol 3 of 2022,
   18.1.4. */
static uint64_t within_depth(const struct vcpu *vcpu, uint64_t cfg)
{
	uint64_t depth = vcpu->lbr.depth;
	bool fits = CFG_LBR_ENTRIES(cfg) <= depth || !vcpu->silicon->profile->lbr.depths;

	if (fits || !(cfg & CFG_LBR))
		return cfg;
	return (cfg & ~CFG_ENTRIES) | (depth - 1) << CFG_LBR_SHIFT;
}

/* Format 4: the groups that MSR_PEBS_DATA_CFG selects, in this order. */
static unsigned adaptive_record(struct vcpu *vcpu, unsigned n, const struct retired *retired,
				uint64_t *record)
{
	uint64_t cfg = is_adaptive(vcpu, n) ? vcpu->pebs.data_cfg : 0;
	const struct pmu_event *event = pmu_event_of(vcpu, n);
	unsigned words = 4;

	cfg = within_depth(vcpu, cfg);
	if (cfg & CFG_MEMINFO) {
		record[words] = data_address(retired, event);
		record[words + 1] = record[words] ? SOURCE_L1 : 0;
		record[words + 2] = event->kind == EVENT_LATENCY ? LOAD_LATENCY : 0;
		record[words + 3] = 0;
		words += 4;
	}
	if (cfg & CFG_GPR) {
		add_registers(vcpu, retired, record + words);
		words += 18;
	}
	if (cfg & CFG_XMM) {
		save_xmm(record + words);
		words += XMM_WORDS;
	}
	if (cfg & CFG_LBR)
		words += add_lbr(vcpu, cfg, record + words);
	record[0] = (uint64_t)words * WORD_BYTES << 48 | cfg;
	record[1] = retired->rip;
	record[2] = pmu_bit(n);
	record[3] = __builtin_ia32_rdtsc();
	return words;
}

unsigned pebs_rule_record(struct vcpu *vcpu, unsigned n, const struct retired *retired,
			  uint64_t record[PEBS_MOST_WORDS])
{
	if (pebs_format(vcpu->silicon->profile) >= 4)
		return adaptive_record(vcpu, n, retired, record);
	return fixed_record(vcpu, n, retired, record);
}
