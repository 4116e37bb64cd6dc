// SPDX-License-Identifier: MIT
// Called by the compiler's checks when one fails. The first argument is data that begins with a
// place in the source; the others differ.
#include "kernel/end.h"

#include <stdint.h>

struct place {
	const char *file;
	uint32_t line, column;
};

#define HANDLER(name, what)                                                                        \
	void __ubsan_handle_##name(const struct place *place);                                     \
	void __ubsan_handle_##name(const struct place *place)                                      \
	{                                                                                          \
		panic("%s:%u:%u: undefined: %s", place->file, place->line, place->column, what);   \
	}

HANDLER(add_overflow, "a sum overflows")
HANDLER(sub_overflow, "a difference overflows")
HANDLER(mul_overflow, "a product overflows")
HANDLER(negate_overflow, "a negation overflows")
HANDLER(divrem_overflow, "a division overflows or is by zero")
HANDLER(shift_out_of_bounds, "a shift too far, or of a negative number")
HANDLER(out_of_bounds, "an index outside its array")
HANDLER(pointer_overflow, "a pointer leaves its object")
HANDLER(type_mismatch_v1, "a null or misaligned pointer, or an object too small")
HANDLER(load_invalid_value, "a bool or enum with a value that it cannot have")
HANDLER(nonnull_arg, "a null argument")
HANDLER(nonnull_return_v1, "a null result")
HANDLER(invalid_builtin, "a builtin's argument is zero")
HANDLER(vla_bound_not_positive, "an array without elements")
HANDLER(builtin_unreachable, "what cannot be reached was reached")
HANDLER(missing_return, "a function ends without its result")
