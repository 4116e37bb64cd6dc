/* SPDX-License-Identifier: MIT */
/*
 * How a conformance test is written: one claim a TEST(), found by the linker, run as a separate
 * task, with ON_EACH_CPU on two CPUs one after the other.
 *
 *	TEST(bts_wrap_half, .group = "W", .ids = "W1", .needs = NEED_BTS,
 *	     .claim = "N/2 branches move the index half way and leave the other slots alone",
 *	     .source = "SDM Vol 3, 17.4.9.2")
 *	{
 *		EXPECT_EQ(bts_index(&rig), rig.base + 8 * RECORD);
 *	}
 *
 * A name is a promise: it is [a-z0-9_]+, never reused, never changed. A test that returns without
 * having checked or observed anything is an ERROR.
 */
#pragma once

#include "kernel/mm/page.h"
#include "kernel/trap/trap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The needs of a test; without one of them it is a SKIP that names it. */
enum {
	NEED_BTS = 1u << 0,	 /* the probe found a Branch Trace Store that works */
	NEED_DS = 1u << 1,	 /* CPUID.1:EDX[21] */
	NEED_DTES64 = 1u << 2,	 /* CPUID.1:ECX[2] */
	NEED_DSCPL = 1u << 3,	 /* CPUID.1:ECX[4] */
	NEED_LA57 = 1u << 4,	 /* CPUID.7.0:ECX[16] */
	NEED_NO_DS = 1u << 5,	 /* the opposite: what must hold where DS is hidden */
	NEED_UNSAFE = 1u << 6,	 /* can hang a host: on virtual silicon, or with unsafe=1 */
	NEED_SMP = 1u << 8,	 /* more than one CPU */
	NEED_PEBS = 1u << 9,	 /* PEBS of a 64-bit DS area, BTS or not */
	NEED_SAMPLES = 1u << 11, /* samples of the kernel's: PEBS, and counters of version 1 on */
	NEED_PT = 1u << 10,	 /* Intel Processor Trace with output through ToPA */
	NEED_LBR = 1u << 12,	 /* an LBR stack that the kernel knows */
	NEED_UNIT = 1u << 13,	 /* any trace unit: BTS, SAMPLES, PT or LBR */
	NEED_SELFTEST = 1u << 7, /* breaks the run on purpose: only when named in test= */
	/* No need: the test runs again on another CPU, the first or the last, of the same kind. */
	ON_EACH_CPU = 1u << 14,
};

struct task;
struct test {
	const char *name;
	const char *group;  /* the letter of reference group, or a word */
	const char *ids;    /* assertion ids, separated by blanks; "" if none */
	const char *claim;  /* one sentence: the rule that is checked */
	const char *source; /* where the rule is */
	unsigned needs;
	void (*run)(void);
};

/* What TEST() leaves in the image, 32 bits each: addresses are offsets from KERNEL_BASE. */
struct test_row {
	uint32_t name, group, ids, claim, source, run, needs;
};

/* C has no constant of half an address, the assembler has. The linker drops the function around. */
#define TEST(test_name, ...)                                                                       \
	static void test_name(void);                                                               \
	__attribute__((section(".discarded"), used)) static void test_name##_row(void)             \
	{                                                                                          \
		static const struct test test = {                                                  \
			.name = #test_name, .run = test_name, __VA_ARGS__};                        \
                                                                                                   \
		TEST_ROW(#test_name, test);                                                        \
	}                                                                                          \
	static void test_name(void)

#define TEST_ROW(text, test)                                                                       \
	__asm__(".pushsection .tests." text ", \"a\"\n\t"                                          \
		".long %c0 - %c7, %c1 - %c7, %c2 - %c7, %c3 - %c7, %c4 - %c7, %c5 - %c7, %c6\n\t"  \
		".popsection" ::"i"(test.name),                                                    \
		"i"(test.group), "i"(test.ids), "i"(test.claim), "i"(test.source), "i"(test.run),  \
		"i"(test.needs), "i"(KERNEL_BASE))

/* Checks. A failed EXPECT is printed with both values and the test goes on; REQUIRE ends it. */
#define EXPECT(condition)                                                                          \
	({                                                                                         \
		bool holds_ = (condition);                                                         \
		check_here(holds_, CHECK_PLACE(#condition));                                       \
	})
#define REQUIRE(condition) test_require(EXPECT(condition))
#define EXPECT_EQ(actual, expected)                                                                \
	({                                                                                         \
		uint64_t expected_ = (uint64_t)(expected), actual_ = (uint64_t)(actual);           \
		check_equal_here(actual_, expected_, CHECK_PLACE(#actual " == " #expected));       \
	})
#define REQUIRE_EQ(actual, expected) test_require(EXPECT_EQ(actual, expected))

/*
 * A check that may fail on a processor with the erratum `id` (needs.c), as the erratum says and no
 * further: the test is XFAIL there, and FAIL on any other.
 */
#define EXPECT_OR_ERRATUM(condition, id)                                                           \
	test_check_erratum((condition), id, CHECK_PLACE(#condition), __BASE_FILE__)

/*
 * A check's text, as its offset in .check_texts, and its line in the ten bits above: thousands of
 * checks load both by one instruction of five bytes. The linker refuses a higher line. Nothing that
 * a check compares is evaluated after it, since it would need a register meanwhile.
 * What is loaded are the texts as tools/symbols packs them. GCC's own flags of a section go by, so
 * that the linker keeps equal texts once.
 */
#define CHECK_PLACE(text)                                                                          \
	({                                                                                         \
		static const char __attribute__((section(CHECK_TEXTS), aligned(1))) text_[] =      \
			text;                                                                      \
		uint32_t place_;                                                                   \
		__asm__("movl $%c1 + (%c2 << 22), %0" : "=r"(place_) : "i"(text_), "i"(__LINE__)); \
		place_;                                                                            \
	})
#ifdef __clang__
#define CHECK_TEXTS ".check_texts"
#else
#define CHECK_TEXTS ".check_texts,\"MS\",@progbits,1#"
#endif

/*
 * Written by tools/symbols: of each string of .check_texts its length, without the zero byte, the
 * bytes that it is packed in, and these, packed as kernel/symbols.h says.
 */
#define CHECK_TEXT_SIZE 256 /* of the longest, with the zero byte, at most */
extern const uint8_t check_texts[];

/* `path` is the file of the test, of which the last part is printed. */
bool test_check_erratum(bool holds, const char *id, uint32_t place, const char *path);
bool test_check(bool holds, uint32_t place, const char *path);
bool test_check_equal(uint64_t actual, uint64_t expected, uint32_t place, const char *path);

/* One function a file, so that thousands of checks do not load its path into a register each. */
__attribute__((noinline, unused)) static bool check_here(bool holds, uint32_t place)
{
	return test_check(holds, place, __BASE_FILE__);
}

__attribute__((noinline, unused)) static bool check_equal_here(uint64_t actual, uint64_t expected,
							       uint32_t place)
{
	return test_check_equal(actual, expected, place, __BASE_FILE__);
}

void test_require(bool holds);

/* The test or its environment is wrong, not the thing under test. Ends the test. */
_Noreturn void test_error(const char *template, ...) __attribute__((format(printf, 1, 2)));

/* Ends the test: this machine lacks something that no need names. */
_Noreturn void test_skip(const char *template, ...) __attribute__((format(printf, 1, 2)));

/*
 * Ends the test: in the time that it had this machine did too little of it. A SKIP, counted as
 * slow= in the DONE line.
 */
_Noreturn void test_slow(const char *template, ...) __attribute__((format(printf, 1, 2)));

/*
 * Half of what timeout= gives a test, in seconds: where its work takes longer, or it waits for
 * chance, it ends then. True as long as this test has not run for that.
 */
uint64_t test_seconds(void);
bool test_has_time(void);

/*
 * A measured behaviour that no manual fixes (class S): a line `# obs key=value`. A test that only
 * observes ends as OBS; one that also checks ends as PASS or FAIL.
 */
void test_observe(const char *key, const char *template, ...) __attribute__((format(printf, 2, 3)));

/* A line of diagnosis, `# ...`. */
void test_note(const char *template, ...) __attribute__((format(printf, 1, 2)));

/* A figure of this machine: `# bench name=... val=... unit=...`. Counts as an observation. */
void test_figure(const char *name, uint64_t value, const char *unit);

/* After the name in a declaration: `close` gets the address of what is declared where its block
 * ends. */
#define CLOSED_BY(close) __attribute__((cleanup(close), unused))

/* An area of zeroed pages that is freed when the test is over, however it ends. */
void *test_area(size_t pages);

/* Has `handler` asked at NMIs, instead of the one before, until the test is over, however it ends;
 * NULL: none. */
void test_handle_nmis(nmi_handler handler);

/* Keeps the test, and the tasks that it creates from here on, on the CPU that it runs on, or on the
 * one to which it goes. */
void test_pin(void);
void test_go_to(size_t cpu);

/* Keeps `task` on `cpu`. */
void test_keep_on(struct task *task, size_t cpu);

/* A task that task_start() begins: without the memory for it the test is an ERROR. One that is not
   given back at the test's end is ended. These are for the test's own task alone. */
struct task *test_task(const char *name, void (*entry)(void *argument), void *argument);

/* task_put() of such a task, at once or once it has ended. */
void test_task_put(struct task *task);
void test_task_end(struct task *task);

/* `amount` of work times scale=, one at least. */
uint64_t test_scaled(uint64_t amount);

/*
 * Microseconds that the test may wait, so that its deadline leaves it the time to say what for. A
 * test that has used its time up has a twelfth of it for each wait.
 */
uint64_t test_time_left(void);

/* System management interrupts of this CPU so far; always 0 where no MSR counts them. Any context.
 */
uint64_t smi_count(void);

/* The processor lost what it may lose at any time: if the test fails it runs again. Any context. */
void test_disturbed(void);

/* The next number of the run's pseudo-random sequence; its seed is in the banner. */
uint64_t test_random(void);
