// SPDX-License-Identifier: MIT
// 2,048 functions, in which at least 20,000 different branches are taken, at random. argument: a
// seed in the low, how many rounds more in the high 32 bits.
#include "tests/user/lib/user.h"

static volatile unsigned sink;

#define FUNCTION(n)                                                                                \
	__attribute__((noinline)) static unsigned function_##n(unsigned x)                         \
	{                                                                                          \
		unsigned y = 0x##n;                                                                \
                                                                                                   \
		do {                                                                               \
			if (x & 1)                                                                 \
				sink = y;                                                          \
			if (x & 2)                                                                 \
				y ^= x + 0x##n;                                                    \
			else                                                                       \
				sink = x;                                                          \
			if (x & 4)                                                                 \
				sink = y + x;                                                      \
			x >>= 1;                                                                   \
		} while (x);                                                                       \
		return y;                                                                          \
	}
#define NAME(n) function_##n,

#define FOUR(what, n, a, b, c, d) what(n##a) what(n##b) what(n##c) what(n##d)
#define SIXTEEN(what, n)                                                                           \
	FOUR(what, n, 0, 1, 2, 3)                                                                  \
	FOUR(what, n, 4, 5, 6, 7)                                                                  \
	FOUR(what, n, 8, 9, a, b)                                                                  \
	FOUR(what, n, c, d, e, f)
#define PAGE(what, n)                                                                              \
	SIXTEEN(what, n##0)                                                                        \
	SIXTEEN(what, n##1)                                                                        \
	SIXTEEN(what, n##2)                                                                        \
	SIXTEEN(what, n##3)                                                                        \
	SIXTEEN(what, n##4)                                                                        \
	SIXTEEN(what, n##5)                                                                        \
	SIXTEEN(what, n##6)                                                                        \
	SIXTEEN(what, n##7)                                                                        \
	SIXTEEN(what, n##8)                                                                        \
	SIXTEEN(what, n##9)                                                                        \
	SIXTEEN(what, n##a)                                                                        \
	SIXTEEN(what, n##b)                                                                        \
	SIXTEEN(what, n##c)                                                                        \
	SIXTEEN(what, n##d)                                                                        \
	SIXTEEN(what, n##e)                                                                        \
	SIXTEEN(what, n##f)
#define ALL(what)                                                                                  \
	PAGE(what, 1)                                                                              \
	PAGE(what, 2)                                                                              \
	PAGE(what, 3)                                                                              \
	PAGE(what, 4)                                                                              \
	PAGE(what, 5)                                                                              \
	PAGE(what, 6)                                                                              \
	PAGE(what, 7)                                                                              \
	PAGE(what, 8)

ALL(FUNCTION)

static unsigned (*const functions[])(unsigned) = {ALL(NAME)};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

int main(uint64_t argument)
{
	uint64_t seed = (uint32_t)argument, rounds = 1 + (argument >> 32);

	for (uint64_t turn = 0; turn < rounds * FUNCTIONS; turn++) {
		unsigned i = turn % FUNCTIONS;
		unsigned pick = (unsigned)random_next(&seed);

		sink += functions[i](pick & 0xfff);
		sink += functions[pick % FUNCTIONS](i & 0x3f);
	}
	return 0;
}
