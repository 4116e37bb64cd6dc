// SPDX-License-Identifier: MIT
#include "monitor/svm/deadline.h"

#include "monitor/host/lock.h"
#include "monitor/host/traps.h"
#include "monitor/memory.h"
#include "monitor/pmu/pmu.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/processor.h"

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
#define MODE_32		      (1ull << 8)
#define MESSAGE_ENABLE	      (1ull << 14)
#define MESSAGE_CAPABLE	      (1ull << 15)
#define MESSAGE_NMI	      (4ull << 8)
#define DESTINATION_SHIFT     12
#define ADDRESS_SHIFT	      32

/* Ticks. What is past would come a whole round later; so short before an NMI nobody changes the
   comparator; the processor of an NMI that is not taken for so long has been reset; an NMI that was
   overtaken has arrived by then, if it was sent. */
enum { NEVER_SOONER = 100, SOON = 1000, LOST = 100000000, OVERTAKEN = 10000000 };

static struct lock lock;
static volatile uint64_t *hpet; /* NULL: not looked for, or not there */
static bool looked;
static unsigned comparator;
static uint64_t cycles_a_tick_16; /* TSC over HPET, times 65536 */
static struct guest *armed;	  /* the comparator's NMI is for this processor; NULL: none */
static uint64_t armed_until;	  /* HPET ticks */
static struct guest *overtaken;	  /* its NMI left while another was being armed, or did not */
static uint64_t overtaken_until;
static uint64_t ticks_most; /* of counter and comparator */
static uint64_t mode;

static volatile uint64_t *registers_of(unsigned n)
{
	return hpet + COMPARATORS + n * 4;
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
	bool wide;

	looked = true;
	if (!PERIOD(capabilities) || PERIOD(capabilities) > MOST_PERIOD ||
	    LAST_COMPARATOR(capabilities) < 2 || !(at[CONFIGURATION] & ENABLE))
		return;
	comparator = LAST_COMPARATOR(capabilities);
	if (!(at[COMPARATORS + comparator * 4] & MESSAGE_CAPABLE))
		return;
	/* With 32 bits it interrupts once more when the counter wraps (2.3.9.2.1), each 43 s under
	 * QEMU. */
	wide = capabilities & COUNTER_64 && at[COMPARATORS + comparator * 4] & COMPARATOR_64;
	mode = wide ? 0 : MODE_32;
	ticks_most = wide ? UINT64_MAX : UINT32_MAX;
	hpet = at;
	measure();
}

/* In halves: QEMU 7.2 keeps bits of the old upper half where both are written at once. */
static void set_comparator(volatile uint64_t *comparator_register, uint64_t value)
{
	volatile uint32_t *halves = (volatile uint32_t *)comparator_register;

	halves[0] = (uint32_t)value;
	halves[1] = (uint32_t)(value >> 32);
}

/* The comparator's NMI has left for its processor, or is about to. It leaves when the counter
   passes the comparator, not at the deadline: the TSC, which that is in, has only been measured
   against the HPET. QEMU sends it later still. */
static bool in_flight(void)
{
	uint64_t passed = (hpet[COUNTER] + SOON - armed_until) & ticks_most;

	return armed && passed < LOST;
}

/* For the processor whose deadline is the next one. Nothing changes while an NMI is in flight,
   which would be taken for the guest's own: its processor comes here when it has it. */
static void program(void)
{
	struct guest *guest, *next = NULL;
	uint64_t now = __builtin_ia32_rdtsc(), ticks;
	volatile uint64_t *registers = registers_of(comparator);

	if (in_flight())
		return;
	for (unsigned i = 0; (guest = processor_by_index(i)); i++)
		if (guest->deadline && (!next || guest->deadline < next->deadline))
			next = guest;
	registers[0] = mode;
	if (in_flight()) {
		overtaken = armed;
		overtaken_until = hpet[COUNTER] + OVERTAKEN;
	}
	armed = next;
	if (!next)
		return;
	ticks = next->deadline > now ? ((next->deadline - now) << 16) / cycles_a_tick_16 : 0;
	if (ticks > INT32_MAX)
		ticks = INT32_MAX;
	registers[2] = (APIC_MESSAGES | (uint64_t)next->apic_id << DESTINATION_SHIFT)
			       << ADDRESS_SHIFT |
		       MESSAGE_NMI;
	armed_until = hpet[COUNTER] + ticks + NEVER_SOONER;
	set_comparator(registers + 1, armed_until);
	registers[0] = mode | INTERRUPT_ENABLE | MESSAGE_ENABLE;
}

static void change(struct guest *guest, uint64_t deadline)
{
	lock_take(&lock);
	if (!looked)
		look();
	if (hpet) {
		guest->deadline = deadline;
		program();
	}
	lock_release(&lock);
}

void deadline_set(struct guest *guest)
{
	uint64_t deadline = pmu_deadline(&guest->vcpu);

	if (deadline != guest->deadline && (!looked || hpet))
		change(guest, deadline);
}

static bool take_own(const struct guest *guest)
{
	bool own;

	lock_take(&lock);
	own = armed == guest && in_flight();
	if (own) {
		armed = NULL;
	} else if (overtaken == guest) {
		own = ((overtaken_until - hpet[COUNTER]) & ticks_most) <= OVERTAKEN;
		overtaken = NULL;
	}
	lock_release(&lock);
	return own;
}

bool deadline_take_nmi(struct guest *guest)
{
	if (!nmi_take())
		return false;
	if (!hpet || !take_own(guest))
		return true;
	pmu_tick(&guest->vcpu);
	change(guest, pmu_deadline(&guest->vcpu));
	return false;
}
