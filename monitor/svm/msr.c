// SPDX-License-Identifier: MIT
/* RDMSR and WRMSR, apart from the MSRs that struct vcpu holds. */
#include "monitor/host/cpu.h"
#include "monitor/interp/interp.h"
#include "monitor/present.h"
#include "monitor/silicon.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/lapic.h"
#include "monitor/unit.h"

enum {
	MSR_PLATFORM_INFO = 0xce,
	MSR_PAT = 0x277,
};
#define MAXIMUM_RATIO_SHIFT 8 /* of the TSC to the bus clock, in MSR_PLATFORM_INFO */
#define FIRST_AMD_MSR	    0xc0010000u
#define LAST_AMD_MSR	    0xc0011fffu

/* IA32_MISC_ENABLE: SDM Vol 3, table 35-2. */
#define FAST_STRINGS (1ull << 0)
#define DEBUG_STORE  (3ull << 11) /* BTS_UNAVAILABLE, PEBS_UNAVAILABLE */
#define TAKES_AWAY   (MISC_ENABLE_LIMIT_CPUID | MISC_ENABLE_XD_DISABLE)
/* Of what CPUID hides: they keep their value. TM1, EIST, MONITOR, xTPR messages. */
#define WITHOUT_EFFECT (1ull << 3 | 1ull << 16 | 1ull << 18 | 1ull << 23)
#define WRITABLE       (FAST_STRINGS | TAKES_AWAY | WITHOUT_EFFECT)

static uint64_t *sysenter(struct guest *guest, uint32_t index)
{
	switch (index) {
	case MSR_SYSENTER_CS:
		return &guest->sysenter_cs;
	case MSR_SYSENTER_ESP:
		return &guest->vmcb->sysenter_esp;
	default:
		return &guest->vmcb->sysenter_eip;
	}
}

static bool is_refused(uint32_t index)
{
	return index >= FIRST_AMD_MSR && index <= LAST_AMD_MSR;
}

static bool read_misc_enable(struct guest *guest, uint64_t *value)
{
	if (!trace_read_msr(&guest->vcpu, MSR_MISC_ENABLE, value))
		return false;
	*value = hypervisor_misc_enable(&guest->vcpu, *value | MISC_ENABLE_PERF_AVAILABLE) |
		 guest->misc_enable;
	return true;
}

bool platform_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	struct guest *guest = guest_of(vcpu);
	enum msr_answer answer = hypervisor_reads(vcpu, index, value);

	if (answer != MSR_GOES_ON)
		return answer == MSR_DONE;
	if (index == MSR_MISC_ENABLE)
		return read_misc_enable(guest, value);
	if (unit_of_msr(index))
		return trace_read_msr(vcpu, index, value);
	if (x2apic_owns_msr(index))
		return x2apic_read_msr(guest, index, value);
	if (is_refused(index))
		return false;
	switch (index) {
	case MSR_APIC_BASE:
		return apic_base_read(guest, value);
	case MSR_PLATFORM_INFO: /* SDM Vol 3, chapter 35: maximum ratio */
		if (!vcpu->silicon->ratio)
			return read_msr_safe(index, value);
		*value = (uint64_t)vcpu->silicon->ratio << MAXIMUM_RATIO_SHIFT;
		return true;
	case MSR_PAT:
		*value = guest->vmcb->pat;
		return true;
	case MSR_SYSENTER_CS:
	case MSR_SYSENTER_ESP:
	case MSR_SYSENTER_EIP:
		*value = *sysenter(guest, index);
		return true;
	default:
		return read_msr_safe(index, value);
	}
}

/* Those of MSRs: the platform has no other. */
static const struct unit *unit_of_component(unsigned n)
{
	for (unsigned i = 0; i < UNITS; i++)
		if (units[i]->component.number == n)
			return units[i];
	return NULL;
}

bool platform_save_state(struct vcpu *vcpu, unsigned n, uint64_t rip, void *area)
{
	const struct unit *unit = unit_of_component(n);

	return unit && unit->component.save(vcpu, rip, area);
}

bool platform_load_state(struct vcpu *vcpu, unsigned n, const void *area)
{
	const struct unit *unit = unit_of_component(n);

	return unit && unit->component.restore(vcpu, area);
}

/* Eight memory types: 0, 1, 4, 5, 6 and 7 exist. SDM Vol 3, 11.12.2. */
static bool is_valid_pat(uint64_t value)
{
	for (unsigned i = 0; i < 8; i++, value >>= 8) {
		uint8_t type = (uint8_t)value;

		if (type > 7 || type == 2 || type == 3)
			return false;
	}
	return true;
}

/* Without XD the bit in page tables is reserved again, as before IA32_EFER.NXE is set. */
static void take_away(struct guest *guest, uint64_t bits)
{
	guest->vcpu.taken_away = bits;
	if (!(bits & MISC_ENABLE_XD_DISABLE))
		return;
	guest->vcpu.efer &= ~EFER_NXE;
	guest->stale_translations = true;
	interp_forget(&guest->vcpu);
}

/* Read-only bits keep their values; what this processor does not have stays off, unless
   a hypervisor keeps it. */
static bool write_misc_enable(struct guest *guest, uint64_t value)
{
	uint64_t old;

	if (!read_misc_enable(guest, &old))
		return false;
	switch (hypervisor_writes(&guest->vcpu, MSR_MISC_ENABLE, &value, old)) {
	case MSR_REFUSED:
		return false;
	case MSR_DONE:
		guest->misc_enable = value & ~(MISC_ENABLE_PERF_AVAILABLE | DEBUG_STORE);
		return true;
	case MSR_GOES_ON:
		break;
	}
	if (value & ~(WRITABLE | MISC_ENABLE_PERF_AVAILABLE | DEBUG_STORE) ||
	    !trace_write_msr(&guest->vcpu, MSR_MISC_ENABLE, value & DEBUG_STORE))
		return false;
	guest->misc_enable = value & WRITABLE;
	take_away(guest, value & TAKES_AWAY);
	return true;
}

bool platform_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	struct guest *guest = guest_of(vcpu);
	enum msr_answer answer;

	if (index == MSR_MISC_ENABLE)
		return write_misc_enable(guest, value);
	answer = hypervisor_writes(vcpu, index, &value, 0);
	if (answer != MSR_GOES_ON)
		return answer == MSR_DONE;
	if (unit_of_msr(index))
		return trace_write_msr(vcpu, index, value);
	if (x2apic_owns_msr(index))
		return x2apic_write_msr(guest, index, value);
	if (is_refused(index))
		return false;
	switch (index) {
	case MSR_PLATFORM_INFO:
		return !vcpu->silicon->ratio && write_msr_safe(index, value);
	case MSR_PAT:
		if (!is_valid_pat(value))
			return false;
		guest->vmcb->pat = value;
		return true;
	case MSR_SYSENTER_CS:
	case MSR_SYSENTER_ESP:
	case MSR_SYSENTER_EIP:
		if (!canonical(value))
			return false;
		*sysenter(guest, index) = value;
		return true;
	case MSR_APIC_BASE:
		return apic_base_write(guest, value);
	default:
		return write_msr_safe(index, value);
	}
}
