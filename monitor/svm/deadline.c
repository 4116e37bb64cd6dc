// SPDX-License-Identifier: MIT
#include "monitor/svm/deadline.h"

#include "monitor/host/lock.h"
#include "monitor/host/traps.h"
#include "monitor/memory.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/processor.h"
#include "monitor/unit.h"

#define HPET_BASE     0xfed00000ull /* IA-PC HPET specification 1.0a, 3.2.4: where firmware has it */
#define APIC_MESSAGES 0xfee00000ull /* SDM Vol 3, 10.11.1 */

/* IA-PC HPET specification 1.0a, 2.3: quadwords. */
enum { CAPABILITIES = 0, CONFIGURATION = 2, COUNTER = 0x1e, COMPARATORS = 0x20 };
#define LAST_COMPARATOR(caps) ((unsigned)((caps) >> 8 & 0x1f))
#define PERIOD(caps)	      ((caps) >> 32) /* femtoseconds */
#define MOST_PERIOD	      0x05f5e100u
#define ENABLE		      1ull
#define INTERRUPT_ENABLE      (1ull << 2)
#define COUNTER_64	      (1ull << 13) /* of the capabilities */
#define COMPARATOR_64	      (1ull << 5)
#define MESSAGE_ENABLE	      (1ull << 14)
#define MESSAGE_CAPABLE	      (1ull << 15)
#define MESSAGE_NMI	      (4ull << 8)
#define DESTINATION_SHIFT     12
#define ADDRESS_SHIFT	      32

/* Ticks: the comparator is set at least so far ahead, since a value that the counter has passed is
   met a whole round later; after so many an NMI that is not taken is sent again. */
enum { NEVER_SOONER = 100, AGAIN = 10000000 };

/*
 * Whose an NMI is follows from what was sent, never from how late it is: QEMU's main loop, which
 * sends it, and the thread of the processor that it is for may wait for seconds on a busy host.
 *
 * The comparator sends one NMI each time that it is armed, to `armed`, once the counter has passed
 * it; it sends nothing after it was disarmed. Disarmed before the counter passed it has sent
 * nothing. After that it has or has not, and only `armed` itself can tell: what was sent to it by
 * then, it has noted by then. So another processor that finds the counter past the comparator
 * leaves it alone, or has it send a second NMI to the same processor; `armed` takes both for one.
 *
 * An NMI of the guest that the processor notes together with one of these is lost: one that arrives
 * while the comparator has been passed is taken for the comparator's, unless both were noted one
 * after the other. Nothing tells them apart, and two NMIs that wait are one to the processor too.
 */
static struct lock lock;
static volatile uint64_t *hpet; /* NULL: not looked for, or not there */
static bool looked;
static unsigned comparator;
static uint64_t cycles_a_tick_16; /* TSC over HPET, times 65536 */
static struct guest *armed;	  /* the comparator's NMI is for this processor; NULL: none */
static uint64_t armed_from;	  /* the counter then */
static uint64_t armed_for;	  /* ticks from then on */
static bool repeated;		  /* it may have sent one to `armed` before */

static volatile uint64_t *registers_of(unsigned n)
{
	return hpet + COMPARATORS + n * 4;
}

static void disarm(void)
{
	registers_of(comparator)[0] = 0;
}

static void measure(void)
{
	uint32_t start = (uint32_t)hpet[COUNTER], ticks;
	uint64_t began = __builtin_ia32_rdtsc();
	uint32_t most = (uint32_t)(200000000000ull / PERIOD(hpet[CAPABILITIES])); /* 200 us */

	do
		ticks = (uint32_t)hpet[COUNTER] - start;
	while (ticks < most);
	cycles_a_tick_16 = ((__builtin_ia32_rdtsc() - began) << 16) / ticks;
}

static void look(void)
{
	volatile uint64_t *at = direct(HPET_BASE);
	uint64_t capabilities = at[CAPABILITIES];
	uint64_t own;

	looked = true;
	if (!PERIOD(capabilities) || PERIOD(capabilities) > MOST_PERIOD ||
	    LAST_COMPARATOR(capabilities) < 2 || !(at[CONFIGURATION] & ENABLE))
		return;
	comparator = LAST_COMPARATOR(capabilities);
	own = at[COMPARATORS + comparator * 4];
	/* One of 32 bits sends another NMI when the counter wraps (2.3.9.2.1), and that it was
	   passed would be forgotten a round later. */
	if (!(own & MESSAGE_CAPABLE && own & COMPARATOR_64 && capabilities & COUNTER_64))
		return;
	hpet = at;
	disarm();
	measure();
}

/* In halves: QEMU 7.2 keeps bits of the old upper half where both are written at once. */
static void set_comparator(volatile uint64_t *comparator_register, uint64_t value)
{
	volatile uint32_t *halves = (volatile uint32_t *)comparator_register;

	halves[0] = (uint32_t)value;
	halves[1] = (uint32_t)(value >> 32);
}

/* A guest that sets the counter back has it passed at once, which is the safe side. */
static bool passed(void)
{
	return hpet[COUNTER] - armed_from >= armed_for;
}

static void arm(struct guest *guest, uint64_t ticks)
{
	volatile uint64_t *registers = registers_of(comparator);

	armed = guest;
	registers[2] = (APIC_MESSAGES | (uint64_t)guest->apic_id << DESTINATION_SHIFT)
			       << ADDRESS_SHIFT |
		       MESSAGE_NMI;
	armed_from = hpet[COUNTER];
	armed_for = ticks + NEVER_SOONER;
	set_comparator(registers + 1, armed_from + armed_for);
	registers[0] = INTERRUPT_ENABLE | MESSAGE_ENABLE;
}

/* Whether this processor has noted an NMI, when it has all that were sent to it. The HPET's message
   arrives before what is read from the HPET afterwards; QEMU's processor looks for an NMI between
   two blocks of translated code, of which PAUSE ends one. */
static bool noted(void)
{
	(void)hpet[COUNTER];
	__asm__ volatile("pause" : : : "memory");
	return *nmi_flag();
}

/* On the processor that the comparator is armed for: how many NMIs it has sent at most. It sends no
   more. */
static unsigned settle(void)
{
	unsigned most;

	disarm();
	most = repeated ? 2 : passed();
	armed = NULL;
	repeated = false;
	return most;
}

/* On another processor than the one that the comparator is armed for: disarms it and returns true
   if it is to be armed for `*next`, which may become the same processor again. */
static bool take_over(struct guest **next)
{
	uint64_t since = hpet[COUNTER] - armed_from;
	/* Its processor does not run, or the NMI was lost: the guest has turned off the HPET, the
	   comparator or the local APIC, or has changed the ID of the latter. */
	bool again = since >= armed_for + AGAIN;

	if (!again && (repeated || since >= armed_for || *next == armed))
		return false;
	disarm();
	repeated |= passed();
	if (repeated)
		*next = armed;
	return true;
}

static struct guest *next_of_all(void)
{
	struct guest *guest, *next = NULL;

	for (unsigned i = 0; (guest = processor_by_index(i)); i++)
		if (guest->deadline && (!next || guest->deadline < next->deadline))
			next = guest;
	return next;
}

static uint64_t ticks_until(uint64_t deadline)
{
	uint64_t now = __builtin_ia32_rdtsc(), ticks;

	ticks = deadline > now ? ((deadline - now) << 16) / cycles_a_tick_16 : 0;
	return ticks < INT32_MAX ? ticks : INT32_MAX;
}

/* On processor `self`: for the processor whose deadline is the next one. */
static void program(struct guest *self)
{
	struct guest *next = next_of_all();

	if (armed == self)
		self->own_nmi |= settle() && noted();
	else if (armed && !take_over(&next))
		return;
	armed = NULL;
	if (next)
		arm(next, repeated ? 0 : ticks_until(next->deadline));
}

static void change(struct guest *guest, uint64_t deadline)
{
	lock_take(&lock);
	if (!looked)
		look();
	if (hpet) {
		guest->deadline = deadline;
		program(guest);
	}
	lock_release(&lock);
}

void deadline_set(struct guest *guest)
{
	uint64_t deadline = trace_deadline(&guest->vcpu);

	if (deadline != guest->deadline && (!looked || hpet))
		change(guest, deadline);
}

/* INIT drops an NMI that waits, and one that arrived before the start-up IPI would find the
   processor without a guest. */
void deadline_forget(struct guest *guest)
{
	if (hpet)
		change(guest, 0);
	guest->own_nmi = false;
}

static bool take_own(struct guest *guest)
{
	bool own;

	lock_take(&lock);
	own = guest->own_nmi;
	guest->own_nmi = false;
	if (!own && armed == guest) {
		unsigned most = settle();

		own = most;
		if (most > 1 && noted())
			nmi_take();
	}
	lock_release(&lock);
	return own;
}

bool deadline_take_nmi(struct guest *guest)
{
	bool own;

	if (!nmi_take())
		return false;
	if (!hpet)
		return true;
	own = take_own(guest);
	if (own)
		trace_tick(&guest->vcpu);
	change(guest, trace_deadline(&guest->vcpu));
	return !own;
}
