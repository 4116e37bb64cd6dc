// SPDX-License-Identifier: MIT
#include "tests/lib/malformed.h"

#include "kernel/mm/page.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/lib/two_jumps.h"

#define OFFSET 1024 /* of the base in its page */

static void keep(struct malformed *m)
{
	memcpy(m->pages, m->rig.pages, m->rig.page_count * PAGE_SIZE);
	memcpy(m->area, m->rig.area_page, PAGE_SIZE);
}

static void put_back(const struct malformed *m)
{
	memcpy(m->rig.pages, m->pages, m->rig.page_count * PAGE_SIZE);
	memcpy(m->rig.area_page, m->area, PAGE_SIZE);
}

void malformed_open(struct malformed *m)
{
	rig_open_at(&m->rig, MALFORMED_SLOTS, OFFSET);
	m->pages = test_area(m->rig.page_count);
	m->area = test_area(1);
	keep(m);
}

void malformed_close(struct malformed *m)
{
	put_back(m);
	rig_close(&m->rig);
}

/* Bytes of the buffer's pages that are not as they were, as offsets from the base. */
static bool find_changes(const struct malformed *m, int64_t *first, int64_t *last)
{
	int64_t base = (int64_t)(m->rig.base - (uint64_t)m->rig.pages);
	bool found = false;

	for (size_t i = 0; i < m->rig.page_count * PAGE_SIZE; i++) {
		if (m->rig.pages[i] == m->pages[i])
			continue;
		if (!found)
			*first = (int64_t)i - base;
		*last = (int64_t)i - base;
		found = true;
	}
	return found;
}

static bool area_is_sound(const struct malformed *m, const uint8_t *before)
{
	bool sound = true;

	for (size_t i = 0; i < PAGE_SIZE; i++)
		sound &= (i >= 8 && i < 16) || m->rig.area_page[i] == before[i];
	return sound;
}

void malformed_trace(struct malformed *m, const char *key, int64_t from, int64_t to)
{
	static uint8_t before[PAGE_SIZE];
	uint64_t index = rig_index(&m->rig);
	int64_t first = 0, last = 0;
	char changes[40] = "none";
	bool faulted;

	memcpy(before, m->rig.area_page, PAGE_SIZE);
	faulted = two_jumps_fault(rig_all());
	if (find_changes(m, &first, &last))
		format(changes, sizeof(changes), "%ld..%ld", first, last);
	test_observe(key, "fault:%d,index:%ld,changed:%s", faulted,
		     (int64_t)(rig_index(&m->rig) - index), changes);
	EXPECT(!strcmp(changes, "none") || (first >= from && last < to));
	EXPECT(area_is_sound(m, before));
	put_back(m);
}
