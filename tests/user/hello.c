// SPDX-License-Identifier: MIT
#include "tests/user/lib/user.h"

int main(uint64_t argument)
{
	say("hello from ring 3\n");
	return (int)argument;
}
