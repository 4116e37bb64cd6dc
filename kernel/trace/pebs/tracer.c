// SPDX-License-Identifier: MIT
// A tracer with its buffer, what it is charged, and what of a sample it may see.
#include "drivers/lbr/lbr.h"
#include "kernel/mm/page.h"
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/memory.h"
#include "kernel/trace/pebs/private.h"
#include "lib/string.h"

/* Keeps every product of sizes far from overflow. */
#define MOST_SAMPLES (1ul << 24)

/*
 * The shorter period after a late sample has an event. Of the kernel's events a sample causes
 * hundreds itself: a CPU that takes them more often gets nowhere.
 */
#define LEAST_PERIOD	    2
#define LEAST_KERNEL_PERIOD 2000

_Static_assert(sizeof(struct pebs_tracer) <= PAGE_SIZE, "one page");

static unsigned existing_branches(unsigned wanted)
{
	return wanted < lbr_caps()->depth ? wanted : lbr_caps()->depth;
}

size_t pebs_sample_size(unsigned branches)
{
	return sizeof(struct ptrace_pebs_sample) +
	       existing_branches(branches) * sizeof(struct ptrace_pebs_branch);
}

static size_t unit_of(const struct pebs_options *options)
{
	return options->count ? sizeof(uint64_t) : pebs_sample_size(options->branches);
}

/* Samples that may be on their way when a tracer reaches its threshold. */
static size_t slots_beyond(const struct pebs_options *options)
{
	return options->overflow == TRACE_SIGNAL ? STAGING_MOST : 0;
}

static int check_overflow(const struct pebs_options *options)
{
	if (options->overflow > TRACE_STOP)
		return -EINVAL;
	return options->overflow == TRACE_WRAP ||
			       (options->overflow == TRACE_SIGNAL && !options->overflowed)
		       ? -EOPNOTSUPP
		       : 0;
}

/* Of none there are no kinds, and a count has none. */
static int check_branches(const struct pebs_options *options)
{
	if (!options->branches || options->count)
		return options->branches || options->kinds || options->call_stack ? -EINVAL : 0;
	return lbr_caps()->depth && (options->interrupt || ds_pebs_record_size_with(1))
		       ? 0
		       : -EOPNOTSUPP;
}

/* Of those that have a slot. */
static uint64_t existing_counters(const struct pebs_options *options)
{
	uint64_t general = (1ull << pmu_caps()->general) - 1,
		 fixed = (1ull << pmu_caps()->fixed) - 1;
	uint64_t slots = ((1ull << PEBS_FIXED) - 1) << PMU_FIXED | 0xff;

	return (general | fixed << PMU_FIXED) & slots &
	       (pebs_is_precise(options) ? ds_pebs_counters() : slots);
}

/* Chooses among the counters. The named ones have to exist, and one of them to take the event. */
static int choose_counters(const struct pebs_options *options, const struct pebs_event *event,
			   uint64_t *counters)
{
	uint64_t existing = existing_counters(options);
	uint64_t wanted = options->counters ? options->counters : existing;

	*counters = wanted & event->counters;
	return wanted & ~existing || !*counters ? -EINVAL : 0;
}

static bool is_period(const struct pebs_options *options)
{
	if (options->count)
		return !options->period && options->overflow == TRACE_STOP && !options->interrupt;
	return pebs_distance(options) <= PMU_LARGEST_PERIOD &&
	       options->period >=
		       (options->view & TRACE_KERNEL ? LEAST_KERNEL_PERIOD : LEAST_PERIOD);
}

static int check_options(const struct pebs_options *options, struct pebs_event *event,
			 uint64_t *counters)
{
	size_t samples = options->size / unit_of(options);
	int error;

	if (pebs_is_precise(options) ? !pebs_present() : !pmu_caps()->version)
		return -ENODEV;
	if (options->view & ~(unsigned)(TRACE_USER | TRACE_KERNEL) || samples < 1 ||
	    samples > MOST_SAMPLES || options->threshold > samples || !is_period(options))
		return -EINVAL;
	error = pebs_find_event(options, event);
	if (!error)
		error = choose_counters(options, event, counters);
	if (!error)
		error = check_overflow(options);
	if (!error)
		error = check_branches(options);
	if (!error && options->view & TRACE_KERNEL && !options->privileged)
		error = -EPERM;
	return error;
}

static size_t buffer_bytes(const struct pebs_options *options)
{
	return (options->size / unit_of(options) + slots_beyond(options)) * unit_of(options);
}

/* Charged; cuts options->size to what is left if it may. A tracer of branches has another page. */
static struct pebs_tracer *new_tracer(struct pebs_options *options)
{
	struct pebs_options smallest = *options;
	size_t unit = unit_of(options);
	struct trace_size size = {.account = options->account,
				  .replaces = options->replaces,
				  .pages = options->branches ? 2 : 1};
	struct tracer *tracer;

	if (options->cut_size)
		smallest.size = unit;
	size.bytes = buffer_bytes(options);
	size.least = buffer_bytes(&smallest);
	tracer = trace_new_page(TRACE_PEBS, &size);
	options->size = (size.bytes / unit - slots_beyond(options)) * unit;
	return pebs_of(tracer);
}

int pebs_create(const struct pebs_options *options, struct pebs_tracer **result)
{
	struct pebs_options settled = *options;
	struct pebs_event event;
	uint64_t counters;
	struct pebs_tracer *tracer;
	size_t unit = unit_of(options);
	int error = check_options(options, &event, &counters);

	if (error)
		return error;
	tracer = new_tracer(&settled);
	if (!tracer)
		return -ENOMEM;
	if (!settled.view)
		settled.view = TRACE_USER;
	settled.branches = existing_branches(settled.branches);
	if (!settled.threshold || settled.threshold > settled.size / unit)
		settled.threshold = settled.size / unit;
	settled.replaces = NULL;
	settled.holder = NULL;
	*tracer = (struct pebs_tracer){
		.base = tracer->base,
		.options = settled,
		.event = event,
		.counters = counters,
		.unit = unit,
		.slots = buffer_bytes(&settled) / unit,
		.memory = trace_memory_alloc(buffer_bytes(&settled)),
		.left = settled.count ? PMU_LARGEST_PERIOD : pebs_distance(&settled),
	};
	tracer->base.overflowed = settled.overflowed;
	tracer->base.argument = settled.argument;
	tracer->owner.name = tracer->name;
	tracer->owner.overflowed = settled.interrupt ? pebs_interrupted : NULL;
	if (!tracer->memory) {
		pebs_free(&tracer->base);
		return -ENOMEM;
	}
	*result = tracer;
	return 0;
}

bool pebs_free(struct tracer *freed)
{
	struct pebs_tracer *tracer = pebs_of(freed);
	bool whole = trace_memory_free(tracer->memory, tracer->slots * tracer->unit);

	return trace_free_page(freed) && whole;
}

bool pebs_is_full(const struct pebs_tracer *tracer)
{
	return tracer->options.overflow == TRACE_STOP &&
	       tracer->used >= tracer->options.size / tracer->unit;
}

bool pebs_at_threshold(const struct pebs_tracer *tracer)
{
	return tracer->options.overflow == TRACE_SIGNAL &&
	       tracer->used >= tracer->options.threshold;
}

size_t pebs_room(const struct pebs_tracer *tracer)
{
	size_t end = tracer->options.overflow == TRACE_SIGNAL ? tracer->options.threshold
							      : tracer->options.size / tracer->unit;

	return end > tracer->used ? end - tracer->used : 1;
}

/* --- What a tracer may see --- */

enum { RSP = 4 };

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

static unsigned has_of(const struct pebs_tracer *tracer, const struct ds_sample *sample)
{
	/* Before format 2 the address is that of other events (SDM Vol 3, 18.8.1.2). */
	bool address = tracer->event.memory && ds_caps()->pebs_format >= 2;

	return (sample->has & DS_SAMPLE_REGISTERS ? PTRACE_PEBS_HAS_REGISTERS : 0u) |
	       (sample->has & DS_SAMPLE_IP ? PTRACE_PEBS_HAS_IP : 0u) |
	       (sample->has & DS_SAMPLE_EVENT_IP ? PTRACE_PEBS_HAS_EVENT_IP : 0u) |
	       (address && sample->has & DS_SAMPLE_ADDRESS ? PTRACE_PEBS_HAS_ADDRESS : 0u) |
	       (sample->has & DS_SAMPLE_TRANSACTION ? PTRACE_PEBS_HAS_TRANSACTION : 0u) |
	       (sample->has & DS_SAMPLE_TSC ? PTRACE_PEBS_HAS_TSC : 0u) |
	       (tracer->options.interrupt ? PTRACE_PEBS_HAS_SKID : 0u) |
	       (tracer->options.branches && (tracer->options.interrupt || sample->entries)
			? PTRACE_PEBS_HAS_BRANCHES
			: 0u);
}

/* The parts that ring 3 may see: after a transition state, or stack, are the kernel's. */
static unsigned hide_kernel(unsigned has, const struct ds_sample *sample)
{
	if (is_kernel(sample->ip) || is_kernel(sample->general[RSP]))
		has &= ~(unsigned)(PTRACE_PEBS_HAS_IP | PTRACE_PEBS_HAS_REGISTERS);
	if (is_kernel(sample->event_ip))
		has &= ~(unsigned)PTRACE_PEBS_HAS_EVENT_IP;
	if (is_kernel(sample->address))
		has &= ~(unsigned)PTRACE_PEBS_HAS_ADDRESS;
	return has;
}

static bool sees(const struct pebs_tracer *tracer, uint64_t address)
{
	return tracer->options.view & (is_kernel(address) ? TRACE_KERNEL : TRACE_USER);
}

/* Of the record; at an interrupt those that the tracer of the newest branches has just taken. */
static const struct ptrace_lbr_branch *find_branches(const struct pebs_tracer *tracer,
						     const struct ds_sample *sample,
						     struct ptrace_lbr_branch decoded[LBR_MOST],
						     unsigned *count)
{
	const uint64_t *entry = sample->entry;

	if (tracer->options.interrupt)
		return branch_stack_held(tracer->base.brings, count);
	for (*count = 0; *count < sample->entries && *count < LBR_MOST && entry[0]; entry += 3)
		decoded[(*count)++] = lbr_decode(entry[0], entry[1], entry[2]);
	return decoded;
}

/* To what follows the sample: those of the view, both ends. An entry that is 0 was emptied. */
static void put_branches(const struct pebs_tracer *tracer, const struct ds_sample *sample,
			 struct ptrace_pebs_branch *to)
{
	struct ptrace_lbr_branch decoded[LBR_MOST];
	const struct ptrace_lbr_branch *branches;
	unsigned count = 0, found;

	if (!tracer->options.branches)
		return;
	memset(to, 0, tracer->options.branches * sizeof(*to));
	branches = find_branches(tracer, sample, decoded, &found);
	for (unsigned i = 0; i < found; i++) {
		struct ptrace_lbr_branch branch = branches[i];

		if (count < tracer->options.branches && sees(tracer, branch.from) &&
		    sees(tracer, branch.to))
			to[count++] = (struct ptrace_pebs_branch){branch.from, branch.to,
								  branch.flags, branch.cycles};
	}
}

static struct ptrace_pebs_sample sample_for_reader(const struct ds_sample *sample, unsigned has,
						   const struct cpu *cpu)
{
	struct ptrace_pebs_sample shown = {
		.has = has,
		.pid_cpu = cpu->current->pid | (uint64_t)cpu->index << 32,
		.ip = has & PTRACE_PEBS_HAS_IP ? sample->ip : 0,
		.event_ip = has & PTRACE_PEBS_HAS_EVENT_IP ? sample->event_ip : 0,
		.address = has & PTRACE_PEBS_HAS_ADDRESS ? sample->address : 0,
		.transaction = has & PTRACE_PEBS_HAS_TRANSACTION ? sample->transaction : 0,
		.tsc = has & PTRACE_PEBS_HAS_TSC ? sample->tsc : 0,
	};

	if (has & PTRACE_PEBS_HAS_REGISTERS) {
		shown.rflags = sample->flags;
		memcpy(shown.general, sample->general, sizeof(shown.general));
	}
	return shown;
}

/* An instruction of the kernel, not in the view: errata AR63, W126 and AJ67. */
static bool is_others(const struct pebs_tracer *tracer, const struct ds_sample *sample)
{
	return !(tracer->options.view & TRACE_KERNEL) && is_kernel(sample->event_ip) &&
	       (is_kernel(sample->ip) || !(sample->has & DS_SAMPLE_IP));
}

void pebs_put(struct pebs_tracer *tracer, const struct ds_sample *sample, const struct cpu *cpu)
{
	unsigned has = has_of(tracer, sample);
	struct ptrace_pebs_sample *slot;

	tracer->taken++;
	if (tracer->full)
		return;
	if (tracer->used == tracer->slots || is_others(tracer, sample)) {
		tracer->lost++;
		return;
	}
	if (!(tracer->options.view & TRACE_KERNEL))
		has = hide_kernel(has, sample);
	slot = pebs_slot(tracer, tracer->used);
	*slot = sample_for_reader(sample, has, cpu);
	put_branches(tracer, sample, (struct ptrace_pebs_branch *)(slot + 1));
	tracer->used++;
	tracer->full = pebs_is_full(tracer);
}

void pebs_forget(struct tracer *cleared)
{
	struct pebs_tracer *tracer = pebs_of(cleared);

	tracer->used = 0;
	tracer->events = 0;
	tracer->lost = 0;
	tracer->truncated = tracer->blocked = tracer->full = false;
}
