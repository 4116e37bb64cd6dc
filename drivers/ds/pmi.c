/* SPDX-License-Identifier: MIT */
/* The interrupt at the threshold; it knows nothing but the CPU's own record of what is loaded. */
#include "drivers/ds/private.h"

/* A parked threshold lies above the maximum, so that this is news once. */
bool ds_mark_overflow(struct ds_lease *lease)
{
	if (lease->overflow != DS_O_SIGNAL ||
	    ds_get(lease->area, DS_BTS_INDEX) < ds_get(lease->area, DS_BTS_INTERRUPT_THRESHOLD))
		return false;
	lease->overflowed = true;
	ds_set_overflow(lease->area, DS_O_WRAP, 0);
	return true;
}

/* SDM Vol 3, 17.4.9.5: TR is clear while the handler looks. */
bool ds_pmi(struct ds_cpu *cpu)
{
	uint64_t saved = ds_pause();
	bool reached;

	ds_pebs_interrupt(cpu);
	reached = cpu->loaded && ds_mark_overflow(cpu->loaded);
	ds_resume(saved);
	return reached;
}
