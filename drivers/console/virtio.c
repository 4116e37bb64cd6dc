// SPDX-License-Identifier: MIT
/* Sections are those of Virtual I/O Device (VIRTIO) version 1.1. */
#include "drivers/console/virtio.h"

#include "drivers/console/console.h"
#include "lib/string.h"

/* 4.1.2, 5.3.1 */
enum { VENDOR = 0x1af4, TRANSITIONAL = 0x1003, MODERN = 0x1043 };

/* 4.1.4: a capability, and what its type adds */
enum {
	CAP_TYPE = 3,
	CAP_BAR = 4,
	CAP_OFFSET = 8,
	CAP_LENGTH = 12,
	CAP_MULTIPLIER = 16,
	CAP_DATA = 16
};
enum { TYPE_COMMON = 1, TYPE_NOTIFY = 2, TYPE_PCI_ACCESS = 5 };

/* 4.1.4.3: the common configuration */
enum {
	DRIVER_FEATURE_SELECT = 8,
	DRIVER_FEATURE = 12,
	DEVICE_STATUS = 20,
	QUEUE_SELECT = 22,
	QUEUE_SIZE = 24,
	QUEUE_ENABLE = 28,
	QUEUE_NOTIFY_OFF = 30,
	QUEUE_DESC = 32,
	QUEUE_DRIVER = 40,
	QUEUE_DEVICE = 48,
};
/* 2.1 */
enum { ACKNOWLEDGE = 1, DRIVER = 2, DRIVER_OK = 4, FEATURES_OK = 8 };
enum { FEATURES_VERSION_1 = 1 }; /* bit 32 */
enum { TRANSMIT = 1 };		 /* 5.3.2: transmitq of port 0 */

/* A poll is a read of memory: some seconds. A reset is over at once (4.1.4.3.1). */
#define MOST_POLLS 2000000000u
#define MOST_LOOKS 1000

enum { ENTRIES = 2 };

/* 2.6: a split virtqueue of one text. */
static struct {
	_Alignas(16) struct {
		uint64_t address;
		uint32_t length;
		uint16_t flags, next;
	} descriptors[ENTRIES];
	struct {
		uint16_t flags, index, ring[ENTRIES];
	} available;
	_Alignas(4) volatile struct {
		uint16_t flags, index;
		struct {
			uint32_t id, length;
		} ring[ENTRIES];
	} used;
	char text[256];
} queue;

static struct {
	struct pci_function function;
	uint8_t access; /* where the capability for access is in configuration space */
	uint8_t common_bar, notify_bar;
	uint32_t common, notify; /* offsets in these ranges */
	uint32_t notify_multiplier;
	bool wedged;
	char text[sizeof(queue.text)]; /* what is sent next */
	uint32_t length;
} device;

/* Turns the window of the capability for access to `size` bytes at `offset` of a range. */
static void aim(uint8_t bar, uint32_t offset, uint32_t size)
{
	pci_write(device.function, device.access + CAP_BAR, bar, 1);
	pci_write(device.function, device.access + CAP_OFFSET, offset, 4);
	pci_write(device.function, device.access + CAP_LENGTH, size, 4);
}

static uint32_t get(uint32_t reg, unsigned size)
{
	aim(device.common_bar, device.common + reg, size);
	return pci_read(device.function, device.access + CAP_DATA, size);
}

static void set(uint32_t reg, uint32_t value, unsigned size)
{
	aim(device.common_bar, device.common + reg, size);
	pci_write(device.function, device.access + CAP_DATA, value, size);
}

static void set_address(uint32_t reg, const volatile void *object)
{
	uint64_t physical = console_physical((const void *)object);

	set(reg, (uint32_t)physical, 4);
	set(reg + 4, (uint32_t)(physical >> 32), 4);
}

/* 3.1.1; 2.1.2: the device answers a reset by a status of 0. */
static bool negotiate(void)
{
	unsigned looks = 0;

	set(DEVICE_STATUS, 0, 1);
	while (get(DEVICE_STATUS, 1))
		if (++looks == MOST_LOOKS)
			return false;
	set(DEVICE_STATUS, ACKNOWLEDGE | DRIVER, 1);
	for (uint32_t word = 0; word < 2; word++) {
		set(DRIVER_FEATURE_SELECT, word, 4);
		set(DRIVER_FEATURE, word ? FEATURES_VERSION_1 : 0, 4);
	}
	set(DEVICE_STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK, 1);
	return get(DEVICE_STATUS, 1) & FEATURES_OK;
}

/* The device is this driver's, whatever it did before. */
static bool take(void)
{
	if (!negotiate())
		return false;
	memset(&queue, 0, sizeof(queue));
	set(QUEUE_SELECT, TRANSMIT, 2);
	if (get(QUEUE_SIZE, 2) < ENTRIES)
		return false;
	set(QUEUE_SIZE, ENTRIES, 2);
	set_address(QUEUE_DESC, queue.descriptors);
	set_address(QUEUE_DRIVER, &queue.available);
	set_address(QUEUE_DEVICE, &queue.used);
	set(QUEUE_ENABLE, 1, 2);
	set(DEVICE_STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK, 1);
	return true;
}

/* Another driver, or a move of this image, leaves other addresses there. */
static bool is_taken(void)
{
	uint64_t physical = console_physical(queue.descriptors);

	set(QUEUE_SELECT, TRANSMIT, 2);
	return get(QUEUE_DESC, 4) == (uint32_t)physical &&
	       get(QUEUE_DESC + 4, 4) == physical >> 32 && get(DEVICE_STATUS, 1) & DRIVER_OK;
}

/* Finds the three capabilities that are needed; of several of a type the first is the best. */
static bool find_capabilities(void)
{
	enum { FIRST = 0x34, VENDOR_SPECIFIC = 9, MOST = 48 };
	unsigned found = 0;
	uint8_t at = pci_read(device.function, FIRST, 1) & 0xfc;

	for (unsigned i = 0; at && i < MOST;
	     i++, at = pci_read(device.function, at + 1, 1) & 0xfc) {
		uint8_t type = (uint8_t)pci_read(device.function, at + CAP_TYPE, 1);

		if (pci_read(device.function, at, 1) != VENDOR_SPECIFIC || type > TYPE_PCI_ACCESS ||
		    found & 1u << type)
			continue;
		found |= 1u << type;
		if (type == TYPE_COMMON) {
			device.common_bar = (uint8_t)pci_read(device.function, at + CAP_BAR, 1);
			device.common = pci_read(device.function, at + CAP_OFFSET, 4);
		} else if (type == TYPE_NOTIFY) {
			device.notify_bar = (uint8_t)pci_read(device.function, at + CAP_BAR, 1);
			device.notify = pci_read(device.function, at + CAP_OFFSET, 4);
			device.notify_multiplier =
				pci_read(device.function, at + CAP_MULTIPLIER, 4);
		} else if (type == TYPE_PCI_ACCESS) {
			device.access = at;
		}
	}
	return (~found & (1u << TYPE_COMMON | 1u << TYPE_NOTIFY | 1u << TYPE_PCI_ACCESS)) == 0;
}

bool virtio_console_open(struct pci_function function)
{
	uint32_t id = pci_read(function, PCI_ID, 4), model = id >> 16;

	device.function = function;
	device.wedged = false;
	device.length = 0;
	if ((id & 0xffff) != VENDOR || (model != TRANSITIONAL && model != MODERN) ||
	    !find_capabilities())
		return false;
	pci_enable(function, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	return take();
}

static void notify(void)
{
	uint32_t offset = get(QUEUE_NOTIFY_OFF, 2) * device.notify_multiplier;

	aim(device.notify_bar, device.notify + offset, 2);
	pci_write(device.function, device.access + CAP_DATA, TRANSMIT, 2);
}

static bool wait_until_used(unsigned polls)
{
	while (queue.used.index != queue.available.index)
		if (!polls--)
			return false;
	return true;
}

static bool send(void)
{
	if (!is_taken() && !take())
		return false;
	if (device.wedged && !wait_until_used(1))
		return false;
	memcpy(queue.text, device.text, device.length);
	queue.descriptors[0].address = console_physical(queue.text);
	queue.descriptors[0].length = device.length;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	queue.available.index++; /* of descriptor 0: the ring has nothing else */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	notify();
	device.wedged = !wait_until_used(MOST_POLLS);
	return !device.wedged;
}

bool virtio_console_flush(void)
{
	bool sent = !device.length || send();

	device.length = 0;
	return sent;
}

void virtio_console_put(char c)
{
	device.text[device.length++] = c;
	if (device.length == sizeof(device.text))
		virtio_console_flush();
}
