// SPDX-License-Identifier: MIT
// What libipt has to know: the memory that packets were recorded in, and the processor.
#include "tools/view/pt.h"

#include "tools/view/view.h"

#include <stdlib.h>

struct memory {
	const void *of; /* a program, or the maps of a task of Linux */
	struct pt_image *image;
};

struct memories {
	const struct trace_stream *stream;
	struct pt_image_section_cache *sections;
	struct memory *memory; /* the first is that before the first PIP */
	size_t count;
};

enum { SYSCALL_BYTES = 2, AHEAD_MOST = 64 };

/* Of sections that no decoder uses: without it each block that is decoded maps its file anew. */
#define MAPPED_MOST (64u << 20)

static void add_segments(struct memories *memories, struct pt_image *image, const struct code *code,
			 bool lower_half_too)
{
	struct segment segment;
	int section;

	for (unsigned i = 0; code_segment(code, i, &segment); i++)
		if (segment.executable && segment.file_size &&
		    (segment.address >> 63 || lower_half_too)) {
			section = pt_iscache_add_file(memories->sections, code_path(code),
						      segment.offset, segment.file_size,
						      segment.address);
			if (section > 0)
				pt_image_add_cached(image, memories->sections, section, NULL);
		}
}

static struct pt_image *add_memory(struct memories *memories, const void *of)
{
	struct pt_image *image = pt_image_alloc(NULL);

	if (!image)
		fail("libipt has no memory");
	memories->memory =
		reallocate(memories->memory, memories->count + 1, sizeof(*memories->memory));
	memories->memory[memories->count++] = (struct memory){of, image};
	return image;
}

/* What space_code() says: the lower half is the program's, or without one the kernel's. */
static struct pt_image *add_program(struct memories *memories, const struct code *program)
{
	const struct space *space = &memories->stream->space;
	struct pt_image *image = add_memory(memories, program);

	if (space->kernel)
		add_segments(memories, image, space->kernel, !space->program);
	if (program)
		add_segments(memories, image, program, true);
	return image;
}

/* A file may end before the map of it does. */
static struct pt_image *add_maps(struct memories *memories, const struct maps *maps)
{
	struct pt_image *image = add_memory(memories, maps);
	int section;

	if (memories->stream->space.kernel)
		add_segments(memories, image, memories->stream->space.kernel, false);
	for (size_t i = 0; i < maps->count; i++) {
		const struct map *map = &maps->map[i];

		if (!map->code)
			continue;
		section = pt_iscache_add_file(memories->sections, code_path(map->code), map->offset,
					      map->end - map->start, map->start);
		if (section > 0)
			pt_image_add_cached(image, memories->sections, section, NULL);
	}
	return image;
}

static bool has_roots(const struct trace_stream *stream)
{
	return stream->trace && stream->trace->root_count;
}

struct memories *memories_open(const struct trace_stream *stream)
{
	struct memories *memories = allocate(1, sizeof(*memories));
	bool any = has_roots(stream);
	struct pt_image *image;

	memories->stream = stream;
	memories->sections = pt_iscache_alloc(NULL);
	if (!memories->sections)
		fail("libipt has no memory");
	pt_iscache_set_limit(memories->sections, MAPPED_MOST);
	image = stream->space.maps ? add_maps(memories, stream->space.maps)
				   : add_program(memories, any ? NULL : stream->space.program);
	for (size_t i = 0; any && i < stream->trace->code_count; i++)
		if (stream->trace->codes[i] != stream->space.kernel)
			add_segments(memories, image, stream->trace->codes[i], true);
	return memories;
}

void memories_close(struct memories *memories)
{
	for (size_t i = 0; i < memories->count; i++)
		pt_image_free(memories->memory[i].image);
	pt_iscache_free(memories->sections);
	free(memories->memory);
	free(memories);
}

struct pt_image *memory_before_pip(const struct memories *memories)
{
	return memories->memory[0].image;
}

struct pt_image *memory_of(struct memories *memories, const struct code *program)
{
	if (!has_roots(memories->stream))
		return memory_before_pip(memories);
	for (size_t i = 1; i < memories->count; i++)
		if (memories->memory[i].of == program)
			return memories->memory[i].image;
	return add_program(memories, program);
}

struct pt_image *memory_of_maps(struct memories *memories, const struct maps *maps)
{
	for (size_t i = 0; i < memories->count; i++)
		if (memories->memory[i].of == maps)
			return memories->memory[i].image;
	return add_maps(memories, maps);
}

bool place_moves(struct place *place, uint64_t at)
{
	if (place->part == place->last_part || at <= place->end)
		return false;
	place->end += (++place->part)->size;
	place->program = 0;
	return true;
}

void place_leaves(struct place *place, uint64_t ip)
{
	if (place->part->program_count)
		place->resume[place->part->programs[place->program].stream] = ip;
}

/* Whether a program may go on at `ip`: where it left ring 3, or at the system call that it repeats.
 */
static bool may_go_on(const struct place *place, size_t program, uint64_t ip)
{
	const struct trace_program *programs = place->part->programs;
	uint64_t resume = place->resume[programs[program].stream];

	if (resume)
		return ip == resume || ip == resume - SYSCALL_BYTES;
	/* Where the next one begins the one before does not, whose files may be at the same place.
	 */
	if (program + 1 < place->part->program_count &&
	    !place->resume[programs[program + 1].stream] &&
	    space_is_entry(programs[program + 1].space, ip))
		return false;
	return maps_find(programs[program].space->maps, ip);
}

/*
 * The kernel lets a task go on with the trace of another one, if both are children of one program,
 * and says only when. By the time stamp the program is this one or one further on.
 */
size_t place_program(const struct place *place, uint64_t ip, uint64_t tsc)
{
	const struct trace_program *programs = place->part->programs;
	size_t count = place->part->program_count, first = place->program;

	for (size_t i = first + 1; tsc && i < count && programs[i].tsc <= tsc; i++)
		first = i;
	count = count - first < AHEAD_MOST ? count : first + AHEAD_MOST;
	for (size_t i = first; i < count; i++)
		if (may_go_on(place, i, ip))
			return i;
	/* A signal, perhaps. */
	for (size_t i = first; i < count; i++)
		if (maps_find(programs[i].space->maps, ip))
			return i;
	return first;
}

/* Of a processor that perf names its errata too (CPUID.1:EAX, SDM volume 2). */
struct pt_config pt_config_of(const struct trace *trace)
{
	struct pt_config config;
	uint32_t signature = trace && trace->perf ? trace->processor : 0;

	pt_config_init(&config);
	if (trace && trace->perf) {
		config.cpuid_0x15_eax = trace->tsc_ratio[0];
		config.cpuid_0x15_ebx = trace->tsc_ratio[1];
		config.mtc_freq = trace->mtc_period;
		config.nom_freq = trace->nominal_ratio;
	}
	config.errata.bdm70 = !signature; /* most have it, and it does no harm where it is not */
	if (!signature)
		return config;
	config.cpu = (struct pt_cpu){
		.vendor = pcv_intel,
		.family = (uint16_t)((signature >> 8 & 15) + (signature >> 20 & 255)),
		.model = (uint8_t)((signature >> 4 & 15) | (signature >> 12 & 0xf0)),
		.stepping = signature & 15};
	pt_cpu_errata(&config.errata, &config.cpu);
	return config;
}

void pt_decode_trace(struct trace *trace)
{
	for (size_t i = 0; i < trace->stream_count; i++) {
		struct trace_stream *stream = &trace->streams[i];
		struct pt_decoded decoded;
		char name[64];

		if (!stream->packets.count)
			continue;
		decoded = pt_decode(stream, PT_BLOCKS);
		trace_add_records(stream, decoded.records, decoded.count);
		stream->instructions = decoded.instructions;
		if (decoded.errors)
			warn("%s: %s: %llu errors of decoding, the first before byte %llu: %s",
			     trace->path, trace_stream_name(stream, name, sizeof(name)),
			     (unsigned long long)decoded.errors,
			     (unsigned long long)decoded.error_at, decoded.error);
		free(decoded.records);
	}
}
