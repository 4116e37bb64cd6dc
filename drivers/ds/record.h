/* SPDX-License-Identifier: MIT */
/*
 * BTS records as they lie in memory (SDM Vol 3, figures 17-6 and 17-9), and how to read many of
 * them: what ds_read_bts() finds out for every record, a cursor finds out once.
 */
#ifndef SPOOR_DRIVERS_DS_RECORD_H
#define SPOOR_DRIVERS_DS_RECORD_H

#include "drivers/ds/area.h"

/* Three fields of one size. Wherever a buffer is said to begin: packed. */
struct __attribute__((packed)) ds_record_32 {
	uint32_t from, to, flags;
};
_Static_assert(sizeof(struct ds_record_32) == 12, "32-bit BTS record");

struct __attribute__((packed)) ds_record_64 {
	uint64_t from, to, flags;
};
_Static_assert(sizeof(struct ds_record_64) == 24, "64-bit BTS record");

/* Where the next record is. */
struct ds_cursor {
	uintptr_t next, base, end;
	size_t record_size;
};

/*
 * At slot `at` of the buffer's first `slots`, which the caller knows to be there: not from `area`,
 * which hardware may spoil. What that wrote before this call is read; what it writes after it may
 * be read or not. Any context.
 */
struct ds_cursor ds_cursor_at(const void *area, size_t at, size_t slots);

/* Reads the record there and moves on; from the last of the slots to the first. Any context. */
static inline struct bts_struct ds_cursor_read(struct ds_cursor *cursor)
{
	struct bts_struct record;

	if (cursor->record_size == sizeof(struct ds_record_32)) {
		const struct ds_record_32 *raw = (const void *)cursor->next;

		record = (struct bts_struct){.from = raw->from, .to = raw->to, .flags = raw->flags};
	} else {
		const struct ds_record_64 *raw = (const void *)cursor->next;

		record = (struct bts_struct){.from = raw->from, .to = raw->to, .flags = raw->flags};
	}
	record.qualifier = record.from || record.to ? BTS_BRANCH : BTS_INVALID;
	cursor->next += cursor->record_size;
	if (cursor->next == cursor->end)
		cursor->next = cursor->base;
	return record;
}

#endif
