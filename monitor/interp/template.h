/* SPDX-License-Identifier: MIT */
/*
 * Handlers made from templates: one function for each operand size, all of it inline, so that the
 * operation is a single instruction of the host.
 */
#pragma once

#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/registers.h"

#define TEMPLATE static inline __attribute__((always_inline))

/* `name`_`kind`1 to 8: handlers that are kind(vcpu, i, name, size). */
#define HANDLER(name, kind, size)                                                                  \
	static void name##_##kind##size(struct vcpu *vcpu, const struct insn *i)                   \
	{                                                                                          \
		kind(vcpu, i, name, size);                                                         \
	}
#define HANDLERS(name, kind)                                                                       \
	HANDLER(name, kind, 1) HANDLER(name, kind, 2) HANDLER(name, kind, 4) HANDLER(name, kind, 8)
#define SIZES_OF(name, kind) name##_##kind##1, name##_##kind##2, name##_##kind##4, name##_##kind##8

/* Handlers that are name(vcpu, i, size), and their row. */
#define SIZED(name, size)                                                                          \
	static void name##size(struct vcpu *vcpu, const struct insn *i)                            \
	{                                                                                          \
		name(vcpu, i, size);                                                               \
	}
#define SIZED_ROW(name)                                                                            \
	SIZED(name, 1)                                                                             \
	SIZED(name, 2)                                                                             \
	SIZED(name, 4)                                                                             \
	SIZED(name, 8)                                                                             \
	row_of_sizes run_##name = {name##1, name##2, name##4, name##8};
#define SIZED_ROW_WITHOUT_BYTES(name)                                                              \
	SIZED(name, 2)                                                                             \
	SIZED(name, 4)                                                                             \
	SIZED(name, 8)                                                                             \
	row_of_sizes run_##name = {undefined, name##2, name##4, name##8};

/*
 * Runs `text` with the suffix of `size` on the host; LAHF and SETO leave its flags in `ax`. The
 * macro RUN(suffix) of the caller is one __asm__; its operands take the modifiers b, w, k, q.
 */
#define FOR_SIZE(size, RUN)                                                                        \
	switch (size) {                                                                            \
	case 1:                                                                                    \
		RUN("b", "b");                                                                     \
		break;                                                                             \
	case 2:                                                                                    \
		RUN("w", "w");                                                                     \
		break;                                                                             \
	case 4:                                                                                    \
		RUN("l", "k");                                                                     \
		break;                                                                             \
	default:                                                                                   \
		RUN("q", "q");                                                                     \
		break;                                                                             \
	}

#define SAVE_FLAGS "\n\tlahf\n\tseto %%al"
