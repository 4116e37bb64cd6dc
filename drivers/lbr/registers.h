/* SPDX-License-Identifier: MIT */
/*
 * Last branch records. Of models: SDM Vol 3, 17.4.8, 17.5 to 17.11 and the tables of chapter 35.
 * Architectural: the same manual of 2022, chapter 18; CPUID leaf 1CH.
 */
#pragma once

#define IA32_PERF_CAPABILITIES 0x345u
#define CPUID_1_ECX_PDCM       (1u << 15)
#define CPUID_7_EBX_TSX	       (1u << 4 | 1u << 11)
#define MSR_LBR_SELECT	       0x1c8u
#define MSR_LASTBRANCH_TOS     0x1c9u
#define MSR_LASTBRANCH_TOS_P4  0x1dau
#define MSR_LASTBRANCH_FROM    0x680u
#define MSR_LASTBRANCH_TO      0x6c0u
#define MSR_LASTBRANCH_FROM_C2 0x40u /* Core 2 and Atom */
#define MSR_LASTBRANCH_TO_C2   0x60u
#define MSR_LBR_INFO	       0xdc0u

/* IA32_PERF_CAPABILITIES[5:0]: 17.4.8.1. A hypervisor without an LBR stack shows 0, too. */
#define CAPABILITIES_LBR_FMT 0x3fu
enum { LBR_FMT_32, LBR_FMT_LIP, LBR_FMT_FLAGS = 3, LBR_FMT_TSX, LBR_FMT_INFO, LBR_FMT_TIME };
#define LBR_FMT_INFO2 7u
#define LBR_FMT_NONE  0x3fu /* no stack of the model: architectural ones alone */

/* MSR_LBR_SELECT: tables 17-11 and 17-13. A set bit leaves something out, but the last. */
#define LBR_SELECT_CPL_EQ_0	  (1ull << 0)
#define LBR_SELECT_CPL_NEQ_0	  (1ull << 1)
#define LBR_SELECT_BY_LEVEL	  3ull
#define LBR_SELECT_WITHOUT(kinds) ((~(uint64_t)(kinds)&0x7f) << 2)
#define LBR_SELECT_CALL_STACK	  (1ull << 9)

/* Of MSR_LASTBRANCH_n_FROM_IP, or of MSR_LBR_INFO_n: 17.4.8.1 and 17.10.1. */
#define LBR_MISPREDICTED (1ull << 63)
#define LBR_TSX		 (3ull << 61) /* in a transaction; its abort */

#define CPUID_7_EDX_ARCH_LBR (1u << 19)
#define IA32_LBR_DEPTH	     0x14cfu
#define IA32_LBR_0_INFO	     0x1200u
#define IA32_LBR_0_FROM_IP   0x1500u
#define IA32_LBR_0_TO_IP     0x1600u

/* CPUID leaf 1CH. EAX[7:0], bit n: 8 * (n + 1) entries; then EBX, and ECX. */
#define LBR_LEAF	      0x1cu
#define LBR_LEAF_BY_LEVEL     (1u << 0)
#define LBR_LEAF_BY_KIND      (1u << 1)
#define LBR_LEAF_CALL_STACK   (1u << 2)
#define LBR_LEAF_MISPREDICTED (1u << 0)
#define LBR_LEAF_CYCLES	      (1u << 1)
#define LBR_LEAF_KINDS	      (1u << 2)

/* CPUID leaf 0DH.1: XSAVES in EAX, and in ECX the state of architectural records. */
#define LBR_STATE_LEAF	    0xdu
#define LBR_STATE_XSAVES    (1u << 3)
#define LBR_STATE_COMPONENT (1u << 15)

/* IA32_LBR_CTL. A set bit lets something in; all others are reserved. */
#define LBR_CTL_LBREN	   (1ull << 0)
#define LBR_CTL_OS	   (1ull << 1)
#define LBR_CTL_USR	   (1ull << 2)
#define LBR_CTL_CALL_STACK (1ull << 3)
#define LBR_CTL_KINDS	   (0x7full << 16)

/* IA32_LBR_x_INFO: flags as above; CYC_CNT is bits 15:0, BR_TYPE four bits. */
#define LBR_INFO_BR_TYPE       56
#define LBR_INFO_CYC_CNT_VALID (1ull << 60)
