/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t index, pair[2 * RECORD_WORDS], swapped[2 * RECORD_WORDS];

	ds_clean.store(vcpu, branch);
	if (++*REMEMBERED(vcpu, unsigned) % 2 ||
	    !ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, &index, 1) ||
	    !ds_load(vcpu, &vcpu->ds.buffer, index - 2 * RECORD_BYTES, pair, 2 * RECORD_WORDS))
		return;
	for (unsigned i = 0; i < 2 * RECORD_WORDS; i++)
		swapped[i] = pair[(i + RECORD_WORDS) % (2 * RECORD_WORDS)];
	ds_store(vcpu, &vcpu->ds.buffer, index - 2 * RECORD_BYTES, swapped, 2 * RECORD_WORDS);
}

DEFECT(pairs_swapped, "SDM Vol 3, 17.4.9.1",
       "every second record changes places with the one before it", rules->store = store)
