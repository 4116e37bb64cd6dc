// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"

#include "drivers/processor.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/trap/user.h"

#define IA32_EFER	    0xc0000080u
#define IA32_STAR	    0xc0000081u
#define IA32_CSTAR	    0xc0000083u
#define IA32_FS_BASE	    0xc0000100u
#define IA32_GS_BASE	    0xc0000101u
#define IA32_KERNEL_GS_BASE 0xc0000102u
#define EFER_SCE	    (1ul << 0)
#define CR4_OSFXSR	    (1ul << 9)
#define CR4_OSXMMEXCPT	    (1ul << 10)
#define CR4_UMIP	    (1ul << 11)
#define CR4_SMEP	    (1ul << 20)
#define CR4_SMAP	    (1ul << 21)
#define FMASK_SYSCALL	    0x47700u /* TF, IF, DF, IOPL, NT, AC: the kernel starts without them */
#define IST_SIZE	    8192

bool cpu_smap;

static struct cpu boot_cpu;
static struct cpu *cpus[MAX_CPUS];
static unsigned count;
static uint8_t boot_interrupt_stacks[4][IST_SIZE] __attribute__((aligned(16)));

void cpu_load(struct cpu *cpu)
{
	uint64_t base = (uint64_t)&cpu->task_state;
	struct table_pointer pointer = {sizeof(cpu->gdt) - 1, (uint64_t)cpu->gdt};

	cpu->gdt[KERNEL_CODE / 8] = 0x00af9b000000ffff;
	cpu->gdt[KERNEL_DATA / 8] = 0x00cf93000000ffff;
	cpu->gdt[USER_DATA / 8] = 0x00cff3000000ffff;
	cpu->gdt[USER_CODE / 8] = 0x00affb000000ffff;
	cpu->gdt[USER_CODE_32 / 8] = 0x00cffb000000ffff;
	cpu->gdt[TASK_STATE / 8] = (sizeof(cpu->task_state) - 1) | (base & 0xffffff) << 16 |
				   0x89ul << 40 | (base >> 24 & 0xff) << 56;
	cpu->gdt[TASK_STATE / 8 + 1] = base >> 32;
	cpu->task_state.io_map_base = sizeof(cpu->task_state);
	__asm__ volatile("lgdt %0\n\t"
			 "pushq %1\n\t"
			 "leaq 1f(%%rip), %%rax\n\t"
			 "pushq %%rax\n\t"
			 "lretq\n"
			 "1:\tmovl %2, %%ss\n\t"
			 "lldt %w4\n\t" /* none: no selector of ring 3 reaches what a loader left */
			 "ltr %w3"
			 :
			 : "m"(pointer), "i"(KERNEL_CODE), "r"(KERNEL_DATA), "r"(TASK_STATE), "r"(0)
			 : "rax", "memory");
	wrmsr(IA32_GS_BASE, (uint64_t)cpu);
}

void cpu_init_boot(void)
{
	struct cpu *cpu = &boot_cpu;

	for (unsigned i = 0; i < 4; i++)
		cpu->task_state.ist[i] = (uint64_t)boot_interrupt_stacks[i] + IST_SIZE;
	cpu->self = cpus[count++] = cpu;
	cpu_load(cpu);
}

struct cpu *cpu_create(void)
{
	size_t pages = (sizeof(struct cpu) + PAGE_SIZE - 1) / PAGE_SIZE;
	struct cpu *cpu = area_alloc(pages, VM_WRITE);

	if (!cpu)
		return NULL;
	for (unsigned i = 0; i < 4; i++) {
		uint8_t *stack = area_alloc(IST_SIZE / PAGE_SIZE, VM_WRITE);

		if (!stack)
			return NULL;
		cpu->task_state.ist[i] = (uint64_t)stack + IST_SIZE;
	}
	cpu->index = count;
	cpu->self = cpus[count++] = cpu;
	return cpu;
}

void cpu_forget_newest(void)
{
	cpus[--count] = NULL;
}

unsigned cpu_count(void)
{
	return count;
}

void cpu_protect(void)
{
	struct cpuid_result features = {0};
	uint64_t cr4;

	if (cpuid(0, 0).eax >= 7)
		features = cpuid(7, 0);
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	cr4 |= CR4_OSFXSR | CR4_OSXMMEXCPT;
	if (features.ebx & 1u << 7)
		cr4 |= CR4_SMEP;
	if (features.ebx & 1u << 20)
		cr4 |= CR4_SMAP;
	if (features.ecx & 1u << 2)
		cr4 |= CR4_UMIP;
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4));
	cpu_smap = cr4 & CR4_SMAP;
	/* What firmware left would be ring 3's; the half of a GS base tells whose GS it is. */
	wrmsr(IA32_FS_BASE, 0);
	wrmsr(IA32_KERNEL_GS_BASE, 0);
	wrmsr(IA32_SYSENTER_CS, 0);
	wrmsr(IA32_STAR, (uint64_t)KERNEL_CODE << 32 | (uint64_t)(USER_DATA - 8) << 48);
	wrmsr(IA32_LSTAR, (uint64_t)syscall_entry);
	/* AMD's processors execute SYSCALL in compatibility mode: APM Vol 2, 6.1.1. */
	wrmsr_safe(IA32_CSTAR, (uint64_t)syscall_entry_32);
	wrmsr(IA32_FMASK, FMASK_SYSCALL);
	wrmsr(IA32_EFER, rdmsr(IA32_EFER) | EFER_SCE);
}

struct cpu *cpu_by_index(unsigned index)
{
	return cpus[index];
}

void preemption_enable(void)
{
	struct cpu *cpu = this_cpu();

	if (--cpu->preemption_off == 0 && cpu->reschedule)
		schedule_if_due();
}
