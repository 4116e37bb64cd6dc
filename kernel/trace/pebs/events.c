// SPDX-License-Identifier: MIT
// How each family samples the events that have names here: SDM Vol 3, tables 18-10, 18-12, 18-19
// and 18-22, and chapter 19; which raw codes are precise: the lists of github.com/intel/perfmon.
#include "drivers/processor.h"
#include "kernel/trace/pebs/private.h"

enum { ALL = 0xff, ONE = 1, SECOND = 2 };
enum { GOLDMONT_PLUS = 0x7a, INSTRUCTIONS = 0x00c0, CYCLES = 0x003c, PREC_DIST = 0x01c0 };

/* Unit mask and event select of those with names, in the order of their numbers; 0: none. `atom` is
   Silvermont and Goldmont, `sandy_bridge` all to Comet Lake, whose instructions are PREC_DIST. */
typedef uint16_t named_events[PTRACE_PEBS_EVENTS];
static const named_events core = {0, 0x00c0, 0, 0, 0, 0, 0, 0x00c5};
static const named_events atom = {0, 0x00c0, 0x00c4, 0x7ec4, 0xf9c4, 0xf7c4, 0, 0x00c5};
static const named_events nehalem = {0, 0x01c0, 0x04c4, 0x01c4, 0x02c4, 0, 0, 0, 0x010b, 0x020b};
static const named_events sandy_bridge = {0,	  0x01c0, 0x04c4, 0x01c4, 0x02c4,
					  0x08c4, 0x20c4, 0x04c5, 0x81d0, 0x82d0};
static const named_events ice_lake = {0,      0x00c0, 0x00c4, 0x11c4, 0x02c4,
				      0x08c4, 0x20c4, 0x00c5, 0x81d0, 0x82d0};

/*
 * The precise events without names here that every model of a family has, as unit mask and event
 * select, up to 0; with bit 16 there are several masks of one bit each. Those that need another MSR
 * are not there (latencies, precise stores, front end).
 */
static const uint32_t more_of_core[] = {0xfec1, 0x1fc7, 0x11fcb, 0};
static const uint32_t more_of_bonnell[] = {0x8110, 0x8210, 0x0282, 0x80b0, 0x04cb, 0};
static const uint32_t more_of_silvermont[] = {0x10903, 0x12e04, 0xbfc4, 0xebc4, 0xfbc4,
					      0xfdc4,  0xfec4,	0x7ec5, 0xebc5, 0xf7c5,
					      0xfbc5,  0xfec5,	0};
static const uint32_t more_of_goldmont[] = {
	0x11f03, 0x10613, 0x00c2, 0x119c2, 0x80c4, 0xbfc4, 0xebc4, 0xfbc4,  0xfdc4,
	0xfec4,	 0x7ec5,  0xebc5, 0xf7c5,  0xfbc5, 0xfec5, 0x11d0, 0x12d0,  0x13d0,
	0x21d0,	 0x41d0,  0x42d0, 0x43d0,  0x81d0, 0x82d0, 0x83d0, 0x1fbd1, 0};
static const uint32_t more_of_nehalem[] = {0x010c, 0x106c0, 0x107c2, 0x02c5, 0x11fc7,
					   0x20c8, 0x1dfcb, 0x107f7, 0};
static const uint32_t more_of_sandy_bridge[] = {0x103c2, 0x121c5, 0x11d0,  0x12d0,  0x21d0,
						0x41d0,	 0x42d0,  0x147d1, 0x10fd2, 0};
static const uint32_t more_of_haswell[] = {0x103c2, 0x121c5, 0x04c8, 0x04c9, 0x11d0,
					   0x12d0,  0x21d0,  0x41d0, 0x42d0, 0x17fd1,
					   0x10fd2, 0x01d3,  0};
static const uint32_t more_of_skylake[] = {0x02c0, 0x40c4,  0x123c5, 0x04c8, 0x04c9,
					   0x11d0, 0x12d0,  0x21d0,  0x41d0, 0x42d0,
					   0x83d0, 0x17fd1, 0x10fd2, 0x04d4, 0};
static const uint32_t more_of_ice_lake[] = {0x02c0,  0x1d1c4, 0x1bbc5, 0x11c5, 0x11d0,
					    0x12d0,  0x21d0,  0x41d0,  0x42d0, 0x83d0,
					    0x17fd1, 0x10fd2, 0x04d4,  0};

/* Nehalem and Westmere of the processors with format 1. */
static bool is_nehalem(unsigned model)
{
	static const uint8_t models[] = {0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c, 0x2f};

	for (unsigned i = 0; i < sizeof(models); i++)
		if (model == models[i])
			return true;
	return false;
}

static const uint16_t *find_table(void)
{
	uint32_t signature = cpuid(1, 0).eax;
	unsigned model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);

	if (!ds_caps()->pebs_format)
		return core;
	if (ds_caps()->pebs_format >= 4)
		return ice_lake;
	if (ds_configuration->pebs_reserved || model == GOLDMONT_PLUS)
		return atom;
	return is_nehalem(model) ? nehalem : sandy_bridge;
}

static const uint32_t *find_more(const uint16_t *named)
{
	static const uint32_t *const of_format[] = {more_of_sandy_bridge, more_of_sandy_bridge,
						    more_of_haswell, more_of_skylake};
	unsigned format = ds_caps()->pebs_format;

	if (named == core)
		return ds_configuration->pebs_reserved ? more_of_bonnell : more_of_core;
	if (named == atom)
		return format < 3 ? more_of_silvermont : more_of_goldmont;
	return named == nehalem	   ? more_of_nehalem
	       : named == ice_lake ? more_of_ice_lake
				   : of_format[format];
}

static bool is_in(const uint32_t *list, uint32_t code)
{
	uint32_t mask = code >> 8;

	for (; *list; list++)
		if (*list == code || (*list >> 16 && (*list & 0xff) == (code & 0xff) &&
				      (*list >> 8 & mask) && !(mask & (mask - 1))))
			return true;
	return false;
}

static bool is_named(const uint16_t *named, uint32_t code)
{
	for (unsigned i = 1; i < PTRACE_PEBS_EVENTS; i++)
		if (named[i] == code)
			return true;
	return false;
}

/* SDM Vol 3, 18.8.1.1: CMASK, INV and E are 0 where samples are taken. */
static int check_raw(const struct pebs_options *options)
{
	uint32_t code = options->event;

	if (!(code & 0xff) || code & ~PTRACE_PEBS_RAW_BITS ||
	    (code >> 16 && pebs_is_precise(options)))
		return -EINVAL;
	if (pmu_lacks_event(code))
		return -EOPNOTSUPP;
	return !pebs_is_precise(options) || is_named(find_table(), code) ||
			       is_in(find_more(find_table()), code)
		       ? 0
		       : -ENOENT;
}

static int check_named(unsigned event)
{
	if (!event || event >= PTRACE_PEBS_EVENTS)
		return -EINVAL;
	return find_table()[event] ? 0 : -EOPNOTSUPP;
}

/* Of fixed counters, SDM Vol 3, table 18-8, too. */
static uint64_t counters_of(uint32_t code, bool precise)
{
	const uint16_t *named = find_table();
	uint64_t fixed = code == INSTRUCTIONS ? 1 : code == CYCLES ? 2 : 0;

	if (precise && (named == core || named == atom))
		return fixed << PMU_FIXED | ONE;
	if (precise && named == sandy_bridge && code == PREC_DIST)
		return SECOND;
	return fixed << PMU_FIXED | ALL;
}

bool pebs_present(void)
{
	return ds_pebs_record_size() && pmu_caps()->version;
}

int pebs_find_event(const struct pebs_options *options, struct pebs_event *found)
{
	int error = options->raw ? check_raw(options) : check_named(options->event);
	uint32_t code, select;

	if (error)
		return error;
	code = options->raw ? options->event : find_table()[options->event];
	select = code & 0xff;
	*found =
		(struct pebs_event){.code = code,
				    .counters = counters_of(code, pebs_is_precise(options)),
				    .memory = select == 0x0b || (select >= 0xd0 && select <= 0xd3)};
	return 0;
}
