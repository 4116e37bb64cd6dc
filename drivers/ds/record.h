/* SPDX-License-Identifier: MIT */
/*
 * BTS records as they lie in memory (SDM Vol 3, figures 17-6 and 17-9), and how to read many of
 * them: what ds_read_bts() finds out for every record, a cursor finds out once.
 */
#pragma once

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

/* Returns the record of `record_size` bytes at address `at`. Any context. */
static inline struct bts_struct ds_record_load(uintptr_t at, size_t record_size)
{
	struct bts_struct record;

	if (record_size == sizeof(struct ds_record_32)) {
		const struct ds_record_32 *raw = (const void *)at;

		record = (struct bts_struct){.from = raw->from, .to = raw->to, .flags = raw->flags};
	} else {
		const struct ds_record_64 *raw = (const void *)at;

		record = (struct bts_struct){.from = raw->from, .to = raw->to, .flags = raw->flags};
	}
	record.qualifier = record.from || record.to ? BTS_BRANCH : BTS_INVALID;
	return record;
}

/* True if a record is stored at address `at`, which was cleared before. Any context. */
static inline bool ds_record_is_there(uintptr_t at)
{
	return ds_record_load(at, ds_configuration->record_size).qualifier != BTS_INVALID;
}

/* Writes the record at address `at`; values that fit its fields. Any context. */
static inline void ds_record_store(uintptr_t at, const struct bts_struct *record)
{
	if (ds_configuration->record_size == sizeof(struct ds_record_32))
		*(volatile struct ds_record_32 *)at = (struct ds_record_32){
			(uint32_t)record->from, (uint32_t)record->to, (uint32_t)record->flags};
	else
		*(volatile struct ds_record_64 *)at =
			(struct ds_record_64){record->from, record->to, record->flags};
}

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
	struct bts_struct record = ds_record_load(cursor->next, cursor->record_size);

	cursor->next += cursor->record_size;
	if (cursor->next == cursor->end)
		cursor->next = cursor->base;
	return record;
}
