// SPDX-License-Identifier: MIT
#include "kernel/restart.h"

#include "drivers/console/console.h"
#include "drivers/processor.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/mm/vm.h"
#include "kernel/options.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/cpu.h"
#include "kernel/watchdog.h"
#include "lib/checksum.h"
#include "lib/string.h"

/* linker.ld: what is loaded, what tools/checksum wrote, and room for the data as it is loaded. */
extern const uint64_t text_loaded_end[], rodata_start[], rodata_loaded_end[];
extern const uint64_t data_start[], image_checksum[];
extern uint64_t data_kept[];
extern const char boot_loaded_end[];

/* boot/entry.asm */
extern const uint8_t boot_pml4[], boot_gdt_pointer[], boot_stack_end[];

#define MAGIC	     0x72747273u  /* EAX at a restart */
#define LEAST	     (24ul << 20) /* of memory, below the copy */
#define HIGHEST	     (1ul << 32)  /* what the boot tables map, and 32-bit code reaches */
#define DR7_RESET    0x400ul	  /* SDM Vol 3, table 9-1 */
#define PAGES(bytes) (((bytes) + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1))
#define IMAGE_BYTES  ((uint64_t)(image_checksum + 1) - KERNEL_BASE - KERNEL_LOAD)
#define DATA_BYTES   ((uint64_t)(image_checksum + 1) - (uint64_t)data_start)
#define KEPT_BYTES   (PAGES(IMAGE_BYTES) + PAGES(sizeof(struct kept)))

/* After the copy of the image. */
static struct kept {
	uint64_t sum;	/* checksum of what follows, without `code` */
	uint64_t start; /* physical: where the copy is */
	uint64_t restarts;
	struct boot_info info;
	uint64_t state[RESTART_STATE / sizeof(uint64_t)];
	uint64_t code[8]; /* what puts the image back */
} * kept;		  /* NULL: there is no copy */
static const char *no_copy = "there is no copy of its image";

/*
 * Where a part is of an image that is at `image`: all but the entry page is linked higher. Not
 * inline: no relocation takes the difference.
 */
__attribute__((noinline)) static const uint64_t *part(const void *image, const void *linked)
{
	uint64_t offset = (uint64_t)linked - KERNEL_LOAD;

	return (const uint64_t *)((uint64_t)image +
				  (offset >= KERNEL_BASE ? offset - KERNEL_BASE : offset));
}

static bool image_is_whole(const void *image)
{
	uint64_t sum = checksum(0, image, part(image, boot_loaded_end));

	sum = checksum(sum, part(image, text_start), part(image, text_loaded_end));
	sum = checksum(sum, part(image, rodata_start), part(image, rodata_loaded_end));
	return checksum(sum, part(image, data_start), part(image, image_checksum)) ==
	       *part(image, image_checksum);
}

static uint64_t sum_of(const struct kept *block)
{
	return checksum(0, &block->start, block->code);
}

bool restart_begin(void)
{
	memcpy(data_kept, data_start, DATA_BYTES);
	return image_is_whole(direct(KERNEL_LOAD));
}

bool restart_continues(uint32_t magic, uint64_t physical, boot_memory memory,
		       struct boot_info *info)
{
	const struct kept *block = magic == MAGIC ? memory(physical, sizeof(*block)) : NULL;

	if (!block || sum_of(block) != block->sum)
		return false;
	kept = direct(physical);
	memcpy(info, &block->info, sizeof(*info));
	return true;
}

/* True if nothing but `region` of the memory map is in [start, end). */
static bool is_free(const struct boot_info *info, const struct boot_region *region, uint64_t start,
		    uint64_t end)
{
	bool is = end <= info->info_start || start >= info->info_end;

	for (const struct boot_region *r = info->regions; r < info->regions + info->region_count;
	     r++)
		is &= r == region || end <= r->base || start >= r->base + r->length;
	for (unsigned i = 0; i < info->module_count; i++)
		is &= end <= info->modules[i].start || start >= info->modules[i].end;
	return is;
}

/* The end of the highest region of usable memory that can do without, taken out; or 0. */
static uint64_t take_memory(struct boot_info *info)
{
	for (unsigned i = info->region_count; i--;) {
		struct boot_region *region = &info->regions[i];
		uint64_t end = (region->base + region->length) & ~(PAGE_SIZE - 1);
		uint64_t start = end - KEPT_BYTES;

		if (region->type != MEMORY_USABLE || end > HIGHEST || end < LEAST + KEPT_BYTES ||
		    start < region->base || !is_free(info, region, start, end))
			continue;
		region->length = start - region->base;
		return start;
	}
	return 0;
}

void restart_keep(struct boot_info *info)
{
	uint64_t start;

	if (*options.export)
		no_copy = "export= has a stream of traces, which cannot begin in its middle";
	if (kept || !options.restart || *options.export)
		return;
	start = take_memory(info);
	if (!start) {
		no_copy = "memory is short: a copy of its image needs 25 MiB below 4 GiB";
		return;
	}
	memcpy(direct(start), direct(KERNEL_LOAD), IMAGE_BYTES);
	memcpy((void *)part(direct(start), data_start), data_kept, DATA_BYTES);
	kept = direct(start + PAGES(IMAGE_BYTES));
	memset(kept, 0, sizeof(*kept));
	kept->start = start;
	memcpy(&kept->info, info, sizeof(*info));
	kept->sum = sum_of(kept);
}

void restart_map(void)
{
	uint64_t block = (uint64_t)kept - DIRECT_MAP, at = block - PAGES(IMAGE_BYTES);

	for (uint64_t end = at + KEPT_BYTES; kept && at < end; at += PAGE_SIZE)
		if (!vm_map(DIRECT_MAP + at, at, at < block ? VM_READ : VM_WRITE))
			kept = NULL;
}

const void *restart_state(void)
{
	return kept && kept->restarts ? kept->state : NULL;
}

const void *restart_copy(void)
{
	return kept ? direct(kept->start) : NULL;
}

/*
 * Runs outside the image, at its physical address: leaves long mode, puts the image back, EDX
 * words of zeroes after it, and begins as after a loader.
 */
__asm__(".pushsection .rodata\n\t.code32\n"
	"restart_code:\n\t"
	"movl %cr0, %eax; andl $0x7fffffff, %eax; movl %eax, %cr0\n\t"
	"rep movsl; movl %edx, %ecx; xorl %eax, %eax; rep stosl\n\t"
	"movl $0x72747273, %eax; movl $start32, %ecx; jmp *%ecx\n"
	"restart_code_end:\n\t.code64\n\t.popsection");
extern const uint8_t restart_code[], restart_code_end[];

/* With the boot tables, which map no area. Nothing of this stack is needed any more. */
static _Noreturn void put_image_back(void)
{
	memcpy(kept->code, restart_code, (size_t)(restart_code_end - restart_code));
	__asm__ volatile("movq %0, %%cr3; lgdt %1\n\t"
			 "movl %2, %%ds; movl %2, %%es; movl %2, %%ss\n\t"
			 "pushq $3 * 8; pushq %3; lretq" /* 32-bit code */
			 :
			 : "r"((uint64_t)boot_pml4 - KERNEL_BASE), "m"(*boot_gdt_pointer),
			   "r"(2 * 8), "r"((uint64_t)kept->code - DIRECT_MAP),
			   "b"((uint64_t)kept - DIRECT_MAP), "S"(kept->start), "D"(KERNEL_LOAD),
			   "c"(IMAGE_BYTES / 4),
			   "d"(((uint64_t)kernel_end - KERNEL_BASE - KERNEL_LOAD - IMAGE_BYTES) / 4)
			 : "memory");
	__builtin_unreachable();
}

/* NMIs that came meanwhile are served first: later there is no handler for them. */
__attribute__((used)) static _Noreturn void start_again(void)
{
	uint32_t msrs[TRACE_STOP_MSRS];

	watchdog_silence();
	nmi_unblock();
	trace_stop_msrs(msrs);
	if (!smp_reset_others(msrs)) {
		printk("# panic: a CPU does not answer INIT: the kernel cannot start again\n");
		end_run(VERDICT_PANIC, NULL);
	}
	for (const uint32_t *msr = msrs; *msr; msr++) {
		wrmsr(*msr, rdmsr(*msr) & ~1ul); /* TraceEn, before the others */
		wrmsr(*msr, 0);
	}
	__asm__ volatile("mov %0, %%dr7" : : "r"(DR7_RESET));
	put_image_back();
}

/* The boot CPU, whatever stack it is on: its idle task, whose stack the image has, does not run. */
static void leave_stack(void)
{
	__asm__ volatile("movq %0, %%rsp; call start_again" : : "r"(boot_stack_end));
	__builtin_unreachable();
}

const char *restart_kernel(const void *state, size_t size)
{
	if (!kept || kept->restarts >= options.restart) {
		if (options.restart)
			printk("# the kernel does not start again: %s\n",
			       kept ? "restart= is the limit" : no_copy);
		return NULL;
	}
	smp_stop_others();
	trace_stop_cpu();
	if (sum_of(kept) != kept->sum || !image_is_whole(direct(kept->start)))
		return "the copy of the image is damaged: the kernel cannot start again";
	memcpy(kept->state, state, size);
	kept->restarts++;
	kept->sum = sum_of(kept);
	console_flush();
	smp_hand_over(leave_stack);
	printk("# the kernel does not start again: the boot CPU answers no NMI\n");
	return NULL;
}
