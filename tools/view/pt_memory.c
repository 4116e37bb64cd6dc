// SPDX-License-Identifier: MIT
#include "tools/view/pt_memory.h"

#include "tools/view/view.h"

#include <stdlib.h>

struct memory {
	const struct code *program;
	struct pt_image *image;
};

struct memories {
	const struct trace_stream *stream;
	struct pt_image_section_cache *sections;
	struct memory *memory; /* the first is that before the first PIP */
	size_t count;
};

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

/* What space_code() says: the lower half is the program's, or without one the kernel's. */
static struct pt_image *add_memory(struct memories *memories, const struct code *program)
{
	const struct space *space = &memories->stream->space;
	struct pt_image *image = pt_image_alloc(NULL);

	if (!image)
		fail("libipt has no memory");
	memories->memory =
		reallocate(memories->memory, memories->count + 1, sizeof(*memories->memory));
	memories->memory[memories->count++] = (struct memory){program, image};
	if (space->kernel)
		add_segments(memories, image, space->kernel, !space->program);
	if (program)
		add_segments(memories, image, program, true);
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
	image = add_memory(memories, any ? NULL : stream->space.program);
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
		if (memories->memory[i].program == program)
			return memories->memory[i].image;
	return add_memory(memories, program);
}
