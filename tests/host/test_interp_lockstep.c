// SPDX-License-Identifier: MIT
/* sources: tests/host/interp_rig.c */
/* sources: monitor/lbr/?*.c monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c */
/* sources: monitor/ds/?*.c monitor/trace.c monitor/unit*.c monitor/interp/?*.c */
/* sources: monitor/profile.c */
/* sources: lib/format.c */
/* The comparison of interpreter and processor, with a processor that is right or wrong at will. */
#include "lib/io.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"
#include "tests/host/interp_rig.h"

static uint8_t lockstep_memory[LOCKSTEP_MEMORY] __attribute__((aligned(64)));
static unsigned asked;

void platform_performance_interrupt(struct vcpu *vcpu)
{
}

void outb(uint16_t port, uint8_t value)
{
}

static int setup(void **state)
{
	static struct silicon silicon;

	silicon_make(&silicon, profile_get(0), &(struct behaviour){0});
	rig_reset();
	trace_reset(&rig.vcpu, &silicon);
	lockstep_init(&rig.vcpu, lockstep_memory, 0);
	asked = 0;
	return 0;
}

/* INC QWORD [RBX], 48 FF 03: 41 becomes 42. */
static enum native_outcome incremented(struct vcpu *vcpu, struct fault *fault)
{
	asked++;
	assert_int_equal(rig_word(DATA), 41);
	*(uint64_t *)(uintptr_t)DATA = 42;
	vcpu->rip += 3;
	return NATIVE_DONE;
}

static enum native_outcome not_incremented(struct vcpu *vcpu, struct fault *fault)
{
	vcpu->rip += 3;
	return NATIVE_DONE;
}

static enum native_outcome wrong_register(struct vcpu *vcpu, struct fault *fault)
{
	vcpu->gpr[R9] ^= 0x10;
	return incremented(vcpu, fault);
}

static enum native_outcome wrong_flags(struct vcpu *vcpu, struct fault *fault)
{
	vcpu->rflags ^= FLAG_ZF;
	return incremented(vcpu, fault);
}

static enum native_outcome faulted(struct vcpu *vcpu, struct fault *fault)
{
	*fault = (struct fault){.vector = VECTOR_GP, .has_error = true};
	return NATIVE_FAULTED;
}

/* The name of what differs, or "" */
static const char *increment(enum native_outcome (*native)(struct vcpu *, struct fault *))
{
	RIG_PROGRAM(0x48, 0xff, 0x03);
	rig.vcpu.gpr[RBX] = DATA;
	*(uint64_t *)(uintptr_t)DATA = 41;
	rig.native = native;
	if (!setjmp(rig.stop))
		rig_step(1);
	return rig.stopped;
}

UNIT(test_agrees, .setup_func = setup)
{
	uint64_t before = lockstep_compared();

	assert_string_equal(increment(incremented), "");
	assert_int_equal(asked, 1);
	assert_int_equal(rig_word(DATA), 42);
	assert_int_equal(lockstep_compared(), before + 1);
}

UNIT(test_sees_memory, .setup_func = setup)
{
	assert_non_null(strstr(increment(not_incremented), "48 ff 03"));
	assert_non_null(strstr(rig.stopped, "memory 2a, native 29"));
}

UNIT(test_sees_registers, .setup_func = setup)
{
	assert_non_null(strstr(increment(wrong_register), "r9 0, native 10"));
}

UNIT(test_sees_flags, .setup_func = setup)
{
	assert_non_null(strstr(increment(wrong_flags), "rflags"));
}

UNIT(test_sees_faults, .setup_func = setup)
{
	assert_non_null(strstr(increment(faulted), "faults 0, native 1"));
}

/* An iteration of REP LODSB, F3 AC, as QEMU 7.2 steps it: RF stays 0. */
static enum native_outcome without_rf(struct vcpu *vcpu, struct fault *fault)
{
	vcpu->gpr[RSI]++;
	if (!--vcpu->gpr[RCX])
		vcpu->rip += 2;
	return NATIVE_DONE;
}

/* The same as QEMU 10.0 does it: RIP leaves the instruction in a step more. */
static enum native_outcome with_a_step_too_many(struct vcpu *vcpu, struct fault *fault)
{
	vcpu->gpr[RSI]++;
	vcpu->gpr[RCX]--;
	vcpu->rflags |= FLAG_RF;
	return NATIVE_DONE;
}

static const char *repeat(enum native_outcome (*native)(struct vcpu *, struct fault *),
			  unsigned deviations)
{
	setup(NULL);
	lockstep_init(&rig.vcpu, lockstep_memory, deviations);
	RIG_PROGRAM(0xf3, 0xac);
	rig.vcpu.gpr[RSI] = DATA;
	rig.vcpu.gpr[RCX] = 2;
	rig.native = native;
	if (!setjmp(rig.stop)) {
		rig_step(1);
		assert_true(rig.vcpu.rflags & FLAG_RF);
		rig.vcpu.attention = false;
		rig_step(1);
		assert_int_equal(rig.vcpu.rip, RIG_BASE + RIG_CODE + 2);
	}
	return rig.stopped;
}

UNIT(test_corrects_deviations, .setup_func = setup)
{
	assert_non_null(strstr(repeat(without_rf, 0), "rflags 10002, native 2"));
	assert_non_null(strstr(repeat(without_rf, DEVIATION_STEP_TOO_MANY), "rflags"));
	assert_string_equal(repeat(without_rf, DEVIATION_RF_LOST), "");
	assert_non_null(strstr(repeat(with_a_step_too_many, 0), "rip"));
	assert_non_null(strstr(repeat(with_a_step_too_many, DEVIATION_RF_LOST), "rip"));
	assert_string_equal(repeat(with_a_step_too_many, DEVIATION_STEP_TOO_MANY), "");
}

/* MOV RAX, [RBX], 48 8B 03. */
static enum native_outcome loaded(struct vcpu *vcpu, struct fault *fault)
{
	vcpu->gpr[RAX] = rig_word(DATA);
	vcpu->rip += 3;
	return NATIVE_DONE;
}

static enum native_outcome loaded_after_a_write(struct vcpu *vcpu, struct fault *fault)
{
	*(uint64_t *)(uintptr_t)DATA = 42;
	return loaded(vcpu, fault);
}

static enum native_outcome loaded_within_two_writes(struct vcpu *vcpu, struct fault *fault)
{
	enum native_outcome outcome;

	*(uint64_t *)(uintptr_t)DATA = asked++ ? 41 : 42;
	outcome = loaded(vcpu, fault);
	*(uint64_t *)(uintptr_t)DATA = 41;
	return outcome;
}

static enum native_outcome loaded_wrongly(struct vcpu *vcpu, struct fault *fault)
{
	loaded(vcpu, fault);
	vcpu->gpr[RAX] ^= 2;
	return NATIVE_DONE;
}

static const char *taken(enum native_outcome (*native)(struct vcpu *, struct fault *))
{
	setup(NULL);
	RIG_PROGRAM(0x48, 0x8b, 0x03);
	rig.vcpu.gpr[RBX] = DATA;
	*(uint64_t *)(uintptr_t)DATA = 41;
	rig.native = native;
	if (!setjmp(rig.stop))
		rig_step(1);
	return rig.stopped;
}

/* Each setup() makes one processor more, and nothing takes one away. */
UNIT(test_allows_writes_of_another_processor, .setup_func = setup)
{
	assert_string_equal(taken(loaded_after_a_write), "");
	assert_int_equal(rig.vcpu.gpr[RAX], 41);
	assert_string_equal(taken(loaded_within_two_writes), "");
	assert_int_equal(asked, 2);
	assert_int_equal(rig.vcpu.gpr[RAX], 41);
	assert_non_null(strstr(taken(loaded_wrongly), "rax 29, native 2b"));
}

/* IN is not executed twice. */
UNIT(test_exempt, .setup_func = setup)
{
	RIG_PROGRAM(0xec, 0x90);
	rig.native = incremented;
	rig_step(1);
	assert_int_equal(asked, 0);
	assert_int_equal(rig.ins, 1);
}
