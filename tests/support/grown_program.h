/* SPDX-License-Identifier: MIT
 * Programs from a generator: a case of any row of ops.def (op_cases.h) surrounded by other operations, so that plans
 * find something to fuse, to store elsewhere and to compute in place. What comes before it preserves its operands'
 * elements exactly (reshapes, halves of concatenations, multiplications by powers of two), so that it may have jumps
 * and kinks. What comes after it is smooth or has kinks without jumps, so that rounding errors stay small.
 */
#ifndef TESTS_SUPPORT_GROWN_PROGRAM_H
#define TESTS_SUPPORT_GROWN_PROGRAM_H

#include "support/op_cases.h"

/* Returns the program of a seed, which the caller frees with op_case_free. Consecutive seeds that are not multiples of
 * 5 cover, one after the other, all rows of ops.def that a single operation can show. Returns NULL with the reason in
 * `err` if the drawn parts do not fit together (such as an axis that is too short). */
op_case *grown_program(uint64_t seed, propane_error *err);

#endif
