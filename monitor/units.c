// SPDX-License-Identifier: MIT
/* The table of the trace units. */
#include "monitor/ds/rules.h"
#include "monitor/lbr/rules.h"
#include "monitor/pebs/rules.h"
#include "monitor/pmu/rules.h"
#include "monitor/pt/rules.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"

#define BEHAVIOUR(unit) .points = unit##_points, .behaviour = offsetof(struct behaviour, unit)

static const struct msr_range of_bts[] = {
	{0x1a0, 0x1a0}, /* IA32_MISC_ENABLE, of which svm/ has the other bits */
	{0x1d9, 0x1d9}, /* IA32_DEBUGCTL */
	{0x600, 0x600}, /* IA32_DS_AREA */
	{0},
};

static const struct msr_range of_pebs[] = {
	{0x3f1, 0x3f2}, /* IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG, MSR_PEBS_MATRIX_VERT */
	{0x3f6, 0x3f7}, /* MSR_PEBS_LD_LAT_THRESHOLD, MSR_PEBS_FRONTEND */
	{0},
};

/* And what follows the last counter: it raises #GP here, and might not on the processor underneath.
 */
static const struct msr_range of_counters[] = {
	{0xc1, 0xc9},	/* IA32_PMC0.. */
	{0x186, 0x18e}, /* IA32_PERFEVTSEL0.. */
	{0x309, 0x30c}, /* IA32_FIXED_CTR0.. */
	{0x310, 0x310}, /* MSR_IQ_COUNTER4 */
	{0x345, 0x345}, /* IA32_PERF_CAPABILITIES */
	{0x370, 0x370}, /* MSR_IQ_CCCR4 */
	{0x38d, 0x392}, /* IA32_FIXED_CTR_CTRL to IA32_PERF_GLOBAL_INUSE */
	{0x3cc, 0x3cc}, /* MSR_CRU_ESCR2 */
	{0x4c1, 0x4c9}, /* IA32_A_PMC0.. */
	{0},
};

/* IA32_RTIT_OUTPUT_BASE to _ADDRn_B; those between belong to no unit and raise #GP as well: SDM
   Vol 2, RDMSR. */
static const struct msr_range of_pt[] = {{0x560, 0x58f}, {0}};

static const struct msr_range of_lbr[] = {
	{0x40, 0x47},	  /* MSR_LASTBRANCH_0_FROM_IP.. of Core and Atom */
	{0x60, 0x67},	  /* MSR_LASTBRANCH_0_TO_IP.. */
	{0x1c8, 0x1c9},	  /* MSR_LBR_SELECT, MSR_LASTBRANCH_TOS */
	{0x1da, 0x1da},	  /* MSR_LASTBRANCH_TOS of NetBurst */
	{0x1dd, 0x1de},	  /* IA32_LER_FROM_IP, IA32_LER_TO_IP */
	{0x1e0, 0x1e0},	  /* IA32_LER_INFO */
	{0x680, 0x69f},	  /* MSR_LASTBRANCH_0_FROM_IP.. */
	{0x6c0, 0x6df},	  /* MSR_LASTBRANCH_0_TO_IP.. */
	{0xdc0, 0xddf},	  /* MSR_LBR_INFO_0.. */
	{0x1200, 0x121f}, /* IA32_LBR_0_INFO.. */
	{0x14ce, 0x14cf}, /* IA32_LBR_CTL, IA32_LBR_DEPTH */
	{0x1500, 0x151f}, /* IA32_LBR_0_FROM_IP.. */
	{0x1600, 0x161f}, /* IA32_LBR_0_TO_IP.. */
	{0},
};

const struct unit units[UNITS] = {
	{.name = "bts",
	 .make = ds_make,
	 .stop = ds_stop,
	 .msrs = of_bts,
	 .read_msr = ds_read_msr,
	 .write_msr = ds_write_msr,
	 .cpuid = ds_cpuid,
	 .control = {"IA32_DEBUGCTL", MSR_DEBUGCTL, 0},
	 .reset = ds_reset,
	 .levels = ds_levels,
	 .event = ds_event,
	 .cr3 = ds_cr3,
	 .exit = ds_exit,
	 BEHAVIOUR(ds)},
	{.name = "pebs",
	 .make = pebs_make,
	 .stop = pebs_stop,
	 .msrs = of_pebs,
	 .read_msr = pebs_read_msr,
	 .write_msr = pebs_write_msr,
	 .reset = pebs_reset,
	 .levels = pmu_levels,
	 BEHAVIOUR(pebs)},
	{.name = "pmu",
	 .make = pmu_make,
	 .stop = pmu_stop,
	 .msrs = of_counters,
	 .read_msr = pmu_read_msr,
	 .write_msr = pmu_write_msr,
	 .cpuid = pmu_cpuid,
	 .power_on = pmu_power_on,
	 .reset = pmu_update,
	 .levels = pmu_levels,
	 .event = pmu_event,
	 .retired = pmu_retired,
	 .read_counter = pmu_read_counter,
	 .pass = pmu_pass,
	 .wait = pmu_wait,
	 .deadline = pmu_deadline,
	 .tick = pmu_tick,
	 .unmasked = pmu_unmasked,
	 .interrupted = pmu_interrupted,
	 BEHAVIOUR(pmu)},
	{.name = "pt",
	 .make = pt_make,
	 .add = pt_add,
	 .stop = pt_stop,
	 .msrs = of_pt,
	 .read_msr = pt_read_msr,
	 .write_msr = pt_write_msr,
	 .cpuid = pt_cpuid,
	 .control = {"IA32_RTIT_CTL", MSR_RTIT_CTL, LEAF_7_EBX_PT},
	 .power_on = pt_power_on,
	 .event = pt_event,
	 .retired = pt_retired,
	 .cr3 = pt_cr3,
	 .component = {PT_STATE, PT_STATE_BYTES, pt_has_state, pt_save, pt_restore},
	 BEHAVIOUR(pt)},
	/* The counters hand it instructions and events: monitor/pmu/count.c. */
	{.name = "lbr",
	 .make = lbr_make,
	 .stop = lbr_stop,
	 .msrs = of_lbr,
	 .read_msr = lbr_read_msr,
	 .write_msr = lbr_write_msr,
	 .cpuid = lbr_cpuid,
	 .power_on = lbr_power_on,
	 .reset = lbr_reset,
	 .component = {LBR_STATE, LBR_STATE_BYTES, lbr_has_state, lbr_save, lbr_restore},
	 BEHAVIOUR(lbr)},
};
