// SPDX-License-Identifier: MIT
#include "tests/lib/ended.h"

#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "lib/string.h"
#include "tests/lib/rig.h"

#define POISON 0xe5

static uint8_t *buffer_of(const struct tracer *tracer)
{
	return (uint8_t *)ds_get(tracer->ring.area, DS_BTS_BUFFER_BASE);
}

static void run_another(const struct walker *ended)
{
	struct walker another = {.name = "another",
				 .chain = walker_other_chain(ended->chain),
				 .walks = 20,
				 .options = walker_options(8192)};

	walkers_start(&another, 1);
	walkers_join(&another, 1);
	walkers_check(&another, 1);
}

static void expect_untouched(const struct tracer *tracer, const uint8_t fields[])
{
	const uint8_t *buffer = buffer_of(tracer);
	size_t bytes = ds_get_bts_size(tracer->ring.area), whole = 0;

	while (whole < bytes && buffer[whole] == POISON)
		whole++;
	EXPECT_EQ(whole, bytes);
	EXPECT(!memcmp(tracer->ring.area, fields, DS_AREA_SIZE));
}

void ended_expect(struct walker *walker)
{
	struct tracer *tracer = walker->tracer;
	struct trace_status status;
	uint8_t fields[DS_AREA_SIZE];

	EXPECT(walker->task->ended);
	EXPECT(!tracer->context->task);
	EXPECT(!tracer->context->cpu);
	EXPECT(!tracer->lease.cpu);
	EXPECT(rdmsr(IA32_DS_AREA) != (uint64_t)tracer->ring.area);
	trace_status(tracer, &status);
	EXPECT(status.ended);
	EXPECT(!status.truncated);
	EXPECT(!status.full);
	EXPECT_EQ(status.lost, 0);
	walker_read(walker);
	EXPECT(walker->reader.walk > 0);
	EXPECT_EQ(walker->reader.wrong, 0);
	memset(buffer_of(tracer), POISON, ds_get_bts_size(tracer->ring.area));
	memcpy(fields, tracer->ring.area, sizeof(fields));
	run_another(walker);
	expect_untouched(tracer, fields);
	walker_end(walker);
	run_another(walker);
}
