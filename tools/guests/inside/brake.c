// SPDX-License-Identifier: MIT
/*
 * brake PERF GROUP DIRECTORY: while perf, the process PERF, writes what it recorded, the program
 * that it records is stopped, so that none of its branches is lost however slow the disk or the
 * host are. The program is the first child of PERF; it and what it starts are frozen as the cgroup
 * GROUP. Ends with PERF. Leaves this kernel's vdso below DIRECTORY, where perf would keep it, and
 * `started` there as soon as the program runs.
 *
 * perf wakes up when half of its buffer is full, and then does not wait before it has written all.
 * Frozen is the program, where it is seen so, at the latest PERIOD later.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERIOD	   5000 /* microseconds */
#define PRIORITY   2	/* perf has 1 */
#define VDSO_BYTES 8192 /* two pages, as Linux maps them */

/* Reads the beginning of a file of /proc as text. Returns whether something was there. */
static bool read_text(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count = file < 0 ? -1 : read(file, text, size - 1);

	if (file >= 0)
		close(file);
	text[count > 0 ? count : 0] = 0;
	return count > 0;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
	int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (file < 0 || write(file, bytes, size) != (ssize_t)size)
		fprintf(stderr, "brake: cannot write %s\n", path);
	if (file >= 0)
		close(file);
}

/* The build-id of the ELF file in memory at `image`, as text; empty: it has none. */
static void build_id(const char *image, char *text)
{
	const Elf64_Ehdr *file = (const void *)image;
	const Elf64_Phdr *segments = (const void *)(image + file->e_phoff);

	*text = 0;
	for (int i = 0; i < file->e_phnum; i++) {
		const char *at = image + segments[i].p_offset, *end = at + segments[i].p_filesz;

		while (segments[i].p_type == PT_NOTE && at < end) {
			const Elf64_Nhdr *note = (const void *)at;
			const unsigned char *bytes =
				(const void *)(at + sizeof(*note) + ((note->n_namesz + 3) & ~3u));

			for (unsigned at_byte = 0;
			     note->n_type == NT_GNU_BUILD_ID && at_byte < note->n_descsz; at_byte++)
				sprintf(text + 2 * at_byte, "%02x", bytes[at_byte]);
			at = (const char *)bytes + ((note->n_descsz + 3) & ~3u);
		}
	}
}

/* As perf does: DIRECTORY/.debug/.build-id/AB/CDEF.../vdso. */
static void keep_vdso(const char *directory)
{
	static const char *const formats[] = {"%s/.debug", "%s/.debug/.build-id",
					      "%s/.debug/.build-id/%.2s",
					      "%s/.debug/.build-id/%.2s/%s"};
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
	char id[64], path[512];

	if (!image)
		return;
	build_id(image, id);
	for (size_t i = 0; *id && i < sizeof(formats) / sizeof(formats[0]); i++) {
		snprintf(path, sizeof(path), formats[i], directory, id, id + 2);
		mkdir(path, 0755);
	}
	strcat(path, "/vdso");
	write_file(path, image, VDSO_BYTES);
}

/* WAITS: perf does something that may take long, or for which it may need the program. */
enum doing { ENDED, WAITS, WRITES };

static enum doing what_does(const char *path)
{
	char text[256];

	/* Without a stack it is a zombie; -1 with one is a page fault. */
	if (!read_text(path, text, sizeof(text)) || !strncmp(text, "-1 0x0 ", 7))
		return ENDED;
	if (!strncmp(text, "running", 7) || atoi(text) == SYS_write || atoi(text) == SYS_pwrite64)
		return WRITES;
	return WAITS;
}

/* Whether the program runs: up to then the child executes what perf does. */
static bool has_begun(const char *perf, const char *child)
{
	char path[64];
	struct stat one, other;

	snprintf(path, sizeof(path), "/proc/%s/exe", perf);
	if (stat(path, &one))
		return false;
	snprintf(path, sizeof(path), "/proc/%.*s/exe", (int)strcspn(child, " "), child);
	return !stat(path, &other) && (one.st_dev != other.st_dev || one.st_ino != other.st_ino);
}

int main(int argc, char **argv)
{
	const struct sched_param priority = {PRIORITY};
	char child[64], path[256], state[64], started[256];
	enum doing doing;
	bool frozen = false, begun = false;

	if (argc != 4)
		return 2;
	keep_vdso(argv[3]);
	sched_setscheduler(0, SCHED_FIFO, &priority);
	snprintf(started, sizeof(started), "%s/started", argv[3]);
	snprintf(state, sizeof(state), "/proc/%s/syscall", argv[1]);
	snprintf(path, sizeof(path), "/proc/%s/task/%s/children", argv[1], argv[1]);
	while (!read_text(path, child, sizeof(child)) && what_does(state) != ENDED)
		usleep(PERIOD);
	snprintf(path, sizeof(path), "%s/cgroup.procs", argv[2]);
	write_file(path, child, strcspn(child, " "));
	snprintf(path, sizeof(path), "%s/cgroup.freeze", argv[2]);
	while ((doing = what_does(state)) != ENDED) {
		if (frozen != (doing == WRITES))
			write_file(path, frozen ? "0" : "1", 1);
		frozen = doing == WRITES;
		if (!begun && has_begun(argv[1], child)) {
			begun = true;
			write_file(started, "", 0);
		}
		usleep(PERIOD);
	}
	write_file(path, "0", 1);
	return 0;
}
