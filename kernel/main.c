// SPDX-License-Identifier: MIT
#include "kernel/main.h"

#include "drivers/acpi/acpi.h"
#include "drivers/apic/ioapic.h"
#include "drivers/apic/lapic.h"
#include "drivers/console/console.h"
#include "drivers/console/uart.h"
#include "drivers/mmio.h"
#include "drivers/smbios/smbios.h"
#include "kernel/code.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/export/export.h"
#include "kernel/mm/vm.h"
#include "kernel/options.h"
#include "kernel/process/program.h"
#include "kernel/ptrace/ptrace.h"
#include "kernel/restart.h"
#include "kernel/sched/sched.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/time.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "kernel/watchdog.h"
#include "lib/boot_info.h"
#include "lib/cmdline.h"

#define LEAST_MEMORY (8ul << 20)

static struct boot_info info;

/* Before the kernel's own tables the first 4 GiB stand in the direct map (boot/entry.asm). */
static const void *boot_memory_at(uint64_t physical, uint64_t bytes)
{
	uint64_t end = physical + bytes;

	return end >= physical && end <= 1ul << 32 ? direct(physical) : NULL;
}

/* `error` is what is missing, or wrong with `place`; NULL: nothing. */
static void require(const char *place, const char *error)
{
	if (error)
		refuse("%s%s", place, error);
}

/* The command line first: it says where to complain. */
static void read_boot_information(uint32_t magic, uint64_t physical, bool whole)
{
	const char *error = restart_continues(magic, physical, boot_memory_at, &info)
				    ? NULL
				    : boot_info_read(&info, magic, physical, boot_memory_at);
	const char *line = info.command_line;
	const char *fault, *notes;
	bool speed;

	if (info.protocol == BOOT_MULTIBOOT1)
		line = cmdline_skip_file_name(line);
	code_set_boot(&info);
	fault = options_read(line);
	speed = uart_can_give((uint32_t)options.baud);
	notes = console_open(options.console, speed ? (uint32_t)options.baud : 115200, &info,
			     boot_memory_at);
	console_print_title();
	printk("\n"); /* firmware leaves the cursor, and terminal escapes, anywhere */
	console_print_notes(notes);
	if (!whole)
		refuse("this image is damaged: its checksum is not that of what was built");
	require("boot information: ", error);
	require("command line: ", fault);
	if (!speed)
		refuse("command line: baud=%lu: a serial port gives 300 to 115200, near a divisor of "
		       "115200",
		       options.baud);
}

static const void *device_memory(uint64_t physical, uint64_t bytes)
{
	return (const void *)mmio_map(physical, bytes);
}

static void start_memory(void)
{
	restart_keep(&info);
	page_init(&info);
	if (page_total() * PAGE_SIZE < LEAST_MEMORY)
		refuse("%lu KiB of usable memory above the kernel; it needs %lu",
		       page_total() * PAGE_SIZE / 1024, LEAST_MEMORY / 1024);
	require("", vm_init(&info));
	restart_map();
	console_print_notes(console_move(device_memory));
}

static void start_clocks(void)
{
	require("", lapic_init());
	if (options.x2apic && !lapic_enable_x2apic())
		refuse("x2apic: this processor has no x2APIC mode");
	if (acpi_highest_apic_id() > XAPIC_ID_MOST)
		lapic_enable_x2apic(); /* where it has none smp_start() says what is not used */
	interrupt_take_pending();
	require("", time_init());
}

static void start_first_task(void)
{
	struct task *task = task_create("init", init, NULL);

	if (!task)
		refuse("no memory for the first task");
	task_put(task);
}

void kernel_main(uint32_t magic, uint64_t information)
{
	bool whole = restart_begin();

	cpu_init_boot(); /* descriptor tables, per-CPU data */
	trap_init();	 /* exceptions can be caught from here on */
	trace_quiesce(); /* what firmware left on: recorded, then off */
	/* Command line, console. */
	read_boot_information(magic, information, whole);
	cpu_protect();	      /* SMEP, SMAP, SYSCALL */
	start_memory();	      /* pages, own address space; the console in it */
	acpi_init(&info);     /* tables of the platform */
	smbios_init(&info);   /* its name */
	ioapic_init();	      /* all lines masked */
	start_clocks();	      /* local APIC, calibration, timer */
	watchdog_init();      /* deadlines that end a hung run */
	trace_init();	      /* Debug Store: probe, PMI */
	silicon_init();	      /* whose it is */
	programs_init(&info); /* of ring 3 */
	ptrace_init();	      /* its system call */
	sched_init();	      /* this becomes the idle task */
	smp_start(&info);     /* the other CPUs */
	/* The line that traces leave by. */
	require("command line: ", export_init());
	if (!restart_state())
		banner_print(&info);
	start_first_task();
	sched_idle();
}
