// SPDX-License-Identifier: MIT
#include "tests/lib/off.h"

#include "tests/lib/rig.h"

#define SLOTS 4096

struct sight off_trace(uint64_t debugctl)
{
	struct user_chain user;
	struct sight sight = {.kernel.chain = &chain_a, .user.chain = &user.chain};
	struct rig rig;
	size_t count;

	user_chain_open(&user, 0);
	rig_open(&rig, SLOTS);
	wrmsr(IA32_DEBUGCTL, debugctl);
	for (uint64_t walk = 0; walk < OFF_WALKS; walk++) {
		chain_walk(&chain_a, chain_length(walk));
		user_chain_walk(&user, chain_length(walk));
	}
	wrmsr(IA32_DEBUGCTL, 0);
	count = rig_count(&rig);
	for (size_t slot = 0; slot < count; slot++) {
		struct bts_struct record = rig_record(&rig, slot);

		sight_feed(&sight, &(struct ptrace_bts_record){.qualifier = PTRACE_BTS_BRANCH,
							       .from = record.from,
							       .to = record.to});
	}
	rig_close(&rig);
	user_chain_close(&user);
	return sight;
}
