// SPDX-License-Identifier: MIT
#include "kernel/main.h"

#include "drivers/acpi/acpi.h"
#include "drivers/clock/clock.h"
#include "drivers/console/console.h"
#include "drivers/processor.h"
#include "drivers/smbios/smbios.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "kernel/watchdog.h"
#include "lib/format.h"
#include "lib/version.h"

#define IA32_BIOS_SIGN_ID 0x8b

/* Which one of a rack: keys as in Linux' /sys/class/dmi/id. */
static void print_machine(void)
{
	printk("# machine=\"%s\" mac=\"%s\" sys_vendor=\"%s\" product_name=\"%s\" "
	       "product_serial=\"%s\"\n",
	       options.machine, options.mac, smbios_text(SMBIOS_SYS_VENDOR),
	       smbios_text(SMBIOS_PRODUCT_NAME), smbios_text(SMBIOS_PRODUCT_SERIAL));
	printk("# board_vendor=\"%s\" board_name=\"%s\" bios_vendor=\"%s\" bios_version=\"%s\" "
	       "bios_date=\"%s\"\n",
	       smbios_text(SMBIOS_BOARD_VENDOR), smbios_text(SMBIOS_BOARD_NAME),
	       smbios_text(SMBIOS_BIOS_VENDOR), smbios_text(SMBIOS_BIOS_VERSION),
	       smbios_text(SMBIOS_BIOS_DATE));
}

void banner_processor(struct processor *processor)
{
	struct cpuid_result first = cpuid(0, 0), brand[4] = {0};
	uint32_t vendor[] = {first.ebx, first.edx, first.ecx, 0};
	const char *name = (const char *)brand;
	uint64_t microcode = 0;

	for (uint32_t leaf = 0; leaf < 3 && cpuid(0x80000000, 0).eax >= 0x80000004; leaf++)
		brand[leaf] = cpuid(0x80000002 + leaf, 0);
	while (*name == ' ')
		name++;
	rdmsr_safe(IA32_BIOS_SIGN_ID, &microcode);
	processor->signature = cpuid_signature(cpuid(1, 0).eax);
	processor->microcode = microcode >> 32;
	format(processor->vendor, sizeof(processor->vendor), "%s", (const char *)vendor);
	format(processor->name, sizeof(processor->name), "%s", name);
	format_plain(processor->vendor);
	format_plain(processor->name);
}

static void print_cpu(void)
{
	struct processor is;

	banner_processor(&is);
	printk("# vendor=\"%s\" cpu=\"%s\"\n", is.vendor, is.name);
	printk("# family=%02x model=%02x stepping=%x microcode=%lx\n", is.signature.family,
	       is.signature.model, is.signature.stepping, is.microcode);
}

static void print_unknown_interrupts(void)
{
	unsigned newest;
	uint64_t count = interrupt_unknown_count(&newest);

	if (count)
		printk("# interrupts_at_boot=%lu newest_vector=%u\n", count, newest);
}

void banner_print(const struct boot_info *info)
{
	printk("# spoor version=%s git=%s contract=2\n", spoor_version, spoor_git);
	printk("# boot=multiboot%d loader=\"%s\"\n", info->protocol, info->loader_name);
	printk("# command_line=\"%s\"\n", info->command_line);
	print_machine();
	print_cpu();
	printk("# hypervisor=\"%s\"\n", silicon_hypervisor());
	trace_print_units(silicon_name(), silicon_mark());
	print_unknown_interrupts();
	printk("# cpus=%u cpus_listed=%u memory_mb=%lu console=%s watchdog=%s\n", cpu_count(),
	       acpi_cpu_count(), page_total() * PAGE_SIZE >> 20, console_names(), watchdog_kind());
	printk("# tsc_hz=%lu clock=%s seed=%lu scale=%lu timeout=%lu\n", clock_tsc_hz(),
	       clock_reference(), options.seed, options.scale, options.timeout);
}
