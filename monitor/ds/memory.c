/* SPDX-License-Identifier: MIT */
#include "monitor/ds/memory.h"

#include <stddef.h>

#include "lib/string.h"
#include "monitor/interp/interp.h"
#include "monitor/vcpu.h"

#define PAGE_BYTES 4096u
#define PAGE_MASK  0xfffull
#define NOTHING	   1ull
#define CR4_SMAP   (1ull << 21)

void ds_forget(struct vcpu *vcpu)
{
	for (unsigned i = 0; i < DS_PAGES; i++)
		vcpu->ds.pages[i].linear = NOTHING;
	vcpu->ds.pages_cr3 = vcpu->cr3;
}

/* Everything is translated for writing: the DS area and the buffer are both written. SMAP is for
   what a program does, not for the Debug Store. */
static uint8_t *find_page(struct vcpu *vcpu, uint64_t linear)
{
	struct ds_page *page = &vcpu->ds.pages[(linear >> 12) % DS_PAGES];
	uint64_t cr4 = vcpu->cr4, physical;
	uint32_t error;
	bool mapped;

	if (vcpu->ds.pages_cr3 != vcpu->cr3)
		ds_forget(vcpu);
	if (page->linear == linear)
		return page->host;
	vcpu->cr4 &= ~CR4_SMAP;
	mapped = guest_translate(vcpu, linear, ACCESS_WRITE, &physical, &error);
	vcpu->cr4 = cr4;
	if (!mapped)
		return NULL;
	page->host = platform_guest_page(physical);
	page->linear = page->host ? linear : NOTHING;
	return page->host;
}

/* `bytes` at `linear` as one or two pieces. Neighbouring pages never share a place in `pages`. */
struct piece {
	uint8_t *host;
	unsigned bytes;
};

static bool reach(struct vcpu *vcpu, uint64_t linear, unsigned bytes, struct piece pieces[2])
{
	unsigned offset = (unsigned)(linear & PAGE_MASK), room = PAGE_BYTES - offset;
	uint8_t *page = find_page(vcpu, linear & ~PAGE_MASK);

	if (!page)
		return false;
	pieces[0] = (struct piece){page + offset, bytes < room ? bytes : room};
	pieces[1] = (struct piece){NULL, bytes - pieces[0].bytes};
	if (pieces[1].bytes)
		pieces[1].host = find_page(vcpu, (linear & ~PAGE_MASK) + PAGE_BYTES);
	return pieces[1].host || !pieces[1].bytes;
}

/* Inline for the case that every branch meets, memory that does not cross a page. */
static void copy(uint8_t *to, const uint8_t *from, unsigned bytes)
{
	for (; bytes >= 8; bytes -= 8, to += 8, from += 8)
		__builtin_memcpy(to, from, 8);
	if (bytes)
		memcpy(to, from, bytes);
}

bool ds_load(struct vcpu *vcpu, uint64_t linear, uint64_t *values, unsigned count)
{
	struct piece pieces[2];

	if (!reach(vcpu, linear, count * 8, pieces))
		return false;
	copy((uint8_t *)values, pieces[0].host, pieces[0].bytes);
	copy((uint8_t *)values + pieces[0].bytes, pieces[1].host, pieces[1].bytes);
	return true;
}

bool ds_store(struct vcpu *vcpu, uint64_t linear, const uint64_t *values, unsigned count)
{
	struct piece pieces[2];

	if (!reach(vcpu, linear, count * 8, pieces))
		return false;
	copy(pieces[0].host, (const uint8_t *)values, pieces[0].bytes);
	copy(pieces[1].host, (const uint8_t *)values + pieces[0].bytes, pieces[1].bytes);
	return true;
}
