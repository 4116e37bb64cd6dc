// SPDX-License-Identifier: MIT
// SYS_insntrace.
#include "abi/insntrace.h"
#include "abi/syscall.h"

#include "drivers/pt/registers.h"
#include "kernel/export/export.h"
#include "kernel/mm/page.h"
#include "kernel/process/program.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/freeze.h"
#include "kernel/trace/pt/insntrace.h"
#include "kernel/trace/unit.h"

struct call {
	struct process *self;
	struct trace_account *owner;
	uint64_t first, address, bytes; /* `first`: a descriptor, but for INITIALIZE */
};

/* Everything that runs on a CPU is seen, the kernel too: nothing takes it out of PT's packets. */
static long do_initialize(const struct call *call)
{
	if (call->first == INSNTRACE_CPUS && !call->self->privileged)
		return -EPERM;
	if (call->address || call->first > UINT32_MAX || call->bytes > UINT32_MAX)
		return -EINVAL;
	return insntrace_initialize(call->owner, (unsigned)call->first, (unsigned)call->bytes);
}

static long do_terminate(const struct call *call)
{
	return insntrace_terminate(call->owner);
}

static long do_get_allocation(const struct call *call)
{
	struct insntrace_allocation allocation;
	int error = insntrace_get_allocation(call->owner, &allocation);

	return error ? error : copy_to_user(call->address, &allocation, sizeof(allocation));
}

/* The page that CR3 holds while the process runs. -ESRCH; -EINVAL: a pid, and no filter. */
static int find_address_space(const struct insntrace_config *config, uint64_t *cr3_match)
{
	struct process *process;

	*cr3_match = 0;
	if (!(config->control & RTIT_CTL_CR3_FILTER))
		return config->address_space ? -EINVAL : 0;
	if (config->address_space > UINT32_MAX)
		return -ESRCH;
	process = process_find((unsigned)config->address_space);
	if (!process)
		return -ESRCH;
	*cr3_match = process->space.root;
	process_put(process);
	return *cr3_match ? 0 : -ESRCH;
}

static long do_allocate_buffer(const struct call *call)
{
	struct insntrace_config config;
	uint64_t cr3_match;
	int error = copy_from_user(&config, call->address, sizeof(config)), descriptor;

	if (!error)
		error = find_address_space(&config, &cr3_match);
	if (error)
		return error;
	descriptor = insntrace_allocate_buffer(call->owner, &config, cr3_match);
	/* It may have ended before its end could find the filter: then the page is not kept. */
	if (descriptor >= 0 && find_address_space(&config, &cr3_match)) {
		insntrace_free_buffer(call->owner, (unsigned)descriptor);
		return -ESRCH;
	}
	return descriptor;
}

static unsigned descriptor_of(const struct call *call)
{
	return call->first < UINT32_MAX ? (unsigned)call->first : UINT32_MAX;
}

static long do_get_buffer_config(const struct call *call)
{
	struct insntrace_config config;
	int error = insntrace_get_buffer_config(call->owner, descriptor_of(call), &config);

	return error ? error : copy_to_user(call->address, &config, sizeof(config));
}

static long do_get_buffer_state(const struct call *call)
{
	struct insntrace_state state;
	int error = insntrace_get_buffer_state(call->owner, descriptor_of(call), &state);

	return error ? error : copy_to_user(call->address, &state, sizeof(state));
}

/* Of a stream nothing is taken that could not be stored, and a gap is said by the call that begins
   at it. */
static long read_packets(const struct call *call, bool stream)
{
	unsigned descriptor = descriptor_of(call);
	struct insntrace_read read;
	uint64_t done = 0;
	size_t piece;

	if (copy_from_user(&read, call->address, sizeof(read)))
		return -EFAULT;
	if (stream && read.offset)
		return -EINVAL;
	do {
		const void *from;
		int error;

		piece = read.bytes - done;
		error = stream ? insntrace_read_stream(call->owner, descriptor, &from, &piece)
			       : insntrace_read_buffer(call->owner, descriptor, read.offset + done,
						       &from, &piece);
		if (stream && error == -EPIPE && !done)
			insntrace_take_stream(call->owner, descriptor, 0);
		if (!error && piece && copy_to_user(read.address + done, from, piece))
			error = -EFAULT;
		if (error)
			return stream && done ? (long)done : error;
		if (stream)
			insntrace_take_stream(call->owner, descriptor, piece);
		done += piece;
	} while (piece && done < read.bytes);
	return (long)done;
}

static long do_read_buffer(const struct call *call)
{
	return read_packets(call, false);
}

static long do_read_stream(const struct call *call)
{
	return read_packets(call, true);
}

static long do_free_buffer(const struct call *call)
{
	return insntrace_free_buffer(call->owner, descriptor_of(call));
}

static long do_start(const struct call *call)
{
	return insntrace_start(call->owner);
}

static long do_stop(const struct call *call)
{
	return insntrace_stop(call->owner);
}

/* A process with the right to kernel addresses is traced only by one that has it. */
static long do_assign_thread(const struct call *call)
{
	struct process *process =
		call->address <= UINT32_MAX ? process_find((unsigned)call->address) : NULL;
	int error = -EPERM;

	if (!process)
		return -ESRCH;
	if (!process->privileged || call->self->privileged)
		error = insntrace_assign_thread(call->owner, descriptor_of(call), process->task);
	process_put(process);
	return error;
}

static long do_release_thread(const struct call *call)
{
	return insntrace_release_thread(call->owner, descriptor_of(call));
}

static long do_get_holder(const struct call *call)
{
	switch (call->first) {
	case INSNTRACE_HOLDER_PT:
		return trace_holder(TRACE_PT);
	case INSNTRACE_HOLDER_BTS:
		return trace_holder(TRACE_BTS);
	default:
		return -EINVAL;
	}
}

/* What a reader of packets has to know: of the machine, or of a process that was not waited for. */
static long find_items(uint64_t pid, uint8_t *items)
{
	struct process *process = pid && pid <= UINT32_MAX ? process_find((unsigned)pid) : NULL;
	size_t bytes;

	if (!pid)
		return (long)export_machine(items);
	if (!process)
		return -ESRCH;
	bytes = export_program(items, process->name, program_checksum(process->name),
			       process->context.root);
	process_put(process);
	return (long)bytes;
}

#define ITEMS_ORDER 2
_Static_assert(PAGE_SIZE << ITEMS_ORDER >= TRACE_PAYLOAD_BYTES, "the payload of a frame");

/* With addresses of the kernel's, and of page tables. */
static long do_get_items(const struct call *call)
{
	struct insntrace_read read;
	uint64_t pages;
	long found;

	if (!call->self->privileged)
		return -EPERM;
	if (copy_from_user(&read, call->address, sizeof(read)))
		return -EFAULT;
	pages = page_alloc_run(ITEMS_ORDER);
	if (!pages)
		return -ENOMEM;
	found = find_items(call->first, direct(pages));
	if (found >= 0) {
		uint64_t left = read.offset < (uint64_t)found ? (uint64_t)found - read.offset : 0;

		found = (long)(left < read.bytes ? left : read.bytes);
		if (copy_to_user(read.address, (uint8_t *)direct(pages) + read.offset,
				 (size_t)found))
			found = -EFAULT;
	}
	page_free_run(pages, ITEMS_ORDER);
	return found;
}

/* `bytes`: what the structure at `address` has; 0: arguments that are not used have to be 0. */
static const struct request {
	long (*perform)(const struct call *call);
	bool has_first;
	uint8_t bytes;
} requests[] = {
	[INSNTRACE_TERMINATE] = {do_terminate, false, 0},
	[INSNTRACE_GET_ALLOCATION] = {do_get_allocation, false,
				      sizeof(struct insntrace_allocation)},
	[INSNTRACE_ALLOCATE_BUFFER] = {do_allocate_buffer, false, sizeof(struct insntrace_config)},
	[INSNTRACE_GET_BUFFER_CONFIG] = {do_get_buffer_config, true,
					 sizeof(struct insntrace_config)},
	[INSNTRACE_GET_BUFFER_STATE] = {do_get_buffer_state, true, sizeof(struct insntrace_state)},
	[INSNTRACE_READ_BUFFER] = {do_read_buffer, true, sizeof(struct insntrace_read)},
	[INSNTRACE_FREE_BUFFER] = {do_free_buffer, true, 0},
	[INSNTRACE_START] = {do_start, false, 0},
	[INSNTRACE_STOP] = {do_stop, false, 0},
	[INSNTRACE_ASSIGN_THREAD] = {do_assign_thread, true, 0},
	[INSNTRACE_RELEASE_THREAD] = {do_release_thread, true, 0},
	[INSNTRACE_READ_STREAM] = {do_read_stream, true, sizeof(struct insntrace_read)},
	[INSNTRACE_GET_HOLDER] = {do_get_holder, true, 0},
	[INSNTRACE_GET_ITEMS] = {do_get_items, true, sizeof(struct insntrace_read)},
};

static long call_insntrace(struct process *self, const uint64_t *argument)
{
	struct call call = {self, &self->account, argument[1], argument[2], argument[3]};
	const struct request *request;

	if (argument[0] >= sizeof(requests) / sizeof(requests[0]))
		return -EINVAL;
	if (argument[0] == INSNTRACE_INITIALIZE)
		return do_initialize(&call);
	request = &requests[argument[0]];
	if (call.bytes != request->bytes ||
	    (!request->bytes && call.address && argument[0] != INSNTRACE_ASSIGN_THREAD) ||
	    (!request->has_first && call.first))
		return -EINVAL;
	return request->perform(&call);
}

static void process_has_forked(struct process *child)
{
	insntrace_inherit(child->task);
}

static void process_is_ending(struct process *process, uint64_t root)
{
	freeze_owner_ended(&process->account);
	insntrace_owner_ended(&process->account);
	insntrace_free_root(root);
}

static void register_call(void)
{
	syscall_register(SYS_insntrace, call_insntrace);
	process_forked = process_has_forked;
	process_ends = process_is_ending;
}

const struct ptrace_unit ptrace_pt_unit = {.unit = TRACE_PT, .init = register_call};
