// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/lib/code.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_gdt.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/random_programs/machine.h"

#define AT    0x0000000040100000ul /* below 4 GiB, where no half of an address is 0 by chance */
#define STACK (AT + PAGE_SIZE)
#define LOOPS 3

extern const uint8_t compat_start[], compat_in[], compat_32[], compat_again[], compat_call[],
	compat_callee[], compat_callee_ret[], compat_out[], compat_back[], compat_ret[],
	compat_loop[], compat_jump[], compat_end[];

/*
 * Enters a 32-bit code segment by a far return, counts EAX up there with a loop and a near call on
 * a 32-bit stack, and comes back by a far jump. RSP is kept in R8, which compatibility mode cannot
 * reach.
 */
__asm__(".pushsection .rodata\n"
	"compat_start: movq %rsp, %r8\n\tmovl $0x40102000, %esp\n\t"
	"pushq $0x80\n\tpushq $0x40100000+compat_32-compat_start\n"
	"compat_in: lretq\n\t.code32\n"
	"compat_32: movw $0x88, %cx\n\tmovw %cx, %ss\n\tmovl $3, %ecx\n\txorl %eax, %eax\n"
	"compat_jump: jmp compat_loop\n\tnop\n"
	"compat_loop: incl %eax\n\tdecl %ecx\n"
	"compat_again: jnz compat_loop\n"
	"compat_call: call compat_callee\n"
	"compat_out: ljmpl $0x8, $0x40100000+compat_back-compat_start\n"
	"compat_callee: addl $0x100, %eax\n"
	"compat_callee_ret: ret\n\t.code64\n"
	"compat_back: movq %r8, %rsp\n\tmovl $0x10, %ecx\n\tmovl %ecx, %ss\n"
	"compat_ret: ret\n"
	"compat_end: .popsection");

static const void *at(const uint8_t *label)
{
	return (const void *)(AT + (uint64_t)(label - compat_start));
}

static uint64_t counters; /* IA32_PERF_GLOBAL_CTRL meanwhile; 0: as it is */

static uint64_t run(uint64_t debugctl)
{
	static struct machine machine;

	machine_randomize(&machine, &(struct random){1});
	own_gdt_load();
	if (counters)
		wrmsr(IA32_PERF_GLOBAL_CTRL, counters);
	machine_run(&machine, (void *)AT, debugctl);
	if (counters)
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	own_gdt_unload();
	return machine.registers[RAX];
}

static bool upper_half_clear(struct bts_struct record)
{
	return !(record.from >> 32) && !(record.to >> 32);
}

static void map(void)
{
	uint8_t *page = test_area(2);

	memcpy(page, compat_start, (size_t)(compat_end - compat_start));
	code_map(AT, page, 0);
	if (!vm_map(STACK, *vm_entry((uint64_t)page + PAGE_SIZE) & PTE_ADDRESS, VM_WRITE))
		test_error("no memory for page tables");
}

TEST(bts_compatibility_mode, .group = "R", .ids = "R6", .needs = NEED_BTS,
     .claim = "32-bit code in compatibility mode is recorded, with upper halves of 0",
     .source = "SDM Vol 3, 17.4.8.1 and 17.4.9.1")
{
	struct rig rig;
	size_t slot = 0;

	map();
	rig_open(&rig, 32);
	machine_open();
	EXPECT_EQ(run(0), LOOPS + 0x100);
	EXACTLY (&rig)
		EXPECT_EQ(run(rig_all()), LOOPS + 0x100);
	machine_close();
	code_unmap(STACK);
	code_unmap(AT);
	rig_expect(&rig, slot++, machine_call, at(compat_start), "call");
	rig_expect(&rig, slot++, at(compat_in), at(compat_32), "far return into 32-bit code");
	rig_expect(&rig, slot++, at(compat_jump), at(compat_loop), "jmp");
	for (unsigned n = 1; n < LOOPS; n++)
		rig_expect(&rig, slot++, at(compat_again), at(compat_loop), "jnz");
	rig_expect(&rig, slot++, at(compat_call), at(compat_callee), "call");
	rig_expect(&rig, slot++, at(compat_callee_ret), at(compat_out), "ret");
	for (size_t n = 1; n < slot; n++)
		EXPECT(upper_half_clear(rig_record(&rig, n)));
	rig_expect(&rig, slot++, at(compat_out), at(compat_back), "far jump into 64-bit code");
	rig_expect(&rig, slot++, at(compat_ret), machine_back, "ret");
	EXPECT_EQ(rig_count(&rig), slot);
	rig_close(&rig);
}

TEST(pebs_compatibility_mode, .group = "PE", .ids = "PE18", .needs = NEED_PEBS,
     .claim = "32-bit code is sampled with records of the same layout",
     .source = "SDM Vol 3, 18.8.1.1 and 17.4.9.1")
{
	struct pebs pebs;
	size_t within = 0;

	map();
	pebs_open(&pebs, 28);
	machine_open();
	pebs_arm(&pebs, 0, pebs.branches ? 1 : 4);
	counters = 1;
	EXPECT_EQ(run(0), LOOPS + 0x100);
	counters = 0;
	machine_close();
	code_unmap(STACK);
	code_unmap(AT);
	for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
		struct pebs_sample sample = pebs_sample(&pebs, slot);

		if (sample.ip < (uint64_t)at(compat_loop) || sample.ip > (uint64_t)at(compat_out))
			continue;
		within++;
		EXPECT_EQ(sample.registers[RSP] >> 32, 0);
		EXPECT((uint32_t)sample.registers[RCX] <= LOOPS);
	}
	test_observe("samples", "%zu in 32-bit code", within);
	EXPECT(within >= 2);
	pebs_close(&pebs);
}
