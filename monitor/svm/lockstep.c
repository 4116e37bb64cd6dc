// SPDX-License-Identifier: MIT
/* The comparison of interpreter and processor: what it needs, and what it says at the end. */
#include "drivers/console/console.h"
#include "lib/io.h"
#include "monitor/console.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/guest.h"

/* How a run ends: QEMU's isa-debug-exit, and PM1 control (ACPI 4.8.3.2) where Bochs has it. */
enum { DEBUG_EXIT_PORT = 0xf4, POWER_PORT = 0xb004, SLEEP_ENABLE = 1 << 13 };
/* EXITINFO1 of a port access: APM Vol 2, 15.10.2. */
enum { PORT_SHIFT = 16, PORT_IN = 1, PORT_STRING = 1 << 2, PORT_16 = 1 << 5, PORT_32 = 1 << 6 };

static bool enabled;
static unsigned known_deviations;

void lockstep_enable(unsigned deviations)
{
	enabled = true;
	known_deviations = deviations;
	if (deviations)
		say("lockstep corrects these deviations before it compares");
	port_exits(DEBUG_EXIT_PORT);
	port_exits(POWER_PORT);
}

void lockstep_attach(struct guest *guest, void *memory)
{
	if (!enabled)
		return;
	lockstep_init(&guest->vcpu, memory, known_deviations);
}

bool lockstep_allows(uint64_t physical)
{
	return !enabled || nested_is_memory(physical);
}

void exit_port(struct guest *guest)
{
	uint64_t info = guest->vmcb->exit_info_1, value = guest->vcpu.gpr[RAX];
	uint16_t port = (uint16_t)(info >> PORT_SHIFT);

	if (info & PORT_STRING || (info & PORT_IN && (port != POWER_PORT || !(info & PORT_16))))
		end_run(VERDICT_ERROR, "lockstep: port 0x%x can only be written to by OUT", port);
	if (info & PORT_IN) {
		guest->vcpu.gpr[RAX] = (value & ~0xffffull) | inw(port);
		guest->vcpu.rip = guest->vmcb->exit_info_2;
		return;
	}
	if (port == DEBUG_EXIT_PORT || value & SLEEP_ENABLE) {
		say("lockstep compared=%llu differences=0",
		    (unsigned long long)lockstep_compared());
		console_flush();
	}
	if (info & PORT_32)
		outl(port, (uint32_t)value);
	else if (info & PORT_16)
		outw(port, (uint16_t)value);
	else
		outb(port, (uint8_t)value);
	guest->vcpu.rip = guest->vmcb->exit_info_2;
}

_Noreturn void platform_stop(const char *why)
{
	end_run(VERDICT_ERROR, "%s", why);
}
