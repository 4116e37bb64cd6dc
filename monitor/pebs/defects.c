// SPDX-License-Identifier: MIT
/* PEBS: SDM Vol 3, 18.4.4, 18.8.1.1, 18.11.2 and 18.13. */
#include "monitor/defect.h"

#include "monitor/ds/memory.h"
#include "monitor/pebs/rules.h"

/* One in two samples is left to the next event. */
static bool sample_one_late(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	return ++*REMEMBERED(vcpu, unsigned) % 2 == 0 && pebs_clean.sample(vcpu, n, retired);
}
DEFECT(sample_one_late, "SDM Vol 3, 18.9.4.4",
       "not the next event is sampled, but the one after it, with PDIR as well",
       BREAKS_SAMPLES(sample, sample_one_late))

static bool sample_every_other(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	if (++*REMEMBERED(vcpu, unsigned) % 2)
		return pebs_clean.sample(vcpu, n, retired);
	pebs_clean.reload(vcpu, n);
	return true;
}
DEFECT(sample_every_other, "SDM Vol 3, 18.4.4", "every second sample is lost",
       BREAKS_SAMPLES(sample, sample_every_other))

static bool sample_of_counter_0(const struct vcpu *vcpu, unsigned n)
{
	return !n && pebs_clean.arms(vcpu, n);
}
DEFECT(sample_of_counter_0, "SDM Vol 3, 18.8.1.1", "only counter 0 takes samples",
       BREAKS_SAMPLES(arms, sample_of_counter_0))

static bool sample_without_enable(const struct vcpu *vcpu, unsigned n)
{
	return vcpu->ds.ds_area && n < PMU_GENERAL && pmu_event_of(vcpu, n)->precise >> n & 1;
}
DEFECT(sample_without_enable, "SDM Vol 3, 18.4.4", "IA32_PEBS_ENABLE clear does not stop samples",
       BREAKS_SAMPLES(arms, sample_without_enable))

/* A counter that waits to take a sample sees both levels. */
static bool sample_at_any_level(const struct vcpu *vcpu, unsigned n, unsigned cpl)
{
	return vcpu->pebs.armed >> n & 1 || pmu_clean.privilege(vcpu, n, cpl);
}
DEFECT(sample_at_any_level, "SDM Vol 3, 18.2.1.1",
       "an armed counter samples the next event of any privilege level",
       BREAKS_COUNTERS(privilege, sample_at_any_level))

static void reload_missed(struct vcpu *vcpu, unsigned n)
{
	(void)vcpu;
	(void)n;
}
DEFECT(reload_missed, "SDM Vol 3, 18.4.4", "a sample does not reload the counter",
       BREAKS_SAMPLES(reload, reload_missed))

static void reload_low_byte(struct vcpu *vcpu, unsigned n)
{
	pebs_clean.reload(vcpu, n);
	vcpu->pmu.value[n] |= pmu_counter_mask(vcpu) & ~0xffull;
}
DEFECT(reload_low_byte, "SDM Vol 3, 18.4.4", "a counter is reloaded with eight bits",
       BREAKS_SAMPLES(reload, reload_low_byte))

static void reload_of_next(struct vcpu *vcpu, unsigned n)
{
	pebs_clean.reload(vcpu, n + 1);
	vcpu->pmu.value[n] = vcpu->pmu.value[n + 1];
}
DEFECT(reload_of_next, "SDM Vol 3, 18.4.4", "a counter is reloaded from the next one's field",
       BREAKS_SAMPLES(reload, reload_of_next))

static void reload_of_all(struct vcpu *vcpu, unsigned n)
{
	(void)n;
	for (unsigned i = 0; i < vcpu->silicon->profile->performance.counters; i++)
		pebs_clean.reload(vcpu, i);
}
DEFECT(reload_of_all, "SDM Vol 3, 18.4.4", "a sample reloads all counters",
       BREAKS_SAMPLES(reload, reload_of_all))

static void sampled_status_kept(struct vcpu *vcpu, unsigned n)
{
	vcpu->pmu.global_status |= pmu_bit(n);
}
DEFECT(sampled_status_kept, "SDM Vol 3, 18.4.4", "a sample leaves its counter's status bit set",
       BREAKS_SAMPLES(clear_status, sampled_status_kept))

static void sampled_status_whole(struct vcpu *vcpu, unsigned n)
{
	(void)n;
	vcpu->pmu.global_status = 0;
}
DEFECT(sampled_status_whole, "SDM Vol 3, 18.4.4", "a sample clears every status bit",
       BREAKS_SAMPLES(clear_status, sampled_status_whole))

/* The record, changed; `words` is its length. */
#define RECORDS_ON(on, name, rule, says, change)                                                   \
	static unsigned name(struct vcpu *vcpu, unsigned n, const struct retired *retired,         \
			     uint64_t record[PEBS_MOST_WORDS])                                     \
	{                                                                                          \
		unsigned words = pebs_clean.record(vcpu, n, retired, record);                      \
                                                                                                   \
		change;                                                                            \
		return words;                                                                      \
	}                                                                                          \
	DEFECT_ON(on, name, rule, says, BREAKS_SAMPLES(record, name))
#define RECORDS(name, rule, says, change) RECORDS_ON(NULL, name, rule, says, change)

static void exchange(uint64_t *a, uint64_t *b)
{
	uint64_t kept = *a;

	*a = *b;
	*b = kept;
}

RECORDS(sample_short, "SDM Vol 3, 18.4.4", "a record lacks its last quadword", words--)
RECORDS(sample_long, "SDM Vol 3, 18.4.4", "a record is a quadword longer",
	record[words++] = vcpu->rip)
RECORDS(sample_in_encoding_order, "SDM Vol 3, 18.4.4",
	"a record has RCX, RDX, RBX where RBX, RCX, RDX belong",
	(exchange(&record[3], &record[4]), exchange(&record[4], &record[5])))
RECORDS(sample_without_r15, "SDM Vol 3, 18.4.4", "R15 of a record is 0", record[17] = 0)
RECORDS(sample_ip_low_half, "SDM Vol 3, 18.4.4", "a record has the low half of the address",
	record[1] = (uint32_t)record[1])
RECORDS(sample_ip_one_behind, "SDM Vol 3, 18.4.4", "the address of a record is one byte too high",
	record[1]++)
RECORDS(sample_stack_of_frame, "SDM Vol 3, 18.4.4", "RSP of a record is RBP",
	record[9] = vcpu->gpr[RBP] + 4096)
RECORDS(sample_without_flags, "SDM Vol 3, 18.4.4", "RFLAGS of a record is 0", record[0] = 0)
RECORDS(sample_status_after, "SDM Vol 3, 18.8.1.1",
	"the status in a record is that after the assist", record[18] &= ~pmu_bit(n))
RECORDS_ON("haswell", sample_event_ip_is_ip, "SDM Vol 3, 18.11.2",
	   "EventingIP is the address of the next instruction", record[22] = record[1] + 1)
RECORDS_ON("haswell", sample_address_of_page, "SDM Vol 3, 18.11.2",
	   "the data address of a record is that of its page", record[19] &= ~0xfffull)
RECORDS_ON("skylake", sample_of_every_counter, "SDM Vol 3, 18.13",
	   "a record of format 3 names every counter that has overflowed",
	   record[18] |= vcpu->pmu.global_status)
RECORDS_ON("skylake", sample_time_is_0, "SDM Vol 3, 18.13", "a record has no time", record[24] = 0)
RECORDS_ON("icelake", adaptive_size_of_groups, "Linux 6.1, perf_event.h",
	   "the size in an adaptive record leaves out the basic group", record[0] -= 32ull << 48)
RECORDS_ON("icelake", adaptive_without_cfg, "Linux 6.1, perf_event.h",
	   "an adaptive record does not say which groups it has", record[0] &= 0xffffull << 48)
RECORDS_ON("icelake", adaptive_in_old_order, "Linux 6.1, perf_event.h",
	   "registers of an adaptive record are in the order of format 0",
	   exchange(&record[words == 22 ? 7 : 0], &record[words == 22 ? 9 : 0]))

static void fixed_reload_of_general(struct vcpu *vcpu, unsigned n)
{
	uint64_t kept = vcpu->pmu.value[0];

	if (n < PMU_GENERAL) {
		pebs_clean.reload(vcpu, n);
		return;
	}
	pebs_clean.reload(vcpu, 0);
	vcpu->pmu.value[n] = vcpu->pmu.value[0];
	vcpu->pmu.value[0] = kept;
}
DEFECT_ON("icelake", fixed_reload_of_general, "Linux 6.1, perf_event.h",
	  "fixed counter 0 is reloaded from the field of general counter 0",
	  BREAKS_SAMPLES(reload, fixed_reload_of_general))

/* Whether a record fits. */
#define ROOM(name, rule, says, condition)                                                          \
	static bool name(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS],               \
			 unsigned bytes)                                                           \
	{                                                                                          \
		return pebs_clean.room(vcpu, field, bytes) || (condition);                         \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS_SAMPLES(room, name))

ROOM(samples_past_maximum, "SDM Vol 3, 18.4.4", "the absolute maximum stops no sample",
     field[PEBS_INDEX] >= field[PEBS_BASE] && field[PEBS_INDEX] < field[PEBS_MAXIMUM] + bytes)
ROOM(samples_below_base, "SDM Vol 3, 18.4.4", "an index below the base is used",
     field[PEBS_INDEX] < field[PEBS_BASE])
ROOM(samples_any_byte, "SDM Vol 3, 18.4.4", "a record fits if it begins below the maximum",
     field[PEBS_INDEX] >= field[PEBS_BASE] && field[PEBS_INDEX] < field[PEBS_MAXIMUM] - 1)

/* The index after a record. */
#define SAMPLES_ADVANCE(name, rule, says, index)                                                   \
	static uint64_t name(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS],           \
			     unsigned bytes)                                                       \
	{                                                                                          \
		uint64_t next = pebs_clean.advance(vcpu, field, bytes);                            \
                                                                                                   \
		return (index);                                                                    \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS_SAMPLES(advance, name))

SAMPLES_ADVANCE(samples_wrap, "SDM Vol 3, 18.4.4", "the index returns to the base at the maximum",
		next + bytes > field[PEBS_MAXIMUM] ? field[PEBS_BASE] : next)
SAMPLES_ADVANCE(samples_index_of_format_0, "SDM Vol 3, 18.4.4",
		"the index moves on by the size of format 0", next - bytes + 144)
SAMPLES_ADVANCE(samples_in_one_place, "SDM Vol 3, 18.4.4", "the index does not move", next - bytes)

/* The threshold is compared with another index, or not at all. */
#define SAMPLES_ASK(name, rule, says, condition)                                                   \
	static bool name(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS])               \
	{                                                                                          \
		(void)vcpu;                                                                        \
		return (condition);                                                                \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS_SAMPLES(threshold, name))

SAMPLES_ASK(samples_ask_at_maximum, "SDM Vol 3, 18.4.4", "the interrupt is raised at the maximum",
	    field[PEBS_INDEX] + 1 >= field[PEBS_MAXIMUM])
SAMPLES_ASK(samples_ask_early, "SDM Vol 3, 18.4.4", "the interrupt is two records early",
	    field[PEBS_INDEX] + 2 * 176 >= field[PEBS_THRESHOLD])
SAMPLES_ASK(samples_ask_late, "SDM Vol 3, 18.4.4", "the interrupt is two records late",
	    field[PEBS_INDEX] >= field[PEBS_THRESHOLD] + 2 * 176)
SAMPLES_ASK(samples_ask_always, "SDM Vol 3, 18.4.4", "every record interrupts",
	    field[PEBS_INDEX] != field[PEBS_BASE])

static void samples_ask_silently(struct vcpu *vcpu)
{
	pmu_buffer_overflow(vcpu);
}
DEFECT(samples_ask_silently, "SDM Vol 3, 18.4.4", "the threshold sets OvfBuf and interrupts nobody",
       BREAKS_SAMPLES(interrupt, samples_ask_silently))

static void samples_ask_without_ovfbuf(struct vcpu *vcpu)
{
	platform_performance_interrupt(vcpu);
}
DEFECT(samples_ask_without_ovfbuf, "SDM Vol 3, 18.4.4", "the threshold does not set OvfBuf",
       BREAKS_SAMPLES(interrupt, samples_ask_without_ovfbuf))

/* The fields of the DS area, changed after a sample. */
static bool sample_moves_bts(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	bool done = pebs_clean.sample(vcpu, n, retired);
	uint64_t index;

	if (done && ds_load(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + 8, &index, 1)) {
		index += 24;
		ds_store(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + 8, &index, 1);
	}
	return done;
}
DEFECT(sample_moves_bts, "SDM Vol 3, 17.4.9", "a sample moves the index of BTS too",
       BREAKS_SAMPLES(sample, sample_moves_bts))

static bool sample_ends_bts(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	bool done = pebs_clean.sample(vcpu, n, retired);

	if (done)
		ds_set_tracing(vcpu, false);
	return done;
}
DEFECT(sample_ends_bts, "SDM Vol 3, 18.4.4", "BTS records nothing after a sample",
       BREAKS_SAMPLES(sample, sample_ends_bts))

static bool full_reloads(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	if (!pebs_clean.sample(vcpu, n, retired)) {
		pebs_clean.clear_status(vcpu, n);
		pebs_clean.reload(vcpu, n);
	}
	return true;
}
DEFECT(full_reloads, "SDM Vol 3, 18.4.4", "without room the counter is reloaded all the same",
       BREAKS_SAMPLES(sample, full_reloads))

static bool enable_keeps_few(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_PEBS_ENABLE && !(value & ~pebs_enable_mask(vcpu)))
		value &= 1;
	return pebs_clean.write_msr(vcpu, index, value);
}
DEFECT(enable_keeps_few, "SDM Vol 3, 18.8.1.1", "IA32_PEBS_ENABLE keeps the bit of counter 0 alone",
       BREAKS_SAMPLES(write_msr, enable_keeps_few))

static void enabled_after_init(struct vcpu *vcpu)
{
	struct pebs_state pebs = vcpu->pebs;

	ds_clean.init(vcpu);
	vcpu->pebs = pebs;
}
DEFECT(enabled_after_init, "SDM Vol 3, 17.4.9", "INIT leaves PEBS on",
       BREAKS(init, enabled_after_init))

/* It holds its MSRs and does nothing. */

static bool never_arms(const struct vcpu *vcpu, unsigned n)
{
	(void)vcpu, (void)n;
	return false;
}

void pebs_stop(struct silicon *silicon)
{
	silicon->pebs.arms = never_arms;
}
