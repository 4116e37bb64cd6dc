/* SPDX-License-Identifier: MIT */
/* Which build this is; the strings are generated. */
#ifndef SPOOR_LIB_VERSION_H
#define SPOOR_LIB_VERSION_H

extern const char spoor_version[];
extern const char spoor_git[];

#endif
