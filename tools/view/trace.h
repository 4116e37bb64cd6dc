/* SPDX-License-Identifier: MIT */
/* A whole trace in memory: its streams, their records one after the other, the code that ran. */
#pragma once

#include "tools/view/code.h"
#include "tools/view/stream.h"

/* What ran while a part was recorded, one after the other: the stream with its branches. */
struct trace_program {
	size_t stream; /* its place in the trace */
	const struct space *space;
	uint64_t tsc; /* from then on, or later; 0: not known */
};

/* A frame BRANCHES, MARK, PACKETS or SAMPLES, of one stream. */
struct trace_part {
	struct trace_frame header;
	const uint8_t *payload;
	size_t size, line_size;
	/* Of perf.data: what ran meanwhile. */
	const struct trace_program *programs;
	size_t program_count;
};

struct trace_parts {
	struct trace_part *part;
	size_t count, room;
};

struct trace_stream {
	uint32_t id;
	uint32_t tid;		     /* of Linux, where the id is another; 0: it is the id */
	char name[64], program[128]; /* "": not known */
	uint32_t checksum, view;     /* 0: not known */
	struct trace_parts parts;    /* BRANCHES and MARK */
	struct trace_parts
		packets; /* PACKETS: their records are in `parts` once the code is open */
	struct trace_parts samples; /* SAMPLES */
	uint64_t records, stamps, lost, line_bytes;
	uint64_t instructions;	  /* that the packets show; 0: there are none */
	struct trace_total taken; /* of the frames that are here */
	struct trace_total total; /* as END has it */
	bool totalled;
	uint32_t sum, sum_sent; /* CRC32C of the records; of SUM */
	bool summed;
	bool decoded;  /* its records are of packets of perf.data */
	bool recorded; /* it has a total, or frames that END has a total for */
	struct space space;
	const struct trace *trace; /* once the code is open */
};

/* From frame `sequence` on CR3 is that of the program of a task. */
struct trace_root {
	uint32_t sequence, task;
	uint64_t cr3;
};

struct trace {
	const char *path;
	char *inside; /* the path in a directory that was given; NULL: a file was */
	char name[128], version[64], silicon[64];
	char flaw[128]; /* of perf.data; "": none */
	uint8_t build_id[32];
	size_t build_id_size;
	uint32_t processor, cpus;
	uint64_t tsc_hz;
	uint64_t *entries; /* sorted */
	size_t entry_count;
	struct trace_stream *streams;
	size_t stream_count, stream_room, recorded_count;
	uint32_t *order;	  /* of the streams, by their ids */
	struct trace_root *roots; /* by CR3, then as they were sent, once the code is open */
	uint32_t *root_sequences; /* sorted */
	size_t root_count;
	struct stream_received received;
	bool greeted, ended;
	uint64_t untraced; /* tasks and CPUs that the sender was to trace and could not */
	struct code **codes;
	size_t code_count;
	/* Of its packets of time (SDM volume 3, 33.8.3.1): 0 where they are not known. */
	uint32_t tsc_ratio[2];		   /* CPUID.15H: EAX, EBX */
	uint8_t mtc_period, nominal_ratio; /* MTCFreq; MSR_PLATFORM_INFO, bits 15 to 8 */
	struct perf_load *perf; /* perf.data that it was read from; NULL: a trace stream */
	/* Before it is loaded, what a frame was wrong with; NULL: none. */
	const char *wrong;
};

/*
 * Takes one frame into the trace: the payload is copied. False with trace->wrong set: it was made
 * wrongly.
 */
bool trace_take(struct trace *trace, const struct trace_frame *header, const uint8_t *payload,
		size_t size, size_t line_size);

/* The first thing that the trace lacks, as a sentence; NULL: it is whole. */
const char *trace_flaw(const struct trace *trace, char *text, size_t size);

/*
 * Reads a file, or perf.data, also in the directory of `perf record --kcore`, whose streams are
 * there once the code is open. Ends the program with a sentence if it is no trace stream, or lacks
 * something and not `damaged`.
 */
struct trace *trace_load(const char *path, bool damaged);
void trace_free(struct trace *trace);

/* The stream `id`, a new one if need be. NULL with trace->wrong set: a trace cannot have it. */
struct trace_stream *trace_stream(struct trace *trace, uint32_t id);

/* The stream `id`; NULL: there is none. */
const struct trace_stream *trace_find(const struct trace *trace, uint32_t id);

/* The CPU whose stream this is; -1: it is a task's. */
int trace_stream_cpu(const struct trace_stream *stream);

/* "task 12 (hello)", "CPU 0", "CPU 0 (PT)". */
const char *trace_stream_name(const struct trace_stream *stream, char *text, size_t size);

/*
 * Opens the kernel's file `elf` and, for each stream with a program,
 * that program: `program` if it is given, else DIRECTORY/NAME.elf, NULL: in build/user. Of
 * perf.data the files that tasks had in memory, below DIRECTORY if it is given. A file that is not
 * what ran ends the program with a sentence, and so does a NAME with a directory; one that is not
 * there is a warning, and its code is unknown.
 */
void trace_open_code(struct trace *trace, const char *elf, const char *program,
		     const char *directory);

/*
 * The program with this CR3 in packets of which frame `sequence` is the last: the one that was sent
 * last before them. NULL: none, or `trace` is NULL.
 */
const struct trace_root *trace_root(const struct trace *trace, uint64_t cr3, uint32_t sequence);

/* Whether a program began between two frames: then CR3 may be another's, and a trace begins. */
bool trace_has_root(const struct trace *trace, uint32_t first, uint32_t last);

/*
 * The file `path` that a task of Linux had in memory, of `files`, the root of a tree; `size` 0: its
 * build-id is not known. The same for the same path and build-id.
 */
const struct mapped_file *files_add(void **files, const char *path, const uint8_t *build_id,
				    size_t size);

/*
 * Opens all: `program` for those of its name, else DIRECTORY/PATH or DIRECTORY/NAME, without a
 * directory PATH, and what `perf record` has kept in ~/.debug. A file that is not there, or has
 * another build-id, is a warning.
 */
void files_open(struct trace *trace, void *files, const char *program, const char *directory);

/* The kernel that `perf record --kcore` has kept with a trace; NULL: none. */
const struct code *kernel_open(struct trace *trace);

/* Its code, the byte at `offset` being at `address`; NULL: it is not known. */
const struct code *file_code(const struct mapped_file *file, uint64_t address, uint64_t offset);
void files_free(void *files);

/*
 * The code that the task `pid` runs, whose stream is there; else, and where `stream` is a task's,
 * that of the stream. The code is open.
 */
const struct space *trace_space(const struct trace_stream *stream, uint32_t pid);

/* Gives `stream` a part more; the payload is copied. */
void trace_add_part(struct trace_parts *parts, const struct trace_frame *header,
		    const uint8_t *payload, size_t size, size_t line_size);

/* Gives `stream` records of branches and stamps more, without a frame that they were in. */
void trace_add_records(struct trace_stream *stream, const struct trace_record *records,
		       size_t count);

/* Goes through the records of one stream. */
struct cursor {
	const struct trace *trace;
	const struct trace_stream *stream;
	size_t part, at, count; /* the frame, and the record in it */
	uint64_t index;		/* of the next record in its stream */
	struct trace_record *records;
	int cpu;      /* where the task is; of a CPU's stream, that CPU; -1: not known */
	uint32_t pid; /* that runs; of a task's stream, that task */
};

void cursor_start(struct cursor *cursor, const struct trace *trace,
		  const struct trace_stream *stream);

/* What is next in a stream. */
enum cursor_kind {
	CURSOR_END,
	CURSOR_BRANCH,
	CURSOR_STAMP,
	CURSOR_GAP,  /* `missing` records are missing here; 0: their number is not known */
	CURSOR_MARK, /* `text`, `text_size` */
};

struct cursor_item {
	enum cursor_kind kind;
	uint64_t index; /* of the record, or of the next one */
	bool has_record;
	struct trace_record record;
	unsigned qualifier; /* of a stamp */
	int cpu;	    /* where, -1: not known */
	uint32_t pid;	    /* what ran */
	bool of_cpu;	    /* the stream is that of a CPU, not of a task */
	uint64_t missing;
	const char *text;
	size_t text_size;
};

bool cursor_next(struct cursor *cursor, struct cursor_item *item);
void cursor_stop(struct cursor *cursor);
