// SPDX-License-Identifier: MIT
/* Guest memory the long way, and what fills the software TLB. */
#include "monitor/interp/memory.h"

#include "lib/string.h"
#include "monitor/interp/control.h"
#include "monitor/interp/debug.h"
#include "monitor/interp/lockstep.h"
#include "monitor/interp/segment.h"

static const unsigned privilege_access[PRIVILEGES] = {
	[PRIVILEGE_OVERRIDE] = ACCESS_OVERRIDE,
	[PRIVILEGE_USER] = ACCESS_USER,
	[PRIVILEGE_ALIGNED] = ACCESS_USER,
};

static void forget_all(struct interp *interp)
{
	for (unsigned p = 0; p < PRIVILEGES; p++)
		memset(&interp->tlbs[p], 0, sizeof(interp->tlbs[p]));
}

void interp_forget(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;

	interp->epoch++;
	interp->code_epoch++;
	vcpu->translations++;
	vcpu->hot.generation = interp->epoch % (PAGE - 1) + 1;
	if (vcpu->hot.generation == 1)
		forget_all(interp);
	privilege_changed(vcpu);
}

static void mode_changed(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	const struct segment *cs = &vcpu->segment[CS];
	bool wide = vcpu->efer & EFER_LMA && cs->attributes & SEGMENT_L;
	unsigned mode = wide ? MODE_64 : cs->attributes & SEGMENT_DB ? MODE_32 : MODE_16;
	uint64_t base = wide ? 0 : cs->base;

	if (mode == vcpu->hot.mode && base == interp->code_base)
		return;
	if (mode != vcpu->hot.mode && vcpu->observed)
		saw_mode(vcpu, 64 >> mode);
	vcpu->hot.mode = (uint8_t)mode;
	interp->code_base = base;
	interp->code_mask = wide ? ~0ULL : 0xffffffff;
	interp->code_epoch++;
}

void privilege_changed(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	bool ac = vcpu->rflags & FLAG_AC;

	if (vcpu->cpl == 3)
		interp->privilege = ac && vcpu->cr0 & CR0_AM ? PRIVILEGE_ALIGNED : PRIVILEGE_USER;
	else
		interp->privilege = ac ? PRIVILEGE_OVERRIDE : PRIVILEGE_SUPERVISOR;
	vcpu->hot.tlb = &interp->tlbs[interp->privilege];
	mode_changed(vcpu);
	vcpu->hot.validity = interp->code_epoch << 1 | (vcpu->cpl == 3);
	vcpu->hot.attention = true;
}

/*
 * The host address of `linear`, filling the TLB for `privilege` on the way. NULL: *error is the
 * #PF error code, or *device is set as the page is not memory.
 */
static uint8_t *reach(struct vcpu *vcpu, uint64_t linear, enum privilege privilege, bool write,
		      uint32_t *error, bool *device)
{
	struct interp *interp = vcpu->interp;
	struct tlb *tlb = &interp->tlbs[privilege];
	struct translation *t = write ? tlb->write : tlb->read;
	unsigned access = privilege_access[privilege] | (write ? ACCESS_WRITE : 0);
	uint64_t page = linear & ~(uint64_t)(PAGE - 1), physical;

	*device = false;
	t += (linear / PAGE) % TRANSLATIONS;
	if (t->tag == (page | vcpu->hot.generation))
		return (uint8_t *)((uintptr_t)linear + t->delta);
	if (!walk(vcpu, linear, access, &physical, error))
		return NULL;

	uint8_t *host = platform_guest_page(physical & ~(uint64_t)(PAGE - 1));

	if (!host) {
		*device = true;
		return NULL;
	}
	if (interp->lockstep && platform_takes_writes(physical & ~(uint64_t)(PAGE - 1)))
		lockstep_skip(vcpu);
	if (write && platform_takes_writes(physical & ~(uint64_t)(PAGE - 1)))
		interp->platform_takes = physical;
	else if (privilege != PRIVILEGE_ALIGNED && !interp->lockstep && !interp->breakpoints &&
		 !interp->watching)
		*t = (struct translation){.tag = page | vcpu->hot.generation,
					  .delta = (uintptr_t)host - (uintptr_t)page};
	return host + (linear - page);
}

bool guest_translate(struct vcpu *vcpu, uint64_t linear, unsigned access, uint64_t *physical,
		     uint32_t *error)
{
	*error = 0;
	if (!(vcpu->efer & EFER_LMA))
		linear = (uint32_t)linear;
	return canonical(linear) && walk(vcpu, linear, access, physical, error);
}

static uint8_t *reach_or_raise(struct vcpu *vcpu, const struct insn *i, uint64_t linear, bool write)
{
	uint32_t error;
	bool device;
	uint8_t *host = reach(vcpu, linear, vcpu->interp->privilege, write, &error, &device);

	if (host)
		return host;
	if (device)
		native_step(vcpu, i);
	raise_fault(
		vcpu, i,
		&(struct fault){
			.vector = VECTOR_PF, .has_error = true, .error = error, .address = linear});
}

static void note_write(struct vcpu *vcpu, uint8_t *to, unsigned size)
{
	if (vcpu->interp->lockstep)
		lockstep_write(vcpu, to, size);
}

static const uint8_t *reach_to_read(struct vcpu *vcpu, const struct insn *i, uint64_t linear,
				    unsigned size)
{
	const uint8_t *from = reach_or_raise(vcpu, i, linear, false);

	return vcpu->interp->lockstep ? lockstep_read(vcpu, from, size) : from;
}

static void check_address(struct vcpu *vcpu, const struct insn *i, uint64_t linear, unsigned size)
{
	if (!canonical(linear) || !canonical(linear + size - 1))
		raise_error(vcpu, i, i->segment == SS ? VECTOR_SS : VECTOR_GP, 0);
	/* SDM Vol 3, table 6-7: no instruction here needs more than 8; SSE checks its own. */
	if (vcpu->interp->privilege == PRIVILEGE_ALIGNED && size <= 8 && linear & (size - 1))
		raise_error(vcpu, i, VECTOR_AC, 0);
}

const void *read_far(struct vcpu *vcpu, const struct insn *i, uint64_t linear, unsigned size)
{
	uint8_t *bounce = vcpu->interp->read_bounce;
	unsigned first = PAGE - (unsigned)(linear % PAGE);

	check_address(vcpu, i, linear, size);
	if (vcpu->interp->breakpoints)
		debug_access(vcpu, linear, size, false);
	if (vcpu->interp->watching) {
		vcpu->interp->began.load = linear;
		vcpu->interp->began.kind |= RETIRED_LOAD;
	}
	if (size <= first)
		return reach_to_read(vcpu, i, linear, size);

	const uint8_t *low = reach_to_read(vcpu, i, linear, first);
	const uint8_t *high = reach_to_read(vcpu, i, linear + first, size - first);

	memcpy(bounce, low, first);
	memcpy(bounce + first, high, size - first);
	return bounce;
}

static void watch_bounce(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;

	interp->code_page = vcpu->hot.watched_page;
	vcpu->hot.watched_page = (uintptr_t)interp->write_bounce / PAGE;
}

/* The instruction may read it first. */
static void *write_for_platform(struct vcpu *vcpu, const uint8_t *from, unsigned size)
{
	struct interp *interp = vcpu->interp;

	if (size <= 8)
		put(interp->write_bounce, get(from, size), size);
	interp->write_bytes = size;
	watch_bounce(vcpu);
	return interp->write_bounce;
}

void *write_far(struct vcpu *vcpu, const struct insn *i, uint64_t linear, unsigned size)
{
	struct interp *interp = vcpu->interp;
	unsigned first = PAGE - (unsigned)(linear % PAGE);

	check_address(vcpu, i, linear, size);
	if (vcpu->interp->breakpoints)
		debug_access(vcpu, linear, size, true);
	if (interp->watching) {
		interp->began.store = linear;
		interp->began.kind |= RETIRED_STORE;
	}
	interp->platform_takes = 0;
	if (size <= first) {
		uint8_t *to = reach_or_raise(vcpu, i, linear, true);

		if (interp->platform_takes)
			return write_for_platform(vcpu, to, size);
		note_write(vcpu, to, size);
		return to;
	}
	/* Atomic over two pages: only the processor can do that. */
	if (i->prefixes & PREFIX_LOCK)
		native_step(vcpu, i);

	uint8_t *low = reach_or_raise(vcpu, i, linear, true);
	uint8_t *high = reach_or_raise(vcpu, i, linear + first, true);

	note_write(vcpu, low, first);
	note_write(vcpu, high, size - first);
	memcpy(interp->write_bounce, low, first);
	memcpy(interp->write_bounce + first, high, size - first);
	interp->write_to[0] = low;
	interp->write_to[1] = high;
	interp->write_first = first;
	interp->write_bytes = size;
	watch_bounce(vcpu);
	return interp->write_bounce;
}

/* For CALL_SLOWLY(). */
#define SLOWLY(function)                                                                              \
	__asm__(".pushsection .text\n\t"                                                              \
		".globl " #function "_slowly\n" #function "_slowly:\n\t"                              \
		"push %rbp\n\tmov %rsp, %rbp\n\tpush %rcx\n\tpush %rdx\n\tpush %rsi\n\tpush %rdi\n\t" \
		"push %r8\n\tpush %r9\n\tpush %r10\n\tpush %r11\n\tand $-16, %rsp\n\t"                \
		"call " #function "\n\tlea -64(%rbp), %rsp\n\t"                                       \
		"pop %r11\n\tpop %r10\n\tpop %r9\n\tpop %r8\n\tpop %rdi\n\tpop %rsi\n\t"              \
		"pop %rdx\n\tpop %rcx\n\tpop %rbp\n\tret\n\t.popsection")
SLOWLY(read_far);
SLOWLY(write_far);
SLOWLY(address_general);
SLOWLY(write_watched);

void write_watched(struct vcpu *vcpu, const void *where)
{
	struct interp *interp = vcpu->interp;

	if (where != interp->write_bounce)
		return;
	vcpu->hot.watched_page = interp->code_page;
	if (interp->platform_takes) {
		platform_write(vcpu, interp->platform_takes, where, interp->write_bytes);
		return;
	}
	memcpy(interp->write_to[0], where, interp->write_first);
	memcpy(interp->write_to[1], (const uint8_t *)where + interp->write_first,
	       interp->write_bytes - interp->write_first);
}

void leave_after_write(struct vcpu *vcpu, const struct insn *i, const void *where)
{
	write_watched(vcpu, where);
	leave(vcpu, i);
}

/* One page of a system access. */
static uint8_t *system_reach(struct vcpu *vcpu, uint64_t linear, unsigned access,
			     struct fault *fault)
{
	enum privilege privilege = PRIVILEGE_SUPERVISOR;
	uint32_t error = 0;
	bool device = false;
	uint8_t *host = NULL;

	if (access & ACCESS_USER)
		privilege = PRIVILEGE_USER;
	else if (access & ACCESS_OVERRIDE)
		privilege = PRIVILEGE_OVERRIDE;
	*fault = (struct fault){.vector = VECTOR_GP, .has_error = true};
	if (canonical(linear)) {
		host = reach(vcpu, linear, privilege, access & ACCESS_WRITE, &error, &device);
		*fault = (struct fault){
			.vector = VECTOR_PF, .has_error = true, .error = error, .address = linear};
	}
	return host;
}

static bool system_access(struct vcpu *vcpu, uint64_t linear, void *buffer, unsigned size,
			  unsigned access, struct fault *fault)
{
	unsigned first = PAGE - (unsigned)(linear % PAGE);
	uint8_t *low = system_reach(vcpu, linear, access, fault);
	uint8_t *high = NULL;

	if (size <= first)
		first = size;
	else if (low)
		high = system_reach(vcpu, linear + first, access, fault);
	if (!low || (size > first && !high))
		return false;
	if (access & ACCESS_WRITE) {
		note_write(vcpu, low, first);
		if (high)
			note_write(vcpu, high, size - first);
		memcpy(low, buffer, first);
		if (high)
			memcpy(high, (uint8_t *)buffer + first, size - first);
	} else {
		memcpy(buffer, low, first);
		if (high)
			memcpy((uint8_t *)buffer + first, high, size - first);
	}
	return true;
}

bool system_read(struct vcpu *vcpu, uint64_t linear, void *to, unsigned size, struct fault *fault)
{
	return system_access(vcpu, linear, to, size, ACCESS_READ, fault);
}

bool system_write(struct vcpu *vcpu, uint64_t linear, const void *from, unsigned size,
		  unsigned access, struct fault *fault)
{
	return system_access(vcpu, linear, (void *)(uintptr_t)from, size, access | ACCESS_WRITE,
			     fault);
}
