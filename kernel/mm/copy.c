// SPDX-License-Identifier: MIT
#include "kernel/mm/copy.h"

#include "abi/errno.h"
#include "kernel/cpu.h"
#include "kernel/mm/space.h"
#include "kernel/trap/extable.h"

/*
 * Interrupts are off while EFLAGS.AC opens ring 3's pages (SDM Vol 3, 4.6.1): another task that ran
 * meanwhile would have them open.
 */
static bool copy_piece(void *to, const void *from, size_t bytes)
{
	uint64_t flags = interrupts_save();

	if (cpu_smap)
		__asm__ volatile("stac" : : : "memory", "cc");
	__asm__ volatile("1:\trep movsb\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+D"(to), "+S"(from), "+c"(bytes)
			 :
			 : "memory");
	if (cpu_smap)
		__asm__ volatile("clac" : : : "memory", "cc");
	interrupts_restore(flags);
	return bytes == 0;
}

static int copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	while (bytes) {
		size_t length = bytes < PAGE_SIZE ? bytes : PAGE_SIZE;

		if (!copy_piece(to, from, length))
			return -EFAULT;
		to += length;
		from += length;
		bytes -= length;
	}
	return 0;
}

int copy_from_user(void *to, uint64_t from, size_t bytes)
{
	return is_user_range(from, bytes) ? copy(to, (const uint8_t *)from, bytes) : -EFAULT;
}

int copy_to_user(uint64_t to, const void *from, size_t bytes)
{
	return is_user_range(to, bytes) ? copy((uint8_t *)to, from, bytes) : -EFAULT;
}

int strncpy_from_user(char *to, uint64_t from, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		int error = copy_from_user(&to[i], from + i, 1);

		if (error || !to[i])
			return error;
	}
	return -EINVAL;
}
