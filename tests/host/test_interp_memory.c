// SPDX-License-Identifier: MIT
/* sources: tests/host/interp_observer.c tests/host/interp_rig.c */
/* sources: monitor/interp/?*.c lib/format.c */
/* The guest's paging as the interpreter sees it, string instructions over it, changed code. */
#include "tests/host/interp_rig.h"

enum who { SUPERVISOR, USER };

/* An access of `access` through a page of `rights` gives -1, no fault, or the error code. */
static void check_access(uint64_t rights, unsigned access, enum who who, int64_t expected)
{
	struct vcpu *v = &rig.vcpu;
	uint64_t physical;
	uint32_t error = 0;

	*rig_pte(RIG_DATA) = RIG_DATA | rights;
	interp_forget(v);
	if (guest_translate(v, DATA + 5, access | (who == USER ? ACCESS_USER : 0), &physical,
			    &error)) {
		assert_int_equal(expected, -1);
		assert_int_equal(physical, RIG_DATA + 5);
		assert_true(*rig_pte(RIG_DATA) & RIG_A);
		assert_int_equal(!!(*rig_pte(RIG_DATA) & RIG_D), access == ACCESS_WRITE);
	} else {
		assert_int_equal(expected, error);
		assert_false(*rig_pte(RIG_DATA) & (RIG_A | RIG_D));
	}
}

UNIT(rights_decide_who_may_do_what, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	check_access(0, ACCESS_READ, SUPERVISOR, 0);
	check_access(0, ACCESS_WRITE, USER, 6);
	check_access(RIG_P, ACCESS_READ, SUPERVISOR, -1);
	check_access(RIG_P, ACCESS_READ, USER, 5);
	check_access(RIG_P, ACCESS_WRITE, SUPERVISOR, 3);
	check_access(RIG_P | RIG_W, ACCESS_WRITE, SUPERVISOR, -1);
	check_access(RIG_P | RIG_W, ACCESS_WRITE, USER, 7);
	check_access(RIG_P | RIG_U, ACCESS_WRITE, USER, 7);
	check_access(RIG_ALL, ACCESS_WRITE, USER, -1);
	check_access(RIG_P, ACCESS_EXECUTE, SUPERVISOR, -1);
	check_access(RIG_P | RIG_NX, ACCESS_EXECUTE, SUPERVISOR, 0x11);
	check_access(RIG_ALL | RIG_NX, ACCESS_EXECUTE, USER, 0x15);
	check_access(RIG_ALL | RIG_NX, ACCESS_READ, USER, -1);
	v->cr0 &= ~CR0_WP;
	check_access(RIG_P, ACCESS_WRITE, SUPERVISOR, -1);
	check_access(RIG_P | RIG_U, ACCESS_WRITE, USER, 7);
	v->cr0 |= CR0_WP;
	v->efer &= ~EFER_NXE;
	check_access(RIG_ALL | RIG_NX, ACCESS_READ, SUPERVISOR, 9);
	check_access(0, ACCESS_EXECUTE, SUPERVISOR, 0);
	v->cr4 |= CR4_SMEP;
	check_access(RIG_ALL, ACCESS_EXECUTE, SUPERVISOR, 0x11);
	check_access(RIG_ALL, ACCESS_EXECUTE, USER, -1);
	v->cr4 |= CR4_SMAP;
	check_access(RIG_ALL, ACCESS_READ, SUPERVISOR, 1);
	check_access(RIG_P, ACCESS_READ, SUPERVISOR, -1);
	v->interp->physical_reserved = ~0ULL << 40;
	check_access(RIG_P | 1ull << 45, ACCESS_READ, SUPERVISOR, 9);
}

UNIT(smap_yields_to_ac_for_explicit_accesses, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;
	uint64_t physical;
	uint32_t error;

	/* Only the data page is a user page. */
	*rig_pte(RIG_CODE) &= ~(uint64_t)RIG_U;
	*rig_pte(RIG_STACK - 8) &= ~(uint64_t)RIG_U;
	*rig_pte(RIG_IDT) &= ~(uint64_t)RIG_U;
	*rig_pte(RIG_GDT) &= ~(uint64_t)RIG_U;
	v->cr4 |= CR4_SMAP | CR4_SMEP;
	RIG_PROGRAM(0x8a, 0x03, 0x8a, 0x03);
	v->gpr[RBX] = DATA;
	v->rflags |= FLAG_AC;
	rig_step(1);
	assert_int_equal(v->rip, CODE + 2);
	assert_false(guest_translate(v, DATA, ACCESS_READ, &physical, &error));
	v->rflags &= ~(uint64_t)FLAG_AC;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(14));
	assert_int_equal(rig_word(v->gpr[RSP]), 1);
}

UNIT(large_pages_and_tables_absent, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;
	uint64_t physical, *pd = (void *)(rig.memory + RIG_PD),
			   *pdpt = (void *)(rig.memory + RIG_PDPT);
	uint32_t error;

	assert_true(guest_translate(v, RIG_BASE + 0x234567, 0, &physical, &error));
	assert_int_equal(physical, 0x234567);
	pd[(RIG_BASE >> 21) + 1] |= 1ull << 15;
	interp_forget(v);
	assert_false(guest_translate(v, RIG_BASE + 0x234567, 0, &physical, &error));
	assert_int_equal(error, 9);
	assert_false(guest_translate(v, 1ull << 39, 0, &physical, &error));
	assert_int_equal(error, 0);
	assert_false(guest_translate(v, 1ull << 47, 0, &physical, &error));
	v->interp->pages_1g = true;
	pdpt[1] = 0x40000000 | RIG_ALL | 0x80;
	assert_true(guest_translate(v, 0x40123456, 0, &physical, &error));
	assert_int_equal(physical, 0x40123456);
	v->interp->pages_1g = false;
	interp_forget(v);
	assert_false(guest_translate(v, 0x40123456, 0, &physical, &error));
	assert_int_equal(error, 9);
}

enum { TABLES = 0x100000 }; /* of the modes below; the page is RIG_DATA by all of them */

/* Sets up one of the four kinds of paging; returns the entry of RIG_DATA's page, NULL without. */
static uint64_t *page_entry(struct vcpu *v, unsigned kind)
{
	uint32_t *word = (void *)(rig.memory + TABLES);
	uint64_t *entry = (void *)(rig.memory + TABLES);
	unsigned page = RIG_DATA / PAGE;

	memset(rig.memory + TABLES, 0, 3 * PAGE);
	v->cr3 = TABLES;
	v->efer = 0;
	switch (kind) {
	case 0: /* none: CR3 means nothing */
		v->cr0 &= ~CR0_PG;
		v->cr3 = 0x70003;
		return NULL;
	case 1: /* 32-bit */
		v->cr4 &= ~CR4_PAE;
		word[0] = (TABLES + PAGE) | RIG_ALL;
		word[PAGE / 4 + page] = RIG_DATA | RIG_ALL;
		return (void *)&word[PAGE / 4 + page];
	case 2: /* PAE: CR3 is aligned to 32 bytes */
		v->cr3 = TABLES + 0x20;
		entry[4] = (TABLES + PAGE) | RIG_P;
		entry[PAGE / 8] = (TABLES + 2 * PAGE) | RIG_ALL;
		entry[2 * PAGE / 8 + page] = RIG_DATA | RIG_ALL;
		return &entry[2 * PAGE / 8 + page];
	default:
		v->efer = EFER_LME | EFER_LMA;
		v->cr3 = RIG_PML4;
		return rig_pte(RIG_DATA);
	}
}

/* The Debug Store's access to a page that is not Dirty, in every kind of paging. */
UNIT(accesses_leave_or_need_dirty, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;
	const uint64_t cr0 = v->cr0, cr4 = v->cr4;
	uint64_t physical;
	uint32_t error;

	for (unsigned kind = 0; kind < 4; kind++) {
		uint64_t linear = (kind == 3 ? RIG_BASE : 0) + RIG_DATA + 5, *entry;

		v->cr0 = cr0;
		v->cr4 = cr4;
		entry = page_entry(v, kind);
		assert_true(guest_translate(v, linear, ACCESS_WRITE | ACCESS_UNMARKED, &physical,
					    &error));
		assert_int_equal(physical, RIG_DATA + 5);
		assert_int_equal(
			guest_translate(v, linear, ACCESS_WRITE | ACCESS_DIRTY, &physical, &error),
			!entry);
		if (!entry)
			continue;
		assert_int_equal((uint32_t)*entry & (RIG_A | RIG_D), 0);
		assert_true(guest_translate(v, linear, ACCESS_WRITE, &physical, &error));
		assert_int_equal((uint32_t)*entry & (RIG_A | RIG_D), RIG_A | RIG_D);
		assert_true(
			guest_translate(v, linear, ACCESS_WRITE | ACCESS_DIRTY, &physical, &error));
		assert_int_equal(physical, RIG_DATA + 5);
	}
}

/* SDM Vol 3, 4.4.1: MOV to CR3 checks the PDPTEs. QEMU sets Accessed there. */
UNIT(walks_do_not_check_pdptes, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;
	uint64_t physical, *pdpte = (uint64_t *)(void *)(rig.memory + TABLES) + 4;
	uint32_t error;

	page_entry(v, 2);
	*pdpte |= RIG_A;
	assert_true(guest_translate(v, RIG_DATA, 0, &physical, &error));
	*pdpte |= 6;
	assert_true(guest_translate(v, RIG_DATA, 0, &physical, &error));
}

/* By 32-bit code, whose page table is that of the rig: whether MOV to CR3 takes this PDPTE. */
static bool cr3_takes(uint64_t bits)
{
	struct vcpu *v = &rig.vcpu;

	rig_reset();
	RIG_PROGRAM(0x0f, 0x22, 0xd8); /* mov cr3, eax */
	*(uint64_t *)(void *)(rig.memory + TABLES) = RIG_PD | RIG_P;
	*(uint64_t *)(void *)(rig.memory + TABLES + PAGE) = RIG_PD | RIG_P | bits;
	v->segment[CS].attributes = 0xc9b;
	v->efer = 0;
	v->cr3 = TABLES;
	v->gpr[RAX] = TABLES + PAGE;
	interp_forget(v);
	rig_step(1);
	return v->cr3 == TABLES + PAGE;
}

UNIT(mov_to_cr3_checks_pdptes)
{
	assert_true(cr3_takes(0));
	assert_true(cr3_takes(RIG_A));
	assert_false(cr3_takes(2));
	assert_false(cr3_takes(0x100));
	assert_false(cr3_takes(1ull << 63));
}

/* Linux extends the sign of the DS area's address. */
UNIT(linear_addresses_have_32_bits_outside_ia_32e_mode, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;
	uint64_t physical, *pdpte = (uint64_t *)(void *)(rig.memory + TABLES) + 4;
	uint32_t error;

	page_entry(v, 2);
	pdpte[3] = pdpte[0];
	assert_true(guest_translate(v, 0xffffffffc0000000 | RIG_DATA, 0, &physical, &error));
	assert_int_equal(physical, RIG_DATA);
}

UNIT(straddling_write_faults_before_it_writes, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x48, 0x89, 0x03, 0x48, 0x89, 0x03);
	v->gpr[RBX] = DATA + PAGE - 3;
	v->gpr[RAX] = 0x8877665544332211;
	*rig_pte(RIG_DATA + PAGE) = (RIG_DATA + PAGE) | RIG_P;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(14));
	assert_int_equal(v->cr2, DATA + PAGE);
	assert_int_equal(rig_word(DATA + PAGE - 8), 0);
	/* To two pages that do not follow each other. */
	*rig_pte(RIG_DATA + PAGE) = (RIG_DATA + 3 * PAGE) | RIG_ALL;
	interp_forget(v);
	v->rip = CODE;
	rig_step(1);
	assert_int_equal(v->rip, CODE + 3);
	assert_int_equal(rig_word(DATA + PAGE - 8) >> 40, 0x332211);
	assert_int_equal(rig_word(DATA + 3 * PAGE), 0x8877665544);
}

UNIT(noncanonical_is_gp_or_ss, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x8a, 0x03, 0x8a, 0x45, 0x00, 0x50);
	v->gpr[RBX] = v->gpr[RBP] = 1ull << 60;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(13));
	v->rip = CODE + 2;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(12));
}

UNIT(device_pages_are_left_to_the_processor, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0x90, 0x8b, 0x03);
	v->gpr[RBX] = RIG_BASE + RIG_DEVICE;
	v->gpr[RAX] = 7;
	assert_int_equal(interp_run(v, 100), INTERP_NATIVE_STEP);
	assert_int_equal(v->rip, CODE + 1);
	assert_int_equal(v->gpr[RAX], 7);
}

UNIT(rep_movs_faults_in_the_middle, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xf3, 0xa4);
	for (unsigned n = 0; n < 2 * PAGE; n++)
		rig.memory[RIG_DATA + n] = (uint8_t)(n * 7);
	v->gpr[RSI] = DATA + 100;
	v->gpr[RDI] = DATA + 4 * PAGE - 1000;
	v->gpr[RCX] = 3000;
	*rig_pte(RIG_DATA + 4 * PAGE) = 0;
	while (v->rip == CODE)
		interp_run(v, 1);
	assert_int_equal(observer.branch[0].to, HANDLER(14));
	assert_int_equal(observer.branches, 1);
	assert_int_equal(v->cr2, DATA + 4 * PAGE);
	assert_int_equal(v->gpr[RCX], 2000);
	assert_int_equal(v->gpr[RSI], DATA + 1100);
	assert_int_equal(v->gpr[RDI], DATA + 4 * PAGE);
	assert_memory_equal(rig.memory + RIG_DATA + 4 * PAGE - 1000, rig.memory + RIG_DATA + 100,
			    1000);
	/* And goes on where it was. */
	*rig_pte(RIG_DATA + 4 * PAGE) = (RIG_DATA + 4 * PAGE) | RIG_ALL;
	v->rip = CODE;
	while (v->rip == CODE)
		interp_run(v, 1);
	assert_int_equal(v->gpr[RCX], 0);
	assert_memory_equal(rig.memory + RIG_DATA + 4 * PAGE - 1000, rig.memory + RIG_DATA + 100,
			    3000);
	assert_int_equal(observer.branches, 1);
}

UNIT(overlapping_and_backward_moves, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xf3, 0x48, 0xa5);
	rig.memory[RIG_DATA + PAGE - 12] = 0x5a;
	v->gpr[RSI] = DATA + PAGE - 12;
	v->gpr[RDI] = DATA + PAGE - 4; /* its own output is its input, over the page's end */
	v->gpr[RCX] = 5;
	while (v->rip == CODE)
		interp_run(v, 1);
	for (unsigned n = 0; n < 6; n++)
		assert_int_equal(rig_word(DATA + PAGE - 12 + n * 8), 0x5a);

	rig_reset();
	observer_reset();
	RIG_PROGRAM(0xfd, 0xf3, 0x66, 0xab);
	v->gpr[RAX] = 0x1234;
	v->gpr[RDI] = DATA + PAGE + 1;
	v->gpr[RCX] = 3;
	while (v->rip <= CODE + 1)
		interp_run(v, 1);
	assert_int_equal(v->gpr[RDI], DATA + PAGE - 5);
	assert_int_equal(rig_word(DATA + PAGE - 5), 0x1234123412340000);
}

UNIT(compare_and_scan_stop_where_they_should, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	RIG_PROGRAM(0xf2, 0xae, 0xf3, 0xa6);
	memset(rig.memory + RIG_DATA, 'a', 2 * PAGE);
	rig.memory[RIG_DATA + PAGE + 10] = 'x';
	v->gpr[RAX] = 'x';
	v->gpr[RDI] = DATA;
	v->gpr[RCX] = ~0ull;
	while (v->rip == CODE)
		interp_run(v, 1);
	assert_int_equal(v->gpr[RDI], DATA + PAGE + 11);
	assert_true(v->rflags & FLAG_ZF);
	v->gpr[RSI] = DATA;
	v->gpr[RDI] = DATA + PAGE;
	v->gpr[RCX] = 100;
	while (v->rip == CODE + 2)
		interp_run(v, 1);
	assert_int_equal(v->gpr[RDI], DATA + PAGE + 11);
	assert_int_equal(v->gpr[RCX], 89);
	assert_int_equal(v->rflags & FLAG_ARITHMETIC, FLAG_CF | FLAG_SF | FLAG_AF);
}

UNIT(changed_code_is_seen_at_once, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	/* inc eax; a move that makes the next, inc eax, into dec eax; hlt */
	RIG_PROGRAM(0xff, 0xc0, 0xc6, 0x05, 0x01, 0x00, 0x00, 0x00, 0xc8, 0xff, 0xc0, 0xf4);
	assert_int_equal(interp_run(v, 100), INTERP_HALTED);
	assert_int_equal(v->gpr[RAX], 0);
	/* From outside, between two runs. */
	v->halted = false;
	v->rip = CODE;
	rig.memory[RIG_CODE + 8] = 0xc0;
	assert_int_equal(interp_run(v, 100), INTERP_HALTED);
	assert_int_equal(v->gpr[RAX], 2);
}

UNIT(code_may_straddle_pages, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;
	const uint8_t code[] = {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0xf4};

	rig_code(RIG_CODE + PAGE - 4, code, 4);
	rig_code(RIG_CODE + 5 * PAGE, code + 4, 7);
	*rig_pte(RIG_CODE + PAGE) = 0;
	v->rip = CODE + PAGE - 4;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(14));
	assert_int_equal(v->cr2, CODE + PAGE);
	assert_int_equal(rig_word(v->gpr[RSP] + 8), CODE + PAGE - 4);
	assert_int_equal(rig_word(v->gpr[RSP]), 0x10);
	*rig_pte(RIG_CODE + PAGE) = (RIG_CODE + 5 * PAGE) | RIG_ALL;
	for (unsigned n = 0; n < 3; n++) {
		v->rip = CODE + PAGE - 4;
		v->halted = false;
		assert_int_equal(interp_run(v, 10), INTERP_HALTED);
		assert_int_equal(v->gpr[RAX], 0x0807060504030201 + n);
		rig.memory[RIG_CODE + PAGE - 2]++;
	}
	*rig_pte(RIG_CODE + PAGE) |= RIG_NX;
	interp_forget(v);
	v->rip = CODE + PAGE - 4;
	v->halted = false;
	rig_step(1);
	assert_int_equal(v->rip, HANDLER(14));
	assert_int_equal(rig_word(v->gpr[RSP]), 0x11);
}

UNIT(more_code_than_the_cache_holds, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	for (unsigned n = 0; n < 60000; n++) {
		rig.memory[RIG_CODE] = 0xb8; /* mov eax, n; hlt */
		memcpy(rig.memory + RIG_CODE + 1, &n, 4);
		rig.memory[RIG_CODE + 5] = 0xf4;
		v->rip = CODE;
		v->halted = false;
		assert_int_equal(interp_run(v, 10), INTERP_HALTED);
		assert_int_equal(v->gpr[RAX], n);
	}
}

UNIT(no_execute_can_be_taken_away, .setup_func = observer_begin)
{
	struct vcpu *v = &rig.vcpu;

	assert_true(guest_write_msr(v, MSR_EFER, v->efer | EFER_NXE));
	v->taken_away = MISC_ENABLE_XD_DISABLE;
	assert_false(guest_write_msr(v, MSR_EFER, v->efer | EFER_NXE));
	assert_true(guest_write_msr(v, MSR_EFER, v->efer & ~EFER_NXE));
	v->taken_away = 0;
	assert_true(guest_write_msr(v, MSR_EFER, v->efer | EFER_NXE));
}
