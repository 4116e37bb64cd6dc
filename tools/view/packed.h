/* SPDX-License-Identifier: MIT */
/* What a page has inside: gzip in base64, and strings of JSON. */
#pragma once

#include <stdio.h>

/*
 * A file, never NULL: what is written to it is put into `page` as gzip in base64, the last of it by
 * fclose(). Nothing else may be written to `page` before. Ends the program without memory.
 */
FILE *packed_open(FILE *page);

/* Writes `text` as a string of JSON, which may be in a script of a page. */
void packed_string(FILE *to, const char *text);
