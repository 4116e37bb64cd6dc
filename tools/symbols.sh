#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints, as a C file, the functions of the ELF named in $1 for the kernel's own backtraces.
set -eu

cat <<'HEAD'
/* Generated. */
#include "kernel/symbols.h"
__attribute__((section(".symbols"))) const struct symbol symbols[] = {
HEAD
if [ -s "$1" ]; then
	nm -n "$1" | awk '$2 ~ /^[tT]$/ && length($1) == 16 && substr($1, 1, 8) == "ffffffff" && $3 !~ /\./ \
		{ printf "{0x%sul, \"%s\"},\n", $1, $3 }'
fi
echo '{0, 0}};'
