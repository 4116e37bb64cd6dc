// SPDX-License-Identifier: MIT
#include "monitor/svm/processor.h"

#include "lib/string.h"
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/lapic.h"
#include "monitor/host/paging.h"
#include "monitor/host/traps.h"
#include "monitor/host/wake.h"
#include "monitor/interp/interp.h"
#include "monitor/silicon.h"
#include "monitor/svm/lapic.h"
#include "monitor/svm/startup.h"
#include "monitor/unit.h"

#define PAT_RESET    0x0007040600070406ull
#define FAST_STRINGS 1

/* Instructions that the interpreter lets the processor execute: written through the direct map, run
   through a mapping of their own. */
#define THUNK_BYTES	 (64 * 1024)
#define THUNK_EXECUTABLE (IMAGE_BASE - GIB)

struct processor_memory {
	uint8_t stack[STACK_BYTES];
	struct vmcb vmcb;
	uint8_t host_save_area[PAGE_SIZE];
	uint8_t thunks[THUNK_BYTES];
	uint8_t interp[INTERP_MEMORY];
	uint8_t lockstep[LOCKSTEP_MEMORY] __attribute__((aligned(64)));
	struct guest guest;
} __attribute__((aligned(STACK_BYTES)));

static struct guest *processors[MOST_PROCESSORS];
static unsigned count;
static uint64_t tables;
static const struct silicon *made_of[2];

uint64_t processors_memory(void)
{
	return (MOST_PROCESSORS + 1) * sizeof(struct processor_memory);
}

void processors_init(uint64_t root, const struct silicon *silicon, const struct silicon *other)
{
	tables = root;
	made_of[0] = silicon;
	made_of[1] = other ? other : silicon;
}

static struct processor_memory *memory_of(struct guest *guest)
{
	return (struct processor_memory *)((char *)guest -
					   offsetof(struct processor_memory, guest));
}

struct guest *guest_of(struct vcpu *vcpu)
{
	return (struct guest *)((char *)vcpu - offsetof(struct guest, vcpu));
}

static void prepare_vmcb(struct vmcb *vmcb)
{
	memset(vmcb, 0, sizeof(*vmcb));
	vmcb->msr_permissions = msr_permissions();
	vmcb->io_permissions = port_permissions();
	vmcb->nested_paging = NESTED_PAGING_ENABLE;
	vmcb->pat = PAT_RESET;
}

static void prepare_interpreter(struct vcpu *vcpu, struct processor_memory *memory, unsigned index)
{
	uint64_t executable = THUNK_EXECUTABLE + index * THUNK_BYTES;

	for (uint64_t at = 0; at < THUNK_BYTES; at += PAGE_SIZE)
		map_page(tables, executable + at, direct_physical(memory->thunks + at), 0);
	interp_init(vcpu, memory->interp);
	interp_set_thunk_area(vcpu, memory->thunks, (const void *)executable, THUNK_BYTES);
}

struct guest *processor_create(void)
{
	const struct silicon *silicon = made_of[count % 2];
	struct processor_memory *memory;
	struct guest *guest;

	if (count == MOST_PROCESSORS)
		end_run(VERDICT_ERROR, "the guest started more than %u processors",
			MOST_PROCESSORS);
	memory = direct(pages_allocate(sizeof(*memory), STACK_BYTES));
	guest = &memory->guest;
	memset(guest, 0, sizeof(*guest));
	prepare_vmcb(&memory->vmcb);
	guest->vmcb = &memory->vmcb;
	guest->apic_id = lapic_id();
	guest->activity = ACTIVITY_STARTING;
	guest->misc_enable = FAST_STRINGS;
	trace_power_on(&guest->vcpu, silicon);
	guest->vcpu.native_ring_0 = silicon->native_ring_0;
	guest->vcpu.xss_supported = virtual_xss(silicon);
	prepare_interpreter(&guest->vcpu, memory, count);
	lockstep_attach(guest, memory->lockstep);
	processors[count] = guest;
	__atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
	return guest;
}

struct guest *processor_by_index(unsigned index)
{
	return index < __atomic_load_n(&count, __ATOMIC_ACQUIRE) ? processors[index] : NULL;
}

struct guest *processor_by_apic_id(uint32_t apic_id)
{
	struct guest *guest;

	for (unsigned i = 0; (guest = processor_by_index(i)); i++)
		if (guest->apic_id == apic_id)
			break;
	return guest;
}

static _Noreturn void run(struct guest *guest)
{
	nmi_announce(&guest->vcpu.attention);
	write_msr(MSR_EFER, read_msr(MSR_EFER) | EFER_SVME);
	write_msr(MSR_VM_HSAVE_PA, direct_physical(memory_of(guest)->host_save_area));
	enable_xsave();
	lapic_note_destination(guest);
	for (;;) {
		run_native(guest);
		run_traced(guest);
	}
}

static void run_first(void *argument)
{
	struct guest *guest = argument;

	traps_load();
	guest->activity = ACTIVITY_RUNNING;
	run(guest);
}

void processor_run_first(struct guest *guest)
{
	wake_to_stack(memory_of(guest)->stack, run_first, guest);
}

static void run_started(void *argument)
{
	struct guest *guest = argument;
	uint8_t vector;

	traps_load();
	vector = startup_arrive(guest);
	reset_by_init(&guest->vcpu, vector);
	trace_init(&guest->vcpu);
	interp_forget(&guest->vcpu);
	guest->injection = 0;
	nmi_take(); /* INIT drops one that pends */
	run(guest);
}

/* The first start-up IPI of a processor, or one after an INIT. */
void processor_arrive(void)
{
	struct guest *guest;

	traps_load();
	guest = processor_by_apic_id(lapic_id());
	if (!guest)
		guest = processor_create();
	wake_to_stack(memory_of(guest)->stack, run_started, guest);
}
