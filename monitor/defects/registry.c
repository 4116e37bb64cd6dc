// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "monitor/defects/defect.h"

#include <stddef.h>

extern const struct defect *const __start_defects[], *const __stop_defects[];
extern const struct defect *const __start_errata[], *const __stop_errata[];

const struct defect *defect_get(unsigned n)
{
	return n < (size_t)(__stop_defects - __start_defects) ? __start_defects[n] : NULL;
}

const struct defect *erratum_get(unsigned n)
{
	return n < (size_t)(__stop_errata - __start_errata) ? __start_errata[n] : NULL;
}

static const struct defect *find(const struct defect *get(unsigned n), const char *name)
{
	const struct defect *defect;

	for (unsigned n = 0; (defect = get(n)); n++)
		if (strcmp(defect->name, name) == 0)
			return defect;
	return NULL;
}

const struct defect *defect_find(const char *name)
{
	return find(defect_get, name);
}

const struct defect *erratum_find(const char *name)
{
	return find(erratum_get, name);
}
