// SPDX-License-Identifier: MIT
#include "drivers/acpi/acpi.h"
#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/mm/area.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/internal.h"
#include "kernel/smp/smp.h"
#include "kernel/time.h"
#include "kernel/trace/init.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"

#define LOW_MEMORY   0xa0000ul
#define STACK_PAGES  4
#define INIT_WAIT    10000 /* microseconds; SDM Vol 3, 8.4.4.1 */
#define STARTUP_WAIT 200
#define MOST_WAIT    500000

/* boot/entry.asm */
extern const uint8_t start_processor[], start_processor_end[];
extern uint64_t start_stack;
extern void (*start_function)(void);

static struct cpu *starting;
static uint64_t starting_stack_top;
/* The boot tables map the image, but no area: the first steps need a stack there. */
static uint8_t first_stack[1024] __attribute__((aligned(16)));

__attribute__((used)) static _Noreturn void processor_run(void)
{
	struct cpu *cpu = starting;

	cpu_load(cpu);
	trap_load();
	cpu_protect();
	lapic_init();
	time_init_cpu();
	trace_init_cpu();
	sched_init();
	atomic_store(&cpu->online, true);
	sched_idle();
}

/* The first C of a started CPU: onto its own stack, which becomes its idle task's. */
static _Noreturn void processor_main(void)
{
	vm_load();
	__asm__ volatile("movq %0, %%rsp\n\t"
			 "call processor_run"
			 :
			 : "r"(starting_stack_top));
	__builtin_unreachable();
}

/* A whole page of usable memory that a processor in real mode can start at; 0 if there is none. */
static uint64_t find_low_page(const struct boot_info *info)
{
	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];
		uint64_t page = (region->base + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);

		if (page < PAGE_SIZE)
			page = PAGE_SIZE; /* the interrupt vectors of firmware */
		if (region->type == MEMORY_USABLE && page + PAGE_SIZE <= LOW_MEMORY &&
		    page + PAGE_SIZE <= region->base + region->length)
			return page;
	}
	return 0;
}

static bool wait_online(const struct cpu *cpu, uint64_t microseconds)
{
	uint64_t end = time_now() + microseconds;

	while (!atomic_load(&cpu->online))
		if (time_now() > end)
			return false;
	return true;
}

static bool start_one(struct cpu *cpu, uint32_t page)
{
	uint8_t *stack = area_alloc(STACK_PAGES, VM_WRITE);

	if (!stack)
		return false;
	starting = cpu;
	starting_stack_top = (uint64_t)stack + STACK_PAGES * PAGE_SIZE;
	start_stack = (uint64_t)first_stack + sizeof(first_stack);
	start_function = processor_main;
	if (!lapic_send_init(cpu->apic_id))
		return false;
	delay_us(INIT_WAIT);
	lapic_send_startup(cpu->apic_id, page);
	if (wait_online(cpu, STARTUP_WAIT))
		return true;
	lapic_send_startup(cpu->apic_id, page);
	return wait_online(cpu, MOST_WAIT);
}

void smp_start(const struct boot_info *info)
{
	uint64_t page = find_low_page(info);
	uint32_t self = lapic_id();
	unsigned cursor = 0;
	struct acpi_cpu found;

	cpu_by_index(0)->apic_id = self;
	atomic_store(&cpu_by_index(0)->online, true);
	smp_init_calls();
	smp_init_stop();
	if (acpi_cpu_count() == 1)
		return;
	if (!page) {
		printk("# no page below 640 KiB to start other CPUs at\n");
		return;
	}
	memcpy(direct(page), start_processor, (size_t)(start_processor_end - start_processor));
	while (acpi_next_cpu(&cursor, &found)) {
		struct cpu *cpu;

		if (!found.enabled || found.apic_id == self)
			continue;
		cpu = cpu_create(found.apic_id);
		if (!cpu || !start_one(cpu, (uint32_t)page)) {
			printk("# the CPU with APIC id %u did not start\n", found.apic_id);
			if (cpu)
				cpu_forget_newest();
		}
	}
}
