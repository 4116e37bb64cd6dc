// SPDX-License-Identifier: MIT
#include "tests/lib/aligned.h"

#include "tests/lib/chain.h"
#include "tests/lib/exact.h"

size_t aligned_right(size_t offset)
{
	struct rig rig;
	size_t right = 0;

	rig_open_at(&rig, 2 * ALIGNED_BRANCHES, offset);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, ALIGNED_BRANCHES);
	if (rig_index(&rig) == rig.base + ALIGNED_BRANCHES * rig.record)
		for (; right < ALIGNED_BRANCHES; right++) {
			struct bts_struct record = rig_record(&rig, right);
			struct branch branch = chain_branch(&chain_a, ALIGNED_BRANCHES, right);

			if (record.from != branch.from || record.to != branch.to)
				break;
		}
	rig_close(&rig);
	return right;
}
