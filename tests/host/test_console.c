// SPDX-License-Identifier: MIT
/* sources: drivers/console/console.c drivers/console/pci.c drivers/console/uart.c */
/* sources: lib/acpi.c lib/cmdline.c lib/format.c lib/string.c */
#include "drivers/console/console.h"

#include "drivers/console/screen.h"
#include "drivers/console/virtio.h"
#include "lib/acpi.h"
#include "lib/io.h"
#include "tests/host/host.h"
#include <string.h>

/* A machine: 16550s at I/O ports, one bus of PCI and a bridge, memory. */
static struct uart_model {
	uint16_t base;
	bool busy;
	uint8_t registers[8], divisor[2];
	char sent[200];
	unsigned count;
} uarts[6];
static unsigned uart_count;

static struct function {
	uint8_t bus, device, number;
	uint32_t registers[16];
	uint32_t io_size[6]; /* of the ranges; 0: not an I/O range */
} functions[6];
static unsigned function_count;
static uint32_t config_address;
static bool has_pci, has_debugcon;

enum { MEMORY_BASE = 0xfe000000, MEMORY_SIZE = 0x2000 };
static _Alignas(16) uint8_t device_memory[MEMORY_SIZE];
static uint64_t reachable; /* end of what memory() maps */
static struct boot_info info;
static bool screen_is_there;

static struct uart_model *uart_at(uint16_t where)
{
	for (unsigned i = 0; i < uart_count; i++)
		if (where >= uarts[i].base && where < uarts[i].base + 8)
			return &uarts[i];
	return NULL;
}

void outb(uint16_t where, uint8_t value)
{
	struct uart_model *uart = uart_at(where);
	uint16_t reg = uart ? where - uart->base : 0;

	if (!uart)
		return;
	if (reg < 2 && uart->registers[3] & 0x80)
		uart->divisor[reg] = value;
	else if (reg == 0)
		uart->sent[uart->count++ % sizeof(uart->sent)] = (char)value;
	else
		uart->registers[reg] = value;
}

uint8_t inb(uint16_t where)
{
	struct uart_model *uart = uart_at(where);

	if (where == 0xe9)
		return has_debugcon ? 0xe9 : 0xff;
	if (!uart)
		return 0xff;
	if (where - uart->base == 5)
		return uart->busy ? 0 : 0x60;
	return uart->registers[where - uart->base];
}

static uint32_t *config_register(uint32_t **io_size)
{
	for (unsigned i = 0; i < function_count; i++) {
		struct function *f = &functions[i];
		uint32_t where = (uint32_t)(f->bus << 16 | f->device << 11 | f->number << 8);

		if ((config_address & 0xffff00) == where) {
			unsigned reg = (config_address & 0xff) / 4;

			*io_size = reg >= 4 && reg < 10 ? &f->io_size[reg - 4] : NULL;
			return &f->registers[reg];
		}
	}
	return NULL;
}

void outl(uint16_t where, uint32_t value)
{
	uint32_t *io_size = NULL, *reg;

	if (where == 0xcf8) {
		config_address = value;
		return;
	}
	reg = config_register(&io_size);
	assert_int_equal(where, 0xcfc);
	assert_non_null(reg);
	if (io_size) {
		/* Its ranges are sized while it decodes nothing. */
		assert_int_equal(reg[1 - (long)((config_address & 0xff) / 4)] & 3, 0);
		value = *io_size ? (value & ~(*io_size - 1) & 0xffff) | 1 : value;
	} else {
		assert_int_equal(value >> 16, 0); /* status: a 1 clears */
	}
	*reg = value;
}

uint32_t inl(uint16_t where)
{
	uint32_t *io_size, *reg;

	if (where == 0xcf8)
		return has_pci ? config_address : 0xffffffff;
	reg = config_register(&io_size);
	return reg ? *reg : 0xffffffff;
}

/* Accesses of 16 bits are for tests/host/test_virtio.c. */
uint16_t inw(uint16_t where)
{
	(void)where;
	return 0xffff;
}

void outw(uint16_t where, uint16_t value)
{
	(void)where;
	(void)value;
}

static struct {
	uint8_t slot; /* of PCI; 0: there is none */
	bool keeps;
	char sent[100];
	unsigned length, texts;
} virtio_model;

bool virtio_console_open(struct pci_function function)
{
	return virtio_model.slot && function.device == virtio_model.slot;
}

void virtio_console_put(char c)
{
	virtio_model.sent[virtio_model.length++] = c;
}

bool virtio_console_flush(void)
{
	virtio_model.texts++;
	return !virtio_model.keeps;
}

static const void *memory(uint64_t physical, uint64_t bytes)
{
	if (physical < MEMORY_BASE || physical + bytes > MEMORY_BASE + MEMORY_SIZE ||
	    physical + bytes > reachable)
		return NULL;
	return device_memory + (physical - MEMORY_BASE);
}

/* tests/host/test_screen.c has the real one. */
bool screen_open(const struct boot_framebuffer *framebuffer, boot_memory reach, const char **fault)
{
	*fault = framebuffer->bits == 4 ? "it is odd" : NULL;
	return screen_is_there && !*fault &&
	       (!framebuffer->width || reach(framebuffer->address, 1));
}

bool screen_move(boot_memory reach)
{
	return !info.framebuffer.width || reach(info.framebuffer.address, 1);
}

static struct uart_model *add_uart(uint16_t base)
{
	uarts[uart_count].base = base;
	return &uarts[uart_count++];
}

static struct function *add_function(uint8_t device, uint8_t number, uint32_t class)
{
	struct function *f = &functions[function_count++];

	has_pci = true;
	f->device = device;
	f->number = number;
	f->registers[0] = 0x12345678;
	f->registers[2] = class << 8;
	return f;
}

static struct function *add_pci_uart(uint8_t device, uint16_t port, uint32_t size)
{
	struct function *f = add_function(device, 0, 0x070002);

	f->registers[4] = port | 1u;
	f->io_size[0] = size;
	return f;
}

static int reset(void **state)
{
	memset(uarts, 0, sizeof(uarts));
	memset(functions, 0, sizeof(functions));
	memset(device_memory, 0xff, sizeof(device_memory));
	memset(&info, 0, sizeof(info));
	uart_count = function_count = 0;
	has_pci = has_debugcon = screen_is_there = false;
	memset(&virtio_model, 0, sizeof(virtio_model));
	reachable = MEMORY_BASE + MEMORY_SIZE;
	return 0;
}

static const char *open_list(const char *list)
{
	return console_open(list, 115200, &info, memory);
}

UNIT(auto_is_every_uart_that_answers, .setup_func = reset)
{
	struct uart_model *com1 = add_uart(0x3f8), *com2 = add_uart(0x2f8), *com4 = add_uart(0x2e8);

	has_debugcon = screen_is_there = true;
	assert_string_equal(open_list("auto"), "");
	assert_string_equal(console_names(), "com1,com2,com4,debugcon,screen");
	console_write("a\nb");
	assert_string_equal(com1->sent, "a\r\nb");
	assert_string_equal(com2->sent, "a\r\nb");
	assert_string_equal(com4->sent, "a\r\nb");
}

UNIT(a_list_is_those_and_no_others, .setup_func = reset)
{
	struct uart_model *com1 = add_uart(0x3f8), *com2 = add_uart(0x2f8), *io = add_uart(0x9000);

	has_debugcon = true;
	assert_string_equal(open_list("ttyS1,9600n8,io,0x9000,57600,io,0x9000"), "");
	assert_string_equal(console_names(), "com2,io-9000");
	console_write("x");
	assert_int_equal(com1->count, 0);
	assert_int_equal(com2->divisor[0], 12);
	assert_int_equal(io->divisor[0], 2);
	assert_int_equal(io->count, 1);
	assert_string_equal(open_list("debugcon,com1"), "");
	assert_string_equal(console_names(), "com1,debugcon");
	console_open("com1,pci", 9600, &info, memory);
	assert_int_equal(com1->divisor[0], 12);
}

UNIT(what_names_nothing_is_said, .setup_func = reset)
{
	add_uart(0x3f8);
	assert_string_equal(open_list("com9"), "com9: not one of " CONSOLE_WORDS);
	assert_string_equal(console_names(), "com1");
	assert_string_equal(open_list("com4"), "com4: no UART answers at port 2E8H");
	assert_string_equal(console_names(), "com1");
	assert_string_equal(open_list("com4,com1,115201"),
			    "com4: no UART answers at port 2E8H; com1: a serial port does not give "
			    "115201 baud");
	assert_string_equal(open_list("acpi,pci,debugcon,screen"),
			    "acpi: there is neither SPCR nor DBG2; pci: there is no serial port; "
			    "debugcon: port E9H does not answer; screen: there is neither a "
			    "framebuffer nor a text screen");
	assert_string_equal(open_list("io"), "io: this needs an address after a comma");
	assert_string_equal(open_list("io,0xfff9"), "io: this needs an address after a comma");
	assert_string_equal(open_list("0x3f8"), "0x3f8: not one of " CONSOLE_WORDS);
	assert_string_equal(open_list(""), "");
	assert_string_equal(open_list("none"), "");
	assert_string_equal(console_names(), "none");
}

/* Registers in memory that take everything; a transmitter that is always ready. */
static volatile uint8_t *memory_uart(uint32_t offset, unsigned size)
{
	memset(device_memory + offset, 0, 8 * size);
	device_memory[offset + 5 * size] = 0x60;
	return device_memory + offset;
}

UNIT(drives_registers_in_memory, .setup_func = reset)
{
	volatile uint8_t *bytes = memory_uart(0x100, 1), *words = memory_uart(0x200, 4);

	bytes[0] = words[0] = 7;
	assert_string_equal(open_list("mmio,0xfe000100,mmio32,0xfe000200,9600"), "");
	assert_string_equal(console_names(), "mmio-fe000100,mmio32-fe000200");
	assert_int_equal(bytes[0], 7); /* as firmware has set it */
	assert_int_equal(words[0], 12);
	assert_int_equal(words[3 * 4], 3); /* 8N1 */
	console_write("!");
	assert_int_equal(bytes[0], '!');
	assert_int_equal(words[0], '!');
	assert_int_equal(words[1], 0); /* one access of 4 bytes */
}

UNIT(refuses_what_is_no_register, .setup_func = reset)
{
	add_uart(0x3f8);
	info.region_count = 1;
	info.regions[0] = (struct boot_region){0xfe000000, 0x108, MEMORY_USABLE};
	memory_uart(0x100, 1);
	assert_string_equal(open_list("mmio,0xfe000100"), "mmio-fe000100: FE000100H is memory");
	assert_string_equal(open_list("mmio,0xfe000300"),
			    "mmio-fe000300: no UART answers at FE000300H");
	assert_string_equal(console_names(), "com1");
}

UNIT(waits_for_what_is_out_of_reach, .setup_func = reset)
{
	volatile uint8_t *uart = memory_uart(0x100, 1);

	add_uart(0x3f8);
	reachable = MEMORY_BASE + 0x100;
	assert_string_equal(open_list("com1,mmio,0xfe000100,mmio,0xfe000200"), "");
	assert_string_equal(console_names(), "com1");
	console_write("a");
	assert_int_equal(uart[0], 0);
	reachable = MEMORY_BASE + MEMORY_SIZE;
	assert_string_equal(console_move(memory), "mmio-fe000200: no UART answers at FE000200H");
	assert_string_equal(console_names(), "com1,mmio-fe000100");
	console_write("b");
	assert_int_equal(uart[0], 'b');
	reachable = MEMORY_BASE;
	assert_string_equal(console_move(memory),
			    "mmio-fe000100: FE000100H cannot be reached; mmio-fe000200: FE000200H "
			    "cannot be reached");
	assert_string_equal(console_names(), "com1");
}

static void seal(uint8_t *bytes, uint32_t size, uint32_t where)
{
	uint8_t sum = 0;

	for (uint32_t i = 0; i < size; i++)
		sum = (uint8_t)(sum + bytes[i]);
	bytes[where] = (uint8_t)(bytes[where] - sum);
}

/* An RSDT with one SPCR of `length` bytes. */
static uint8_t *add_spcr(uint32_t length, uint8_t space, uint8_t width, uint64_t address)
{
	const uint32_t rsdt = MEMORY_BASE + 0x800, spcr = MEMORY_BASE + 0x900, size = 40;
	uint8_t *root = device_memory + 0x800, *table = device_memory + 0x900;

	memset(root, 0, 0x200);
	memcpy(root, "RSDT", 4);
	memcpy(root + 4, &size, 4);
	memcpy(root + 36, &spcr, 4);
	seal(root, size, 9);
	memcpy(table, "SPCR", 4);
	memcpy(table + 4, &length, 4);
	table[40] = space;
	table[41] = width;
	memcpy(table + 44, &address, 8);
	seal(table, length, 9);
	memcpy(info.rsdp, "RSD PTR ", 8);
	memcpy(info.rsdp + 16, &rsdt, 4);
	seal(info.rsdp, 20, 8);
	info.rsdp_size = 20;
	return table;
}

UNIT(follows_spcr, .setup_func = reset)
{
	struct uart_model *uart = add_uart(0x3220);

	uart->divisor[0] = 5;
	add_spcr(80, ACPI_IO_PORT, 8, 0x3220);
	assert_string_equal(open_list("auto"), "");
	assert_string_equal(console_names(), "SPCR");
	assert_int_equal(uart->divisor[0], 5); /* as firmware has set it */
	reset(NULL);
	memory_uart(0x100, 4);
	add_spcr(80, ACPI_MEMORY, 32, 0xfe000100);
	assert_string_equal(open_list("acpi"), "");
	assert_string_equal(console_names(), "SPCR");
	reset(NULL);
	add_uart(0x3f8);
	add_spcr(80, ACPI_IO_PORT, 8, 0x3f8);
	assert_string_equal(open_list("auto"), "");
	assert_string_equal(console_names(), "com1");
}

UNIT(says_what_is_wrong_with_spcr, .setup_func = reset)
{
	static const struct {
		uint32_t length;
		uint8_t space;
		uint64_t address;
		const char *note;
	} cases[] = {
		{75, ACPI_IO_PORT, 0x3220, "SPCR is too short"},
		{80, ACPI_IO_PORT, 0x10000, "SPCR names an I/O port above FFF8H"},
		{80, 2, 0x3220, "SPCR names a port that is neither in memory nor in I/O space"},
		{80, ACPI_IO_PORT, 0x4220, "SPCR: no UART answers at port 4220H"},
		{80, ACPI_MEMORY, 0xfe000300, "SPCR: no UART answers at FE000300H"},
		{80, ACPI_IO_PORT, 0, ""}, /* redirection off */
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		reset(NULL);
		add_uart(0x2f8);
		add_spcr(cases[i].length, cases[i].space, 8, cases[i].address);
		assert_string_equal(open_list("auto"), cases[i].note);
		assert_string_equal(console_names(), "com2");
	}
	add_spcr(80, ACPI_IO_PORT, 8, 0x3220)[9]++;
	assert_string_equal(open_list("auto"), "SPCR has a bad length or checksum");
	add_spcr(80, ACPI_IO_PORT, 8, 0x3220)[7] = 0x7f;
	assert_string_equal(open_list("auto"), "SPCR has a bad length or checksum");
	assert_string_equal(console_names(), "com2");
}

UNIT(finds_ports_on_pci, .setup_func = reset)
{
	struct function *one = add_pci_uart(3, 0xc000, 8), *two = add_pci_uart(4, 0xc100, 16);
	struct uart_model *last = add_uart(0xc108);

	add_function(5, 0, 0x020000); /* a network card */
	add_uart(0xc000);
	add_uart(0xc100);
	two->registers[1] = 0x02900103; /* decodes already; bits in status */
	assert_string_equal(open_list("pci"), "");
	assert_string_equal(console_names(), "pci-00:03.0,pci-00:04.0,pci-00:04.0.1");
	assert_int_equal(one->registers[1], 1); /* what firmware left off is on */
	assert_int_equal(two->registers[1], 0x103);
	assert_int_equal(one->registers[4], 0xc001);
	assert_int_equal(two->registers[4], 0xc101);
	console_write("z");
	assert_int_equal(last->count, 1);
}

/* Bus 80H is a separate root: no bridge leads there, only firmware's AML. */
UNIT(finds_functions_buses_and_memory, .setup_func = reset)
{
	struct function *far = add_pci_uart(7, 0xd000, 8);
	struct function *sol = add_function(0x16, 3, 0x070002),
			*host = add_function(0x16, 0, 0x0780);
	struct function *card = add_function(2, 0, 0x070002);

	far->bus = 0x80;
	host->registers[3] = 0x800000; /* has more functions */
	sol->registers[5] = 0xe001;
	sol->io_size[1] = 8;
	card->registers[4] = 0xfe000104; /* 64-bit, whose upper half is 0 */
	memory_uart(0x100, 1);
	add_uart(0xd000);
	add_uart(0xe000);
	assert_string_equal(open_list("pci"), "");
	assert_string_equal(console_names(), "pci-00:02.0,pci-00:16.3,pci-80:07.0");
	assert_int_equal(card->registers[1], 2);
}

UNIT(sends_lines_to_a_virtio_console, .setup_func = reset)
{
	add_function(5, 0, 0x078000);
	assert_string_equal(open_list("virtio"), "virtio: there is no virtio console on PCI");
	virtio_model.slot = 5;
	assert_string_equal(open_list("hvc0"), "");
	assert_string_equal(console_names(), "virtio-00:05.0");
	console_write("a line\n");
	assert_string_equal(virtio_model.sent, "a line\r\n");
	assert_int_equal(virtio_model.texts, 1);
}

UNIT(says_once_that_a_virtio_console_is_lost, .setup_func = reset)
{
	add_uart(0x3f8);
	add_function(5, 0, 0x078000);
	virtio_model.slot = 5;
	assert_string_equal(open_list("auto"), "");
	assert_string_equal(console_names(), "com1,virtio-00:05.0");
	virtio_model.keeps = true;
	console_write("a line\n");
	assert_string_equal(console_lost(), "virtio-00:05.0");
	assert_null(console_lost());
	assert_string_equal(console_names(), "com1");
	virtio_model.keeps = false;
	console_write("a line\n");
	assert_string_equal(console_names(), "com1,virtio-00:05.0");
}

UNIT(says_what_is_wrong_on_pci, .setup_func = reset)
{
	struct function *none = add_pci_uart(3, 0, 8);

	add_uart(0x3f8);
	assert_string_equal(open_list("auto"),
			    "pci-00:03.0: firmware gave this serial port no address");
	assert_int_equal(none->registers[1], 0);
	add_pci_uart(4, 0xc000, 8); /* does not answer */
	add_pci_uart(5, 0xc100, 4); /* too small for a 16550 */
	assert_string_equal(
		open_list("auto"),
		"pci-00:03.0: firmware gave this serial port no address; pci-00:04.0: no "
		"UART answers at port C000H; pci-00:05.0: firmware gave this serial port "
		"no address");
	assert_string_equal(console_names(), "com1");
}

UNIT(goes_on_without_a_port_that_wedges, .setup_func = reset)
{
	struct uart_model *com1 = add_uart(0x3f8), *com2 = add_uart(0x2f8);

	open_list("com1,com2");
	assert_null(console_lost());
	com1->busy = true;
	console_write("ab");
	assert_string_equal(console_lost(), "com1");
	assert_null(console_lost());
	assert_string_equal(console_names(), "com2");
	assert_string_equal(com2->sent, "ab");
	assert_int_equal(com1->count, 0);
	com1->busy = false; /* somebody reads again */
	console_write("c");
	assert_string_equal(com1->sent, "c");
	assert_string_equal(console_names(), "com1,com2");
}

UNIT(takes_the_screen_where_it_can, .setup_func = reset)
{
	add_uart(0x3f8);
	screen_is_there = true;
	info.framebuffer = (struct boot_framebuffer){.address = MEMORY_BASE + 0x1000, .width = 640};
	info.framebuffer.bits = 4;
	assert_string_equal(open_list("auto"), "screen: it is odd");
	assert_string_equal(console_names(), "com1");
	assert_string_equal(console_move(memory), "");
	info.framebuffer.bits = 32;
	reachable = MEMORY_BASE + 0x1000; /* as one above 4 GiB is early */
	assert_string_equal(open_list("auto"), "");
	assert_false(console_has_screen());
	reachable = MEMORY_BASE + MEMORY_SIZE;
	assert_string_equal(console_move(memory), "");
	assert_true(console_has_screen());
	reachable = MEMORY_BASE + 0x1000;
	assert_string_equal(console_move(memory), "screen: the framebuffer cannot be reached");
	assert_string_equal(console_names(), "com1");
	assert_string_equal(open_list("com1"), "");
	assert_false(console_has_screen());
}
