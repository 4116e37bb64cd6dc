// SPDX-License-Identifier: MIT
#include "tests/lib/user_chain.h"

#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"

#define START 0x20000000ul

void user_chain_open(struct user_chain *user, unsigned number)
{
	static const uint8_t system_call[] = {0x0f, 0x05};
	const struct chain *from = &chain_a;
	size_t size = (size_t)(from->end - from->start);
	uint8_t *page = test_area(1);
	const char *to = (const char *)(START + number * PAGE_SIZE);

	memcpy(page, from->start, size);
	memcpy(page + size, system_call, sizeof(system_call));
	code_map((uint64_t)to, page, VM_USER);
	*user = (struct user_chain){
		.chain = {.start = to,
			  .last = to + (from->last - from->start),
			  .last_jump = to + (from->last_jump - from->start),
			  .exit_jump = to + (from->exit_jump - from->start),
			  .end = to + size},
		.exit = (uint64_t)to + size,
	};
}

void user_chain_close(const struct user_chain *user)
{
	code_unmap((uint64_t)user->chain.start);
}

struct branch user_chain_branch(const struct user_chain *user, uint64_t n, uint64_t i)
{
	struct branch branch = chain_branch(&user->chain, n, i + 1);

	if (i == n - 2)
		branch.to = user->exit;
	return branch;
}

void user_chain_walk(const struct user_chain *user, uint64_t n)
{
	struct trap_frame frame = {.rdx = user->exit};
	uint32_t times;

	frame.rip = chain_entry(&user->chain, n, &times);
	frame.rcx = times;
	do {
		user_run(&frame);
		if (frame.vector != VECTOR_SYSCALL && user->broken) {
			atomic_store(&current_task()->user_break, false);
			user->broken();
		}
	} while (frame.vector != VECTOR_SYSCALL);
}
