// SPDX-License-Identifier: MIT
// The life cycle: which call is allowed when, and what it does to every CPU.
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/pt/private.h"

#define SESSION_ORDER 1
_Static_assert(sizeof(struct session) <= PAGE_SIZE << SESSION_ORDER, "a session's pages");
_Static_assert((int)MAX_CPUS <= (int)INSNTRACE_TRACES_MOST, "a buffer for every CPU");

static int check_mode(unsigned mode, unsigned traces)
{
	if (!pt_caps()->present || !pt_caps()->topa)
		return -EOPNOTSUPP;
	if (mode == INSNTRACE_THREADS && traces && traces <= INSNTRACE_TRACES_MOST)
		return 0;
	return mode == INSNTRACE_CPUS && traces == cpu_count() ? 0 : -EINVAL;
}

int insntrace_initialize(struct trace_account *owner, unsigned mode, unsigned traces)
{
	int error = session_of(owner) ? -EBADFD : check_mode(mode, traces);
	uint64_t pages;
	struct session *session;

	if (error)
		return error;
	pages = page_alloc_run(SESSION_ORDER);
	if (!pages)
		return -ENOMEM;
	session = direct(pages);
	session->owner = owner;
	session->mode = mode;
	session->traces = traces;
	error = session_enter(session);
	if (error)
		page_free_run(pages, SESSION_ORDER);
	return error;
}

int insntrace_get_allocation(struct trace_account *owner, struct insntrace_allocation *allocation)
{
	const struct session *session = session_of(owner);

	if (!session)
		return -EBADFD;
	*allocation = (struct insntrace_allocation){
		.mode = session->mode,
		.traces = session->traces,
		.started = session->started,
		.missed = session->missed,
	};
	return 0;
}

/* --- Buffers --- */

static struct insntrace_buffer *any_buffer(const struct session *session)
{
	for (unsigned i = 0; i < session->traces; i++)
		if (session->buffers[i])
			return session->buffers[i];
	return NULL;
}

static bool has_other_size(const struct session *session, const struct insntrace_config *config)
{
	const struct insntrace_buffer *buffer = any_buffer(session);

	return buffer && (buffer->config.chunks != config->chunks ||
			  buffer->config.chunk_order != config->chunk_order);
}

int insntrace_allocate_buffer(struct trace_account *owner, const struct insntrace_config *config,
			      uint64_t cr3_match)
{
	struct session *session = stopped_of(owner);
	unsigned descriptor = 0;
	int error;

	if (!session)
		return -EBADFD;
	if (has_other_size(session, config))
		return -EINVAL;
	while (descriptor < session->traces && session->buffers[descriptor])
		descriptor++;
	if (descriptor == session->traces)
		return -ENOSPC;
	error = buffer_create(owner, config, session->mode, cr3_match,
			      &session->buffers[descriptor]);
	if (error)
		return error;
	session->buffers[descriptor]->started = &session->started;
	return (int)descriptor;
}

static int find_buffer(const struct session *session, unsigned descriptor,
		       struct insntrace_buffer **buffer)
{
	if (!session)
		return -EBADFD;
	if (descriptor >= session->traces)
		return -EINVAL;
	*buffer = session->buffers[descriptor];
	return *buffer ? 0 : -ENXIO;
}

/* One that no CPU writes to. */
static int find_resting(const struct trace_account *owner, unsigned descriptor,
			struct insntrace_buffer **buffer)
{
	const struct session *session = session_of(owner);
	int error = find_buffer(session, descriptor, buffer);

	if (!session || !session->started || freeze_is_whole())
		return error;
	if (session->mode == INSNTRACE_CPUS)
		return -EBADFD;
	return !error && (*buffer)->pid ? -EBADFD : error;
}

int insntrace_free_buffer(struct trace_account *owner, unsigned descriptor)
{
	struct session *session = stopped_of(owner);
	struct insntrace_buffer *buffer;
	int error = find_buffer(session, descriptor, &buffer);

	if (error)
		return error;
	if (buffer->pid)
		return -EBADFD;
	session->buffers[descriptor] = NULL;
	buffer_free(buffer);
	return 0;
}

int insntrace_get_buffer_config(struct trace_account *owner, unsigned descriptor,
				struct insntrace_config *config)
{
	struct insntrace_buffer *buffer;
	int error = find_buffer(session_of(owner), descriptor, &buffer);

	if (!error)
		*config = buffer->config;
	return error;
}

int insntrace_get_buffer_state(struct trace_account *owner, unsigned descriptor,
			       struct insntrace_state *state)
{
	struct insntrace_buffer *buffer;
	int error = find_resting(owner, descriptor, &buffer);
	struct pt_state found;

	if (error)
		return error;
	found = pt_state(&buffer->trace);
	if (is_stream(buffer)) {
		found.end = buffer->handed;
		found.valid = buffer->handed - buffer->taken;
	}
	*state = (struct insntrace_state){
		.capture_end = found.end,
		.available = found.valid,
		.flags = (found.wrapped ? INSNTRACE_WRAPPED : 0u) |
			 (found.stopped ? INSNTRACE_STOPPED : 0u) |
			 (found.full ? INSNTRACE_FULL : 0u) |
			 (found.table_error ? INSNTRACE_ERROR : 0u) |
			 (buffer->gap ? INSNTRACE_GAP : 0u),
		.pid = buffer->pid,
	};
	return 0;
}

int insntrace_read_buffer(struct trace_account *owner, unsigned descriptor, uint64_t offset,
			  const void **from, size_t *bytes)
{
	struct insntrace_buffer *buffer;
	int error = find_resting(owner, descriptor, &buffer);
	size_t found;

	if (!error && is_stream(buffer))
		error = -EINVAL;
	if (error)
		return error;
	found = buffer_find(buffer, offset, from);
	*bytes = found < *bytes ? found : *bytes;
	return 0;
}

/* --- Streams --- */

/* True once a thread has it: a child that inherits it is about to be linked to it, by its parent.
 */
static bool has_thread(const struct insntrace_buffer *buffer)
{
	while (buffer->pid && !atomic_load(&buffer->linked))
		task_yield();
	return buffer->pid;
}

static int find_stream(const struct session *session, unsigned descriptor,
		       struct insntrace_buffer **buffer)
{
	int error = find_buffer(session, descriptor, buffer);

	return !error && !is_stream(*buffer) ? -EINVAL : error;
}

int insntrace_read_stream(struct trace_account *owner, unsigned descriptor, const void **from,
			  size_t *bytes)
{
	struct insntrace_buffer *buffer;
	int error = find_stream(session_of(owner), descriptor, &buffer);
	size_t found;

	if (error)
		return error;
	if (stream_at_gap(buffer))
		return -EPIPE;
	found = stream_find(buffer, from);
	*bytes = found < *bytes ? found : *bytes;
	return 0;
}

/* The CPU's own: it goes on at once, also where it was full before. */
static void make_room_here(void *argument)
{
	struct insntrace_buffer *buffer = argument;

	cpu_stop_trace(false);
	stream_make_room(&buffer->base, NULL);
	if (*buffer->started)
		cpu_start_trace(buffer, false);
}

int insntrace_take_stream(struct trace_account *owner, unsigned descriptor, size_t bytes)
{
	const struct session *session = session_of(owner);
	struct insntrace_buffer *buffer;
	int error = find_stream(session, descriptor, &buffer);

	if (error || !stream_take(buffer, bytes))
		return error;
	if (session->mode == INSNTRACE_CPUS) {
		smp_call(descriptor, make_room_here, buffer);
	} else if (has_thread(buffer)) {
		trace_perform(&buffer->base, stream_make_room, NULL);
	} else {
		stream_make_room(&buffer->base, NULL);
	}
	return 0;
}

/* --- Threads --- */

static void empty_buffer(struct insntrace_buffer *buffer)
{
	pt_rewind(&buffer->trace);
	buffer->gap = false;
	if (is_stream(buffer))
		stream_begin(buffer);
}

/* Under the lock. NULL: the thread has none of this session's. */
static struct insntrace_buffer *buffer_of(const struct session *session, unsigned pid)
{
	for (unsigned i = 0; i < session->traces; i++)
		if (session->buffers[i] && session->buffers[i]->pid == pid)
			return session->buffers[i];
	return NULL;
}

/* Under the lock. -EBUSY. */
static int take_buffer(const struct session *session, struct insntrace_buffer *buffer, unsigned pid)
{
	if (buffer->pid || buffer_of(session, pid))
		return -EBUSY;
	empty_buffer(buffer);
	buffer->pid = pid;
	buffer->used = true;
	return 0;
}

/* Links the buffer to its thread. An error gives it back. */
static int link_thread(struct insntrace_buffer *buffer, struct task *task)
{
	int error = trace_link(task, 0, &buffer->base);

	if (!error)
		atomic_store(&buffer->linked, true);
	return error;
}

int insntrace_assign_thread(struct trace_account *owner, unsigned descriptor, struct task *task)
{
	const struct session *session = session_of(owner);
	struct insntrace_buffer *buffer;
	int error = find_buffer(session, descriptor, &buffer);
	uint64_t flags;

	if (!error && session->mode != INSNTRACE_THREADS)
		error = -EBADFD;
	if (error)
		return error;
	flags = spin_lock(&buffers_lock);
	error = take_buffer(session, buffer, task->pid);
	spin_unlock(&buffers_lock, flags);
	return error ? error : link_thread(buffer, task);
}

int insntrace_release_thread(struct trace_account *owner, unsigned descriptor)
{
	struct insntrace_buffer *buffer;
	int error = find_buffer(session_of(owner), descriptor, &buffer);

	if (error)
		return error;
	if (!has_thread(buffer))
		return -EBADFD;
	trace_detach(&buffer->base);
	return 0;
}

/* Under the lock: a buffer that holds nothing of this run; NULL: none. */
static struct insntrace_buffer *find_unused(const struct session *session)
{
	for (unsigned i = 0; i < session->traces; i++)
		if (session->buffers[i] && !session->buffers[i]->used)
			return session->buffers[i];
	return NULL;
}

/* Under the lock. A buffer for a child of the running task, which it has then; NULL: none. */
static struct insntrace_buffer *take_inherited(struct session *session, const struct task *child)
{
	const struct insntrace_buffer *own =
		session->started ? buffer_of(session, current_task()->pid) : NULL;
	struct insntrace_buffer *buffer;

	if (!own || !(own->config.flags & INSNTRACE_INHERIT))
		return NULL;
	buffer = find_unused(session);
	if (buffer && take_buffer(session, buffer, child->pid))
		buffer = NULL;
	session->missed += !buffer;
	return buffer;
}

void insntrace_inherit(struct task *child)
{
	struct tracer *taken = NULL;
	uint64_t flags;

	if (!current_task()->trace)
		return;
	flags = spin_lock(&buffers_lock);
	for (struct session *session = sessions; session; session = session->next) {
		struct insntrace_buffer *buffer = take_inherited(session, child);

		if (buffer) {
			buffer->base.next = taken;
			taken = &buffer->base;
		}
	}
	spin_unlock(&buffers_lock, flags);
	while (taken) {
		struct insntrace_buffer *buffer = (struct insntrace_buffer *)taken;

		taken = taken->next;
		link_thread(buffer, child);
	}
}

/* --- Start and stop --- */

struct cpu_start {
	struct insntrace_buffer *buffer;
	int error;
};

static void start_here(void *argument)
{
	struct cpu_start *start = argument;

	start->error = cpu_start_trace(start->buffer, false);
}

static void stop_here(void *argument)
{
	(void)argument;
	cpu_stop_trace(false);
}

static int start_cpus(const struct session *session)
{
	int error = 0;

	for (unsigned i = 0; i < session->traces && !error; i++) {
		struct cpu_start start = {session->buffers[i], 0};

		smp_call(i, start_here, &start);
		error = start.error;
	}
	if (error)
		smp_call_all(stop_here, NULL);
	return error;
}

/* Every CPU has a buffer, or some thread has one. */
static bool is_ready(const struct session *session)
{
	unsigned buffers = 0, threads = 0;

	for (unsigned i = 0; i < session->traces; i++) {
		buffers += session->buffers[i] != NULL;
		threads += session->buffers[i] && session->buffers[i]->pid;
	}
	return session->mode == INSNTRACE_CPUS ? buffers == session->traces : threads;
}

static void empty_buffers(struct session *session)
{
	for (unsigned i = 0; i < session->traces; i++) {
		if (!session->buffers[i])
			continue;
		empty_buffer(session->buffers[i]);
		session->buffers[i]->used = session->buffers[i]->pid;
	}
	session->missed = 0;
}

/*
 * Threads are traced, or not, once every CPU has looked; also those that had to do without while
 * CPUs were. No child inherits after a stop.
 */
static void set_started(struct session *session, bool is)
{
	uint64_t flags = spin_lock(&buffers_lock);

	atomic_store(&session->started, is);
	spin_unlock(&buffers_lock, flags);
	if (session->mode == INSNTRACE_THREADS || !is)
		trace_settle();
}

int insntrace_start(struct trace_account *owner)
{
	struct session *session = stopped_of(owner);
	int error = 0;

	if (!session || !is_ready(session))
		return -EBADFD;
	empty_buffers(session);
	if (session->mode == INSNTRACE_CPUS)
		error = start_cpus(session);
	set_started(session, !error);
	return error;
}

int insntrace_stop(struct trace_account *owner)
{
	struct session *session = session_of(owner);

	if (!session || !session->started)
		return -EBADFD;
	if (session->mode == INSNTRACE_CPUS)
		smp_call_all(stop_here, NULL);
	set_started(session, false);
	return 0;
}

/* --- The end --- */

int insntrace_terminate(struct trace_account *owner)
{
	struct session *session = stopped_of(owner);

	if (!session || (session->mode == INSNTRACE_THREADS && is_ready(session)))
		return -EBADFD;
	session_leave(session);
	for (unsigned i = 0; i < session->traces; i++)
		if (session->buffers[i])
			buffer_free(session->buffers[i]);
	page_free_run((uint64_t)session - DIRECT_MAP, SESSION_ORDER);
	return 0;
}

void insntrace_owner_ended(struct trace_account *owner)
{
	const struct session *session = session_of(owner);

	insntrace_stop(owner);
	for (unsigned i = 0; session && i < session->traces; i++)
		insntrace_release_thread(owner, i);
	insntrace_terminate(owner);
}
