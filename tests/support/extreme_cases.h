/* SPDX-License-Identifier: MIT
 * One operation with numbers of all sizes: signed zeros, denormals, infinities, NaN, the largest of each type and
 * their neighbours, multiples of short decimals, ties, integers at their limits and above 2^24, divisors 0 and -1. The
 * seed selects operation, element type, line of op_lines.h, shape and numbers; all rows of ops.def come in turn. One
 * in four elementwise operations is followed by another one that rounds once.
 */
#ifndef TESTS_SUPPORT_EXTREME_CASES_H
#define TESTS_SUPPORT_EXTREME_CASES_H

#include "support/op_cases.h"

/* Makes the case of a seed, which the caller frees with op_case_free. Without `constants` it is the same case with
 * inputs instead of constant tensors. Returns NULL with the reason if the operation refuses the drawn parts. */
op_case *extreme_case(uint64_t seed, bool constants, propane_error *err);

/* Returns whether the operation's result is one rounding of an exact one, or a moved number. */
bool extreme_rounds_once(mil_opcode code);

#endif
