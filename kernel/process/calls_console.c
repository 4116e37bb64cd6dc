// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/console.h"
#include "kernel/mm/copy.h"
#include "kernel/process/internal.h"
#include "lib/format.h"

/* Bytes written at once; the caller goes on with the rest, as with any write(). */
#define MOST 256

void (*process_said)(const struct process *process, const char *line);

/* Behind its name, printable: nothing it writes can be taken for a result. */
static void print_line(const struct process *self, char *line, size_t length)
{
	char text[MOST + 1];

	for (size_t i = 0; i < length; i++)
		if (line[i] < ' ' || line[i] > '~')
			line[i] = '.';
	format(text, sizeof(text), "%.*s", (int)length, line);
	printk("# %s: %s\n", self->name, text);
	if (process_said)
		process_said(self, text);
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
