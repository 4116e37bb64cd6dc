/* SPDX-License-Identifier: MIT */
#include "monitor/svm/guest.h"

#include "abi/multiboot.h"
#include "monitor/ds/behaviour.h"
#include "monitor/host/cpu.h"
#include "monitor/host/paging.h"
#include "monitor/host/traps.h"
#include "monitor/interp/interp.h"

enum {
	CODE_32 = 0xc9b, /* execute, read, accessed; present; 32-bit; 4 GiB */
	DATA_32 = 0xc93,
	LDT = 0x82,
	TSS_32_BUSY = 0x8b,
};
#define CR0_PE_ET    0x11
#define RFLAGS_SET   2 /* bit 1 is always 1 */
#define DR6_RESET    0xffff0ff0
#define PAT_RESET    0x0007040600070406ull
#define FAST_STRINGS 1

/* Instructions that the interpreter lets the processor execute: written through one mapping, run
   through the other. */
#define THUNK_BYTES	 (64 * 1024)
#define THUNK_EXECUTABLE (IMAGE_BASE - GIB)
static uint8_t thunks[THUNK_BYTES] __attribute__((aligned(PAGE_SIZE)));

static struct vmcb vmcb __attribute__((aligned(PAGE_SIZE)));
static uint8_t host_save_area[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));
static uint8_t interp_memory[INTERP_MEMORY] __attribute__((aligned(PAGE_SIZE)));
static struct guest the_guest;

struct guest *guest_of(struct vcpu *vcpu)
{
	return (struct guest *)((char *)vcpu - offsetof(struct guest, vcpu));
}

uint8_t *platform_guest_page(uint64_t physical)
{
	return nested_page(&the_guest, physical);
}

/* Multiboot2 specification 2.0, 3.3 "I386 machine state". */
static void reset(struct vcpu *vcpu, const struct kernel_entry *kernel)
{
	for (unsigned i = 0; i < SEGMENTS; i++)
		vcpu->segment[i] = (struct segment){16, i == CS ? CODE_32 : DATA_32, ~0u, 0};
	vcpu->segment[CS].selector = 8;
	vcpu->ldtr = (struct segment){0, LDT, 0xffff, 0};
	vcpu->tr = (struct segment){0, TSS_32_BUSY, 0xffff, 0};
	vcpu->gdtr.limit = 0xffff;
	vcpu->idtr.limit = 0xffff;
	vcpu->cr0 = CR0_PE_ET;
	vcpu->rflags = RFLAGS_SET;
	vcpu->dr6 = DR6_RESET;
	vcpu->dr7 = DR7_RESET;
	vcpu->rip = kernel->entry;
	vcpu->gpr[RAX] = MULTIBOOT2_LOADER_MAGIC;
	vcpu->gpr[RBX] = kernel->information;
}

static void enable_svm(void)
{
	write_msr(MSR_EFER, read_msr(MSR_EFER) | EFER_SVME);
	write_msr(MSR_VM_HSAVE_PA, image_physical(host_save_area));
}

static void prepare_interpreter(struct vcpu *vcpu, uint64_t root)
{
	for (uint64_t at = 0; at < THUNK_BYTES; at += PAGE_SIZE)
		map_page(root, THUNK_EXECUTABLE + at, image_physical(thunks + at), 0);
	interp_init(vcpu, interp_memory);
	interp_set_thunk_area(vcpu, thunks, (const void *)THUNK_EXECUTABLE, THUNK_BYTES);
}

void guest_run(const struct boot_info *info, const struct residence *residence,
	       const struct kernel_entry *kernel, bool lockstep)
{
	struct guest *guest = &the_guest;

	enable_svm();
	guest->vmcb = &vmcb;
	guest->hidden = residence->hidden;
	guest->misc_enable = FAST_STRINGS;
	nested_init(guest, info);
	vmcb.msr_permissions = msr_permissions();
	vmcb.nested_paging = NESTED_PAGING_ENABLE;
	vmcb.nested_cr3 = guest->nested_root;
	vmcb.pat = PAT_RESET;
	reset(&guest->vcpu, kernel);
	prepare_interpreter(&guest->vcpu, residence->root);
	nmi_announce(&guest->vcpu.attention);
	ds_reset(&guest->vcpu, &ds_behaviour_default);
	if (lockstep)
		lockstep_start(guest, info);
	for (;;) {
		run_native(guest);
		run_traced(guest);
	}
}
