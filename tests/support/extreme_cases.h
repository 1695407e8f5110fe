/* SPDX-License-Identifier: MIT
 * One operation with numbers of all sizes: signed zeros, denormals, infinities, NaN, the largest of each type and what lies
 * next to them, multiples of short decimals, ties, integers at their limits and above 2^24, divisors 0 and -1. Which
 * operation, element type, line of op_lines.c, shape and numbers follows from the seed; all rows of ops.def come in turn. One
 * in four operations on elements is followed by another one that rounds once.
 */
#ifndef TESTS_SUPPORT_EXTREME_CASES_H
#define TESTS_SUPPORT_EXTREME_CASES_H

#include "support/op_cases.h"

/* Without `constants` the same case with inputs in place of constant tensors. NULL: the operation refuses what was drawn,
 * with the reason. op_case_free it. */
op_case *extreme_case(uint64_t seed, bool constants, propane_error *err);

/* Whether its result is one rounding of an exact one, or moves numbers. */
bool extreme_rounds_once(mil_opcode code);

#endif
