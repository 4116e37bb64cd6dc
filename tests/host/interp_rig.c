// SPDX-License-Identifier: MIT
#include "tests/host/interp_rig.h"

#include <stdlib.h>
#include <sys/mman.h>

struct interp_rig rig;

uint8_t *platform_guest_page(uint64_t physical)
{
	static uint8_t nothing[PAGE] __attribute__((aligned(PAGE)));

	assert_int_equal(physical % PAGE, 0);
	if (physical == RIG_DEVICE)
		return NULL;
	return physical < RIG_MEMORY ? rig.memory + physical : nothing;
}

bool platform_is_memory(uint64_t physical)
{
	return physical < RIG_MEMORY && physical != RIG_DEVICE;
}

bool platform_bios(struct vcpu *vcpu, uint8_t vector)
{
	return false;
}

bool platform_takes_writes(uint64_t physical)
{
	return physical == RIG_WATCHED;
}

void platform_write(struct vcpu *vcpu, uint64_t physical, const void *data, unsigned bytes)
{
	rig.writes++;
	rig.written_at = physical;
	rig.written = 0;
	memcpy(&rig.written, data, bytes < 8 ? bytes : 8);
	vcpu->attention = true;
}

void platform_cpuid(struct vcpu *vcpu)
{
	uint32_t a = (uint32_t)vcpu->gpr[RAX], b, c = (uint32_t)vcpu->gpr[RCX], d;

	if (a == 0xd && vcpu->xss_supported >> c & 1)
		a = 128, b = d = 0, c = 1;
	else
		__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	vcpu->gpr[RAX] = a;
	vcpu->gpr[RBX] = b;
	vcpu->gpr[RCX] = c;
	vcpu->gpr[RDX] = d;
}

bool platform_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	*value = index < 4 ? rig.msr[index] : 0;
	return index < 4;
}

/* Index 3 turns tracing off and on; 2 makes it that of each instruction. */
bool platform_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == 3)
		vcpu->observed =
			(value ? OBSERVER_DS : 0) | (value == 2 ? OBSERVERS_OF_INSTRUCTIONS : 0);
	if (index < 4)
		rig.msr[index] = value;
	return index < 4;
}

bool platform_save_state(struct vcpu *vcpu, unsigned n, uint64_t rip, void *area)
{
	return rig.save_state && rig.save_state(vcpu, rip, area);
}

bool platform_load_state(struct vcpu *vcpu, unsigned n, const void *area)
{
	return !rig.load_state || rig.load_state(vcpu, area);
}

uint64_t platform_read_cr8(struct vcpu *vcpu)
{
	return rig.cr8;
}

void platform_write_cr8(struct vcpu *vcpu, uint64_t value)
{
	rig.cr8 = value;
}

uint32_t platform_in(struct vcpu *vcpu, uint16_t port, unsigned bytes)
{
	return 0x11223344u + port + rig.ins++;
}

void platform_out(struct vcpu *vcpu, uint16_t port, unsigned bytes, uint32_t value)
{
	rig.out[rig.outs++ % 64] = value;
}

enum native_outcome platform_step(struct vcpu *vcpu, bool loads_tf, struct fault *fault)
{
	return rig.native ? rig.native(vcpu, fault) : NATIVE_INTERCEPTED;
}

_Noreturn void platform_stop(const char *why)
{
	snprintf(rig.stopped, sizeof(rig.stopped), "%s", why);
	longjmp(rig.stop, 1);
}

uint64_t *rig_pte(uint64_t offset)
{
	return (uint64_t *)(void *)(rig.memory + RIG_PT) + offset / PAGE;
}

uint64_t rig_gate(unsigned vector, unsigned type, unsigned ist)
{
	uint64_t entry = RIG_BASE + RIG_HANDLERS + vector * 16;
	uint64_t *gate = (uint64_t *)(void *)(rig.memory + RIG_IDT + vector * 16);

	gate[0] = (entry & 0xffff) | RIG_KERNEL_CS << 16 | (uint64_t)ist << 32 |
		  (uint64_t)type << 40 | (entry & 0xffff0000) << 32;
	gate[1] = entry >> 32;
	return entry;
}

static void rig_tables(void)
{
	uint64_t *pml4 = (void *)(rig.memory + RIG_PML4), *pdpt = (void *)(rig.memory + RIG_PDPT);
	uint64_t *pd = (void *)(rig.memory + RIG_PD), *gdt = (void *)(rig.memory + RIG_GDT);
	uint64_t tss = RIG_BASE + RIG_TSS, stack = RIG_BASE + RIG_STACK0;
	uint64_t ist = RIG_BASE + RIG_IST1;

	pml4[0] = RIG_PDPT | RIG_ALL;
	pdpt[0] = RIG_PD | RIG_ALL;
	pd[RIG_BASE >> 21] = RIG_PT | RIG_ALL;
	pd[(RIG_BASE >> 21) + 1] = 0x200000 | RIG_ALL | 0x80;
	for (unsigned page = 0; page < 512; page++)
		*rig_pte(page * PAGE) = page * PAGE | RIG_ALL;
	gdt[1] = 0x00af9b000000ffff;
	gdt[2] = 0x00cf93000000ffff;
	gdt[3] = 0x00cff3000000ffff;
	gdt[4] = 0x00affb000000ffff;
	gdt[5] = 0x0000890000000067 | (tss & 0xffffff) << 16 | (tss & 0xff000000) << 32;
	gdt[6] = tss >> 32;
	for (unsigned vector = 0; vector < 256; vector++)
		rig_gate(vector, 0x8e, 0);
	memcpy(rig.memory + RIG_TSS + 4, &stack, 8);
	memcpy(rig.memory + RIG_TSS + 36, &ist, 8);
	rig.memory[RIG_TSS + 102] = 0x68; /* no I/O map */
}

void rig_reset(void)
{
	struct vcpu *v = &rig.vcpu;
	void *caches = rig.caches, *thunks = rig.thunks;
	uint8_t *memory = rig.memory;

	if (!memory) {
		memory = mmap((void *)RIG_BASE, RIG_MEMORY, PROT_READ | PROT_WRITE | PROT_EXEC,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		assert_ptr_equal(memory, (void *)RIG_BASE);
		caches = aligned_alloc(PAGE, INTERP_MEMORY);
		thunks = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	memset(&rig, 0, sizeof(rig));
	rig.memory = memory;
	rig.caches = caches;
	rig.thunks = thunks;
	memset(memory, 0, 0x200000);
	rig_tables();
	v->observed = OBSERVER_DS;
	v->cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG;
	v->cr3 = RIG_PML4;
	v->cr4 = CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT;
	v->efer = EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE;
	v->rflags = FLAG_FIXED;
	v->segment[CS] = (struct segment){
		.selector = RIG_KERNEL_CS, .attributes = 0xa9b, .limit = 0xffffffff};
	v->segment[SS] = (struct segment){
		.selector = RIG_KERNEL_SS, .attributes = 0xc93, .limit = 0xffffffff};
	v->tr = (struct segment){
		.selector = RIG_TR, .attributes = 0x8b, .limit = 0x67, .base = RIG_BASE + RIG_TSS};
	v->gdtr = (struct descriptor_table){.limit = 0x3f, .base = RIG_BASE + RIG_GDT};
	v->idtr = (struct descriptor_table){.limit = 0xfff, .base = RIG_BASE + RIG_IDT};
	v->gpr[RSP] = RIG_BASE + RIG_STACK;
	v->rip = RIG_BASE + RIG_CODE;
	interp_init(v, caches);
	interp_set_thunk_area(v, thunks, thunks, 1 << 16);
}

void rig_to_user(void)
{
	rig.vcpu.cpl = 3;
	rig.vcpu.segment[CS].selector = RIG_USER_CS;
	rig.vcpu.segment[CS].attributes |= SEGMENT_DPL;
	rig.vcpu.segment[SS].selector = RIG_USER_SS;
	rig.vcpu.segment[SS].attributes |= SEGMENT_DPL;
}

void rig_code(uint64_t offset, const void *code, size_t bytes)
{
	memcpy(rig.memory + offset, code, bytes);
}

enum interp_stop rig_step(unsigned n)
{
	enum interp_stop stop = INTERP_BUDGET;

	while (n-- && stop == INTERP_BUDGET)
		stop = interp_run(&rig.vcpu, 1);
	return stop;
}

uint64_t rig_word(uint64_t linear)
{
	uint64_t value;

	memcpy(&value, (const void *)(uintptr_t)linear, 8);
	return value;
}
