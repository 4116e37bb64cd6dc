// SPDX-License-Identifier: MIT
#include "drivers/pt/pt.h"

#include "drivers/processor.h"
#include "drivers/pt/registers.h"
#include "lib/string.h"

#define CPUID_PT    0x14u
#define CPUID_STATE 0xdu
#define CPUID_7_PT  (1u << 25)
#define CHUNK_BYTES 4096ull
#define INDEX_MOST  0x1ffffffull /* entries of a table: table 36-9 */
#define MARK	    0x05	 /* begins no packet: table 36-15 */

static struct pt_caps caps;
static struct pt_found found;
static bool (*is_trace_memory)(uint64_t physical, uint64_t bytes);

static bool bit(uint32_t word, unsigned n)
{
	return word >> n & 1;
}

/* Erratum BDM106 of Broadwell; Linux, arch/x86/events/intel/pt.c: branch_en_always_on. */
static bool has_bdm106(void)
{
	struct cpuid_signature signature = cpuid_signature(cpuid(1, 0).eax);

	return signature.family == 6 && (signature.model == 0x3d || signature.model == 0x47 ||
					 signature.model == 0x4f || signature.model == 0x56);
}

/* SDM Vol 1, 13.2. */
static bool has_saved_state(void)
{
	struct cpuid_result leaf = cpuid(CPUID_STATE, 1);

	return bit(leaf.eax, 3) && bit(leaf.ecx, 8);
}

/* SDM Vol 3, 36.3.1 and tables 36-11 to 36-13. Leaf 14H.1 is there whenever EAX says so. */
static void detect(void)
{
	uint32_t most = cpuid(0, 0).eax;
	struct cpuid_result leaf;

	if (!cpuid_is_intel() || most < CPUID_PT || !(cpuid(7, 0).ebx & CPUID_7_PT) ||
	    !rdmsr_safe(IA32_RTIT_CTL, &found.control))
		return;
	leaf = cpuid(CPUID_PT, 0);
	caps = (struct pt_caps){.present = true,
				.cr3_filter = bit(leaf.ebx, 0),
				.psb_cyc = bit(leaf.ebx, 1),
				.ip_filter = bit(leaf.ebx, 2),
				.mtc = bit(leaf.ebx, 3),
				.ptwrite = bit(leaf.ebx, 4),
				.power_events = bit(leaf.ebx, 5),
				.topa = bit(leaf.ecx, 0),
				.topa_many = bit(leaf.ecx, 1),
				.single_range = bit(leaf.ecx, 2),
				.fabric = bit(leaf.ecx, 3),
				.lip = bit(leaf.ecx, 31),
				.always_branches = has_bdm106(),
				.xsaves = has_saved_state()};
	if (leaf.eax < 1)
		return;
	leaf = cpuid(CPUID_PT, 1);
	caps.ranges = caps.ip_filter ? leaf.eax & 7 : 0;
	if (caps.ranges > PT_RANGES_MOST)
		caps.ranges = PT_RANGES_MOST;
	caps.mtc_periods = (uint16_t)(leaf.eax >> 16);
	caps.cycle_thresholds = (uint16_t)leaf.ebx;
	caps.psb_frequencies = (uint16_t)(leaf.ebx >> 16);
}

void pt_init(bool (*is_memory)(uint64_t physical, uint64_t bytes))
{
	is_trace_memory = is_memory;
	caps = (struct pt_caps){0};
	found = (struct pt_found){0};
	detect();
	if (!caps.present)
		return;
	rdmsr_safe(IA32_RTIT_STATUS, &found.status);
	if (caps.topa || caps.single_range) {
		rdmsr_safe(IA32_RTIT_OUTPUT_BASE, &found.output_base);
		rdmsr_safe(IA32_RTIT_OUTPUT_MASK_PTRS, &found.output_mask_ptrs);
	}
	if (caps.cr3_filter)
		rdmsr_safe(IA32_RTIT_CR3_MATCH, &found.cr3_match);
	for (unsigned n = 0; n < 2 * caps.ranges; n++)
		rdmsr_safe(IA32_RTIT_ADDR0_A + n, &found.address[n]);
}

struct pt_found *pt_found(void)
{
	return &found;
}

const struct pt_caps *pt_caps(void)
{
	return &caps;
}

/* A field whose value has to be in a bitmap; 0 is always allowed where the field is not. */
static bool is_offered(uint64_t control, uint64_t field, uint16_t bitmap)
{
	uint64_t value = (control & field) / (field & -field);

	return !value || bitmap >> value & 1;
}

/* Table 36-6. */
static int check_control(uint64_t control)
{
	const uint64_t plain = RTIT_CTL_OS | RTIT_CTL_USER | RTIT_CTL_TSC_EN | RTIT_CTL_DIS_RETC |
			       RTIT_CTL_BRANCH_EN;
	const uint64_t cycles = RTIT_CTL_CYC_EN | RTIT_CTL_CYC_THRESH | RTIT_CTL_PSB_FREQ;
	const uint64_t mtc = RTIT_CTL_MTC_EN | RTIT_CTL_MTC_FREQ;
	const uint64_t ptwrite = RTIT_CTL_PTW_EN | RTIT_CTL_FUP_ON_PTW;
	uint64_t offered = plain;

	if (control & ~(plain | cycles | mtc | ptwrite | RTIT_CTL_PWR_EVT_EN | RTIT_CTL_CR3_FILTER))
		return -EINVAL;
	offered |= caps.psb_cyc ? cycles : 0;
	offered |= caps.mtc ? mtc : 0;
	offered |= caps.ptwrite ? ptwrite : 0;
	offered |= caps.power_events ? RTIT_CTL_PWR_EVT_EN : 0;
	offered |= caps.cr3_filter ? RTIT_CTL_CR3_FILTER : 0;
	if (control & ~offered || (caps.always_branches && !(control & RTIT_CTL_BRANCH_EN)) ||
	    !is_offered(control, RTIT_CTL_MTC_FREQ, caps.mtc_periods) ||
	    !is_offered(control, RTIT_CTL_CYC_THRESH, caps.cycle_thresholds) ||
	    !is_offered(control, RTIT_CTL_PSB_FREQ, caps.psb_frequencies))
		return -EOPNOTSUPP;
	return 0;
}

/* Canonical for four levels of paging, which every processor accepts. */
static bool is_canonical(uint64_t address)
{
	return address + (1ull << 47) < 1ull << 48;
}

static int check_ranges(const struct pt_configuration *configuration)
{
	for (unsigned n = 0; n < PT_RANGES_MOST; n++) {
		uint64_t first = configuration->range[n].first, last = configuration->range[n].last;

		if (!configuration->range[n].use)
			continue;
		if (configuration->range[n].use > RTIT_ADDR_TRACE_STOP || first > last ||
		    !is_canonical(first) || !is_canonical(last))
			return -EINVAL;
		if (n >= caps.ranges)
			return -EOPNOTSUPP;
	}
	return 0;
}

/*
 * The processor writes wherever a table says, to code and tables too; it signals no error for the
 * local APIC's page, and may signal none for memory that the platform keeps: 36.2.6.4.
 */
static bool is_in_memory(const struct pt_buffer *buffer)
{
	uint64_t size = CHUNK_BYTES << buffer->order,
		 table_size = (buffer->count + 1) * sizeof(buffer->table[0]);

	for (size_t n = 0; n < buffer->count; n++)
		if (!is_trace_memory(buffer->chunks[n], size) ||
		    (buffer->chunks[n] < buffer->table_address + table_size &&
		     buffer->table_address < buffer->chunks[n] + size))
			return false;
	return is_trace_memory(buffer->table_address, table_size);
}

/* Table 36-3 and "ToPA errors": 36.2.6.2. */
static int check_buffer(const struct pt_buffer *buffer)
{
	if (!buffer->table || !buffer->last_end || !buffer->count || buffer->count >= INDEX_MOST ||
	    buffer->order > PT_ORDER_MOST || buffer->table_address % CHUNK_BYTES)
		return -EINVAL;
	if (buffer->count > 1 && !caps.topa_many)
		return -EOPNOTSUPP;
	for (size_t n = 0; n < buffer->count; n++)
		if (buffer->chunks[n] & ((CHUNK_BYTES << buffer->order) - 1))
			return -EINVAL;
	return is_in_memory(buffer) ? 0 : -EINVAL;
}

/* END leads back to this table: it is needed after a STOP too where topa_many is not. */
static void build_table(const struct pt_buffer *buffer)
{
	uint64_t flags = TOPA_SIZE(buffer->order) | (buffer->interrupts ? TOPA_INT : 0);

	for (size_t n = 0; n < buffer->count; n++)
		buffer->table[n] = buffer->chunks[n] | flags;
	if (!buffer->circular)
		buffer->table[buffer->count - 1] |= TOPA_STOP;
	buffer->table[buffer->count] = buffer->table_address | TOPA_END;
}

int pt_check(const struct pt_configuration *configuration)
{
	int result = check_control(configuration->control);

	if (!result)
		result = check_ranges(configuration);
	return !result && configuration->cr3_match & 0x1f ? -EINVAL : result;
}

int pt_prepare(struct pt_trace *trace)
{
	int result;

	if (!caps.present || !caps.topa)
		return -ENODEV;
	result = check_buffer(&trace->buffer);
	if (!result)
		result = pt_check(&trace->configuration);
	if (result)
		return result;
	build_table(&trace->buffer);
	pt_rewind(trace);
	return 0;
}

void pt_rewind(struct pt_trace *trace)
{
	memset(trace->buffer.last_end - PT_MARK_BYTES, MARK, PT_MARK_BYTES);
	trace->output_base = trace->buffer.table_address;
	trace->output_mask_ptrs = RTIT_POINTERS(0, 0);
	trace->status = 0;
}

static uint64_t chunk_bytes(const struct pt_trace *trace)
{
	return CHUNK_BYTES << trace->buffer.order;
}

/* STOP leaves the offset at the chunk's size: with Stopped clear that is an error of the table. */
int pt_ready(const struct pt_trace *trace)
{
	return trace->status & RTIT_STATUS_ERROR ? -EIO : pt_is_full(trace) ? -ENOSPC : 0;
}

int pt_load(const struct pt_trace *trace)
{
	const struct pt_configuration *configuration = &trace->configuration;

	int error = rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN ? -EBUSY : pt_ready(trace);

	if (error)
		return error;
	wrmsr(IA32_RTIT_OUTPUT_BASE, trace->output_base);
	wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, trace->output_mask_ptrs);
	if (caps.cr3_filter)
		wrmsr(IA32_RTIT_CR3_MATCH, configuration->cr3_match);
	for (unsigned n = 0; n < caps.ranges; n++) {
		bool used = configuration->range[n].use;

		wrmsr(IA32_RTIT_ADDR0_A + 2 * n, used ? configuration->range[n].first : 0);
		wrmsr(IA32_RTIT_ADDR0_A + 2 * n + 1, used ? configuration->range[n].last : 0);
	}
	return 0;
}

uint64_t pt_control(const struct pt_trace *trace)
{
	uint64_t control = trace->configuration.control | RTIT_CTL_TOPA | RTIT_CTL_TRACE_EN;

	for (unsigned n = 0; n < caps.ranges; n++)
		control |= RTIT_CTL_ADDR_CFG(n, trace->configuration.range[n].use);
	return control;
}

int pt_start(const struct pt_trace *trace)
{
	wrmsr(IA32_RTIT_STATUS, 0);
	return wrmsr_safe(IA32_RTIT_CTL, pt_control(trace)) ? 0 : -EIO;
}

uint64_t pt_pause(void)
{
	uint64_t control = rdmsr(IA32_RTIT_CTL);

	if (!(control & RTIT_CTL_TRACE_EN))
		return 0;
	wrmsr(IA32_RTIT_CTL, control & ~RTIT_CTL_TRACE_EN);
	return control;
}

/* A full region that is enabled again may be an error of the table: 36.2.6.2. */
void pt_resume(uint64_t control)
{
	if (control && !(rdmsr(IA32_RTIT_STATUS) & (RTIT_STATUS_STOPPED | RTIT_STATUS_ERROR)))
		wrmsr(IA32_RTIT_CTL, control);
}

/* KVM up to Linux 6.12 refuses a write that clears TraceEn and changes another bit. */
void pt_off(void)
{
	pt_pause();
	wrmsr(IA32_RTIT_CTL, 0);
}

void pt_stop(struct pt_trace *trace)
{
	pt_off();
	pt_look(trace);
}

/* Whether the mark from `left` bytes before the buffer's end on is as it was written. */
static bool is_marked(const struct pt_trace *trace, uint64_t left)
{
	for (uint64_t n = 1; n <= left && n <= PT_MARK_BYTES; n++)
		if (trace->buffer.last_end[-(int64_t)n] != MARK)
			return false;
	return true;
}

struct pt_state pt_state(const struct pt_trace *trace)
{
	uint64_t size = trace->buffer.count * chunk_bytes(trace);
	uint64_t index = RTIT_TABLE_INDEX(trace->output_mask_ptrs);
	struct pt_state state = {.table_error = trace->status & RTIT_STATUS_ERROR};

	/* The END entry, before the processor followed it. */
	state.end =
		index >= trace->buffer.count
			? 0
			: index * chunk_bytes(trace) + RTIT_OUTPUT_OFFSET(trace->output_mask_ptrs);
	state.stopped = trace->status & RTIT_STATUS_STOPPED;
	state.full = state.stopped && state.end == size;
	state.wrapped = trace->buffer.circular && !is_marked(trace, size - state.end);
	state.valid = state.wrapped ? size : state.end;
	return state;
}
