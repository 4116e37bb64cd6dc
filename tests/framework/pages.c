// SPDX-License-Identifier: MIT
#include "tests/framework/pages.h"

#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "tests/framework/test.h"

#define SETTLING    10000000 /* microseconds */
#define LEAST_TURNS 100

uint64_t pages_left(void)
{
	return page_free_count() + vm_table_count();
}

void pages_settle(void)
{
	uint64_t last = 0;

	for (unsigned same = 0; same < 3; same++) {
		task_sleep(1000);
		sched_reap();
		if (pages_left() != last)
			same = 0;
		last = pages_left();
	}
}

/*
 * A busy host may stop the CPU that such a task is on for seconds, or all of them for longer than
 * that whole time. Sleeps, so that an idle task that was interrupted while it reaped can finish.
 */
int64_t pages_missing(uint64_t before)
{
	uint64_t end = clock_us() + SETTLING;

	for (unsigned turns = 0; turns < LEAST_TURNS || clock_us() < end; turns++) {
		if (pages_left() == before)
			return 0;
		task_sleep(1000);
		sched_reap();
	}
	return (int64_t)(before - pages_left());
}

uint64_t pages_largest_runs(void)
{
	uint64_t run, list = 0, runs = 0;

	/* Each begins with the address of the one before. */
	for (; runs < PAGES_MOST_RUNS && (run = page_alloc_run(PAGE_ORDER_MOST)); runs++) {
		*(uint64_t *)direct(run) = list;
		list = run;
	}
	while (list) {
		run = list;
		list = *(uint64_t *)direct(run);
		page_free_run(run, PAGE_ORDER_MOST);
	}
	return runs;
}

void page_protect(uint64_t linear, unsigned flags)
{
	uint64_t *entry = vm_entry(linear);

	*entry = (*entry & PTE_ADDRESS) | vm_entry_bits(flags);
	vm_flush(linear);
}

void page_unmap(uint64_t linear)
{
	uint64_t *entry = vm_entry(linear);

	if (entry)
		*entry = 0;
	vm_flush(linear);
}

static void exchange(uint8_t *a, uint8_t *b)
{
	for (size_t i = 0; i < PAGE_SIZE; i++) {
		uint8_t byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

void page_part(uint8_t *pages)
{
	uint64_t linear = (uint64_t)pages;
	uint64_t *first = vm_entry(linear), *second = vm_entry(linear + PAGE_SIZE);
	uint64_t entry = *first;

	if ((*first & PTE_ADDRESS) + PAGE_SIZE == (*second & PTE_ADDRESS)) {
		exchange(pages, pages + PAGE_SIZE);
		*first = *second;
		*second = entry;
		vm_flush(linear);
		vm_flush(linear + PAGE_SIZE);
	}
	REQUIRE((*first & PTE_ADDRESS) + PAGE_SIZE != (*second & PTE_ADDRESS));
}
