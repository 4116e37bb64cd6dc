// SPDX-License-Identifier: MIT
/* The guest's page tables: 32-bit, PAE and 4-level paging (SDM Vol 3, 4.3 to 4.8). */
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

/*
 * Bits of the entry that must be 0; `level` 3 is the PML4, level 2 of PAE paging its PDPT. A
 * processor looks at the bits of a PDPTE when it loads CR3, not at each walk: SDM Vol 3, 4.4.1.
 */
static uint64_t reserved_bits(const struct vcpu *vcpu, unsigned level, uint64_t entry)
{
	uint64_t reserved = vcpu->interp->physical_reserved & ENTRY_ADDRESS;

	if (!(vcpu->efer & EFER_LMA)) {
		reserved |= 0x7ff0000000000000;
		if (level == 2)
			return 0;
	}
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
static bool mark(void *entry, unsigned bytes, uint64_t old, uint64_t bits)
{
	uint64_t old8 = old;
	uint32_t old4 = (uint32_t)old;

	if ((old & bits) == bits)
		return true;
	if (bytes == 8)
		return __atomic_compare_exchange_n((uint64_t *)entry, &old8, old | bits, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	return __atomic_compare_exchange_n((uint32_t *)entry, &old4, (uint32_t)(old | bits), false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The bits that `access` sets in the entry of the page. */
static uint64_t marks(unsigned access)
{
	if (access & ACCESS_UNMARKED)
		return 0;
	return access & ACCESS_WRITE ? ENTRY_ACCESSED | ENTRY_DIRTY : ENTRY_ACCESSED;
}

/* The differences between the kinds of paging. */
struct paging {
	unsigned top, index_bits, entry_bytes;
	uint64_t table;
	bool large; /* pages of more than 4 KiB at level 1 */
	bool pdpt;  /* PAE: the entries of level 2 hold no rights */
};

static uint64_t pdpt_of(uint64_t cr3)
{
	return cr3 & 0xffffffe0;
}

static struct paging paging_of(const struct vcpu *vcpu)
{
	if (vcpu->efer & EFER_LMA)
		return (struct paging){3, 9, 8, vcpu->cr3 & ENTRY_ADDRESS, true, false};
	if (vcpu->cr4 & CR4_PAE)
		return (struct paging){2, 9, 8, pdpt_of(vcpu->cr3), true, true};
	return (struct paging){1, 10, 4, vcpu->cr3 & 0xfffff000, vcpu->cr4 & CR4_PSE, false};
}

static uint64_t read_entry(const void *at, unsigned bytes)
{
	return bytes == 8 ? __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED)
			  : __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
}

/* Bit 5 is reserved as well, but QEMU's processor takes it for Accessed and sets it
   (target/i386/tcg/sysemu/excp_helper.c, mmu_translate). */
bool pdptes_are_valid(const struct vcpu *vcpu, uint64_t cr3)
{
	enum { ENTRIES = 4, RESERVED = 0x1c6 };
	uint64_t where = pdpt_of(cr3);
	const uint8_t *page = platform_guest_page(where & ~(uint64_t)(PAGE - 1));

	for (unsigned n = 0; page && n < ENTRIES; n++) {
		uint64_t entry = read_entry(page + where % PAGE + n * 8, 8);

		if (entry & ENTRY_PRESENT &&
		    entry & (vcpu->interp->physical_reserved | ENTRY_NX | RESERVED))
			return false;
	}
	return true;
}

/* A page of 4 MiB has bits 39:32 of its address in 20:13 (SDM Vol 3, table 4-4). */
static uint64_t page_address(const struct paging *p, unsigned level, uint64_t entry,
			     uint64_t offset)
{
	if (p->entry_bytes == 4 && level)
		return (entry & 0xffc00000) | (entry >> 13 & 0xff) << 32;
	return entry & ENTRY_ADDRESS & ~offset;
}

bool walk(struct vcpu *vcpu, uint64_t linear, unsigned access, uint64_t *physical, uint32_t *error)
{
	struct paging p = paging_of(vcpu);
	uint64_t table = p.table, rights = ~0ULL;

	*error = error_code(vcpu, access);
	*physical = linear;
	if (!(vcpu->cr0 & CR0_PG))
		return true;
	for (unsigned level = p.top;; level--) {
		unsigned shift = 12 + p.index_bits * level;
		uint64_t index = (linear >> shift) & ((1u << p.index_bits) - 1);
		uint64_t where = table + index * p.entry_bytes;
		uint8_t *page = platform_guest_page(where & ~(uint64_t)(PAGE - 1));
		bool is_pdpt = p.pdpt && level == 2;

		if (!page)
			return false;

		void *at = page + where % PAGE;
		uint64_t entry = read_entry(at, p.entry_bytes);

		if (!(entry & ENTRY_PRESENT))
			return false;
		if (p.entry_bytes == 8 && entry & reserved_bits(vcpu, level, entry)) {
			*error |= ERROR_PRESENT | ERROR_RESERVED;
			return false;
		}
		if (!is_pdpt)
			rights &= entry ^ ENTRY_NX;
		if (level && !(entry & ENTRY_LARGE && p.large)) {
			if (!is_pdpt && !mark(at, p.entry_bytes, entry, ENTRY_ACCESSED))
				return walk(vcpu, linear, access, physical, error);
			table = entry & ENTRY_ADDRESS;
			continue;
		}
		if (!permitted(vcpu, rights, access) ||
		    (access & ACCESS_DIRTY && !(entry & ENTRY_DIRTY))) {
			*error |= ERROR_PRESENT;
			return false;
		}
		if (!mark(at, p.entry_bytes, entry, marks(access)))
			return walk(vcpu, linear, access, physical, error);

		uint64_t offset = (1ULL << shift) - 1;

		*physical = page_address(&p, level, entry, offset) | (linear & offset);
		return true;
	}
}
