// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/mm/copy.h"
#include "kernel/process/internal.h"

/* All mappings stand in a window no larger than what a space may hold: a search is short. */
#define WINDOW_START 0x0000100000000000ul
#define WINDOW_END   (WINDOW_START + SPACE_MOST_PAGES * PAGE_SIZE)

static size_t pages_of(uint64_t bytes)
{
	return bytes / PAGE_SIZE + (bytes % PAGE_SIZE != 0);
}

long call_mmap(struct process *self, const uint64_t *argument)
{
	size_t pages = pages_of(argument[1]);
	uint64_t rights = argument[2], at;
	int error;

	if (argument[0] || !pages || argument[3] != (MAP_PRIVATE | MAP_ANONYMOUS))
		return -EINVAL;
	if (rights != PROT_READ && rights != (PROT_READ | PROT_WRITE) &&
	    rights != (PROT_READ | PROT_EXEC))
		return -EINVAL;
	at = space_find_gap(&self->space, WINDOW_START, WINDOW_END, pages);
	if (!at)
		return -ENOMEM;
	error = space_map(&self->space, at, pages,
			  (rights & PROT_WRITE ? VM_WRITE : 0u) |
				  (rights & PROT_EXEC ? VM_EXECUTE : 0u));
	return error ? error : (long)at;
}

long call_munmap(struct process *self, const uint64_t *argument)
{
	uint64_t at = argument[0];
	size_t pages = pages_of(argument[1]);

	if (at % PAGE_SIZE || !pages || at < WINDOW_START || at >= WINDOW_END ||
	    pages > (WINDOW_END - at) / PAGE_SIZE)
		return -EINVAL;
	space_unmap(&self->space, at, pages);
	return 0;
}

long call_getrlimit(struct process *self, const uint64_t *argument)
{
	struct rlimit limit = {self->account.limit, self->account_most};

	if (argument[0] != RLIMIT_MEMLOCK)
		return -EINVAL;
	return copy_to_user(argument[1], &limit, sizeof(limit));
}

/* Only a process that may see kernel addresses can raise `most`. What is charged stays charged. */
long call_setrlimit(struct process *self, const uint64_t *argument)
{
	struct rlimit limit;

	if (argument[0] != RLIMIT_MEMLOCK)
		return -EINVAL;
	if (copy_from_user(&limit, argument[1], sizeof(limit)))
		return -EFAULT;
	if (limit.current > limit.most)
		return -EINVAL;
	if (limit.most > self->account_most && !self->privileged)
		return -EPERM;
	self->account.limit = limit.current;
	self->account_most = limit.most;
	return 0;
}
