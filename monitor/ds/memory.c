// SPDX-License-Identifier: MIT
#include "monitor/ds/memory.h"

#include "lib/string.h"
#include "monitor/silicon.h"

/* An unused place holds a page that is never looked for there: one of the other kind. */
static const struct ds_window unused = {{{DS_PAGE_BYTES, NULL}}};

void ds_forget(struct vcpu *vcpu)
{
	vcpu->ds.seen = (struct ds_seen){vcpu->translations, .area = unused, .buffer = unused};
}

static uint8_t *find_page(struct vcpu *vcpu, struct ds_window *window, uint64_t linear)
{
	struct ds_page *page = ds_page_of(window, linear);
	uint8_t *host = page->linear == linear ? page->host : platform_ds_page(vcpu, linear);

	if (host)
		*page = (struct ds_page){linear, host};
	return host;
}

/* `bytes` at `linear` as one or two pieces, in pages that never share a place in the window. */
struct piece {
	uint8_t *host;
	unsigned bytes;
};

static bool reach(struct vcpu *vcpu, struct ds_window *window, uint64_t linear, unsigned bytes,
		  struct piece pieces[2])
{
	unsigned offset = (unsigned)(linear & DS_PAGE_MASK), room = DS_PAGE_BYTES - offset;
	uint8_t *page = find_page(vcpu, window, linear & ~DS_PAGE_MASK);

	if (!page)
		return false;
	pieces[0] = (struct piece){page + offset, bytes < room ? bytes : room};
	pieces[1] = (struct piece){page, bytes - pieces[0].bytes};
	if (pieces[1].bytes)
		pieces[1].host = find_page(vcpu, window, (linear & ~DS_PAGE_MASK) + DS_PAGE_BYTES);
	return pieces[1].host;
}

bool ds_load(struct vcpu *vcpu, struct ds_window *window, uint64_t linear, uint64_t *values,
	     unsigned count)
{
	struct piece pieces[2];
	bool reached = reach(vcpu, window, linear, count * sizeof(*values), pieces);

	if (reached) {
		memcpy(values, pieces[0].host, pieces[0].bytes);
		memcpy((uint8_t *)values + pieces[0].bytes, pieces[1].host, pieces[1].bytes);
	}
	return reached;
}

bool ds_store(struct vcpu *vcpu, struct ds_window *window, uint64_t linear, const uint64_t *values,
	      unsigned count)
{
	struct piece pieces[2];
	bool reached = reach(vcpu, window, linear, count * sizeof(*values), pieces);

	if (reached) {
		memcpy(pieces[0].host, values, pieces[0].bytes);
		memcpy(pieces[1].host, (const uint8_t *)values + pieces[0].bytes, pieces[1].bytes);
	}
	return reached;
}
