/* SPDX-License-Identifier: MIT */
/*
 * The DS buffer management area and the BTS buffer as memory: fields, records, arithmetic (SDM
 * Vol 3, 17.4.9). Nothing here touches an MSR. `area` is DS_AREA_SIZE bytes, aligned to 64; the
 * layout is that of `ds_configuration`. Any context, NMI included; no lock. What the hardware may
 * write meanwhile is read as it is: a reader that needs a stable view clears TR first.
 *
 * Positions are counted in records from the buffer's base, as in Linux's ds.c of 2.6.25.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/errno.h"
#include "drivers/ds/configuration.h"

/* Eight fields and the counter resets of PEBS format 5: 32 general counters, 16 fixed ones. */
#define DS_AREA_SIZE 512

/* Room between threshold and maximum when the caller does not say: Linux's BTS safety margin. */
#define DS_DEFAULT_MARGIN 170

/* In the order of the area, SDM Vol 3, figures 17-5 and 17-8. */
enum ds_field {
	DS_BTS_BUFFER_BASE,
	DS_BTS_INDEX,
	DS_BTS_ABSOLUTE_MAXIMUM,
	DS_BTS_INTERRUPT_THRESHOLD,
	DS_PEBS_BUFFER_BASE,
	DS_PEBS_INDEX,
	DS_PEBS_ABSOLUTE_MAXIMUM,
	DS_PEBS_INTERRUPT_THRESHOLD,
	DS_PEBS_COUNTER_RESET, /* of counter 0; the others' follow */
};
_Static_assert(8 * DS_BTS_INTERRUPT_THRESHOLD == 0x18, "64-bit DS area");
_Static_assert(8 * DS_PEBS_INTERRUPT_THRESHOLD == 0x38, "64-bit DS area");
_Static_assert(4 * DS_BTS_INTERRUPT_THRESHOLD == 0x0c, "32-bit DS area");
_Static_assert(4 * DS_PEBS_INTERRUPT_THRESHOLD == 0x1c, "32-bit DS area");

/* The content of a field: a linear address. The hardware reads and writes it: volatile. */
static inline uint64_t ds_get(const void *area, enum ds_field field)
{
	size_t size = ds_configuration->field_size;
	const unsigned char *at = (const unsigned char *)area + field * size;

	return size == 4 ? *(const volatile uint32_t *)at : *(const volatile uint64_t *)at;
}

/* A value wider than the field is cut off. */
static inline void ds_set(void *area, enum ds_field field, uint64_t value)
{
	size_t size = ds_configuration->field_size;
	unsigned char *at = (unsigned char *)area + field * size;

	if (size == 4)
		*(volatile uint32_t *)at = (uint32_t)value;
	else
		*(volatile uint64_t *)at = value;
}

/*
 * Where the absolute maximum is. The SDM says "a multiple of the record size plus 1"; Linux
 * leaves the 1 out. Measure which of them uses all slots and overruns none, then choose; it counts
 * for every ds_set_bts_buffer() after it. At the end (Linux) is what holds until somebody chooses:
 * at worst it leaves the last slot unused.
 */
enum ds_maximum { DS_MAXIMUM_AT_END, DS_MAXIMUM_AT_END_PLUS_1 };
extern enum ds_maximum ds_maximum;

/*
 * Makes [buffer, buffer + bytes), rounded down to whole records, the BTS buffer of `area`: base,
 * index = base, absolute maximum, and DS_O_WRAP's threshold. Neither the records nor the PEBS
 * fields are touched. -EINVAL, and nothing changed: NULL, misaligned to a field, less than two
 * records, or an address past the end of the address space or of a field.
 */
int ds_set_bts_buffer(void *area, void *buffer, size_t bytes);

enum ds_overflow {
	DS_O_WRAP,   /* circular: BTINT = 0 and a threshold above the absolute maximum */
	DS_O_SIGNAL, /* BTINT = 1 and a PMI at the threshold */
};

/*
 * Sets the interrupt threshold. DS_O_SIGNAL: to `margin` records below the end; 0 means
 * DS_DEFAULT_MARGIN, or half of a buffer that is not twice as long. -EINVAL, and nothing changed:
 * no such method, or a margin that is not less than the number of records. BTINT, the other half of
 * an overflow mode, belongs to the lease.
 */
int ds_set_overflow(void *area, enum ds_overflow overflow, size_t margin);

/* The number of whole records between base and absolute maximum; 0 where that is below. */
static inline size_t ds_get_bts_end(const void *area)
{
	uint64_t base = ds_get(area, DS_BTS_BUFFER_BASE);
	uint64_t maximum = ds_get(area, DS_BTS_ABSOLUTE_MAXIMUM);

	return maximum > base ? (maximum - base) / ds_configuration->record_size : 0;
}

/* The record that is written next, 0 to end: never past the end, whatever the field holds. */
static inline size_t ds_get_bts_index(const void *area)
{
	uint64_t base = ds_get(area, DS_BTS_BUFFER_BASE), index = ds_get(area, DS_BTS_INDEX);
	size_t end = ds_get_bts_end(area);
	size_t at = index > base ? (index - base) / ds_configuration->record_size : 0;

	return at < end ? at : end;
}

/*
 * True if records may have been lost, or be about to, in a buffer that was last emptied by
 * ds_drain(). Either the index reached the last slot; or one of the last two slots, which were
 * cleared then, holds a record although the index is before it. The manual leaves open what the
 * index does at the maximum when BTINT is set. Exact with DS_MAXIMUM_AT_END_PLUS_1, by which
 * every slot is used; else it calls a buffer full that is filled to within one record.
 */
bool ds_bts_full(const void *area);

enum bts_qualifier { BTS_INVALID = 0, BTS_BRANCH = 1 };

struct bts_struct {
	enum bts_qualifier qualifier; /* BTS_INVALID: the slot is empty (from and to are 0) */
	uint64_t from, to;	      /* linear addresses, zero-extended from 4-byte fields */
	uint64_t flags;		      /* as the hardware wrote them */
};

/* Reads the record in slot `at`. -EINVAL: no such slot. */
int ds_read_bts(const void *area, size_t at, struct bts_struct *record);

/* Clears every record and sets the index to the base. TR must be clear. */
void ds_clear(void *area);
