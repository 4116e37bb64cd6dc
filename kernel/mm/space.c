// SPDX-License-Identifier: MIT
#include "kernel/mm/space.h"

#include "abi/errno.h"
#include "kernel/cpu.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"

#define ENTRIES	   512
#define USER_SLOTS (ENTRIES / 2) /* of the top-level table: the lower half */
#define TOP	   3		 /* its level; 0 is that of the entries that map pages */

int space_create(struct space *space)
{
	const uint64_t *kernel = direct(vm_root());
	uint64_t *top;

	space->pages = 0;
	space->root = page_alloc();
	if (!space->root)
		return -ENOMEM;
	top = direct(space->root);
	memcpy(top + USER_SLOTS, kernel + USER_SLOTS, (ENTRIES - USER_SLOTS) * sizeof(*top));
	return 0;
}

/*
 * The first entry that is not empty from `at` on, or `count`. One instruction: the turns of a loop
 * over the tables of a process that ends would be thousands of branches in its trace.
 */
static unsigned next_entry(const uint64_t *entries, unsigned at, unsigned count)
{
	const uint64_t *end = &entries[at];
	uint64_t left = count - at;
	bool found = false;

	if (left)
		__asm__("repe scasq"
			: "+D"(end), "+c"(left), "=@ccne"(found)
			: "a"(0ul)
			: "memory");
	return found ? (unsigned)(end - entries) - 1 : count;
}

/* Frees what the table at `level` leads to from its first `count` entries. */
static void free_below(uint64_t table, unsigned level, unsigned count)
{
	const uint64_t *entries = direct(table);

	for (unsigned i = 0; (i = next_entry(entries, i, count)) < count; i++) {
		uint64_t below = entries[i] & PTE_ADDRESS;

		if (level)
			free_below(below, level - 1, ENTRIES);
		page_free(below);
	}
}

uint64_t space_clear(struct space *space)
{
	uint64_t root = space->root;

	if (root)
		free_below(root, TOP, USER_SLOTS);
	space->root = 0;
	space->pages = 0;
	return root;
}

void space_destroy(struct space *space)
{
	uint64_t root = space_clear(space);

	if (root)
		page_free(root);
}

static uint64_t *find(const struct space *space, uint64_t linear)
{
	uint64_t *entry = vm_entry_under(space->root, linear, false);

	return entry && *entry & PTE_PRESENT ? entry : NULL;
}

static int map_page(struct space *space, uint64_t linear, uint64_t bits)
{
	uint64_t *entry = vm_entry_under(space->root, linear, true);
	uint64_t page;

	if (!entry || space->pages == SPACE_MOST_PAGES)
		return -ENOMEM;
	if (*entry & PTE_PRESENT)
		return -EEXIST;
	page = page_alloc();
	if (!page)
		return -ENOMEM;
	*entry = page | bits;
	space->pages++;
	return 0;
}

int space_map(struct space *space, uint64_t linear, size_t pages, unsigned flags)
{
	uint64_t bits = vm_entry_bits(flags) | PTE_USER;

	if (linear % PAGE_SIZE || pages > (USER_END - USER_START) / PAGE_SIZE ||
	    !is_user_range(linear, pages * PAGE_SIZE))
		return -EINVAL;
	if (flags & VM_WRITE && flags & VM_EXECUTE)
		return -EINVAL;
	for (size_t i = 0; i < pages; i++) {
		int error = map_page(space, linear + i * PAGE_SIZE, bits);

		if (error) {
			space_unmap(space, linear, i);
			return error;
		}
	}
	return 0;
}

void space_unmap(struct space *space, uint64_t linear, size_t pages)
{
	space->pages -= vm_unmap(space->root, linear, pages);
}

uint64_t space_find_gap(const struct space *space, uint64_t start, uint64_t end, size_t pages)
{
	size_t run = 0;

	for (uint64_t at = start; at < end; at += PAGE_SIZE) {
		run = find(space, at) ? 0 : run + 1;
		if (run == pages)
			return at - (pages - 1) * PAGE_SIZE;
	}
	return 0;
}

static int copy_page(struct space *to, uint64_t linear, uint64_t entry)
{
	int error = map_page(to, linear, entry & ~PTE_ADDRESS);

	if (!error)
		memcpy(direct(*find(to, linear) & PTE_ADDRESS), direct(entry & PTE_ADDRESS),
		       PAGE_SIZE);
	return error;
}

static int copy_tree(struct space *to, uint64_t table, unsigned level, uint64_t linear)
{
	const uint64_t *entries = direct(table);
	unsigned count = level == TOP ? USER_SLOTS : ENTRIES;
	int error = 0;

	for (unsigned i = 0; !error && (i = next_entry(entries, i, count)) < count; i++) {
		uint64_t at = linear | (uint64_t)i << (12 + 9 * level);

		error = level ? copy_tree(to, entries[i] & PTE_ADDRESS, level - 1, at)
			      : copy_page(to, at, entries[i]);
	}
	return error;
}

int space_copy(struct space *to, const struct space *from)
{
	return copy_tree(to, from->root, TOP, 0);
}

static bool all_mapped(const struct space *space, uint64_t address, size_t bytes)
{
	uint64_t end = address + bytes;

	if (!is_user_range(address, bytes))
		return false;
	for (uint64_t at = address & ~(PAGE_SIZE - 1); at < end; at += PAGE_SIZE)
		if (!find(space, at))
			return false;
	return true;
}

static int transfer(const struct space *space, uint64_t address, uint8_t *buffer, size_t bytes,
		    bool write)
{
	if (!all_mapped(space, address, bytes))
		return -EFAULT;
	while (bytes) {
		uint64_t offset = address % PAGE_SIZE, left = PAGE_SIZE - offset;
		size_t piece = bytes < left ? bytes : left;
		uint8_t *page = (uint8_t *)direct(*find(space, address) & PTE_ADDRESS) + offset;

		memcpy(write ? page : buffer, write ? buffer : page, piece);
		address += piece;
		buffer += piece;
		bytes -= piece;
	}
	return 0;
}

int space_read(const struct space *space, uint64_t address, void *buffer, size_t bytes)
{
	return transfer(space, address, buffer, bytes, false);
}

int space_write(const struct space *space, uint64_t address, const void *buffer, size_t bytes)
{
	return transfer(space, address, (uint8_t *)(uintptr_t)buffer, bytes, true);
}

/* --- The space that is loaded --- */

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

/* `user`: that of both addresses which is ring 3's. */
static int copy_user(uint8_t *to, const uint8_t *from, size_t bytes, uint64_t user)
{
	if (bytes && !is_user_range(user, bytes))
		return -EFAULT;
	for (size_t length; bytes; to += length, from += length, bytes -= length) {
		length = bytes < PAGE_SIZE ? bytes : PAGE_SIZE;
		if (!copy_piece(to, from, length))
			return -EFAULT;
	}
	return 0;
}

int copy_from_user(void *to, uint64_t from, size_t bytes)
{
	return copy_user(to, (const uint8_t *)from, bytes, from);
}

int copy_to_user(uint64_t to, const void *from, size_t bytes)
{
	return copy_user((uint8_t *)to, from, bytes, to);
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
