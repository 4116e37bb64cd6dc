/* SPDX-License-Identifier: MIT */
/* A call by pointer, and two tail calls: what jumps.c and ../stepped.c have in common. */
#pragma once

static volatile unsigned sink;

__attribute__((noinline)) static unsigned last(unsigned number)
{
	for (unsigned i = 0; i < number % 5; i++)
		sink += i;
	return sink;
}

/* Both end with a jump where the compiler can. */
__attribute__((noinline)) static unsigned middle(unsigned number)
{
	sink ^= number;
	return last(number + 1);
}

__attribute__((noinline)) static unsigned first(unsigned number)
{
	unsigned (*volatile next)(unsigned) = middle;

	sink += 3;
	return next(number * 2);
}
