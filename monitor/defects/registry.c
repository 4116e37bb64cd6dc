/* SPDX-License-Identifier: MIT */
#include "lib/string.h"
#include "monitor/defects/defect.h"

#include <stddef.h>

extern const struct defect *const __start_defects[], *const __stop_defects[];

const struct defect *defect_get(unsigned n)
{
	return n < (size_t)(__stop_defects - __start_defects) ? __start_defects[n] : NULL;
}

const struct defect *defect_find(const char *name)
{
	const struct defect *defect;

	for (unsigned n = 0; (defect = defect_get(n)); n++)
		if (strcmp(defect->name, name) == 0)
			return defect;
	return NULL;
}
