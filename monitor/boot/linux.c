// SPDX-License-Identifier: MIT
#include "monitor/boot/linux.h"

#include "lib/format.h"
#include "lib/string.h"
#include "monitor/boot/information.h"

/* The setup header, as its bytes are in the file and in the boot parameters. */
struct setup_header {
	uint8_t setup_sectors; /* of 512 bytes, after the first */
	uint16_t root_flags;
	uint32_t payload_paragraphs; /* of 16 bytes */
	uint16_t ram_size, video_mode, root_device, boot_flag;
	uint8_t jump, end; /* a jump over the header: its end is 202H + this */
	char magic[4];
	uint16_t version;
	uint32_t real_mode_switch;
	uint16_t start_segment, version_text;
	uint8_t loader_type, flags;
	uint16_t setup_move_size;
	uint32_t code32_start, initrd_address, initrd_size, bootsect_kludge;
	uint16_t heap_end;
	uint8_t loader_version, loader_type_high;
	uint32_t words, initrd_last, alignment;
	uint8_t relocatable, least_alignment;
	uint16_t flags_64;
	uint32_t words_most, subarchitecture;
	uint64_t subarchitecture_data;
	uint32_t payload_offset, payload_length;
	uint64_t setup_data, preferred;
	uint32_t memory_size, handover_offset;
} __attribute__((packed));

struct e820_entry {
	uint64_t base, length;
	uint32_t type;
} __attribute__((packed));

/* "struct boot_params": what this loader writes of it. */
struct boot_parameters {
	uint8_t screen_and_apm[0x70];
	uint64_t rsdp;
	uint8_t firmware[0x1e8 - 0x78];
	uint8_t e820_count;
	uint8_t flags[0x1f1 - 0x1e9];
	struct setup_header header;
	uint8_t more[0x2d0 - 0x1f1 - sizeof(struct setup_header)];
	struct e820_entry e820[128];
	uint8_t rest[4096 - 0x2d0 - 128 * 20];
} __attribute__((packed));

_Static_assert(offsetof(struct boot_parameters, rsdp) == 0x70, "acpi_rsdp_addr");
_Static_assert(offsetof(struct boot_parameters, e820_count) == 0x1e8, "e820_entries");
_Static_assert(offsetof(struct boot_parameters, header.boot_flag) == 0x1fe, "boot_flag");
_Static_assert(offsetof(struct boot_parameters, header.version) == 0x206, "version");
_Static_assert(offsetof(struct boot_parameters, header.initrd_address) == 0x218, "ramdisk_image");
_Static_assert(offsetof(struct boot_parameters, header.words) == 0x228, "cmd_line_ptr");
_Static_assert(offsetof(struct boot_parameters, header.memory_size) == 0x260, "init_size");
_Static_assert(offsetof(struct boot_parameters, e820) == 0x2d0, "e820_table");
_Static_assert(sizeof(struct boot_parameters) == LINUX_PARAMETERS_BYTES, "a page");
_Static_assert(BOOT_MAX_REGIONS <= 128, "all regions have room");

enum {
	HEADER_AT = 0x1f1,
	HEADER_END_FROM = 0x202,
	BOOT_FLAG = 0xaa55,
	SECTOR = 512,
	PARAGRAPH = 16,
	SETUP_SECTORS_OLD = 4, /* what 0 means */
	OLDEST = 0x20a,	       /* the first with pref_address and init_size */
	LOADED_HIGH = 1 << 0,
	LOADER_UNDEFINED = 0xff,
};

static const struct setup_header *header_of(const void *image)
{
	return (const void *)((const uint8_t *)image + HEADER_AT);
}

bool linux_recognised(const void *image, size_t size)
{
	return size >= HEADER_AT + offsetof(struct setup_header, real_mode_switch) &&
	       header_of(image)->boot_flag == BOOT_FLAG &&
	       memcmp(header_of(image)->magic, "HdrS", 4) == 0;
}

/* Returns false if the image is cut off: bytes of the last paragraph alone may be missing. */
static bool read_header(struct linux_image *kernel, const void *image, size_t size)
{
	const struct setup_header *header = header_of(image);
	uint32_t sectors = header->setup_sectors ? header->setup_sectors : SETUP_SECTORS_OLD;
	uint32_t setup_size = (sectors + 1) * SECTOR;
	uint64_t end = setup_size + (uint64_t)header->payload_paragraphs * PARAGRAPH;
	uint64_t missing = end > size ? end - size : 0;

	*kernel = (struct linux_image){
		.base = image,
		.setup_size = setup_size,
		.payload_size = (uint32_t)(header->payload_paragraphs * PARAGRAPH - missing),
		.memory_size = header->memory_size,
		.alignment = header->alignment,
		.preferred = header->preferred,
		.initrd_end = header->initrd_last + 1ull,
		.words_most = header->words_most,
		.relocatable = header->relocatable,
	};
	return missing < PARAGRAPH;
}

bool linux_open(struct linux_image *kernel, const void *image, size_t size, char *error,
		size_t error_size)
{
	const struct setup_header *header = header_of(image);

	if (header->version < OLDEST) {
		format(error, error_size,
		       "the Linux kernel has boot protocol %u.%02u; 2.10 (Linux 2.6.31) is the "
		       "oldest that can be booted",
		       header->version >> 8, header->version & 0xff);
		return false;
	}
	if (size < HEADER_AT + sizeof(*header) || !read_header(kernel, image, size)) {
		format(error, error_size, "the Linux kernel is cut off: it has %llu bytes",
		       (unsigned long long)size);
		return false;
	}
	if (!(header->flags & LOADED_HIGH) || !kernel->payload_size ||
	    kernel->payload_size > kernel->memory_size || kernel->alignment < PAGE_SIZE ||
	    kernel->alignment & (kernel->alignment - 1)) {
		format(error, error_size,
		       "the Linux kernel is no bzImage, or its setup header is damaged");
		return false;
	}
	return true;
}

static bool is_free(const struct boot_info *info, struct range range, struct range taken)
{
	return range.end <= 4 * GIB && memory_usable(info, range) && !ranges_overlap(range, taken);
}

static bool place_kernel(struct linux_places *places, const struct linux_image *kernel,
			 const struct boot_info *info, struct range taken)
{
	struct memory_request request = {
		.size = (uint64_t)kernel->memory_size + kernel->alignment - PAGE_SIZE,
		.within = {1 << 20, 4 * GIB},
		.avoided = 1,
		.avoid = {taken},
	};
	uint64_t start;

	places->kernel = (struct range){kernel->preferred, kernel->preferred + kernel->memory_size};
	if (kernel->preferred < 4 * GIB && is_free(info, places->kernel, taken))
		return true;
	if (!kernel->relocatable || !memory_find(info, &request, &start))
		return false;
	start = (start + kernel->alignment - 1) & ~(uint64_t)(kernel->alignment - 1);
	places->kernel = (struct range){start, start + kernel->memory_size};
	return true;
}

static bool place_initrd(struct linux_places *places, const struct linux_image *kernel,
			 const struct boot_info *info, struct range taken, struct range now)
{
	struct memory_request request = {
		.size = now.end - now.start,
		.within = {1 << 20, kernel->initrd_end},
		.from_top = true,
		.avoided = 2,
		.avoid = {taken, places->kernel},
	};

	places->initrd = now;
	if (now.end <= kernel->initrd_end)
		return true;
	if (!memory_find(info, &request, &places->initrd.start))
		return false;
	places->initrd.end = places->initrd.start + request.size;
	return true;
}

bool linux_place(struct linux_places *places, const struct linux_image *kernel,
		 const struct boot_info *info, struct range taken, struct range now, char *error,
		 size_t error_size)
{
	if (!place_kernel(places, kernel, info, taken)) {
		format(error, error_size,
		       "the Linux kernel needs %u KiB of free memory in one piece%s; there is "
		       "too little memory",
		       kernel->memory_size >> 10,
		       kernel->relocatable ? " below 4 GiB" : " where it was linked");
		return false;
	}
	if (!place_initrd(places, kernel, info, taken, now)) {
		format(error, error_size,
		       "the initrd of %llu KiB does not fit: the Linux kernel wants it in one piece "
		       "below 0x%llx",
		       (unsigned long long)(now.end - now.start) >> 10,
		       (unsigned long long)kernel->initrd_end);
		return false;
	}
	return true;
}

void linux_parameters(void *page, const struct linux_image *kernel,
		      const struct linux_places *places, const struct boot_info *info,
		      uint64_t words, uint64_t rsdp)
{
	struct boot_parameters *parameters = page;
	const struct setup_header *header = header_of(kernel->base);
	size_t bytes = HEADER_END_FROM + header->end - HEADER_AT;

	memset(parameters, 0, sizeof(*parameters));
	/* A newer kernel's header may be longer; the memory map follows. */
	if (bytes > offsetof(struct boot_parameters, e820) - HEADER_AT)
		bytes = offsetof(struct boot_parameters, e820) - HEADER_AT;
	memcpy(&parameters->header, header, bytes);
	parameters->header.loader_type = LOADER_UNDEFINED;
	parameters->header.code32_start = (uint32_t)places->kernel.start;
	parameters->header.initrd_address = (uint32_t)places->initrd.start;
	parameters->header.initrd_size = (uint32_t)(places->initrd.end - places->initrd.start);
	parameters->header.words = (uint32_t)words;
	parameters->rsdp = rsdp;
	parameters->e820_count = (uint8_t)info->region_count;
	for (unsigned i = 0; i < info->region_count; i++)
		parameters->e820[i] = (struct e820_entry){
			info->regions[i].base, info->regions[i].length, info->regions[i].type};
}
