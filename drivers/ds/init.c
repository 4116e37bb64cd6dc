/* SPDX-License-Identifier: MIT */
#include "drivers/ds/private.h"

static struct ds_caps adopted;

void ds_init(const struct ds_caps *caps)
{
	adopted = *caps;
}

const struct ds_caps *ds_caps(void)
{
	return &adopted;
}

bool ds_present(void)
{
	return adopted.status == DS_PRESENT;
}

void ds_init_cpu(struct ds_cpu *cpu, struct ds_idle *idle)
{
	*cpu = (struct ds_cpu){.idle = idle};
	if (!ds_present())
		return;
	ds_set_bts_buffer(idle->area, idle->buffer, sizeof(idle->buffer));
	ds_load_area(cpu, idle->area);
}
