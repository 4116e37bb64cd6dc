/* SPDX-License-Identifier: MIT */
#include "lib/boot_info.h"

#include "abi/multiboot.h"
#include "lib/boot_reader.h"
#include "lib/string.h"

void boot_fault(struct boot_reader *reader, const char *sentence)
{
	if (!reader->fault)
		reader->fault = sentence;
}

bool boot_copy(struct boot_reader *reader, void *to, uint64_t physical, uint64_t bytes)
{
	const void *from = NULL;

	if (physical + bytes >= physical)
		from = reader->memory(physical, bytes);
	if (!from) {
		boot_fault(reader, "the boot information points outside memory");
		return false;
	}
	memcpy(to, from, bytes);
	return true;
}

/* A byte at a time: the length of a Multiboot 1 text is known only once its NUL is found. */
void boot_copy_text(struct boot_reader *reader, char *to, size_t size, uint64_t physical,
		    uint64_t available, const char *too_long)
{
	for (size_t length = 0; length < size; length++) {
		to[length] = '\0';
		if (length == available) {
			boot_fault(reader, "a text in the boot information has no end");
			return;
		}
		if (!boot_copy(reader, &to[length], physical + length, 1) || !to[length])
			return;
	}
	to[size - 1] = '\0';
	if (too_long)
		boot_fault(reader, too_long);
}

static uint32_t known_type(uint32_t type)
{
	return type >= MEMORY_USABLE && type <= MEMORY_BAD ? type : MEMORY_RESERVED;
}

void boot_add_region(struct boot_reader *reader, uint64_t base, uint64_t length, uint32_t type)
{
	struct boot_info *info = reader->info;
	unsigned place = info->region_count;

	if (length > UINT64_MAX - base)
		length = UINT64_MAX - base;
	if (!length)
		return;
	if (info->region_count == BOOT_MAX_REGIONS) {
		boot_fault(reader, "the memory map has more regions than there is room for");
		return;
	}
	for (; place && info->regions[place - 1].base > base; place--)
		info->regions[place] = info->regions[place - 1];
	info->regions[place] = (struct boot_region){base, length, known_type(type)};
	info->region_count++;
}

void boot_add_module(struct boot_reader *reader, uint64_t start, uint64_t end, uint64_t string,
		     uint64_t available)
{
	struct boot_info *info = reader->info;
	struct boot_module *module = &info->modules[info->module_count];

	if (end <= start) {
		boot_fault(reader, "a boot module is empty");
		return;
	}
	if (info->module_count == BOOT_MAX_MODULES) {
		boot_fault(reader, "there are more boot modules than there is room for");
		return;
	}
	module->start = start;
	module->end = end;
	if (available)
		boot_copy_text(reader, module->string, sizeof(module->string), string, available,
			       "the string of a boot module is too long");
	info->module_count++;
}

const char *boot_info_read(struct boot_info *info, uint32_t magic, uint64_t physical,
			   boot_memory memory)
{
	struct boot_reader reader = {.info = info, .memory = memory};

	memset(info, 0, sizeof(*info));
	if (magic == MULTIBOOT1_LOADER_MAGIC)
		multiboot1_read(&reader, physical);
	else if (magic == MULTIBOOT2_LOADER_MAGIC)
		multiboot2_read(&reader, physical);
	else
		return "not started by a Multiboot loader";

	if (!info->region_count)
		boot_fault(&reader, "the boot loader gave no memory map");
	return reader.fault;
}
