// SPDX-License-Identifier: MIT
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/programs.h"

#define AT 0x00005a0000002000ul

#define FLAG_IF	  (1u << 9)
#define FLAG_DF	  (1u << 10)
#define FLAG_IOPL (3u << 12)
#define FLAG_NT	  (1u << 14)
#define FLAG_VM	  (1u << 17)
#define FLAG_AC	  (1u << 18)

static uint64_t flags_now(void)
{
	uint64_t flags;

	__asm__ volatile("pushfq; popq %0" : "=r"(flags));
	return flags;
}

/* Runs `code` in ring 3 with all flags asked for but those in `without`. */
static void attempt(uint8_t *page, const char *code, uint64_t without, uint64_t vector)
{
	struct trap_frame frame = {.rip = AT, .rflags = ~without};

	memcpy(page, code, 2);
	REQUIRE(user_run(&frame));
	EXPECT_EQ(flags_now() & (FLAG_TF | FLAG_IF | FLAG_DF | FLAG_IOPL | FLAG_NT | FLAG_AC),
		  FLAG_IF);
	EXPECT_EQ(frame.vector, vector);
	EXPECT_EQ(frame.rflags & (FLAG_IOPL | FLAG_NT | FLAG_VM), 0);
	EXPECT_EQ(frame.rflags & (FLAG_IF | FLAG_DF | FLAG_AC), FLAG_IF | FLAG_DF | FLAG_AC);
	EXPECT_EQ(frame.rflags & FLAG_TF, ~without & FLAG_TF);
	EXPECT_EQ(frame.cs & 3, 3);
}

TEST(user_flags_stay, .group = "process", .ids = "",
     .claim = "ring 3 gets no flag that is the kernel's, and the kernel runs with none of ring 3's",
     .source = "SDM Vol 3, 6.12.1.2 and 6.14; SDM Vol 2, SYSCALL")
{
	uint8_t *page = test_area(1);

	code_map(AT, page, VM_USER);
	attempt(page, "\x0f\x0b", FLAG_TF, VECTOR_UD);
	attempt(page, "\x90\x0b", 0, VECTOR_DB);
	attempt(page, "\x0f\x05", FLAG_TF, VECTOR_SYSCALL);
	attempt(page, "\xcc\x90", FLAG_TF, VECTOR_BP);
	code_unmap(AT);
}

#define MOST 24

/* On a busy host the timer is late and few of them are preempted: a round takes twice the last. */
#define ENOUGH_SWITCHES 10ul /* of each process, beside those of its start and end */
#define OTHER_SWITCHES	5ul
#define MOST_ROUNDS	9

/* How often they were preempted, or more. */
static uint64_t hold_registers(unsigned count, uint64_t milliseconds)
{
	uint64_t first = sched_switch_count(), switches;
	struct process *processes[MOST];

	for (unsigned i = 0; i < count; i++)
		processes[i] = program_start("registers", milliseconds | test_random() << 16);
	for (unsigned i = 0; i < count; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(0));
	switches = sched_switch_count() - first;
	return switches > OTHER_SWITCHES * count ? switches - OTHER_SWITCHES * count : 0;
}

TEST(user_registers_kept, .group = "process", .ids = "",
     .claim =
	     "general, SSE and x87 control registers of a process are its own, whatever runs in between",
     .source = "kernel/trap/user.h")
{
	uint64_t before = programs_begin(), switches = 0;
	unsigned count = 2 * cpu_count() + 1 < MOST ? 2 * cpu_count() + 1 : MOST;
	uint64_t enough = ENOUGH_SWITCHES * count;

	sched_set_slice(100);
	for (unsigned i = 0; i < MOST_ROUNDS && switches < enough; i++)
		switches += hold_registers(count, (test_scaled(100) << i) & 0xffff);
	sched_set_slice(1000);
	EXPECT(switches >= enough);
	programs_end(before);
}

#define CR4_UMIP (1u << 11)
#define CR4_SMEP (1u << 20)
#define CR4_SMAP (1u << 21)

static const uint8_t smsw_eax[] = {0x0f, 0x01, 0xe0, 0x0f, 0x0b}; /* smsw eax; ud2; byte 1 is 1 */

static bool kernel_reads(uint64_t address)
{
	bool done = false;

	__asm__ volatile("1:\ttestb $0, (%1)\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "r"(address)
			 : "cc", "memory");
	return done;
}

static bool kernel_writes(uint64_t address)
{
	bool done = false;

	__asm__ volatile("1:\tmovb $1, (%1)\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "r"(address)
			 : "memory");
	return done;
}

TEST(user_protections, .group = "process", .ids = "",
     .claim = "SMEP, SMAP and UMIP are on where the processor has them, and constants are constant",
     .source = "SDM Vol 3, 2.5 and 4.6")
{
	struct cpuid_result features = {0};
	struct trap_frame frame = {.rip = AT};
	uint8_t *page = test_area(1);
	uint64_t cr4;

	if (cpuid(0, 0).eax >= 7)
		features = cpuid(7, 0);
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	EXPECT_EQ(!!(cr4 & CR4_SMEP), features.ebx >> 7 & 1);
	EXPECT_EQ(!!(cr4 & CR4_SMAP), features.ebx >> 20 & 1);
	EXPECT_EQ(!!(cr4 & CR4_UMIP), features.ecx >> 2 & 1);
	EXPECT(!kernel_writes((uint64_t)&smsw_eax[1]));

	memcpy(page, smsw_eax, sizeof(smsw_eax));
	code_map(AT, page, VM_USER);
	EXPECT_EQ(kernel_reads(AT), !(cr4 & CR4_SMAP));
	REQUIRE(user_run(&frame));
	EXPECT_EQ(frame.vector, cr4 & CR4_UMIP ? VECTOR_GP : VECTOR_UD);
	code_unmap(AT);
}
