// SPDX-License-Identifier: MIT
#include "drivers/ds/private.h"
#include "drivers/ds/record.h"
#include "lib/string.h"

enum { ALIGNMENT = 64 }; /* a cache line: SDM Vol 3, 17.4.9.1 recommends it */

/* The IA32_DEBUGCTL of this filter, or an error: SDM Vol 3, 17.4.8, CPL-qualified encodings. */
static int find_debugctl(unsigned filter, enum ds_overflow overflow, uint64_t *debugctl)
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t value = c->tr | c->bts;

	if (!filter || (filter & ~(unsigned)(DS_USER | DS_KERNEL)))
		return -EINVAL;
	if (filter != (DS_USER | DS_KERNEL)) {
		if (!ds_caps()->filters)
			return -EOPNOTSUPP;
		value |= filter == DS_USER ? c->off_os : c->off_usr;
	}
	if (overflow == DS_O_SIGNAL)
		value |= c->btint;
	*debugctl = value;
	return 0;
}

static bool overlap(const struct ds_request *request)
{
	uintptr_t area = (uintptr_t)request->area, buffer = (uintptr_t)request->buffer;

	return area < buffer + request->bytes && buffer < area + DS_AREA_SIZE;
}

int ds_request_bts(struct ds_lease *lease, const struct ds_request *request)
{
	unsigned char trial[DS_AREA_SIZE] __attribute__((aligned(8))) = {0};
	uint64_t debugctl;
	int error;

	if (!ds_has_bts())
		return -ENODEV;
	if (lease->area || (ds_caps()->suspended_by_pt && ds_pt_is_active()))
		return -EBUSY;
	error = find_debugctl(request->filter, request->overflow, &debugctl);
	if (error)
		return error;
	if (!request->area || (uintptr_t)request->area % ALIGNMENT ||
	    (uintptr_t)request->buffer % ALIGNMENT)
		return -EINVAL;
	/* A refusal changes nothing: try it elsewhere first. */
	if (ds_set_bts_buffer(trial, request->buffer, request->bytes) || overlap(request) ||
	    ds_set_overflow(trial, request->overflow, request->margin))
		return -EINVAL;

	memcpy(request->area, trial, DS_AREA_SIZE);
	ds_clear(request->area);
	*lease = (struct ds_lease){.area = request->area,
				   .overflow = request->overflow,
				   .margin = request->margin,
				   .debugctl = debugctl};
	return 0;
}

int ds_release_bts(struct ds_cpu *cpu, struct ds_lease *lease)
{
	if (!lease->area)
		return -EINVAL;
	if (lease->cpu && lease->cpu != cpu)
		return -EPERM;
	if (lease->cpu)
		ds_switch(cpu, NULL);
	*lease = (struct ds_lease){.area = NULL};
	return 0;
}

/*
 * Sets the index first: an interrupt in between then finds no threshold reached. ds_bts_full()
 * looks at the last two slots.
 */
static void empty(struct ds_lease *lease)
{
	const struct bts_struct none = {BTS_INVALID, 0, 0, 0};
	uintptr_t base = ds_get(lease->area, DS_BTS_BUFFER_BASE);
	size_t record = ds_configuration->record_size;
	uintptr_t end = base + ds_get_bts_end(lease->area) * record;

	ds_set(lease->area, DS_BTS_INDEX, base);
	ds_record_store(end - record, &none);
	ds_record_store(end - 2 * record, &none);
	lease->overflowed = false;
	ds_set_overflow(lease->area, DS_O_SIGNAL, lease->margin);
}

long ds_drain(struct ds_cpu *cpu, struct ds_lease *lease, ds_take *take, void *argument)
{
	size_t count;
	uint64_t saved;

	if (!lease->area || lease->overflow != DS_O_SIGNAL)
		return -EINVAL;
	if (lease->cpu && lease->cpu != cpu)
		return -EPERM;
	saved = lease->cpu ? ds_pause() : 0;
	count = ds_get_bts_index(lease->area);
	take(argument, lease->area, count, ds_bts_full(lease->area));
	empty(lease);
	ds_resume(cpu, saved);
	return (long)count;
}
