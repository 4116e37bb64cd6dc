/* SPDX-License-Identifier: MIT */
/* Bits of control registers (SDM Vol 3, 2.5); monitor/x86.h has those of EFER, and CR0.PG. */
#pragma once

#include "monitor/x86.h"

#define CR0_PE (1ULL << 0)
#define CR0_MP (1ULL << 1)
#define CR0_EM (1ULL << 2)
#define CR0_TS (1ULL << 3)
#define CR0_ET (1ULL << 4)
#define CR0_NE (1ULL << 5)
#define CR0_WP (1ULL << 16)
#define CR0_AM (1ULL << 18)
#define CR0_NW (1ULL << 29)
#define CR0_CD (1ULL << 30)

#define CR4_TSD	       (1ULL << 2)
#define CR4_DE	       (1ULL << 3)
#define CR4_OSFXSR     (1ULL << 9)
#define CR4_OSXMMEXCPT (1ULL << 10)
#define CR4_UMIP       (1ULL << 11)
#define CR4_LA57       (1ULL << 12)
#define CR4_FSGSBASE   (1ULL << 16)
#define CR4_PCIDE      (1ULL << 17)
#define CR4_PKE	       (1ULL << 22)
#define CR4_CET	       (1ULL << 23)
#define CR4_PKS	       (1ULL << 24)
