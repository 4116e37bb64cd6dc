// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/mm/copy.h"
#include "kernel/process/internal.h"

static bool is_meant(const struct process *self, const struct process *child, int64_t pid)
{
	return child->parent == self && (pid == -1 || child->pid == (uint64_t)pid);
}

/* A child that ended, or stopped and was not seen so; *any says whether there is a child at all. */
static struct process *find_changed(const struct process *self, int64_t pid, bool stops, bool *any)
{
	*any = false;
	for (struct process *child = processes; child; child = child->next) {
		if (!is_meant(self, child, pid))
			continue;
		*any = true;
		if (child->state == PROCESS_ENDED ||
		    (stops && child->state == PROCESS_STOPPED && !child->stop_seen))
			return child;
	}
	return NULL;
}

/* One that ended is only let go once its status has arrived; nobody else can let it go. */
static long report(struct process *child, bool ended, int status, uint64_t status_at)
{
	bool told = !status_at || copy_to_user(status_at, &status, sizeof(status)) == 0;
	long pid = child->pid;
	uint64_t flags = spin_lock(&processes_lock);

	if (!told)
		child->stop_seen = false;
	else if (ended)
		child->parent = NULL;
	spin_unlock(&processes_lock, flags);
	if (told && ended)
		process_put(child);
	return told ? pid : -EFAULT;
}

long process_wait(struct process *self, int64_t pid, uint64_t status_at, uint64_t options)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct process *child;
	bool any, ended;
	int status;

	while (!(child = find_changed(self, pid, options & WUNTRACED, &any)) && any &&
	       !(options & WNOHANG))
		process_sleep(self, flags);
	if (!child) {
		spin_unlock(&processes_lock, flags);
		return any ? 0 : -ECHILD;
	}
	ended = child->state == PROCESS_ENDED;
	status = ended ? child->status : WAIT_STOPPED((int)child->stop_signal);
	child->stop_seen = true;
	spin_unlock(&processes_lock, flags);
	return report(child, ended, status, status_at);
}
