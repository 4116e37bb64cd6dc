// SPDX-License-Identifier: MIT
/* What goes through all rows, and what is found by name: units, variants; the defects, which the
   linker collects.
 */
#include "monitor/unit.h"

#include "lib/string.h"
#include "monitor/defect.h"
#include "monitor/silicon.h"

/* The statement after it runs for each `i` of a unit that has this member. */
#define EACH_WITH(member)                                                                          \
	for (unsigned i = 0; i < UNITS; i++)                                                       \
		if (units[i]->member)

const struct unit *unit_find(const char *name)
{
	EACH_WITH (stop)
		if (strcmp(name, units[i]->name) == 0)
			return units[i];
	return NULL;
}

const struct unit *unit_of_msr(uint32_t index)
{
	for (unsigned i = 0; i < UNITS; i++)
		for (const struct msr_range *range = units[i]->msrs; range->last; range++)
			if (index >= range->first && index <= range->last)
				return units[i];
	return NULL;
}

unsigned unit_to_add(const char *name, const struct profile *profile)
{
	EACH_WITH (add)
		if (strcmp(name, units[i]->name) == 0 && units[i]->is_of(profile))
			return 1u << i;
	return 0;
}

static const struct choice *choice_of(const struct point *point, unsigned n)
{
	return n < MOST_CHOICES && point->choices[n].name ? &point->choices[n] : NULL;
}

bool variant_get(unsigned n, struct variant *variant)
{
	EACH_WITH (points)
		for (const struct point *point = units[i]->points; point->name; point++)
			for (unsigned choice = 0; choice_of(point, choice); choice++)
				if (!n--) {
					*variant = (struct variant){
						point->name, point->choices[choice].name,
						point->choices[choice].meaning, choice == 0};
					return true;
				}
	return false;
}

/* "choice" of the point that is at `at`. */
static bool choose(const struct point *point, const char *choice, char *at)
{
	for (unsigned i = 0; choice_of(point, i); i++)
		if (strcmp(choice, point->choices[i].name) == 0) {
			memcpy(at, &i, sizeof(i));
			return true;
		}
	return false;
}

bool variant_apply(struct behaviour *behaviour, const char *word)
{
	EACH_WITH (points)
		for (const struct point *point = units[i]->points; point->name; point++) {
			size_t length = strlen(point->name);

			if (strncmp(word, point->name, length) == 0 && word[length] == '=' &&
			    choose(point, word + length + 1,
				   (char *)behaviour + units[i]->behaviour + point->offset))
				return true;
		}
	return false;
}

void behaviour_of_profile(struct behaviour *behaviour, const struct profile *profile)
{
	memset(behaviour, 0, sizeof(*behaviour));
	for (unsigned n = 0; n < PROFILE_VARIANTS && profile->variants[n]; n++)
		variant_apply(behaviour, profile->variants[n]);
}

void silicon_make(struct silicon *silicon, const struct profile *profile,
		  const struct behaviour *behaviour)
{
	silicon->profile = profile;
	silicon->behaviour = *behaviour;
	silicon->last_leaf = profile->last_leaf;
	EACH_WITH (make)
		units[i]->make(silicon);
}

void trace_reset(struct vcpu *vcpu, const struct silicon *silicon)
{
	vcpu->silicon = silicon;
	vcpu->debugctl = 0;
	vcpu->observed &= ~(unsigned)(OBSERVER_DS | OBSERVER_STACK);
	EACH_WITH (state.bytes)
		memset((char *)vcpu + units[i]->state.offset, 0, units[i]->state.bytes);
	EACH_WITH (reset)
		units[i]->reset(vcpu);
}

void trace_power_on(struct vcpu *vcpu, const struct silicon *silicon)
{
	vcpu->observed = silicon->interpreted ? OBSERVER_NONE : 0;
	vcpu->silicon = silicon;
	EACH_WITH (power_on)
		units[i]->power_on(vcpu);
	trace_reset(vcpu, silicon);
}

void trace_init(struct vcpu *vcpu)
{
	EACH_WITH (init)
		units[i]->init(vcpu);
}

static uint64_t *register_of(const struct unit *unit, struct vcpu *vcpu, uint32_t index)
{
	uint64_t *at = (uint64_t *)((char *)vcpu + unit->state.offset);
	const struct msr_range *range = unit->msrs;

	for (; index < range->first || index > range->last; range++)
		at += range->last - range->first + 1;
	return at + (index - range->first);
}

bool trace_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const struct unit *unit = unit_of_msr(index);

	if (unit->read_msr)
		return unit->read_msr(vcpu, index, value);
	*value = *register_of(unit, vcpu, index);
	return true;
}

bool trace_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	const struct unit *unit = unit_of_msr(index);
	bool done = true;

	if (unit->write_msr)
		done = unit->write_msr(vcpu, index, value);
	else
		*register_of(unit, vcpu, index) = value;
	EACH_WITH (written)
		units[i]->written(vcpu);
	return done;
}

unsigned trace_exits(const struct vcpu *vcpu)
{
	unsigned exits = 0;

	EACH_WITH (exits)
		exits |= units[i]->exits(vcpu);
	return exits;
}

void saw_exit(struct vcpu *vcpu)
{
	EACH_WITH (exit)
		units[i]->exit(vcpu);
}

bool trace_read_counter(struct vcpu *vcpu, uint32_t selector, uint64_t *value)
{
	EACH_WITH (read_counter)
		return units[i]->read_counter(vcpu, selector, value);
	return false;
}

void trace_pass(struct vcpu *vcpu)
{
	EACH_WITH (pass)
		units[i]->pass(vcpu);
}

void trace_wait(struct vcpu *vcpu, bool waits)
{
	EACH_WITH (wait)
		units[i]->wait(vcpu, waits);
}

uint64_t trace_deadline(const struct vcpu *vcpu)
{
	uint64_t earliest = 0;

	EACH_WITH (deadline) {
		uint64_t its = units[i]->deadline(vcpu);

		if (its && (!earliest || its < earliest))
			earliest = its;
	}
	return earliest;
}

void trace_tick(struct vcpu *vcpu)
{
	EACH_WITH (tick)
		units[i]->tick(vcpu);
}

void trace_unmasked(struct vcpu *vcpu)
{
	EACH_WITH (unmasked)
		units[i]->unmasked(vcpu);
}

bool trace_awaits_unmasking(const struct vcpu *vcpu)
{
	bool any = false;

	EACH_WITH (awaits_unmasking)
		any |= units[i]->awaits_unmasking(vcpu);
	return any;
}

struct delivery trace_deliver(struct vcpu *vcpu, uint32_t entry)
{
	EACH_WITH (deliver)
		return units[i]->deliver(vcpu, entry);
	return (struct delivery){.entry = entry};
}

void trace_forget(struct vcpu *vcpu)
{
	EACH_WITH (forget)
		units[i]->forget(vcpu);
}

void trace_interrupted(struct vcpu *vcpu, bool waits, bool shown)
{
	EACH_WITH (interrupted)
		units[i]->interrupted(vcpu, waits, shown);
}

extern const struct defect *const __start_defects[], *const __stop_defects[];
extern const struct defect *const __start_errata[], *const __stop_errata[];

const struct defect *defect_get(unsigned n)
{
	return n < (size_t)(__stop_defects - __start_defects) ? __start_defects[n] : NULL;
}

const struct defect *erratum_get(unsigned n)
{
	return n < (size_t)(__stop_errata - __start_errata) ? __start_errata[n] : NULL;
}

static const struct defect *find(const struct defect *get(unsigned n), const char *name)
{
	const struct defect *defect;

	for (unsigned n = 0; (defect = get(n)); n++)
		if (strcmp(defect->name, name) == 0)
			return defect;
	return NULL;
}

const struct defect *defect_find(const char *name)
{
	return find(defect_get, name);
}

const struct defect *erratum_find(const char *name)
{
	return find(erratum_get, name);
}
