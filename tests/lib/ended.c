// SPDX-License-Identifier: MIT
#include "tests/lib/ended.h"

#include "kernel/cpu.h"
#include "lib/string.h"
#include "tests/lib/rig.h"

#define POISON 0xe5

static void run_another(const struct walker *ended)
{
	struct walker another = {.name = "another",
				 .chain = walker_other_chain(ended->chain),
				 .walks = 20,
				 .options = walker_options(1024, 512, 8192)};

	walkers_start(&another, 1);
	walkers_join(&another, 1);
	walkers_check(&another, 1);
}

static void expect_untouched(const struct trace_context *context, const uint8_t fields[])
{
	const uint8_t *buffer = context->buffer;
	size_t bytes = context->options.records * ds_configuration->record_size, whole = 0;

	while (whole < bytes && buffer[whole] == POISON)
		whole++;
	EXPECT_EQ(whole, bytes);
	EXPECT(!memcmp(context->area, fields, DS_AREA_SIZE));
}

void ended_expect(struct walker *walker)
{
	struct trace_context *context = walker->context;
	uint8_t fields[DS_AREA_SIZE];

	EXPECT(walker->task->ended);
	EXPECT(!context->task);
	EXPECT(!context->lease.cpu);
	EXPECT(rdmsr(IA32_DS_AREA) != (uint64_t)context->area);
	walker_read(walker);
	EXPECT(!context->truncated);
	EXPECT_EQ(context->ring.lost, 0);
	EXPECT(walker->reader.walk > 0);
	EXPECT_EQ(walker->reader.wrong, 0);
	memset(context->buffer, POISON, context->options.records * ds_configuration->record_size);
	memcpy(fields, context->area, sizeof(fields));
	run_another(walker);
	expect_untouched(context, fields);
	walker_end(walker);
	run_another(walker);
}
