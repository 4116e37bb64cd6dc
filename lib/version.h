/* SPDX-License-Identifier: MIT */
/* Which build this is; the strings are generated. */
#pragma once

extern const char spoor_version[];
extern const char spoor_git[];
