/* SPDX-License-Identifier: MIT */
/* sources: monitor/interp/?*.c monitor/pt/?*.c lib/format.c */
/*
 * Virtual Intel PT against libipt: the interpreter runs a program, the packets that monitor/pt
 * writes to the guest's memory are decoded, and the addresses of the instructions must be those
 * that were executed. What libipt leaves out is left out of the expected list as well: an
 * instruction that faults, INT n, and the WRMSR that turns tracing on or off.
 */
#include <intel-pt.h>
#include <stdio.h>

#include "monitor/pt/rules.h"
#include "monitor/silicon.h"
#include "tests/host/interp_rig.h"

enum { TOPA = 0x80000, REGIONS = 0x200000, MOST = 400000 };
enum { CTL_DEFAULT = CTL_TRACE_EN | CTL_OS | CTL_USER | CTL_TOPA | CTL_BRANCH_EN };

static const struct pt_enumeration everything = {.eax = 1,
						 .ebx = 7,
						 .ecx = 7,
						 .eax_1 = 2,
						 .ebx_1 = 0x003f3fff,
						 .physical_bits = 40,
						 .ratio = 24};
static const struct pt_enumeration least = {.ebx = 1, .ecx = 1, .physical_bits = 40, .ratio = 24};

static struct profile profile;
static struct silicon silicon;
static uint64_t expected[MOST], decoded[MOST], tsc;
static unsigned executed, interrupts;
static bool expecting;

uint8_t *platform_pt_page(struct vcpu *vcpu, uint64_t physical)
{
	return platform_is_memory(physical) ? platform_guest_page(physical) : NULL;
}

uint64_t platform_pt_tsc(struct vcpu *vcpu)
{
	return tsc += 7;
}

void platform_pt_interrupt(struct vcpu *vcpu)
{
	interrupts++;
}

static void expect(uint64_t ip)
{
	if (expecting && executed < MOST)
		expected[executed++] = ip;
}

void saw_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
}

void saw_not_taken(struct vcpu *vcpu, uint64_t from)
{
}

void saw_event(struct vcpu *vcpu, const struct branch *event)
{
	if (vcpu->observed & OBSERVER_PT)
		pt_event(vcpu, event);
}

/* Before the instruction the trace decides whether it shows it; after it, whether the next. */
void saw_retired(struct vcpu *vcpu, const struct retired *retired)
{
	bool shown = vcpu->pt.packet_enabled, itself = vcpu->pt.interrupted_itself,
	     ends = vcpu->pt.disabling;

	if (!(vcpu->observed & OBSERVER_PT))
		return;
	pt_retired(vcpu, retired);
	if (shown && !itself && !ends)
		expect(retired->from);
}

void saw_cr3(struct vcpu *vcpu)
{
	if (vcpu->observed & OBSERVER_PT)
		pt_cr3(vcpu);
}

void saw_mode(struct vcpu *vcpu, unsigned bits)
{
}

void saw_halt(struct vcpu *vcpu)
{
}

static void write_msr(uint32_t index, uint64_t value)
{
	assert_true(pt_write_msr(&rig.vcpu, index, value));
}

static uint64_t read_msr(uint32_t index)
{
	uint64_t value;

	assert_true(pt_read_msr(&rig.vcpu, index, &value));
	return value;
}

static uint64_t *topa(unsigned entry)
{
	return (uint64_t *)(void *)(rig.memory + TOPA) + entry;
}

static void of(const struct pt_enumeration *pt)
{
	rig_reset();
	memset(rig.memory + 0x200000, 0, RIG_MEMORY - 0x200000);
	profile.pt = pt;
	silicon.profile = &profile;
	silicon.pt = pt_clean;
	rig.vcpu.silicon = &silicon;
	rig.vcpu.observed = 0;
	pt_power_on(&rig.vcpu);
	executed = interrupts = 0;
	expecting = true;
}

/* `count` regions of 4 KiB << order, one after the other, then END to the first. */
static void make_topa(unsigned count, unsigned order, uint64_t last)
{
	for (unsigned n = 0; n < count; n++)
		*topa(n) = (REGIONS + ((uint64_t)n << (12 + order))) | order << 6;
	*topa(count - 1) |= last;
	*topa(count) = TOPA | 1;
	write_msr(MSR_RTIT_OUTPUT_BASE, TOPA);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, 0);
}

/* As WRMSR in the guest does; it lies somewhere ahead of the code. */
static void write_ctl(uint64_t value)
{
	struct retired wrmsr = {.from = rig.vcpu.rip, .rip = rig.vcpu.rip, .kind = RETIRED};

	write_msr(MSR_RTIT_CTL, value);
	if (rig.vcpu.observed & OBSERVER_PT)
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

/* The addresses that libipt finds in `bytes`; a negative error, the last one. */
static int decode(uint8_t *bytes, size_t size, unsigned *count)
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

/* Where the next byte goes, from the start of the regions of 4 KiB << order. */
static size_t bytes_out(unsigned order)
{
	uint64_t pointers = read_msr(MSR_RTIT_OUTPUT_MASK_PTRS);

	return ((pointers >> 7 & 0x1ffffff) << (12 + order)) + (pointers >> 32);
}

static void assert_same(unsigned count)
{
	for (unsigned n = 0; n < count && n < executed; n++)
		if (decoded[n] != expected[n])
			fail_msg("instruction %u of %u: decoded %llx, executed %llx", n, executed,
				 (unsigned long long)decoded[n], (unsigned long long)expected[n]);
	assert_int_equal(count, executed);
}

static void assert_decodes(unsigned order)
{
	unsigned count;
	int error = decode(rig.memory + REGIONS, bytes_out(order), &count);

	if (error)
		fail_msg("libipt, after %u of %u instructions: %s", count, executed,
			 pt_errstr(pt_errcode(error)));
	assert_same(count);
}

/* --- Random programs -------------------------------------------------------------------------- */

static uint64_t seed;
static uint8_t *code;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static void emit(const void *bytes, unsigned count)
{
	memcpy(code, bytes, count);
	code += count;
}
#define EMIT(...) emit((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void emit32(uint32_t value)
{
	emit(&value, sizeof(value));
}

enum { FUNCTIONS = 24, FUNCTION_BYTES = 512, VECTOR = 0x80 };

static uint8_t *function(unsigned n)
{
	return rig.memory + RIG_CODE + 64 + n * FUNCTION_BYTES;
}

/* One of what control flow knows. Only later functions are called: the program ends. */
static void emit_step(unsigned n)
{
	unsigned next = n + 1 + below(3), skip;

	EMIT(0x48, 0x69, 0xc0); /* imul rax, rax, odd */
	emit32(below(1 << 20) * 2 + 1);
	EMIT(0x48, 0x05); /* add rax, x */
	emit32(below(1 << 30));
	EMIT(0x48, 0x0f, 0xba, 0xe0, (uint8_t)(20 + below(40))); /* bt rax, bit */
	switch (below(9)) {
	case 0:
	case 1: /* jc or jnc over nothing much */
		skip = 1 + below(4);
		EMIT((uint8_t)(0x72 + below(2)), (uint8_t)skip);
		while (skip--)
			EMIT(0x90);
		break;
	case 2: /* jc near; a jump of its own */
		EMIT(0x0f, 0x82, 2, 0, 0, 0, 0xeb, 0);
		break;
	case 3: /* a loop */
		EMIT(0xb9, (uint8_t)(1 + below(9)), 0, 0, 0, 0x90, 0xe2, 0xfd);
		break;
	case 4: /* call, jump to the return address instead of RET: the stack of returns differs */
		EMIT(0xe8, 2, 0, 0, 0, 0xeb, 4, 0x59, 0xff, 0xe1, 0x90);
		break;
	case 5: /* call of the next instruction */
		EMIT(0xe8, 0, 0, 0, 0, 0x59);
		break;
	case 6: /* RET to what was pushed */
		EMIT(0x48, 0x8d, 0x0d, 2, 0, 0, 0, 0x51, 0xc3);
		break;
	case 7:
		if (next >= FUNCTIONS)
			break;
		EMIT(0xe8);
		emit32((uint32_t)(function(next) - (code + 4)));
		break;
	default:
		if (next >= FUNCTIONS)
			break;
		EMIT(0xb9); /* mov ecx, function; call rcx */
		emit32((uint32_t)(uintptr_t)function(next));
		EMIT(0xff, 0xd1);
	}
}

static const uint8_t iretq[] = {0x48, 0xcf};
/* add qword [rsp], 2; iretq: past UD2 */
static const uint8_t skip_two[] = {0x48, 0x83, 0x04, 0x24, 0x02, 0x48, 0xcf};

static void make_program(uint64_t with_seed, bool events)
{
	seed = with_seed;
	for (unsigned n = 0; n < FUNCTIONS; n++) {
		code = function(n);
		for (unsigned steps = 3 + below(6); steps--;)
			emit_step(n);
		if (events && !below(3))
			EMIT(0xcd, VECTOR);
		if (events && !below(3))
			EMIT(0x0f, 0x0b);
		EMIT(0xc3);
	}
	rig_code(RIG_HANDLERS + VECTOR * 16, iretq, sizeof(iretq));
	rig_code(RIG_HANDLERS + 2 * 16, iretq, sizeof(iretq));
	rig_code(RIG_HANDLERS + 6 * 16, skip_two, sizeof(skip_two));
	/* call function 0; again */
	code = rig.memory + RIG_CODE;
	EMIT(0xe8);
	emit32((uint32_t)(function(0) - (code + 4)));
	EMIT(0xeb, 0xf9);
}

static void run(unsigned instructions, bool nmis)
{
	while (instructions--) {
		if (nmis && !below(97) && !rig.vcpu.nmi_blocked)
			rig.vcpu.nmi_pending = true;
		assert_int_equal(interp_run(&rig.vcpu, 1), INTERP_BUDGET);
	}
}

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

static void every_instruction_is_found(void **state)
{
	programs_decode(&everything, 0, 5, false);
}

static void events_are_found(void **state)
{
	programs_decode(&everything, 0, 5, true);
}

static void returns_need_no_compression(void **state)
{
	programs_decode(&everything, CTL_DIS_RETC, 5, true);
}

static void times_do_not_disturb(void **state)
{
	programs_decode(&everything, CTL_TSC_EN | CTL_CYC_EN, 6, true);
	programs_decode(&everything, CTL_CYC_EN | 6ull << 19, 6, true);
}

static void one_region_will_do(void **state)
{
	programs_decode(&least, 0, 7, true);
}

/* --- Filters ---------------------------------------------------------------------------------- */

enum { SYSCALL_ENTRY = 0x28000 };

/* Ring 3 calls the system between any two steps; the kernel's side is a branch and SYSRET. */
static void make_user_program(void)
{
	static const uint8_t entry[] = {0xeb, 0x00, 0x48, 0x0f, 0x07};

	make_program(7, false);
	rig_code(SYSCALL_ENTRY, entry, sizeof(entry));
	code = rig.memory + RIG_CODE; /* call a function; push rax; syscall; pop rax; again */
	EMIT(0xe8);
	emit32((uint32_t)(function(FUNCTIONS - 4) - (code + 4)));
	EMIT(0x50, 0x0f, 0x05, 0x58, 0xeb, 0xf5);
	rig.vcpu.lstar = RIG_BASE + SYSCALL_ENTRY;
	rig.vcpu.star = (uint64_t)(RIG_KERNEL_CS | (uint64_t)RIG_KERNEL_SS << 16) << 32;
	rig_to_user();
}

static void one_ring_alone(uint64_t ring)
{
	unsigned kernel = 0;

	of(&everything);
	make_user_program();
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

static void rings_are_told_apart(void **state)
{
	one_ring_alone(CTL_USER);
	one_ring_alone(CTL_OS);
}

/* Six functions in the middle are traced; toggles happen at taken branches alone. */
static void addresses_are_filtered(void **state)
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
static void a_range_stops_the_trace(void **state)
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
static void address_spaces_are_filtered(void **state)
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

/* What is decoded from the first PSB on is what was executed last. */
static void a_ring_has_the_newest(void **state)
{
	uint8_t linear[2 * PAGE];
	unsigned count;
	size_t at;

	run_into(2, 0, 0);
	write_ctl(0);
	at = bytes_out(0);
	memcpy(linear, rig.memory + REGIONS + at, sizeof(linear) - at);
	memcpy(linear + sizeof(linear) - at, rig.memory + REGIONS, at);
	assert_int_equal(decode(linear, sizeof(linear), &count), 0);
	assert_in_range(count, 1000, executed - 1);
	memmove(expected, expected + executed - count, count * sizeof(expected[0]));
	executed = count;
	assert_same(count);
}

static void stop_has_the_oldest(void **state)
{
	unsigned count, all;

	run_into(2, 1 << 4, 0);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_STOPPED, STATUS_STOPPED);
	write_ctl(0);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_MASK_PTRS), 4096ull << 32 | 1 << 7 | 0x7f);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_BASE), TOPA);
	for (unsigned n = 0; n < PAGE; n++)
		assert_int_equal(rig.memory[REGIONS + 2 * PAGE + n], 0);
	decode(rig.memory + REGIONS, 2 * PAGE, &count);
	assert_in_range(count, 1000, executed);
	all = executed;
	executed = count;
	assert_same(count);
	/* At most the bits of one TNT and what follows an address are not in it. */
	assert_in_range(all, count, count + 64);
}

/* Cleared Stopped alone, the pointers are behind the region: an error, and nothing is written. */
static void a_full_region_is_an_error(void **state)
{
	run_into(1, 1 << 4, 0);
	write_ctl(0);
	write_msr(MSR_RTIT_STATUS, 0);
	write_ctl(CTL_DEFAULT);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_ERROR, STATUS_ERROR);
	assert_int_equal(read_msr(MSR_RTIT_CTL) & CTL_TRACE_EN, CTL_TRACE_EN);
	write_ctl(0);
	write_msr(MSR_RTIT_STATUS, 0);
	write_msr(MSR_RTIT_OUTPUT_MASK_PTRS, 0);
	memset(rig.memory + REGIONS, 0, PAGE);
	executed = 0;
	write_ctl(CTL_DEFAULT);
	run(100, false);
	write_ctl(0);
	assert_decodes(0);
}

static void full_regions_interrupt(void **state)
{
	run_into(1, 1 << 2, 0);
	write_ctl(0);
	assert_in_range(interrupts, 2, 30);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & (STATUS_STOPPED | STATUS_ERROR), 0);
}

static void bad_tables_are_errors(void **state)
{
	static const uint64_t bad[] = {
		REGIONS | 1 << 1,	   /* reserved */
		REGIONS | 1 << 3,	   /* reserved */
		REGIONS | 3 << 10,	   /* reserved */
		(REGIONS + PAGE) | 1 << 6, /* not aligned to its size */
		TOPA | 1,		   /* END at once */
		1ull << 40,		   /* beyond MAXPHYADDR */
	};

	for (unsigned n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		of(&everything);
		make_program(1, false);
		make_topa(4, 0, 0);
		*topa(0) = bad[n];
		write_ctl(CTL_DEFAULT);
		run(100, false);
		assert_int_equal(read_msr(MSR_RTIT_STATUS) & (STATUS_ERROR | STATUS_TRIGGER_EN),
				 STATUS_ERROR);
		assert_int_equal(executed, 0);
	}
}

static void one_range_is_a_ring(void **state)
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

		assert_int_equal(decode(rig.memory + REGIONS,
					read_msr(MSR_RTIT_OUTPUT_MASK_PTRS) >> 32, &count),
				 0);
		assert_same(count);
	}
}

/* --- Registers ---------------------------------------------------------------------------------
 */

static bool refuses(uint32_t index, uint64_t value)
{
	return !pt_write_msr(&rig.vcpu, index, value);
}

static void reserved_bits_fault(void **state)
{
	uint64_t value;

	of(NULL);
	for (uint32_t index = 0x560; index < 0x590; index++)
		assert_true(!pt_owns_msr(index) ||
			    (refuses(index, 0) && !pt_read_msr(&rig.vcpu, index, &value)));
	of(&least);
	assert_true(refuses(MSR_RTIT_CTL, CTL_CYC_EN) && refuses(MSR_RTIT_CTL, 1ull << 24));
	assert_true(refuses(MSR_RTIT_CTL, CTL_TRACE_EN)); /* no single range */
	assert_true(refuses(MSR_RTIT_STATUS, 1ull << 32) && refuses(MSR_RTIT_ADDR0_A, 0));
	of(&everything);
	assert_int_equal(read_msr(MSR_RTIT_OUTPUT_MASK_PTRS), 0x7f);
	for (unsigned bit = 0; bit < 64; bit++) {
		bool known = (bit >= 32 && bit < 40) || bit == 2 || bit == 3 || bit == 1 ||
			     bit == 7 || bit == 8 || bit == 10 || bit == 11 || bit == 13 ||
			     bit == 0 || (bit >= 19 && bit < 23) || (bit >= 24 && bit < 28);

		if (!known)
			assert_true(refuses(MSR_RTIT_CTL, 1ull << bit));
	}
	assert_true(refuses(MSR_RTIT_CTL, 3ull << 32) && refuses(MSR_RTIT_CTL, 14ull << 19) &&
		    refuses(MSR_RTIT_CTL, 6ull << 24));
	assert_true(refuses(MSR_RTIT_OUTPUT_BASE, 1) && refuses(MSR_RTIT_OUTPUT_BASE, 1ull << 40));
	assert_true(refuses(MSR_RTIT_STATUS, 1 << 3) && refuses(MSR_RTIT_STATUS, 1ull << 49));
	assert_true(refuses(MSR_RTIT_CR3_MATCH, 1 << 4));
	assert_true(refuses(MSR_RTIT_ADDR0_A, 1ull << 47) && refuses(MSR_RTIT_ADDR0_A + 4, 0));
}

/* While it traces no register but IA32_RTIT_CTL can be written, and that only to turn it off. */
static void tracing_locks_the_registers(void **state)
{
	static const uint32_t others[] = {0x560, 0x561, 0x571, 0x572, 0x580, 0x583};

	of(&everything);
	make_topa(4, 0, 0);
	write_ctl(CTL_DEFAULT);
	for (unsigned n = 0; n < sizeof(others) / sizeof(others[0]); n++)
		assert_true(refuses(others[n], 0));
	assert_true(refuses(MSR_RTIT_CTL, CTL_DEFAULT | CTL_TSC_EN));
	write_msr(MSR_RTIT_CTL, CTL_DEFAULT);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & 7, 7);
	write_ctl(CTL_TSC_EN);
	assert_int_equal(read_msr(MSR_RTIT_STATUS) & STATUS_TRIGGER_EN, 0);
}

/* The comparison itself: one bit of a good stream that differs changes what is decoded. */
static void a_flipped_bit_is_noticed(void **state)
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
		error = decode(rig.memory + REGIONS, bytes, &count);
		noticed += error || count != executed ||
			   memcmp(decoded, expected, count * sizeof(decoded[0]));
		*at ^= bit;
	}
	assert_in_range(noticed, 380, 400);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_instruction_is_found),  cmocka_unit_test(events_are_found),
	cmocka_unit_test(returns_need_no_compression), cmocka_unit_test(times_do_not_disturb),
	cmocka_unit_test(one_region_will_do),	       cmocka_unit_test(rings_are_told_apart),
	cmocka_unit_test(addresses_are_filtered),      cmocka_unit_test(a_range_stops_the_trace),
	cmocka_unit_test(address_spaces_are_filtered), cmocka_unit_test(a_ring_has_the_newest),
	cmocka_unit_test(stop_has_the_oldest),	       cmocka_unit_test(a_full_region_is_an_error),
	cmocka_unit_test(full_regions_interrupt),      cmocka_unit_test(bad_tables_are_errors),
	cmocka_unit_test(one_range_is_a_ring),	       cmocka_unit_test(reserved_bits_fault),
	cmocka_unit_test(tracing_locks_the_registers), cmocka_unit_test(a_flipped_bit_is_noticed),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
