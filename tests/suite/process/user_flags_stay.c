// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"

#define AT 0x00005a0000002000ul

#define FLAG_TF	  (1u << 8)
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
