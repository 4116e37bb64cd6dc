/* SPDX-License-Identifier: MIT */
/* MSRs of Intel Processor Trace and their bits: SDM Vol 3, 36.2.7; the ToPA entry: table 36-3. */
#pragma once

#define IA32_RTIT_OUTPUT_BASE	   0x560u
#define IA32_RTIT_OUTPUT_MASK_PTRS 0x561u
#define IA32_RTIT_CTL		   0x570u
#define IA32_RTIT_STATUS	   0x571u
#define IA32_RTIT_CR3_MATCH	   0x572u
#define IA32_RTIT_ADDR0_A	   0x580u /* then ADDR0_B, ADDR1_A and so on */

#define RTIT_CTL_TRACE_EN	(1ull << 0)
#define RTIT_CTL_CYC_EN		(1ull << 1)
#define RTIT_CTL_OS		(1ull << 2)
#define RTIT_CTL_USER		(1ull << 3)
#define RTIT_CTL_PWR_EVT_EN	(1ull << 4)
#define RTIT_CTL_FUP_ON_PTW	(1ull << 5)
#define RTIT_CTL_FABRIC_EN	(1ull << 6)
#define RTIT_CTL_CR3_FILTER	(1ull << 7)
#define RTIT_CTL_TOPA		(1ull << 8)
#define RTIT_CTL_MTC_EN		(1ull << 9)
#define RTIT_CTL_TSC_EN		(1ull << 10)
#define RTIT_CTL_DIS_RETC	(1ull << 11)
#define RTIT_CTL_PTW_EN		(1ull << 12)
#define RTIT_CTL_BRANCH_EN	(1ull << 13)
#define RTIT_CTL_MTC_FREQ	(0xfull << 14)
#define RTIT_CTL_CYC_THRESH	(0xfull << 19)
#define RTIT_CTL_PSB_FREQ	(0xfull << 24)
#define RTIT_CTL_ADDR_CFG(n, c) ((uint64_t)(c) << (32 + 4 * (n)))
#define RTIT_ADDR_FILTER	1u
#define RTIT_ADDR_TRACE_STOP	2u

#define RTIT_STATUS_FILTER_EN	      (1ull << 0)
#define RTIT_STATUS_CONTEXT_EN	      (1ull << 1)
#define RTIT_STATUS_TRIGGER_EN	      (1ull << 2)
#define RTIT_STATUS_ERROR	      (1ull << 4)
#define RTIT_STATUS_STOPPED	      (1ull << 5)
#define RTIT_STATUS_PACKET_BYTE_COUNT (0x1ffffull << 32)

/* IA32_RTIT_OUTPUT_MASK_PTRS with ToPA. */
#define RTIT_MASK_PTRS_FIXED  0x7full
#define RTIT_TABLE_INDEX(m)   ((uint64_t)(m) >> 7 & 0x1ffffff)
#define RTIT_OUTPUT_OFFSET(m) ((uint64_t)(m) >> 32)
#define RTIT_POINTERS(index, at)                                                                   \
	((uint64_t)(at) << 32 | (uint64_t)(index) << 7 | RTIT_MASK_PTRS_FIXED)

#define TOPA_END	 (1ull << 0)
#define TOPA_INT	 (1ull << 2)
#define TOPA_STOP	 (1ull << 4)
#define TOPA_SIZE(order) ((uint64_t)(order) << 6) /* 4096 << order bytes */

/* IA32_PERF_GLOBAL_STATUS: 36.2.6.2. */
#define TRACE_TOPA_PMI (1ull << 55)
