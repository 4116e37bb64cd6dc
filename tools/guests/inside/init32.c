// SPDX-License-Identifier: MIT
/*
 * The first program of a 32-bit guest: records its own branches by Linux' intel_bts and says on the
 * second serial port how many of a loop's are there. Linux: perf_event_open(2), and
 * include/uapi/linux/perf_event.h.
 */
#include <stdbool.h>
#include <stdint.h>

enum {
	READ = 3,
	WRITE,
	OPEN,
	MKNOD = 14,
	MOUNT = 21,
	MKDIR = 39,
	IOCTL = 54,
	REBOOT = 88,
	MMAP = 90
};
enum { PERF_EVENT_OPEN = 336, ENABLE = 0x2400, DISABLE = 0x2401, DRAIN = 0x5409 };
enum { POWER_OFF = 0x4321fedc, MAGIC_1 = (int)0xfee1dead, MAGIC_2 = 672274793 };
enum { TTY = 020600, TTY_S1 = 4 << 8 | 65, READ_WRITE = 2, SHARED = 1, PROT_ALL = 3 };
enum { PAGE = 4096, RING = 1 + 8, RECORDS_AT = 16 * PAGE, RECORDS_BYTES = 64 * PAGE };
enum { TURNS = 1000, DISABLED_NO_KERNEL = 1 | 1 << 5 | 1 << 6 };

struct attributes {
	uint32_t type, size;
	uint64_t config, period, sample_type, read_format, flags, rest[2];
};
_Static_assert(sizeof(struct attributes) == 64, "PERF_ATTR_SIZE_VER0");

/* struct perf_event_mmap_page, from its aux_head on. */
struct records {
	uint64_t head, tail, offset, bytes;
};
enum { RECORDS = 1056 };

struct branch {
	uint64_t from, to, flags;
};

struct mapping {
	unsigned long address, bytes, protection, flags, file, offset;
};

void _start(void);
static int report;

static long call(long number, long a, long b, long c, long d, long e)
{
	__asm__ volatile("int $0x80"
			 : "+a"(number)
			 : "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
			 : "memory");
	return number;
}

static void say(const char *text)
{
	long bytes = 0;

	while (text[bytes])
		bytes++;
	call(WRITE, report, (long)text, bytes, 0, 0);
}

static void say_number(unsigned long number)
{
	char text[11] = {0}, *at = &text[10];

	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	say(at);
}

static _Noreturn void finish(void)
{
	say("\nend\n");
	call(IOCTL, report, DRAIN, 1, 0, 0);
	for (;;)
		call(REBOOT, MAGIC_1, MAGIC_2, POWER_OFF, 0, 0);
}

/* What a system call returns, unless it is an error: that ends the run. */
static long need(const char *what, long result)
{
	if (result < 0 && result > -PAGE) {
		say(what);
		say(": error ");
		say_number((unsigned long)-result);
		finish();
	}
	return result;
}

static void *map(long file, unsigned long bytes, unsigned long offset)
{
	struct mapping mapping = {0, bytes, PROT_ALL, SHARED, (unsigned long)file, offset};

	return (void *)need("mmap", call(MMAP, (long)&mapping, 0, 0, 0, 0));
}

static uint32_t type_of_intel_bts(void)
{
	char text[12] = {0};
	uint32_t type = 0;
	long file =
		need("intel_bts",
		     call(OPEN, (long)"/sys/bus/event_source/devices/intel_bts/type", 0, 0, 0, 0));

	call(READ, file, (long)text, sizeof(text) - 1, 0, 0);
	for (const char *at = text; *at >= '0' && *at <= '9'; at++)
		type = type * 10 + (uint32_t)(*at - '0');
	return type;
}

static unsigned long count(const struct branch *branches, uint64_t bytes, uint32_t from,
			   uint32_t to)
{
	unsigned long found = 0;

	for (uint32_t i = 0; i < (uint32_t)bytes / sizeof(*branches); i++)
		found += branches[i].from == from && branches[i].to == to;
	return found;
}

static void record(void)
{
	struct attributes attributes = {.type = type_of_intel_bts(),
					.size = sizeof(attributes),
					.period = 1,
					.flags = DISABLED_NO_KERNEL};
	long file = need("perf_event_open", call(PERF_EVENT_OPEN, (long)&attributes, 0, -1, -1, 0));
	volatile struct records *records = (void *)((uint8_t *)map(file, RING * PAGE, 0) + RECORDS);
	const struct branch *branches;
	uint32_t from, to, turns = TURNS;

	records->offset = RECORDS_AT;
	records->bytes = RECORDS_BYTES;
	branches = map(file, RECORDS_BYTES, RECORDS_AT);
	need("enable", call(IOCTL, file, ENABLE, 0, 0, 0));
	__asm__ volatile("1: dec %2\n2: jnz 1b\n\tmov $2b, %0\n\tmov $1b, %1"
			 : "=r"(from), "=r"(to), "+r"(turns));
	need("disable", call(IOCTL, file, DISABLE, 0, 0, 0));
	say("records ");
	say_number(count(branches, records->head, from, to));
	say(" of ");
	say_number(TURNS - 1);
}

void _start(void)
{
	call(MKDIR, (long)"/dev", 0700, 0, 0, 0);
	call(MKDIR, (long)"/sys", 0700, 0, 0, 0);
	call(MKNOD, (long)"/dev/ttyS1", TTY, TTY_S1, 0, 0);
	call(MOUNT, (long)"sysfs", (long)"/sys", (long)"sysfs", 0, 0);
	report = (int)call(OPEN, (long)"/dev/ttyS1", READ_WRITE, 0, 0, 0);
	say("run pae\n");
	record();
	finish();
}
