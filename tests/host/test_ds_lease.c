// SPDX-License-Identifier: MIT
/* sources: tests/host/ds_fixture.c */
/* sources: drivers/debugctl.c drivers/ds/switch.c drivers/ds/lease.c drivers/ds/pebs.c */
/* sources: drivers/ds/probe.c drivers/ds/area.c drivers/ds/record.c */
/* sources: drivers/ds/configuration.c tests/host/fake_cpu.c */
#include "drivers/pt/registers.h"
#include "tests/host/ds_fixture.h"

enum { EVERYTHING = DS_USER | DS_KERNEL, THRESHOLD = RECORDS - MARGIN };

UNIT(filters_and_modes, .setup_func = start)
{
	static const struct {
		unsigned filter;
		enum ds_overflow overflow;
		uint64_t debugctl;
	} known[] = {
		{EVERYTHING, DS_O_WRAP, 0xc0}, {DS_USER, DS_O_WRAP, 0x2c0},
		{DS_KERNEL, DS_O_WRAP, 0x4c0}, {EVERYTHING, DS_O_SIGNAL, 0x1c0},
		{DS_USER, DS_O_SIGNAL, 0x3c0}, {DS_KERNEL, DS_O_SIGNAL, 0x5c0},
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(request(&a, &memory_a, known[i].overflow, known[i].filter), 0);
		assert_int_equal(a.debugctl, known[i].debugctl);
		assert_int_equal(threshold_says(a.area), known[i].overflow);
		assert_int_equal(ds_release_bts(&cpu, &a), 0);
	}
	assert_no_writes();
}

UNIT(netburst_values, .setup_func = start)
{
	struct ds_caps caps;

	fake_cpu_reset(NETBURST);
	ds_probe(&caps, &idle);
	ds_init(&caps);
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, DS_USER), 0);
	assert_int_equal(a.debugctl, 0x2c);
	assert_int_equal(request(&b, &memory_b, DS_O_SIGNAL, DS_KERNEL), 0);
	assert_int_equal(b.debugctl, 0x5c);
}

UNIT(without_dscpl, .setup_func = start)
{
	struct ds_caps caps;

	fake_cpu.leaf[1].ecx &= ~CPUID_1_ECX_DS_CPL;
	ds_probe(&caps, &idle);
	ds_init(&caps);
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, DS_USER), -EOPNOTSUPP);
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, DS_KERNEL), -EOPNOTSUPP);
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, EVERYTHING), 0);
	assert_int_equal(a.debugctl, 0xc0);
}

UNIT(without_bts, .setup_func = start)
{
	struct ds_caps caps;

	fake_cpu.leaf[1].edx = 0;
	ds_probe(&caps, &idle);
	ds_init(&caps);
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, EVERYTHING), -ENODEV);
}

/* A tracer of Intel PT that came first keeps the processor: SDM Vol 3, 36.3.1.2. */
UNIT(while_processor_trace_is_active, .setup_func = start)
{
	struct ds_caps caps;

	fake_cpu_reset(SKYLAKE);
	fake_cpu.leaf[7].ebx = CPUID_7_EBX_PT;
	ds_probe(&caps, &idle);
	ds_init(&caps);
	fake_msr(IA32_RTIT_CTL)->value = RTIT_CTL_TRACE_EN;
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, EVERYTHING), -EBUSY);
	assert_null(a.area);
	fake_msr(IA32_RTIT_CTL)->value = 0;
	assert_int_equal(request(&a, &memory_a, DS_O_WRAP, EVERYTHING), 0);
}

/* A refusal changes neither lease, area, buffer nor MSR. */
static void refuses(const struct ds_request *wrong, int error)
{
	const struct ds_lease none = {.area = NULL};

	memset(&memory_a, 0x5a, sizeof(memory_a));
	assert_int_equal(ds_request_bts(&a, wrong), error);
	assert_memory_equal(&a, &none, sizeof(a));
	for (size_t i = 0; i < sizeof(memory_a); i++)
		assert_int_equal(((unsigned char *)&memory_a)[i], 0x5a);
	assert_no_writes();
}

UNIT(refusals, .setup_func = start)
{
	const struct ds_request right = {memory_a.area, memory_a.buffer, sizeof(memory_a.buffer),
					 EVERYTHING,	DS_O_SIGNAL,	 MARGIN};
	struct ds_request wrong;

#define WRONG(field, bad)                                                                          \
	do {                                                                                       \
		wrong = right;                                                                     \
		wrong.field = (bad);                                                               \
		refuses(&wrong, -EINVAL);                                                          \
	} while (0)
	WRONG(area, NULL);
	WRONG(area, memory_a.area + 8);
	WRONG(area, memory_a.buffer + 64);
	WRONG(buffer, NULL);
	WRONG(buffer, memory_a.buffer + 8);
	WRONG(buffer, memory_a.area);
	WRONG(buffer, memory_a.area + DS_AREA_SIZE - 64);
	WRONG(bytes, 0);
	WRONG(bytes, 47);
	WRONG(bytes, SIZE_MAX);
	WRONG(filter, 0);
	WRONG(filter, 4 | DS_USER);
	WRONG(margin, RECORDS);
	WRONG(overflow, (enum ds_overflow)2);
#undef WRONG
	assert_int_equal(ds_request_bts(&a, &right), 0);
	assert_int_equal(ds_request_bts(&a, &right), -EBUSY);
}

UNIT(starts_clean, .setup_func = start)
{
	memset(&memory_a, 0x5a, sizeof(memory_a));
	assert_int_equal(request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING), 0);
	for (size_t i = 0; i < sizeof(memory_a.buffer); i++)
		assert_int_equal(memory_a.buffer[i], 0);
	assert_int_equal(ds_get(a.area, DS_PEBS_BUFFER_BASE), 0);
	assert_int_equal(ds_get_bts_end(a.area), RECORDS);
}

UNIT(releases, .setup_func = start)
{
	static struct ds_idle idle_2;
	struct ds_cpu cpu_2;

	ds_init_cpu(&cpu_2, &idle_2, &debugctl);
	ds_switch(&cpu, NULL);
	assert_int_equal(ds_release_bts(&cpu, &a), -EINVAL);
	request(&a, &memory_a, DS_O_WRAP, EVERYTHING);
	ds_switch(&cpu, &a);
	branches(4);
	fake_log_clear();
	assert_int_equal(ds_release_bts(&cpu_2, &a), -EPERM);
	assert_no_writes();
	/* Recording is off and the idle area in place before the memory is the caller's again. */
	assert_int_equal(ds_release_bts(&cpu, &a), 0);
	assert_writes({IA32_DEBUGCTL, 0}, {IA32_DS_AREA, (uintptr_t)idle.area});
	assert_null(a.area);
	assert_null(cpu.loaded);
	assert_int_equal(ds_get_bts_index(memory_a.area), 4);
}

static struct {
	unsigned calls;
	size_t count;
	bool full;
	uint64_t first, last, debugctl;
} taken;

static void take(void *argument, const void *area, size_t count, bool full)
{
	struct bts_struct record = {0};

	assert_ptr_equal(argument, &taken);
	taken.calls++;
	taken.count = count;
	taken.full = full;
	taken.debugctl = fake_msr(IA32_DEBUGCTL)->value;
	if (!count)
		return;
	assert_int_equal(ds_read_bts(area, 0, &record), 0);
	taken.first = record.from;
	assert_int_equal(ds_read_bts(area, count - 1, &record), 0);
	taken.last = record.from;
}

UNIT(drains, .setup_func = start)
{
	request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING);
	ds_switch(&cpu, &a);
	branches(20);
	fake_log_clear();
	memset(&taken, 0, sizeof(taken));
	assert_int_equal(ds_drain(&cpu, &a, take, &taken), 20);
	assert_int_equal(taken.calls, 1);
	assert_int_equal(taken.count, 20);
	assert_int_equal(taken.first, 1);
	assert_int_equal(taken.last, 20);
	assert_false(taken.full);
	assert_int_equal(taken.debugctl & TR, 0);
	assert_writes({IA32_DEBUGCTL, BTS | BTINT}, {IA32_DEBUGCTL, TR | BTS | BTINT});
	assert_int_equal(ds_get_bts_index(a.area), 0);
	assert_int_equal(ds_drain(&cpu, &a, take, &taken), 0);
}

/* A lease that is loaded nowhere is read without disturbing what is traced here. */
UNIT(drains_an_unloaded_lease, .setup_func = start)
{
	request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING);
	request(&b, &memory_b, DS_O_WRAP, EVERYTHING);
	ds_switch(&cpu, &a);
	branches(9);
	ds_switch(&cpu, &b);
	fake_log_clear();
	assert_int_equal(ds_drain(&cpu, &a, take, &taken), 9);
	assert_no_writes();
	assert_int_equal(ds_drain(&cpu, &b, take, &taken), -EINVAL);
}

UNIT(only_where_it_is_loaded, .setup_func = start)
{
	static struct ds_idle idle_2;
	struct ds_cpu cpu_2;

	ds_init_cpu(&cpu_2, &idle_2, &debugctl);
	request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING);
	fake_msr(IA32_DS_AREA)->value = (uintptr_t)idle.area;
	ds_switch(&cpu, &a);
	assert_int_equal(ds_drain(&cpu_2, &a, take, &taken), -EPERM);
}

UNIT(a_full_buffer_says_so_once, .setup_func = start)
{
	request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING);
	ds_switch(&cpu, &a);
	branches(RECORDS + 10);
	assert_int_equal(ds_drain(&cpu, &a, take, &taken), RECORDS);
	assert_true(taken.full);
	branches(5);
	assert_int_equal(ds_drain(&cpu, &a, take, &taken), 5);
	assert_false(taken.full);
}

UNIT(resets, .setup_func = start)
{
	request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING);
	ds_switch(&cpu, &a);
	branches(RECORDS - MARGIN);
	assert_true(ds_pmi(&cpu));
	assert_int_equal(ds_drain(&cpu, &a, take, &taken), RECORDS - MARGIN);
	assert_false(a.overflowed);
	assert_int_equal(ds_get_bts_index(a.area), 0);
	assert_int_equal(threshold_says(a.area), DS_O_SIGNAL);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, TR | BTS | BTINT);
}

/* The interrupt at the threshold. */
static int with_leases(void **state)
{
	start(state);
	request(&a, &memory_a, DS_O_SIGNAL, EVERYTHING);
	request(&b, &memory_b, DS_O_SIGNAL, EVERYTHING);
	return 0;
}

UNIT(one_below_the_threshold, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	branches(THRESHOLD - 1);
	assert_false(ds_pmi(&cpu));
	assert_false(a.overflowed);
	assert_int_equal(ds_get_bts_index(a.area), THRESHOLD - 1);
	assert_int_equal(threshold_says(a.area), DS_O_SIGNAL);
}

/* Paused while it looks. */
UNIT(at_the_threshold, .setup_func = with_leases)
{
	ds_switch(&cpu, &a);
	branches(THRESHOLD);
	fake_log_clear();
	assert_true(ds_pmi(&cpu));
	assert_true(a.overflowed);
	assert_writes({IA32_DEBUGCTL, BTS | BTINT}, {IA32_DEBUGCTL, TR | BTS | BTINT});
}

/* A level-triggered entry that is raised again, or another record, is no news; the margin fills. */
UNIT(parks_the_threshold, .setup_func = with_leases)
{
	uint64_t maximum = ds_get(a.area, DS_BTS_ABSOLUTE_MAXIMUM);

	ds_switch(&cpu, &a);
	branches(THRESHOLD);
	assert_true(ds_pmi(&cpu));
	assert_true(ds_get(a.area, DS_BTS_INTERRUPT_THRESHOLD) > maximum);
	assert_false(ds_pmi(&cpu));
	store_record(a.area, 1);
	assert_int_equal(ds_get_bts_index(a.area), THRESHOLD + 1);
	assert_false(ds_pmi(&cpu));
}

/* A record that finds the buffer full may interrupt: TR, set again, would do so without end. */
UNIT(stops_at_a_full_buffer, .setup_func = with_leases)
{
	uint64_t paused;

	ds_switch(&cpu, &a);
	branches(RECORDS - 2);
	paused = ds_pause();
	ds_resume(&cpu, paused); /* there is room left */
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, TR | BTS | BTINT);
	branches(10);
	assert_true(ds_pmi(&cpu));
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, BTS | BTINT);
	assert_true(ds_pmi(&cpu)); /* raised again */
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, BTS | BTINT);
	ds_resume(&cpu, paused); /* of a pause that the interrupt interrupted */
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, BTS | BTINT);
	assert_int_equal(ds_drain(&cpu, &a, take, &taken), RECORDS);
	assert_true(taken.full);
	ds_switch(&cpu, &a);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, TR | BTS | BTINT);
	assert_false(ds_pmi(&cpu));
}

static void ignore(void *argument, const void *area, size_t count, bool full)
{
	*(size_t *)argument = count;
}

UNIT(tells_again_after_a_drain, .setup_func = with_leases)
{
	size_t count = 0;

	ds_switch(&cpu, &a);
	for (unsigned round = 0; round < 3; round++) {
		branches(THRESHOLD);
		assert_true(ds_pmi(&cpu));
		assert_int_equal(ds_drain(&cpu, &a, ignore, &count), THRESHOLD);
		assert_int_equal(count, THRESHOLD);
		assert_false(a.overflowed);
		assert_false(ds_pmi(&cpu));
	}
}

UNIT(not_ours, .setup_func = with_leases)
{
	assert_false(ds_pmi(&cpu));
	assert_no_writes();
}

UNIT(a_circular_lease_is_never_the_cause, .setup_func = with_leases)
{
	ds_release_bts(&cpu, &a);
	request(&a, &memory_a, DS_O_WRAP, EVERYTHING);
	ds_switch(&cpu, &a);
	branches(2 * RECORDS + THRESHOLD);
	assert_false(ds_pmi(&cpu));
	assert_false(a.overflowed);
}

/*
 * The interrupt of a lease that left may arrive at any point of the switch. Wherever it does, it or
 * the switch reports the overflow, exactly once, and the lease that enters is not blamed.
 */
static unsigned access_to_interrupt, accesses, told;

static void late_interrupt(void)
{
	if (accesses++ == access_to_interrupt)
		told += ds_pmi(&cpu);
}

static void switch_with_interrupt_at(unsigned access, struct ds_lease *next, unsigned writes)
{
	with_leases(NULL);
	ds_switch(&cpu, &a);
	branches(THRESHOLD + 1);
	access_to_interrupt = access;
	accesses = told = 0;
	fake_cpu.before = late_interrupt;
	told += ds_switch(&cpu, next);
	fake_cpu.before = NULL;
	assert_int_equal(accesses, writes);
	told += ds_pmi(&cpu); /* or only after it */
	assert_int_equal(told, 1);
	assert_true(a.overflowed);
	assert_false(b.overflowed);
	assert_ptr_equal(cpu.loaded, next);
	assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, next ? TR | BTS | BTINT : 0);
	assert_int_equal(fake_msr(IA32_DS_AREA)->value, next ? area_of(&b) : (uintptr_t)idle.area);
}

UNIT(pending_at_a_switch, .setup_func = with_leases)
{
	for (unsigned access = 0; access <= 3; access++)
		switch_with_interrupt_at(access, &b, 3);
	for (unsigned access = 0; access <= 2; access++)
		switch_with_interrupt_at(access, NULL, 2);
}

/* The same for a drain: it reports nothing of a buffer that was emptied in the meantime. */
UNIT(pending_at_a_drain, .setup_func = with_leases)
{
	size_t count;

	for (unsigned access = 0; access < 3; access++) {
		with_leases(NULL);
		ds_switch(&cpu, &a);
		branches(THRESHOLD + 1);
		access_to_interrupt = access;
		accesses = told = 0;
		fake_cpu.before = late_interrupt;
		assert_int_equal(ds_drain(&cpu, &a, ignore, &count), THRESHOLD + 1);
		fake_cpu.before = NULL;
		assert_int_equal(accesses, 3); /* RDMSR, off, on */
		assert_false(ds_pmi(&cpu));
		assert_int_equal(told, access < 2);
		assert_false(a.overflowed);
		assert_int_equal(threshold_says(a.area), DS_O_SIGNAL);
		assert_int_equal(fake_msr(IA32_DEBUGCTL)->value, TR | BTS | BTINT);
	}
}
