// SPDX-License-Identifier: MIT
#include "monitor/boot/kernel.h"

#include "abi/multiboot.h"
#include "lib/elf.h"
#include "lib/string.h"
#include "monitor/boot/information.h"
#include "monitor/boot/linux.h"
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/paging.h"
#include "monitor/options.h"

#include <stddef.h>

#define INFORMATION_BYTES (3 * PAGE_SIZE)

/* The memory of the kernel, first to last byte. */
static struct range loaded;

/* The kernel is to be told by Multiboot 1. */
static bool multiboot1;

/* Where `base` is not NULL, the kernel is a Linux. */
static struct linux_image linux_image;
static struct linux_places linux_places;

uint64_t modules_size(const struct boot_info *info)
{
	uint64_t size = 0;

	for (unsigned i = 0; i < info->module_count; i++)
		size += page_up(info->modules[i].end - info->modules[i].start);
	return size;
}

void modules_copy(struct boot_info *info, uint64_t to)
{
	for (unsigned i = 0; i < info->module_count; i++) {
		struct boot_module *module = &info->modules[i];
		uint64_t size = module->end - module->start;

		memcpy(direct(to), direct(module->start), size);
		module->start = to;
		module->end = to + size;
		to += page_up(size);
	}
}

static struct range segment_range(const struct elf_segment *segment)
{
	return (struct range){segment->physical_address,
			      segment->physical_address + segment->memory_size};
}

static void check_segment(const struct boot_info *info, struct range segment, struct range taken)
{
	unsigned long long start = segment.start, end = segment.end;

	if (segment.end > memory_top(info) || segment.end > 4 * GIB)
		end_run(VERDICT_ERROR,
			"the kernel needs memory up to 0x%llx; this machine has it up to 0x%llx",
			end, (unsigned long long)memory_top(info));
	if (!memory_usable(info, segment))
		end_run(VERDICT_ERROR,
			"the kernel's segment 0x%llx to 0x%llx is not all usable memory", start,
			end);
	if (ranges_overlap(segment, taken))
		end_run(VERDICT_ERROR,
			"the kernel's segment 0x%llx to 0x%llx leaves no room for the monitor",
			start, end);
}

static void load_segments(const struct boot_info *info, const struct elf_image *elf,
			  struct range taken)
{
	struct elf_segment segment;

	loaded = (struct range){UINT64_MAX, 0};
	for (unsigned cursor = 0; elf_next_segment(elf, &cursor, &segment);) {
		struct range range = segment_range(&segment);
		uint8_t *to = direct(range.start);

		if (range.start == range.end)
			continue;
		check_segment(info, range, taken);
		memcpy(to, segment.data, segment.file_size);
		memset(to + segment.file_size, 0, segment.memory_size - segment.file_size);
		if (range.start < loaded.start)
			loaded.start = range.start;
		if (range.end > loaded.end)
			loaded.end = range.end;
	}
}

static uint32_t load_elf(const struct boot_info *info, const void *image, size_t size,
			 struct range taken)
{
	struct elf_image elf;
	const char *fault = elf_open(&elf, image, size);

	if (fault)
		end_run(VERDICT_ERROR,
			"the first module cannot be run as a kernel: no Linux bzImage, and %s",
			fault);
	multiboot1 = information_wanted_1(image, size);
	load_segments(info, &elf, taken);
	if (elf.entry_physical < loaded.start || elf.entry_physical >= loaded.end)
		end_run(VERDICT_ERROR, "the kernel's entry point is in none of its segments");
	return (uint32_t)elf.entry_physical;
}

static uint32_t load_linux(const struct boot_info *info, const void *image, size_t size,
			   struct range taken)
{
	struct range initrd = {0, 0};
	char error[160];

	if (info->module_count > 2)
		end_run(VERDICT_ERROR,
			"a Linux kernel takes one more module, its initrd; there are %u",
			info->module_count - 1);
	if (info->module_count == 2)
		initrd = (struct range){info->modules[1].start, info->modules[1].end};
	if (!linux_open(&linux_image, image, size, error, sizeof(error)) ||
	    !linux_place(&linux_places, &linux_image, info, taken, initrd, error, sizeof(error)))
		end_run(VERDICT_ERROR, "%s", error);
	loaded = linux_places.kernel;
	if (linux_places.initrd.start != initrd.start)
		memcpy(direct(linux_places.initrd.start), direct(initrd.start),
		       initrd.end - initrd.start);
	memcpy(direct(loaded.start), linux_image.base + linux_image.setup_size,
	       linux_image.payload_size);
	return (uint32_t)loaded.start;
}

uint32_t kernel_load(struct boot_info *info, struct range taken)
{
	struct boot_module *module = &info->modules[0];
	const void *image = direct(module->start);
	size_t size = module->end - module->start;
	uint32_t entry = linux_recognised(image, size) ? load_linux(info, image, size, taken)
						       : load_elf(info, image, size, taken);
	/* A kernel of Multiboot 1 leaves out the file name itself, where its loader put one. */
	const char *words = multiboot1 ? module->string : loader_words(info, module->string);

	if (linux_image.base && strlen(words) > linux_image.words_most)
		end_run(VERDICT_ERROR, "the Linux kernel takes %u bytes of words, not %u",
			linux_image.words_most, (unsigned)strlen(words));
	memmove(info->command_line, words, strlen(words) + 1);
	info->module_count--;
	memmove(&info->modules[0], &info->modules[1], info->module_count * sizeof(*module));
	return entry;
}

uint64_t low_page_reserve(struct boot_info *info)
{
	const struct memory_request request = {
		.size = PAGE_SIZE,
		.within = {PAGE_SIZE, 1 << 20},
		.from_top = true,
		.avoided = 1,
		.avoid = {loaded},
	};
	uint64_t page;

	if (!memory_find(info, &request, &page) ||
	    !memory_reserve(info, (struct range){page, page + PAGE_SIZE}))
		return 0;
	return page;
}

/* The scratch page, and `size` bytes after it. */
static uint64_t find_information(const struct boot_info *info, struct range taken, uint64_t size)
{
	struct memory_request request = {
		.size = PAGE_SIZE + size,
		.within = {1 << 20, 4 * GIB},
		.avoided = 3,
		.avoid = {taken, loaded, linux_places.initrd},
	};
	uint64_t place;

	/* A kernel of Multiboot 1 takes all from 1 MiB on that mem_upper offers; others like to
	   use the first MiB for their own purposes. The first page is the BIOS's. */
	if (multiboot1) {
		request.within = (struct range){PAGE_SIZE, 1 << 20};
		request.from_top = true;
	}
	if (!memory_find(info, &request, &place)) {
		request.within = (struct range){PAGE_SIZE, 4 * GIB};
		if (!memory_find(info, &request, &place))
			end_run(VERDICT_ERROR, "no memory left for the kernel's boot information");
	}
	return place;
}

static void write_gdt(uint64_t scratch)
{
	const uint64_t gdt[KERNEL_GDT_BYTES / 8] = {
		[KERNEL_CS / 8] = 0x00cf9b000000ffff, /* 32-bit code */
		[KERNEL_DS / 8] = 0x00cf93000000ffff,
	};

	memcpy(direct(scratch), gdt, sizeof(gdt));
}

static struct kernel_entry inform_linux(struct boot_info *info, struct range taken, uint32_t entry)
{
	uint64_t scratch = find_information(info, taken, 2 * PAGE_SIZE);
	uint64_t parameters = scratch + PAGE_SIZE, rsdp = parameters + PAGE_SIZE;
	uint64_t words = rsdp + sizeof(info->rsdp);

	if (!memory_reserve(info, (struct range){rsdp, rsdp + PAGE_SIZE}))
		end_run(VERDICT_ERROR, "the memory map has no room for the ACPI RSDP");
	memcpy(direct(rsdp), info->rsdp, info->rsdp_size);
	memcpy(direct(words), info->command_line, strlen(info->command_line) + 1);
	linux_parameters(direct(parameters), &linux_image, &linux_places, info, words,
			 info->rsdp_size ? rsdp : 0);
	write_gdt(scratch);
	return (struct kernel_entry){
		.entry = entry, .esi = (uint32_t)parameters, .scratch = (uint32_t)scratch};
}

static size_t build_information(uint64_t at, const struct boot_info *info)
{
	return multiboot1 ? information_build_1(direct(at), INFORMATION_BYTES, (uint32_t)at, info)
			  : information_build(direct(at), INFORMATION_BYTES, info);
}

struct kernel_entry kernel_inform(struct boot_info *info, struct range taken, uint32_t entry)
{
	uint64_t scratch, information;

	if (linux_image.base)
		return inform_linux(info, taken, entry);
	scratch = find_information(info, taken, INFORMATION_BYTES);
	information = scratch + PAGE_SIZE;
	if (!build_information(information, info))
		end_run(VERDICT_ERROR, "the kernel's boot information is too large");
	write_gdt(scratch);
	return (struct kernel_entry){.entry = entry,
				     .eax = multiboot1 ? MULTIBOOT1_LOADER_MAGIC
						       : MULTIBOOT2_LOADER_MAGIC,
				     .ebx = (uint32_t)information,
				     .scratch = (uint32_t)scratch};
}

extern const char leave_start[], leave_32[], leave_end[];

/* The argument of leave.asm. */
struct departure {
	uint32_t edi, esi, ebp, esp, ebx, edx, ecx, eax; /* as POPAD */
	uint32_t entry;
	uint16_t unused;
	uint16_t gdt_limit;
	uint64_t gdt_base;
	uint32_t offset; /* of leave_32 */
	uint16_t selector;
} __attribute__((packed));

_Static_assert(offsetof(struct departure, gdt_limit) == 38, "LGDT's operand");
_Static_assert(offsetof(struct departure, offset) == 48, "a far pointer");

void handover(const struct kernel_entry *kernel, uint64_t root)
{
	uint64_t page = kernel->scratch, departure = page + KERNEL_GDT_BYTES;
	uint64_t code = departure + sizeof(struct departure);
	void (*leave)(uint64_t) = (void (*)(uint64_t))code;

	*(struct departure *)direct(departure) = (struct departure){
		.eax = kernel->eax,
		.ebx = kernel->ebx,
		.esi = kernel->esi,
		.entry = kernel->entry,
		.gdt_limit = KERNEL_GDT_BYTES - 1,
		.gdt_base = page,
		.offset = (uint32_t)(code + (uint64_t)(leave_32 - leave_start)),
		.selector = KERNEL_CS,
	};
	memcpy(direct(code), leave_start, (size_t)(leave_end - leave_start));
	map_page(root, page, page, 0);
	flush_translations();
	leave(departure);
	__builtin_unreachable();
}
