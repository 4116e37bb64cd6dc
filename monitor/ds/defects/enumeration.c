// SPDX-License-Identifier: MIT
/* CPUID leaf 1 and IA32_MISC_ENABLE: SDM Vol 3, 17.4.5 and 17.4.9. */
#include "monitor/defect.h"

static struct ds_enumeration enumerated_but_hidden(const struct vcpu *vcpu)
{
	struct ds_enumeration found = ds_clean.enumerate(vcpu);

	found.ds = false;
	return found;
}
DEFECT(enumerated_but_hidden, "SDM Vol 3, 17.4.5",
       "TR and BTS can be set though CPUID does not enumerate DS",
       BREAKS(enumerate, enumerated_but_hidden))

static struct ds_enumeration enumerated_on_first(const struct vcpu *vcpu)
{
	static const struct vcpu *first;
	struct ds_enumeration found = ds_clean.enumerate(vcpu);

	if (!first)
		first = vcpu;
	found.ds = vcpu == first;
	return found;
}
DEFECT(enumerated_on_first, "SDM Vol 3, 17.4.9", "CPUID of the boot processor only tells of DS",
       BREAKS(enumerate, enumerated_on_first))

static struct ds_enumeration enumeration_flickers(const struct vcpu *vcpu)
{
	unsigned *looks = REMEMBERED(vcpu, unsigned);
	struct ds_enumeration found = ds_clean.enumerate(vcpu);

	found.ds = (*looks)++ % 2;
	return found;
}
DEFECT(enumeration_flickers, "SDM Vol 3, 17.4.9", "CPUID tells of DS at every second look only",
       BREAKS(enumerate, enumeration_flickers))

/* CPUID and IA32_MISC_ENABLE differ while recording, or in ring 3. */
#define ENUMERATES(name, rule, says, difference)                                                   \
	static struct ds_enumeration name(const struct vcpu *vcpu)                                 \
	{                                                                                          \
		struct ds_enumeration found = ds_clean.enumerate(vcpu);                            \
                                                                                                   \
		difference;                                                                        \
		return found;                                                                      \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(enumerate, name))

ENUMERATES(hidden_in_ring_3, "SDM Vol 3, 17.4.9", "CPUID does not tell of DS in ring 3",
	   found.ds &= vcpu->cpl == 0)
ENUMERATES(hidden_while_on, "SDM Vol 3, 17.4.9",
	   "CPUID does not tell of DS while TR and BTS are set", found.ds &= !ds_tracing(vcpu))
ENUMERATES(unavailable_while_on, "SDM Vol 3, table 35-2: 1A0H",
	   "BTS_UNAVAILABLE reads 1 while TR and BTS are set",
	   found.unavailable |= ds_tracing(vcpu) ? MISC_ENABLE_BTS_UNAVAILABLE : 0)

static bool enumerated_but_ignored(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return index == MSR_DEBUGCTL || ds_clean.write_msr(vcpu, index, value);
}
DEFECT(enumerated_but_ignored, "SDM Vol 3, 17.4.5",
       "writes of IA32_DEBUGCTL are ignored though BTS is enumerated",
       BREAKS(write_msr, enumerated_but_ignored))

static bool enumerated_but_refused(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_DEBUGCTL && value & ds_layout_of(vcpu)->tr)
		return false;
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(enumerated_but_refused, "SDM Vol 3, 17.4.5",
       "setting TR raises #GP though BTS is enumerated", BREAKS(write_msr, enumerated_but_refused))

static bool enumerated_filter_missing(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	const struct ds_layout *layout = ds_layout_of(vcpu);

	if (index == MSR_DEBUGCTL && value & (layout->off_os | layout->off_usr))
		return false;
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(enumerated_filter_missing, "SDM Vol 3, table 35-2: 1D9H",
       "BTS_OFF_OS and BTS_OFF_USR raise #GP though DS-CPL is enumerated",
       BREAKS(write_msr, enumerated_filter_missing))

static bool misc_enable_faults(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	return index != MSR_MISC_ENABLE && ds_clean.read_msr(vcpu, index, value);
}
DEFECT(misc_enable_faults, "SDM Vol 3, table 35-2: 1A0H",
       "reading IA32_MISC_ENABLE raises #GP though DS is enumerated",
       BREAKS(read_msr, misc_enable_faults))

static bool unavailable_flickers(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	if (!ds_clean.read_msr(vcpu, index, value))
		return false;
	if (index == MSR_MISC_ENABLE && (*REMEMBERED(vcpu, unsigned))++ % 2)
		*value |= MISC_ENABLE_BTS_UNAVAILABLE;
	return true;
}
DEFECT(unavailable_flickers, "SDM Vol 3, table 35-2: 1A0H",
       "BTS_UNAVAILABLE reads 1 at every second look", BREAKS(read_msr, unavailable_flickers))

/* `bit` of IA32_MISC_ENABLE is what software wrote. */
#define CAN_BE_WRITTEN(name, rule, says, bit)                                                      \
	static bool name##_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)      \
	{                                                                                          \
		if (!ds_clean.read_msr(vcpu, index, value))                                        \
			return false;                                                              \
		if (index == MSR_MISC_ENABLE)                                                      \
			*value ^= *REMEMBERED(vcpu, uint64_t);                                     \
		return true;                                                                       \
	}                                                                                          \
	static bool name##_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)            \
	{                                                                                          \
		if (index == MSR_MISC_ENABLE)                                                      \
			*REMEMBERED(vcpu, uint64_t) =                                              \
				(value ^ ds_clean.enumerate(vcpu).unavailable) & (bit);            \
		return ds_clean.write_msr(vcpu, index, value);                                     \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(read_msr, name##_read_msr),                                \
	       BREAKS(write_msr, name##_write_msr))

CAN_BE_WRITTEN(unavailable_can_be_set, "SDM Vol 3, table 35-2: 1A0H",
	       "software can set BTS_UNAVAILABLE", MISC_ENABLE_BTS_UNAVAILABLE)
CAN_BE_WRITTEN(pebs_unavailable_can_be_cleared, "SDM Vol 3, table 35-2: 1A0H",
	       "software can clear PEBS_UNAVAILABLE", MISC_ENABLE_PEBS_UNAVAILABLE)
