// SPDX-License-Identifier: MIT
// What test_stack.c steps through: recursion, calls by pointer, tail calls, longjmp() through many
// frames and out of a signal's handler, signals, a program's start and its end.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/tests/corpus/calls.h"

static jmp_buf place;
static sigjmp_buf signal_place;

struct tree {
	struct tree *left, *right;
	int key;
};

__attribute__((noinline)) static struct tree *insert(struct tree *tree, int key)
{
	static struct tree pool[64];
	static unsigned used;

	if (!tree) {
		tree = &pool[used++ % 64];
		*tree = (struct tree){NULL, NULL, key};
	} else if (key < tree->key) {
		tree->left = insert(tree->left, key);
	} else {
		tree->right = insert(tree->right, key);
	}
	return tree;
}

__attribute__((noinline)) static unsigned depth_of(const struct tree *tree)
{
	unsigned left = tree ? depth_of(tree->left) : 0, right = tree ? depth_of(tree->right) : 0;

	return tree ? 1 + (left > right ? left : right) : 0;
}

/* setjmp() in the outermost activation only: the jump goes over those of the same function. */
__attribute__((noinline)) static unsigned descend(unsigned level, unsigned most)
{
	if (level == 0 && setjmp(place))
		return 1;
	if (level == most)
		longjmp(place, 1);
	sink += level;
	return descend(level + 1, most) + 1;
}

__attribute__((noinline)) static void handler(int number)
{
	sink += first((unsigned)number);
	if (number == SIGUSR2)
		siglongjmp(signal_place, 1);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int main(void)
{
	int numbers[60];
	struct tree *tree = NULL;
	char text[64];

	signal(SIGUSR1, handler);
	signal(SIGUSR2, handler);
	for (unsigned turn = 0; turn < 4; turn++) {
		for (int i = 0; i < 60; i++)
			numbers[i] = rand() % 1000;
		qsort(numbers, 60, sizeof(numbers[0]), compare);
		tree = NULL;
		for (int i = 0; i < 20; i++)
			tree = insert(tree, rand() % 1000);
		sink += depth_of(tree);
		for (unsigned i = 0; i < 10; i++)
			sink += first(i) + descend(0, i);
		raise(SIGUSR1);
		if (!sigsetjmp(signal_place, 1))
			raise(SIGUSR2);
		snprintf(text, sizeof(text), "%u %s %d", sink, "text", numbers[7]);
		sink += (unsigned)strlen(text);
	}
	return 0;
}
