// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "kernel/process/program.h"
#include "lib/string.h"
#include "tests/lib/programs.h"

#define PROGRAM_HEADERS 64 /* behind the ELF header; each 56 bytes */
#define FLAGS		4  /* offsets in one */
#define ADDRESS		16
#define MEMORY_SIZE	40

static uint8_t *copy;
static size_t size;

static int load(size_t bytes)
{
	struct space space;
	uint64_t entry;
	int error;

	REQUIRE_EQ(space_create(&space), 0);
	error = program_load(&space, copy, bytes, &entry);
	space_destroy(&space);
	return error;
}

/* What loading says with one number of program header `segment` changed. */
static int load_with(unsigned segment, unsigned offset, uint64_t value, size_t bytes)
{
	uint8_t *at = copy + PROGRAM_HEADERS + segment * 56 + offset;
	uint64_t saved;
	int error;

	memcpy(&saved, at, bytes);
	memcpy(at, &value, bytes);
	error = load(size);
	memcpy(at, &saved, bytes);
	return error;
}

static void load_random_damage(void)
{
	size_t at = test_random() % size;
	uint8_t saved = copy[at];

	copy[at] = (uint8_t)test_random();
	load(size);
	copy[at] = saved;
}

TEST(user_bad_elf, .group = "process", .ids = "",
     .claim = "an executable that asks for what no program may have is refused, and leaves nothing",
     .source = "kernel/process/program.h")
{
	const struct program *program = program_find("hello");
	uint64_t before;

	REQUIRE(program != NULL);
	size = program->size;
	copy = test_area(size / PAGE_SIZE + 1);
	before = programs_begin();
	memcpy(copy, program->image, size);
	EXPECT_EQ(load(size), 0);
	EXPECT_EQ(load(63), -ENOEXEC);
	EXPECT_EQ(load_with(0, FLAGS, 7, 4), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0x400000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0x00007ffffffff000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0x0000800000000000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0xffffffff80100000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, MEMORY_SIZE, 1ul << 40, 8), -ENOMEM);
	for (uint64_t i = 0; i < test_scaled(3000); i++)
		load_random_damage();
	EXPECT_EQ(load(size), 0);
	programs_end(before);
}
