// SPDX-License-Identifier: MIT
#include "tests/host/ds_fixture.h"

struct ds_idle idle;
struct ds_cpu cpu;
struct debugctl debugctl;
struct ds_lease a, b;
struct trace_memory memory_a, memory_b;

int request(struct ds_lease *lease, struct trace_memory *memory, enum ds_overflow overflow,
	    unsigned filter)
{
	return ds_request_bts(lease, &(struct ds_request){.area = memory->area,
							  .buffer = memory->buffer,
							  .bytes = sizeof(memory->buffer),
							  .filter = filter,
							  .overflow = overflow,
							  .margin = MARGIN});
}

int start(void **state)
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

enum ds_overflow threshold_says(const void *area)
{
	return ds_get(area, DS_BTS_INTERRUPT_THRESHOLD) > ds_get(area, DS_BTS_ABSOLUTE_MAXIMUM)
		       ? DS_O_WRAP
		       : DS_O_SIGNAL;
}

void store_record(void *area, uint64_t from)
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

void branches(unsigned count)
{
	uint64_t on = TR | BTS;
	void *area = (void *)fake_msr(IA32_DS_AREA)->value;

	if ((fake_msr(IA32_DEBUGCTL)->value & on) != on)
		return;
	for (uint64_t i = 0; i < count; i++)
		store_record(area, i + 1);
}

uint64_t area_of(const struct ds_lease *lease)
{
	return (uintptr_t)lease->area;
}
