// SPDX-License-Identifier: MIT
/* sources: drivers/debugctl.c drivers/ds/configuration.c drivers/ds/probe.c */
/* sources: drivers/ds/switch.c drivers/ds/pebs.c drivers/ds/area.c drivers/ds/record.c */
/* sources: tests/host/fake_cpu.c kernel/trace/bts/missing.c lib/format.c lib/string.c */
#include "drivers/ds/configuration.h"
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "drivers/pt/registers.h"
#include "kernel/silicon.h"
#include "kernel/trace/bts/bts.h"
#include "tests/host/fake_cpu.h"
#include "tests/host/host.h"

#include <string.h>

/* CPUID.1:EAX of real processors, and the row that they belong to. */
UNIT(rows_by_signature)
{
	static const struct {
		uint32_t signature;
		const char *name;
	} known[] = {
		{0x00000f12, "NetBurst"},
		{0x00000f41, "NetBurst"},
		{0x00000f64, "NetBurst"},
		{0x00000695, "Pentium M"},
		{0x000006d8, "Pentium M"},
		{0x000006ec, "Core Duo"},
		{0x000006f6, "Core 2"},
		{0x0001067a, "Core 2"},
		{0x000106c2, "Atom"},
		{0x00030678, "Atom"},
		{0x000506c9, "Atom"},
		{0x000706a1, "Nehalem and later"}, /* Goldmont Plus: PEBS on every counter */
		{0x000106a5, "Nehalem and later"},
		{0x000206a7, "Nehalem and later"},
		{0x000906ea, "Nehalem and later"},
		{0x000c0662, "Nehalem and later"},
		{0x00130f00, "Nehalem and later"},
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct cpuid_signature s = cpuid_signature(known[i].signature);

		assert_string_equal(ds_find_configuration(s.family, s.model)->name, known[i].name);
	}
}

UNIT(bits_of_the_manual)
{
	const struct ds_configuration *netburst = ds_find_configuration(15, 4);
	const struct ds_configuration *pentium_m = ds_find_configuration(6, 0x0d);
	const struct ds_configuration *core_duo = ds_find_configuration(6, 0x0e);
	const struct ds_configuration *core_2 = ds_find_configuration(6, 0x0f);
	const struct ds_configuration *nehalem = ds_find_configuration(6, 0x1a);

	assert_int_equal(netburst->tr | netburst->bts, 0x0c);
	assert_int_equal(netburst->tr | netburst->bts | netburst->btint | netburst->off_os, 0x3c);
	assert_int_equal(netburst->off_usr, 0x40);
	assert_int_equal(netburst->predicted, 0x10);
	assert_int_equal(pentium_m->tr | pentium_m->bts | pentium_m->btint, 0x1c0);
	assert_int_equal(pentium_m->off_os | pentium_m->off_usr, 0);
	assert_int_equal(core_duo->tr | core_duo->bts | core_duo->btint, 0x1c0);
	assert_int_equal(core_duo->off_os | core_duo->off_usr, 0);
	assert_int_equal(core_2->tr | core_2->bts | core_2->btint | core_2->off_os, 0x3c0);
	assert_int_equal(core_2->off_usr, 0x400);
	assert_int_equal(nehalem->tr, 0x40);
	assert_int_equal(nehalem->bts, 0x80);
	assert_int_equal(nehalem->btint, 0x100);
	assert_int_equal(nehalem->off_os, 0x200);
	assert_int_equal(nehalem->off_usr, 0x400);
	assert_int_equal(nehalem->predicted, 0);
}

UNIT(a_record_is_three_fields)
{
	for (unsigned family = 6; family <= 15; family += 9) {
		for (unsigned model = 0; model < 256; model++) {
			const struct ds_configuration *c = ds_find_configuration(family, model);

			assert_int_equal(c->record_size, 3 * c->field_size);
		}
	}
	assert_int_equal(ds_find_configuration(6, 0x0e)->field_size, 4);
	assert_int_equal(ds_find_configuration(15, 0)->field_size, 8);
}

/* SDM Vol 3, 36.3.1.2 lists the models. */
UNIT(suspended_by_processor_trace)
{
	assert_true(ds_is_suspended_by_pt(6, 0x3d));
	assert_true(ds_is_suspended_by_pt(6, 0x5e));
	assert_false(ds_is_suspended_by_pt(6, 0x7e));
	assert_false(ds_is_suspended_by_pt(6, 0x1a));
	assert_false(ds_is_suspended_by_pt(15, 0x3d));
}

static struct ds_caps caps;
static struct ds_idle idle;

enum { LBR = 1 << 0, TR = 1 << 6, BTS = 1 << 7 };

static int nehalem(void **state)
{
	fake_cpu_reset(NEHALEM);
	return 0;
}

static void expect(enum ds_status status)
{
	ds_probe(&caps, &idle);
	assert_int_equal(caps.status, status);
}

UNIT(present, .setup_func = nehalem)
{
	uintptr_t area = (uintptr_t)idle.area;

	expect(DS_PRESENT);
	assert_true(caps.ds && caps.dtes64 && caps.dscpl && !caps.bts_unavailable);
	assert_string_equal(caps.configuration->name, "Nehalem and later");
	assert_ptr_equal(caps.configuration, ds_configuration);
	assert_false(caps.excludes_lbr);
	assert_writes({IA32_DS_AREA, area}, {IA32_DEBUGCTL, TR}, {IA32_DEBUGCTL, TR | BTS},
		      {IA32_DEBUGCTL, 0}, {IA32_DEBUGCTL, LBR}, {IA32_DEBUGCTL, 0},
		      {IA32_DEBUGCTL, TR | LBR}, {IA32_DEBUGCTL, 0});
	/* The area was fit for records from the first bit on. */
	assert_int_equal(ds_get(idle.area, DS_BTS_INDEX), (uintptr_t)idle.buffer);
	assert_int_equal(ds_get_bts_end(idle.area), 32);
	assert_true(ds_get(idle.area, DS_BTS_INTERRUPT_THRESHOLD) >
		    ds_get(idle.area, DS_BTS_ABSOLUTE_MAXIMUM));
}

UNIT(netburst_has_other_bits, .setup_func = nehalem)
{
	fake_cpu_reset(NETBURST);
	fake_msr(IA32_DEBUGCTL)->reserved = ~0x7full;
	fake_cpu.leaf[0].eax = 5; /* no leaf 7 to look for PT in */
	expect(DS_PRESENT);
	assert_int_equal(fake_cpu.log[1].value, 1 << 2);
	assert_int_equal(fake_cpu.log[2].value, 1 << 2 | 1 << 3);
}

/* DTES64 and DS-CPL are reported, not required. */
UNIT(without_dtes64_and_dscpl, .setup_func = nehalem)
{
	fake_cpu.leaf[1].ecx = 0;
	expect(DS_PRESENT);
	assert_false(caps.dtes64 || caps.dscpl);
}

UNIT(another_vendor, .setup_func = nehalem)
{
	fake_cpu.leaf[0].edx = 0x69746e65;
	expect(DS_NOT_INTEL);
	assert_int_equal(fake_cpu.reads, 0);
	assert_no_writes();
	assert_int_equal(ds_quiesce().debugctl, 0);
	assert_no_writes();
}

/* Without DS nothing else is looked at: TCG's IA32_MISC_ENABLE would say "available". */
UNIT(not_enumerated, .setup_func = nehalem)
{
	fake_cpu.leaf[1].edx = 0;
	expect(DS_NOT_ENUMERATED);
	assert_null(caps.configuration);
	assert_int_equal(fake_cpu.reads, 0);
	assert_no_writes();
}

/* The probe of a CPU of another kind sets its own; where nothing is found there is still one. */
UNIT(the_boot_cpus_configuration_stays, .setup_func = nehalem)
{
	const struct ds_configuration *first;
	struct ds_caps boot;

	expect(DS_PRESENT);
	boot = caps;
	ds_init(&boot);
	first = ds_configuration;
	netburst_has_other_bits(state);
	assert_ptr_not_equal(ds_configuration, first);
	ds_init(ds_caps());
	assert_ptr_equal(ds_configuration, first);
	assert_true(ds_has_bts());
	nehalem(state);
	not_enumerated(state);
	ds_init(&caps);
	assert_non_null(ds_configuration);
}

/* PEBS needs the area and no bit of IA32_DEBUGCTL; without the area neither is there. */
UNIT(pebs_without_bts, .setup_func = nehalem)
{
	uintptr_t area = (uintptr_t)idle.area;

	fake_msr(IA32_PEBS_ENABLE);
	fake_msr(IA32_MISC_ENABLE)->value = MISC_ENABLE_EMON_AVAILABLE | 1 << 11;
	expect(DS_BTS_UNAVAILABLE);
	assert_true(caps.pebs && caps.area);
	assert_writes({IA32_DS_AREA, area});
	fake_msr(IA32_MISC_ENABLE)->value = MISC_ENABLE_EMON_AVAILABLE;
	fake_msr(IA32_DEBUGCTL)->reserved = TR;
	expect(DS_ENUMERATED_BUT_ABSENT);
	assert_true(caps.pebs && caps.area);
	assert_int_equal(caps.refused_msr, IA32_DEBUGCTL);
	assert_int_equal(fake_msr(IA32_DS_AREA)->value, area);
	fake_msr(IA32_MISC_ENABLE)->value |= 1 << 11;
	*fake_msr(IA32_DS_AREA) = (struct fake_msr){.index = IA32_DS_AREA};
	expect(DS_BTS_UNAVAILABLE);
	assert_false(caps.pebs || caps.area);
}

/* QEMU leaves the bit clear whatever KVM has. */
UNIT(pebs_promised_without_its_msr, .setup_func = nehalem)
{
	fake_msr(IA32_MISC_ENABLE)->value = MISC_ENABLE_EMON_AVAILABLE;
	expect(DS_PRESENT);
	assert_false(caps.pebs);
	assert_true(caps.area);
}

UNIT(unavailable, .setup_func = nehalem)
{
	fake_msr(IA32_MISC_ENABLE)->value = 1 << 11;
	expect(DS_BTS_UNAVAILABLE);
	assert_true(caps.bts_unavailable);
	assert_no_writes();
}

UNIT(misc_enable_that_faults, .setup_func = nehalem)
{
	fake_msr(IA32_MISC_ENABLE)->index = 1;
	expect(DS_PRESENT);
}

/* SDM Vol 3, 36.3.1.2: a Skylake records no branch while Intel PT traces; a Nehalem has no PT. */
UNIT(processor_trace_active, .setup_func = nehalem)
{
	fake_cpu_reset(SKYLAKE);
	fake_cpu.leaf[7].ebx = CPUID_7_EBX_PT;
	fake_msr(IA32_RTIT_CTL)->value = 1;
	expect(DS_PT_ACTIVE);
	assert_no_writes();

	fake_msr(IA32_RTIT_CTL)->value = 1 << 13; /* set up, not enabled */
	expect(DS_PRESENT);
	fake_cpu.leaf[7].ebx = 0;
	fake_msr(IA32_RTIT_CTL)->value = 1; /* not enumerated: whatever that MSR is */
	expect(DS_PRESENT);

	fake_cpu_reset(ICE_LAKE); /* records both at once */
	fake_cpu.leaf[7].ebx = CPUID_7_EBX_PT;
	fake_msr(IA32_RTIT_CTL)->value = 1;
	expect(DS_PRESENT);
}

UNIT(quiesces_processor_trace, .setup_func = nehalem)
{
	fake_cpu_reset(SKYLAKE);
	fake_cpu.leaf[7].ebx = CPUID_7_EBX_PT;
	fake_msr(IA32_RTIT_CTL)->value = 0x2001;
	assert_int_equal(ds_quiesce().rtit_ctl, 0x2001);
	assert_int_equal(fake_msr(IA32_RTIT_CTL)->value, 0x2000);
	expect(DS_PRESENT);
}

/* As QEMU's TCG: no #GP, and both read back 0. */
UNIT(writes_dropped, .setup_func = nehalem)
{
	fake_msr(IA32_DS_AREA)->writable = 0;
	fake_msr(IA32_DEBUGCTL)->writable = 0;
	expect(DS_ENUMERATED_BUT_ABSENT);
	assert_int_equal(caps.refused_msr, IA32_DS_AREA);
	assert_false(caps.refused_with_gp);
	assert_int_equal(caps.read_back, 0);
	assert_false(ds_has_bts());
}

/* As Bochs' Intel models. */
UNIT(area_faults, .setup_func = nehalem)
{
	fake_msr(IA32_DS_AREA)->index = 1;
	expect(DS_ENUMERATED_BUT_ABSENT);
	assert_int_equal(caps.refused_msr, IA32_DS_AREA);
	assert_true(caps.refused_with_gp);
}

UNIT(tr_faults, .setup_func = nehalem)
{
	fake_msr(IA32_DEBUGCTL)->reserved = TR;
	expect(DS_ENUMERATED_BUT_ABSENT);
	assert_int_equal(caps.refused_msr, IA32_DEBUGCTL);
	assert_int_equal(caps.refused_value, TR);
	assert_true(caps.refused_with_gp);
	assert_int_equal(fake_msr(IA32_DS_AREA)->value, 0);
}

/* TR alone holds: the probe must not stop there, and must leave nothing on. */
UNIT(bts_dropped, .setup_func = nehalem)
{
	fake_msr(IA32_DEBUGCTL)->writable = TR;
	expect(DS_ENUMERATED_BUT_ABSENT);
	assert_int_equal(caps.refused_value, TR | BTS);
	assert_int_equal(caps.read_back, TR);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0);
	assert_int_equal(fake_msr(IA32_DS_AREA)->value, 0);
}

UNIT(quiesces_what_firmware_left, .setup_func = nehalem)
{
	fake_msr(IA32_DEBUGCTL)->value = TR | BTS;
	fake_msr(IA32_DS_AREA)->value = 0x1000;
	assert_int_equal(ds_quiesce().debugctl, TR | BTS);
	assert_writes({IA32_DEBUGCTL, 0}, {IA32_DS_AREA, 0});
	fake_log_clear();
	assert_int_equal(ds_quiesce().debugctl, 0);
	assert_no_writes();

	fake_cpu_reset(NEHALEM);
	fake_cpu.leaf[1].edx = 0;
	fake_msr(IA32_DEBUGCTL)->index = 1;
	assert_int_equal(ds_quiesce().debugctl, 0);
	assert_no_writes();
}

static const char *hypervisor = "";

const char *silicon_hypervisor(void)
{
	return hypervisor;
}

bool silicon_is_foreign_guest(void)
{
	return *hypervisor;
}

static void assert_missing(const char *under, const char *words)
{
	hypervisor = under;
	ds_init(&caps);
	assert_string_equal(bts_missing(), words);
	hypervisor = "";
}

UNIT(a_hypervisor_that_hides_bts_is_named, .setup_func = nehalem)
{
	fake_cpu.leaf[1].edx = 0;
	expect(DS_NOT_ENUMERATED);
	assert_missing("", "this processor has no Debug Store");
	assert_missing("KVMKVMKVM", "KVM hides the Debug Store: it needs the BTS patches of 2022 "
				    "on the host");
	assert_missing("XenVMMXenVMM", "Xen hides the Debug Store: it needs vpmu=bts on Xen's "
				       "command line");
	fake_cpu.extended[1].ecx = 1 << 2 | 1 << 0;
	fake_cpu.extended[10].edx = 1 << 0;
	assert_missing("TCGTCGTCGTCG", "QEMU's translator has no Debug Store: Spoor's monitor "
				       "gives it a virtual one");
	assert_missing("VMwareVMware", "VMware hides the Debug Store: no setting is known that "
				       "shows it");
	assert_missing("unnamed", "the hypervisor hides the Debug Store: its documentation may "
				  "know a setting");

	fake_cpu_reset(NEHALEM);
	fake_msr(IA32_MISC_ENABLE)->value = 1 << 11;
	expect(DS_BTS_UNAVAILABLE);
	assert_missing("", "BTS is turned off in the BIOS, or not there");
	assert_missing("KVMKVMKVM", "KVM shows the Debug Store without BTS: it needs the BTS "
				    "patches of 2022 on the host");
}

/* The VMM says what the bit is, and the hypervisor what TR does. */
UNIT(a_vmm_that_promises_bts_is_named, .setup_func = nehalem)
{
	fake_msr(IA32_DEBUGCTL)->reserved = TR;
	expect(DS_ENUMERATED_BUT_ABSENT);
	assert_missing("", ds_status_text(DS_ENUMERATED_BUT_ABSENT));
	assert_missing("KVMKVMKVM", "IA32_MISC_ENABLE[11] says that BTS is there, and KVM refuses "
				    "IA32_DEBUGCTL.TR: the VMM (QEMU) has to set bit 11");
	assert_missing("VMwareVMware",
		       "IA32_MISC_ENABLE[11] says that BTS is there, and VMware refuses "
		       "IA32_DEBUGCTL.TR: the VMM has to set bit 11");
	fake_cpu_reset(NEHALEM);
	fake_msr(IA32_DEBUGCTL)->writable = TR;
	expect(DS_ENUMERATED_BUT_ABSENT);
	assert_missing("unnamed", "IA32_MISC_ENABLE[11] says that BTS is there, and the hypervisor "
				  "refuses IA32_DEBUGCTL.BTS: the VMM has to set bit 11");
}

#define MONITOR_NEEDS(name)                                                                        \
	"this processor model has no " name ", which Spoor's monitor needs: -c max has it"

/* AMD APM Vol 3, CPUID 80000001H:ECX and 8000000AH:EDX. The last leaf is there only with SVM. */
UNIT(a_model_that_the_monitor_cannot_use_is_named, .setup_func = nehalem)
{
	fake_cpu.leaf[1].edx = 0;
	fake_cpu.extended[1].ecx = 1 << 0;
	fake_cpu.extended[10].edx = 1 << 0;
	expect(DS_NOT_ENUMERATED);
	assert_missing("TCGTCGTCGTCG", MONITOR_NEEDS("SVM"));
	fake_cpu.leaf[0].edx = 0x69746e65;
	expect(DS_NOT_INTEL);
	assert_missing("TCGTCGTCGTCG", MONITOR_NEEDS("SVM"));
	assert_missing("KVMKVMKVM", "not an Intel processor: only these have BTS");
	fake_cpu.extended[1].ecx = 1 << 2 | 1 << 0;
	assert_missing("TCGTCGTCGTCG", "not an Intel processor: only these have BTS");
	fake_cpu.extended[1].ecx = 1 << 2;
	assert_missing("TCGTCGTCGTCG", MONITOR_NEEDS("LAHF in 64-bit mode"));
	fake_cpu.extended[10].edx = 0;
	assert_missing("TCGTCGTCGTCG", MONITOR_NEEDS("nested paging"));
}

UNIT(what_hides_bts_is_said_in_words, .setup_func = nehalem)
{
	expect(DS_PRESENT);
	assert_missing("KVMKVMKVM", "");
	fake_cpu_reset(SKYLAKE);
	fake_cpu.leaf[7].ebx = CPUID_7_EBX_PT;
	fake_msr(IA32_RTIT_CTL)->value = 1;
	expect(DS_PT_ACTIVE);
	assert_missing("XenVMMXenVMM", "Processor Trace is on and suspends BTS: turn it off in "
				       "the BIOS, or on the host");
	fake_cpu_reset(NEHALEM);
	fake_cpu.leaf[0].edx = 0x69746e65;
	expect(DS_NOT_INTEL);
	assert_missing("KVMKVMKVM", "not an Intel processor: only these have BTS");
}

/* No bit is named: a number says nothing to the person at the machine. */
UNIT(every_status_has_a_text)
{
	for (int status = DS_NOT_PROBED; status <= DS_ENUMERATED_BUT_ABSENT; status++) {
		const char *text = ds_status_text((enum ds_status)status);

		assert_non_null(text);
		assert_null(strpbrk(text, "[]=."));
	}
}
