// SPDX-License-Identifier: MIT
#include "kernel/trace/memory.h"

#include "kernel/lock.h"
#include "kernel/mm/vm.h"
#include "kernel/trace/context.h"
#include "lib/string.h"

#define PATTERN	 0xa5
#define PATTERNS 0xa5a5a5a5a5a5a5a5

size_t trace_memory_pages(size_t bytes)
{
	return (bytes + TRACE_PATTERN_BYTES + PAGE_SIZE - 1) / PAGE_SIZE;
}

void *trace_memory_alloc(size_t bytes)
{
	size_t pages = trace_memory_pages(bytes);
	unsigned char *object = area_alloc(pages, VM_WRITE);

	if (object)
		memset(object + bytes, PATTERN, pages * PAGE_SIZE - bytes);
	return object;
}

/* Compares quadwords: a tracer of the kernel that is being detached records each turn. */
static bool is_whole(const unsigned char *at, const unsigned char *end)
{
	bool whole = true;

	for (; (uintptr_t)at % sizeof(uint64_t); at++)
		whole &= *at == PATTERN;
	for (; at < end; at += sizeof(uint64_t))
		whole &= *(const uint64_t *)at == PATTERNS;
	return whole;
}

bool trace_memory_free(void *object, size_t bytes)
{
	size_t size = trace_memory_pages(bytes) * PAGE_SIZE;
	const unsigned char *at = object;
	bool whole;

	if (!object)
		return true;
	whole = is_whole(at + bytes, at + size);
	area_free(object, size / PAGE_SIZE);
	return whole;
}

static struct spinlock accounts;

size_t account_charge(struct trace_account *account, size_t bytes, size_t least, size_t spared)
{
	size_t used, left;
	SPIN_GUARD(&accounts);

	if (!account)
		return bytes;
	used = account->used - spared;
	left = account->limit > used ? account->limit - used : 0;
	left -= left % PAGE_SIZE;
	if (bytes > left)
		bytes = left < least ? 0 : left;
	account->used += bytes;
	return bytes;
}

void account_uncharge(struct trace_account *account, size_t bytes)
{
	SPIN_GUARD(&accounts);

	if (account)
		account->used -= bytes;
}

static size_t size_with(const struct trace_size *size, size_t buffer)
{
	return (size->pages + (buffer ? trace_memory_pages(buffer) : 0)) * PAGE_SIZE;
}

struct tracer *trace_new_page(unsigned unit, struct trace_size *size)
{
	size_t wanted = size_with(size, size->bytes);
	size_t charged = account_charge(size->account, wanted, size_with(size, size->least),
					size->replaces ? size->replaces->charged : 0);
	struct tracer *tracer = charged ? area_alloc(1, VM_WRITE) : NULL;

	if (!tracer) {
		account_uncharge(size->account, charged);
		return NULL;
	}
	tracer->unit = unit;
	tracer->account = size->account;
	tracer->charged = charged;
	tracer->replaces = size->replaces;
	if (charged < wanted)
		size->bytes = charged - size->pages * PAGE_SIZE - TRACE_PATTERN_BYTES;
	return tracer;
}

bool trace_free_page(struct tracer *tracer)
{
	account_uncharge(tracer->account, tracer->charged);
	area_free(tracer, 1);
	return true;
}
