// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tools/view/output.h"

#include "tools/view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART "view-XXXXXX.part"

static const char *path;
static char *target, *part; /* NULL: written in place */
static FILE *file;
static int error; /* errno of the first write that failed; stdio forgets it */

static void remove_part(void)
{
	if (part)
		unlink(part);
}

static void end_by(int signal_number)
{
	remove_part();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* What would end the program without a word becomes an error, or takes the part with it. */
static void catch_signals(void)
{
	static const int ends[] = {SIGHUP, SIGINT, SIGTERM};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (signal(ends[i], end_by) == SIG_IGN)
			signal(ends[i], SIG_IGN);
}

/* A link that leads nowhere makes a new file there. */
static bool is_in_place(const struct stat *is)
{
	struct stat link;

	if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6))
		return true;
	return is ? !S_ISREG(is->st_mode) : !lstat(path, &link);
}

/* As its owner may read and write what it takes the place of. */
static void set_mode(int fd, const struct stat *is)
{
	mode_t mask = umask(0);

	umask(mask);
	fchmod(fd, is ? is->st_mode & 0777 : 0666 & ~mask);
}

/* -1, with errno: it cannot be. */
static int open_part(const struct stat *is)
{
	static bool registered;
	const char *slash;
	char *name;
	int fd;

	if (is && access(path, W_OK))
		return -1;
	target = is ? realpath(path, NULL) : strdup(path);
	slash = target ? strrchr(target, '/') : NULL;
	if (!target ||
	    asprintf(&name, "%.*s" PART, (int)(slash ? slash + 1 - target : 0), target) < 0)
		return -1;
	fd = mkostemps(name, strlen(".part"), O_CLOEXEC);
	if (fd < 0)
		return -1;
	part = name;
	if (!registered)
		atexit(remove_part);
	registered = true;
	set_mode(fd, is);
	return fd;
}

/* All, or stdio takes it for an error. */
static ssize_t write_out(void *cookie, const char *bytes, size_t count)
{
	size_t done = 0;

	while (done < count && !error) {
		ssize_t written = write((int)(intptr_t)cookie, bytes + done, count - done);

		if (written >= 0)
			done += (size_t)written;
		else if (errno != EINTR)
			error = errno;
	}
	return (ssize_t)done;
}

static int close_out(void *cookie)
{
	if (!close((int)(intptr_t)cookie))
		return 0;
	error = error ? error : errno;
	return -1;
}

/* Whether `name`, "-": standard input, is the file `is`. */
static bool is_same(const char *name, const struct stat *is)
{
	struct stat other;
	int result = strcmp(name, "-") ? stat(name, &other) : fstat(STDIN_FILENO, &other);

	return !result && other.st_dev == is->st_dev && other.st_ino == is->st_ino;
}

static bool is_input(const struct trace *trace, const struct stat *is)
{
	bool input = is_same(trace->path, is);

	for (size_t i = 0; i < trace->code_count; i++)
		input |= is_same(code_path(trace->codes[i]), is);
	return input;
}

FILE *output_open(const char *name, const struct trace *trace)
{
	struct stat is;
	bool there = !stat(name, &is);
	int fd;

	path = name;
	if (there && S_ISBLK(is.st_mode))
		fail("%s: is a disk, which is not written over", path);
	if (there && S_ISREG(is.st_mode) && is_input(trace, &is))
		fail("%s: is an input, which is not written over", path);
	catch_signals();
	fd = is_in_place(there ? &is : NULL)
		     ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
		     : open_part(there ? &is : NULL);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	file = fopencookie((void *)(intptr_t)fd, "w",
			   (cookie_io_functions_t){.write = write_out, .close = close_out});
	if (!file)
		fail("%s: no memory", path);
	return file;
}

void output_keep(void)
{
	fclose(file);
	if (!error && part && rename(part, target))
		error = errno;
	if (error)
		fail("%s: %s", path, strerror(error));
	free(part);
	free(target);
	part = target = NULL;
}
