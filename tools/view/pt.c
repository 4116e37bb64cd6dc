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
	int (*sync_offset)(void *decoder, uint64_t *offset);
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
	struct place place;	   /* of perf.data */
	uint32_t task;		   /* that has the CR3 of the last PIP; 0: none */
	const struct space *space; /* its */
};

static void add_record(struct work *work, struct trace_record record)
{
	struct pt_decoded *out = work->out;

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
	size_t start = out->cut_count ? out->cuts[out->cut_count - 1].at : 0;

	work->last.known = false;
	if (out->count <= start || !record_is_gap(&out->records[out->count - 1]))
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

/* --- Whose program it is: by what perf says of the part -----------------------------------------
 */

/* From the next record on a program runs, or the same in another part. */
static void enter_program(struct work *work, size_t program)
{
	const struct space *entered = work->place.part->programs[program].space;
	struct pt_decoded *out = work->out;

	if (!(out->cut_count & (out->cut_count - 1)))
		out->cuts = reallocate(out->cuts, 2 * out->cut_count + 1, sizeof(*out->cuts));
	out->cuts[out->cut_count++] = (struct pt_cut){out->count, work->place.part, program};
	work->place.program = program;
	work->space = entered;
	work->decoder->enter(work->handle, memory_of_maps(work->memories, entered->maps));
}

/* Decoding begins at a PSB: what is before it in its part, and in the parts before, is lost. */
static void take_sync(struct work *work)
{
	struct place *place = &work->place;
	uint64_t at = 0;

	work->decoder->sync_offset(work->handle, &at);
	while (place_moves(place, at + 1)) {
		enter_program(work, 0);
		add_gap(work);
	}
	if (at > place->end - place->part->size)
		add_gap(work);
}

/* Ring 3 goes on at `ip`. */
static void take_entry(struct work *work, const struct pt_event *event, uint64_t ip)
{
	struct place *place = &work->place;
	bool moved = false;
	uint64_t at = 0;
	size_t program;

	work->decoder->offset(work->handle, &at);
	while (place_moves(place, at))
		moved = true;
	program = place_program(place, ip, event->has_tsc ? event->tsc : 0);
	if (moved || program != place->program)
		enter_program(work, program);
}

/* Where the kernel is traced: another task, or another program, has another CR3. */
static void take_memory(struct work *work, uint64_t cr3)
{
	const uint64_t memory = cr3 & ~UINT64_C(0x1fff); /* both of page-table isolation */
	struct place *place = &work->place;

	if (!place->part->program_count)
		return;
	if (place->memory && memory != place->memory &&
	    place->program + 1 < place->part->program_count)
		enter_program(work, place->program + 1);
	place->memory = memory;
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
		if (work->place.part->program_count)
			take_entry(work, event, event->variant.enabled.ip);
		return;
	case ptev_disabled:
		place_leaves(&work->place, work->last.known ? work->last.next : 0);
		if (!event->ip_suppressed)
			arrive(work, event->variant.disabled.ip);
		work->last.known = work->enabled = false;
		return;
	case ptev_async_disabled:
		place_leaves(&work->place, event->variant.async_disabled.at);
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
	/* libipt 2.1 has one more class, ptic_indirect: an indirect jump or a far transfer. */
	return class == ptic_call || class == ptic_return || class == ptic_jump ||
	       class == ptic_far_call || class == ptic_far_return || class == ptic_far_jump ||
	       (int)class == ptic_ptwrite + 1;
}

/* --- One interface to the two decoders ----------------------------------------------------------
 */

#define DECODER(kind, prefix)                                                                      \
	static int sync_##kind(void *decoder)                                                      \
	{                                                                                          \
		return prefix##_sync_forward(decoder);                                             \
	}                                                                                          \
	static int event_##kind(void *decoder, struct pt_event *event, size_t size)                \
	{                                                                                          \
		return prefix##_event(decoder, event, size);                                       \
	}                                                                                          \
	static int offset_##kind(void *decoder, uint64_t *offset)                                  \
	{                                                                                          \
		return prefix##_get_offset(decoder, offset);                                       \
	}                                                                                          \
	static int sync_offset_##kind(void *decoder, uint64_t *offset)                             \
	{                                                                                          \
		return prefix##_get_sync_offset(decoder, offset);                                  \
	}                                                                                          \
	static void enter_##kind(void *decoder, struct pt_image *image)                            \
	{                                                                                          \
		prefix##_set_image(decoder, image);                                                \
	}                                                                                          \
	static void close_##kind(void *decoder)                                                    \
	{                                                                                          \
		prefix##_free_decoder(decoder);                                                    \
	}

DECODER(instructions, pt_insn)
DECODER(blocks, pt_blk)

static void *open_instructions(const struct pt_config *config)
{
	return pt_insn_alloc_decoder(config);
}

static int next_instruction(void *decoder, struct work *work)
{
	struct pt_insn insn = {0};
	int status = pt_insn_next(decoder, &insn, sizeof(insn));

	if (insn.iclass == ptic_error)
		return status;
	arrive(work, insn.ip);
	work->last = (struct last){true, transfers(insn.iclass), insn.ip, insn.ip + insn.size};
	work->out->instructions++;
	return status;
}

static void *open_blocks(const struct pt_config *config)
{
	struct pt_config ending = *config;

	ending.flags.variant.block.end_on_call = 1;
	ending.flags.variant.block.end_on_jump = 1;
	return pt_blk_alloc_decoder(&ending);
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
	work->out->instructions += block.ninsn;
	return status;
}

static const struct decoder decoders[] = {
	[PT_INSTRUCTIONS] = {open_instructions, sync_instructions, event_instructions,
			     next_instruction, offset_instructions, sync_offset_instructions,
			     enter_instructions, close_instructions},
	[PT_BLOCKS] = {open_blocks, sync_blocks, event_blocks, next_block, offset_blocks,
		       sync_offset_blocks, enter_blocks, close_blocks},
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
	while (work->out->cut_count > 1 &&
	       work->out->cuts[work->out->cut_count - 1].at > progress->records)
		work->out->cut_count--;
	if (work->place.part->program_count)
		enter_program(work, work->place.program);
	work->endless++;
	return false;
}

static void note_error(struct work *work, int error, uint64_t at)
{
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
	if (status >= 0 && work->place.part->program_count)
		take_sync(work);
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
	if (work->place.part->program_count)
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
}

/* Bytes of the frames from `first` to `last`; `before`: bytes of the stream ahead. */
static void decode_part(struct work *work, const struct trace_part *first,
			const struct trace_part *last, uint8_t *bytes, size_t size, uint64_t before)
{
	if (!size)
		return;
	work->place.part = first;
	work->place.end = first->size;
	work->place.last_part = last;
	work->place.program = 0;
	work->place.memory = 0;
	work->sequence = last->header.sequence;
	decode_bytes(work, bytes, size, before);
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
	size_t streams = stream->trace && stream->trace->perf ? stream->trace->stream_count : 0;
	uint64_t next = 0;
	size_t used = 0, count = stream->packets.count, first = 0;

	work.place.resume = allocate(streams, sizeof(*work.place.resume));

	for (size_t i = 0; i < count; i++) {
		const struct trace_part *part = &parts[i];
		bool hole = part->header.index != next || part->header.lost;

		if (i && (hole || trace_has_root(stream->trace, part[-1].header.sequence,
						 part->header.sequence))) {
			decode_part(&work, &parts[first], part - 1, bytes, used, next - used);
			used = 0;
			first = i;
		}
		if (hole && !part->program_count)
			add_gap(&work);
		if (part->size)
			memcpy(bytes + used, part->payload, part->size);
		used += part->size;
		next = part->header.index + part->size;
	}
	if (count)
		decode_part(&work, &parts[first], &parts[count - 1], bytes, used, next - used);
	memories_close(work.memories);
	free(work.place.resume);
	free(bytes);
	return out;
}
