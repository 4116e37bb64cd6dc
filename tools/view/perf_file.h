/* SPDX-License-Identifier: MIT */
/*
 * perf.data of Linux (tools/perf/Documentation/perf.data-file-format.txt, linux/perf_event.h):
 * records in a buffer and the file around them, written; and read, with the branch trace in it.
 */
#pragma once

#include "tools/view/trace.h"

#include <linux/perf_event.h>

#define PERF_ID 1 /* of the one event */

/* Bytes one after the other. */
struct buffer {
	uint8_t *bytes;
	size_t used, room;
};

void put(struct buffer *buffer, const void *bytes, size_t count);
void put64(struct buffer *buffer, uint64_t number);
void put32(struct buffer *buffer, uint32_t number);

/* A text with its 0, padded with more of them to a multiple of `unit`, 64 at most. */
void put_text(struct buffer *buffer, const char *text, size_t unit);

/* Begins a record, returns where; end_record() fills in its size. */
size_t begin_record(struct buffer *buffer, uint32_t type, uint16_t misc);
void end_record(struct buffer *buffer, size_t start);

/*
 * Writes `path` as a whole: one event `name` with `attr`, the records of `data`, the build-ids of
 * the trace's files. Ends the program if it cannot.
 */
void perf_write(const char *path, const struct trace *trace, const struct perf_event_attr *attr,
		const char *name, const struct buffer *data);

/* --- Read: perf_read.c, all but samples
 * -----------------------------------------------------------
 */

/* tools/perf, perf.h and util/event.h: records that perf writes, not the kernel. */
enum {
	PERF_AUXTRACE_INFO = 70,
	PERF_AUXTRACE = 71,
	PERF_ID_INDEX = 69,
};

/* Of PERF_AUXTRACE_INFO. */
enum { PERF_AUXTRACE_NONE = 0, PERF_AUXTRACE_PT = 1, PERF_AUXTRACE_BTS = 2 };

#define PERF_NOBODY UINT32_MAX /* a pid, tid or CPU that a record does not have */

struct perf_item {
	uint32_t type;
	uint16_t misc;
	uint32_t pid, tid, cpu; /* of its sample_id; PERF_NOBODY */
	uint64_t time;		/* nanoseconds; 0: perf wrote it at its start, or none has one */
	const uint8_t *body;	/* after the header */
	size_t size;
	const uint8_t *trace; /* PERF_AUXTRACE: the bytes after it */
	size_t trace_size;
};

struct perf_build_id {
	const char *path;
	uint8_t bytes[20];
	uint8_t size;
};

struct perf_data {
	const char *path;
	char *file; /* all of it */
	size_t size;
	struct perf_item *items; /* by time, then by their place */
	size_t count;
	struct perf_build_id *build_ids;
	size_t build_id_count;
	struct perf_event_attr *attrs;
	uint64_t *ids; /* pairs: an id, the place of its event in `attrs` */
	size_t attr_count, id_count;
	char release[64], processor[64], version[64]; /* "": not known */
	uint32_t cpus, signature;		      /* `signature`: CPUID.1:EAX */
	char flaw[128];				      /* "": it is whole */
};

/* Whether the bytes begin as perf.data does. */
bool perf_is_data(const char *bytes, size_t size);

/*
 * Takes `file`, which free() frees. Ends the program with a sentence if this is not what `perf
 * record` writes on x86-64. What is cut has `flaw` and the items that are there.
 */
struct perf_data *perf_read(const char *path, char *file, size_t size);
void perf_free(struct perf_data *data);

/* A number of an item's body at `at`; 0 where it is shorter. */
uint64_t perf_number(const struct perf_item *item, size_t at, size_t bytes);

/* A string of an item's body at `at`, with its 0; "" where there is none. */
const char *perf_text(const struct perf_item *item, size_t at);

/* The event with this id; NULL: there is none. */
const struct perf_event_attr *perf_attr(const struct perf_data *data, uint64_t id);

/*
 * The build-id of the file `path` that a record PERF_RECORD_MMAP or _MMAP2 has, of which the body
 * has 64 bytes at least; `*size` 0: none is known.
 */
const uint8_t *perf_build_id(const struct perf_data *data, const struct perf_item *item,
			     const char *path, size_t *size);

/* --- A trace out of it: perf_tasks.c, perf_load.c, perf_streams.c
 * ---------------------------------
 */

/* A program that a task executes. */
struct perf_program {
	uint64_t since; /* when */
	struct maps *maps;
	size_t stream; /* its place in the trace; SIZE_MAX: it has none */
	char name[64];
};

struct perf_task {
	uint32_t tid;
	struct perf_program *executed; /* one after the other */
	size_t count;
	size_t begun;  /* the program of `executed` that the last bytes are of */
	uint64_t last; /* when they were written */
	bool any, gap; /* it has bytes; some are missing after them */
	bool has_stream;
	bool running; /* on `cpu`, by its stamps */
	bool ended;
	uint32_t cpu;
};

/* A task runs a program of those that it executes. */
struct perf_stay {
	struct perf_task *task;
	size_t program;
	uint64_t time; /* from then on */
};

/* Bytes that the processor wrote: of one ring, one after the other. */
struct perf_piece {
	size_t stay, stay_count; /* of all stays: those that may have been meanwhile */
	const uint8_t *bytes;
	size_t size;
	uint64_t ring, offset; /* `ring`: of a CPU, or PERF_RING_OF_TASK and a task's */
	bool gap;	       /* before them */
};

/* A task arrives on a CPU, or departs. */
struct perf_stamp {
	struct perf_stay at;
	struct trace_record record;
};

#define PERF_RING_OF_TASK (1ull << 32)

/* Records of a stream, from a time on. */
struct perf_run {
	size_t stream;
	uint64_t time;
	size_t place; /* before others of that time */
	const struct trace_record *records;
	size_t count;
};

struct perf_load {
	struct trace *trace;
	struct perf_data *data;
	const struct perf_event_attr *attr; /* of the branch trace */
	unsigned unit;			    /* PERF_AUXTRACE_PT or _BTS */
	bool snapshot, executed;	    /* `executed`: the program that perf began has */
	bool of_cpus;			    /* all tasks are recorded: perf record -a */
	bool timed;			    /* with packets MTC or CYC */
	bool switches;			    /* perf says when a task runs */
	void *processes, *tasks;	    /* roots of tsearch() */
	struct maps **maps;		    /* all of them */
	size_t maps_count, all_maps;
	size_t replaced; /* how often a file took the place of another one in memory */
	struct perf_chunk *chunks;
	size_t chunk_count;
	void *cpus; /* the root of tsearch() */
	struct perf_piece *pieces;
	size_t piece_count;
	struct perf_stay *stays;
	size_t stay_count;
	struct perf_stamp *stamps;
	size_t stamp_count;
	void *files;	     /* files_add() */
	unsigned time_shift; /* from time stamps of the processor to perf's time */
	uint64_t time_mult, time_zero;
	struct perf_run *runs;
	size_t run_count;
	void **kept; /* what `runs` are in */
	size_t kept_count;
	const struct code *kernel;
	uint32_t other_ids;
	uint64_t lost, truncated;
};

/* The task `tid` of the process `pid`, a new one if need be; that which is there, or NULL. */
struct perf_task *perf_task(struct perf_load *load, uint32_t pid, uint32_t tid);
struct perf_task *perf_find_task(struct perf_load *load, uint32_t tid);

/* PERF_RECORD_COMM, _FORK, _MMAP and _MMAP2. Of a name the task that executes a program, or NULL.
 */
struct perf_task *perf_take_name(struct perf_load *load, const struct perf_item *item);
void perf_take_fork(struct perf_load *load, const struct perf_item *item);
void perf_take_map(struct perf_load *load, const struct perf_item *item);
void perf_free_tasks(struct perf_load *load);

/* Whose the bytes are: makes `pieces`. Ends the program if a task has more than one can have. */
void perf_take_items(struct perf_load *load);
void perf_free_bytes(struct perf_load *load);

/* Makes `trace` one of perf.data, `file`; its streams are there after perf_open_code(). */
void perf_load(struct trace *trace, char *file, size_t size);

/* What trace_open_code() does of perf.data: the files of its tasks are opened, its streams made. */
void perf_open_code(struct trace *trace, const char *program, const char *directory);
void perf_unload(struct trace *trace);
