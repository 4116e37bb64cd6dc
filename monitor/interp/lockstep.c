// SPDX-License-Identifier: MIT
/*
 * The interpreter checked against the processor, instruction by instruction. The interpreter goes
 * first; what it wrote is put back, the processor executes the same from the same state, and the
 * interpreter's outcome is what stays. Not seen: a store that the processor makes and the
 * interpreter forgets altogether, Accessed and Dirty bits, and, where there are several processors,
 * what a locked instruction does to memory. An instruction whose operand another processor changes
 * meanwhile is not compared.
 */
#include "monitor/interp/lockstep.h"

#include "lib/format.h"
#include "lib/string.h"
#include "monitor/interp/control.h"
#include "monitor/interp/decode.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"

enum { WRITES = 6, READS = 6, BYTES = 1024, FPU_BYTES = 512, TEXT_BYTES = 360 };
enum { TRIES = 8 };	 /* of a difference: another processor may write a value and take it back */
enum { ALIGNMENT = 16 }; /* of operands of SSE and FXRSTOR */
enum { ERROR_PRESENT = 1, ERROR_WRITE = 2, ERROR_RESERVED = 8 }; /* of a #PF */
enum { PUSHF = 0x9c, POPF = 0x9d, IRET = 0xcf, CLI = 0xfa };

struct write {
	uint8_t *to;
	unsigned bytes, at; /* in `old` and `new` */
};

struct read {
	const uint8_t *from;
	unsigned bytes, at; /* in `seen` */
};

struct lockstep {
	struct vcpu before;
	uint8_t fpu_before[FPU_BYTES] __attribute__((aligned(16)));
	uint8_t fpu[FPU_BYTES] __attribute__((aligned(16)));
	uint8_t fpu_native[FPU_BYTES] __attribute__((aligned(16)));
	struct write write[WRITES];
	unsigned writes, bytes, deviations;
	uint8_t old[BYTES], new[BYTES];
	struct read read[READS];
	unsigned reads, seen_bytes;
	uint8_t seen[BYTES] __attribute__((aligned(ALIGNMENT)));

	struct insn insn; /* without a length where it cannot be fetched */
	uint8_t code[INSN_BYTES];
	bool compares;
	struct {
		unsigned count;
		uint64_t value; /* the last one */
	} saw[SIGHTS];
	char text[TEXT_BYTES];
	size_t said;
};
_Static_assert(sizeof(struct lockstep) <= LOCKSTEP_MEMORY, "LOCKSTEP_MEMORY holds one");

static uint64_t compared;
static unsigned processors;

void lockstep_init(struct vcpu *vcpu, void *memory, unsigned deviations)
{
	struct lockstep *l = memory;

	memset(l, 0, sizeof(*l));
	l->deviations = deviations;
	__atomic_add_fetch(&processors, 1, __ATOMIC_RELAXED);
	vcpu->interp->lockstep = l;
	vcpu->observed |= OBSERVER_LOCKSTEP;
	interp_forget(vcpu);
}

uint64_t lockstep_compared(void)
{
	return __atomic_load_n(&compared, __ATOMIC_RELAXED);
}

static void save_fpu(uint8_t *to)
{
	__asm__ volatile("fxsave64 %0" : "=m"(*(uint8_t(*)[FPU_BYTES])to));
}

static void load_fpu(const uint8_t *from)
{
	__asm__ volatile("fxrstor64 %0" : : "m"(*(const uint8_t(*)[FPU_BYTES])from));
}

/* The bytes at RIP that can be fetched. */
static unsigned fetch_code(struct vcpu *vcpu, uint8_t *code)
{
	unsigned access = ACCESS_EXECUTE | (vcpu->cpl == 3 ? ACCESS_USER : 0), n;

	for (n = 0; n < INSN_BYTES; n++) {
		uint64_t linear = code_linear(vcpu->interp, vcpu->rip + n), physical;
		uint32_t error;
		const uint8_t *page;

		if (!guest_translate(vcpu, linear, access, &physical, &error))
			break;
		page = platform_guest_page(physical & ~(uint64_t)(PAGE - 1));
		if (!page)
			break;
		code[n] = page[physical % PAGE];
	}
	return n;
}

static bool has_others(void)
{
	return __atomic_load_n(&processors, __ATOMIC_RELAXED) > 1;
}

/* Another processor would see the store, then the old value, then the store again: it takes such an
   instruction for a message. */
static bool is_message(const struct insn *i)
{
	bool locked = i->prefixes & PREFIX_LOCK || (i->opcode | 1) == 0x87; /* XCHG */

	return has_others() && i->memory && locked;
}

void lockstep_before(struct vcpu *vcpu)
{
	struct lockstep *l = vcpu->interp->lockstep;
	bool ends;

	if (decode(l->code, fetch_code(vcpu, l->code), vcpu->rip, vcpu->hot.mode, &l->insn,
		   &ends) == DECODE_SHORT)
		l->insn = (struct insn){.base = NO_REGISTER, .index = NO_REGISTER};
	l->compares = !lockstep_exempt(&l->insn) && !is_message(&l->insn);
	l->writes = l->bytes = 0;
	l->reads = l->seen_bytes = 0;
	memset(l->saw, 0, sizeof(l->saw));
	l->before = *vcpu;
	if (l->insn.form)
		save_fpu(l->fpu_before);
}

void lockstep_write(struct vcpu *vcpu, uint8_t *to, unsigned bytes)
{
	struct lockstep *l = vcpu->interp->lockstep;

	if (!l->compares)
		return;
	if (l->writes == WRITES || l->bytes + bytes > BYTES)
		platform_stop("lockstep: an instruction writes more than can be compared");
	l->write[l->writes++] = (struct write){to, bytes, l->bytes};
	memcpy(l->old + l->bytes, to, bytes);
	l->bytes += bytes;
}

const uint8_t *lockstep_read(struct vcpu *vcpu, const uint8_t *from, unsigned bytes)
{
	struct lockstep *l = vcpu->interp->lockstep;
	uint8_t *seen = l->seen + l->seen_bytes;

	if (!l->compares)
		return from;
	if (l->reads == READS || l->seen_bytes + bytes > BYTES)
		platform_stop("lockstep: an instruction reads more than can be compared");
	l->read[l->reads++] = (struct read){from, bytes, l->seen_bytes};
	l->seen_bytes += (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1u);
	return memcpy(seen, from, bytes);
}

void lockstep_skip(struct vcpu *vcpu)
{
	vcpu->interp->lockstep->compares = false;
}

void lockstep_saw(struct vcpu *vcpu, enum sight sight, uint64_t value)
{
	struct lockstep *l = vcpu->interp->lockstep;

	l->saw[sight].count++;
	l->saw[sight].value = value;
}

static void keep(struct lockstep *l)
{
	for (unsigned n = 0; n < l->writes; n++)
		memcpy(l->new + l->write[n].at, l->write[n].to, l->write[n].bytes);
}

/* Takes back, or makes again, what the interpreter wrote. Places may overlap. */
static void take_back(struct lockstep *l)
{
	for (unsigned n = l->writes; n--;)
		memcpy(l->write[n].to, l->old + l->write[n].at, l->write[n].bytes);
}

static void make_again(const struct lockstep *l)
{
	for (unsigned n = 0; n < l->writes; n++)
		memcpy(l->write[n].to, l->new + l->write[n].at, l->write[n].bytes);
}

/* Whether a place that the interpreter read has changed. Its own writes are taken back before. */
static bool was_written(const struct lockstep *l)
{
	for (unsigned n = 0; n < l->reads; n++)
		if (memcmp(l->seen + l->read[n].at, l->read[n].from, l->read[n].bytes) != 0)
			return true;
	return false;
}

static void say(struct lockstep *l, const char *what, uint64_t interpreted, uint64_t native)
{
	size_t room = l->said < TEXT_BYTES ? TEXT_BYTES - l->said : 0;

	if (room)
		l->said +=
			(size_t)format(l->text + l->said, room, "; %s %llx, native %llx", what,
				       (unsigned long long)interpreted, (unsigned long long)native);
}

static void compare(struct lockstep *l, const char *what, uint64_t interpreted, uint64_t native)
{
	if (interpreted != native)
		say(l, what, interpreted, native);
}

/* The hidden part of a null selector is undefined, and so is a type in real mode. */
static void compare_segment(struct lockstep *l, const char *name, const struct segment *a,
			    const struct segment *b, bool real)
{
	unsigned defined = real ? ~(unsigned)SEGMENT_TYPE : ~0u;

	compare(l, name, a->selector, b->selector);
	if (null_selector(a->selector) && !real)
		return;
	compare(l, name, a->base, b->base);
	compare(l, name, a->attributes & defined, b->attributes & defined);
	compare(l, name, a->limit, b->limit);
}

static void compare_registers(struct lockstep *l, const struct vcpu *a, const struct vcpu *b,
			      uint64_t flags)
{
	static const char names[][4] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
					"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
	static const char segments[][3] = {"es", "cs", "ss", "ds", "fs", "gs"};

	/* Outside of 64-bit mode the upper halves are undefined: SDM Vol 1, 3.4.1.1. */
	uint64_t defined = in_64_bit_mode(b) ? ~0ULL : 0xffffffff;
	bool real = !(l->before.cr0 & a->cr0 & CR0_PE);

	for (unsigned n = 0; n < 16; n++)
		compare(l, names[n], a->gpr[n] & defined, b->gpr[n] & defined);
	compare(l, "rip", a->rip, b->rip);
	compare(l, "rflags", a->rflags & flags, b->rflags & flags);
	for (unsigned n = 0; n < SEGMENTS; n++)
		compare_segment(l, segments[n], &a->segment[n], &b->segment[n], real);
	compare_segment(l, "ldtr", &a->ldtr, &b->ldtr, false);
	compare_segment(l, "tr", &a->tr, &b->tr, false);
	compare(l, "gdtr", a->gdtr.base, b->gdtr.base);
	compare(l, "gdtr limit", a->gdtr.limit, b->gdtr.limit);
	compare(l, "idtr", a->idtr.base, b->idtr.base);
	compare(l, "idtr limit", a->idtr.limit, b->idtr.limit);
	compare(l, "cr0", a->cr0, b->cr0);
	compare(l, "cr2", a->cr2, b->cr2);
	compare(l, "cr3", a->cr3, b->cr3);
	compare(l, "cr4", a->cr4, b->cr4);
	compare(l, "efer", a->efer, b->efer);
	compare(l, "kernel gs base", a->kernel_gs_base, b->kernel_gs_base);
	compare(l, "cpl", a->cpl, b->cpl);
}

/* Of FXSAVE's image, without the addresses of the last x87 instruction: a thunk is elsewhere.
   SDM Vol 1, table 10-2. */
static void compare_fpu(struct lockstep *l)
{
	for (unsigned at = 0; at < 32 + 24 * 16; at += 8) {
		uint64_t mask = at == 0 ? 0x0000ffffffffffff : at == 24 ? 0xffffffff : ~0ULL;

		if (at == 8 || at == 16)
			continue;
		compare(l, "fxsave", get(l->fpu + at, 8) & mask, get(l->fpu_native + at, 8) & mask);
	}
}

static void compare_memory(struct lockstep *l)
{
	for (unsigned n = 0; n < l->writes; n++) {
		const struct write *w = &l->write[n];

		for (unsigned at = 0; at < w->bytes; at++)
			compare(l, "memory", l->new[w->at + at], w->to[at]);
	}
}

static bool is_conditional(const struct insn *i)
{
	return (i->opcode & ~15u) == 0x70 || (i->opcode & ~15u) == 0xf80 ||
	       (i->opcode & ~3u) == 0xe0;
}

static unsigned code_bits(const struct vcpu *vcpu)
{
	unsigned attributes = vcpu->segment[CS].attributes;

	if (vcpu->efer & EFER_LMA && attributes & SEGMENT_L)
		return 64;
	return attributes & SEGMENT_DB ? 32 : 16;
}

/* Compares the reported branches with the processor's, which went on at native->rip. */
static void compare_sights(struct lockstep *l, const struct vcpu *native)
{
	const struct insn *i = &l->insn;
	uint64_t rip = l->before.rip, linear = code_linear(native->interp, native->rip);
	unsigned jumps = l->saw[SAW_BRANCH].count + l->saw[SAW_EVENT].count;
	bool fell_through = native->rip == insn_next(i), repeats = native->rip == rip && !jumps;

	compare(l, "retired", l->saw[SAW_RETIRED].count, !repeats);
	if (is_conditional(i)) {
		if (i->immediate != insn_next(i))
			compare(l, "not taken", l->saw[SAW_NOT_TAKEN].count, fell_through);
		compare(l, "conditional", jumps + l->saw[SAW_NOT_TAKEN].count, 1);
	} else {
		compare(l, "not taken", l->saw[SAW_NOT_TAKEN].count, 0);
		if (!fell_through && !repeats)
			compare(l, "branches", jumps, 1);
	}
	if (l->saw[SAW_BRANCH].count)
		compare(l, "target", l->saw[SAW_BRANCH].value, linear);
	if (native->cr3 != l->before.cr3)
		compare(l, "cr3 seen", l->saw[SAW_CR3].value, native->cr3);
	if (code_bits(native) != code_bits(&l->before))
		compare(l, "mode", l->saw[SAW_MODE].value, code_bits(native));
	else
		compare(l, "modes", l->saw[SAW_MODE].count, 0);
}

static void compare_faults(struct lockstep *l, const struct fault *a, const struct fault *b)
{
	uint32_t ignored =
		a->vector == VECTOR_PF && lockstep_reads_first(&l->insn) ? ERROR_WRITE : 0;

	/* QEMU 7.2 leaves P clear beside RSVD: SDM Vol 3, 4.7. */
	if (a->vector == VECTOR_PF && a->error & b->error & ERROR_RESERVED)
		ignored |= ERROR_PRESENT;
	compare(l, "vector", a->vector, b->vector);
	compare(l, "error code", a->has_error ? a->error & ~ignored : 0,
		b->has_error ? b->error & ~ignored : 0);
	if (a->vector == VECTOR_PF)
		compare(l, "cr2", a->address, b->address);
}

static bool loads_flags(const struct lockstep *l)
{
	return l->insn.opcode == POPF || l->insn.opcode == IRET;
}

static bool loads_if(const struct lockstep *l)
{
	bool may = l->before.cpl <= (l->before.rflags & FLAG_IOPL) >> 12;

	return l->insn.opcode == CLI || (may && loads_flags(l));
}

/* PUSHF shows the TF and IF that the processor was stepped with. */
static void hide_stepping(struct lockstep *l, struct vcpu *vcpu, bool faulted)
{
	const uint64_t hidden = FLAG_TF | FLAG_IF, own = l->before.rflags & hidden;
	unsigned first = l->write[0].bytes; /* of the image, which may straddle two pages */
	uint8_t *at = first > 1 ? l->write[0].to + 1 : l->write[1].to;

	if (l->insn.opcode == PUSHF && l->writes)
		*at = (uint8_t)((*at & ~(hidden >> 8)) | own >> 8);
	if (faulted || !loads_if(l))
		vcpu->rflags |= own & FLAG_IF;
}

static _Noreturn void stop(struct lockstep *l)
{
	char line[TEXT_BYTES + 100], code[INSN_BYTES * 3 + 1] = "";
	unsigned length = l->insn.length ? l->insn.length : INSN_BYTES;

	for (unsigned n = 0; n < length; n++)
		format(code + n * 3, 4, " %02x", l->code[n]);
	format(line, sizeof(line), "lockstep: %s at rip=0x%016llx cpl=%u: interpreted%s", code + 1,
	       (unsigned long long)l->before.rip, l->before.cpl, l->text + 1);
	platform_stop(line);
}

/* Sets the guest's part of the state; the interpreter's own part stays. */
static void set_state(struct vcpu *vcpu, const struct vcpu *state)
{
	const struct hot hot = vcpu->hot;

	*vcpu = *state;
	vcpu->hot = hot;
}

/* The interpreter's outcome stays, with what came from outside meanwhile. */
static void restore(struct vcpu *vcpu, const struct vcpu *interpreted)
{
	bool nmi = vcpu->nmi_pending;

	set_state(vcpu, interpreted);
	vcpu->nmi_pending |= nmi;
	vcpu->attention = true;
}

/* Executes the instruction natively, and says in l->text what differs. False: it was not executed.
 */
static bool compare_native(struct lockstep *l, struct vcpu *vcpu, const struct vcpu *interpreted,
			   const struct fault *fault)
{
	struct fault native_fault = {0};
	enum native_outcome outcome;
	uint64_t flags = ~lockstep_undefined_flags(&l->before, &l->insn);

	if (l->insn.form)
		load_fpu(l->fpu_before);
	set_state(vcpu, &l->before);
	/* No interrupt is to come first. V_INTR_MASKING sees to that, but not in Bochs 2.7. */
	vcpu->rflags &= ~(uint64_t)FLAG_IF;
	outcome = platform_step(vcpu, loads_flags(l), &native_fault);
	if (l->insn.form)
		save_fpu(l->fpu_native);
	if (outcome == NATIVE_DONE && vcpu->rip == l->before.rip)
		lockstep_correct(vcpu, &l->insn, l->deviations);
	l->said = 0;
	if (outcome == NATIVE_INTERCEPTED)
		return false;
	compare(l, "faults", fault != NULL, outcome == NATIVE_FAULTED);
	if (!l->said && fault) {
		flags &= ~(uint64_t)FLAG_RF;
		vcpu->cr2 = interpreted->cr2;
		compare_faults(l, fault, &native_fault);
	}
	hide_stepping(l, vcpu, outcome == NATIVE_FAULTED);
	compare_registers(l, interpreted, vcpu, flags);
	compare_memory(l);
	if (!l->said && !fault)
		compare_sights(l, vcpu);
	if (l->insn.form)
		compare_fpu(l);
	return true;
}

/* Whether the difference is another processor's work: it writes to what the interpreter has read,
   or the difference does not stay. */
static bool is_of_another(struct lockstep *l, struct vcpu *vcpu, const struct vcpu *interpreted,
			  const struct fault *fault)
{
	if (!has_others() || !l->reads)
		return false;
	for (unsigned n = 0; n < TRIES; n++) {
		take_back(l);
		if (was_written(l))
			return true;
		compare_native(l, vcpu, interpreted, fault);
		if (!l->said)
			return true;
	}
	return false;
}

void lockstep_after(struct vcpu *vcpu, const struct fault *fault)
{
	struct lockstep *l = vcpu->interp->lockstep;
	struct vcpu interpreted = *vcpu;

	if (!l->compares || (fault && lockstep_refuses_more(&l->before, &l->insn, fault)))
		return;
	keep(l);
	if (l->insn.form)
		save_fpu(l->fpu);
	take_back(l);
	if (compare_native(l, vcpu, &interpreted, fault) && !l->said)
		__atomic_fetch_add(&compared, 1, __ATOMIC_RELAXED);
	if (l->said && !is_of_another(l, vcpu, &interpreted, fault))
		stop(l);
	make_again(l);
	if (l->insn.form)
		load_fpu(l->fpu);
	restore(vcpu, &interpreted);
}
