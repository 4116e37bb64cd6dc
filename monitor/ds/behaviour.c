/* SPDX-License-Identifier: MIT */
#include "monitor/ds/behaviour.h"

const struct ds_behaviour ds_behaviour_default = {
	.name = "default",
	.room = DS_ROOM_WHOLE_RECORD,
	.wrap = DS_WRAP_AFTER_INCREMENT,
	.full = DS_FULL_DROP,
	.threshold = DS_THRESHOLD_REACHED,
	.compare_before_increment = false,
	.interrupt_when_circular = true,
	.filter = DS_FILTER_BY_TARGET,
};
