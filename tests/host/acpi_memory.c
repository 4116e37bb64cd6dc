// SPDX-License-Identifier: MIT
#include "tests/host/acpi_memory.h"

#include <stdlib.h>

struct acpi_memory memory;

const void *physical_map(uint64_t physical, uint64_t bytes)
{
	if (physical < MEMORY_BASE || bytes > MEMORY_SIZE ||
	    physical - MEMORY_BASE > MEMORY_SIZE - bytes)
		return NULL;
	assert_true(memory.copy_count < MEMORY_MAX_COPIES);
	void *copy = malloc(bytes);
	memcpy(copy, memory.bytes + (physical - MEMORY_BASE), bytes);
	return memory.copies[memory.copy_count++] = copy;
}

int memory_clear(void **state)
{
	while (memory.copy_count)
		free(memory.copies[--memory.copy_count]);
	memset(&memory, 0, sizeof(memory));
	return 0;
}

uint8_t *memory_at(uint32_t physical)
{
	return memory.bytes + (physical - MEMORY_BASE);
}

void seal(uint8_t *bytes, uint32_t size, uint32_t where)
{
	uint8_t sum = 0;

	for (uint32_t i = 0; i < size; i++)
		sum = (uint8_t)(sum + bytes[i]);
	bytes[where] = (uint8_t)(bytes[where] - sum);
}

uint32_t table_store(const char *signature, const void *body, uint32_t size)
{
	struct acpi_header header = {.length = HEADER + size, .revision = 4};
	const uint32_t physical = MEMORY_BASE + memory.used;

	/* An odd address: firmware does not promise any alignment. */
	assert_true(memory.used + HEADER + size + 2 <= MEMORY_SIZE);
	memcpy(header.signature, signature, 4);
	memcpy(memory_at(physical), &header, HEADER);
	if (size)
		memcpy(memory_at(physical) + HEADER, body, size);
	seal(memory_at(physical), HEADER + size, 9);
	memory.used += (HEADER + size + 2) | 1;
	return physical;
}

uint32_t table_add(const char *signature, const void *body, uint32_t size)
{
	return memory.tables[memory.table_count++] = table_store(signature, body, size);
}

void rsdp_store(uint32_t rsdt, uint64_t xsdt)
{
	uint8_t *rsdp = memory.boot.rsdp;
	const uint32_t length = 36;

	memset(rsdp, 0, 36);
	memcpy(rsdp, "RSD PTR ", 8);
	rsdp[15] = xsdt ? 2 : 0;
	memcpy(rsdp + 16, &rsdt, 4);
	seal(rsdp, 20, 8);
	if (xsdt) {
		memcpy(rsdp + 20, &length, 4);
		memcpy(rsdp + 24, &xsdt, 8);
		seal(rsdp, 36, 32);
	}
	memory.boot.rsdp_size = xsdt ? 36 : 20;
}

bool tables_publish(void)
{
	uint64_t entries[16];

	for (unsigned i = 0; i < memory.table_count; i++)
		entries[i] = memory.tables[i];
	rsdp_store(0, table_store("XSDT", entries, memory.table_count * 8));
	return acpi_init(&memory.boot);
}
