// SPDX-License-Identifier: MIT
#include "tests/framework/select.h"

bool glob_match(const char *pattern, size_t length, const char *text)
{
	if (!length)
		return !*text;
	if (*pattern == '*') {
		for (;; text++) {
			if (glob_match(pattern + 1, length - 1, text))
				return true;
			if (!*text)
				return false;
		}
	}
	if (!*text || (*pattern != '?' && *pattern != *text))
		return false;
	return glob_match(pattern + 1, length - 1, text + 1);
}
