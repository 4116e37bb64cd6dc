// SPDX-License-Identifier: MIT
#include "kernel/trap/extable.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"

extern const char software_int3[], software_int3_next[], software_int_n[], software_int_n_next[],
	software_icebp[], software_icebp_next[];

static void trace_int3(void)
{
	TRACED(rig_all(), "software_int3: int3\nsoftware_int3_next:\n\t");
}

static void trace_int_n(void)
{
	TRACED(rig_all(), "software_int_n: int $0x30\nsoftware_int_n_next:\n\t");
}

static void trace_icebp(void)
{
	TRACED(rig_all(), "software_icebp: .byte 0xf1\nsoftware_icebp_next:\n\t");
}

static const char *from_word(uint64_t actual, const char *from, const char *next)
{
	if (actual == (uint64_t)from)
		return "from_instruction";
	return actual == (uint64_t)next ? "from_next" : "from_elsewhere";
}

/*
 * Which address stands as `from` is known to differ between processors, and whether there is a
 * record at all is not written; that it leads to the handler, and the way back, is.
 */
static void observe(const char *key, unsigned vector, void (*trace)(void), const char *from,
		    const char *next)
{
	struct rig rig;
	size_t count;

	rig_open(&rig, 16);
	own_idt_copy();
	own_idt_set(vector, own_handler_return, false);
	EXACTLY (&rig) {
		own_idt_load();
		trace();
		own_idt_unload();
	}
	count = rig_count(&rig);
	EXPECT(count == 1 || count == 2);
	if (count == 2) {
		struct bts_struct record = rig_record(&rig, 0);

		EXPECT_EQ(record.to, own_handler_return);
		test_observe(key, "%s", from_word(record.from, from, next));
	} else {
		test_observe(key, "not_recorded");
	}
	rig_expect(&rig, count - 1, own_handler_return, next, "iretq");
	rig_close(&rig);
}

/* The vector that INT1 (F1H) raises: #DB behind it, or on QEMU's translator #UD at it. */
static uint64_t int1_vector(void)
{
	__asm__ volatile("1:\t.byte 0xf1\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b") EXCEPTION_TABLE("2b", "2b")
			 :
			 :
			 : "memory");
	return trap_caught().vector;
}

static const char *int1_outcome(uint64_t vector)
{
	return vector == VECTOR_DB ? "debug_exception" : "undefined_opcode";
}

TEST(int1_raises_db, .group = "K", .ids = "K4", .needs = 0,
     .claim = "INT1 raises #DB; an emulator may not know it and raise #UD",
     .source = "SDM Vol 2, opcode map")
{
	uint64_t vector = int1_vector();

	EXPECT(vector == VECTOR_DB || vector == VECTOR_UD);
	test_observe("int1_raises", "%s", int1_outcome(vector));
}

TEST(bts_software_interrupts, .group = "K", .ids = "K4", .needs = NEED_BTS,
     .claim = "INT3, INT n and INT1, where recorded, lead to the handler, and IRETQ leads back",
     .source = "SDM Vol 3, 17.4.4: taken branch, interrupt, or exception")
{
	observe("int3", VECTOR_BP, trace_int3, software_int3, software_int3_next);
	observe("int_n", VECTOR_TEST, trace_int_n, software_int_n, software_int_n_next);
	if (int1_vector() != VECTOR_DB) {
		test_observe("int1", "%s", int1_outcome(int1_vector()));
		return;
	}
	observe("int1", VECTOR_DB, trace_icebp, software_icebp, software_icebp_next);
}
