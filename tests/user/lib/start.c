// SPDX-License-Identifier: MIT
#include "tests/user/lib/user.h"

_Noreturn void start(uint64_t argument);

/* The kernel enters here with the stack as behind a CALL. */
void start(uint64_t argument)
{
	exit(main(argument));
}

void say(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	while (length) {
		long written = system_call(SYS_write, 1, (uint64_t)text, length, 0);

		if (written <= 0)
			return;
		text += written;
		length -= (size_t)written;
	}
}
