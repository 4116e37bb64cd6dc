// SPDX-License-Identifier: MIT
// Whether a tracer would find a counter on every CPU where it may run, and who has it if not.
#include "kernel/smp/smp.h"
#include "kernel/trace/pebs/private.h"
#include "lib/string.h"

struct wish {
	uint64_t counters;
	uint32_t counted;
	char name[PTRACE_PEBS_HOLDER];
};

struct admission {
	const struct tracer *replaces; /* does not count */
	bool samples;
	struct wish wishes[2 * PEBS_COUNTERS];
	unsigned count;
	const struct wish *taken[PEBS_COUNTERS]; /* of the CPU that is looked at */
	bool refused;
	char holder[PTRACE_PEBS_HOLDER];
};

static void add_wishes(struct tracer *tracer, void *argument)
{
	struct admission *admission = argument;

	for (const struct pebs_tracer *at = pebs_first(tracer->context); at; at = pebs_next(at)) {
		struct wish *wish = &admission->wishes[admission->count];

		if (admission->count == 2 * PEBS_COUNTERS)
			return;
		if (&at->base == admission->replaces)
			continue;
		wish->counters = at->counters;
		wish->counted = pebs_counted(at);
		pebs_copy_name(wish->name, at->name);
		admission->count++;
	}
}

/* The name of the one that has the counter, or would have it. */
static const char *holder_of(const struct admission *admission, const struct cpu *cpu,
			     unsigned slot)
{
	if (admission->taken[slot])
		return admission->taken[slot]->name;
	return pebs_cpu(cpu)->loaded[slot] ? NULL : pmu_owner(&cpu->trace->pmu, pebs_counter(slot));
}

/* The name of one that has a counter and that this one cannot be beside, or NULL. */
static const char *find_rival(const struct admission *admission, const struct wish *wish)
{
	for (unsigned i = 0; i < PEBS_COUNTERS; i++)
		if (admission->taken[i] &&
		    pebs_are_rivals(admission->taken[i]->counted, wish->counted))
			return admission->taken[i]->name;
	return NULL;
}

static void grant_wish(struct admission *admission, const struct cpu *cpu, const struct wish *wish)
{
	const char *rival = find_rival(admission, wish), *first = rival;

	for (unsigned slot = 0; !rival && slot < PEBS_COUNTERS; slot++) {
		const char *holder;

		if (!(wish->counters >> pebs_counter(slot) & 1))
			continue;
		holder = holder_of(admission, cpu, slot);
		if (!holder) {
			admission->taken[slot] = wish;
			return;
		}
		first = first ? first : holder;
	}
	admission->refused = true;
	pebs_copy_name(admission->holder, first);
}

/* The newest of the context is its first: it chooses last, so that what it lacks has a name. */
static void grant_wishes(struct admission *admission, const struct cpu *cpu)
{
	memset(admission->taken, 0, sizeof(admission->taken));
	for (unsigned i = 0; i < 2 * admission->count && !admission->refused; i++) {
		unsigned at = admission->count - 1 - i % admission->count;
		const struct wish *wish = &admission->wishes[at];

		if (pebs_has_no_choice(wish->counters) == (i < admission->count))
			grant_wish(admission, cpu, wish);
	}
}

/* On each CPU concerned, with IF = 0. */
static void look_at_cpu(void *argument)
{
	struct admission *admission = argument;
	const struct cpu *cpu = this_cpu();
	const struct ds_pebs_lease *half = cpu->trace->ds.pebs;

	if (admission->refused)
		return;
	if (admission->samples && half && half != &pebs_cpu(cpu)->lease) {
		admission->refused = true;
		pebs_copy_name(admission->holder, ds_pebs_holder(&cpu->trace->ds));
		return;
	}
	grant_wishes(admission, cpu);
}

int pebs_admit(struct pebs_tracer *tracer, unsigned index, const struct pebs_options *options)
{
	struct admission admission = {.replaces = options->replaces, .samples = !options->count};

	trace_perform(&tracer->base, add_wishes, &admission);
	for (unsigned i = 0; i < cpu_count(); i++)
		if (index == ALL_CPUS || i == index)
			smp_call(i, look_at_cpu, &admission);
	if (admission.refused && options->holder)
		pebs_copy_name(options->holder, admission.holder);
	return admission.refused ? -EBUSY : 0;
}
