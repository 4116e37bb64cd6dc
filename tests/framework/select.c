// SPDX-License-Identifier: MIT
#include "tests/framework/select.h"

#include "kernel/end.h"
#include "kernel/options.h"
#include "lib/format.h"
#include "lib/frame.h"
#include "lib/string.h"

extern const struct test_row tests_start[], tests_end[]; /* linker.ld */

static struct test tests[MAX_TESTS];
static unsigned tests_count;

static const void *at_offset(uint32_t offset)
{
	return (const void *)(KERNEL_BASE + offset);
}

void tests_read(void)
{
	if (tests_end - tests_start > MAX_TESTS)
		panic("more than %u tests", MAX_TESTS);
	for (const struct test_row *row = tests_start; row < tests_end; row++)
		tests[tests_count++] = (struct test){
			.name = at_offset(row->name),
			.group = at_offset(row->group),
			.ids = at_offset(row->ids),
			.claim = at_offset(row->claim),
			.source = at_offset(row->source),
			.needs = row->needs,
			.run = (void (*)(void))at_offset(row->run),
		};
}

bool glob_match(const char *pattern, size_t length, const char *text)
{
	if (!length)
		return !*text;
	if (*pattern == '*') {
		for (;; text++) {
			if (glob_match(pattern + 1, length - 1, text))
				return true;
			if (!*text)
				return false;
		}
	}
	if (!*text || (*pattern != '?' && *pattern != *text))
		return false;
	return glob_match(pattern + 1, length - 1, text + 1);
}

/* The order of the groups in the reference; words follow the letters. */
static const char group_order[] = "EMLRKWTPCSAIBXZ";

static unsigned rank(const struct test *test)
{
	const char *at = test->group[1] ? NULL : strchr(group_order, test->group[0]);

	return at ? (unsigned)(at - group_order) : sizeof(group_order);
}

static bool before(const struct test *a, const struct test *b)
{
	int groups = strcmp(a->group, b->group);

	if (!groups)
		return strcmp(a->name, b->name) < 0;
	return rank(a) != rank(b) ? rank(a) < rank(b) : groups < 0;
}

bool list_next(const char **list, const char **element, size_t *length)
{
	if (!**list)
		return false;
	*element = *list;
	for (*length = 0; (*element)[*length] && (*element)[*length] != ',';)
		++*length;
	*list = *element + *length;
	if (**list == ',')
		++*list;
	return true;
}

static bool in_list(const char *list, const char *name)
{
	const char *element;
	size_t length;

	while (list_next(&list, &element, &length))
		if (strlen(name) == length && !memcmp(element, name, length))
			return true;
	return false;
}

/* `otherwise` is the answer where no glob but those that leave out is given. */
static bool matches(const char *globs, const char *name, bool otherwise)
{
	const char *element;
	size_t length;
	bool taken = otherwise, chosen = false;

	while (list_next(&globs, &element, &length)) {
		if (*element == '-') {
			if (glob_match(element + 1, length - 1, name))
				return false;
			continue;
		}
		taken = false;
		chosen |= glob_match(element, length, name);
	}
	return taken || chosen;
}

bool globs_match(const char *globs, const char *name)
{
	return matches(globs, name, true);
}

/* Figures take long: they are for a run that asks for them, by name or by group. */
static bool wanted(const struct test *test, const char *globs, const char *groups)
{
	bool by_default = *groups || strcmp(test->group, "bench");

	if (test->needs & NEED_SELFTEST)
		return in_list(globs, test->name);
	if (*groups && !in_list(groups, test->group))
		return false;
	return matches(globs, test->name, by_default);
}

bool select_required(const struct test *test)
{
	return *options.require && globs_match(options.require, test->name);
}

const char *select_required_none(const struct test *const *selected, unsigned count)
{
	static char name[64];
	const char *globs = options.require, *element;
	size_t length;

	while (list_next(&globs, &element, &length)) {
		unsigned i = 0;

		while (*element != '-' && i < count &&
		       !glob_match(element, length, selected[i]->name))
			i++;
		if (i < count)
			continue;
		format(name, sizeof(name), "%.*s", (int)length, element);
		return name;
	}
	return NULL;
}

uint32_t select_list(unsigned *count)
{
	uint32_t crc = 0;
	char line[128];

	*count = tests_count;
	for (const struct test *test = tests; test < tests + tests_count; test++) {
		int length = format(line, sizeof(line), "%s %s %d\n", test->name, test->group,
				    wanted(test, "", ""));

		crc = crc32c(crc, line, (size_t)length);
	}
	return crc;
}

bool select_takes(unsigned place)
{
	return wanted(tests + place, options.test, options.group);
}

/* Where it goes among the `count` that are sorted. */
static unsigned place_of(const struct test *test, const struct test *const *selected,
			 unsigned count)
{
	unsigned first = 0, last = count;

	while (first < last) {
		unsigned middle = (first + last) / 2;

		if (before(test, selected[middle]))
			last = middle;
		else
			first = middle + 1;
	}
	return first;
}

unsigned select_tests(const char *globs, const char *groups, const struct test *selected[MAX_TESTS])
{
	unsigned count = 0;

	for (const struct test *test = tests; test < tests + tests_count; test++) {
		unsigned at;

		if (!wanted(test, globs, groups))
			continue;
		at = place_of(test, selected, count);
		memmove(selected + at + 1, selected + at, (count - at) * sizeof(*selected));
		selected[at] = test;
		count++;
	}
	return count;
}
