/* SPDX-License-Identifier: MIT */
#include "monitor/boot/handover.h"

#include "lib/string.h"
#include "monitor/host/cpu.h"
#include "monitor/host/paging.h"

extern const char leave_start[], leave_end[];

void handover(const struct kernel_entry *kernel, uint64_t root)
{
	uint64_t page = kernel->scratch, code = page + KERNEL_GDT_BYTES;
	void (*leave)(uint32_t, uint32_t, uint32_t, uint32_t) =
		(void (*)(uint32_t, uint32_t, uint32_t, uint32_t))code;

	memcpy(direct(code), leave_start, (size_t)(leave_end - leave_start));
	map_page(root, page, page, 0);
	flush_translations();
	leave(kernel->entry, kernel->eax, kernel->ebx, kernel->esi);
	__builtin_unreachable();
}
