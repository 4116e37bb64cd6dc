/* SPDX-License-Identifier: MIT */
/* The LBR stack: SDM Vol 3, 17.4.8, 17.5 to 17.11 and the tables of chapter 35. */
#ifndef SPOOR_DRIVERS_LBR_REGISTERS_H
#define SPOOR_DRIVERS_LBR_REGISTERS_H

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

/* MSR_LBR_SELECT: tables 17-11 and 17-13. A set bit leaves something out, but the last. */
#define LBR_SELECT_CPL_EQ_0	  (1ull << 0)
#define LBR_SELECT_CPL_NEQ_0	  (1ull << 1)
#define LBR_SELECT_WITHOUT(kinds) ((~(uint64_t)(kinds)&0x7f) << 2)
#define LBR_SELECT_CALL_STACK	  (1ull << 9)

/* Of MSR_LASTBRANCH_n_FROM_IP, or of MSR_LBR_INFO_n: 17.4.8.1 and 17.10.1. */
#define LBR_MISPREDICTED (1ull << 63)
#define LBR_TSX		 (3ull << 61) /* in a transaction; its abort */

#endif
