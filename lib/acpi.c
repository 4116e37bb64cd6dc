// SPDX-License-Identifier: MIT
/* Sources: ACPI 6.5 section 5.2.5; SPCR and DBG2 as Microsoft publishes them. */
#include "lib/acpi.h"

#include "lib/string.h"
#include <stddef.h>

struct rsdp {
	char signature[8];
	uint8_t checksum; /* over the first 20 bytes */
	char oem_id[6];
	uint8_t revision; /* 0: ends here after rsdt; 2: the rest follows */
	uint32_t rsdt;
	uint32_t length;
	uint64_t xsdt;
	uint8_t extended_checksum; /* over `length` bytes */
	uint8_t reserved[3];
} __attribute__((packed));
_Static_assert(sizeof(struct rsdp) == 36, "ACPI 6.5 table 5.3");

enum { RSDP_V1_SIZE = 20, ALIGNMENT = 16 };
enum { EBDA_SEGMENT = 0x40e, EBDA_SEARCHED = 1024, BIOS_START = 0xe0000, BIOS_SIZE = 0x20000 };

#define TABLE_MAX (4u << 20) /* no real table is as long: a broken length */

static bool sum_is_zero(const void *bytes, uint64_t size)
{
	uint8_t sum = 0;

	for (uint64_t i = 0; i < size; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)bytes)[i]);
	return sum == 0;
}

/* How many of the `size` bytes are a valid RSDP: 0, 20 or 36. */
static unsigned rsdp_size(const void *bytes, uint64_t size)
{
	struct rsdp rsdp = {0};

	if (size < RSDP_V1_SIZE || memcmp(bytes, "RSD PTR ", 8) != 0 ||
	    !sum_is_zero(bytes, RSDP_V1_SIZE))
		return 0;
	memcpy(&rsdp, bytes, size < sizeof(rsdp) ? size : sizeof(rsdp));
	if (rsdp.revision >= 2 && rsdp.xsdt && size >= sizeof(rsdp) &&
	    rsdp.length == sizeof(rsdp) && sum_is_zero(&rsdp, sizeof(rsdp)))
		return sizeof(rsdp);
	return rsdp.rsdt ? RSDP_V1_SIZE : 0;
}

static bool scan(struct boot_info *info, boot_memory memory, uint64_t physical, uint64_t size)
{
	const uint8_t *area = memory(physical, size);

	for (uint64_t at = 0; area && at < size; at += ALIGNMENT) {
		unsigned found = area[at] == 'R' ? rsdp_size(area + at, size - at) : 0;

		if (!found)
			continue;
		memcpy(info->rsdp, area + at, found);
		info->rsdp_size = found;
		return true;
	}
	return false;
}

/* The same of what the loader gave. */
static unsigned given_rsdp(const struct boot_info *info)
{
	return rsdp_size(info->rsdp, info->rsdp_size < sizeof(info->rsdp) ? info->rsdp_size
									  : sizeof(info->rsdp));
}

bool acpi_find_rsdp(struct boot_info *info, boot_memory memory)
{
	const void *segment;
	uint16_t value = 0;
	uint64_t ebda;

	if (given_rsdp(info))
		return true;
	segment = memory(EBDA_SEGMENT, sizeof(value));
	if (segment)
		memcpy(&value, segment, sizeof(value));
	ebda = (uint64_t)value << 4;
	if (ebda >= 0x400 && ebda < 0xa0000 && scan(info, memory, ebda, EBDA_SEARCHED))
		return true;
	return scan(info, memory, BIOS_START, BIOS_SIZE);
}

const struct acpi_header *acpi_table_at(boot_memory memory, uint64_t physical)
{
	const struct acpi_header *header = physical ? memory(physical, sizeof(*header)) : NULL;
	uint32_t length;

	if (!header || header->length < sizeof(*header) || header->length > TABLE_MAX)
		return NULL;
	length = header->length;
	header = memory(physical, length);
	return header && sum_is_zero(header, length) ? header : NULL;
}

static void note_damage(struct acpi_tables *tables, boot_memory memory, uint64_t physical)
{
	const struct acpi_header *header = physical ? memory(physical, sizeof(*header)) : NULL;

	if (header)
		memcpy(tables->damaged, header->signature, 4);
}

static bool read_root(struct acpi_tables *tables, boot_memory memory, uint64_t physical,
		      const char signature[4], unsigned address_size)
{
	const struct acpi_header *root = acpi_table_at(memory, physical), *table;
	const uint8_t *entry, *end;

	if (!root || memcmp(root->signature, signature, 4) != 0)
		return false;
	entry = (const uint8_t *)(root + 1);
	end = (const uint8_t *)root + root->length;
	for (; (size_t)(end - entry) >= address_size && tables->count < ACPI_MOST_TABLES;
	     entry += address_size) {
		uint64_t address = 0;

		memcpy(&address, entry, address_size);
		table = acpi_table_at(memory, address);
		if (table)
			tables->table[tables->count++] = table;
		else
			note_damage(tables, memory, address);
	}
	return true;
}

bool acpi_read_tables(const struct boot_info *info, boot_memory memory, struct acpi_tables *tables)
{
	unsigned size = given_rsdp(info);
	struct rsdp rsdp = {0};

	tables->count = 0;
	tables->damaged[0] = tables->damaged[4] = '\0';
	memcpy(&rsdp, info->rsdp, size);
	return read_root(tables, memory, rsdp.xsdt, "XSDT", 8) ||
	       read_root(tables, memory, rsdp.rsdt, "RSDT", 4);
}

/* Serial Port Console Redirection table; revision 1 ends at `uart_clock`. */
struct spcr {
	struct acpi_header header;
	uint8_t interface_type;
	uint8_t reserved_37[3];
	struct acpi_address base;
	uint8_t interrupt_type;
	uint8_t irq;
	uint32_t gsi;
	uint8_t baud;
	uint8_t parity, stop_bits, flow_control;
	uint8_t terminal_type;
	uint8_t language;
	uint16_t pci_device, pci_vendor;
	uint8_t pci_bus, pci_slot, pci_function;
	uint32_t pci_flags;
	uint8_t pci_segment;
	uint32_t uart_clock;   /* revision 3 */
	uint32_t precise_baud; /* revision 4; 0: see `baud` */
} __attribute__((packed));
_Static_assert(offsetof(struct spcr, base) == 40, "SPCR");
_Static_assert(offsetof(struct spcr, baud) == 58, "SPCR");
_Static_assert(offsetof(struct spcr, uart_clock) == 76, "SPCR");

/* Debug Port Table 2: where its devices are described, and one of them. */
struct dbg2 {
	struct acpi_header header;
	uint32_t devices_offset, device_count;
} __attribute__((packed));

struct dbg2_device {
	uint8_t revision;
	uint16_t length;
	uint8_t address_count;
	uint16_t name_length, name_offset, oem_length, oem_offset;
	uint16_t port_type, port_subtype;
	uint16_t reserved_16;
	uint16_t address_offset; /* from the start of this structure */
	uint16_t size_offset;
} __attribute__((packed));
_Static_assert(sizeof(struct dbg2_device) == 22, "DBG2 table 3");

#define DBG2_SERIAL 0x8000

/* DBG2 serial port subtypes that are a 16550 to software. */
static bool is_16550(unsigned interface_type)
{
	return interface_type == 0x00 || interface_type == 0x01 || interface_type == 0x12;
}

static uint32_t baud_rate(const struct spcr *spcr)
{
	static const uint32_t rates[] = {[3] = 9600, [4] = 19200, [6] = 57600, [7] = 115200};

	if (spcr->header.revision >= 4 && spcr->precise_baud)
		return spcr->precise_baud;
	return spcr->baud < sizeof(rates) / sizeof(rates[0]) ? rates[spcr->baud] : 0;
}

static uint8_t register_size(const struct acpi_address *base)
{
	if (base->space == ACPI_IO_PORT)
		return 1;
	if (base->access_size == 3 || base->bit_width == 32)
		return 4;
	return base->access_size == 2 || base->bit_width == 16 ? 2 : 1;
}

/* Address 0: firmware has switched the console off. */
static void take_address(struct acpi_console *console, const struct acpi_address *base,
			 unsigned interface_type, const char **fault)
{
	if (!base->address)
		return;
	if (!is_16550(interface_type))
		*fault = "names a port that is no 16550";
	else if (base->space > ACPI_IO_PORT)
		*fault = "names a port that is neither in memory nor in I/O space";
	else if (base->space == ACPI_IO_PORT && base->address > 0xfff8)
		*fault = "names an I/O port above FFF8H";
	else
		*console = (struct acpi_console){.space = base->space,
						 .address = base->address,
						 .register_size = register_size(base)};
}

static void read_spcr(const struct acpi_header *table, struct acpi_console *console,
		      const char **fault)
{
	struct spcr spcr = {0};

	if (table->length < offsetof(struct spcr, uart_clock)) {
		*fault = "is too short";
		return;
	}
	memcpy(&spcr, table, table->length < sizeof(spcr) ? table->length : sizeof(spcr));
	take_address(console, &spcr.base, spcr.interface_type, fault);
	console->baud = console->address ? baud_rate(&spcr) : 0;
}

/* Copies `size` bytes at `offset` of `table`. False: they are not all in it. */
static bool copy_part(const struct acpi_header *table, uint64_t offset, void *to, size_t size)
{
	if (offset > table->length || size > table->length - offset)
		return false;
	memcpy(to, (const uint8_t *)table + offset, size);
	return true;
}

static bool read_dbg2(const struct acpi_header *table, unsigned index, struct acpi_console *console,
		      const char **fault)
{
	struct dbg2 dbg2 = {0};
	struct dbg2_device device = {0};
	struct acpi_address base;
	uint64_t at;

	if (!copy_part(table, 0, &dbg2, sizeof(dbg2))) {
		*fault = "is too short";
		return index == 0;
	}
	if (index >= dbg2.device_count)
		return false;
	at = dbg2.devices_offset;
	for (unsigned i = 0; i <= index; i++) {
		at += device.length;
		if (!copy_part(table, at, &device, sizeof(device)) ||
		    device.length < sizeof(device)) {
			*fault = "is too short";
			return i == index;
		}
	}
	if (device.port_type != DBG2_SERIAL || !device.address_count)
		return true;
	if (!copy_part(table, at + device.address_offset, &base, sizeof(base)))
		*fault = "is too short";
	else
		take_address(console, &base, device.port_subtype, fault);
	return true;
}

bool acpi_console(const struct acpi_header *table, unsigned index, struct acpi_console *console,
		  const char **fault)
{
	*console = (struct acpi_console){0};
	*fault = NULL;
	if (memcmp(table->signature, "DBG2", 4) == 0)
		return read_dbg2(table, index, console, fault);
	if (memcmp(table->signature, "SPCR", 4) != 0 || index)
		return false;
	read_spcr(table, console, fault);
	return true;
}
