/* SPDX-License-Identifier: MIT */
/* Constants of the architecture that more than one directory of the monitor needs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Where an emulated processor deviates from the manual; of several, their sum. */
enum deviation {
	/* RF is 0 in what a trap between two iterations of a repeated string instruction pushes. */
	DEVIATION_RF_LOST = 1 << 0,
	/* The trap of the last iteration still returns to the instruction, whose count is 0: one
	   step more. */
	DEVIATION_STEP_TOO_MANY = 1 << 1,
};

/* SDM Vol 3, table 6-1. */
enum vector {
	VECTOR_DE = 0,
	VECTOR_DB = 1,
	VECTOR_NMI = 2,
	VECTOR_BP = 3,
	VECTOR_OF = 4,
	VECTOR_BR = 5,
	VECTOR_UD = 6,
	VECTOR_NM = 7,
	VECTOR_DF = 8,
	VECTOR_TS = 10,
	VECTOR_NP = 11,
	VECTOR_SS = 12,
	VECTOR_GP = 13,
	VECTOR_PF = 14,
	VECTOR_MF = 16,
	VECTOR_AC = 17,
	VECTOR_XM = 19,
	VECTOR_CP = 21,
	FIRST_EXTERNAL = 32,
};

/* SDM Vol 4, table 2-2. */
#define MSR_APIC_BASE	   0x1bu
#define MSR_SYSENTER_CS	   0x174u
#define MSR_SYSENTER_ESP   0x175u
#define MSR_SYSENTER_EIP   0x176u
#define MSR_MISC_ENABLE	   0x1a0u
#define MSR_DEBUGCTL	   0x1d9u
#define MSR_DS_AREA	   0x600u
#define MSR_XSS		   0xda0u
#define MSR_EFER	   0xc0000080u
#define MSR_STAR	   0xc0000081u
#define MSR_LSTAR	   0xc0000082u
#define MSR_CSTAR	   0xc0000083u
#define MSR_SFMASK	   0xc0000084u
#define MSR_FS_BASE	   0xc0000100u
#define MSR_GS_BASE	   0xc0000101u
#define MSR_KERNEL_GS_BASE 0xc0000102u

/* Bits of IA32_MISC_ENABLE that take something away: SDM Vol 3, table 35-2. */
#define MISC_ENABLE_LIMIT_CPUID (1ull << 22)
#define MISC_ENABLE_XD_DISABLE	(1ull << 34)

/* Bits of IA32_EFER, CR0, CR4, and of a code segment as a VMCB packs its attributes. */
#define EFER_SCE    (1ull << 0)
#define EFER_LME    (1ull << 8)
#define EFER_LMA    (1ull << 10)
#define EFER_NXE    (1ull << 11)
#define CR0_PG	    (1ull << 31)
#define CR4_PSE	    (1ull << 4)
#define CR4_PAE	    (1ull << 5)
#define CR4_PGE	    (1ull << 7)
#define CR4_OSXSAVE (1ull << 18)
#define CR4_SMEP    (1ull << 20)
#define CR4_SMAP    (1ull << 21)
#define SEGMENT_L   (1u << 9)
#define SEGMENT_DB  (1u << 10)

/* IA32_DEBUGCTL in every layout of its other flags: SDM Vol 3, 17.4.1. */
#define DEBUGCTL_LBR 1ull
#define DEBUGCTL_BTF 2ull /* RFLAGS.TF traps taken branches only */
/* In that of P6 alone: SDM Vol 3, 17.4.7. */
#define DEBUGCTL_FREEZE_LBRS	(1ull << 11)
#define DEBUGCTL_FREEZE_PERFMON (1ull << 12)

enum { INSN_BYTES = 15 }; /* of the longest instruction: SDM Vol 2, 2.3.11 */

/* For the 48-bit linear addresses of a processor without LA57: SDM Vol 1, 3.3.7.1. */
static inline bool canonical(uint64_t linear)
{
	return (uint64_t)((int64_t)(linear << 16) >> 16) == linear;
}
