/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#pragma once

#include "drivers/pt/pt.h"
#include "kernel/mm/page.h"
#include "kernel/trace/context.h"
#include "kernel/trace/pt/insntrace.h"
#include "kernel/trace/xsaves.h"

enum { SAVED_RANGES = 2 };

/* The compacted area of XSAVES with component 8 alone: SDM Vol 1, 13.4 and 13.5.6. */
struct saved_state {
	struct xsaves_header header;
	uint64_t control, output_base, output_mask_ptrs, status, cr3_match;
	uint64_t address[2 * SAVED_RANGES];
	uint64_t reserved[7];
};
_Static_assert(sizeof(struct saved_state) == 576 + 128, "13.5.6");

/* A trace and its memory: chunks and table are runs of pages, which hardware knows by address. */
struct insntrace_buffer {
	struct tracer base; /* INSNTRACE_THREADS: of the thread that has it */
	struct pt_trace trace;
	struct insntrace_config config;
	uint64_t *chunks; /* their physical addresses: an area */
	struct trace_account *account;
	/* INSNTRACE_STREAM: bytes since the start, of the processor and of the reader. */
	_Atomic uint64_t handed, taken;
	_Atomic uint64_t gap_at; /* 1 + where the processor stopped, or did without; 0: nowhere */
	bool gap;		 /* it has been full, or another trace had the CPU of its thread */
	const atomic_bool *started; /* its session is */
	/* Under the lock of all buffers: */
	struct insntrace_buffer *next;
	_Atomic unsigned pid; /* of the thread; 0: none */
	bool used;	      /* had a thread since the last start */
	atomic_bool linked;   /* the thread's tracer is attached */
	_Alignas(64) struct saved_state state;
};
_Static_assert(sizeof(struct insntrace_buffer) <= PAGE_SIZE, "one page");

/*
 * The owner makes one call at a time, and its session stays until that ends; a traced thread may
 * fork concurrently. The lock of the buffers guards the list, `started` and `missed`.
 */
struct session {
	struct session *next;
	struct trace_account *owner;
	struct trace_claim claim;
	atomic_bool started;
	unsigned mode, traces, missed;
	struct insntrace_buffer *buffers[INSNTRACE_TRACES_MOST];
};

/* --- sessions.c --- */

extern struct session *sessions; /* newest first */

/* The owner's; NULL: it has none, or none that is stopped. */
struct session *session_of(const struct trace_account *owner);
struct session *stopped_of(const struct trace_account *owner);

/* Into the list, or -EBUSY; and out. */
int session_enter(struct session *session);
void session_leave(const struct session *session);

/* --- buffer.c --- */

extern struct spinlock buffers_lock; /* which thread has which buffer; all that there are */

/* Its tracer is detached: no thread has it. As the unit's row. */
bool buffer_release(struct tracer *tracer);

/* Checked, charged, prepared. Errors as insntrace_allocate_buffer(). */
int buffer_create(struct trace_account *account, const struct insntrace_config *config,
		  unsigned mode, uint64_t cr3_match, struct insntrace_buffer **buffer);

/* Gives everything back. No CPU is traced into it. NULL is a no-op. */
void buffer_free(struct insntrace_buffer *buffer);

/* As insntrace_read_buffer(). */
size_t buffer_find(const struct insntrace_buffer *buffer, uint64_t offset, const void **from);

/* --- stream.c --- */

static inline bool is_stream(const struct insntrace_buffer *buffer)
{
	return buffer->config.flags & INSNTRACE_STREAM;
}

/* Empties it. Not started. */
void stream_begin(struct insntrace_buffer *buffer);

/* Hands over what pt_look() or pt_stop() has found. Where it was started; NMI. */
void stream_look(struct insntrace_buffer *buffer);

/* The contiguous bytes that can be read now. The reader calls it. */
size_t stream_find(const struct insntrace_buffer *buffer, const void **from);

/* What its thread does now is missing, since another trace has the CPU. Where it was traced. */
void stream_miss(struct insntrace_buffer *buffer);

/* What is missing at the place that the reader has come to was not said yet. The reader calls it.
 */
bool stream_at_gap(const struct insntrace_buffer *buffer);

/*
 * The reader has read so many of these bytes; 0 at a gap: has said it. True: stream_make_room() is
 * to be called.
 */
bool stream_take(struct insntrace_buffer *buffer, size_t bytes);

/* Lets the processor write what has been read, unless a gap is to be said. Not started, at rest. */
void stream_make_room(struct tracer *buffer, void *argument);

/* --- xsaves.c; this CPU, IF = 0 --- */

/* Lets this CPU save Intel PT's state. Boot. */
void state_init(void);

/* Starts the buffer's trace by XRSTORS, which pt_ready() lets go on. False: it cannot be used. */
bool state_restore(struct insntrace_buffer *buffer);

/* Stops it by XSAVES: as pt_stop(). False: it cannot be used. */
bool state_save(struct insntrace_buffer *buffer);

/* --- unit.c --- */

/*
 * Goes on with a buffer on this CPU, a thread's or the CPU's own, which has what runs there to
 * itself: a thread's that was there misses the rest. IF = 0. Errors as insntrace_start(), -ENOSPC:
 * it is full, or has stopped by a range.
 */
int cpu_start_trace(struct insntrace_buffer *buffer, bool of_thread);

/* Stops what cpu_start_trace() started here, if anything, a thread's or not. IF = 0. */
void cpu_stop_trace(bool of_thread);
