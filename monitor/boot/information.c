// SPDX-License-Identifier: MIT
#include "monitor/boot/information.h"

#include "abi/multiboot.h"
#include "lib/string.h"

#include <stdbool.h>
#include <stdint.h>

static struct range region_range(const struct boot_region *region)
{
	return (struct range){region->base, region->base + region->length};
}

bool memory_usable(const struct boot_info *info, struct range range)
{
	uint64_t reached = range.start;

	for (unsigned i = 0; i < info->region_count; i++) {
		struct range region = region_range(&info->regions[i]);

		if (!ranges_overlap(region, range))
			continue;
		if (info->regions[i].type != MEMORY_USABLE)
			return false;
		/* Sorted by base: a region that starts beyond `reached` leaves a hole. */
		if (region.start <= reached && region.end > reached)
			reached = region.end;
	}
	return reached >= range.end;
}

uint64_t memory_top(const struct boot_info *info)
{
	uint64_t top = 0;

	for (unsigned i = 0; i < info->region_count; i++) {
		struct range region = region_range(&info->regions[i]);

		if (info->regions[i].type == MEMORY_USABLE && region.end > top)
			top = region.end;
	}
	return top;
}

uint32_t memory_from(const struct boot_info *info, uint64_t start)
{
	uint64_t end = start;

	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];

		if (region->type == MEMORY_USABLE && region->base <= end &&
		    region->base + region->length > end)
			end = region->base + region->length;
	}
	return (end - start) >> 10 > UINT32_MAX ? UINT32_MAX : (uint32_t)((end - start) >> 10);
}

void memory_avoid(struct memory_request *request, struct range range)
{
	if (request->avoided < MEMORY_MOST_AVOIDED)
		request->avoid[request->avoided++] = range;
}

static bool fits(const struct boot_info *info, const struct memory_request *request, uint64_t start)
{
	struct range block = {start, start + request->size};

	if (block.end < block.start || start < request->within.start ||
	    block.end > request->within.end || !memory_usable(info, block))
		return false;
	for (unsigned i = 0; i < request->avoided; i++) {
		if (ranges_overlap(block, request->avoid[i]))
			return false;
	}
	return true;
}

struct search {
	const struct boot_info *info;
	const struct memory_request *request;
	bool found;
	uint64_t best;
};

/* A best place always touches something: an end of a region, of a range to avoid, or of `within`.
 */
static void try_at(struct search *search, struct range edge)
{
	bool from_top = search->request->from_top;
	uint64_t start =
		from_top ? page_down(edge.start - search->request->size) : page_up(edge.end);

	if (from_top && edge.start < search->request->size)
		return;
	if (!fits(search->info, search->request, start))
		return;
	if (!search->found || (from_top ? start > search->best : start < search->best))
		search->best = start;
	search->found = true;
}

bool memory_find(const struct boot_info *info, const struct memory_request *request,
		 uint64_t *start)
{
	struct search search = {.info = info, .request = request};

	/* As an edge, each limit is an obstacle: what lies outside it. */
	try_at(&search, (struct range){request->within.end, request->within.start});
	for (unsigned i = 0; i < info->region_count; i++) {
		struct range region = region_range(&info->regions[i]);

		try_at(&search, region);
		try_at(&search, (struct range){region.end, region.start});
	}
	for (unsigned i = 0; i < request->avoided; i++)
		try_at(&search, request->avoid[i]);
	*start = search.best;
	return search.found;
}

static void insert(struct boot_info *info, unsigned at, struct range range, uint32_t type)
{
	for (unsigned i = info->region_count; i > at; i--)
		info->regions[i] = info->regions[i - 1];
	info->regions[at] = (struct boot_region){range.start, range.end - range.start, type};
	info->region_count++;
}

static void delete (struct boot_info *info, unsigned at)
{
	info->region_count--;
	for (unsigned i = at; i < info->region_count; i++)
		info->regions[i] = info->regions[i + 1];
}

/* Takes `range` out of region `i`, which it overlaps. True if the region at `i` is gone. */
static bool cut(struct boot_info *info, unsigned i, struct range range)
{
	struct range region = region_range(&info->regions[i]);
	uint32_t type = info->regions[i].type;

	if (region.start < range.start)
		info->regions[i].length = range.start - region.start;
	else
		delete (info, i);
	if (region.end > range.end) {
		struct range rest = {range.end, region.end};
		unsigned at = 0;

		while (at < info->region_count && info->regions[at].base < rest.start)
			at++;
		insert(info, at, rest, type);
	}
	return region.start >= range.start;
}

bool memory_reserve(struct boot_info *info, struct range range)
{
	unsigned at = 0;

	/* Cutting one region in two and adding one makes two more, if the regions do not overlap
	   each other; where they do, only one more each. */
	if (info->region_count + 2 > BOOT_MAX_REGIONS)
		return false;
	for (unsigned i = 0; i < info->region_count;) {
		bool overlaps = info->regions[i].type == MEMORY_USABLE &&
				ranges_overlap(region_range(&info->regions[i]), range);

		if (!overlaps || !cut(info, i, range))
			i++;
	}
	while (at < info->region_count && info->regions[at].base < range.start)
		at++;
	insert(info, at, range, MEMORY_RESERVED);
	return true;
}

/* Multiboot2 specification 2.0, 3.6 "Boot information"; Multiboot specification 0.6.96, 3.1
 * and 3.3. */

enum { RSDP_V1_BYTES = 20 };

struct writer {
	uint8_t *buffer;
	size_t size, used;
	bool full;
};

static void append(struct writer *writer, const void *data, size_t bytes)
{
	if (bytes > writer->size - writer->used) {
		writer->full = true;
		return;
	}
	if (bytes)
		memcpy(writer->buffer + writer->used, data, bytes);
	writer->used += bytes;
}

/* A tag is a fixed part, that starts with the header, and a tail; padded to 8 bytes. */
static void append_tag(struct writer *writer, uint32_t type, const void *head, size_t head_bytes,
		       const void *tail, size_t tail_bytes)
{
	static const uint8_t padding[8];
	size_t size = sizeof(struct multiboot2_tag) + head_bytes + tail_bytes;
	struct multiboot2_tag tag = {type, (uint32_t)size};

	append(writer, &tag, sizeof(tag));
	append(writer, head, head_bytes);
	append(writer, tail, tail_bytes);
	append(writer, padding, -size & 7);
}

static void append_text(struct writer *writer, uint32_t type, const char *text)
{
	append_tag(writer, type, NULL, 0, text, strlen(text) + 1);
}

static void append_modules(struct writer *writer, const struct boot_info *info)
{
	for (unsigned i = 0; i < info->module_count; i++) {
		const struct boot_module *module = &info->modules[i];
		uint32_t range[2] = {(uint32_t)module->start, (uint32_t)module->end};

		append_tag(writer, MULTIBOOT2_MODULE, range, sizeof(range), module->string,
			   strlen(module->string) + 1);
	}
}

static void append_memory_sizes(struct writer *writer, const struct boot_info *info)
{
	uint32_t sizes[2] = {memory_from(info, 0), memory_from(info, 1 << 20)};

	append_tag(writer, MULTIBOOT2_MEMORY_SIZES, sizes, sizeof(sizes), NULL, 0);
}

static void append_memory_map(struct writer *writer, const struct boot_info *info)
{
	uint32_t format[2] = {sizeof(struct multiboot2_mmap_entry), 0};
	struct multiboot2_mmap_entry entries[BOOT_MAX_REGIONS];

	for (unsigned i = 0; i < info->region_count; i++)
		entries[i] = (struct multiboot2_mmap_entry){
			info->regions[i].base, info->regions[i].length, info->regions[i].type, 0};
	append_tag(writer, MULTIBOOT2_MEMORY_MAP, format, sizeof(format), entries,
		   info->region_count * sizeof(entries[0]));
}

static void append_framebuffer(struct writer *writer, const struct boot_framebuffer *fb)
{
	struct multiboot2_framebuffer tag = {
		.address = fb->address,
		.pitch = fb->pitch,
		.width = fb->width,
		.height = fb->height,
		.bits = fb->bits,
		.type = fb->type,
		.red_position = fb->red.position,
		.red_size = fb->red.size,
		.green_position = fb->green.position,
		.green_size = fb->green.size,
		.blue_position = fb->blue.position,
		.blue_size = fb->blue.size,
	};

	append_tag(writer, MULTIBOOT2_FRAMEBUFFER, (const char *)&tag + sizeof(tag.tag),
		   sizeof(tag) - sizeof(tag.tag), NULL, 0);
}

size_t information_build(void *buffer, size_t size, const struct boot_info *info)
{
	struct writer writer = {.buffer = buffer, .size = size};
	struct multiboot2_info header = {0, 0};

	append(&writer, &header, sizeof(header));
	append_text(&writer, MULTIBOOT2_COMMAND_LINE, info->command_line);
	append_text(&writer, MULTIBOOT2_LOADER_NAME, info->loader_name);
	append_modules(&writer, info);
	append_memory_sizes(&writer, info);
	append_memory_map(&writer, info);
	if (info->framebuffer.width)
		append_framebuffer(&writer, &info->framebuffer);
	if (info->rsdp_size)
		append_tag(&writer,
			   info->rsdp_size > RSDP_V1_BYTES ? MULTIBOOT2_RSDP_V2
							   : MULTIBOOT2_RSDP_V1,
			   NULL, 0, info->rsdp, info->rsdp_size);
	if (info->efi_system_table)
		append_tag(&writer, MULTIBOOT2_EFI64_SYSTEM_TABLE, NULL, 0, &info->efi_system_table,
			   sizeof(info->efi_system_table));
	append_tag(&writer, MULTIBOOT2_END, NULL, 0, NULL, 0);
	if (writer.full)
		return 0;
	header.total_size = (uint32_t)writer.used;
	memcpy(buffer, &header, sizeof(header));
	return writer.used;
}

/* The first header of Multiboot 2 or, if that is none, of Multiboot 1; 0: there is neither. */
static uint32_t header_magic(const void *image, size_t size)
{
	uint32_t words[3]; /* magic, flags, checksum; or magic, architecture, length */
	uint32_t found = 0;

	for (size_t at = 0; at + sizeof(words) <= size && at < MULTIBOOT2_HEADER_WITHIN; at += 4) {
		memcpy(words, (const uint8_t *)image + at, sizeof(words));
		if (words[0] == MULTIBOOT2_HEADER_MAGIC && !(at & 7))
			return words[0];
		if (words[0] == MULTIBOOT1_HEADER_MAGIC && !(words[0] + words[1] + words[2]) &&
		    at < MULTIBOOT1_HEADER_WITHIN)
			found = words[0];
	}
	return found;
}

bool information_wanted_1(const void *image, size_t size)
{
	return header_magic(image, size) == MULTIBOOT1_HEADER_MAGIC;
}

/* Appends `bytes` at a multiple of 4; returns how far into the buffer they are. */
static uint32_t append_aligned(struct writer *writer, const void *data, size_t bytes)
{
	static const uint8_t padding[4];
	uint32_t at;

	append(writer, padding, -writer->used & 3);
	at = (uint32_t)writer->used;
	append(writer, data, bytes);
	return at;
}

/* ACPI 6.5, 5.2.12: local APIC and local x2APIC entries. */
enum { LOCAL_APIC = 0, LOCAL_X2APIC = 9, LOCAL_APIC_BYTES = 8, LOCAL_X2APIC_BYTES = 16 };
enum { ENABLED = 1, ONLINE_CAPABLE = 2, TABLE_CHECKSUM = 9, FIRST_ENTRY = 44, IDS = 255 };

/* The flags of an entry that is a processor, and its APIC ID; NULL: it is none. */
static uint8_t *find_flags(uint8_t *entry, uint32_t *id)
{
	uint8_t *flags = NULL;

	if (entry[0] == LOCAL_APIC && entry[1] >= LOCAL_APIC_BYTES) {
		*id = entry[3];
		flags = entry + 4;
	} else if (entry[0] == LOCAL_X2APIC && entry[1] >= LOCAL_X2APIC_BYTES) {
		memcpy(id, entry + 4, sizeof(*id));
		flags = entry + 8;
	}
	return flags;
}

/* Where the entry after the one at `at` is, or the first after 0. 0: there is none. */
static uint32_t next_entry(const uint8_t *madt, uint32_t length, uint32_t at)
{
	at = at ? at + madt[at + 1] : FIRST_ENTRY;
	return at + 2 <= length && madt[at + 1] >= 2 && madt[at + 1] <= length - at ? at : 0;
}

unsigned information_count_processors(const uint8_t *madt, uint32_t length)
{
	unsigned count = 0;
	uint32_t id;

	for (uint32_t at = 0; (at = next_entry(madt, length, at));)
		count += find_flags((uint8_t *)madt + at, &id) != NULL;
	return count;
}

unsigned information_limit_processors(uint8_t *madt, uint32_t length, unsigned most, uint32_t self,
				      unsigned *listed)
{
	enum { NEW, STAYS, GOES } known[IDS] = {NEW}; /* some firmware lists a processor twice */
	unsigned count = 0, others = 0;
	uint32_t id, at = 0;
	uint8_t sum = 0;

	while ((at = next_entry(madt, length, at))) {
		uint8_t *flags = find_flags(madt + at, &id);

		if (!flags || !(*flags & ENABLED))
			continue;
		count += id >= IDS || known[id] == NEW;
		if (id < IDS && known[id] == NEW) {
			known[id] = id == self || others + 1 < most ? STAYS : GOES;
			others += known[id] == STAYS && id != self;
		}
		if (id >= IDS || known[id] == GOES)
			*flags &= (uint8_t) ~(ENABLED | ONLINE_CAPABLE);
	}
	for (at = 0; at < length; at++)
		sum += madt[at];
	madt[TABLE_CHECKSUM] -= sum;
	*listed = count;
	return others + 1;
}

static uint32_t append_string(struct writer *writer, const char *text)
{
	return append_aligned(writer, text, strlen(text) + 1);
}

static void append_modules_1(struct writer *writer, uint32_t physical, const struct boot_info *from,
			     struct multiboot1_info *info)
{
	struct multiboot1_module modules[BOOT_MAX_MODULES];

	for (unsigned i = 0; i < from->module_count; i++)
		modules[i] = (struct multiboot1_module){
			.start = (uint32_t)from->modules[i].start,
			.end = (uint32_t)from->modules[i].end,
			.string = physical + append_string(writer, from->modules[i].string),
		};
	info->mods_count = from->module_count;
	info->mods_addr =
		physical + append_aligned(writer, modules, from->module_count * sizeof(modules[0]));
}

static void append_memory_map_1(struct writer *writer, uint32_t physical,
				const struct boot_info *from, struct multiboot1_info *info)
{
	struct multiboot1_mmap_entry entry = {.size = sizeof(entry) - sizeof(entry.size)};

	info->mmap_addr = physical + append_aligned(writer, NULL, 0);
	for (unsigned i = 0; i < from->region_count; i++) {
		entry.base = from->regions[i].base;
		entry.length = from->regions[i].length;
		entry.type = from->regions[i].type;
		append(writer, &entry, sizeof(entry));
	}
	info->mmap_length = from->region_count * (uint32_t)sizeof(entry);
}

size_t information_build_1(void *buffer, size_t size, uint32_t physical,
			   const struct boot_info *from)
{
	struct writer writer = {.buffer = buffer, .size = size};
	struct multiboot1_info info = {
		.flags = MULTIBOOT1_HAS_MEMORY | MULTIBOOT1_HAS_COMMAND_LINE |
			 MULTIBOOT1_HAS_MODULES | MULTIBOOT1_HAS_MEMORY_MAP |
			 MULTIBOOT1_HAS_LOADER_NAME,
		.mem_lower = memory_from(from, 0),
		.mem_upper = memory_from(from, 1 << 20),
	};

	append(&writer, &info, sizeof(info));
	info.cmdline = physical + append_string(&writer, from->command_line);
	info.boot_loader_name = physical + append_string(&writer, from->loader_name);
	append_modules_1(&writer, physical, from, &info);
	append_memory_map_1(&writer, physical, from, &info);
	if (writer.full)
		return 0;
	memcpy(buffer, &info, sizeof(info));
	return writer.used;
}
