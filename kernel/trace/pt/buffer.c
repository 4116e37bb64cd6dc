// SPDX-License-Identifier: MIT
// Buffers: a table of chunks, each of contiguous pages. All of it is reached by the direct map.
#include "drivers/pt/registers.h"
#include "kernel/trace/memory.h"
#include "kernel/trace/pt/private.h"

#define ADDRESS_CONFIGURATIONS (0xffffull << 32) /* ADDRn_CFG of all ranges: table 36-6 */

struct spinlock buffers_lock;

/* Under that lock. */
static struct insntrace_buffer *buffers;
static bool keeps_all;
static uint64_t kept; /* roots, each with the address of the next */

bool buffer_release(struct tracer *tracer)
{
	struct insntrace_buffer *buffer = (struct insntrace_buffer *)tracer;
	SPIN_GUARD(&buffers_lock);

	atomic_store(&buffer->linked, false);
	buffer->pid = 0;
	return true;
}

static uint64_t chunk_bytes(const struct insntrace_config *config)
{
	return PAGE_SIZE << config->chunk_order;
}

static size_t list_bytes(const struct insntrace_config *config)
{
	return config->chunks * sizeof(uint64_t);
}

static unsigned order_of(size_t bytes)
{
	unsigned order = 0;

	while (PAGE_SIZE << order < bytes)
		order++;
	return order;
}

/* One entry more than chunks. */
static unsigned table_order(const struct insntrace_config *config)
{
	return order_of(list_bytes(config) + sizeof(uint64_t));
}

static size_t all_bytes(const struct insntrace_config *config)
{
	return config->chunks * chunk_bytes(config) + (PAGE_SIZE << table_order(config)) +
	       (PAGE_SIZE << order_of(list_bytes(config))) + PAGE_SIZE;
}

static int check_size(const struct insntrace_config *config)
{
	if (!config->chunks || config->chunks > INSNTRACE_CHUNKS_MOST ||
	    config->chunk_order > INSNTRACE_ORDER_MOST ||
	    config->chunks * chunk_bytes(config) > INSNTRACE_BYTES_MOST ||
	    config->flags & ~(uint32_t)INSNTRACE_CONFIG_FLAGS || config->zero)
		return -EINVAL;
	if (config->flags & INSNTRACE_STREAM &&
	    (config->chunks == 1 || config->flags & INSNTRACE_CIRCULAR))
		return -EINVAL;
	return config->chunks > 1 && !pt_caps()->topa_many ? -EOPNOTSUPP : 0;
}

static struct pt_configuration configuration_of(const struct insntrace_config *config,
						uint64_t cr3_match)
{
	struct pt_configuration configuration = {
		.control = config->control & ~ADDRESS_CONFIGURATIONS, .cr3_match = cr3_match};

	_Static_assert((int)INSNTRACE_RANGES == (int)PT_RANGES_MOST, "ADDRn_CFG of all ranges");
	for (unsigned n = 0; n < INSNTRACE_RANGES; n++) {
		configuration.range[n].use = config->control >> (32 + 4 * n) & 0xf;
		if (!configuration.range[n].use)
			continue;
		configuration.range[n].first = config->range[n].first;
		configuration.range[n].last = config->range[n].last;
	}
	return configuration;
}

/* Thread mode traces ring 3 alone, all of it or what ranges let through (docs/insntrace.2). */
static int check_mode(const struct insntrace_config *config, unsigned mode,
		      struct pt_configuration *configuration)
{
	if (mode == INSNTRACE_CPUS)
		return config->flags & INSNTRACE_INHERIT ? -EINVAL : 0;
	configuration->control |= RTIT_CTL_USER;
	return config->control & (RTIT_CTL_OS | RTIT_CTL_CR3_FILTER) ? -EOPNOTSUPP : 0;
}

static bool allocate_chunks(struct insntrace_buffer *buffer)
{
	const struct insntrace_config *config = &buffer->config;

	uint64_t list = page_alloc_run(order_of(list_bytes(config)));

	buffer->chunks = list ? direct(list) : NULL;
	for (unsigned n = 0; list && n < config->chunks; n++) {
		buffer->chunks[n] = page_alloc_run(config->chunk_order);
		if (!buffer->chunks[n])
			return false;
	}
	return list;
}

static uint8_t *chunk_at(const struct insntrace_buffer *buffer, uint64_t n)
{
	return direct(buffer->chunks[n]);
}

static int prepare_trace(struct insntrace_buffer *buffer,
			 const struct pt_configuration *configuration)
{
	const struct insntrace_config *config = &buffer->config;
	uint64_t table = page_alloc_run(table_order(config));

	if (!table)
		return -ENOMEM;
	buffer->trace.buffer = (struct pt_buffer){
		.table = direct(table),
		.table_address = table,
		.chunks = buffer->chunks,
		.count = config->chunks,
		.order = config->chunk_order,
		.last_end = chunk_at(buffer, config->chunks - 1) + chunk_bytes(config),
		.circular = config->flags & INSNTRACE_CIRCULAR,
		.interrupts = is_stream(buffer),
	};
	buffer->trace.configuration = *configuration;
	return pt_prepare(&buffer->trace);
}

static void link_buffer(struct insntrace_buffer *buffer)
{
	SPIN_GUARD(&buffers_lock);

	buffer->next = buffers;
	buffers = buffer;
}

int buffer_create(struct trace_account *account, const struct insntrace_config *config,
		  unsigned mode, uint64_t cr3_match, struct insntrace_buffer **result)
{
	struct pt_configuration configuration = configuration_of(config, cr3_match);
	struct insntrace_buffer *buffer;
	uint64_t page;
	int error = check_size(config);

	if (!error)
		error = check_mode(config, mode, &configuration);
	if (!error)
		error = pt_check(&configuration);
	if (error)
		return error;
	if (!account_charge(account, all_bytes(config), all_bytes(config), 0))
		return -ENOMEM;
	page = page_alloc();
	if (!page) {
		account_uncharge(account, all_bytes(config));
		return -ENOMEM;
	}
	buffer = direct(page);
	buffer->base.unit = TRACE_PT;
	buffer->config = *config;
	buffer->account = account;
	error = allocate_chunks(buffer) ? prepare_trace(buffer, &configuration) : -ENOMEM;
	link_buffer(buffer);
	if (error)
		buffer_free(buffer);
	else
		*result = buffer;
	return error;
}

static void unlink_buffer(const struct insntrace_buffer *buffer)
{
	SPIN_GUARD(&buffers_lock);

	LIST_REMOVE(buffers, buffer, next);
}

/* Frees each root that nothing keeps any more. */
static void sweep_roots(void)
{
	uint64_t flags = spin_lock(&buffers_lock), root = kept;

	kept = 0;
	spin_unlock(&buffers_lock, flags);
	while (root) {
		uint64_t next = *(uint64_t *)direct(root);

		insntrace_free_root(root);
		root = next;
	}
}

void buffer_free(struct insntrace_buffer *buffer)
{
	const struct insntrace_config *config = &buffer->config;
	const struct pt_buffer *memory = &buffer->trace.buffer;

	unlink_buffer(buffer);
	sweep_roots();
	if (memory->table)
		page_free_run(memory->table_address, table_order(config));
	for (unsigned n = 0; buffer->chunks && n < config->chunks && buffer->chunks[n]; n++)
		page_free_run(buffer->chunks[n], config->chunk_order);
	if (buffer->chunks)
		page_free_run((uint64_t)buffer->chunks - DIRECT_MAP, order_of(list_bytes(config)));
	account_uncharge(buffer->account, all_bytes(config));
	page_free((uint64_t)buffer - DIRECT_MAP);
}

/* Its filter names the root, or packets of a process with an account may: without a filter. */
static bool has_root(const struct insntrace_buffer *buffer, uint64_t root)
{
	const struct pt_configuration *configuration = &buffer->trace.configuration;

	return configuration->control & RTIT_CTL_CR3_FILTER
		       ? configuration->cr3_match == root
		       : buffer->account && configuration->control & RTIT_CTL_OS;
}

void insntrace_free_root(uint64_t root)
{
	bool keep;
	SPIN_GUARD(&buffers_lock);

	keep = keeps_all;
	for (const struct insntrace_buffer *at = buffers; at; at = at->next)
		keep |= has_root(at, root);
	if (keep) {
		*(uint64_t *)direct(root) = kept;
		kept = root;
	} else {
		page_free(root);
	}
}

void insntrace_keep_roots(bool all)
{
	uint64_t flags = spin_lock(&buffers_lock);

	keeps_all = all;
	spin_unlock(&buffers_lock, flags);
	sweep_roots();
}

size_t buffer_find(const struct insntrace_buffer *buffer, uint64_t offset, const void **from)
{
	struct pt_state state = pt_state(&buffer->trace);
	uint64_t size = chunk_bytes(&buffer->config), at = offset, left;

	if (offset >= state.valid)
		return 0;
	if (state.wrapped)
		at = (state.end + offset) % (size * buffer->config.chunks);
	left = size - at % size;
	*from = chunk_at(buffer, at / size) + at % size;
	return left < state.valid - offset ? left : state.valid - offset;
}
