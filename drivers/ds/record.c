// SPDX-License-Identifier: MIT
#include "drivers/ds/record.h"
#include "lib/string.h"

static uintptr_t slot(const void *area, size_t at)
{
	return ds_get(area, DS_BTS_BUFFER_BASE) + at * ds_configuration->record_size;
}

struct ds_cursor ds_cursor_at(const void *area, size_t at, size_t slots)
{
	return (struct ds_cursor){.next = slot(area, at),
				  .base = slot(area, 0),
				  .end = slot(area, slots),
				  .record_size = ds_configuration->record_size};
}

int ds_read_bts(const void *area, size_t at, struct bts_struct *record)
{
	if (at >= ds_get_bts_end(area))
		return -EINVAL;
	*record = ds_record_load(slot(area, at), ds_configuration->record_size);
	return 0;
}

bool ds_bts_full(const void *area)
{
	size_t at = ds_get_bts_index(area), end = ds_get_bts_end(area);
	size_t record = ds_configuration->record_size;
	uintptr_t last = slot(area, end) - record;
	bool uses_last = slot(area, end) < ds_get(area, DS_BTS_ABSOLUTE_MAXIMUM);

	if (at >= end || ds_record_is_there(last))
		return true;
	return !uses_last && (at + 1 >= end || ds_record_is_there(last - record));
}

void ds_clear(void *area)
{
	memset((void *)slot(area, 0), 0, ds_get_bts_end(area) * ds_configuration->record_size);
	ds_set(area, DS_BTS_INDEX, slot(area, 0));
}
