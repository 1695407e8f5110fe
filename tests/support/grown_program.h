/* SPDX-License-Identifier: MIT
 * Programs from a generator: a case of any row of ops.def (op_cases.h) that stands among other operations, so that
 * plans find something to fuse, to store elsewhere and to compute in place. What stands before it keeps its operands'
 * elements exactly (reshapes, halves of concatenations, products with powers of two), so that it may jump and have
 * kinks; what stands after it is smooth or has kinks without jumps, so that rounding stays rounding.
 */
#ifndef TESTS_SUPPORT_GROWN_PROGRAM_H
#define TESTS_SUPPORT_GROWN_PROGRAM_H

#include "support/op_cases.h"

/* The program of a seed: op_case_free. Seeds in a row that are no multiples of 5 show all rows of ops.def, one after
 * the other, that a single operation can show. NULL: what was drawn does not fit together (an axis that is too short),
 * and `err` says what. */
op_case *grown_program(uint64_t seed, propane_error *err);

#endif
