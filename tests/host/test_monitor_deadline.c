// SPDX-License-Identifier: MIT
/* sources: monitor/svm/deadline.c */
/*
 * The NMIs of counters of cycles: an HPET whose counter passes the comparator at once and whose
 * message leaves when the test says so, as QEMU's main loop sends it, and two processors.
 */
#include "monitor/svm/deadline.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "monitor/host/traps.h"
#include "monitor/memory.h"
#include "monitor/svm/processor.h"
#include "monitor/unit.h"
#include "tests/host/host.h"

enum { CAPABILITIES = 0, CONFIGURATION = 2, COUNTER = 0x1e, COMPARATOR = 0x28, PROCESSORS = 2 };
enum { CONFIG = COMPARATOR, VALUE, MESSAGE };
#define CAPABLE	  (1ull << 15 | 1ull << 5)
#define ENABLED	  (1ull << 14 | 1ull << 2)
#define SECOND	  100000000ull /* ticks of 10 ns */
#define NEXT_YEAR (1ull << 60) /* of the TSC; SOONER is before it, LATER after it */
#define SOONER	  (NEXT_YEAR - 1000)
#define LATER	  (NEXT_YEAR + 1000)

static volatile uint64_t page[512] __attribute__((aligned(4096)));
static struct {
	struct guest guest[PROCESSORS];
	bool noted[PROCESSORS];
	uint64_t deadline[PROCESSORS]; /* of the counters; 0: none */
	unsigned self, ticks;
	uint64_t stall; /* ticks before the next write of the HPET */
	bool stall_sends;
} machine;

static struct guest *guest_at(unsigned n)
{
	return &machine.guest[n];
}

static bool is_armed(void)
{
	return (page[CONFIG] & ENABLED) == ENABLED;
}

static unsigned armed_for(void)
{
	assert_true(is_armed());
	assert_int_equal(page[MESSAGE] & 0xffffffff, 4 << 8);
	return (unsigned)(page[MESSAGE] >> 44 & 0xff) - 4;
}

static void pass(void)
{
	assert_true(is_armed());
	page[COUNTER] = page[VALUE] + 1;
}

/* The HPET's one-shot: each value that is passed while it is armed is sent once. */
static void send(void)
{
	assert_true(page[COUNTER] >= page[VALUE]);
	machine.noted[armed_for()] = true;
}

static void write_waits(int signal)
{
	if (mprotect((void *)page, sizeof(page), PROT_READ | PROT_WRITE) || !machine.stall)
		abort();
	page[COUNTER] += machine.stall;
	machine.stall = 0;
	if (machine.stall_sends)
		send();
}

/* The processor's thread waits with the next write of the HPET, whose counter goes on. */
static void stall(uint64_t ticks, bool sends)
{
	machine.stall = ticks;
	machine.stall_sends = sends;
	signal(SIGSEGV, write_waits); /* cmocka sets its own before each test */
	assert_int_equal(mprotect((void *)page, sizeof(page), PROT_READ), 0);
}

void *direct(uint64_t physical)
{
	assert_int_equal(physical, 0xfed00000);
	return (void *)page;
}

struct guest *processor_by_index(unsigned index)
{
	return index < PROCESSORS ? guest_at(index) : NULL;
}

const volatile bool *nmi_flag(void)
{
	return &machine.noted[machine.self];
}

bool nmi_take(void)
{
	bool noted = machine.noted[machine.self];

	machine.noted[machine.self] = false;
	return noted;
}

void trace_tick(struct vcpu *vcpu)
{
	assert_ptr_equal(vcpu, &guest_at(machine.self)->vcpu);
	machine.ticks++;
}

uint64_t trace_deadline(const struct vcpu *vcpu)
{
	assert_ptr_equal(vcpu, &guest_at(machine.self)->vcpu);
	return machine.deadline[machine.self];
}

static void set(unsigned n, uint64_t deadline)
{
	machine.self = n;
	machine.deadline[n] = deadline;
	deadline_set(guest_at(n));
}

enum taken { NONE, OWN, GUESTS };

static enum taken take(unsigned n, uint64_t next)
{
	unsigned ticks = machine.ticks;

	machine.self = n;
	machine.deadline[n] = next;
	if (deadline_take_nmi(guest_at(n)))
		return GUESTS;
	return machine.ticks > ticks ? OWN : NONE;
}

/* While the HPET is measured against the TSC. */
static void go_on(int signal)
{
	page[COUNTER] += SECOND / 1000;
}

static int power_on(void **state)
{
	const struct itimerval each_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};

	page[CAPABILITIES] = 10000000ull << 32 | 1ull << 13 | 2ull << 8;
	page[CONFIGURATION] = 1;
	page[CONFIG] = CAPABLE;
	for (unsigned n = 0; n < PROCESSORS; n++)
		guest_at(n)->apic_id = 4 + n;
	signal(SIGALRM, go_on);
	setitimer(ITIMER_REAL, &each_ms, NULL);
	set(0, NEXT_YEAR);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(armed_for(), 0);
	return 0;
}

/* Nothing is armed, nothing was sent. */
static int reset(void **state)
{
	static bool on;

	if (!on)
		on = !power_on(state);
	page[COUNTER] += 10 * SECOND;
	for (unsigned n = 0; n < PROCESSORS; n++) {
		set(n, 0);
		machine.noted[n] = false;
		assert_int_equal(take(n, 0), NONE);
	}
	assert_false(is_armed());
	return 0;
}

UNIT(first_deadline_is_armed, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	assert_int_equal(armed_for(), 0);
	set(1, SOONER);
	assert_int_equal(armed_for(), 1);
	set(1, LATER);
	assert_int_equal(armed_for(), 0);
	pass();
	send();
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(armed_for(), 1);
}

UNIT(late_nmi_is_own, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	pass();
	page[COUNTER] += 5 * SECOND;
	send();
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(take(0, 0), NONE);
	assert_false(is_armed());
}

UNIT(nmi_before_the_deadline_is_the_guests, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	page[COUNTER] = page[VALUE] - SECOND;
	machine.noted[0] = true;
	assert_int_equal(take(0, NEXT_YEAR), GUESTS);
	pass();
	send();
	assert_int_equal(take(0, 0), OWN);
}

UNIT(nmi_of_the_processor_that_is_owed_none_is_the_guests, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	pass();
	machine.noted[1] = true;
	assert_int_equal(take(1, 0), GUESTS);
	assert_int_equal(armed_for(), 0);
	send();
	assert_int_equal(take(0, 0), OWN);
	machine.noted[0] = true;
	assert_int_equal(take(0, 0), GUESTS);
}

/* The processor notices its overflow itself, and the NMI, sent by then, arrives afterwards. */
UNIT(nmi_that_was_settled_is_own, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	pass();
	send();
	set(0, LATER);
	assert_int_equal(armed_for(), 0);
	page[COUNTER] += SECOND;
	assert_int_equal(take(0, LATER), OWN);
	machine.noted[0] = true;
	assert_int_equal(take(0, 0), GUESTS);
}

UNIT(nmi_that_was_not_sent_is_not_owed, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	pass();
	set(0, 0);
	assert_false(is_armed());
	machine.noted[0] = true;
	assert_int_equal(take(0, 0), GUESTS);
}

UNIT(other_processor_leaves_a_passed_comparator, .setup_func = reset)
{
	uint64_t value;

	set(0, NEXT_YEAR);
	value = page[VALUE];
	pass();
	set(1, SOONER);
	assert_int_equal(armed_for(), 0);
	assert_int_equal(page[VALUE], value);
	send();
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(armed_for(), 1);
}

/* The counter passes while another processor is about to arm it, and that has sent or has not:
   one more NMI makes it certain that one arrives, and however many do, none is the guest's. */
static void overtaken_in(unsigned n, bool sent)
{
	set(n, NEXT_YEAR);
	stall(page[VALUE] - page[COUNTER] + 1, sent);
	set(!n, SOONER);
	assert_int_equal(machine.stall, 0);
	assert_int_equal(armed_for(), n);
	assert_true(page[VALUE] > page[COUNTER]);
	page[COUNTER] += 5 * SECOND;
}

UNIT(overtaken_nmi_is_own_before_the_second, .setup_func = reset)
{
	overtaken_in(0, true);
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(take(0, 0), NONE);
	assert_int_equal(armed_for(), 1);
}

UNIT(overtaken_nmi_is_own_with_the_second, .setup_func = reset)
{
	overtaken_in(0, true);
	stall(1, true); /* it is sent while the first one is taken */
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(take(0, 0), NONE);
	assert_int_equal(armed_for(), 1);
}

UNIT(overtaken_nmi_that_was_not_sent_is_sent, .setup_func = reset)
{
	overtaken_in(1, false);
	assert_int_equal(armed_for(), 1);
	send();
	assert_int_equal(take(1, 0), OWN);
	machine.noted[1] = true;
	assert_int_equal(take(1, 0), GUESTS);
}

UNIT(two_are_overtaken_in_turn, .setup_func = reset)
{
	overtaken_in(0, true);
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(armed_for(), 1);
	overtaken_in(1, true);
	assert_int_equal(take(1, 0), OWN);
	assert_int_equal(armed_for(), 0);
	pass();
	send();
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(take(1, 0), NONE);
}

/* The guest turned the HPET off and on, say: nobody has to wait for that NMI for ever. */
UNIT(lost_nmi_is_sent_again, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	pass();
	page[COUNTER] += SECOND;
	set(1, SOONER);
	assert_int_equal(armed_for(), 0);
	assert_true(page[VALUE] > page[COUNTER]);
	pass();
	send();
	assert_int_equal(take(0, 0), OWN);
	assert_int_equal(armed_for(), 1);
}

UNIT(init_forgets, .setup_func = reset)
{
	set(0, NEXT_YEAR);
	set(1, LATER);
	pass();
	send();
	machine.self = 0;
	deadline_forget(guest_at(0));
	assert_int_equal(armed_for(), 1);
	assert_true(nmi_take()); /* run_started() */
	machine.noted[0] = true;
	assert_int_equal(take(0, 0), GUESTS);
}
