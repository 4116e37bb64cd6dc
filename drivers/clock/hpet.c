// SPDX-License-Identifier: MIT
#include "drivers/clock/hpet.h"
#include "drivers/acpi/acpi.h"
#include "drivers/apic/ioapic.h"
#include "drivers/mmio.h"

#include <stddef.h>

#define CAPABILITIES	  0x000u
#define PERIOD		  0x004u /* femtoseconds */
#define CONFIGURATION	  0x010u
#define COUNTER		  0x0f0u
#define TIMER(n)	  (0x100u + 0x20u * (n))
#define TIMER_ROUTES(n)	  (TIMER(n) + 4)
#define COMPARATOR(n)	  (TIMER(n) + 8)
#define COUNTER_64_BIT	  (1u << 13) /* in CAPABILITIES */
#define LEGACY_CAPABLE	  (1u << 15)
#define ENABLE		  (1u << 0) /* in CONFIGURATION */
#define LEGACY		  (1u << 1)
#define TIMER_INTERRUPTS  (1u << 2) /* in TIMER(n) */
#define TIMER_64_BIT	  (1u << 5)
#define TIMER_ROUTE_SHIFT 9
#define MAX_PERIOD	  100000000u /* specification 2.3.4: at least 10 MHz */
#define SECOND_FS	  1000000000000000ull
#define SECOND_US	  1000000u
#define LEAST_US	  20u /* nearer, the counter may pass before the comparator is written */
#define REGISTERS_SIZE	  1024

static volatile void *registers;
static uint64_t frequency;
static bool counter_64_bit;

static uint32_t reference_read(void)
{
	return mmio_read32(registers, COUNTER);
}

static struct reference reference = {"hpet", 0, UINT32_MAX, reference_read};

static void silence(unsigned timer)
{
	/* Bits that may be written become 0: no interrupt, edge, one shot, no FSB delivery. */
	mmio_write32(registers, TIMER(timer), 0);
}

bool hpet_init(void)
{
	uint64_t physical;

	registers = NULL;
	volatile void *found =
		acpi_hpet_address(&physical) ? mmio_map(physical, REGISTERS_SIZE) : NULL;
	if (!found)
		return false;
	const uint32_t period = mmio_read32(found, PERIOD);
	if (period == 0 || period > MAX_PERIOD)
		return false;
	registers = found;
	frequency = SECOND_FS / period;
	counter_64_bit = mmio_read32(registers, CAPABILITIES) & COUNTER_64_BIT;
	for (unsigned timer = 0; timer < hpet_timer_count(); timer++)
		silence(timer);
	mmio_write32(registers, CONFIGURATION, ENABLE);
	reference.hz = frequency;
	return true;
}

bool hpet_present(void)
{
	return registers != NULL;
}

uint64_t hpet_frequency(void)
{
	return frequency;
}

const struct reference *hpet_reference(void)
{
	return &reference;
}

unsigned hpet_timer_count(void)
{
	return registers ? (mmio_read32(registers, CAPABILITIES) >> 8 & 0x1f) + 1 : 0;
}

uint64_t hpet_counter(void)
{
	if (!counter_64_bit)
		return mmio_read32(registers, COUNTER);
	/* In halves: some implementations do not read 64 bits as one. */
	uint32_t high, low, again = mmio_read32(registers, COUNTER + 4);
	do {
		high = again;
		low = mmio_read32(registers, COUNTER);
		again = mmio_read32(registers, COUNTER + 4);
	} while (again != high);
	return (uint64_t)high << 32 | low;
}

uint32_t hpet_routes(unsigned timer)
{
	return timer < hpet_timer_count() ? mmio_read32(registers, TIMER_ROUTES(timer)) : 0;
}

bool hpet_set_route(unsigned timer, uint32_t gsi)
{
	if (gsi >= 32 || !(hpet_routes(timer) >> gsi & 1))
		return false;
	mmio_write32(registers, TIMER(timer), gsi << TIMER_ROUTE_SHIFT);
	return true;
}

bool hpet_replace_legacy(void)
{
	if (!registers || !(mmio_read32(registers, CAPABILITIES) & LEGACY_CAPABLE))
		return false;
	mmio_write32(registers, CONFIGURATION, ENABLE | LEGACY);
	return true;
}

/* Microseconds as ticks, no more than `most`, without overflow on the way. */
static uint64_t to_ticks(uint64_t microseconds, uint64_t most)
{
	const uint64_t seconds = microseconds / SECOND_US;

	if (seconds >= most / frequency)
		return most;
	return seconds * frequency + microseconds % SECOND_US * frequency / SECOND_US;
}

static uint64_t to_microseconds(uint64_t ticks)
{
	return ticks / frequency * SECOND_US + ticks % frequency * SECOND_US / frequency;
}

uint64_t hpet_timer_start(unsigned timer, uint64_t microseconds)
{
	const uint32_t setting = mmio_read32(registers, TIMER(timer)) & ~TIMER_INTERRUPTS;
	const bool wide = counter_64_bit && (setting & TIMER_64_BIT);
	/* Half the range: never to be taken for the past. */
	const uint64_t most = wide ? INT64_MAX : INT32_MAX;
	const uint64_t ticks = to_ticks(microseconds > LEAST_US ? microseconds : LEAST_US, most);

	mmio_write32(registers, TIMER(timer), setting);
	const uint64_t target = hpet_counter() + ticks;
	mmio_write32(registers, COMPARATOR(timer), (uint32_t)target);
	if (wide)
		mmio_write32(registers, COMPARATOR(timer) + 4, (uint32_t)(target >> 32));
	mmio_write32(registers, TIMER(timer), setting | TIMER_INTERRUPTS);
	return to_microseconds(ticks);
}

void hpet_timer_stop(unsigned timer)
{
	mmio_write32(registers, TIMER(timer),
		     mmio_read32(registers, TIMER(timer)) & ~TIMER_INTERRUPTS);
}

bool hpet_timer_expired(unsigned timer)
{
	const uint32_t setting = mmio_read32(registers, TIMER(timer));
	const uint32_t low = mmio_read32(registers, COMPARATOR(timer));

	if (!(setting & TIMER_INTERRUPTS))
		return false;
	if (!counter_64_bit || !(setting & TIMER_64_BIT))
		return (int32_t)((uint32_t)hpet_counter() - low) >= 0;
	const uint64_t high = mmio_read32(registers, COMPARATOR(timer) + 4);
	return hpet_counter() >= (high << 32 | low);
}

#define ISA_LINES 16

static unsigned chosen; /* comparator */

static bool deliver(uint32_t gsi, uint32_t apic_id)
{
	return ioapic_route(&(struct ioapic_route){.gsi = gsi, .apic_id = apic_id, .nmi = true});
}

/* The PIT's line, free once the PIT is off it. */
static bool take_legacy_line(uint32_t apic_id)
{
	chosen = 0;
	return ioapic_has(HPET_LEGACY_GSI) && hpet_replace_legacy() &&
	       deliver(HPET_LEGACY_GSI, apic_id);
}

/* Any comparator, any input that is not an ISA device's. */
static bool take_any_line(uint32_t apic_id)
{
	for (chosen = 0; chosen < hpet_timer_count(); chosen++) {
		for (uint32_t gsi = ISA_LINES; gsi < 32; gsi++) {
			if (ioapic_has(gsi) && hpet_set_route(chosen, gsi) && deliver(gsi, apic_id))
				return true;
		}
	}
	return false;
}

bool hpet_nmi_init(uint32_t apic_id)
{
	return hpet_present() && (take_legacy_line(apic_id) || take_any_line(apic_id));
}

uint64_t hpet_nmi_after(uint64_t microseconds)
{
	return hpet_timer_start(chosen, microseconds);
}

void hpet_nmi_cancel(void)
{
	hpet_timer_stop(chosen);
}

bool hpet_nmi_expired(void)
{
	return hpet_timer_expired(chosen);
}
