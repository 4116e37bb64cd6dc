/* SPDX-License-Identifier: MIT */
/* The guest's page tables: 4-level paging (SDM Vol 3, 4.5 to 4.8). */
#include "monitor/interp/control.h"
#include "monitor/interp/memory.h"

#define ENTRY_PRESENT  (1ULL << 0)
#define ENTRY_WRITE    (1ULL << 1)
#define ENTRY_USER     (1ULL << 2)
#define ENTRY_ACCESSED (1ULL << 5)
#define ENTRY_DIRTY    (1ULL << 6)
#define ENTRY_LARGE    (1ULL << 7)
#define ENTRY_NX       (1ULL << 63)
#define ENTRY_ADDRESS  0x000ffffffffff000ULL

enum error_code {
	ERROR_PRESENT = 1,
	ERROR_WRITE = 2,
	ERROR_USER = 4,
	ERROR_RESERVED = 8,
	ERROR_FETCH = 16,
};

static uint32_t error_code(const struct vcpu *vcpu, unsigned access)
{
	uint32_t error = 0;

	if (access & ACCESS_WRITE)
		error |= ERROR_WRITE;
	if (access & ACCESS_USER)
		error |= ERROR_USER;
	if (access & ACCESS_EXECUTE && (vcpu->efer & EFER_NXE || vcpu->cr4 & CR4_SMEP))
		error |= ERROR_FETCH;
	return error;
}

/* Bits of the entry that must be 0; `level` 3 is the PML4. */
static uint64_t reserved_bits(const struct vcpu *vcpu, unsigned level, uint64_t entry)
{
	uint64_t reserved = vcpu->interp->physical_reserved & ENTRY_ADDRESS;

	if (!(vcpu->efer & EFER_NXE))
		reserved |= ENTRY_NX;
	if (level == 3 || (level == 2 && !vcpu->interp->pages_1g))
		reserved |= ENTRY_LARGE;
	else if (level && entry & ENTRY_LARGE)
		reserved |= ((1ULL << (12 + 9 * level)) - 1) & ~0x1fffULL; /* bit 12 is PAT */
	return reserved;
}

/* `rights`: the AND of all levels, NX inverted. */
static bool permitted(const struct vcpu *vcpu, uint64_t rights, unsigned access)
{
	if (access & ACCESS_EXECUTE && !(rights & ENTRY_NX))
		return false;
	if (access & ACCESS_USER)
		return rights & ENTRY_USER && (rights & ENTRY_WRITE || !(access & ACCESS_WRITE));
	if (access & ACCESS_WRITE && !(rights & ENTRY_WRITE) && vcpu->cr0 & CR0_WP)
		return false;
	if (!(rights & ENTRY_USER))
		return true;
	if (access & ACCESS_EXECUTE)
		return !(vcpu->cr4 & CR4_SMEP);
	return !(vcpu->cr4 & CR4_SMAP) || access & ACCESS_OVERRIDE;
}

/* False if another processor has changed the entry meanwhile: then it may be present no longer, and
   must not be touched. */
static bool mark(uint64_t *entry, uint64_t old, uint64_t bits)
{
	return (old & bits) == bits ||
	       __atomic_compare_exchange_n(entry, &old, old | bits, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

bool walk(struct vcpu *vcpu, uint64_t linear, unsigned access, uint64_t *physical, uint32_t *error)
{
	uint64_t table = vcpu->cr3 & ENTRY_ADDRESS;
	uint64_t rights = ~0ULL;

	*error = error_code(vcpu, access);
	for (unsigned level = 3;; level--) {
		unsigned shift = 12 + 9 * level;
		uint8_t *page = platform_guest_page(table);

		if (!page)
			return false;

		uint64_t *at = (uint64_t *)(void *)page + (linear >> shift) % 512;
		uint64_t entry = __atomic_load_n(at, __ATOMIC_RELAXED);

		if (!(entry & ENTRY_PRESENT))
			return false;
		if (entry & reserved_bits(vcpu, level, entry)) {
			*error |= ERROR_PRESENT | ERROR_RESERVED;
			return false;
		}
		rights &= entry ^ ENTRY_NX;
		if (level && !(entry & ENTRY_LARGE)) {
			if (!mark(at, entry, ENTRY_ACCESSED))
				return walk(vcpu, linear, access, physical, error);
			table = entry & ENTRY_ADDRESS;
			continue;
		}
		if (!permitted(vcpu, rights, access)) {
			*error |= ERROR_PRESENT;
			return false;
		}
		if (!mark(at, entry,
			  access & ACCESS_WRITE ? ENTRY_ACCESSED | ENTRY_DIRTY : ENTRY_ACCESSED))
			return walk(vcpu, linear, access, physical, error);

		uint64_t offset = (1ULL << shift) - 1;

		*physical = (entry & ENTRY_ADDRESS & ~offset) | (linear & offset);
		return true;
	}
}
