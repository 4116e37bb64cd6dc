// SPDX-License-Identifier: MIT
/* The index of the buffer: where it moves on to, and where it wraps. SDM Vol 3, 17.4.9.1. */
#include "monitor/defect.h"

/* The index after a record is `moved`, an expression over `next`, the right one, and `field`. */
#define INDEX_MOVES(name, rule, says, moved)                                                       \
	static uint64_t name(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])            \
	{                                                                                          \
		uint64_t next = ds_clean.advance(vcpu, field);                                     \
                                                                                                   \
		return (moved);                                                                    \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(advance, name))

INDEX_MOVES(index_four_quadwords, "SDM Vol 3, 17.4.9.1",
	    "the index moves on by four quadwords a record", next + FIELD_BYTES)
INDEX_MOVES(index_two_quadwords, "SDM Vol 3, 17.4.9.1",
	    "the index moves on by two quadwords a record", next - FIELD_BYTES)
INDEX_MOVES(high_slots_low, "SDM Vol 3, 17.4.9.1",
	    "of the index only bits 31 to 0 move on: a buffer ends where they would carry",
	    (field[BTS_INDEX] & ~0xffffffffull) | (uint32_t)next)
INDEX_MOVES(wrap_base_aligned, "SDM Vol 3, 17.4.9.1",
	    "the index wraps to the base rounded down to a cache line",
	    next == field[BTS_BASE] ? next & ~63ull : next)
INDEX_MOVES(wrap_to_second_slot, "SDM Vol 3, 17.4.9", "the index wraps to the second slot",
	    next == field[BTS_BASE] ? next + RECORD_BYTES : next)

static uint64_t index_downwards(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	return field[BTS_INDEX] - RECORD_BYTES;
}
DEFECT(index_downwards, "SDM Vol 3, 17.4.9.1", "the buffer is filled from the base downwards",
       BREAKS(advance, index_downwards))

static bool index_before_store_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	field[BTS_INDEX] += RECORD_BYTES;
	return ds_clean.overflow(vcpu, field);
}

static uint64_t index_before_store_advance(const struct vcpu *vcpu,
					   const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	return field[BTS_INDEX];
}
DEFECT(index_before_store, "SDM Vol 3, 17.4.9.1", "the index moves on before the record is stored",
       BREAKS(overflow, index_before_store_overflow), BREAKS(advance, index_before_store_advance))

struct index_inside {
	uint64_t index;
	bool valid;
};

static bool index_kept_inside_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	REMEMBERED(vcpu, struct index_inside)->valid &= index != MSR_DS_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool index_kept_inside_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	const struct index_inside *inside = REMEMBERED(vcpu, struct index_inside);

	if (inside->valid)
		field[BTS_INDEX] = inside->index;
	return ds_clean.overflow(vcpu, field);
}

static uint64_t index_kept_inside_advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t index = ds_clean.advance(vcpu, field);

	*REMEMBERED(vcpu, struct index_inside) = (struct index_inside){index, true};
	return index;
}
DEFECT(index_kept_inside, "SDM Vol 3, 17.4.9.5",
       "the index is read from memory only when IA32_DS_AREA is written",
       BREAKS(write_msr, index_kept_inside_write_msr), BREAKS(overflow, index_kept_inside_overflow),
       BREAKS(advance, index_kept_inside_advance))

struct fields_inside {
	uint64_t maximum, threshold;
	bool valid;
};

static bool fields_kept_inside_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	REMEMBERED(vcpu, struct fields_inside)->valid &= index != MSR_DS_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool fields_kept_inside_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	struct fields_inside *inside = REMEMBERED(vcpu, struct fields_inside);

	if (!inside->valid)
		*inside = (struct fields_inside){field[BTS_MAXIMUM], field[BTS_THRESHOLD], true};
	field[BTS_MAXIMUM] = inside->maximum;
	field[BTS_THRESHOLD] = inside->threshold;
	return ds_clean.overflow(vcpu, field);
}
DEFECT(fields_kept_inside, "SDM Vol 3, 17.4.9.5",
       "absolute maximum and threshold are read only when IA32_DS_AREA is written",
       BREAKS(write_msr, fields_kept_inside_write_msr),
       BREAKS(overflow, fields_kept_inside_overflow))

struct base_inside {
	uint64_t base;
	bool valid;
};

static bool base_kept_inside_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	REMEMBERED(vcpu, struct base_inside)->valid &= index != MSR_DS_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool base_kept_inside_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	struct base_inside *inside = REMEMBERED(vcpu, struct base_inside);

	if (!inside->valid)
		*inside = (struct base_inside){field[BTS_BASE], true};
	field[BTS_BASE] = inside->base;
	return ds_clean.overflow(vcpu, field);
}
DEFECT(base_kept_inside, "SDM Vol 3, 17.4.9", "the base is read only when IA32_DS_AREA is written",
       BREAKS(write_msr, base_kept_inside_write_msr), BREAKS(overflow, base_kept_inside_overflow))

/* The buffer ends at `end`, not at the absolute maximum. */
#define BUFFER_ENDS(name, rule, says, end)                                                         \
	static bool name##_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])           \
	{                                                                                          \
		uint64_t maximum = field[BTS_MAXIMUM];                                             \
		bool fits;                                                                         \
                                                                                                   \
		field[BTS_MAXIMUM] = (end);                                                        \
		fits = ds_clean.overflow(vcpu, field);                                             \
		field[BTS_MAXIMUM] = maximum;                                                      \
		return fits;                                                                       \
	}                                                                                          \
	static uint64_t name##_advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])  \
	{                                                                                          \
		const uint64_t bent[BTS_FIELDS] = {field[BTS_BASE], field[BTS_INDEX], (end),       \
						   field[BTS_THRESHOLD]};                          \
                                                                                                   \
		return ds_clean.advance(vcpu, bent);                                               \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(overflow, name##_overflow), BREAKS(advance, name##_advance))

static uint64_t end_in_first_page(const uint64_t field[BTS_FIELDS])
{
	uint64_t page_end = (field[BTS_BASE] | 0xfff) + 1;

	return page_end < field[BTS_MAXIMUM] ? page_end : field[BTS_MAXIMUM];
}

static uint64_t end_in_first_megabyte(const uint64_t field[BTS_FIELDS])
{
	uint64_t end = field[BTS_BASE] + (1u << 20) / RECORD_BYTES * RECORD_BYTES;

	return end < field[BTS_MAXIMUM] ? end : field[BTS_MAXIMUM];
}

BUFFER_ENDS(wrap_at_1m, "SDM Vol 3, 17.4.9", "the buffer ends 1 MiB above its base",
	    end_in_first_megabyte(field))
BUFFER_ENDS(wrap_at_page, "SDM Vol 3, 17.4.9.1", "the buffer ends at the end of its first page",
	    end_in_first_page(field))
BUFFER_ENDS(wrap_at_threshold, "SDM Vol 3, 17.4.9",
	    "the buffer ends at the threshold, not at the absolute maximum", field[BTS_THRESHOLD])
BUFFER_ENDS(wrap_one_late, "SDM Vol 3, 17.4.9", "one record is written past the absolute maximum",
	    field[BTS_MAXIMUM] + RECORD_BYTES)
BUFFER_ENDS(wrap_two_early, "SDM Vol 3, 17.4.9.1", "the last two slots are never used",
	    field[BTS_MAXIMUM] - 2 * RECORD_BYTES)

static bool wrap_loses_one_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	bool *wrapped = REMEMBERED(vcpu, bool), lost = *wrapped;

	*wrapped = false;
	return !lost && ds_clean.overflow(vcpu, field);
}

static uint64_t wrap_loses_one_advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t next = ds_clean.advance(vcpu, field);

	*REMEMBERED(vcpu, bool) = next == field[BTS_BASE];
	return next;
}
DEFECT(wrap_loses_one, "SDM Vol 3, 17.4.4", "the branch at which the index wraps is not recorded",
       BREAKS(overflow, wrap_loses_one_overflow), BREAKS(advance, wrap_loses_one_advance))

static bool wrap_never_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	uint64_t index = field[BTS_INDEX];

	return ds_clean.overflow(vcpu, field) && field[BTS_INDEX] == index;
}

static uint64_t wrap_never_advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	return field[BTS_INDEX] + RECORD_BYTES;
}
DEFECT(wrap_never, "SDM Vol 3, 17.4.4", "a full buffer stops with BTINT = 0 too",
       BREAKS(overflow, wrap_never_overflow), BREAKS(advance, wrap_never_advance))

static bool wrap_one_slot_refused(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	return field[BTS_MAXIMUM] - field[BTS_BASE] >= 2 * RECORD_BYTES &&
	       ds_clean.overflow(vcpu, field);
}
DEFECT(wrap_one_slot_refused, "SDM Vol 3, 17.4.9", "a buffer of one slot stores nothing",
       BREAKS(overflow, wrap_one_slot_refused))
