// SPDX-License-Identifier: MIT
#include "kernel/mm/page.h"
#include "kernel/trace/bts/private.h"
#include "kernel/trace/bts/record.h"
#include "kernel/trace/memory.h"

#define UNIT sizeof(struct ptrace_bts_record)

/*
 * One full staging buffer and 5 slots: the departure after the last record below the threshold;
 * gap, arrival and departure around what follows; and the slot that tracer_is_full() reserves.
 */
#define SIGNAL_ROOM (STAGING_RECORDS + 5)

/* Keeps every product of sizes far from overflow. */
#define MOST_RECORDS (1ul << 24)

/* A tracer is the only object in its page, so that its pages can be charged to its owner. */
_Static_assert(sizeof(struct bts_tracer) <= PAGE_SIZE, "one page");

static bool in_software;

void bts_filter_in_software(bool always)
{
	in_software = always;
}

unsigned hardware_filter(unsigned view)
{
	return ds_caps()->filters && !in_software ? view : TRACE_USER | TRACE_KERNEL;
}

/* A tracer that stops when full, with stamps: arrival, a branch, a gap and departure. */
static size_t least_records(const struct bts_options *options)
{
	return options->stamps && options->overflow == TRACE_STOP ? 4 : 1;
}

int tracer_check(const struct bts_options *options)
{
	size_t records = options->size / UNIT;

	if (!ds_has_bts())
		return -ENODEV;
	if (options->view & ~(unsigned)(TRACE_USER | TRACE_KERNEL) ||
	    options->overflow > TRACE_STOP || records < least_records(options) ||
	    records > MOST_RECORDS || options->threshold > records)
		return -EINVAL;
	return options->view & TRACE_KERNEL && !options->privileged ? -EPERM : 0;
}

static size_t default_threshold(size_t records)
{
	return records >= 2 * DS_DEFAULT_MARGIN ? records - DS_DEFAULT_MARGIN
						: records - records / 2;
}

void tracer_settle_options(struct bts_options *options, size_t size)
{
	options->size = size;
	if (!options->view)
		options->view = TRACE_USER;
	if (options->overflow == TRACE_SIGNAL && !options->overflowed)
		options->overflow = TRACE_WRAP;
	if (!options->threshold || options->threshold > size / UNIT)
		options->threshold = default_threshold(size / UNIT);
}

/*
 * Records for which a buffer has room beyond the ring's size. A tracer in TRACE_SIGNAL is below its
 * threshold when a staging is emptied into its ring, so that with room for one more it cannot lose
 * a record, however late the interrupt is.
 */
static size_t records_beyond(const struct bts_options *options)
{
	return options->overflow == TRACE_SIGNAL && options->overflowed ? SIGNAL_ROOM : 0;
}

static size_t ring_size(const struct bts_options *options)
{
	return options->size / UNIT + records_beyond(options);
}

static size_t buffer_bytes(const struct bts_options *options)
{
	return (ring_size(options) + RING_SPARE) * ds_configuration->record_size;
}

/* With a ring and a DS area, charged; cuts options->size to what is left if it may. Or NULL. */
static struct bts_tracer *new_tracer(struct bts_options *options)
{
	struct bts_options smallest = *options;
	struct trace_size size = {.account = options->account,
				  .replaces = options->replaces,
				  .pages = 1 + trace_memory_pages(DS_AREA_SIZE)};
	struct tracer *tracer;

	if (options->cut_size)
		smallest.size = least_records(options) * UNIT;
	size.bytes = buffer_bytes(options);
	size.least = buffer_bytes(&smallest);
	tracer = trace_new_page(TRACE_BTS, &size);
	options->size = (size.bytes / ds_configuration->record_size - RING_SPARE -
			 records_beyond(options)) *
			UNIT;
	return bts_of(tracer);
}

/* With stamps two slots are kept: for the gap that follows, and for the stamp that ends it all. */
bool tracer_is_full(const struct bts_tracer *tracer)
{
	size_t left = tracer->ring.size - tracer->ring.used;

	return !tracer_wraps(tracer) && left <= (tracer->options.stamps ? 2 : 0);
}

bool tracer_is_stopped(const struct bts_tracer *tracer)
{
	return tracer->options.overflow == TRACE_STOP && tracer_is_full(tracer);
}

static int create_ring(struct bts_tracer *tracer)
{
	size_t bytes = buffer_bytes(&tracer->options);
	struct ds_request request = {
		.area = trace_memory_alloc(DS_AREA_SIZE),
		.buffer = trace_memory_alloc(bytes),
		.bytes = bytes,
		.filter = TRACE_USER | TRACE_KERNEL,
		.overflow = DS_O_WRAP,
	};
	int error =
		request.area && request.buffer ? ds_request_bts(&tracer->lease, &request) : -ENOMEM;

	if (error) {
		trace_memory_free(request.area, DS_AREA_SIZE);
		trace_memory_free(request.buffer, request.bytes);
		return error;
	}
	ring_init(&tracer->ring, request.area, ring_size(&tracer->options));
	return 0;
}

int tracer_create(const struct bts_options *options, struct bts_tracer **result)
{
	struct bts_options settled = *options;
	struct bts_tracer *tracer;
	int error = tracer_check(options);

	if (error)
		return error;
	tracer = new_tracer(&settled);
	if (!tracer)
		return -ENOMEM;
	tracer_settle_options(&settled, settled.size);
	settled.replaces = NULL;
	tracer->base.overflowed = settled.overflowed;
	tracer->base.argument = settled.argument;
	tracer->options = settled;
	error = create_ring(tracer);
	if (error) {
		tracer_free(&tracer->base);
		return error;
	}
	*result = tracer;
	return 0;
}

bool tracer_free(struct tracer *freed)
{
	struct bts_tracer *tracer = bts_of(freed);
	bool whole = true;

	if (tracer->lease.area) {
		void *area = tracer->ring.area;
		void *buffer = (void *)ds_get(area, DS_BTS_BUFFER_BASE);

		ds_release_bts(&this_cpu()->trace->ds, &tracer->lease);
		whole = trace_memory_free(buffer, buffer_bytes(&tracer->options));
		whole &= trace_memory_free(area, DS_AREA_SIZE);
	}
	return trace_free_page(freed) && whole;
}

unsigned wished_view(const struct trace_context *context)
{
	unsigned view = 0;

	for (const struct bts_tracer *at = bts_first(context); at; at = bts_next(at))
		view |= tracer_records(at) ? at->options.view : 0;
	return view;
}

static void store_record(struct bts_tracer *tracer, const struct bts_struct *record)
{
	if (tracer->missing)
		tracer_put_gap(tracer, 0);
	if (!tracer_is_full(tracer))
		tracer->gap = 0;
	if (!ring_put(&tracer->ring, record, tracer_wraps(tracer)))
		tracer_put_gap(tracer, 1);
	tracer->full |= tracer_is_stopped(tracer);
}

void tracer_put_gap(struct bts_tracer *tracer, uint64_t number)
{
	struct trace_ring *ring = &tracer->ring;
	uint64_t missing = (tracer->missing & GAP_UNKNOWN) | (tracer->missing + number);
	struct bts_struct gap = record_gap(missing & GAP_UNKNOWN ? 0 : missing);
	struct ds_record_64 *last;

	if (!missing || !tracer->options.stamps || !tracer_wants(tracer))
		return;
	tracer->missing = 0;
	if (tracer->gap && tracer->gap >= ring_first(ring)) {
		last = ring_slot(ring, tracer->gap);
		last->to = last->to && gap.to ? last->to + gap.to : 0;
	} else if (tracer_wraps(tracer) || ring->used < ring->size) {
		store_record(tracer, &gap);
		tracer->gap = ring->next - 1;
	} else {
		tracer->missing = missing;
	}
}

void tracer_put(struct bts_tracer *tracer, const struct bts_struct *record)
{
	const struct bts_options *options = &tracer->options;

	if (!tracer_wants(tracer) || options->no_branches || !record_in_view(record, options->view))
		return;
	if (tracer->full || tracer_is_full(tracer)) {
		tracer->ring.lost++;
		tracer_put_gap(tracer, 1);
	} else {
		store_record(tracer, record);
	}
}

bool tracer_has_gap(const struct bts_tracer *tracer, uint64_t position, uint64_t *number)
{
	return tracer->options.stamps && ring_has_gap(&tracer->ring, position, number);
}

size_t tracer_available(const struct bts_tracer *tracer)
{
	uint64_t number;

	return tracer->ring.used + tracer_has_gap(tracer, 0, &number);
}

void tracer_stamp(struct bts_tracer *tracer, unsigned qualifier, unsigned pid, unsigned cpu)
{
	struct bts_struct stamp;
	bool arrives = qualifier == PTRACE_BTS_TASK_ARRIVES;

	if (!tracer->options.stamps || tracer->options.paused || tracer->arrived == arrives ||
	    (arrives && (!tracer_records(tracer) || tracer_is_full(tracer))))
		return;
	tracer->arrived = arrives;
	stamp = record_stamp(qualifier, pid, cpu);
	store_record(tracer, &stamp);
}

void tracer_clear(struct tracer *cleared)
{
	struct bts_tracer *tracer = bts_of(cleared);

	ring_clear(&tracer->ring);
	tracer->truncated = false;
	tracer->gap = tracer->missing = 0;
}
