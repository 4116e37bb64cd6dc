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
static bool counter_64_bit;

static uint32_t reference_read(void)
{
	return mmio_read32(registers, COUNTER);
}

static struct reference reference = {"hpet", 0, UINT32_MAX, reference_read};

static unsigned comparator_count(void)
{
	return (mmio_read32(registers, CAPABILITIES) >> 8 & 0x1f) + 1;
}

const struct reference *hpet_init(void)
{
	uint64_t physical;

	registers = NULL;
	volatile void *found =
		acpi_hpet_address(&physical) ? mmio_map(physical, REGISTERS_SIZE) : NULL;
	if (!found)
		return NULL;
	const uint32_t period = mmio_read32(found, PERIOD);
	if (period == 0 || period > MAX_PERIOD)
		return NULL;
	registers = found;
	reference.hz = SECOND_FS / period;
	counter_64_bit = mmio_read32(registers, CAPABILITIES) & COUNTER_64_BIT;
	/* Bits that may be written become 0: no interrupt, edge, one shot, no FSB delivery. */
	for (unsigned timer = 0; timer < comparator_count(); timer++)
		mmio_write32(registers, TIMER(timer), 0);
	mmio_write32(registers, CONFIGURATION, ENABLE);
	return &reference;
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

/* Microseconds as ticks, no more than `most`, without overflow on the way. */
static uint64_t to_ticks(uint64_t microseconds, uint64_t most)
{
	const uint64_t seconds = microseconds / SECOND_US;

	if (seconds >= most / reference.hz)
		return most;
	return seconds * reference.hz + microseconds % SECOND_US * reference.hz / SECOND_US;
}

#define ISA_LINES  16
#define LEGACY_GSI 2u /* of comparator 0, specification 2.3.5 */

static unsigned chosen; /* comparator */

/* Legacy replacement takes the lines of PIT and RTC, which then do not interrupt. */
static bool take_legacy_line(uint32_t apic_id)
{
	if (!ioapic_has(LEGACY_GSI) || !(mmio_read32(registers, CAPABILITIES) & LEGACY_CAPABLE))
		return false;
	chosen = 0;
	mmio_write32(registers, CONFIGURATION, ENABLE | LEGACY);
	return ioapic_route_nmi(LEGACY_GSI, apic_id);
}

/* Any comparator, any input that is not an ISA device's. */
static bool take_any_line(uint32_t apic_id)
{
	for (chosen = 0; chosen < comparator_count(); chosen++) {
		const uint32_t routes = mmio_read32(registers, TIMER_ROUTES(chosen));

		for (uint32_t gsi = ISA_LINES; gsi < 32; gsi++) {
			if (!ioapic_has(gsi) || !(routes >> gsi & 1))
				continue;
			mmio_write32(registers, TIMER(chosen), gsi << TIMER_ROUTE_SHIFT);
			if (ioapic_route_nmi(gsi, apic_id))
				return true;
		}
	}
	return false;
}

bool hpet_nmi_init(uint32_t apic_id)
{
	return registers && (take_legacy_line(apic_id) || take_any_line(apic_id));
}

uint64_t hpet_nmi_after(uint64_t microseconds)
{
	const uint32_t setting = mmio_read32(registers, TIMER(chosen)) & ~TIMER_INTERRUPTS;
	const bool wide = counter_64_bit && (setting & TIMER_64_BIT);
	/* Half the range: never to be taken for the past. */
	const uint64_t most = wide ? INT64_MAX : INT32_MAX;
	const uint64_t ticks = to_ticks(microseconds > LEAST_US ? microseconds : LEAST_US, most);

	mmio_write32(registers, TIMER(chosen), setting);
	const uint64_t target = hpet_counter() + ticks;
	mmio_write32(registers, COMPARATOR(chosen), (uint32_t)target);
	if (wide)
		mmio_write32(registers, COMPARATOR(chosen) + 4, (uint32_t)(target >> 32));
	mmio_write32(registers, TIMER(chosen), setting | TIMER_INTERRUPTS);
	return ticks / reference.hz * SECOND_US + ticks % reference.hz * SECOND_US / reference.hz;
}

void hpet_nmi_cancel(void)
{
	mmio_write32(registers, TIMER(chosen),
		     mmio_read32(registers, TIMER(chosen)) & ~TIMER_INTERRUPTS);
}

bool hpet_nmi_expired(void)
{
	const uint32_t setting = mmio_read32(registers, TIMER(chosen));
	const uint32_t low = mmio_read32(registers, COMPARATOR(chosen));

	if (!(setting & TIMER_INTERRUPTS))
		return false;
	if (!counter_64_bit || !(setting & TIMER_64_BIT))
		return (int32_t)((uint32_t)hpet_counter() - low) >= 0;
	const uint64_t high = mmio_read32(registers, COMPARATOR(chosen) + 4);
	return hpet_counter() >= (high << 32 | low);
}
