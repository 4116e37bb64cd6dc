/* SPDX-License-Identifier: MIT */
/* The file that a command writes, one at a time. */
#pragma once

#include "tools/view/trace.h"

#include <stdio.h>

/*
 * Opens `path`, which stays valid until output_keep(). A regular file, or the one that a link leads
 * to, has its new contents when these are whole: until then they are in a file next to it, which
 * goes where the program ends first. A FIFO, a device of characters and a name in /dev or /proc are
 * written in place. Ends the program if it cannot, or if the file is what `trace` was read from:
 * the line or file `trace->path`, and the ELF files that are open.
 */
FILE *output_open(const char *path, const struct trace *trace);

/* Closes the file, which is whole. Ends the program if something was not written. */
void output_keep(void);
