// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c */
/* sources: tests/host/interp_rig.c tests/host/pt_program.c tests/host/pt_rig.c */
/* sources: monitor/interp/?*.c monitor/pt/?*.c lib/format.c */
/* The packets of random programs, what filters leave of them, and where they go. */
#include "monitor/defect.h"
#include "tests/host/pt_rig.h"

#include <stdlib.h>

static void programs_decode(const struct pt_enumeration *pt, uint64_t ctl, unsigned order,
			    bool events)
{
	for (unsigned n = 0; n < 8; n++) {
		of(pt);
		make_program(n * 977 + ctl, events);
		make_topa(pt->ecx & 2 ? 4 : 1, order, 0);
		write_ctl(CTL_DEFAULT | ctl);
		run(6000, events);
		write_ctl(0);
		assert_in_range(executed, 5000, 6000);
		assert_decodes(order);
	}
}

UNIT(every_instruction_is_found)
{
	programs_decode(&everything, 0, 5, false);
}

UNIT(events_are_found)
{
	programs_decode(&everything, 0, 5, true);
}

enum { SMALL_REGIONS = 24 };

static void at_exit(struct vcpu *vcpu)
{
}

/* The bytes of a program of ring 3 up to its end, which is not the same for both ways of running:
   in blocks; and by single instructions with a rule replaced, so that none takes a short way. */
static size_t packets_of(uint64_t n, uint64_t ctl, bool blocks)
{
	of(&everything);
	silicon.pt.exit = blocks ? NULL : at_exit;
	make_user_program(n, FUNCTIONS - 4, true);
	make_topa(SMALL_REGIONS, 0, 0);
	write_ctl((CTL_DEFAULT | ctl) & ~(n % 2 ? CTL_OS : 0));
	for (unsigned left = 200; left--;)
		blocks ? run_blocks(100) : run(110, false);
	return bytes_out(0);
}

UNIT(blocks_have_the_packets_of_single_instructions)
{
	static uint8_t single[SMALL_REGIONS << 12];
	static const uint64_t modes[] = {0, CTL_DIS_RETC, CTL_TSC_EN | CTL_CYC_EN};
	size_t bytes, others;

	for (unsigned n = 0; n < 60; n++) {
		bytes = packets_of(n, modes[n % 3], false);
		assert_in_range(bytes, 500, sizeof(single));
		memcpy(single, rig.memory + REGIONS, bytes);
		others = packets_of(n, modes[n % 3], true);
		assert_in_range(others, 500, sizeof(single));
		assert_memory_equal(single, rig.memory + REGIONS, bytes < others ? bytes : others);
	}
}

UNIT(returns_need_no_compression)
{
	programs_decode(&everything, CTL_DIS_RETC, 5, true);
}

UNIT(times_do_not_disturb)
{
	programs_decode(&everything, CTL_TSC_EN | CTL_CYC_EN, 6, true);
	programs_decode(&everything, CTL_CYC_EN | 6ull << 19, 6, true);
}

UNIT(one_region_will_do)
{
	programs_decode(&least, 0, 7, true);
}

/* A decoder may have read another trace before: the first address is whole, IPBytes 3. */
UNIT(an_enable_without_psb_has_a_whole_address)
{
	const uint8_t *packets;

	of(&everything);
	make_program(5, false);
	make_topa(4, 5, 0);
	write_ctl(CTL_DEFAULT);
	run(50, false);
	write_ctl(0);
	packets = rig.memory + REGIONS + bytes_out(5);
	write_ctl(CTL_DEFAULT);
	assert_memory_equal(packets, "\x02\x03", 2);	  /* CBR, */
	assert_memory_equal(packets + 4, "\x02\x43", 2);  /* PIP, */
	assert_memory_equal(packets + 12, "\x99\x01", 2); /* MODE.Exec, */
	assert_int_equal(packets[14], 0x71);		  /* TIP.PGE */
	run(50, false);
	write_ctl(0);
	assert_decodes(5);
}

/* --- Filters ---------------------------------------------------------------------------------- */

static void one_ring_alone(uint64_t ring)
{
	unsigned kernel = 0;

	of(&everything);
	make_user_program(7, FUNCTIONS - 4, false);
	make_topa(4, 5, 0);
	write_ctl((CTL_DEFAULT & ~(uint64_t)(CTL_OS | CTL_USER)) | ring);
	run(6000, false);
	write_ctl(0);
	assert_decodes(5);
	for (unsigned n = 0; n < executed; n++)
		kernel += expected[n] >= RIG_BASE + SYSCALL_ENTRY &&
			  expected[n] < RIG_BASE + SYSCALL_ENTRY + 16;
	assert_in_range(executed, 20, 6000);
	assert_int_equal(kernel, ring == CTL_OS ? executed : 0);
}

UNIT(rings_are_told_apart)
{
	one_ring_alone(CTL_USER);
	one_ring_alone(CTL_OS);
}

/* Six functions in the middle are traced; toggles happen at taken branches alone. */
UNIT(addresses_are_filtered)
{
	unsigned inside = 0;
	uint64_t from = (uintptr_t)function(6), to = (uintptr_t)function(12) - 1;

	of(&everything);
	make_program(11, true);
	make_topa(4, 5, 0);
	write_msr(MSR_RTIT_ADDR0_A, from);
	write_msr(MSR_RTIT_ADDR0_A + 1, to);
	write_ctl(CTL_DEFAULT | (uint64_t)ADDR_FILTER << 32);
	run(6000, true);
	write_ctl(0);
	assert_decodes(5);
	for (unsigned n = 0; n < executed; n++)
		inside += expected[n] >= from && expected[n] <= to;
	assert_in_range(executed, 100, 5900);
	assert_int_equal(inside, executed);
}

/* A branch into the range ends the trace; nothing follows it. */
UNIT(a_range_stops_the_trace)
{
	size_t bytes;

	of(&everything);
	make_program(12, false);
	make_topa(4, 5, 0);
	write_msr(MSR_RTIT_ADDR0_A + 2, (uintptr_t)function(2));
	write_msr(MSR_RTIT_ADDR0_A + 3, (uintptr_t)function(23) + FUNCTION_BYTES);
	write_ctl(CTL_DEFAULT | (uint64_t)ADDR_STOP << 36);
	run(2000, false);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_STOPPED, STATUS_STOPPED);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_TRIGGER_EN, 0);
	bytes = bytes_out(5);
	assert_memory_equal(rig.memory + REGIONS + bytes - 2, "\x02\x83", 2);
	write_ctl(0);
	assert_int_equal(bytes_out(5), bytes);
	assert_in_range(executed, 5, 1000);
	assert_decodes(5);
}

/* Two address spaces with the same pages: MOV CR3 begins and ends the trace. */
UNIT(address_spaces_are_filtered)
{
	static const uint8_t program[] = {
		0x0f, 0x22, 0xd8, /* mov cr3, rax */
		0x48, 0x31, 0xd8, /* xor rax, rbx: the other one */
		0x75, 0x00,	  /* jnz +0 */
		0xeb, 0xf6,	  /* again */
	};

	of(&everything);
	memcpy(rig.memory + 0x9000, rig.memory + RIG_PML4, PAGE);
	rig_code(RIG_CODE, program, sizeof(program));
	rig.vcpu.gpr[RAX] = 0x9000;
	rig.vcpu.gpr[RBX] = 0x9000 ^ RIG_PML4;
	make_topa(4, 5, 0);
	write_msr(MSR_RTIT_CR3_MATCH, 0x9000);
	write_ctl(CTL_DEFAULT | CTL_CR3_FILTER);
	run(400, false);
	write_ctl(0);
	assert_decodes(5);
	/* MOV to the other CR3 is still seen, MOV back is not. */
	assert_int_equal(executed, 200);
}

/* Decoded instructions were executed, in this order; the newest `newest` at least without a hole.
 */
static void assert_parts(unsigned count, unsigned newest)
{
	unsigned at = 0;

	for (unsigned n = 0; n < count; n++, at++) {
		while (at < executed && expected[at] != decoded[n])
			at++;
		if (at == executed)
			fail_msg("decoded %llx, instruction %u of %u, was not executed after the "
				 "one before it",
				 (unsigned long long)decoded[n], n, count);
	}
	assert_in_range(count, newest, executed - 1);
	for (unsigned n = 1; n <= newest; n++)
		assert_int_equal(decoded[count - n], expected[executed - n]);
}

/* 36.3.8: bits of TNT are lost with an overflow, and no instruction after the address that follows.
 */
UNIT(an_overflow_loses_a_part)
{
	for (unsigned n = 0; n < 4; n++) {
		unsigned count;

		of(&everything);
		silicon.behaviour.pt.overflow = PT_OVERFLOWS;
		make_program(n * 271 + 9, true);
		make_topa(4, 5, 0);
		write_ctl(CTL_DEFAULT | CTL_CYC_EN);
		run(6000, true);
		write_ctl(0);
		silicon.behaviour.pt.overflow = PT_OVERFLOWS_NEVER;
		assert_int_equal(decode_packets(rig.memory + REGIONS, bytes_out(5), &count), 0);
		assert_parts(count, 20);
		assert_in_range(count, executed / 2, executed);
	}
}

/* The variants of the manual's open points that libipt takes too. */
UNIT(open_points_do_not_disturb)
{
	silicon.behaviour.pt.psb = PT_PSB_LAST;
	programs_decode(&everything, 0, 5, true);
	silicon.behaviour.pt.psb = PT_PSB_FIRST;
}

/* The comparison itself: one bit of a good stream that differs changes what is decoded. */
UNIT(a_flipped_bit_is_noticed)
{
	unsigned noticed = 0, count;
	size_t bytes;

	of(&everything);
	make_program(33, true);
	make_topa(4, 5, 0);
	write_ctl(CTL_DEFAULT);
	run(6000, true);
	write_ctl(0);
	bytes = bytes_out(5);
	for (unsigned n = 0; n < 400; n++) {
		uint8_t *at = rig.memory + REGIONS + below((unsigned)bytes),
			bit = (uint8_t)(1 << below(8));
		int error;

		*at ^= bit;
		error = decode_packets(rig.memory + REGIONS, bytes, &count);
		noticed += error || count != executed ||
			   memcmp(decoded, expected, count * sizeof(decoded[0]));
		*at ^= bit;
	}
	assert_in_range(noticed, 380, 400);
}

/* --- Output ------------------------------------------------------------------------------------
 */

static void run_into(unsigned count, uint64_t last, uint64_t ctl)
{
	of(&everything);
	make_program(21, true);
	make_topa(count, 0, last);
	write_ctl(CTL_DEFAULT | CTL_DIS_RETC | ctl);
	run(100000, true);
}

/* The code decoded from the first PSB on is that executed last. */
UNIT(a_ring_has_the_newest)
{
	uint8_t linear[2 * PAGE];
	unsigned count;
	size_t at;

	run_into(2, 0, 0);
	write_ctl(0);
	at = bytes_out(0);
	memcpy(linear, rig.memory + REGIONS + at, sizeof(linear) - at);
	memcpy(linear + sizeof(linear) - at, rig.memory + REGIONS, at);
	assert_int_equal(decode_packets(linear, sizeof(linear), &count), 0);
	assert_in_range(count, 1000, executed - 1);
	memmove(expected, expected + executed - count, count * sizeof(expected[0]));
	executed = count;
	assert_same(count);
}

UNIT(stop_has_the_oldest)
{
	unsigned count, all;

	run_into(2, 1 << 4, 0);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_STOPPED, STATUS_STOPPED);
	write_ctl(0);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_MASK_PTRS), 4096ull << 32 | 1 << 7 | 0x7f);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_BASE), TOPA);
	for (unsigned n = 0; n < PAGE; n++)
		assert_int_equal(rig.memory[REGIONS + 2 * PAGE + n], 0);
	decode_packets(rig.memory + REGIONS, 2 * PAGE, &count);
	assert_in_range(count, 1000, executed);
	all = executed;
	executed = count;
	assert_same(count);
	/* At most the bits of one TNT and what follows an address are not in it. */
	assert_in_range(all, count, count + 64);
}

/* --- Memory that is not the guest's: 36.2.6.4 ---------------------------------------------------
 */

enum { KEPT = RIG_MEMORY, MIXED = 0x60000, RUN = 30000 };

/* The same program without a trace leaves the same memory, but from `from` up to `to`. */
static void assert_only_written(uint64_t from, uint64_t to)
{
	uint8_t *traced = malloc(RIG_MEMORY);

	memcpy(traced, rig.memory, RIG_MEMORY);
	of(&everything);
	make_program(1, false);
	memcpy(rig.memory + TOPA, traced + TOPA, PAGE);
	run(RUN, false);
	memcpy(rig.memory + from, traced + from, to - from);
	for (size_t at = 0; at < RIG_MEMORY; at++)
		if (traced[at] != rig.memory[at])
			fail_msg("%zx was written", at);
	free(traced);
}

/* A table of `entries`, which is at `base`, is used from `pointers` on. Returns the status. */
static uint64_t run_with(const uint64_t entries[3], uint64_t base, uint64_t pointers)
{
	uint64_t status;

	of(&everything);
	make_program(1, false);
	for (unsigned n = 0; n < 3; n++)
		*topa(n) = entries[n];
	write_msr(MSR_RTIT_OUTPUT_BASE, base);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, pointers);
	write_ctl(CTL_DEFAULT | CTL_DIS_RETC);
	run(RUN, false);
	status = read_msr(MSR_RTIT_STATUS);
	write_ctl(0);
	return status & (STATUS_ERROR | STATUS_STOPPED | STATUS_TRIGGER_EN);
}

/* A device, memory that the platform keeps, a table in either. */
UNIT(other_memory_is_an_error)
{
	static const struct {
		uint64_t entries[3], base;
	} bad[] = {
		{{RIG_DEVICE, TOPA | 1}, TOPA},
		{{KEPT, TOPA | 1}, TOPA},
		{{(1ull << 40) - PAGE, TOPA | 1}, TOPA},
		{{0}, RIG_DEVICE},
		{{0}, KEPT},
	};

	for (unsigned n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		assert_int_equal(run_with(bad[n].entries, bad[n].base, 0), STATUS_ERROR);
		assert_int_equal(executed, 0);
		assert_only_written(0, 0);
	}
}

UNIT(other_memory_is_an_error_once_it_is_reached)
{
	static const uint64_t leads_away[3] = {REGIONS, KEPT | 1}, region[3] = {MIXED | 5 << 6};

	assert_int_equal(run_with(leads_away, TOPA, 0), STATUS_ERROR);
	assert_int_equal(rig.memory[REGIONS], 0x02);
	assert_only_written(REGIONS, REGIONS + PAGE);
	assert_int_equal(run_with(region, TOPA, (uint64_t)(RIG_DEVICE - MIXED - PAGE) << 32),
			 STATUS_ERROR);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_MASK_PTRS) >> 32, RIG_DEVICE - MIXED);
	assert_only_written(RIG_DEVICE - PAGE, RIG_DEVICE);
}

/* "No error is signaled": they are lost, and output goes on in the next region. */
UNIT(packets_to_the_apic_are_lost)
{
	static const uint64_t entries[3] = {APIC, REGIONS, TOPA | 1};

	assert_int_equal(run_with(entries, TOPA, 0), STATUS_TRIGGER_EN);
	assert_int_not_equal(rig.memory[REGIONS], 0);
	assert_only_written(REGIONS, REGIONS + PAGE);
	assert_int_equal(run_with(entries, APIC, 0), STATUS_ERROR); /* as a table */
}

UNIT(one_range_is_a_ring)
{
	of(&everything);
	make_program(5, true);
	write_msr(MSR_RTIT_OUTPUT_BASE, REGIONS);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, 0xffff);
	write_ctl(CTL_DEFAULT & ~(uint64_t)CTL_TOPA);
	run(6000, true);
	write_ctl(0);
	{
		unsigned count;

		assert_int_equal(decode_packets(rig.memory + REGIONS,
						read_msr(MSR_RTIT_OUTPUT_MASK_PTRS) >> 32, &count),
				 0);
		assert_same(count);
	}
}

/* --- Defects -----------------------------------------------------------------------------------
 */

/* The linker's: those of. */
extern const struct defect *const __start_defects[], *const __stop_defects[];

static const struct defect *defect_named(const char *name)
{
	for (const struct defect *const *at = __start_defects; at < __stop_defects; at++)
		if (strcmp((*at)->name, name) == 0)
			return *at;
	fail_msg("no defect is called %s", name);
	return NULL;
}

/* libipt decodes something else than was executed. */
static bool is_noticed(const struct defect *defect)
{
	enum { REGIONS_USED = 16 };
	bool noticed = false;
	unsigned count;

	for (unsigned n = 0; n < 4 && !noticed; n++) {
		of(&everything);
		if (defect)
			defect->break_rules(&silicon);
		make_program(n * 131 + 5, true);
		make_topa(REGIONS_USED, 0, 0);
		write_ctl(CTL_DEFAULT);
		run(40000, true);
		write_ctl(0);
		assert_in_range(bytes_out(0), 0, REGIONS_USED * PAGE - 1);
		if (!defect)
			assert_in_range(bytes_out(0), PAGE + 1, REGIONS_USED * PAGE - 1);
		noticed = decode_packets(rig.memory + REGIONS, bytes_out(0), &count) ||
			  count != executed ||
			  memcmp(decoded, expected, count * sizeof(decoded[0]));
	}
	return noticed;
}

/* Those whose packets say something else than what was executed. */
UNIT(defects_of_content_are_noticed)
{
	static const char *const names[] = {
		"pt_return_anywhere", "pt_bits_newest_first", "pt_bits_not_taken",
		"pt_no_source",	      "pt_two_bytes",	      "pt_no_end_of_psb",
		"pt_no_mode",	      "pt_region_from_one",   "pt_bits_late",
		"pt_far_silent",      "pt_source_behind",     "pt_mode_swapped",
		"pt_region_skipped",
	};

	assert_false(is_noticed(NULL));
	for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		if (!is_noticed(defect_named(names[n])))
			fail_msg("%s is not noticed", names[n]);
}
