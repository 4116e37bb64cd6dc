// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "drivers/clock/tsc.h"
#include "drivers/debugctl.h"
#include "kernel/console.h"
#include "kernel/options.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"

#define MOST_WAIT 1000000 /* microseconds */

_Static_assert(PTRACE_FREEZE_BTS == 1 << TRACE_BTS && PTRACE_FREEZE_PEBS == 1 << TRACE_PEBS &&
		       PTRACE_FREEZE_PT == 1 << TRACE_PT && PTRACE_FREEZE_LBR == 1 << TRACE_LBR,
	       "bits of units");

enum { IDLE, CHANGING, FROZEN };
static atomic_uint state, armed;
static atomic_bool stops;	      /* an NMI that is on its way freezes its CPU */
static atomic_bool unsaid;	      /* by freeze_say() */
static unsigned cause, first;	      /* what froze; the CPU that it happened on */
static _Atomic(const void *) freezer; /* whose request it is; NULL: nobody's */

/* NULL: that CPU is not used. */
static struct freeze_cpu *part_of(unsigned index)
{
	struct cpu *cpu = cpu_by_index(index);
	bool used = cpu->trace && (index == first || atomic_load(&cpu->online));

	return used ? &cpu->trace->freeze : NULL;
}

/* Tests `stops` twice: a thaw that does not see `frozen` has cleared it by the second test. */
static void freeze_here(const struct trap_frame *frame)
{
	struct cpu *cpu = this_cpu();
	struct freeze_cpu *here = &cpu->trace->freeze;
	struct ptrace_freeze_cpu *status = &here->status;

	if (!atomic_load(&stops) || atomic_exchange(&here->frozen, true))
		return;
	if (!atomic_load(&stops)) {
		atomic_store(&here->frozen, false);
		return;
	}
	debugctl_hold(&cpu->debugctl); /* the way to the units is longer than the stack */
	trace_freeze_units(cpu);
	*status = (struct ptrace_freeze_cpu){.cpu = cpu->index, .units = cpu->trace->arrived};
	status->tsc = tsc_read();
	status->pid = cpu->current->pid;
	status->cause = cpu->index == first ? cause : 0;
	status->delay = (int64_t)(status->tsc - part_of(first)->status.tsc);
	if (frame) { /* in the same order: kernel/ptrace/inspect.c */
		memcpy(&status->registers, frame, offsetof(struct ptrace_registers, orig_rax));
		memcpy(&status->registers.rip, &frame->rip, 5 * sizeof(uint64_t));
	}
	atomic_store(&here->stopped, true);
	if (cause != PTRACE_FREEZE_PANIC)
		lapic_self_ipi(VECTOR_TRACE_WORK);
}

static bool freeze_nmi(struct trap_frame *frame)
{
	struct trace_cpu *trace = this_cpu()->trace;

	if (!trace || !atomic_exchange(&trace->freeze.called, false))
		return false;
	freeze_here(frame);
	return true;
}

static void hold_units(struct cpu *cpu, bool hold)
{
	struct freeze_cpu *here = &cpu->trace->freeze;

	EACH_UNIT_WITH (hold)
		if (trace_units[i]->hold(cpu, hold))
			here->status.units |= 1u << i;
	atomic_store(&here->rests, hold);
}

void freeze_rest(struct cpu *cpu)
{
	trace_freeze_units(cpu);
	if (atomic_load(&cpu->trace->freeze.stopped) && !atomic_load(&cpu->trace->freeze.rests))
		hold_units(cpu, true);
}

/* The handler of VECTOR_TRACE_WORK starts recording again, also of contexts not yet at rest. */
static void thaw_here(void *argument)
{
	struct cpu *cpu = this_cpu();

	(void)argument;
	hold_units(cpu, true);
	atomic_store(&cpu->trace->freeze.stopped, false);
	atomic_store(&cpu->trace->freeze.frozen, false);
	hold_units(cpu, false);
	lapic_self_ipi(VECTOR_TRACE_WORK);
}

/* All have stopped; or all that have are at rest. */
static bool are_all(bool at_rest)
{
	bool all = true;

	for (unsigned i = 0; i < cpu_count(); i++) {
		const struct freeze_cpu *at = part_of(i);
		bool stopped = at && atomic_load(&at->stopped);

		all &= at_rest ? !stopped || atomic_load(&at->rests) : stopped || !at;
	}
	return all;
}

bool freeze_is_whole(void)
{
	return atomic_load(&state) == FROZEN && are_all(false) && are_all(true);
}

/* A panic sends the NMIs itself: those of smp_stop_others(). */
static void stop_others(bool send)
{
	uint64_t end = clock_us() + MOST_WAIT;

	for (unsigned i = 0; i < cpu_count(); i++)
		if (i != first && part_of(i)) {
			atomic_store(&part_of(i)->called, true);
			if (send)
				lapic_send_nmi(cpu_by_index(i)->apic_id);
		}
	while (send && !are_all(false) && clock_us() < end)
		__asm__ volatile("pause");
}

/* False: it is frozen already, or about to be. */
static bool freeze(unsigned trigger, const struct trap_frame *frame)
{
	uint64_t flags = interrupts_save();
	unsigned idle = IDLE;
	bool begins = this_cpu()->trace && atomic_compare_exchange_strong(&state, &idle, CHANGING);

	if (begins) {
		cause = trigger;
		first = this_cpu()->index;
		atomic_store(&stops, true);
		freeze_here(frame);
		stop_others(trigger != PTRACE_FREEZE_PANIC);
		atomic_store(&unsaid, trigger != PTRACE_FREEZE_NOW || !are_all(false));
		atomic_store(&state, FROZEN);
	}
	interrupts_restore(flags);
	return begins;
}

void freeze_on(unsigned trigger, const struct trap_frame *frame)
{
	if (atomic_load_explicit(&armed, memory_order_relaxed) & trigger)
		freeze(trigger, frame);
}

static void arm(unsigned flags)
{
	atomic_store(&armed, flags | (options.freeze ? 1u << options.freeze : 0));
}

static void thaw(const void *owner)
{
	unsigned frozen = FROZEN;

	arm(0);
	while (!atomic_compare_exchange_strong(&state, &frozen, CHANGING) && frozen != IDLE) {
		frozen = FROZEN;
		__asm__ volatile("pause");
	}
	if (frozen == IDLE) {
		atomic_compare_exchange_strong(&freezer, &owner, NULL);
		return;
	}
	atomic_store(&stops, false);
	for (unsigned i = 0; i < cpu_count(); i++)
		if (cpu_by_index(i)->trace && trace_is_frozen(cpu_by_index(i)))
			smp_call(i, thaw_here, NULL);
	atomic_store(&freezer, NULL);
	atomic_store(&state, IDLE);
}

int freeze_request(const void *owner, unsigned flags, const struct trap_frame *frame)
{
	const void *holder = atomic_load(&freezer);
	uint64_t end;

	if ((holder && holder != owner) || (flags && atomic_load(&state) != IDLE) ||
	    (flags && !holder && !atomic_compare_exchange_strong(&freezer, &holder, owner)))
		return -EBUSY;
	if (!flags)
		thaw(owner);
	else
		arm(flags);
	if (!(flags & PTRACE_FREEZE_NOW))
		return 0;
	if (!freeze(PTRACE_FREEZE_NOW, frame))
		return -EBUSY;
	freeze_say_all();
	for (end = clock_us() + MOST_WAIT; !are_all(true) && clock_us() < end;)
		__asm__ volatile("pause");
	return 0;
}

void freeze_owner_ended(const void *owner)
{
	if (atomic_load(&freezer) == owner)
		thaw(owner);
}

bool freeze_status(unsigned index, struct ptrace_freeze_cpu *status)
{
	const struct freeze_cpu *at = part_of(index);

	*status = (struct ptrace_freeze_cpu){.cpu = index};
	if (at && atomic_load(&at->stopped)) {
		*status = at->status;
		status->flags = PTRACE_FREEZE_STOPPED |
				(atomic_load(&at->rests) ? PTRACE_FREEZE_RESTS : 0u);
	}
	return atomic_load(&state) == FROZEN;
}

bool freeze_say(unsigned index)
{
	static const char *const causes[] = {"request", "fault", "overflow", "panic"};
	struct ptrace_freeze_cpu status;
	bool frozen = freeze_status(index, &status);

	if (!frozen || !part_of(index))
		return false;
	if (status.cause)
		printk("# freeze: by %s on CPU %u, at %016lx\n", causes[__builtin_ctz(cause)],
		       index, status.registers.rip);
	else if (status.flags)
		printk("# freeze: CPU %u stopped %ld TSC ticks later, at %016lx\n", index,
		       status.delay, status.registers.rip);
	else
		printk("# freeze: CPU %u did not answer the NMI within %u ms\n", index,
		       MOST_WAIT / 1000);
	return status.flags;
}

void freeze_say_all(void)
{
	if (atomic_load(&unsaid) && atomic_exchange(&unsaid, false))
		for (unsigned i = 0; i < cpu_count(); i++)
			freeze_say(i);
}

void freeze_init(void)
{
	nmi_add_handler(freeze_nmi);
	arm(0);
}
