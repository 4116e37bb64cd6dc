// SPDX-License-Identifier: MIT
#include "drivers/console/console.h"

#include "drivers/console/pci.h"
#include "drivers/console/screen.h"
#include "drivers/console/uart.h"
#include "drivers/console/virtio.h"
#include "lib/acpi.h"
#include "lib/cmdline.h"
#include "lib/format.h"
#include "lib/string.h"

enum { MOST_PORTS = 16, MOST_RANGES = 8, MOST_TABLE_PORTS = 8, NAME_SIZE = 24, UART_REGISTERS = 8 };

static struct port {
	char name[NAME_SIZE];
	uint64_t address; /* in memory; 0: an I/O port */
	uint8_t size;	  /* bytes from one register to the next in memory */
	uint32_t baud;	  /* 0: as firmware set it */
	bool lost;	  /* console_lost() has returned it */
	struct uart uart; /* not open: a port in memory that cannot be reached yet */
} ports[MOST_PORTS];
static unsigned port_count;
static bool debugcon, screen_wanted, screen;

static struct {
	char name[NAME_SIZE]; /* "": none is open */
	bool wedged, lost;    /* as of a port */
} virtio;

/* The arguments of console_open(). */
static struct {
	struct boot_info *info;
	boot_memory memory;
	uint32_t baud;
} given;

/* A device that a list named itself is missed if it does not answer; `auto` takes what there is. */
enum wish { IF_PRESENT, NAMED };

static char notes[400];

static void note(const char *template, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *template, ...)
{
	size_t used = strlen(notes);
	va_list arguments;

	format(notes + used, sizeof(notes) - used, "%s", used ? "; " : "");
	used = strlen(notes);
	va_start(arguments, template);
	vformat(notes + used, sizeof(notes) - used, template, arguments);
	va_end(arguments);
}

static bool is_known(uint16_t base, uint64_t address)
{
	for (unsigned i = 0; i < port_count; i++)
		if (address ? ports[i].address == address : ports[i].uart.base == base)
			return true;
	return false;
}

/* A place among the ports, which counts once port_count does; NULL: it is known, or none is left.
 */
static struct port *new_port(uint16_t base, uint64_t address, const char *name)
{
	struct port *port = &ports[port_count];

	if (is_known(base, address))
		return NULL;
	if (port_count == MOST_PORTS) {
		note("%s: there are more ports than there is room for", name);
		return NULL;
	}
	*port = (struct port){.address = address};
	format(port->name, sizeof(port->name), "%s", name);
	return port;
}

static void open_io(uint16_t base, uint32_t baud, const char *name, enum wish wish)
{
	struct port *port = new_port(base, 0, name);

	if (!port)
		return;
	if (uart_init(&port->uart, base, baud))
		port_count++;
	else if (wish == NAMED)
		note("%s: no UART answers at port %XH", name, base);
}

static bool is_memory(uint64_t address, uint64_t bytes)
{
	for (unsigned i = 0; i < given.info->region_count; i++) {
		const struct boot_region *region = &given.info->regions[i];

		if (region->type == MEMORY_USABLE && address < region->base + region->length &&
		    region->base < address + bytes)
			return true;
	}
	return false;
}

/* False: it answers to nobody. A port that `memory` does not reach stays closed, and is kept. */
static bool reach(struct port *port)
{
	bool wedged = port->uart.wedged, was_open = uart_is_open(&port->uart);
	volatile void *registers = (volatile void *)(uintptr_t)given.memory(
		port->address, UART_REGISTERS * port->size);

	if (!registers) {
		port->uart = (struct uart){0};
		return true;
	}
	if (!was_open)
		return uart_init_memory(&port->uart, registers, port->size, port->baud);
	port->uart = (struct uart){.memory = registers, .size = port->size, .wedged = wedged};
	return true;
}

static void open_memory(uint64_t address, uint8_t size, uint32_t baud, const char *name,
			enum wish wish)
{
	struct port *port;

	if (is_memory(address, UART_REGISTERS * size)) {
		note("%s: %lXH is memory", name, address);
		return;
	}
	port = new_port(0, address, name);
	if (!port)
		return;
	port->size = size;
	port->baud = baud;
	if (reach(port))
		port_count++;
	else if (wish == NAMED)
		note("%s: no UART answers at %lXH", name, address);
}

static void open_com(unsigned index, uint32_t baud, enum wish wish)
{
	char name[] = "com1";

	name[3] = (char)('1' + index);
	open_io(uart_com_bases[index], baud ? baud : given.baud, name, wish);
}

static bool open_table(const struct acpi_header *table, uint32_t baud)
{
	struct acpi_console console;
	const char *fault;
	char name[NAME_SIZE];
	unsigned i;

	for (i = 0; i < MOST_TABLE_PORTS && acpi_console(table, i, &console, &fault); i++) {
		format(name, sizeof(name), "%.4s", table->signature);
		if (fault)
			note("%s %s", name, fault);
		else if (console.address && console.space == ACPI_IO_PORT)
			open_io((uint16_t)console.address, baud, name, NAMED);
		else if (console.address)
			open_memory(console.address, console.register_size, baud, name, NAMED);
	}
	return i;
}

/* The devices that SPCR and DBG2 name, at the speed that firmware set. */
static void open_acpi(uint32_t baud, enum wish wish)
{
	struct acpi_tables tables;
	bool any = false;

	if (acpi_find_rsdp(given.info, given.memory) &&
	    acpi_read_tables(given.info, given.memory, &tables)) {
		for (unsigned i = 0; i < tables.count; i++)
			any |= open_table(tables.table[i], baud);
		if (!strcmp(tables.damaged, "SPCR") || !strcmp(tables.damaged, "DBG2"))
			note("%s has a bad length or checksum", tables.damaged);
	}
	if (!any && wish == NAMED)
		note("acpi: there is neither SPCR nor DBG2");
}

static void open_pci(uint32_t baud, enum wish wish)
{
	struct pci_serial ranges[MOST_RANGES];
	unsigned count = pci_serial_ports(ranges, MOST_RANGES), number = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct pci_serial *r = &ranges[i];
		char name[NAME_SIZE];

		/* Ports of one function are numbered, those after the first. */
		if (!i || memcmp(&r->function, &r[-1].function, sizeof(r->function)) != 0)
			number = 0;
		for (unsigned u = 0; u < r->uarts; u++, number++) {
			format(name, sizeof(name),
			       number ? "pci-%02x:%02x.%u.%u" : "pci-%02x:%02x.%u", r->function.bus,
			       r->function.device, r->function.number, number);
			if (r->port)
				open_io((uint16_t)(r->port + UART_REGISTERS * u),
					baud ? baud : given.baud, name, u ? IF_PRESENT : NAMED);
			else if (r->memory)
				open_memory(r->memory, 1, baud ? baud : given.baud, name, NAMED);
			else
				note("%s: firmware gave this serial port no address", name);
		}
	}
	if (!count && wish == NAMED)
		note("pci: there is no serial port");
}

static bool visit_virtio(struct pci_function f)
{
	if (!virtio_console_open(f))
		return false;
	format(virtio.name, sizeof(virtio.name), "virtio-%02x:%02x.%u", f.bus, f.device, f.number);
	return true;
}

static void open_virtio(enum wish wish)
{
	if (!virtio.name[0])
		pci_walk(visit_virtio);
	if (!virtio.name[0] && wish == NAMED)
		note("virtio: there is no virtio console on PCI");
}

static void open_debugcon(enum wish wish)
{
	debugcon = debugcon_present();
	if (!debugcon && wish == NAMED)
		note("debugcon: port E9H does not answer");
}

static void open_screen(enum wish wish)
{
	const char *fault = NULL;

	screen_wanted = true;
	screen = screen_open(&given.info->framebuffer, given.memory, &fault);
	if (!screen && fault)
		note("screen: %s", fault);
	else if (!screen && wish == NAMED && !given.info->framebuffer.width)
		note("screen: there is neither a framebuffer nor a text screen");
}

static void open_auto(uint32_t baud)
{
	for (unsigned i = 0; i < 4; i++)
		open_com(i, baud, IF_PRESENT);
	open_acpi(baud, IF_PRESENT);
	open_pci(baud, IF_PRESENT);
	open_virtio(IF_PRESENT);
	open_debugcon(IF_PRESENT);
	open_screen(IF_PRESENT);
}

/* One device of a list, with the numbers after it. */
struct item {
	const char *text;
	size_t length; /* of the name */
	unsigned count;
	uint64_t number[2];
	bool none; /* it is `none` */
};

static size_t length_to_comma(const char *text)
{
	size_t length = 0;

	while (text[length] && text[length] != ',')
		length++;
	return length;
}

/* 115200n8 is 115200: Linux has it so. */
static bool read_number(const char *text, size_t length, uint64_t *value)
{
	if (length > 2 && !strncmp(text + length - 2, "n8", 2))
		length -= 2;
	return parse_number(text, length, value);
}

static const char *take_item(const char *list, struct item *item)
{
	*item = (struct item){.text = list, .length = length_to_comma(list)};
	list += item->length;
	while (*list == ',' && item->count < 2 &&
	       read_number(list + 1, length_to_comma(list + 1), &item->number[item->count])) {
		list += 1 + length_to_comma(list + 1);
		item->count++;
	}
	return list + (*list == ',');
}

static bool is_named(const struct item *item, const char *name)
{
	return item->length == strlen(name) && !strncmp(item->text, name, item->length);
}

/* The speed after `before` other numbers; 0: none. */
static uint32_t baud_after(const struct item *item, unsigned before)
{
	uint64_t baud = item->count > before ? item->number[before] : 0;

	if (!baud)
		return 0;
	if (baud <= 115200 && uart_can_give((uint32_t)baud))
		return (uint32_t)baud;
	note("%.*s: a serial port does not give %lu baud", (int)item->length, item->text, baud);
	return 0;
}

/* "com1" to "com4" are 0 to 3, as "ttyS0" to "ttyS3"; else -1. */
static int com_index(const struct item *item)
{
	char last = item->length ? item->text[item->length - 1] : '\0';

	if (item->length == 4 && !strncmp(item->text, "com", 3) && last >= '1' && last <= '4')
		return last - '1';
	if (item->length == 5 && !strncmp(item->text, "ttyS", 4) && last >= '0' && last <= '3')
		return last - '0';
	return -1;
}

static bool open_addressed(const struct item *item)
{
	bool io = is_named(item, "io"), wide = is_named(item, "mmio32");
	uint64_t address = item->number[0];
	char name[NAME_SIZE];

	if (!io && !wide && !is_named(item, "mmio"))
		return false;
	format(name, sizeof(name), "%.*s-%lx", (int)item->length, item->text, address);
	if (!item->count || !address || (io && address > 0xfff8) || address > UINT64_MAX - 64)
		note("%.*s: this needs an address after a comma", (int)item->length, item->text);
	else if (io)
		open_io((uint16_t)address, baud_after(item, 1), name, NAMED);
	else
		open_memory(address, wide ? 4 : 1, baud_after(item, 1), name, NAMED);
	return true;
}

static bool open_item(struct item *item)
{
	int com = com_index(item);

	item->none = is_named(item, "none");
	if (item->none)
		return true;
	if (com >= 0)
		open_com((unsigned)com, baud_after(item, 0), NAMED);
	else if (is_named(item, "auto"))
		open_auto(baud_after(item, 0));
	else if (is_named(item, "acpi"))
		open_acpi(baud_after(item, 0), NAMED);
	else if (is_named(item, "pci"))
		open_pci(baud_after(item, 0), NAMED);
	else if (is_named(item, "virtio") || is_named(item, "hvc0"))
		open_virtio(NAMED);
	else if (is_named(item, "debugcon"))
		open_debugcon(NAMED);
	else if (is_named(item, "screen"))
		open_screen(NAMED);
	else
		return open_addressed(item);
	return true;
}

const char *console_open(const char *list, uint32_t baud, struct boot_info *info,
			 boot_memory memory)
{
	bool none = false;
	struct item item;

	given.info = info;
	given.memory = memory;
	given.baud = baud;
	port_count = 0;
	debugcon = screen = screen_wanted = false;
	virtio.name[0] = '\0';
	virtio.wedged = virtio.lost = false;
	notes[0] = '\0';
	while (*list) {
		list = take_item(list, &item);
		if (!open_item(&item))
			note("%.*s: not one of %s",
			     (int)(item.length < NAME_SIZE ? item.length : NAME_SIZE), item.text,
			     CONSOLE_WORDS);
		none |= item.none;
	}
	if (!none && !port_count && !virtio.name[0] && !debugcon && !screen)
		open_auto(0);
	return notes;
}

const char *console_move(boot_memory memory)
{
	const char *fault = NULL;

	notes[0] = '\0';
	given.memory = memory;
	for (unsigned i = 0; i < port_count; i++) {
		if (ports[i].address && !reach(&ports[i]))
			note("%s: no UART answers at %lXH", ports[i].name, ports[i].address);
		else if (ports[i].address && !uart_is_open(&ports[i].uart))
			note("%s: %lXH cannot be reached", ports[i].name, ports[i].address);
	}
	if (screen)
		screen = screen_move(memory);
	else if (screen_wanted && given.info->framebuffer.width)
		screen = screen_open(&given.info->framebuffer, memory, &fault);
	if (screen_wanted && !screen && given.info->framebuffer.width && !fault)
		note("screen: the framebuffer cannot be reached");
	return notes;
}

static void add_name(char *names, size_t size, const char *name)
{
	size_t used = strlen(names);

	format(names + used, size - used, "%s%s", used ? "," : "", name);
}

const char *console_names(void)
{
	static char names[160];

	names[0] = '\0';
	for (unsigned i = 0; i < port_count; i++)
		if (uart_is_open(&ports[i].uart) && !ports[i].uart.wedged)
			add_name(names, sizeof(names), ports[i].name);
	if (virtio.name[0] && !virtio.wedged)
		add_name(names, sizeof(names), virtio.name);
	if (debugcon)
		add_name(names, sizeof(names), "debugcon");
	if (screen)
		add_name(names, sizeof(names), "screen");
	return names[0] ? names : "none";
}

static void put(char c)
{
	for (unsigned i = 0; i < port_count; i++)
		uart_put(&ports[i].uart, c);
	if (debugcon)
		debugcon_put(c);
	if (virtio.name[0])
		virtio_console_put(c);
}

void console_write(const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			put('\r');
		put(*text);
	}
	if (virtio.name[0])
		virtio.wedged = !virtio_console_flush();
}

const char *console_lost(void)
{
	for (unsigned i = 0; i < port_count; i++)
		if (ports[i].uart.wedged && !ports[i].lost) {
			ports[i].lost = true;
			return ports[i].name;
		}
	if (virtio.wedged && !virtio.lost) {
		virtio.lost = true;
		return virtio.name;
	}
	return NULL;
}

bool console_has_port(uint16_t base)
{
	return is_known(base, 0);
}

bool console_has_screen(void)
{
	return screen;
}

void console_flush(void)
{
	for (unsigned i = 0; i < port_count; i++)
		uart_flush(&ports[i].uart);
}
