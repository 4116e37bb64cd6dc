// SPDX-License-Identifier: MIT
/* Where the fields of a record are, by format: SDM Vol 3, figures 17-10 and 18-49, tables 18-23 to
   18-55. */
#include "drivers/ds/pebs.h"
#include "drivers/ds/registers.h"

enum { ADAPTIVE = 4, FORMATS };

/* Quadwords of formats 1 to 3, after the registers. */
enum {
	STATUS = 18,
	ADDRESS,
	SOURCE,
	LATENCY,
	EVENT_IP,
	TRANSACTION,
	TSC,
};

/* Quadwords of format 4: the basic group, that of memory, that of registers. */
enum {
	BASIC_EVENT_IP = 1,
	BASIC_COUNTERS,
	BASIC_TSC,
	MEMORY_ADDRESS,
	MEMORY_SOURCE,
	MEMORY_LATENCY,
	MEMORY_TRANSACTION,
	REGISTERS,
	ENTRIES = REGISTERS + 18,
	ENTRY_WORDS = 3,
};

#define MEMORY (DS_SAMPLE_ADDRESS | DS_SAMPLE_SOURCE | DS_SAMPLE_LATENCY)

static unsigned has_by_format(void)
{
	static const unsigned has[FORMATS] = {
		0,
		DS_SAMPLE_STATUS | MEMORY,
		DS_SAMPLE_STATUS | MEMORY | DS_SAMPLE_EVENT_IP | DS_SAMPLE_TRANSACTION,
		DS_SAMPLE_COUNTERS | MEMORY | DS_SAMPLE_EVENT_IP | DS_SAMPLE_TRANSACTION |
			DS_SAMPLE_TSC,
		DS_SAMPLE_COUNTERS | DS_SAMPLE_EVENT_IP | DS_SAMPLE_TSC,
	};
	unsigned format = ds_caps()->pebs_format, of_format = format < FORMATS ? has[format] : 0;

	if (ds_caps()->pebs_baseline)
		of_format |= MEMORY | DS_SAMPLE_TRANSACTION;
	if (!ds_configuration->pebs_reserved || format >= ADAPTIVE)
		return of_format;
	/* Silvermont, table 18-13, and Goldmont, table 18-20, which has the address. */
	of_format &= ~(unsigned)(DS_SAMPLE_SOURCE | DS_SAMPLE_LATENCY | DS_SAMPLE_TRANSACTION);
	return format < 3 ? of_format & ~(unsigned)DS_SAMPLE_ADDRESS : of_format;
}

/* The basic group is all that there is. */
static bool is_basic(void)
{
	return ds_caps()->pebs_format >= ADAPTIVE && !ds_caps()->pebs_baseline;
}

unsigned ds_sample_has(void)
{
	if (is_basic())
		return has_by_format();
	return has_by_format() | DS_SAMPLE_REGISTERS |
	       (ds_caps()->pebs_fault ? DS_SAMPLE_EVENT_IP : DS_SAMPLE_IP);
}

/* IP of the sampled instruction itself: where the program goes on is not known then. */
static void sort_addresses(struct ds_sample *sample)
{
	if (sample->has & DS_SAMPLE_IP)
		return;
	sample->event_ip = sample->ip;
	sample->ip = 0;
}

/* Flags and IP, eight registers in an order by format, R8 to R15. */
static void read_registers(const uint64_t *at, const uint8_t order[8], struct ds_sample *sample)
{
	sample->flags = at[0];
	sample->ip = at[1];
	for (unsigned i = 0; i < 8; i++)
		sample->general[order[i]] = at[2 + i];
	for (unsigned i = 8; i < 16; i++)
		sample->general[i] = at[2 + i];
}

static void read_basic(const uint64_t *at, struct ds_sample *sample)
{
	sample->event_ip = at[BASIC_EVENT_IP];
	sample->counters = at[BASIC_COUNTERS];
	sample->tsc = at[BASIC_TSC];
}

/* The first word has the record's groups, and in bits 63:48 its bytes. */
static void read_entries(const uint64_t *at, struct ds_sample *sample)
{
	uint64_t words = (at[0] >> 48) / sizeof(*at);

	if (!(at[0] & PEBS_DATA_CFG_LBRS) || words <= ENTRIES)
		return;
	sample->entry = at + ENTRIES;
	sample->entries = (unsigned)(words - ENTRIES) / ENTRY_WORDS;
}

static void read_groups(const uint64_t *at, struct ds_sample *sample)
{
	static const uint8_t order[] = {0, 1, 2, 3, 4, 5, 6, 7}; /* AX CX DX BX SP BP SI DI */

	read_entries(at, sample);

	read_registers(at + REGISTERS, order, sample);
	sort_addresses(sample);
	sample->address = at[MEMORY_ADDRESS];
	sample->source = at[MEMORY_SOURCE];
	sample->latency = at[MEMORY_LATENCY];
	sample->transaction = at[MEMORY_TRANSACTION];
}

static uint64_t quadword(const uint64_t *at, unsigned n, unsigned has, unsigned wanted)
{
	return has & wanted ? at[n] : 0;
}

void ds_read_sample(const void *record, struct ds_sample *sample)
{
	static const uint8_t order[] = {0, 3, 1, 2, 6, 7, 5, 4}; /* AX BX CX DX SI DI BP SP */
	const uint64_t *at = record;
	unsigned has = has_by_format();

	*sample = (struct ds_sample){.has = ds_sample_has()};
	if (ds_caps()->pebs_format >= ADAPTIVE) {
		read_basic(at, sample);
		if (!is_basic())
			read_groups(at, sample);
		return;
	}
	read_registers(at, order, sample);
	sample->counters = quadword(at, STATUS, has, DS_SAMPLE_STATUS | DS_SAMPLE_COUNTERS);
	sample->address = quadword(at, ADDRESS, has, DS_SAMPLE_ADDRESS);
	sample->source = quadword(at, SOURCE, has, DS_SAMPLE_SOURCE);
	sample->latency = quadword(at, LATENCY, has, DS_SAMPLE_LATENCY);
	sample->event_ip = quadword(at, EVENT_IP, has, DS_SAMPLE_EVENT_IP);
	sample->transaction = quadword(at, TRANSACTION, has, DS_SAMPLE_TRANSACTION);
	sample->tsc = quadword(at, TSC, has, DS_SAMPLE_TSC);
	sort_addresses(sample);
}
