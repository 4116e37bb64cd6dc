// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/mm/copy.h"
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"

/* What a parent or a tracer has not heard of yet. */
struct news {
	struct process *process;
	struct attachment *by; /* as its tracer; NULL: as its parent */
	bool ended;
	int status;
	bool any; /* there is somebody to wait for at all */
};

static bool is_meant(const struct process *process, int64_t pid)
{
	return pid == -1 || process->pid == (uint64_t)pid;
}

/* By its parent, to which its end is reported as to its tracer. */
static bool is_traced(const struct process *child)
{
	for (const struct attachment *at = child->attachments; at; at = at->next_of_tracee)
		if (at->tracer == child->parent)
			return true;
	return false;
}

static bool find_traced(const struct process *self, int64_t pid, struct news *news)
{
	for (struct attachment *at = self->traced; at; at = at->next_of_tracer) {
		if (!at->tracee || !is_meant(at->tracee, pid))
			continue;
		news->any = true;
		news->process = at->tracee;
		news->by = at;
		news->ended = at->tracee->state == PROCESS_ENDED;
		news->status = news->ended ? at->tracee->status : at->stop;
		if (news->ended || (at->stop && !at->seen))
			return true;
	}
	return false;
}

static bool find_child(const struct process *self, int64_t pid, bool stops, struct news *news)
{
	for (struct process *child = processes; child; child = child->next) {
		if (child->parent != self || !is_meant(child, pid))
			continue;
		news->any = true;
		news->process = child;
		news->by = NULL;
		news->ended = child->state == PROCESS_ENDED && !is_traced(child);
		news->status = news->ended ? child->status : WAIT_STOPPED((int)child->job_stop);
		if (news->ended || (stops && child->job_stop && !child->stop_seen))
			return true;
	}
	return false;
}

static bool find_news(const struct process *self, int64_t pid, bool stops, struct news *news)
{
	*news = (struct news){0};
	return find_traced(self, pid, news) || find_child(self, pid, stops, news);
}

/* Under the lock. Marks a stop as reported, or as not reported. */
static void mark_seen(const struct news *news, bool seen)
{
	if (news->by)
		news->by->seen = seen;
	else
		news->process->stop_seen = seen;
}

static long unmark_seen(const struct news *news)
{
	uint64_t flags = spin_lock(&processes_lock);

	mark_seen(news, false);
	spin_unlock(&processes_lock, flags);
	return -EFAULT;
}

/*
 * Ends what ties `self` to a process that ended, once the status has been stored: as its tracer,
 * with the trace, and as its parent.
 */
static void forget_ended(const struct process *self, const struct news *news)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool parent = news->process->parent == self;

	if (parent)
		news->process->parent = NULL;
	spin_unlock(&processes_lock, flags);
	if (parent)
		process_put(news->process);
	if (news->by)
		attachment_end(news->by, 0);
}

long process_wait(struct process *self, int64_t pid, uint64_t status_at, uint64_t options)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct news news;
	bool found;

	while (!(found = find_news(self, pid, options & WUNTRACED, &news)) && news.any &&
	       !(options & WNOHANG))
		process_sleep(self, flags);
	if (found && !(options & WNOWAIT))
		mark_seen(&news, true);
	spin_unlock(&processes_lock, flags);
	if (!found)
		return news.any ? 0 : -ECHILD;
	pid = news.process->pid;
	if (status_at && copy_to_user(status_at, &news.status, sizeof(news.status)))
		return unmark_seen(&news);
	if (news.ended && !(options & WNOWAIT))
		forget_ended(self, &news);
	return pid;
}
