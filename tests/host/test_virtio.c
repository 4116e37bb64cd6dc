// SPDX-License-Identifier: MIT
/* sources: drivers/console/virtio.c lib/string.c */
#include "drivers/console/virtio.h"

#include "drivers/console/console.h"
#include "tests/host/host.h"
#include <string.h>

/* A device: configuration space with its capabilities, the common configuration, one transmit
 * queue. */
enum { ACCESS = 0x90, BAR = 4, COMMON = 0x1000, NOTIFY = 0x3000, OFF = 3, MULTIPLIER = 4 };

static struct {
	uint8_t config[256];
	uint8_t status;
	uint16_t queue, size, enabled;
	uint32_t select, features[2];
	uint64_t address[3]; /* descriptors, available, used */
	bool refuses, keeps, has_queue;
	unsigned resets, misused;
	char sent[600];
	unsigned length;
} device;

struct descriptor {
	uint64_t address;
	uint32_t length;
	uint16_t flags, next;
};

uint64_t console_physical(const void *object)
{
	return (uintptr_t)object + 0x100000000000; /* not where the processor sees it */
}

static void *memory(uint64_t physical)
{
	return (void *)(uintptr_t)(physical - 0x100000000000);
}

static void use_queue(void)
{
	uint16_t *available = memory(device.address[1]), *used = memory(device.address[2]);
	struct descriptor *descriptors = memory(device.address[0]);

	while (!device.keeps && used[1] != available[1]) {
		struct descriptor *d = &descriptors[available[2 + used[1] % device.size]];

		assert_int_equal(d->flags, 0);
		memcpy(device.sent + device.length, memory(d->address), d->length);
		device.length += d->length;
		used[1]++;
	}
}

static void set_common(uint32_t reg, uint32_t value)
{
	switch (reg) {
	case 8:
		device.select = value;
		break;
	case 12:
		device.features[device.select & 1] = value;
		break;
	case 20:
		device.resets += !value;
		device.status = (uint8_t)(device.refuses ? value & ~8u : value);
		if (!value)
			memset(device.address, 0, sizeof(device.address));
		break;
	case 22:
		device.queue = (uint16_t)value;
		break;
	case 24:
		device.size = (uint16_t)value;
		break;
	case 28:
		device.enabled = (uint16_t)value;
		break;
	case 32 ... 55:
		memcpy((char *)device.address + (reg - 32), &value, 4);
		break;
	default:
		device.misused++;
	}
}

static uint32_t get_common(uint32_t reg)
{
	uint32_t value = 0;

	switch (reg) {
	case 20:
		return device.status;
	case 24:
		return device.has_queue && device.queue == 1 ? 64 : 0;
	case 30:
		return OFF;
	case 32 ... 39:
		memcpy(&value, (char *)device.address + (reg - 32), 4);
		return value;
	}
	device.misused++;
	return 0;
}

static uint32_t window(unsigned reg)
{
	uint32_t value;

	memcpy(&value, device.config + ACCESS + reg, 4);
	return value;
}

uint32_t pci_read(struct pci_function function, unsigned reg, unsigned size)
{
	uint32_t value = 0;

	(void)function;
	assert_true(reg % size == 0 && reg + size <= sizeof(device.config));
	if (reg == ACCESS + 16) {
		assert_int_equal(window(12), size);
		assert_int_equal(window(4) & 0xff, BAR);
		return get_common(window(8) - COMMON);
	}
	memcpy(&value, device.config + reg, size);
	return value;
}

void pci_write(struct pci_function function, unsigned reg, uint32_t value, unsigned size)
{
	(void)function;
	assert_true(reg % size == 0 && reg >= ACCESS + 4 && reg <= ACCESS + 16);
	if (reg != ACCESS + 16) {
		memcpy(device.config + reg, &value, size);
		return;
	}
	assert_int_equal(window(12), size);
	if (window(8) == NOTIFY + OFF * MULTIPLIER) {
		assert_int_equal(value, 1);
		use_queue();
	} else {
		set_common(window(8) - COMMON, value);
	}
}

void pci_enable(struct pci_function function, uint32_t bits)
{
	(void)function;
	assert_int_equal(bits, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

static void add_capability(uint8_t at, uint8_t next, uint8_t type, uint32_t offset)
{
	const uint8_t head[] = {9, next, 20, type, BAR};
	const uint32_t multiplier = MULTIPLIER;

	memcpy(device.config + at, head, sizeof(head));
	memcpy(device.config + at + 8, &offset, 4);
	memcpy(device.config + at + 16, &multiplier, 4);
}

/* The capabilities of others lie between those that count, and a second of a type is worse. */
static int reset(void **state)
{
	(void)state;
	memset(&device, 0, sizeof(device));
	device.has_queue = true;
	memcpy(device.config, "\xf4\x1a\x43\x10", 4);
	device.config[0x34] = 0x40;
	add_capability(0x40, 0x54, 2, NOTIFY);
	device.config[0x54] = 0x11; /* MSI-X */
	device.config[0x55] = 0x60;
	add_capability(0x60, 0x74, 1, COMMON);
	add_capability(0x74, ACCESS, 1, 0x7000);
	add_capability(ACCESS, 0, 5, 0);
	return 0;
}

static bool send(const char *text)
{
	while (*text)
		virtio_console_put(*text++);
	return virtio_console_flush();
}

static const struct pci_function here = {0, 3, 0};

UNIT(sends_what_it_is_given, .setup_func = reset)
{
	assert_true(virtio_console_open(here));
	assert_int_equal(device.status, 15);
	assert_int_equal(device.features[1], 1);
	assert_int_equal(device.features[0], 0);
	assert_true(device.enabled);
	assert_true(send("one "));
	assert_true(send("two"));
	assert_string_equal(device.sent, "one two");
	assert_int_equal(device.resets, 1);
	assert_int_equal(device.misused, 0);
}

UNIT(sends_a_long_text_in_pieces, .setup_func = reset)
{
	char text[520];

	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
	text[sizeof(text) - 1] = '\0';
	assert_true(virtio_console_open(here));
	assert_true(send(text));
	assert_string_equal(device.sent, text);
}

UNIT(takes_the_device_back, .setup_func = reset)
{
	assert_true(virtio_console_open(here));
	device.address[0] += 4096; /* the other image's */
	assert_true(send("again"));
	assert_string_equal(device.sent, "again");
	assert_int_equal(device.resets, 2);
}

UNIT(needs_a_console_of_version_1, .setup_func = reset)
{
	device.config[2] = 0x41; /* a network card */
	assert_false(virtio_console_open(here));
	device.config[2] = 0x03; /* transitional */
	assert_true(virtio_console_open(here));
	device.refuses = true;
	assert_false(virtio_console_open(here));
	device.refuses = device.has_queue = false;
	assert_false(virtio_console_open(here));
	device.has_queue = true;
	device.config[0x75] = 0; /* no capability for access */
	assert_false(virtio_console_open(here));
}

UNIT(loses_texts_that_nobody_takes, .setup_func = reset)
{
	assert_true(virtio_console_open(here));
	device.keeps = true;
	assert_false(send("kept "));
	assert_false(send("lost "));
	assert_int_equal(device.length, 0);
	device.keeps = false;
	use_queue();
	assert_true(send("sent"));
	assert_string_equal(device.sent, "kept sent");
}
