// SPDX-License-Identifier: MIT
#include "drivers/acpi/acpi.h"
#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "drivers/debugexit/debugexit.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/time.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"

#define LOW_MEMORY   0xa0000ul
#define STACK_PAGES  4
#define INIT_WAIT    10000 /* microseconds; SDM Vol 3, 8.4.4.1 */
#define STARTUP_WAIT 200
#define MOST_WAIT    2000000  /* a virtual processor's host may be busy */
#define LEAST_WAIT   10000    /* for one of many that do not answer */
#define MOST_INIT    10000000 /* from its first instruction here until it runs tasks */

/* boot/entry.asm */
extern const uint8_t start_processor[], start_processor_end[];
extern uint64_t start_stack;
extern void (*start_function)(void);

static uint64_t start_page; /* 0: none */
/* The CPU that is being started, until a processor begins to run as it. */
static _Atomic(struct cpu *) starting;
static uint64_t starting_stack_top;
static uint64_t patience = 2ul * MOST_WAIT; /* with all that do not answer */
/* The boot tables map the image, but no area: the first steps need a stack there. */
static uint8_t first_stack[1024] __attribute__((aligned(16)));

/* INIT leaves few registers as the kernel needs them: SDM Vol 3, table 9-1. */
void smp_load_processor(struct cpu *cpu)
{
	cpu_load(cpu);
	trap_load();
	cpu_protect();
	lapic_init();
	time_init_cpu();
}

__attribute__((used)) static _Noreturn void processor_run(struct cpu *cpu)
{
	smp_load_processor(cpu);
	cpu->apic_id = lapic_id(); /* an earlier one that was late may have taken its place */
	if (!trace_init_cpu()) {
		atomic_store(&cpu->left_out, true);
		machine_halt();
	}
	sched_init();
	atomic_store(&cpu->online, true);
	sched_idle();
}

/* The first C of a started CPU: onto its own stack, which becomes its idle task's. One that is so
   late that its place was given up has none. */
static _Noreturn void processor_main(void)
{
	struct cpu *cpu;

	vm_load();
	cpu = atomic_exchange(&starting, NULL);
	if (!cpu)
		machine_halt();
	__asm__ volatile("movq %0, %%rsp\n\t"
			 "call processor_run"
			 :
			 : "r"(starting_stack_top), "D"(cpu));
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
	uint64_t end = clock_us() + microseconds;

	while (!atomic_load(&cpu->online) && !atomic_load(&cpu->left_out))
		if (clock_us() > end)
			return false;
	return true;
}

bool smp_send_start(const struct cpu *cpu, void (*function)(void), uint64_t wait)
{
	start_stack = (uint64_t)first_stack + sizeof(first_stack);
	start_function = function;
	if (!lapic_send_init(cpu->apic_id))
		return false;
	delay_us(INIT_WAIT);
	lapic_send_startup(cpu->apic_id, (uint32_t)start_page);
	if (wait_online(cpu, STARTUP_WAIT))
		return true;
	lapic_send_startup(cpu->apic_id, (uint32_t)start_page);
	return wait_online(cpu, wait);
}

/* Half of what patience is left: a firmware that lists many CPUs too many costs seconds. */
static bool answers(const struct cpu *cpu)
{
	uint64_t wait = patience / 2 > LEAST_WAIT ? patience / 2 : LEAST_WAIT;

	if (smp_send_start(cpu, processor_main, wait))
		return true;
	patience -= patience > wait ? wait : patience;
	return false;
}

static bool start_one(struct cpu *cpu)
{
	struct cpu *given_up = cpu;

	atomic_store(&starting, cpu);
	if (answers(cpu))
		return true;
	if (atomic_compare_exchange_strong(&starting, &given_up, NULL))
		return false;
	/* It has begun, so it may hold locks and cannot be left out. */
	if (!wait_online(cpu, MOST_INIT))
		panic("CPU %u began to start and did not finish", cpu->index);
	return true;
}

/*
 * In real mode, without a branch before the first WRMSR; TraceEn, bit 0, is cleared before the
 * other bits, as KVM has it. After it is the number of processors that
 * have done so, then the list of MSRs.
 */
__asm__(".pushsection .rodata\n\t.balign 4\n\t.code16\n"
	"reset_processor:\n\t"
	"cli; movw %cs, %ax; movw %ax, %ds; movw $(reset_processor_end - reset_processor), %si\n"
	"1:\taddw $4, %si; movl (%si), %ecx; jecxz 2f; rdmsr; andb $0xfe, %al; wrmsr\n\t"
	"xorl %eax, %eax; cltd; wrmsr; jmp 1b\n"
	"2:\tlock incl (reset_processor_end - reset_processor)\n"
	"3:\thlt; jmp 3b\n\t.balign 4\n"
	"reset_processor_end:\n\t.code64\n\t.popsection");
extern const uint8_t reset_processor[], reset_processor_end[];

bool smp_reset_others(const uint32_t *msrs)
{
	size_t size = (size_t)(reset_processor_end - reset_processor);
	volatile uint32_t *words = (uint32_t *)((uint8_t *)direct(start_page) + size);
	uint64_t end = clock_us() + INIT_WAIT + MOST_WAIT;

	if (cpu_count() == 1)
		return true;
	memcpy(direct(start_page), reset_processor, size);
	words[0] = 0;
	for (unsigned i = 0; (words[i + 1] = msrs[i]);)
		i++;
	for (unsigned i = 1; i < cpu_count(); i++)
		lapic_send_init(cpu_by_index(i)->apic_id);
	delay_us(INIT_WAIT);
	for (unsigned turn = 0; turn < 2; turn++, delay_us(STARTUP_WAIT))
		for (unsigned i = 1; i < cpu_count(); i++)
			lapic_send_startup(cpu_by_index(i)->apic_id, (uint32_t)start_page);
	while (words[0] < cpu_count() - 1 && clock_us() < end)
		;
	return words[0] == cpu_count() - 1;
}

/* A CPU for the next processor, with a stack; NULL: memory is out. */
static struct cpu *create_cpu(void)
{
	uint8_t *stack = area_alloc(STACK_PAGES, VM_WRITE);

	starting_stack_top = (uint64_t)stack + STACK_PAGES * PAGE_SIZE;
	return stack ? cpu_create() : NULL;
}

/*
 * Starts the processor with this APIC id as *unused, which is made if it is NULL, and is NULL
 * afterwards unless the processor is silent. NULL, or why it is not used.
 */
static const char *start_processor_as(struct cpu **unused, uint32_t apic_id)
{
	bool left_out;

	if (!start_page)
		return "no page below 640 KiB is free to start it at";
	if (apic_id > XAPIC_ID_MOST && !lapic_is_x2apic())
		return "this processor has no x2APIC mode to reach it";
	if (!*unused && cpu_count() == MAX_CPUS)
		return "this kernel takes no more";
	if (!*unused)
		*unused = create_cpu();
	if (!*unused)
		return "no memory is left for it";
	(*unused)->apic_id = apic_id;
	if (!start_one(*unused))
		return "it did not start";
	left_out = atomic_load(&(*unused)->left_out);
	*unused = NULL;
	if (!left_out)
		return NULL;
	cpu_forget_newest();
	return "it lacks a trace unit of the first one, or has it of another kind";
}

/* Starts all others that the MADT lists. Says once how many are used, if some are not. */
static void start_others(uint32_t self)
{
	const char *reason = NULL;
	struct cpu *unused = NULL;
	uint32_t first = 0;
	unsigned cursor = 0;
	struct acpi_cpu found;

	while (acpi_next_cpu(&cursor, &found)) {
		bool other = found.enabled && found.apic_id != self;
		const char *now = other ? start_processor_as(&unused, found.apic_id) : NULL;

		if (now && !reason) {
			reason = now;
			first = found.apic_id;
		}
	}
	if (unused)
		cpu_forget_newest();
	if (reason)
		printk("# %u of %u processors are used; the first of the others has APIC id %u: "
		       "%s\n",
		       cpu_count(), acpi_cpu_count(), first, reason);
}

void smp_start(const struct boot_info *info)
{
	uint32_t self = lapic_id();

	cpu_by_index(0)->apic_id = self;
	atomic_store(&cpu_by_index(0)->online, true);
	smp_init_calls();
	if (acpi_cpu_count() == 1)
		return;
	start_page = find_low_page(info);
	if (start_page)
		memcpy(direct(start_page), start_processor,
		       (size_t)(start_processor_end - start_processor));
	start_others(self);
}
