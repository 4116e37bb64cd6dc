// SPDX-License-Identifier: MIT
#include "tests/host/pt_rig.h"

#include <intel-pt.h>

const struct pt_enumeration everything = {
	.eax = 1, .ebx = 7, .ecx = 7, .eax_1 = 2, .ebx_1 = 0x003f3fff, .ratio = 24};
const struct pt_enumeration least = {.ebx = 1, .ecx = 1, .ratio = 24};

static struct profile profile;
struct silicon silicon;
uint64_t expected[MOST], decoded[MOST];
unsigned executed;
static uint64_t tsc;

uint8_t *platform_unit_page(struct vcpu *vcpu, uint64_t physical)
{
	return platform_is_memory(physical) ? platform_guest_page(physical) : NULL;
}

bool platform_unit_is_apic(struct vcpu *vcpu, uint64_t physical)
{
	return physical == APIC;
}

uint64_t platform_unit_tsc(struct vcpu *vcpu)
{
	return tsc += 7;
}

void platform_unit_interrupt(struct vcpu *vcpu)
{
}

void platform_unit_resumes(struct vcpu *vcpu)
{
}

static void expect(uint64_t ip)
{
	if (executed < MOST)
		expected[executed++] = ip;
}

unsigned observed_levels(const struct vcpu *vcpu)
{
	return vcpu->observed ? 0xf : 0;
}

void saw_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
}

static bool jumps_quickly(struct pt_state *pt, const struct insn *i, uint64_t to)
{
	if (i->kind & RETIRED_CONDITIONAL)
		return pt_bit_quickly(pt, true);
	return pt_jump_quickly(pt, i->kind, insn_next(i), to) ||
	       pt_indirect_quickly(pt, i->kind, insn_next(i), to);
}

/* As in monitor/trace.c. */
void saw_jump(struct vcpu *vcpu, const struct insn *i, uint64_t to)
{
	if (vcpu->hot.follows && jumps_quickly(&vcpu->pt, i, to))
		go_on(vcpu, to, i->behind);
	else
		jump_slowly(vcpu, i, to);
}

void saw_not_taken(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->hot.follows && pt_bit_quickly(&vcpu->pt, false))
		next(vcpu, i);
	else
		not_taken_slowly(vcpu, i);
}

bool follows_branches(struct vcpu *vcpu)
{
	return vcpu->observed == OBSERVER_FLOW && vcpu->cpl == 3 && pt_branches_alone(vcpu);
}

void saw_event(struct vcpu *vcpu, const struct branch *event)
{
	if (vcpu->observed & OBSERVER_FLOW)
		pt_event(vcpu, event);
}

/* Before the instruction the trace decides whether it shows it; after it, whether the next. */
void saw_retired(struct vcpu *vcpu, const struct retired *retired)
{
	bool shown = vcpu->pt.packet_enabled, itself = vcpu->pt.interrupted_itself,
	     ends = vcpu->pt.disabling;

	if (!(vcpu->observed & OBSERVER_FLOW))
		return;
	pt_retired(vcpu, retired);
	if (shown && !itself && !ends)
		expect(retired->from);
}

void saw_cr3(struct vcpu *vcpu)
{
	if (vcpu->observed & OBSERVER_FLOW)
		pt_cr3(vcpu);
}

void saw_mode(struct vcpu *vcpu, unsigned bits)
{
}

void saw_halt(struct vcpu *vcpu)
{
}

void write_msr(uint32_t index, uint64_t value)
{
	assert_true(pt_write_msr(&rig.vcpu, index, value));
}

uint64_t read_msr(uint32_t index)
{
	uint64_t value;

	assert_true(pt_read_msr(&rig.vcpu, index, &value));
	return value;
}

uint64_t *topa(unsigned entry)
{
	return (uint64_t *)(void *)(rig.memory + TOPA) + entry;
}

void of(const struct pt_enumeration *pt)
{
	rig_reset();
	memset(rig.memory + 0x200000, 0, RIG_MEMORY - 0x200000);
	silicon.profile = &profile;
	silicon.has_pt = pt;
	silicon.physical_bits = 40;
	silicon.pt = pt_clean;
	rig.vcpu.silicon = &silicon;
	rig.vcpu.observed = 0;
	pt_power_on(&rig.vcpu);
	executed = 0;
	tsc = 0;
}

void make_topa(unsigned count, unsigned order, uint64_t last)
{
	for (unsigned n = 0; n < count; n++)
		*topa(n) = (REGIONS + ((uint64_t)n << (12 + order))) | order << 6;
	*topa(count - 1) |= last;
	*topa(count) = TOPA | 1;
	write_msr(MSR_RTIT_OUTPUT_BASE, TOPA);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, 0);
}

void write_ctl(uint64_t value)
{
	struct retired wrmsr = {.from = rig.vcpu.rip, .rip = rig.vcpu.rip, .kind = RETIRED};

	write_msr(MSR_RTIT_CTL, value);
	if (rig.vcpu.observed & OBSERVER_FLOW)
		pt_retired(&rig.vcpu, &wrmsr);
}

static int read_image(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		      void *context)
{
	uint64_t end = RIG_BASE + RIG_MEMORY;

	if (ip < RIG_BASE || ip >= end)
		return -pte_nomap;
	size = size < end - ip ? size : (size_t)(end - ip);
	memcpy(buffer, (const void *)(uintptr_t)ip, size);
	return (int)size;
}

int decode_packets(uint8_t *bytes, size_t size, unsigned *count)
{
	struct pt_config config;
	struct pt_image *image = pt_image_alloc("guest");
	struct pt_insn_decoder *decoder;
	int status, error = 0;

	pt_config_init(&config);
	config.begin = bytes;
	config.end = bytes + size;
	decoder = pt_insn_alloc_decoder(&config);
	assert_non_null(decoder);
	pt_image_set_callback(image, read_image, NULL);
	assert_int_equal(pt_insn_set_image(decoder, image), 0);
	*count = 0;
	status = pt_insn_sync_forward(decoder);
	while (status >= 0) {
		struct pt_insn insn = {0};
		struct pt_event event;

		while (status >= 0 && status & pts_event_pending)
			status = pt_insn_event(decoder, &event, sizeof(event));
		if (status < 0 || status & pts_eos)
			break;
		status = pt_insn_next(decoder, &insn, sizeof(insn));
		if (insn.iclass != ptic_error && *count < MOST)
			decoded[(*count)++] = insn.ip;
	}
	error = status < 0 && status != -pte_eos ? status : 0;
	pt_insn_free_decoder(decoder);
	pt_image_free(image);
	return error;
}

size_t bytes_out(unsigned order)
{
	uint64_t pointers = read_msr(MSR_RTIT_OUTPUT_MASK_PTRS);

	return ((pointers >> 7 & 0x1ffffff) << (12 + order)) + (pointers >> 32);
}

void assert_same(unsigned count)
{
	for (unsigned n = 0; n < count && n < executed; n++)
		if (decoded[n] != expected[n])
			fail_msg("instruction %u of %u: decoded %llx, executed %llx", n, executed,
				 (unsigned long long)decoded[n], (unsigned long long)expected[n]);
	assert_int_equal(count, executed);
}

void assert_decodes(unsigned order)
{
	unsigned count;
	int error = decode_packets(rig.memory + REGIONS, bytes_out(order), &count);

	if (error)
		fail_msg("libipt, after %u of %u instructions: %s", count, executed,
			 pt_errstr(pt_errcode(error)));
	assert_same(count);
}

void run(unsigned instructions, bool nmis)
{
	while (instructions--) {
		if (nmis && !below(97) && !rig.vcpu.nmi_blocked)
			rig.vcpu.nmi_pending = true;
		assert_int_equal(interp_run(&rig.vcpu, 1), INTERP_BUDGET);
	}
}

void run_blocks(unsigned budget)
{
	assert_int_equal(interp_run(&rig.vcpu, budget), INTERP_BUDGET);
}
