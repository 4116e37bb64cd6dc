// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "kernel/trace/context.h"

static struct spinlock lock;

size_t account_charge(struct trace_account *account, size_t bytes, size_t least, size_t spared)
{
	size_t used, left;
	uint64_t flags;

	if (!account)
		return bytes;
	flags = spin_lock(&lock);
	used = account->used - spared;
	left = account->limit > used ? account->limit - used : 0;
	left -= left % PAGE_SIZE;
	if (bytes > left)
		bytes = left < least ? 0 : left;
	account->used += bytes;
	spin_unlock(&lock, flags);
	return bytes;
}

void account_uncharge(struct trace_account *account, size_t bytes)
{
	uint64_t flags;

	if (!account)
		return;
	flags = spin_lock(&lock);
	account->used -= bytes;
	spin_unlock(&lock, flags);
}
