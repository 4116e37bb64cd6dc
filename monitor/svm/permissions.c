// SPDX-License-Identifier: MIT
/* Which ports exit: APM Vol 2, 15.10.1. The MSR permission map: APM Vol 2, 15.11. Two bits an MSR,
 * read and write; others always exit. */
#include "lib/string.h"
#include "monitor/host/cpu.h"
#include "monitor/svm/guest.h"
#include "monitor/unit.h"

enum { EXIT_WRITE = 2, EXIT_BOTH = 3 }; /* 1: reads */
enum { MSRS_A_BLOCK = 0x2000, BLOCK_BYTES = MSRS_A_BLOCK / 4 };

static uint8_t map[2 * PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

/* Beside those of the units. */
static const struct {
	struct msr_range msrs;
	uint8_t exits;
} intercepted[] = {
	{{MSR_APIC_BASE, MSR_APIC_BASE}, EXIT_BOTH},
	{{0xce, 0xce}, EXIT_BOTH}, /* MSR_PLATFORM_INFO */
	{{MSR_SYSENTER_CS, MSR_SYSENTER_CS}, EXIT_BOTH},
	{{0x277, 0x277}, EXIT_BOTH}, /* IA32_PAT */
	{{0x800, 0x8ff}, EXIT_BOTH}, /* x2APIC */
	{{MSR_XSS, MSR_XSS}, EXIT_BOTH},
	{{MSR_EFER, MSR_EFER}, EXIT_BOTH},
	/* QEMU 7.2 takes addresses that are not canonical (target/i386/tcg/sysemu/misc_helper.c,
	   helper_wrmsr). */
	{{MSR_LSTAR, MSR_CSTAR}, EXIT_WRITE},
	{{MSR_FS_BASE, MSR_KERNEL_GS_BASE}, EXIT_WRITE},
};

/* Where MSRs 0.. and C000_0000H.. start in the map; after them AMD's own, C001_0000H... */
enum { COMMON = 0, EXTENDED = BLOCK_BYTES, AMD = 2 * BLOCK_BYTES };

static void set(const struct msr_range *msrs, uint8_t exits)
{
	for (uint32_t index = msrs->first; index <= msrs->last; index++) {
		uint32_t block = index >> 31 ? EXTENDED : COMMON, n = index % MSRS_A_BLOCK;

		map[block + n / 4] |= (uint8_t)(exits << n % 4 * 2);
	}
}

uint64_t msr_permissions(void)
{
	for (unsigned i = 0; i < sizeof(intercepted) / sizeof(intercepted[0]); i++)
		set(&intercepted[i].msrs, intercepted[i].exits);
	for (unsigned i = 0; i < UNITS; i++)
		for (const struct msr_range *msrs = units[i]->msrs; msrs->last; msrs++)
			set(msrs, EXIT_BOTH);
	memset(map + AMD, 0xff, BLOCK_BYTES);
	return image_physical(map);
}

/* One bit a port, and one page more than that. */
static uint8_t ports[3 * PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

void port_exits(uint16_t port)
{
	ports[port / 8] |= (uint8_t)(1 << port % 8);
}

uint64_t port_permissions(void)
{
	port_exits(RESET_PORT);
	return image_physical(ports);
}
