/* SPDX-License-Identifier: MIT */
#include "monitor/boot/handover.h"

#include <stddef.h>

#include "lib/string.h"
#include "monitor/host/cpu.h"
#include "monitor/host/paging.h"

extern const char leave_start[], leave_32[], leave_end[];

/* What leave.asm takes. */
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
