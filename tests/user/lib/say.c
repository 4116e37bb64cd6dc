// SPDX-License-Identifier: MIT
#include "tests/user/lib/user.h"

static char line[128];
static size_t length;

static void say_character(char character)
{
	line[length++] = character;
	if (character != '\n' && length < sizeof(line))
		return;
	system_call(SYS_write, 1, (uint64_t)line, length, 0);
	length = 0;
}

void say(const char *text)
{
	while (*text)
		say_character(*text++);
}

void say_number(uint64_t number, unsigned base)
{
	if (number >= base)
		say_number(number / base, base);
	say_character("0123456789abcdef"[number % base]);
}

void check_failed(const char *file, unsigned at)
{
	say(file);
	say(":");
	say_number(at, 10);
	say(": failed\n");
	exit(EXIT_FAILED);
}
