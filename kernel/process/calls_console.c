// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/console.h"
#include "kernel/mm/copy.h"
#include "kernel/process/internal.h"

/* Bytes written at once; the caller goes on with the rest, as with any write(). */
#define MOST 256

/* Behind its name, printable: nothing it writes can be taken for a result. */
static void print_line(const struct process *self, char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (line[i] < ' ' || line[i] > '~')
			line[i] = '.';
	printk("# %s: %.*s\n", self->name, (int)length, line);
}

long call_write(struct process *self, const uint64_t *argument)
{
	size_t bytes = argument[2] < MOST ? argument[2] : MOST, start = 0;
	char text[MOST];

	if (argument[0] != 1 && argument[0] != 2)
		return -EBADF;
	if (copy_from_user(text, argument[1], bytes))
		return -EFAULT;
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] != '\n' && i + 1 < bytes)
			continue;
		print_line(self, text + start, i - start + (text[i] != '\n'));
		start = i + 1;
	}
	return (long)bytes;
}
