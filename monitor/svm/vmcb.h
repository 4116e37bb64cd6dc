/* SPDX-License-Identifier: MIT */
/* The virtual machine control block: APM Vol 2, appendix B "Layout of VMCB". */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bits of intercept_3 (offset 00CH) and intercept_4 (010H). */
enum {
	INTERCEPT_INTR = 1u << 0,
	INTERCEPT_NMI = 1u << 1,
	INTERCEPT_INIT = 1u << 3,
	INTERCEPT_CR0_SELECTIVE = 1u << 5, /* writes that change more than TS and MP */
	INTERCEPT_LIDT = 1u << 10,
	INTERCEPT_LGDT = 1u << 11,
	INTERCEPT_RDPMC = 1u << 15,
	INTERCEPT_CPUID = 1u << 18,
	INTERCEPT_IRET = 1u << 20,
	INTERCEPT_INT_N = 1u << 21,
	INTERCEPT_INVD = 1u << 22,
	INTERCEPT_HLT = 1u << 24,
	INTERCEPT_INVLPGA = 1u << 26,
	INTERCEPT_PORTS = 1u << 27,
	INTERCEPT_MSR = 1u << 28,
};
#define INTERCEPT_SHUTDOWN 0x80000000u
enum {
	INTERCEPT_VMRUN = 1u << 0,
	INTERCEPT_VMMCALL = 1u << 1,
	INTERCEPT_VMLOAD = 1u << 2,
	INTERCEPT_VMSAVE = 1u << 3,
	INTERCEPT_STGI = 1u << 4,
	INTERCEPT_CLGI = 1u << 5,
	INTERCEPT_SKINIT = 1u << 6,
	INTERCEPT_MONITOR = 1u << 10,
	INTERCEPT_MWAIT = 1u << 11,
	INTERCEPT_MWAIT_ARMED = 1u << 12,
};

enum { INTERCEPT_CR4 = 1u << 4 }; /* bit of cr_write */

/* Exit codes: APM Vol 2, appendix C. */
enum {
	EXIT_WRITE_CR4 = 0x14,
	EXIT_EXCEPTION_0 = 0x40,
	EXIT_EXCEPTION_31 = 0x5f,
	EXIT_INTR = 0x60,
	EXIT_NMI = 0x61,
	EXIT_INIT = 0x63,
	EXIT_CR0_SELECTIVE = 0x65,
	EXIT_LIDT = 0x6a,
	EXIT_LGDT = 0x6b,
	EXIT_RDPMC = 0x6f,
	EXIT_CPUID = 0x72,
	EXIT_IRET = 0x74,
	EXIT_INT_N = 0x75,
	EXIT_INVD = 0x76,
	EXIT_HLT = 0x78,
	EXIT_INVLPGA = 0x7a,
	EXIT_PORT = 0x7b,
	EXIT_MSR = 0x7c,
	EXIT_SHUTDOWN = 0x7f,
	EXIT_VMRUN = 0x80,
	EXIT_VMMCALL = 0x81,
	EXIT_VMLOAD = 0x82,
	EXIT_VMSAVE = 0x83,
	EXIT_STGI = 0x84,
	EXIT_CLGI = 0x85,
	EXIT_SKINIT = 0x86,
	EXIT_MONITOR = 0x8a,
	EXIT_MWAIT = 0x8b,
	EXIT_MWAIT_ARMED = 0x8c,
	EXIT_NESTED_PAGE_FAULT = 0x400,
	EXIT_INVALID = -1, /* QEMU 7.2 has 32 bits of it */
};

/* EVENTINJ and EXITINTINFO: APM Vol 2, 15.20. */
#define EVENT_TYPE_INTR	     (0ull << 8)
#define EVENT_TYPE_NMI	     (2ull << 8)
#define EVENT_TYPE_EXCEPTION (3ull << 8)
#define EVENT_TYPE_SOFTWARE  (4ull << 8)
#define EVENT_TYPE_MASK	     (7ull << 8)
#define EVENT_ERROR_VALID    (1ull << 11)
#define EVENT_VALID	     (1ull << 31)

#define INTERRUPT_V_TPR	       0xffull
#define INTERRUPT_V_MASKING    (1ull << 24)
#define INTERRUPT_STATE_SHADOW (1ull << 0)
#define NESTED_PAGING_ENABLE   (1ull << 0)
#define TLB_CONTROL_FLUSH_ALL  1

struct vmcb_segment {
	uint16_t selector, attributes;
	uint32_t limit;
	uint64_t base;
};

struct vmcb {
	uint16_t cr_read, cr_write, dr_read, dr_write;
	uint32_t exceptions, intercept_3, intercept_4;
	uint8_t reserved_014[0x040 - 0x014];
	uint64_t io_permissions, msr_permissions, tsc_offset;
	uint32_t asid;
	uint8_t tlb_control, reserved_05d[3];
	uint64_t interrupt_control, interrupt_state;
	uint64_t exit_code, exit_info_1, exit_info_2, exit_interrupt_info;
	uint64_t nested_paging, avic, ghcb, event_injection, nested_cr3, lbr_control;
	uint32_t clean, reserved_0c4;
	uint64_t next_rip;
	uint8_t reserved_0d0[0x400 - 0x0d0];

	struct vmcb_segment segment[6]; /* ES, CS, SS, DS, FS, GS */
	struct vmcb_segment gdtr, ldtr, idtr, tr;
	uint8_t reserved_4a0[0x4cb - 0x4a0];
	uint8_t cpl;
	uint32_t reserved_4cc;
	uint64_t efer;
	uint8_t reserved_4d8[0x548 - 0x4d8];
	uint64_t cr4, cr3, cr0, dr7, dr6, rflags, rip;
	uint8_t reserved_580[0x5d8 - 0x580];
	uint64_t rsp;
	uint8_t reserved_5e0[0x5f8 - 0x5e0];
	uint64_t rax, star, lstar, cstar, sfmask, kernel_gs_base;
	uint64_t sysenter_cs, sysenter_esp, sysenter_eip, cr2;
	uint8_t reserved_648[0x668 - 0x648];
	uint64_t pat;
	uint8_t reserved_670[0x1000 - 0x670];
};
_Static_assert(offsetof(struct vmcb, io_permissions) == 0x040, "VMCB");
_Static_assert(offsetof(struct vmcb, asid) == 0x058, "VMCB");
_Static_assert(offsetof(struct vmcb, interrupt_control) == 0x060, "VMCB");
_Static_assert(offsetof(struct vmcb, exit_code) == 0x070, "VMCB");
_Static_assert(offsetof(struct vmcb, nested_paging) == 0x090, "VMCB");
_Static_assert(offsetof(struct vmcb, event_injection) == 0x0a8, "VMCB");
_Static_assert(offsetof(struct vmcb, nested_cr3) == 0x0b0, "VMCB");
_Static_assert(offsetof(struct vmcb, next_rip) == 0x0c8, "VMCB");
_Static_assert(offsetof(struct vmcb, segment) == 0x400, "VMCB");
_Static_assert(offsetof(struct vmcb, gdtr) == 0x460, "VMCB");
_Static_assert(offsetof(struct vmcb, tr) == 0x490, "VMCB");
_Static_assert(offsetof(struct vmcb, cpl) == 0x4cb, "VMCB");
_Static_assert(offsetof(struct vmcb, efer) == 0x4d0, "VMCB");
_Static_assert(offsetof(struct vmcb, cr4) == 0x548, "VMCB");
_Static_assert(offsetof(struct vmcb, rip) == 0x578, "VMCB");
_Static_assert(offsetof(struct vmcb, rsp) == 0x5d8, "VMCB");
_Static_assert(offsetof(struct vmcb, rax) == 0x5f8, "VMCB");
_Static_assert(offsetof(struct vmcb, cr2) == 0x640, "VMCB");
_Static_assert(offsetof(struct vmcb, pat) == 0x668, "VMCB");
_Static_assert(sizeof(struct vmcb) == 0x1000, "VMCB");
