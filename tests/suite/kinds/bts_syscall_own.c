/* SPDX-License-Identifier: MIT */
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/exact.h"

#define IA32_LSTAR 0xc0000082u
#define AT	   0x00005a0000001000ul
#define SYSCALL_AT (AT + 4)

/* In ring 3: JMP over an UD2 to SYSCALL. */
static const uint8_t code[] = {0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05};

extern const char own_sysret[], own_syscall[], own_jump[], own_jump_to[];

/* To ring 3 by SYSRET, and back by SYSCALL to a handler whose branches are known. */
static __attribute__((noinline)) uint64_t trace(uint64_t debugctl)
{
	uint64_t seen = 0;

	TRACED_WITH(debugctl,
		    "movq %%rsp, %%r12\n\tmovq %[at], %%rcx\n\tmovl $2, %%r11d\n\tswapgs\n"
		    "own_sysret: sysretq\n\tud2\n"
		    "own_syscall: swapgs\n\tmovq %%r12, %%rsp\n"
		    "own_jump: jmp own_jump_to\n\tud2\n"
		    "own_jump_to: movl $0x1d9, %%ecx\n\trdmsr\n\t"
		    "shlq $32, %%rdx\n\torq %%rax, %%rdx\n\tmovq %%rdx, %[seen]\n\t",
		    AND([seen] "=&r"(seen)), AND([at] "r"(AT)), "r11", "r12");
	return seen;
}

/* SYSCALL and SYSRET themselves may be left out: bts_syscall_sysret. */
static void check(struct rig *rig, uint64_t debugctl, bool user, bool kernel)
{
	size_t slot = 0;
	uint64_t seen = 0, lstar = rdmsr(IA32_LSTAR);

	EXACTLY (rig) {
		wrmsr(IA32_LSTAR, (uint64_t)own_syscall);
		seen = trace(debugctl);
		wrmsr(IA32_LSTAR, lstar);
	}
	EXPECT_EQ(seen, debugctl);
	if (rig_record(rig, slot).from == (uint64_t)own_sysret)
		rig_expect(rig, slot++, own_sysret, (void *)AT, "sysret");
	if (user)
		rig_expect(rig, slot++, (void *)AT, (void *)SYSCALL_AT, "jmp in ring 3");
	if (rig_record(rig, slot).from == SYSCALL_AT)
		rig_expect(rig, slot++, (void *)SYSCALL_AT, own_syscall, "syscall");
	if (kernel)
		rig_expect(rig, slot++, own_jump, own_jump_to, "jmp behind the syscall");
	EXPECT_EQ(rig_count(rig), slot);
}

TEST(bts_syscall_goes_on, .group = "K", .ids = "K7", .needs = NEED_BTS,
     .claim =
	     "SYSRET and SYSCALL leave IA32_DEBUGCTL alone, and the first branch behind each is recorded",
     .source = "SDM Vol 3, 17.4.4 and table 35-2: each taken branch, 1D9H")
{
	uint8_t *page = test_area(1);
	struct rig rig;

	memcpy(page, code, sizeof(code));
	rig_open(&rig, 16);
	code_map(AT, page, VM_USER);
	check(&rig, rig_interrupt(), true, true);
	if (ds_caps()->filters) {
		check(&rig, rig_all() | ds_configuration->off_usr, false, true);
		check(&rig, rig_all() | ds_configuration->off_os, true, false);
	}
	code_unmap(AT);
	rig_close(&rig);
}
