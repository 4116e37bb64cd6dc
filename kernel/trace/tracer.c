// SPDX-License-Identifier: MIT
#include "kernel/mm/area.h"
#include "kernel/trace/context.h"
#include "kernel/trace/memory.h"
#include "kernel/trace/record.h"

#define UNIT sizeof(struct ptrace_bts_record) /* what a record is charged */

/* Keeps every product of sizes far from overflow. */
#define MOST_RECORDS (1ul << 24)

/* A tracer stands in a page of its own, which nothing else shares. */
_Static_assert(sizeof(struct tracer) <= PAGE_SIZE, "one page");

static bool in_software;

void trace_filter_in_software(bool always)
{
	in_software = always;
}

unsigned trace_hardware_view(unsigned view)
{
	return ds_caps()->filters && !in_software ? view : TRACE_USER | TRACE_KERNEL;
}

int tracer_check(const struct trace_options *options)
{
	size_t records = options->size / UNIT;

	if (!ds_present())
		return -ENODEV;
	if (options->view & ~(unsigned)(TRACE_USER | TRACE_KERNEL) ||
	    options->overflow > TRACE_STOP || records < 2 || records > MOST_RECORDS ||
	    options->threshold > records)
		return -EINVAL;
	return options->view & TRACE_KERNEL && !options->privileged ? -EPERM : 0;
}

static size_t default_threshold(size_t records)
{
	return records >= 2 * DS_DEFAULT_MARGIN ? records - DS_DEFAULT_MARGIN
						: records - records / 2;
}

void tracer_settle_options(struct trace_options *options, size_t size)
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
 * A tracer in TRACE_SIGNAL is below its threshold when a staging is emptied into its ring, so that
 * with room for one more it cannot lose a record, however late the interrupt comes.
 */
static size_t buffer_bytes(const struct tracer *tracer)
{
	size_t records = tracer->options.size / UNIT;

	if (tracer->options.overflow == TRACE_SIGNAL)
		records += STAGING_RECORDS;
	return records * ds_configuration->record_size;
}

static int build(struct tracer *tracer)
{
	struct ds_request request = {
		.area = trace_memory_alloc(DS_AREA_SIZE),
		.buffer = trace_memory_alloc(buffer_bytes(tracer)),
		.bytes = buffer_bytes(tracer),
		.filter = trace_hardware_view(tracer->options.view),
		.overflow = DS_O_WRAP,
	};
	int error =
		request.area && request.buffer ? ds_request_bts(&tracer->lease, &request) : -ENOMEM;

	if (error) {
		trace_memory_free(request.area, DS_AREA_SIZE);
		trace_memory_free(request.buffer, request.bytes);
		return error;
	}
	ring_init(&tracer->ring, request.area);
	return 0;
}

int tracer_create(const struct trace_options *options, struct tracer **result)
{
	struct tracer *tracer;
	size_t size;
	int error = tracer_check(options);

	if (error)
		return error;
	size = account_charge(options->account, options->size - options->size % UNIT, UNIT,
			      options->cut_size);
	tracer = size >= 2 * UNIT ? area_alloc(1, VM_WRITE) : NULL;
	if (!tracer) {
		account_uncharge(options->account, size);
		return -ENOMEM;
	}
	tracer->options = *options;
	tracer->charged = size;
	tracer_settle_options(&tracer->options, size);
	error = build(tracer);
	if (error) {
		tracer_free(tracer);
		return error;
	}
	*result = tracer;
	return 0;
}

bool tracer_free(struct tracer *tracer)
{
	bool whole = true;

	if (!tracer)
		return true;
	if (tracer->lease.area) {
		void *area = tracer->ring.area;
		void *buffer = (void *)ds_get(area, DS_BTS_BUFFER_BASE);

		ds_release_bts(&this_cpu()->ds, &tracer->lease);
		whole = trace_memory_free(buffer, buffer_bytes(tracer));
		whole &= trace_memory_free(area, DS_AREA_SIZE);
	}
	account_uncharge(tracer->options.account, tracer->charged);
	area_free(tracer, 1);
	return whole;
}

/* Who has stamps keeps a slot for the one that ends what the ring holds. */
static size_t room(const struct tracer *tracer)
{
	size_t left = tracer->ring.size - tracer->ring.used, kept = tracer->options.stamps;

	return left > kept ? left - kept : 0;
}

bool tracer_is_full(const struct tracer *tracer)
{
	return tracer->options.overflow != TRACE_WRAP && !room(tracer);
}

void tracer_put(struct tracer *tracer, const struct bts_struct *record)
{
	if (tracer->full || tracer->options.paused || !record_in_view(record, tracer->options.view))
		return;
	if (tracer_is_full(tracer))
		tracer->ring.lost++;
	else
		ring_put(&tracer->ring, record, tracer->options.overflow == TRACE_WRAP);
	tracer->full = tracer->options.overflow == TRACE_STOP && !room(tracer);
}

void tracer_stamp(struct tracer *tracer, unsigned qualifier, unsigned pid, unsigned cpu)
{
	struct bts_struct stamp = record_stamp(qualifier, pid, cpu);
	bool arrives = qualifier == PTRACE_BTS_TASK_ARRIVES;

	if (!tracer->options.stamps || tracer->options.paused || tracer->arrived == arrives ||
	    (arrives && tracer_is_full(tracer)))
		return;
	tracer->arrived = arrives;
	ring_put(&tracer->ring, &stamp, tracer->options.overflow == TRACE_WRAP);
}
