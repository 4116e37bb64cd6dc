// SPDX-License-Identifier: MIT
// Kinds of CPUs: those of a hybrid processor differ in counters and formats.
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/lbr/registers.h"
#include "drivers/processor.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/trace/cpu.h"
#include "lib/format.h"
#include "lib/string.h"

#define KINDS_MOST     8
#define CPUID_7_HYBRID (1u << 15) /* EDX; SDM Vol 2, CPUID */

/* The fields of a kind: one for each unit, by its number, and more. A CPU is used only if its first
   NEEDED fields are those of the boot CPU, where that has any. */
enum { PT_MORE = TRACE_UNITS, WIDTHS, NEEDED };
enum { CORE = NEEDED, SIGNATURE, CAPABILITIES, COUNTERS, FIELDS };
static const char *const names[] = {"pt_more",		 "widths",  "core", "signature",
				    "perf_capabilities", "counters"};

static struct kind {
	uint64_t field[FIELDS];
	unsigned left_out;
} kinds[KINDS_MOST];
static unsigned count;
char kinds_named_left_out[KINDS_LEFT_OUT];

static struct cpuid_result leaf_of(uint32_t leaf, uint32_t subleaf)
{
	return cpuid_is_intel() && cpuid(0, 0).eax >= leaf ? cpuid(leaf, subleaf)
							   : (struct cpuid_result){0};
}

static void read_pt(uint64_t *field, bool suspends)
{
	struct cpuid_result leaf = leaf_of(0x14, 0), more = leaf_of(0x14, 1);
	bool saved = leaf_of(0xd, 1).ecx >> 8 & 1; /* by XSAVES */

	field[TRACE_PT] = (uint64_t)leaf.ebx << 32 | leaf.ecx;
	field[PT_MORE] = (uint64_t)more.ebx << 32 | more.eax | saved << 8 | suspends << 9;
}

/* Reads the fields that the drivers use: SDM Vol 2, CPUID; SDM Vol 3, table 35-2. */
static struct kind kind_here(const struct ds_caps *caps)
{
	struct cpuid_result one = leaf_of(1, 0), seven = leaf_of(7, 0), ten = leaf_of(0xa, 0);
	struct kind kind = {0};

	if (one.ecx & CPUID_1_ECX_PDCM)
		rdmsr_safe(IA32_PERF_CAPABILITIES, &kind.field[CAPABILITIES]);
	kind.field[TRACE_LBR] = kind.field[CAPABILITIES] & CAPABILITIES_LBR_FMT;
	if (seven.edx & CPUID_7_EDX_ARCH_LBR)
		kind.field[TRACE_LBR] =
			(uint64_t)leaf_of(LBR_LEAF, 0).ebx << 32 | leaf_of(LBR_LEAF, 0).eax;
	if (caps->status == DS_PRESENT)
		kind.field[TRACE_BTS] = caps->configuration->tr | caps->filters;
	if (caps->pebs)
		kind.field[TRACE_PEBS] =
			0x10 | caps->pebs_format | caps->pebs_fault << 5 | caps->pebs_baseline << 6;
	if (seven.ebx & CPUID_7_EBX_PT)
		read_pt(kind.field, caps->suspended_by_pt);
	kind.field[WIDTHS] = (ten.eax >> 16 & 0xff) << 8 | (ten.edx >> 5 & 0xff);
	kind.field[CORE] = seven.edx & CPUID_7_HYBRID ? leaf_of(0x1a, 0).eax >> 24 : 0;
	kind.field[SIGNATURE] = one.eax;
	kind.field[COUNTERS] = (uint64_t)ten.edx << 32 | ten.eax;
	return kind;
}

/* The last kind collects those for which there is no room. */
static struct kind *find_kind(const struct kind *here)
{
	unsigned at = 0;

	while (at < count && memcmp(kinds[at].field, here->field, sizeof(here->field)) != 0)
		at++;
	if (at == count && count < KINDS_MOST)
		kinds[count++] = *here;
	return &kinds[at < count ? at : count - 1];
}

/* CPUs start one after the other. One that finds no room is not named. */
static void name_left_out(uint32_t apic_id)
{
	static size_t at;
	size_t room = KINDS_LEFT_OUT - at;
	char *end = kinds_named_left_out + at;
	size_t bytes = (size_t)format(end, room, at ? ",%u" : "%u", apic_id);

	at += bytes < room ? bytes : 0;
	*end = bytes < room ? *end : 0;
}

bool kind_note(struct cpu *cpu, const struct ds_caps *caps)
{
	struct kind here = kind_here(caps), *kind = find_kind(&here);

	cpu->kind = (unsigned)(kind - kinds);
	for (unsigned i = 0; i < NEEDED; i++)
		if (kinds[0].field[i] && kinds[0].field[i] != here.field[i]) {
			kind->left_out++;
			name_left_out(cpu->apic_id);
			return false;
		}
	return true;
}

/* As 0-3,8. */
static void print_cpus(unsigned kind)
{
	const char *comma = "";

	for (unsigned first = 0, end; first < cpu_count(); first = end) {
		for (end = first; end < cpu_count() && cpu_by_index(end)->kind == kind; end++)
			;
		if (end > first)
			printk(end == first + 1 ? "%s%u" : "%s%u-%u", comma, first, end - 1);
		comma = end > first ? "," : comma;
		end += end == first;
	}
}

void kinds_print(void)
{
	for (unsigned i = 0; count > 1 && i < count; i++) {
		printk("# kind=%u", i);
		for (unsigned n = 0; n < FIELDS; n++)
			printk(" %s=%lx",
			       n < TRACE_UNITS ? trace_units[n]->name : names[n - PT_MORE],
			       kinds[i].field[n]);
		printk(" left_out=%u cpus=", kinds[i].left_out);
		print_cpus(i);
		printk("\n");
	}
}

unsigned kind_with(unsigned unit)
{
	unsigned kind = 0;

	while (kind < count && !kinds[kind].field[unit])
		kind++;
	return kind < count ? kind : 0;
}

unsigned kinds_left_out(void)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += kinds[i].left_out;
	return sum;
}
