// SPDX-License-Identifier: MIT
/*
 * Mistakes of a hypervisor that passes BTS through, of what happens to its guest beside exits: it
 * takes memory back, copies it, moves a virtual processor to another one, profiles itself, resets
 * the guest. They are written from what Linux and Xen do there: kvm_tdp_page_fault(),
 * kvm_vcpu_mark_page_dirty(), vmx_vcpu_load(), vmx_vcpu_reset(), vpmu_load(), vpmu_save_force().
 * A guest sees no more of them than at an exit; so each happens at every exit.
 */
#include "monitor/defect.h"

#include "lib/string.h"
#include "monitor/ds/memory.h"

#define HOST_CODE 0xffffffff81200000ull /* of a Linux host */
#define HOST_AREA 0xfffffe0000003000ull /* in the cpu_entry_area of one */

/* --- Faults of the second level ----------------------------------------------------------------
 */

/*
 * The hypervisor has taken the pages of the buffer back at each exit, as for another guest. The
 * first store to one faults in its page tables (SDM Vol 3, 28.2.3.2: EPT violation), in the midst
 * of a record, and it maps the page again. `page` has the even and the odd one that it has mapped
 * since.
 */
struct mapped {
	uint64_t page[2];
};

static void take_pages(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (ds_is_exit(occasion))
		*REMEMBERED(vcpu, struct mapped) = (struct mapped){{1, 0}}; /* none */
}

static bool map_page(struct vcpu *vcpu, uint64_t page)
{
	uint64_t *mapped = &REMEMBERED(vcpu, struct mapped)->page[page / DS_PAGE_BYTES & 1];
	bool faults = *mapped != page;

	*mapped = page;
	return faults;
}

static uint64_t last_page(uint64_t index)
{
	return (index + RECORD_BYTES - 1) & ~DS_PAGE_MASK;
}

/* Whether the store of a record at `index` faults. Both pages are mapped then. */
static bool is_unmapped(struct vcpu *vcpu, uint64_t index)
{
	bool first = map_page(vcpu, index & ~DS_PAGE_MASK), last = map_page(vcpu, last_page(index));

	return first || last;
}

static bool load_index(struct vcpu *vcpu, uint64_t *index)
{
	ds_refresh(vcpu);
	return ds_load(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, index,
		       1);
}

static void fault_loses_record(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t index;

	if (!load_index(vcpu, &index) || !is_unmapped(vcpu, index))
		ds_clean.store(vcpu, branch);
}
DEFECT(fault_loses_record, "SDM Vol 3, 17.4.9.2",
       "a record whose page the hypervisor has to map first is lost", BREAKS(note, take_pages),
       BREAKS(store, fault_loses_record))

static void fault_doubles_record(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t index;

	if (load_index(vcpu, &index) && is_unmapped(vcpu, index))
		ds_clean.store(vcpu, branch);
	ds_clean.store(vcpu, branch);
}
DEFECT(fault_doubles_record, "SDM Vol 3, 17.4.9.2",
       "a record whose page the hypervisor has to map first is stored again after it",
       BREAKS(note, take_pages), BREAKS(store, fault_doubles_record))

/* A fault at its first byte is restarted. */
static void fault_tears_record(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t index = 0, last, old[RECORD_WORDS], torn[RECORD_WORDS];
	bool tears = load_index(vcpu, &index) &&
		     ds_load(vcpu, &vcpu->ds.seen.buffer, index, old, RECORD_WORDS);

	last = last_page(index);
	map_page(vcpu, index & ~DS_PAGE_MASK);
	tears &= map_page(vcpu, last);
	ds_clean.store(vcpu, branch);
	if (!tears || !ds_load(vcpu, &vcpu->ds.seen.buffer, index, torn, RECORD_WORDS))
		return;
	memcpy((uint8_t *)torn + (last - index), (uint8_t *)old + (last - index),
	       RECORD_BYTES - (last - index));
	ds_store(vcpu, &vcpu->ds.seen.buffer, index, torn, RECORD_WORDS);
}
DEFECT(fault_tears_record, "SDM Vol 3, 17.4.9.2",
       "of a record across two pages what lies in one that the hypervisor has to map is lost",
       BREAKS(note, take_pages), BREAKS(store, fault_tears_record))

/* --- Migration, and another processor ----------------------------------------------------------
 */

/*
 * The pages of the guest are copied while it runs, and once more those that are marked dirty: here
 * from one exit to the next. Stores of BTS since `index` mark none.
 */
static uint8_t copied[DS_PAGE_BYTES];
static struct {
	const struct vcpu *of;
	uint64_t area, index;
} copy;

static bool load_page(struct vcpu *vcpu, uint64_t index, uint8_t page[DS_PAGE_BYTES])
{
	return ds_load(vcpu, &vcpu->ds.seen.buffer, index & ~DS_PAGE_MASK, (uint64_t *)page,
		       DS_PAGE_BYTES / FIELD_BYTES);
}

static void copy_misses_records(struct vcpu *vcpu, enum ds_occasion occasion)
{
	uint64_t index, words, at = copy.index & DS_PAGE_MASK;

	ds_clean.note(vcpu, occasion);
	if (!ds_is_exit(occasion) || !ds_tracing(vcpu) || !load_index(vcpu, &index))
		return;
	words = (index - copy.index) / FIELD_BYTES;
	if (copy.of == vcpu && copy.area == vcpu->ds.ds_area &&
	    words <= (DS_PAGE_BYTES - at) / FIELD_BYTES)
		ds_store(vcpu, &vcpu->ds.seen.buffer, copy.index, (const uint64_t *)(copied + at),
			 (unsigned)words);
	copy.of = load_page(vcpu, index, copied) ? vcpu : NULL;
	copy.area = vcpu->ds.ds_area;
	copy.index = index;
}
DEFECT(copy_misses_records, "SDM Vol 3, 17.4.9",
       "a store of BTS does not mark its page as dirty: a migration loses the records",
       BREAKS(note, copy_misses_records))

/* A virtual processor moves to the other of two at each exit. */
struct moved {
	uint64_t area[2]; /* that each of the two was left with; 0: none yet */
	unsigned to;
};

/* Xen's vpmu_load() has to take the registers from the processor that had them last. */
static void move_loads_old_area(struct vcpu *vcpu, enum ds_occasion occasion)
{
	struct moved *moved = REMEMBERED(vcpu, struct moved);

	ds_clean.note(vcpu, occasion);
	if (!ds_is_exit(occasion) || !ds_tracing(vcpu))
		return;
	moved->area[moved->to] = vcpu->ds.ds_area;
	moved->to ^= 1;
	if (moved->area[moved->to])
		ds_clean.write_msr(vcpu, MSR_DS_AREA, moved->area[moved->to]);
}
DEFECT(move_loads_old_area, "SDM Vol 3, 17.4.9.5",
       "back on a processor IA32_DS_AREA is what it was there before",
       BREAKS(note, move_loads_old_area))

/* A branch of what runs on a processor whose IA32_DS_AREA still has `area`. */
static void record_host(struct vcpu *vcpu, uint64_t area)
{
	uint64_t own = vcpu->ds.ds_area;

	ds_forget(vcpu);
	vcpu->ds.ds_area = area;
	ds_clean.store(vcpu, &(struct branch){.from = HOST_CODE, .to = HOST_CODE + 0x40});
	vcpu->ds.ds_area = own;
	ds_forget(vcpu);
}

static void move_leaves_on_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	uint64_t *left = REMEMBERED(vcpu, uint64_t);

	ds_clean.note(vcpu, occasion);
	if (!ds_is_exit(occasion))
		return;
	if (ds_tracing(vcpu))
		*left = vcpu->ds.ds_area;
	else if (*left)
		record_host(vcpu, *left);
}

static bool forget_area(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_DS_AREA)
		*REMEMBERED(vcpu, uint64_t) = 0;
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(move_leaves_on, "SDM Vol 3, 17.4.9.5",
       "the processor that a virtual one has left goes on recording into its buffer",
       BREAKS(note, move_leaves_on_note), BREAKS(write_msr, forget_area))

/* --- A host that profiles ----------------------------------------------------------------------
 */

static void profile_uses_area(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (ds_is_exit(occasion) && !ds_tracing(vcpu) && vcpu->ds.ds_area)
		record_host(vcpu, vcpu->ds.ds_area);
}
DEFECT(profile_uses_area, "SDM Vol 3, 17.4.5",
       "the host sets TR to record itself, and does so into the area of a guest that does not",
       BREAKS(note, profile_uses_area))

/* What a host's profile leaves in effect from an exit on until the guest writes the MSR. */
static void leave_at_exit(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	*REMEMBERED(vcpu, bool) |= ds_is_exit(occasion);
}

static bool until_debugctl(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) &= index != MSR_DEBUGCTL;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool until_area(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) &= index != MSR_DS_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool leaves_filter(const struct vcpu *vcpu, const struct branch *branch)
{
	return ds_clean.filter(vcpu, branch) && (branch->to_cpl || !*REMEMBERED(vcpu, bool));
}
DEFECT(profile_leaves_filter, "SDM Vol 3, 17.4.5",
       "after an exit BTS_OFF_OS of the host's profile holds for the guest",
       BREAKS(note, leave_at_exit), BREAKS(write_msr, until_debugctl),
       BREAKS(filter, leaves_filter))

static bool shows_area_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	bool known = ds_clean.read_msr(vcpu, index, value);

	if (index == MSR_DS_AREA && *REMEMBERED(vcpu, bool))
		*value = HOST_AREA;
	return known;
}
DEFECT(profile_shows_area, "SDM Vol 3, 17.4.5",
       "after an exit IA32_DS_AREA reads as the address of the host's own area",
       BREAKS(note, leave_at_exit), BREAKS(write_msr, until_area),
       BREAKS(read_msr, shows_area_read_msr))

/* --- INIT and RESET ----------------------------------------------------------------------------
 */

/* The guest is shown what the hypervisor keeps of the MSRs; the processor was not written. */
static void init_records_on(struct vcpu *vcpu)
{
	uint64_t debugctl = vcpu->debugctl, area = vcpu->ds.ds_area;
	bool records = ds_tracing(vcpu);

	ds_clean.init(vcpu);
	if (!records)
		return;
	*REMEMBERED(vcpu, bool) = true;
	vcpu->ds.ds_area = area;
	ds_set_debugctl(vcpu, debugctl);
}

static bool init_records_on_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	bool known = ds_clean.read_msr(vcpu, index, value);

	if (*REMEMBERED(vcpu, bool) && (index == MSR_DEBUGCTL || index == MSR_DS_AREA))
		*value = 0;
	return known;
}

DEFECT(init_records_on, "SDM Vol 3, 17.4.9",
       "after INIT the MSRs read 0, and recording goes on until IA32_DEBUGCTL is written",
       BREAKS(init, init_records_on), BREAKS(read_msr, init_records_on_read_msr),
       BREAKS(write_msr, until_debugctl))

static bool reset_leaves_tr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	bool known = ds_clean.read_msr(vcpu, index, value);

	if (index == MSR_DEBUGCTL && !*REMEMBERED(vcpu, bool))
		*value |= ds_layout_of(vcpu)->tr | ds_layout_of(vcpu)->bts;
	return known;
}

static bool reset_leaves_tr_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) |= index == MSR_DEBUGCTL;
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(reset_leaves_tr, "SDM Vol 3, 17.4.9",
       "after RESET IA32_DEBUGCTL has TR and BTS of what ran on the processor before",
       BREAKS(read_msr, reset_leaves_tr), BREAKS(write_msr, reset_leaves_tr_write_msr))
