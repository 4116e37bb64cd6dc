// SPDX-License-Identifier: MIT
#include "tests/user/lib/user.h"

_Noreturn void start(uint64_t argument);

/* The kernel enters here with the stack as behind a CALL. */
void start(uint64_t argument)
{
	exit(main(argument));
}
