// SPDX-License-Identifier: MIT
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "tests/lib/programs.h"

/* A chain of pages: each begins with the address of the next. */
static uint64_t take_all(void)
{
	uint64_t chain = 0, page;

	while ((page = page_alloc())) {
		*(uint64_t *)direct(page) = chain;
		chain = page;
	}
	return chain;
}

static void give_back(uint64_t chain)
{
	while (chain) {
		uint64_t page = chain;

		chain = *(uint64_t *)direct(page);
		page_free(page);
	}
}

TEST(ptrace_bts_no_memory, .group = "I", .ids = "I6", .needs = NEED_BTS,
     .claim = "where memory is out a request is refused and changes nothing",
     .source = "docs/ptrace-bts.2, ERRORS: ENOMEM")
{
	uint64_t before = programs_begin(), chain;
	struct process *process = program_start("ptrace_bts", 6);

	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	chain = take_all();
	process_signal(process, SIGCONT);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	give_back(chain);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	programs_end(before);
}
