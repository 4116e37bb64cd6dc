// SPDX-License-Identifier: MIT
#include "drivers/ds/area.h"

enum ds_maximum ds_maximum = DS_MAXIMUM_AT_END;

/*
 * The furthest address that any setting stores is DS_O_WRAP's threshold, a record above the
 * maximum. A buffer that ends closer to the top of the address space than that is refused, which
 * keeps clear of erratum P79 as well.
 */
int ds_set_bts_buffer(void *area, void *buffer, size_t bytes)
{
	size_t record = ds_configuration->record_size, size = bytes - bytes % record;
	uint64_t base = (uintptr_t)buffer, end, furthest;
	uint64_t largest = ds_configuration->field_size == 4 ? UINT32_MAX : UINT64_MAX;

	if (!area || !base || base % ds_configuration->field_size || size < 2 * record)
		return -EINVAL;
	if (__builtin_add_overflow(base, size, &end) ||
	    __builtin_add_overflow(end, record + 1, &furthest) || furthest > largest)
		return -EINVAL;
	ds_set(area, DS_BTS_BUFFER_BASE, base);
	ds_set(area, DS_BTS_INDEX, base);
	ds_set(area, DS_BTS_ABSOLUTE_MAXIMUM, end + (ds_maximum == DS_MAXIMUM_AT_END_PLUS_1));
	return ds_set_overflow(area, DS_O_WRAP, 0);
}

/* SDM Vol 3, 17.4.9.3: a circular buffer needs a threshold above the maximum, BTINT = 0 or not. */
int ds_set_overflow(void *area, enum ds_overflow overflow, size_t margin)
{
	size_t record = ds_configuration->record_size, records = ds_get_bts_end(area);
	uint64_t base = ds_get(area, DS_BTS_BUFFER_BASE);

	if (overflow == DS_O_WRAP) {
		ds_set(area, DS_BTS_INTERRUPT_THRESHOLD,
		       ds_get(area, DS_BTS_ABSOLUTE_MAXIMUM) + record);
		return 0;
	}
	if (overflow != DS_O_SIGNAL)
		return -EINVAL;
	if (!margin)
		margin = records >= 2 * DS_DEFAULT_MARGIN ? DS_DEFAULT_MARGIN : records / 2;
	if (!margin || margin >= records)
		return -EINVAL;
	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD, base + (records - margin) * record);
	return 0;
}
