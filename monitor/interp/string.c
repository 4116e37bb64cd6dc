// SPDX-License-Identifier: MIT
/* MOVS, STOS, LODS, CMPS, SCAS. */
#include "monitor/interp/string.h"

#include "monitor/interp/template.h"

/* Elements are moved one by one, at their own width: ranges may overlap, devices may be there. */
#define RUN_MOVS(suffix, modifier)                                                                 \
	__asm__ volatile("rep movs" suffix : "+D"(to), "+S"(from), "+c"(n) : : "memory")

TEMPLATE void move_elements(void *to, const void *from, uint64_t n,
			    unsigned size){FOR_SIZE(size, RUN_MOVS)}

TEMPLATE void movs(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (nothing_to_do(vcpu, i))
		return;

	uint64_t source = source_address(vcpu, i, size),
		 target = target_address(vcpu, i, size, true);
	uint64_t n = iterations(vcpu, i, source, size);

	n = n > 1 ? fit(n, target, size) : 1;
	n = n ? n : 1;

	const void *from = read_at(vcpu, i, source, (unsigned)n * size);
	void *to = write_at(vcpu, i, target, (unsigned)n * size);

	move_elements(to, from, n, size);
	written(vcpu, to);
	advance(vcpu, i, RSI, n, size);
	advance(vcpu, i, RDI, n, size);
	iterated(vcpu, i, n, true);
}

#define RUN_STOS(suffix, modifier)                                                                 \
	__asm__ volatile("rep stos" suffix : "+D"(to), "+c"(n) : "a"(value) : "memory")

TEMPLATE void store_elements(void *to, uint64_t value, uint64_t n,
			     unsigned size){FOR_SIZE(size, RUN_STOS)}

TEMPLATE void stos(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (nothing_to_do(vcpu, i))
		return;

	uint64_t target = target_address(vcpu, i, size, true);
	uint64_t n = iterations(vcpu, i, target, size);
	void *to = write_at(vcpu, i, target, (unsigned)n * size);

	store_elements(to, vcpu->gpr[RAX], n, size);
	written(vcpu, to);
	advance(vcpu, i, RDI, n, size);
	iterated(vcpu, i, n, true);
}

TEMPLATE void lods(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (nothing_to_do(vcpu, i))
		return;

	uint64_t value = get(read_at(vcpu, i, source_address(vcpu, i, size), size), size);

	set_register(vcpu, RAX * 8, value, size);
	advance(vcpu, i, RSI, 1, size);
	iterated(vcpu, i, 1, true);
}

#define RUN_COMPARE(suffix, modifier)                                                              \
	__asm__("cmp" suffix " %" modifier "[b], %" modifier "[a]" SAVE_FLAGS                      \
		: "=&a"(ax)                                                                        \
		: [a] "r"(a), [b] "r"(b)                                                           \
		: "cc")

/* True if REPE or REPNE would go on. */
TEMPLATE bool compare(struct vcpu *vcpu, const struct insn *i, uint64_t a, uint64_t b,
		      unsigned size)
{
	uint32_t ax;

	FOR_SIZE(size, RUN_COMPARE)
	set_flags(vcpu, ax);
	return !(vcpu->rflags & FLAG_ZF) == !(i->prefixes & PREFIX_REP);
}

TEMPLATE void cmps(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (nothing_to_do(vcpu, i))
		return;

	uint64_t first = source_address(vcpu, i, size),
		 second = target_address(vcpu, i, size, false);
	uint64_t a = get(read_at(vcpu, i, first, size), size);
	uint64_t b = get(read_at(vcpu, i, second, size), size);
	bool more = compare(vcpu, i, a, b, size);

	advance(vcpu, i, RSI, 1, size);
	advance(vcpu, i, RDI, 1, size);
	iterated(vcpu, i, 1, more);
}

TEMPLATE void scas(struct vcpu *vcpu, const struct insn *i, unsigned size)
{
	if (nothing_to_do(vcpu, i))
		return;

	uint64_t target = target_address(vcpu, i, size, false), done = 0;
	bool more = true;
	uint64_t n = iterations(vcpu, i, target, size);
	const uint8_t *from = read_at(vcpu, i, target, (unsigned)n * size);

	while (done < n && more)
		more = compare(vcpu, i, vcpu->gpr[RAX], get(from + done++ * size, size), size);
	advance(vcpu, i, RDI, done, size);
	iterated(vcpu, i, done, more);
}

SIZED_ROW(movs)
SIZED_ROW(stos)
SIZED_ROW(lods)
SIZED_ROW(cmps)
SIZED_ROW(scas)
