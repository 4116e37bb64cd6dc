/* SPDX-License-Identifier: MIT */
/* The monitor's own command line. */
#ifndef SPOOR_MONITOR_OPTIONS_H
#define SPOOR_MONITOR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/boot_info.h"

enum vbts { VBTS_AUTO, VBTS_ON, VBTS_OFF };

struct options {
	enum vbts vbts;
	bool lockstep;
	bool end_exit;
	uint16_t console_port; /* 0: none */
	uint32_t baud;
};

/*
 * False with a sentence in `error`. Whatever could be read is in `options` all the same, so that
 * the run can end with a verdict.
 */
bool options_parse(struct options *options, const char *line, char *error, size_t error_size);

/* The words of `string`: without the file name, where this loader puts one first. */
const char *loader_words(const struct boot_info *info, const char *string);

#endif
