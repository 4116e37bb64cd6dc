// SPDX-License-Identifier: MIT
/* Which ports exit: APM Vol 2, 15.10.1. The MSR permission map: APM Vol 2, 15.11. Two bits an MSR,
 * read and write; others always exit. */
#include "lib/string.h"
#include "monitor/host/cpu.h"
#include "monitor/svm/guest.h"

enum { EXIT_READ = 1, EXIT_WRITE = 2, EXIT_BOTH = 3 };
enum { MSRS_A_BLOCK = 0x2000, BLOCK_BYTES = MSRS_A_BLOCK / 4 };

static uint8_t map[2 * PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

static const struct {
	uint32_t first, last;
	uint8_t exits;
} intercepted[] = {
	{MSR_APIC_BASE, MSR_APIC_BASE, EXIT_BOTH},
	{0x40, 0x47, EXIT_BOTH}, /* MSR_LASTBRANCH_0_FROM_IP.. of Core and Atom */
	{0x60, 0x67, EXIT_BOTH}, /* MSR_LASTBRANCH_0_TO_IP.. */
	{0xc1, 0xc9, EXIT_BOTH}, /* IA32_PMC0.., and what follows the last, like the others below */
	{0xce, 0xce, EXIT_BOTH}, /* MSR_PLATFORM_INFO */
	{MSR_SYSENTER_CS, MSR_SYSENTER_CS, EXIT_BOTH},
	{0x186, 0x18e, EXIT_BOTH}, /* IA32_PERFEVTSEL0.. */
	{0x1a0, 0x1a0, EXIT_BOTH}, /* IA32_MISC_ENABLE */
	{0x1c8, 0x1c9, EXIT_BOTH}, /* MSR_LBR_SELECT, MSR_LASTBRANCH_TOS */
	{0x1d9, 0x1da, EXIT_BOTH}, /* IA32_DEBUGCTL, MSR_LASTBRANCH_TOS of NetBurst */
	{0x277, 0x277, EXIT_BOTH}, /* IA32_PAT */
	{0x309, 0x30c, EXIT_BOTH}, /* IA32_FIXED_CTR0.. */
	{0x310, 0x310, EXIT_BOTH}, /* MSR_IQ_COUNTER4 */
	{0x345, 0x345, EXIT_BOTH}, /* IA32_PERF_CAPABILITIES */
	{0x370, 0x370, EXIT_BOTH}, /* MSR_IQ_CCCR4 */
	{0x38d, 0x392, EXIT_BOTH}, /* IA32_FIXED_CTR_CTRL to IA32_PERF_GLOBAL_INUSE */
	{0x3cc, 0x3cc, EXIT_BOTH}, /* MSR_CRU_ESCR2 */
	{0x3f1, 0x3f7, EXIT_BOTH}, /* IA32_PEBS_ENABLE and what belongs to it */
	{0x4c1, 0x4c9, EXIT_BOTH}, /* IA32_A_PMC0.. */
	{0x560, 0x561, EXIT_BOTH}, /* IA32_RTIT_OUTPUT_BASE, IA32_RTIT_OUTPUT_MASK_PTRS */
	{0x570, 0x572, EXIT_BOTH}, /* IA32_RTIT_CTL, IA32_RTIT_STATUS, IA32_RTIT_CR3_MATCH */
	{0x580, 0x58f, EXIT_BOTH}, /* IA32_RTIT_ADDR0_A.. */
	{0x600, 0x600, EXIT_BOTH}, /* IA32_DS_AREA */
	{0x680, 0x69f, EXIT_BOTH}, /* MSR_LASTBRANCH_0_FROM_IP.. */
	{0x6c0, 0x6df, EXIT_BOTH}, /* MSR_LASTBRANCH_0_TO_IP.. */
	{0x800, 0x8ff, EXIT_BOTH}, /* x2APIC */
	{MSR_XSS, MSR_XSS, EXIT_BOTH},
	{0xdc0, 0xddf, EXIT_BOTH}, /* MSR_LBR_INFO_0.. */
	{MSR_EFER, MSR_EFER, EXIT_BOTH},
	/* QEMU 7.2 takes addresses that are not canonical (target/i386/tcg/sysemu/misc_helper.c,
	   helper_wrmsr). */
	{MSR_LSTAR, MSR_CSTAR, EXIT_WRITE},
	{MSR_FS_BASE, MSR_KERNEL_GS_BASE, EXIT_WRITE},
};

/* Where MSRs 0.. and C000_0000H.. start in the map; after them AMD's own, C001_0000H... */
enum { COMMON = 0, EXTENDED = BLOCK_BYTES, AMD = 2 * BLOCK_BYTES };

static void set(uint32_t index, uint8_t exits)
{
	uint32_t block = index >> 31 ? EXTENDED : COMMON, n = index % MSRS_A_BLOCK;

	map[block + n / 4] |= (uint8_t)(exits << n % 4 * 2);
}

uint64_t msr_permissions(void)
{
	for (unsigned i = 0; i < sizeof(intercepted) / sizeof(intercepted[0]); i++) {
		for (uint32_t msr = intercepted[i].first; msr <= intercepted[i].last; msr++)
			set(msr, intercepted[i].exits);
	}
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
