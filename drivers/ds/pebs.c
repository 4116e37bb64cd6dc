// SPDX-License-Identifier: MIT
/* The only file that writes IA32_PEBS_ENABLE; a test that holds the MSRs writes it by wrmsr(). */
#include "drivers/ds/pebs.h"

#include "drivers/ds/private.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "lib/string.h"

enum { ALIGNMENT = 64, FORMAT_0_BYTES = 4096 }; /* Core 2 takes no more: reference B4 */

/* With PEBS_BASELINE: the general counters, and fixed counter 0, of instructions, whose reset value
   follows those of eight general ones (Linux 6.1, perf_event.h). */
#define FIXED_0		     32
#define COUNTERS_OF_ADAPTIVE (1ull << FIXED_0 | 0xff)
enum { RESET_OF_FIXED_0 = 8 };
enum { GROUPS_BYTES = 0x20 + 0x90 }; /* PEBS_DATA_CFG: memory and registers */
enum { ENTRY_BYTES = 24 };

/* SDM Vol 3, tables 18-10, 18-12, 18-26 and 18-43. Format 4: its basic group. */
static const size_t record_sizes[] = {144, 176, 192, 200, 0x20};

size_t ds_pebs_record_size_with(unsigned branches)
{
	const struct ds_caps *caps = ds_caps();
	size_t formats = sizeof(record_sizes) / sizeof(record_sizes[0]);

	if (!caps->pebs || caps->pebs_format >= formats ||
	    branches > (caps->pebs_baseline ? DS_PEBS_BRANCHES : 0))
		return 0;
	return record_sizes[caps->pebs_format] + (caps->pebs_baseline ? GROUPS_BYTES : 0) +
	       branches * ENTRY_BYTES;
}

/* With PEBS_BASELINE every counter can. */
uint64_t ds_pebs_counters(void)
{
	if (!ds_pebs_record_size())
		return 0;
	return ds_caps()->pebs_baseline ? COUNTERS_OF_ADAPTIVE : ds_configuration->pebs_counters;
}

const char *ds_pebs_holder(const struct ds_cpu *cpu)
{
	return cpu->pebs ? cpu->pebs->name : NULL;
}

static unsigned char *half(uint64_t area)
{
	return (unsigned char *)(uintptr_t)area +
	       DS_PEBS_BUFFER_BASE * ds_configuration->field_size;
}

#define HALF_BYTES (DS_AREA_SIZE - DS_PEBS_BUFFER_BASE * ds_configuration->field_size)

static void *area_of(const struct ds_cpu *cpu)
{
	return (void *)(uintptr_t)cpu->area;
}

/* A record under way still goes to the old place: wait until the index rests (SDM Vol 3, 18.4.4.4).
 */
void ds_pebs_pause(const struct ds_cpu *cpu)
{
	uint64_t index;

	if (!cpu->pebs || !cpu->pebs->counters)
		return;
	wrmsr(IA32_PEBS_ENABLE, 0);
	do
		index = ds_get(area_of(cpu), DS_PEBS_INDEX);
	while (index != ds_get(area_of(cpu), DS_PEBS_INDEX));
}

void ds_pebs_quiesce(void)
{
	uint64_t enable = 0;

	if (rdmsr_safe(IA32_PEBS_ENABLE, &enable) && enable)
		wrmsr_safe(IA32_PEBS_ENABLE, 0);
}

static uint64_t enable_of(uint64_t counters)
{
	return counters && ds_configuration->pebs_enable ? ds_configuration->pebs_enable : counters;
}

void ds_pebs_resume(const struct ds_cpu *cpu)
{
	if (cpu->pebs && cpu->pebs->counters && !cpu->pebs->overflowed)
		wrmsr(IA32_PEBS_ENABLE, enable_of(cpu->pebs->counters));
}

void ds_pebs_move(const struct ds_cpu *cpu, uint64_t to)
{
	if (!cpu->pebs)
		return;
	memcpy(half(to), half(cpu->area), HALF_BYTES);
	memset(half(cpu->area), 0, HALF_BYTES);
}

static int check_request(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease,
			 const struct ds_pebs_request *request, size_t record)
{
	size_t records = record ? request->bytes / record : 0;
	uint64_t end;

	if (!record)
		return -ENODEV;
	if (!request->tell)
		return -EOPNOTSUPP;
	if (lease->cpu || cpu->pebs || ds_is_lent(cpu))
		return -EBUSY;
	if (!request->buffer || (uintptr_t)request->buffer % ALIGNMENT || records < 2 ||
	    !request->margin || request->margin >= records ||
	    (!ds_caps()->pebs_format && request->bytes > FORMAT_0_BYTES) ||
	    __builtin_add_overflow((uintptr_t)request->buffer, request->bytes + 1, &end))
		return -EINVAL;
	return 0;
}

int ds_request_pebs(struct ds_cpu *cpu, struct ds_pebs_lease *lease,
		    const struct ds_pebs_request *request)
{
	uint64_t base = (uintptr_t)request->buffer;
	size_t record = ds_pebs_record_size_with(request->branches);
	uint64_t groups = PEBS_DATA_CFG;
	int error = check_request(cpu, lease, request, record);

	if (error)
		return error;
	ds_set(area_of(cpu), DS_PEBS_BUFFER_BASE, base);
	ds_set(area_of(cpu), DS_PEBS_INDEX, base);
	ds_set(area_of(cpu), DS_PEBS_ABSOLUTE_MAXIMUM, base + request->bytes / record * record + 1);
	ds_set(area_of(cpu), DS_PEBS_INTERRUPT_THRESHOLD,
	       base + (request->bytes / record - request->margin) * record);
	*lease = (struct ds_pebs_lease){.cpu = cpu,
					.record = record,
					.name = request->name,
					.tell = request->tell,
					.argument = request->argument};
	cpu->pebs = lease;
	if (request->branches)
		groups |= PEBS_DATA_CFG_LBRS | PEBS_DATA_CFG_ENTRIES(request->branches);
	if (ds_caps()->pebs_baseline && rdmsr(MSR_PEBS_DATA_CFG) != groups)
		wrmsr(MSR_PEBS_DATA_CFG, groups);
	return 0;
}

static int check_holder(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease)
{
	if (!lease->cpu)
		return -EINVAL;
	return lease->cpu == cpu ? 0 : -EPERM;
}

int ds_release_pebs(struct ds_cpu *cpu, struct ds_pebs_lease *lease)
{
	int error = check_holder(cpu, lease);

	if (error)
		return error;
	ds_pebs_pause(cpu);
	memset(half(cpu->area), 0, HALF_BYTES);
	cpu->pebs = NULL;
	*lease = (struct ds_pebs_lease){.cpu = NULL};
	return 0;
}

int ds_pebs_start(struct ds_cpu *cpu, struct ds_pebs_lease *lease, uint64_t counters)
{
	int error = check_holder(cpu, lease);

	if (error)
		return error;
	if (counters & ~ds_pebs_counters())
		return -EINVAL;
	ds_pebs_pause(cpu);
	lease->counters = counters;
	ds_pebs_resume(cpu);
	return 0;
}

int ds_set_pebs_reset(struct ds_cpu *cpu, struct ds_pebs_lease *lease, unsigned counter,
		      uint64_t value)
{
	int error = check_holder(cpu, lease);

	if (error)
		return error;
	if (counter >= 64 || !(ds_pebs_counters() >> counter & 1))
		return -EINVAL;
	ds_set(area_of(cpu),
	       DS_PEBS_COUNTER_RESET + (counter == FIXED_0 ? RESET_OF_FIXED_0 : counter), value);
	return 0;
}

long ds_get_pebs_index(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease)
{
	int error = check_holder(cpu, lease);
	uint64_t bytes;

	if (error)
		return error;
	bytes = ds_get(area_of(cpu), DS_PEBS_INDEX) - ds_get(area_of(cpu), DS_PEBS_BUFFER_BASE);
	return (long)(bytes / lease->record);
}

const void *ds_read_pebs(const struct ds_cpu *cpu, const struct ds_pebs_lease *lease, size_t at)
{
	long count = ds_get_pebs_index(cpu, lease);

	if (count < 0 || at >= (size_t)count)
		return NULL;
	return (const void *)(uintptr_t)(ds_get(area_of(cpu), DS_PEBS_BUFFER_BASE) +
					 at * lease->record);
}

void ds_pebs_interrupt(struct ds_cpu *cpu)
{
	struct ds_pebs_lease *lease = cpu->pebs;

	if (!lease || lease->overflowed ||
	    ds_get(area_of(cpu), DS_PEBS_INDEX) < ds_get(area_of(cpu), DS_PEBS_INTERRUPT_THRESHOLD))
		return;
	ds_pebs_pause(cpu);
	lease->overflowed = true;
	lease->tell(lease, lease->argument);
}
