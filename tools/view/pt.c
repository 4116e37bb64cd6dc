// SPDX-License-Identifier: MIT
#include "tools/view/pt.h"

#include "abi/ptrace_bts.h"
#include "tools/view/view.h"

#include <intel-pt.h>
#include <stdlib.h>
#include <string.h>

/* The last instruction that was found, until it is known where it led. */
struct last {
	bool known, transfers; /* `transfers`: it never goes on at the next one by itself */
	uint64_t ip, next;
};

struct work;

/* Each function returns what libipt's does: a negative error, or bits of enum pt_status_flag. */
struct decoder {
	void *(*open)(const struct pt_config *config);
	int (*sync)(void *decoder);
	int (*event)(void *decoder, struct pt_event *event, size_t size);
	int (*next)(void *decoder, struct work *work);
	int (*offset)(void *decoder, uint64_t *offset);
	void (*enter)(void *decoder, struct pt_image *image);
	void (*close)(void *decoder);
};

struct work {
	const struct trace_stream *stream;
	uint32_t sequence; /* of the frame that ends the packets: roots after it are others' */
	const struct decoder *decoder;
	void *handle;
	struct memories *memories;
	unsigned endless; /* how often the code went on without an end */
	struct pt_decoded *out;
	struct last last;
	bool enabled;
	const struct trace_part *part; /* that is decoded; its programs, of which one runs */
	size_t program;
	uint64_t memory;      /* by the last PIP; 0: not known */
	bool called, dropped; /* ring 3 was left by a system call; another stream has what runs */
	uint32_t task;	      /* that has the CR3 of the last PIP; 0: none */
	const struct space *space; /* its */
};

static void add_record(struct work *work, struct trace_record record)
{
	struct pt_decoded *out = work->out;

	if (work->dropped)
		return;
	if (out->count == out->room) {
		out->room = out->room ? 2 * out->room : 4096;
		out->records = reallocate(out->records, out->room, sizeof(*out->records));
	}
	out->records[out->count++] = record;
}

/* Ranges filter by the address of the instruction: what leads to the kernel is not filtered. */
static void add_branch(struct work *work, uint64_t from, uint64_t to)
{
	if (work->stream->view != PTRACE_BTS_USER || !((from | to) >> 63))
		add_record(work, (struct trace_record){from, to, 0});
}

/* Of a time that is not known. */
static void add_stamp(struct work *work, unsigned qualifier, uint32_t task)
{
	uint64_t cpu = (uint64_t)trace_stream_cpu(work->stream);

	add_record(work, (struct trace_record){TRACE_STAMP | qualifier, 0,
					       TRACE_STAMP_FLAG | cpu << 32 | task});
}

/* One gap says as much as two. */
static void add_gap(struct work *work)
{
	const struct pt_decoded *out = work->out;

	work->last.known = false;
	if (!out->count || !record_is_gap(&out->records[out->count - 1]))
		add_record(work, (struct trace_record){TRACE_STAMP | PTRACE_BTS_GAP, 0,
						       TRACE_STAMP_FLAG});
}

/* --- Whose program it is: by CR3 ----------------------------------------------------------------
 */

static void take_cr3(struct work *work, uint64_t cr3)
{
	const struct trace_root *root = trace_root(work->stream->trace, cr3, work->sequence);
	uint32_t task = root ? root->task : 0;

	if (task == work->task)
		return;
	if (work->task)
		add_stamp(work, PTRACE_BTS_TASK_DEPARTS, work->task);
	if (task)
		add_stamp(work, PTRACE_BTS_TASK_ARRIVES, task);
	work->task = task;
	work->space = trace_space(work->stream, task);
	work->decoder->enter(work->handle,
			     memory_of(work->memories, root ? work->space->program : NULL));
}

/* --- Whose program it is: by where a task of Linux begins
 * -----------------------------------------
 */

static void enter_program(struct work *work, size_t program)
{
	const struct trace_program *entered = &work->part->programs[program];

	work->program = program;
	work->space = entered->space;
	work->dropped = entered->stream != work->stream->id;
	work->decoder->enter(work->handle, memory_of_maps(work->memories, entered->space->maps));
}

/* Ring 3 goes on at `ip`. A program is executed by a system call, and begins at its entry. */
static void take_entry(struct work *work, uint64_t ip)
{
	const struct space *next;

	if (!work->called || work->program + 1 >= work->part->program_count)
		return;
	next = work->part->programs[work->program + 1].space;
	if (space_is_entry(next, ip) ||
	    (!maps_find(work->space->maps, ip) && maps_find(next->maps, ip)))
		enter_program(work, work->program + 1);
}

/* Where the kernel is traced: the memory of a task of Linux is another one where it executes a
 * program. */
static void take_memory(struct work *work, uint64_t cr3)
{
	const uint64_t memory = cr3 & ~UINT64_C(0x1fff); /* both of page-table isolation */

	if (work->memory && memory != work->memory && work->program + 1 < work->part->program_count)
		enter_program(work, work->program + 1);
	work->memory = memory;
}

/* --- Events and instructions into branches ------------------------------------------------------
 */

/* The processor was about to execute `ip`: the instruction before may have been a branch to it. */
static void arrive(struct work *work, uint64_t ip)
{
	if (work->last.known && (work->last.transfers || ip != work->last.next))
		add_branch(work, work->last.ip, ip);
	work->last.known = false;
}

/* At `from` an event took the processor to `to`. */
static void depart(struct work *work, uint64_t from, uint64_t to)
{
	arrive(work, from);
	add_branch(work, from, to);
}

static void take_event(struct work *work, const struct pt_event *event)
{
	switch (event->type) {
	case ptev_enabled:
		/* libipt 2.1 says it at each PSB: between a branch and its destination, too. */
		if (!event->status_update)
			work->last.known = false;
		work->enabled = true;
		take_entry(work, event->variant.enabled.ip);
		return;
	case ptev_disabled:
		work->called = true;
		if (!event->ip_suppressed)
			arrive(work, event->variant.disabled.ip);
		work->last.known = work->enabled = false;
		return;
	case ptev_async_disabled:
		work->called = false;
		arrive(work, event->variant.async_disabled.at);
		if (!event->ip_suppressed)
			depart(work, event->variant.async_disabled.at,
			       event->variant.async_disabled.ip);
		work->enabled = false;
		return;
	case ptev_async_branch:
		depart(work, event->variant.async_branch.from, event->variant.async_branch.to);
		return;
	case ptev_overflow:
		add_gap(work);
		work->enabled = !event->ip_suppressed;
		return;
	case ptev_paging:
		take_cr3(work, event->variant.paging.cr3);
		take_memory(work, event->variant.paging.cr3);
		return;
	case ptev_async_paging:
		take_cr3(work, event->variant.async_paging.cr3);
		take_memory(work, event->variant.async_paging.cr3);
		return;
	default:
		return; /* of times and modes no branch is made */
	}
}

static bool transfers(enum pt_insn_class class)
{
	return class == ptic_call || class == ptic_return || class == ptic_jump ||
	       class == ptic_far_call || class == ptic_far_return || class == ptic_far_jump;
}

/* --- One interface to the two decoders ----------------------------------------------------------
 */

static void *open_instructions(const struct pt_config *config)
{
	return pt_insn_alloc_decoder(config);
}

static int sync_instructions(void *decoder)
{
	return pt_insn_sync_forward(decoder);
}

static int event_of_instructions(void *decoder, struct pt_event *event, size_t size)
{
	return pt_insn_event(decoder, event, size);
}

static int next_instruction(void *decoder, struct work *work)
{
	struct pt_insn insn = {0};
	int status = pt_insn_next(decoder, &insn, sizeof(insn));

	if (insn.iclass == ptic_error)
		return status;
	arrive(work, insn.ip);
	work->last = (struct last){true, transfers(insn.iclass), insn.ip, insn.ip + insn.size};
	work->out->instructions += !work->dropped;
	return status;
}

static int offset_of_instructions(void *decoder, uint64_t *offset)
{
	return pt_insn_get_offset(decoder, offset);
}

static void enter_instructions(void *decoder, struct pt_image *image)
{
	pt_insn_set_image(decoder, image);
}

static void close_instructions(void *decoder)
{
	pt_insn_free_decoder(decoder);
}

static void *open_blocks(const struct pt_config *config)
{
	struct pt_config ending = *config;

	ending.flags.variant.block.end_on_call = 1;
	ending.flags.variant.block.end_on_jump = 1;
	return pt_blk_alloc_decoder(&ending);
}

static int sync_blocks(void *decoder)
{
	return pt_blk_sync_forward(decoder);
}

static int event_of_blocks(void *decoder, struct pt_event *event, size_t size)
{
	return pt_blk_event(decoder, event, size);
}

/* Of the last instruction of a block libipt says where it is, and not always what it is. */
static struct last last_of_block(const struct work *work, const struct pt_block *block)
{
	struct instruction instruction = space_instruction(work->space, block->end_ip);
	bool always = instruction.flow != FLOW_UNKNOWN && instruction.flow != FLOW_NONE &&
		      instruction.flow != FLOW_REPEAT && instruction.flow != FLOW_CONDITIONAL;

	return (struct last){true, block->iclass == ptic_error ? always : transfers(block->iclass),
			     block->end_ip, instruction.next};
}

static int next_block(void *decoder, struct work *work)
{
	struct pt_block block = {0};
	int status = pt_blk_next(decoder, &block, sizeof(block));

	if (!block.ninsn)
		return status;
	arrive(work, block.ip);
	work->last = last_of_block(work, &block);
	work->out->instructions += work->dropped ? 0 : block.ninsn;
	return status;
}

static int offset_of_blocks(void *decoder, uint64_t *offset)
{
	return pt_blk_get_offset(decoder, offset);
}

static void enter_blocks(void *decoder, struct pt_image *image)
{
	pt_blk_set_image(decoder, image);
}

static void close_blocks(void *decoder)
{
	pt_blk_free_decoder(decoder);
}

static const struct decoder decoders[] = {
	[PT_INSTRUCTIONS] = {open_instructions, sync_instructions, event_of_instructions,
			     next_instruction, offset_of_instructions, enter_instructions,
			     close_instructions},
	[PT_BLOCKS] = {open_blocks, sync_blocks, event_of_blocks, next_block, offset_of_blocks,
		       enter_blocks, close_blocks},
};

/* --- A stream -----------------------------------------------------------------------------------
 */

/*
 * Code goes on without packets for as long as it has no choice: for the 47 choices of one packet at
 * most. What goes on for longer, as a jump to itself, has no end: hardware would have said how it
 * was left.
 */
enum { ENDLESS = -0x1000, STEPS_BETWEEN = 64, STEPS_MOST = 1 << 17, ENDLESS_MOST = 4 };

/* Where the packets of a decoder were, and how far the code went since. */
struct progress {
	uint64_t offset;
	unsigned steps;
	size_t records; /* that there were then */
};

/* False, and the records since are gone: the code goes on without an end. */
static bool goes_on(struct work *work, struct progress *progress)
{
	uint64_t offset = 0;

	if (++progress->steps % STEPS_BETWEEN)
		return true;
	work->decoder->offset(work->handle, &offset);
	if (offset != progress->offset)
		*progress = (struct progress){offset, 0, work->out->count};
	if (progress->steps < STEPS_MOST)
		return true;
	work->out->count = progress->records;
	work->endless++;
	return false;
}

static void note_error(struct work *work, int error, uint64_t at)
{
	if (work->dropped)
		return;
	if (!work->out->errors++) {
		work->out->error = error == ENDLESS ? "the code goes on without an end"
						    : pt_errstr(pt_errcode(error));
		work->out->error_at = at;
	}
	add_gap(work);
}

/* From one PSB up to an error, or to the end: -pte_eos, or not below 0. */
static int run(struct work *work)
{
	const struct decoder *decoder = work->decoder;
	void *handle = work->handle;
	struct progress progress = {.records = work->out->count};
	int status = decoder->sync(handle);

	work->last.known = work->enabled = false;
	work->called = true;
	while (status >= 0) {
		while (status >= 0 && status & pts_event_pending) {
			struct pt_event event;

			status = decoder->event(handle, &event, sizeof(event));
			if (status >= 0)
				take_event(work, &event);
		}
		if (status < 0 || status & pts_eos)
			break;
		status = decoder->next(handle, work);
		if (status >= 0 && !goes_on(work, &progress))
			status = ENDLESS;
	}
	return status;
}

enum { PSB_BYTES = 16 };

/* Packets without a hole between them; `before`: bytes of the stream ahead of them. */
static void decode_bytes(struct work *work, uint8_t *bytes, size_t size, uint64_t before)
{
	struct pt_config config = pt_config_of(work->stream->trace);
	uint64_t at = 0;
	int status = 0;

	config.begin = bytes;
	config.end = bytes + size;
	work->handle = work->decoder->open(&config);
	if (!work->handle)
		fail("libipt has no memory");
	work->decoder->enter(work->handle, memory_before_pip(work->memories));
	work->memory = 0;
	if (work->part->program_count)
		enter_program(work, 0);
	for (size_t syncs = 0;
	     status != -pte_eos && syncs <= size / PSB_BYTES && work->endless < ENDLESS_MOST;
	     syncs++) {
		status = run(work);
		if (status >= 0)
			break;
		if (status == -pte_eos)
			continue;
		work->decoder->offset(work->handle, &at);
		note_error(work, status, before + at);
	}
	if (work->enabled)
		add_gap(work);
	work->decoder->close(work->handle);
	work->dropped = false;
}

/* Bytes of frames up to `last`, which follow each other; `before`: bytes of the stream ahead. */
static void decode_part(struct work *work, const struct trace_part *last, uint8_t *bytes,
			size_t size, uint64_t before)
{
	if (!size)
		return;
	work->part = last;
	work->sequence = last->header.sequence;
	decode_bytes(work, bytes, size, before);
}

/* A frame BRANCHES among those of packets: stamps. */
static void add_records(struct work *work, const struct trace_part *part)
{
	struct trace_record record;

	for (size_t at = 0; at + sizeof(record) <= part->size; at += sizeof(record)) {
		memcpy(&record, part->payload + at, sizeof(record));
		add_record(work, record);
	}
}

struct pt_decoded pt_decode(const struct trace_stream *stream, enum pt_decoder decoder)
{
	const struct trace_part *parts = stream->packets.part;
	struct pt_decoded out = {0};
	struct work work = {.stream = stream,
			    .decoder = &decoders[decoder],
			    .out = &out,
			    .space = &stream->space,
			    .memories = memories_open(stream)};
	uint8_t *bytes = allocate(stream->taken.records, 1);
	uint64_t next = 0;
	size_t used = 0, count = stream->packets.count;

	for (size_t i = 0; i < count; i++) {
		const struct trace_part *part = &parts[i];
		bool stamps = part->header.type == TRACE_FRAME_BRANCHES;
		bool hole = !stamps && (part->header.index != next || part->header.lost);

		if (i && (hole || stamps || part->apart ||
			  trace_has_root(stream->trace, part[-1].header.sequence,
					 part->header.sequence))) {
			decode_part(&work, part - 1, bytes, used, next - used);
			used = 0;
		}
		if (hole)
			add_gap(&work);
		if (stamps) {
			add_records(&work, part);
			continue;
		}
		if (part->size)
			memcpy(bytes + used, part->payload, part->size);
		used += part->size;
		next = part->header.index + part->size;
	}
	if (count)
		decode_part(&work, &parts[count - 1], bytes, used, next - used);
	memories_close(work.memories);
	free(bytes);
	return out;
}
