/* SPDX-License-Identifier: MIT */
/* MSRs and CPUID bits of the Debug Store: SDM Vol 3, table 35-2; Vol 2, CPUID leaf 01H and 07H. */
#pragma once

#define IA32_MISC_ENABLE       0x1a0u
#define IA32_PERF_CAPABILITIES 0x345u
#define IA32_PEBS_ENABLE       0x3f1u
#define MSR_PEBS_DATA_CFG      0x3f2u
#define MSR_PEBS_LD_LAT	       0x3f6u
#define IA32_DS_AREA	       0x600u

/* SDM Vol 3, 18.4.4.2: the state of a record is that after the sampled instruction. */
#define PERF_CAPABILITIES_PEBS_TRAP (1ull << 6)

/* MSR_PEBS_DATA_CFG, and PEBS of every counter: Linux 6.1, perf_event.h. */
#define PERF_CAPABILITIES_PEBS_BASELINE (1ull << 14)

/* Memory and registers in each record: Linux 6.1, perf_event.h. */
#define PEBS_DATA_CFG 3ull

/* Entries of the LBR stack, 1 to 32: Linux 6.1, perf_event.h. */
#define PEBS_DATA_CFG_LBRS	 (1ull << 3)
#define PEBS_DATA_CFG_ENTRIES(n) ((uint64_t)((n)-1) << 24)

#define MISC_ENABLE_EMON_AVAILABLE   (1ull << 7)
#define MISC_ENABLE_BTS_UNAVAILABLE  (1ull << 11)
#define MISC_ENABLE_PEBS_UNAVAILABLE (1ull << 12)

#define CPUID_1_EDX_DS	   (1u << 21)
#define CPUID_1_ECX_DTES64 (1u << 2)
#define CPUID_1_ECX_DS_CPL (1u << 4)
#define CPUID_1_ECX_PDCM   (1u << 15)
#define CPUID_7_EBX_PT	   (1u << 25)
