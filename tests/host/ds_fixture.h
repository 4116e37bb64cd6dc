/* SPDX-License-Identifier: MIT */
/* A CPU with BTS and two buffers to trace into, for the tests of leases, switches and interrupts.
 */
#ifndef SPOOR_TESTS_DS_FIXTURE_H
#define SPOOR_TESTS_DS_FIXTURE_H

#include <string.h>

#include "drivers/ds/ds.h"
#include "drivers/ds/record.h"
#include "drivers/ds/registers.h"
#include "tests/host/fake_cpu.h"

enum { TR = 0x40, BTS = 0x80, BTINT = 0x100, OFF_OS = 0x200, OFF_USR = 0x400 };
enum { RECORDS = 64, MARGIN = 16 };

struct trace_memory {
	_Alignas(64) unsigned char area[DS_AREA_SIZE];
	_Alignas(64) unsigned char buffer[RECORDS * 24];
};

static struct ds_idle idle;
static struct ds_cpu cpu;
static struct debugctl debugctl;
static struct ds_lease a, b;
static struct trace_memory memory_a, memory_b;

static inline int request(struct ds_lease *lease, struct trace_memory *memory,
			  enum ds_overflow overflow, unsigned filter)
{
	return ds_request_bts(lease, &(struct ds_request){.area = memory->area,
							  .buffer = memory->buffer,
							  .bytes = sizeof(memory->buffer),
							  .filter = filter,
							  .overflow = overflow,
							  .margin = MARGIN});
}

static inline int start(void **state)
{
	struct ds_caps caps;

	fake_cpu_reset(NEHALEM);
	debugctl = (struct debugctl){0};
	ds_maximum = DS_MAXIMUM_AT_END;
	a = b = (struct ds_lease){.area = NULL};
	ds_probe(&caps, &idle);
	ds_init(&caps);
	ds_init_cpu(&cpu, &idle, &debugctl);
	fake_log_clear();
	return 0;
}

/* The overflow method that the threshold says. */
static inline enum ds_overflow threshold_says(const void *area)
{
	return ds_get(area, DS_BTS_INTERRUPT_THRESHOLD) > ds_get(area, DS_BTS_ABSOLUTE_MAXIMUM)
		       ? DS_O_WRAP
		       : DS_O_SIGNAL;
}

/* Acts as the hardware for one record; the index is back at the base after the last slot, or
 * stays past it. */
static inline void store_record(void *area, uint64_t from)
{
	size_t at = ds_get_bts_index(area);

	if (at >= ds_get_bts_end(area))
		return;
	ds_record_store(ds_get(area, DS_BTS_BUFFER_BASE) + at * ds_configuration->record_size,
			&(struct bts_struct){.from = from});
	at = at + 1 == ds_get_bts_end(area) && threshold_says(area) == DS_O_WRAP ? 0 : at + 1;
	ds_set(area, DS_BTS_INDEX,
	       ds_get(area, DS_BTS_BUFFER_BASE) + at * ds_configuration->record_size);
}

/* Acts as the hardware for `count` branches, if it records at all. */
static inline void branches(unsigned count)
{
	uint64_t on = TR | BTS;
	void *area = (void *)fake_msr(IA32_DS_AREA)->value;

	if ((fake_msr(IA32_DEBUGCTL)->value & on) != on)
		return;
	for (uint64_t i = 0; i < count; i++)
		store_record(area, i + 1);
}

static inline uint64_t area_of(const struct ds_lease *lease)
{
	return (uintptr_t)lease->area;
}

#endif
