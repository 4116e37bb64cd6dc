// SPDX-License-Identifier: MIT
/* sources: tests/host/ds_fixture.c */
/* sources: drivers/debugctl.c drivers/ds/switch.c drivers/ds/lease.c drivers/ds/pebs.c */
/* sources: drivers/ds/probe.c drivers/ds/area.c drivers/ds/record.c */
/* sources: drivers/ds/configuration.c tests/host/fake_cpu.c */
/* Number and order of the MSR writes of every switch, and who may hold MSRs or bits of them. */
#include "tests/host/ds_fixture.h"

enum { EVERYTHING = DS_USER | DS_KERNEL };

static int with_leases(void **state)
{
	start(state);
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, DS_USER), 0);
	assert_int_equal(request(&b, &memory_b, DS_O_SIGNAL, EVERYTHING), 0);
	assert_no_writes();
	return 0;
}

UNIT(untraced_to_untraced, .setup_func = with_leases)
{
	assert_false(ds_switch(&cpu, NULL));
	assert_no_writes();
	assert_int_equal(fake_cpu.reads, 0);
}

UNIT(untraced_to_traced, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	assert_writes({IA32_DS_AREA, area_of(&a)}, {IA32_DEBUGCTL, TR | BTS | OFF_OS});
	assert_int_equal(fake_cpu.reads, 0);
	assert_ptr_equal(cpu.loaded, &a);
	assert_ptr_equal(a.cpu, &cpu);
}

UNIT(traced_to_traced, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	fake_log_clear();
	ds_switch(&cpu, &b);
	assert_writes({IA32_DEBUGCTL, 0}, {IA32_DS_AREA, area_of(&b)},
		      {IA32_DEBUGCTL, TR | BTS | BTINT});
	assert_int_equal(fake_cpu.reads, 0);
	assert_null(a.cpu);
	assert_ptr_equal(b.cpu, &cpu);
}

UNIT(traced_to_untraced, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	fake_log_clear();
	ds_switch(&cpu, NULL);
	assert_writes({IA32_DEBUGCTL, 0}, {IA32_DS_AREA, (uintptr_t)idle.area});
	assert_null(cpu.loaded);
	assert_null(a.cpu);
}

UNIT(to_the_same_lease, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	fake_log_clear();
	ds_switch(&cpu, &a);
	assert_writes({IA32_DEBUGCTL, 0}, {IA32_DEBUGCTL, TR | BTS | OFF_OS});
	assert_ptr_equal(a.cpu, &cpu);
}

/* Between the halves recording is off, and the lease that leaves is still known. */
UNIT(room_for_stamps, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	branches(3);
	ds_switch_out(&cpu);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0);
	assert_ptr_equal(cpu.loaded, &a);
	store_record(a.area, 99);
	ds_switch_in(&cpu, &b);
	branches(2);
	assert_int_equal(ds_get_bts_index(a.area), 4);
	assert_int_equal(ds_get_bts_index(b.area), 2);
}

UNIT(the_boundary_of_an_overflow, .setup_func = with_leases)
{
	ds_switch(&cpu, &b);
	branches(RECORDS - MARGIN - 1);
	assert_false(ds_switch(&cpu, NULL));
	assert_false(b.overflowed);
	ds_switch(&cpu, &b);
	branches(1);
	assert_true(ds_switch(&cpu, NULL));
	assert_true(b.overflowed);
	ds_switch(&cpu, &b); /* told once */
	branches(1);
	assert_false(ds_switch(&cpu, &a));
	assert_true(b.overflowed);
}

/* A stamp that reaches the threshold counts as a record. */
UNIT(a_stamp_may_overflow, .setup_func = with_leases)
{
	ds_switch(&cpu, &b);
	branches(RECORDS - MARGIN - 1);
	ds_switch_out(&cpu);
	store_record(b.area, 99);
	assert_true(ds_switch_in(&cpu, NULL));
}

UNIT(a_wrapping_lease_never_overflows, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	branches(3 * RECORDS - 1);
	assert_false(ds_switch(&cpu, NULL));
	assert_false(a.overflowed);
}

UNIT(refuses_a_lease_that_is_loaded_or_not_granted, .setup_func = with_leases)
{
	static struct ds_idle idle_2;
	struct ds_cpu cpu_2;
	struct ds_lease none = {.area = NULL};

	ds_init_cpu(&cpu_2, &idle_2, &debugctl);
	ds_switch(&cpu, &a);
	fake_log_clear();
	assert_int_equal(ds_switch(&cpu_2, &a), -EPERM);
	assert_int_equal(ds_switch(&cpu_2, &none), -EINVAL);
	assert_null(cpu_2.loaded);
	assert_ptr_equal(a.cpu, &cpu);
	assert_no_writes();
}

UNIT(pauses_nest, .setup_func = with_leases)
{
	uint64_t outer, inner;

	ds_switch(&cpu, &a);
	fake_log_clear();
	outer = ds_pause();
	inner = ds_pause();
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, BTS | OFF_OS);
	ds_resume(&cpu, inner);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, BTS | OFF_OS);
	ds_resume(&cpu, outer);
	assert_writes({IA32_DEBUGCTL, BTS | OFF_OS}, {IA32_DEBUGCTL, TR | BTS | OFF_OS});
}

/* Restores the value that it read, with bits that are not the driver's; never a shadow. LBR is set
   and cleared by its own pause. */
UNIT(resumes_what_it_read, .setup_func = with_leases)
{
	uint64_t saved;

	fake_msr(IA32_DEBUGCTL)->value = TR | BTS | 0x4003;
	saved = ds_pause();
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, BTS | 0x4003);
	ds_resume(&cpu, saved);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, TR | BTS | 0x4002);
}

UNIT(pausing_an_untraced_cpu_writes_nothing, .setup_func = with_leases)
{
	ds_resume(&cpu, ds_pause());
	assert_no_writes();
}

static void an_interrupt_that_pauses(void)
{
	uint64_t saved = ds_pause();

	branches(5);
	ds_resume(&cpu, saved);
}

/* An NMI before each access of a pause and of a switch: none of its branches is recorded. */
UNIT(pauses_within_pauses_and_switches, .setup_func = with_leases)
{
	uint64_t saved;

	fake_cpu.before = an_interrupt_that_pauses;
	ds_switch(&cpu, &a);
	saved = ds_pause();
	ds_resume(&cpu, saved);
	ds_switch(&cpu, &b);
	ds_switch(&cpu, NULL);
	assert_int_equal(ds_get_bts_index(a.area), 0);
	assert_int_equal(ds_get_bts_index(b.area), 0);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0);
}

/* The task is on another CPU before this one has taken up the next. */
UNIT(a_lease_that_was_let_go_may_be_loaded_elsewhere, .setup_func = with_leases)
{
	static struct ds_idle other_idle;
	static struct ds_cpu other;

	ds_init_cpu(&other, &other_idle, &debugctl);
	ds_switch(&cpu, &a);
	ds_switch_out(&cpu);
	ds_let_go(&cpu);
	assert_null(a.cpu);
	assert_false(ds_switch(&other, &a));
	ds_set(a.area, DS_BTS_INDEX, ds_get(a.area, DS_BTS_ABSOLUTE_MAXIMUM));
	assert_false(ds_pmi(&cpu));
	fake_log_clear();
	assert_false(ds_switch_in(&cpu, &b));
	assert_writes({IA32_DS_AREA, area_of(&b)}, {IA32_DEBUGCTL, b.debugctl});
	assert_ptr_equal(a.cpu, &other);
	assert_false(a.overflowed);
	ds_switch(&cpu, NULL);
	ds_let_go(&cpu);
	assert_null(cpu.loaded);
}

UNIT(stops_for_good, .setup_func = with_leases)
{
	ds_switch(&cpu, &b);
	branches(7);
	fake_log_clear();
	ds_panic_stop(&cpu);
	assert_writes({IA32_DEBUGCTL, BTINT}, {IA32_DS_AREA, 0});
	assert_int_equal(ds_get_bts_index(cpu.loaded->area), 7); /* "how did I get here" */
}

UNIT(lends, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	assert_int_equal(ds_checkout(&cpu), -EBUSY);
	ds_switch(&cpu, NULL);
	fake_log_clear();
	assert_false(ds_is_lent(&cpu));
	assert_int_equal(ds_checkout(&cpu), 0);
	assert_true(ds_is_lent(&cpu));
	assert_int_equal(ds_checkout(&cpu), -EBUSY);
	assert_no_writes();
	assert_int_equal(ds_switch(&cpu, NULL), -EBUSY); /* even untraced to untraced */
	assert_int_equal(ds_switch(&cpu, &a), -EBUSY);
	assert_int_equal(ds_switch_in(&cpu, &a), -EBUSY);
	ds_let_go(&cpu);
	assert_true(ds_is_lent(&cpu));
	assert_no_writes();
	assert_false(ds_pmi(&cpu));

	wrmsr(IA32_DS_AREA, 0x1234);
	wrmsr(IA32_DEBUGCTL, TR | BTS);
	fake_log_clear();
	assert_int_equal(ds_checkin(&cpu), 0);
	assert_false(ds_is_lent(&cpu));
	assert_writes({IA32_DEBUGCTL, 0}, {IA32_DS_AREA, (uintptr_t)idle.area});
	fake_log_clear();
	ds_switch(&cpu, &a);
	assert_int_equal(fake_cpu.writes, 2);
	ds_switch(&cpu, NULL);
	assert_int_equal(ds_checkin(&cpu), -EINVAL);
}

/* Where BTS is not there the MSRs can be borrowed all the same, to show that it is not. */
UNIT(lends_what_is_not_there, .setup_func = with_leases)
{
	struct ds_caps caps;

	fake_cpu.leaf[1].edx = 0;
	ds_probe(&caps, &idle);
	ds_init(&caps);
	ds_init_cpu(&cpu, &idle, &debugctl);
	assert_int_equal(ds_checkout(&cpu), 0);
	wrmsr_safe(IA32_DEBUGCTL, TR);
	ds_checkin(&cpu);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, 0);
	fake_log_clear();
	ds_resume(&cpu, ds_pause());
	ds_panic_stop(&cpu);
	ds_switch(&cpu, NULL);
	assert_no_writes();
}

enum { LBR = 1, BTF = 2 };

/* Another unit's bits are on before, while and after the Debug Store has its own. */
UNIT(leaves_the_bits_of_others, .setup_func = with_leases)
{
	debugctl_set(&debugctl, LBR | BTF, BTF);
	assert_writes({IA32_DEBUGCTL, BTF});
	assert_int_equal(ds_checkout(&cpu), -EBUSY);
	fake_log_clear();
	ds_switch(&cpu, &a);
	ds_switch(&cpu, &b);
	ds_switch(&cpu, NULL);
	assert_writes({IA32_DS_AREA, area_of(&a)}, {IA32_DEBUGCTL, TR | BTS | OFF_OS | BTF},
		      {IA32_DEBUGCTL, BTF}, {IA32_DS_AREA, area_of(&b)},
		      {IA32_DEBUGCTL, TR | BTS | BTINT | BTF}, {IA32_DEBUGCTL, BTF},
		      {IA32_DS_AREA, (uintptr_t)idle.area});
}

UNIT(others_leave_its_bits, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	fake_log_clear();
	debugctl_set(&debugctl, LBR, LBR);
	debugctl_set(&debugctl, BTF, BTF);
	debugctl_set(&debugctl, BTF, BTF);
	debugctl_set(&debugctl, LBR, 0);
	assert_writes({IA32_DEBUGCTL, TR | BTS | OFF_OS | LBR},
		      {IA32_DEBUGCTL, TR | BTS | OFF_OS | LBR | BTF},
		      {IA32_DEBUGCTL, TR | BTS | OFF_OS | BTF});
}

/* #DB has cleared both bits: one that is set again returns, one that stays as it was does not.
 */
UNIT(bits_that_the_processor_cleared, .setup_func = with_leases)
{
	debugctl_set(&debugctl, LBR | BTF, LBR | BTF);
	fake_msr(IA32_DEBUGCTL)->value = 0;
	debugctl_set(&debugctl, BTF, 0);
	debugctl_set(&debugctl, BTF, BTF);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, BTF);
}

/* What one CPU lacks is not had, whatever the next one has; another vendor's register is let be. */
UNIT(finds_btf, .setup_func = with_leases)
{
	debugctl_probe();
	debugctl_probe();
	assert_true(debugctl_has_btf);
	assert_writes({IA32_DEBUGCTL, BTF}, {IA32_DEBUGCTL, 0}, {IA32_DEBUGCTL, BTF},
		      {IA32_DEBUGCTL, 0});
	fake_msr(IA32_DEBUGCTL)->writable = TR | BTS;
	debugctl_probe();
	assert_false(debugctl_has_btf);
	start(state);
	debugctl_probe();
	assert_false(debugctl_has_btf);
	fake_log_clear();
	fake_cpu.leaf[0].ebx = 0;
	debugctl_probe();
	assert_no_writes();
}
