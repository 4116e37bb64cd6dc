// SPDX-License-Identifier: MIT
#include "kernel/trace/context.h"

static struct spinlock lock;

size_t account_charge(struct trace_account *account, size_t bytes, size_t unit, bool cut)
{
	size_t left;
	uint64_t flags;

	if (!account)
		return bytes;
	flags = spin_lock(&lock);
	left = account->limit > account->used ? account->limit - account->used : 0;
	if (bytes > left)
		bytes = cut ? left - left % unit : 0;
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
