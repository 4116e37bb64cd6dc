/* SPDX-License-Identifier: MIT */
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
#define MODE_32		      (1ull << 8)
#define MESSAGE_ENABLE	      (1ull << 14)
#define MESSAGE_CAPABLE	      (1ull << 15)
#define MESSAGE_NMI	      (4ull << 8)
#define DESTINATION_SHIFT     12
#define ADDRESS_SHIFT	      32

enum { NEVER_SOONER = 100 }; /* ticks: what is past would come a whole round later */

static struct lock lock;
static volatile uint64_t *hpet; /* NULL: not looked for, or not there */
static bool looked;
static unsigned comparator;
static uint64_t cycles_a_tick_16; /* TSC over HPET, times 65536 */

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

	looked = true;
	if (!PERIOD(capabilities) || PERIOD(capabilities) > MOST_PERIOD ||
	    LAST_COMPARATOR(capabilities) < 2 || !(at[CONFIGURATION] & ENABLE))
		return;
	comparator = LAST_COMPARATOR(capabilities);
	if (!(at[COMPARATORS + comparator * 4] & MESSAGE_CAPABLE))
		return;
	hpet = at;
	measure();
}

/* For the processor whose deadline is the next one. */
static void program(void)
{
	struct guest *guest, *next = NULL;
	uint64_t now = __builtin_ia32_rdtsc(), ticks;
	volatile uint64_t *registers = registers_of(comparator);

	for (unsigned i = 0; (guest = processor_by_index(i)); i++)
		if (guest->deadline && (!next || guest->deadline < next->deadline))
			next = guest;
	registers[0] = MODE_32;
	if (!next)
		return;
	ticks = next->deadline > now ? ((next->deadline - now) << 16) / cycles_a_tick_16 : 0;
	if (ticks > INT32_MAX)
		ticks = INT32_MAX;
	registers[2] = (APIC_MESSAGES | (uint64_t)next->apic_id << DESTINATION_SHIFT)
			       << ADDRESS_SHIFT |
		       MESSAGE_NMI;
	registers[1] = (uint32_t)(hpet[COUNTER] + ticks + NEVER_SOONER);
	registers[0] = MODE_32 | INTERRUPT_ENABLE | MESSAGE_ENABLE;
}

/* An NMI of the old deadline, if that has passed, is still to be taken. */
static void change(struct guest *guest, uint64_t deadline)
{
	lock_take(&lock);
	if (!looked)
		look();
	if (hpet) {
		if (guest->deadline && guest->deadline <= __builtin_ia32_rdtsc())
			guest->own_nmi = true;
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

bool deadline_take_nmi(struct guest *guest)
{
	bool own = guest->own_nmi || (guest->deadline && guest->deadline <= __builtin_ia32_rdtsc());

	if (!nmi_take())
		return false;
	if (!own)
		return true;
	guest->own_nmi = false;
	pmu_tick(&guest->vcpu);
	change(guest, pmu_deadline(&guest->vcpu));
	guest->own_nmi = false;
	return false;
}
