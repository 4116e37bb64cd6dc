// SPDX-License-Identifier: MIT
/* view record: runs tools/guests/record of the tree that this program, build/view, is in. */
#define _GNU_SOURCE
#include "tools/view/view.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define TOOL "/tools/guests/record"

/* Returns `path` without its last part. */
static char *directory(char *path)
{
	char *last = strrchr(path, '/');

	if (last)
		*last = 0;
	return path;
}

int view_record(int argc, char **argv)
{
	char path[PATH_MAX + sizeof(TOOL)] = "";

	(void)argc;
	if (readlink("/proc/self/exe", path, PATH_MAX) < 0)
		fail("/proc/self/exe: %s", strerror(errno));
	strcat(directory(directory(path)), TOOL);
	execv(path, argv);
	fail("%s: %s; record needs the tree that view is in", path, strerror(errno));
}
