// SPDX-License-Identifier: MIT
/* sources: tests/host/ds_fixture.c */
/* sources: drivers/debugctl.c drivers/ds/switch.c drivers/ds/lease.c drivers/ds/pebs.c */
/* sources: drivers/ds/probe.c drivers/ds/area.c drivers/ds/record.c */
/* sources: drivers/ds/configuration.c drivers/ds/pebs_record.c tests/host/fake_cpu.c */
#include "drivers/ds/pebs.h"

#include "tests/host/ds_fixture.h"

#define ICE_LAKE   0x000706e5u
#define SILVERMONT 0x00030678u

enum { RECORD = 176, PEBS_RECORDS = 8, PEBS_MARGIN = 2 };

static _Alignas(64) unsigned char buffer[PEBS_RECORDS * RECORD];
static struct ds_pebs_lease pebs, second;
static unsigned told;

static void tell(struct ds_pebs_lease *lease, void *argument)
{
	assert_ptr_equal(lease, &pebs);
	assert_ptr_equal(argument, buffer);
	assert_int_equal(fake_msr(IA32_PEBS_ENABLE)->value, 0);
	told++;
}

static struct ds_pebs_request ask(void)
{
	return (struct ds_pebs_request){.buffer = buffer,
					.bytes = sizeof(buffer),
					.margin = PEBS_MARGIN,
					.name = "sampler",
					.tell = tell,
					.argument = buffer};
}

static bool baseline = true;

static void probe(uint32_t signature, uint64_t misc_enable, unsigned format)
{
	struct ds_caps caps;

	fake_cpu_reset(signature);
	fake_cpu.leaf[1].ecx |= CPUID_1_ECX_PDCM;
	fake_msr(IA32_MISC_ENABLE)->value = misc_enable;
	fake_msr(IA32_PERF_CAPABILITIES)->value =
		(uint64_t)format << 8 | (baseline ? 0xf07f : 0xb07f);
	fake_msr(IA32_PEBS_ENABLE);
	memset(&idle, 0, sizeof(idle));
	ds_probe(&caps, &idle);
	ds_init(&caps);
	ds_init_cpu(&cpu, &idle, &debugctl);
	a = b = (struct ds_lease){.area = NULL};
	pebs = second = (struct ds_pebs_lease){.cpu = NULL};
	told = 0;
	fake_log_clear();
}

static int with_pebs(void **state)
{
	probe(NEHALEM, MISC_ENABLE_EMON_AVAILABLE, 1);
	request(&a, &memory_a, DS_O_SIGNAL, DS_USER | DS_KERNEL);
	request(&b, &memory_b, DS_O_WRAP, DS_USER);
	return 0;
}

static int granted(void **state)
{
	struct ds_pebs_request request = ask();

	with_pebs(state);
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), 0);
	assert_no_writes();
	return 0;
}

static void *area_now(void)
{
	return (void *)fake_msr(IA32_DS_AREA)->value;
}

/* The hardware writes `count` records, as far as it records. */
static void events(unsigned count)
{
	void *area = area_now();

	for (; count && fake_msr(IA32_PEBS_ENABLE)->value; count--) {
		memset((void *)ds_get(area, DS_PEBS_INDEX), 0x11, RECORD);
		ds_set(area, DS_PEBS_INDEX, ds_get(area, DS_PEBS_INDEX) + RECORD);
	}
}

static void expect_fields(uint64_t index)
{
	assert_int_equal(ds_get(area_now(), DS_PEBS_BUFFER_BASE), (uintptr_t)buffer);
	assert_int_equal(ds_get(area_now(), DS_PEBS_INDEX), (uintptr_t)buffer + index * RECORD);
	assert_int_equal(ds_get(area_now(), DS_PEBS_ABSOLUTE_MAXIMUM),
			 (uintptr_t)buffer + sizeof(buffer) + 1);
	assert_int_equal(ds_get(area_now(), DS_PEBS_INTERRUPT_THRESHOLD),
			 (uintptr_t)buffer + (PEBS_RECORDS - PEBS_MARGIN) * RECORD);
}

UNIT(is_detected)
{
	static const unsigned sizes[] = {144, 176, 192, 200, 208, 0};

	for (unsigned format = 0; format < 6; format++) {
		probe(NEHALEM, MISC_ENABLE_EMON_AVAILABLE, format);
		assert_int_equal(ds_pebs_record_size(), sizes[format]);
	}
	probe(NEHALEM, MISC_ENABLE_EMON_AVAILABLE | MISC_ENABLE_PEBS_UNAVAILABLE, 1);
	assert_int_equal(ds_pebs_record_size(), 0);
	probe(NEHALEM, 0, 0);
	assert_int_equal(ds_pebs_record_size(), 0);
	probe(NEHALEM, 0, 1); /* a guest of KVM, whose VMM leaves EMON clear */
	assert_int_equal(ds_pebs_record_size(), 176);
	probe(NETBURST, MISC_ENABLE_EMON_AVAILABLE, 0);
	assert_int_equal(ds_pebs_record_size(), 144);
	probe(NETBURST, 0, 0);
	assert_int_equal(ds_pebs_record_size(), 0);
	probe(CORE_2, MISC_ENABLE_EMON_AVAILABLE, 0);
	assert_int_equal(ds_pebs_record_size(), 144);
}

/* As KVM shows format 4: the basic group alone, of the processor's general counters. */
UNIT(format_4_without_baseline)
{
	const uint64_t record[] = {0x20ull << 48, 0x401000, 2, 77, 0x1111, 0x2222};
	struct ds_pebs_request request = ask();
	struct ds_sample sample;

	probe(NEHALEM, MISC_ENABLE_EMON_AVAILABLE, 4);
	assert_int_equal(ds_pebs_counters(), 0x1000000ff);
	assert_true(ds_sample_has() & DS_SAMPLE_REGISTERS);
	baseline = false;
	probe(NEHALEM, MISC_ENABLE_EMON_AVAILABLE, 4);
	baseline = true;
	assert_int_equal(ds_pebs_record_size(), 0x20);
	assert_int_equal(ds_pebs_counters(), 0xf);
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), 0);
	assert_no_writes();
	ds_read_sample(record, &sample);
	assert_int_equal(sample.has, DS_SAMPLE_EVENT_IP | DS_SAMPLE_COUNTERS | DS_SAMPLE_TSC);
	assert_int_equal(sample.event_ip, 0x401000);
	assert_int_equal(sample.counters, 2);
	assert_int_equal(sample.tsc, 77);
	assert_int_equal(sample.ip | sample.address | sample.general[0], 0);
}

static void refused(struct ds_pebs_request request, int expected)
{
	unsigned char before[sizeof(idle)];

	memcpy(before, &idle, sizeof(idle));
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), expected);
	assert_memory_equal(before, &idle, sizeof(idle));
	assert_no_writes();
	assert_null(cpu.pebs);
}

UNIT(refusals, .setup_func = with_pebs)
{
	struct ds_pebs_request request = ask();

	request.tell = NULL;
	refused(request, -EOPNOTSUPP);
	request = ask();
	request.bytes = 2 * RECORD - 1;
	refused(request, -EINVAL);
	request = ask();
	request.margin = 0;
	refused(request, -EINVAL);
	request.margin = PEBS_RECORDS;
	refused(request, -EINVAL);
	request = ask();
	request.buffer = buffer + 8;
	refused(request, -EINVAL);
	request.buffer = NULL;
	refused(request, -EINVAL);
	request.buffer = (void *)-64l;
	refused(request, -EINVAL);
	assert_int_equal(ds_checkout(&cpu), 0);
	refused(ask(), -EBUSY);
	ds_checkin(&cpu);
	probe(CORE_2, MISC_ENABLE_EMON_AVAILABLE, 0);
	request = ask();
	request.bytes = 4097;
	refused(request, -EINVAL);
	probe(NEHALEM, MISC_ENABLE_PEBS_UNAVAILABLE, 1);
	refused(ask(), -ENODEV);
}

UNIT(at_most_one_of_a_cpu, .setup_func = granted)
{
	struct ds_pebs_request request = ask();
	struct ds_cpu other = {.idle = NULL};

	expect_fields(0);
	assert_string_equal(ds_pebs_holder(&cpu), "sampler");
	assert_null(ds_pebs_holder(&other));
	assert_int_equal(ds_request_pebs(&cpu, &second, &request), -EBUSY);
	assert_int_equal(ds_request_pebs(&other, &pebs, &request), -EBUSY);
	assert_int_equal(ds_checkout(&cpu), -EBUSY);
	assert_int_equal(ds_pebs_start(&cpu, &second, 1), -EINVAL);
	assert_int_equal(ds_pebs_start(&other, &pebs, 1), -EPERM);
	assert_int_equal(ds_set_pebs_reset(&other, &pebs, 0, 1), -EPERM);
	assert_int_equal(ds_get_pebs_index(&other, &pebs), -EPERM);
	assert_int_equal(ds_release_pebs(&other, &pebs), -EPERM);
	assert_no_writes();
	expect_fields(0);
}

/* The historic one let counter == the number of counters through. */
UNIT(counters_have_bounds, .setup_func = granted)
{
	assert_int_equal(ds_set_pebs_reset(&cpu, &pebs, 3, 0xffffffff12345678), 0);
	assert_int_equal(*(uint64_t *)(idle.area + 0x58), 0xffffffff12345678);
	assert_int_equal(ds_set_pebs_reset(&cpu, &pebs, 4, 1), -EINVAL);
	assert_int_equal(ds_set_pebs_reset(&cpu, &pebs, 64, 1), -EINVAL);
	assert_int_equal(*(uint64_t *)(idle.area + 0x60), 0);
	assert_int_equal(ds_pebs_start(&cpu, &pebs, 0x10), -EINVAL);
	assert_no_writes();
}

/* Off while the area changes, its fields with it; BTS's own fields are not touched. */
UNIT(goes_along_with_a_switch, .setup_func = granted)
{
	ds_set_pebs_reset(&cpu, &pebs, 0, 77);
	ds_pebs_start(&cpu, &pebs, 1);
	events(2);
	ds_switch(&cpu, &a);
	branches(3);
	expect_fields(2);
	events(1);
	fake_log_clear();
	ds_switch(&cpu, &b);
	assert_writes({IA32_DEBUGCTL, 0}, {IA32_PEBS_ENABLE, 0}, {IA32_DS_AREA, area_of(&b)},
		      {IA32_PEBS_ENABLE, 1}, {IA32_DEBUGCTL, b.debugctl});
	expect_fields(3);
	assert_int_equal(*(uint64_t *)(memory_b.area + 0x40), 77);
	assert_int_equal(ds_get(memory_a.area, DS_PEBS_BUFFER_BASE), 0);
	assert_int_equal(ds_get_bts_index(memory_a.area), 3);
	assert_int_equal(ds_get_bts_index(memory_b.area), 0);
	ds_switch(&cpu, NULL);
	expect_fields(3);
	assert_int_equal(ds_get_pebs_index(&cpu, &pebs), 3);
	assert_non_null(ds_read_pebs(&cpu, &pebs, 2));
	assert_null(ds_read_pebs(&cpu, &pebs, 3));
}

UNIT(starting_it_does_not_stop_bts, .setup_func = granted)
{
	ds_switch(&cpu, &a);
	fake_log_clear();
	ds_pebs_start(&cpu, &pebs, 5);
	assert_writes({IA32_PEBS_ENABLE, 5});
	fake_log_clear();
	ds_pebs_start(&cpu, &pebs, 0);
	assert_writes({IA32_PEBS_ENABLE, 0});
}

/* By the flag of the thread, not by the bit of a counter: SDM Vol 3, table 35-41. */
UNIT(netburst_enables_its_thread, .setup_func = with_pebs)
{
	const uint64_t my_thread = 1ull << 25, uop_tag = 1ull << 24;
	struct ds_pebs_request request = ask();

	probe(NETBURST, MISC_ENABLE_EMON_AVAILABLE, 0);
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), 0);
	fake_log_clear();
	assert_int_equal(ds_pebs_start(&cpu, &pebs, 2), -EINVAL);
	assert_int_equal(ds_pebs_start(&cpu, &pebs, 1), 0);
	assert_writes({IA32_PEBS_ENABLE, my_thread | uop_tag});
	fake_log_clear();
	assert_int_equal(ds_pebs_start(&cpu, &pebs, 0), 0);
	assert_writes({IA32_PEBS_ENABLE, 0});
}

UNIT(tells_once, .setup_func = granted)
{
	ds_switch(&cpu, &a);
	ds_pebs_start(&cpu, &pebs, 1);
	events(PEBS_RECORDS - PEBS_MARGIN - 1);
	assert_false(ds_pmi(&cpu));
	assert_int_equal(told, 0);
	events(1);
	branches(RECORDS - MARGIN);
	assert_true(ds_pmi(&cpu)); /* both at once */
	assert_int_equal(told, 1);
	assert_false(ds_pmi(&cpu));
	assert_int_equal(told, 1);
	ds_switch(&cpu, &b); /* it stays stopped */
	assert_int_equal(fake_msr(IA32_PEBS_ENABLE)->value, 0);
}

/* First the hardware is stopped, then the memory is given up. */
UNIT(releases, .setup_func = granted)
{
	static const unsigned char none[DS_AREA_SIZE];

	ds_pebs_start(&cpu, &pebs, 1);
	fake_log_clear();
	assert_int_equal(ds_release_pebs(&cpu, &pebs), 0);
	assert_writes({IA32_PEBS_ENABLE, 0});
	assert_memory_equal(idle.area + 0x20, none, DS_AREA_SIZE - 0x20);
	assert_int_equal(ds_release_pebs(&cpu, &pebs), -EINVAL);
	assert_null(cpu.pebs);
	assert_null(ds_pebs_holder(&cpu));
}

UNIT(a_panic_stops_it_before_the_area_goes, .setup_func = granted)
{
	ds_pebs_start(&cpu, &pebs, 1);
	fake_log_clear();
	ds_panic_stop(&cpu);
	assert_writes({IA32_PEBS_ENABLE, 0}, {IA32_DS_AREA, 0});
}

UNIT(firmware_left_it_on, .setup_func = with_pebs)
{
	fake_msr(IA32_PEBS_ENABLE)->value = 1;
	ds_quiesce();
	assert_writes({IA32_PEBS_ENABLE, 0}, {IA32_DS_AREA, 0});
}

/* Format 4: all general counters, and groups of memory and registers, which are asked for once. */
UNIT(adaptive)
{
	struct ds_pebs_request request = ask();

	probe(ICE_LAKE, MISC_ENABLE_EMON_AVAILABLE, 4);
	fake_msr(MSR_PEBS_DATA_CFG);
	request.bytes = sizeof(buffer) / 208 * 208;
	assert_int_equal(ds_pebs_counters(), 0x1000000ff);
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), 0);
	assert_writes({MSR_PEBS_DATA_CFG, 3});
	assert_int_equal(ds_pebs_start(&cpu, &pebs, 0x80), 0);
	assert_int_equal(ds_pebs_start(&cpu, &pebs, 0x100), -EINVAL);
	assert_int_equal(ds_release_pebs(&cpu, &pebs), 0);
	fake_log_clear();
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), 0);
	assert_no_writes();
}

/* Of a record whose quadword n is 1000 + n, what the manual's figures say. */
static void decode(uint32_t signature, unsigned format, struct ds_sample expected)
{
	static const unsigned general[2][8] = {{2, 4, 5, 3, 9, 8, 6, 7},
					       {10, 11, 12, 13, 14, 15, 16, 17}};
	unsigned first = format == 4 ? 8 : 0;
	struct ds_sample sample;
	uint64_t record[26];

	for (unsigned i = 0; i < 26; i++)
		record[i] = 1000 + i;
	for (unsigned i = 0; i < 8; i++) {
		expected.general[i] = 1000 + (format == 4 ? 10 + i : general[0][i]);
		expected.general[8 + i] = 1000 + first + general[1][i];
	}
	expected.flags = 1000 + first;
	expected.ip = 1001 + first;
	probe(signature, MISC_ENABLE_EMON_AVAILABLE, format);
	ds_read_sample(record, &sample);
	expected.has |= DS_SAMPLE_IP | DS_SAMPLE_REGISTERS;
	assert_int_equal(sample.has, ds_sample_has());
	assert_memory_equal(&sample, &expected, sizeof(sample));
}

UNIT(decodes_each_format)
{
	enum { MEMORY = DS_SAMPLE_ADDRESS | DS_SAMPLE_SOURCE | DS_SAMPLE_LATENCY };
	enum { LATER = DS_SAMPLE_EVENT_IP | DS_SAMPLE_TRANSACTION };
	struct ds_sample sample = {.has = 0};

	decode(CORE_2, 0, sample);
	sample = (struct ds_sample){.has = DS_SAMPLE_STATUS | MEMORY,
				    .counters = 1018,
				    .address = 1019,
				    .source = 1020,
				    .latency = 1021};
	decode(NEHALEM, 1, sample);
	sample.has |= LATER;
	sample.event_ip = 1022;
	sample.transaction = 1023;
	decode(NEHALEM, 2, sample);
	sample.has = DS_SAMPLE_COUNTERS | MEMORY | LATER | DS_SAMPLE_TSC;
	sample.tsc = 1024;
	decode(NEHALEM, 3, sample);
	sample = (struct ds_sample){.has = sample.has,
				    .event_ip = 1001,
				    .counters = 1002,
				    .tsc = 1003,
				    .address = 1004,
				    .source = 1005,
				    .latency = 1006,
				    .transaction = 1007};
	decode(ICE_LAKE, 4, sample);
	sample = (struct ds_sample){
		.has = DS_SAMPLE_STATUS | DS_SAMPLE_EVENT_IP, .counters = 1018, .event_ip = 1022};
	decode(SILVERMONT, 2, sample);
	sample.has = DS_SAMPLE_COUNTERS | DS_SAMPLE_EVENT_IP | DS_SAMPLE_ADDRESS | DS_SAMPLE_TSC;
	sample.address = 1019;
	sample.tsc = 1024;
	decode(SILVERMONT, 3, sample);
}

/* The group's bit, and entries minus 1 in bits 31:24: Linux 6.1, perf_event.h. */
UNIT(records_with_entries)
{
	static _Alignas(64) unsigned char large[4 * 976];
	struct ds_pebs_request request = ask();
	struct ds_sample sample;
	uint64_t record[122] = {[0] = 976ull << 48 | 0x1f00000b, [26] = 11, [119] = 12};

	request.buffer = large;
	request.bytes = sizeof(large);
	probe(NEHALEM, MISC_ENABLE_EMON_AVAILABLE, 3);
	assert_int_equal(ds_pebs_record_size_with(1), 0);
	request.branches = 1;
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), -ENODEV);
	probe(ICE_LAKE, MISC_ENABLE_EMON_AVAILABLE, 4);
	fake_msr(MSR_PEBS_DATA_CFG);
	assert_int_equal(ds_pebs_record_size_with(33), 0);
	assert_int_equal(ds_pebs_record_size_with(32), 976);
	request.branches = 32;
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), 0);
	assert_int_equal(fake_msr(MSR_PEBS_DATA_CFG)->value, 0x1f00000b);
	ds_set(area_now(), DS_PEBS_INDEX, (uintptr_t)large + 2 * 976);
	assert_int_equal(ds_get_pebs_index(&cpu, &pebs), 2);
	assert_ptr_equal(ds_read_pebs(&cpu, &pebs, 1), large + 976);
	ds_release_pebs(&cpu, &pebs);
	ds_read_sample(record, &sample);
	assert_int_equal(sample.entries, 32);
	assert_int_equal(sample.entry[0], 11);
	assert_int_equal(sample.entry[93], 12);
	record[0] = 208ull << 48 | 3;
	ds_read_sample(record, &sample);
	assert_int_equal(sample.entries, 0);
	request.branches = 0;
	assert_int_equal(ds_request_pebs(&cpu, &pebs, &request), 0);
	assert_int_equal(fake_msr(MSR_PEBS_DATA_CFG)->value, 3);
}

/* IA32_PERF_CAPABILITIES.PEBS_TRAP = 0: the record's IP is that of the sampled instruction. */
UNIT(tells_the_two_addresses_apart)
{
	struct ds_sample sample;
	uint64_t record[26] = {[1] = 7};
	struct ds_caps caps;

	fake_cpu_reset(NEHALEM);
	fake_cpu.leaf[1].ecx |= CPUID_1_ECX_PDCM;
	fake_msr(IA32_MISC_ENABLE)->value = MISC_ENABLE_EMON_AVAILABLE;
	fake_msr(IA32_PERF_CAPABILITIES)->value = 1 << 8;
	fake_msr(IA32_PEBS_ENABLE);
	ds_probe(&caps, &idle);
	ds_init(&caps);
	ds_read_sample(record, &sample);
	assert_int_equal(sample.has & (DS_SAMPLE_IP | DS_SAMPLE_EVENT_IP), DS_SAMPLE_EVENT_IP);
	assert_int_equal(sample.event_ip, 7);
	assert_int_equal(sample.ip, 0);
}
