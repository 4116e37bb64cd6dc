/* SPDX-License-Identifier: MIT */
/* MSRs of architectural performance monitoring: SDM Vol 3, table 35-2; bits: 18.2. */
#pragma once

#define IA32_PMC0		  0x0c1u
#define IA32_PERFEVTSEL0	  0x186u
#define IA32_FIXED_CTR0		  0x309u
#define IA32_FIXED_CTR_CTRL	  0x38du
#define IA32_PERF_GLOBAL_STATUS	  0x38eu
#define IA32_PERF_GLOBAL_CTRL	  0x38fu
#define IA32_PERF_GLOBAL_OVF_CTRL 0x390u
#define IA32_A_PMC0		  0x4c1u

#define PERFEVTSEL_INT	    (1ull << 20)
#define PERFEVTSEL_EN	    (1ull << 22)
#define PERFEVTSEL_ADAPTIVE (1ull << 34)

/* IA32_PERF_GLOBAL_STATUS, beside a bit for each counter. */
#define GLOBAL_STATUS_OVF_BUF (1ull << 62)

/* IA32_FIXED_CTR_CTRL: four bits a counter. */
#define FIXED_OS   1ull
#define FIXED_USR  2ull
#define FIXED_PMI  8ull
#define FIXED_BITS 4u

#define FIXED_ADAPTIVE (1ull << 32)
