/* SPDX-License-Identifier: MIT
 * Declares facts about a value that are known before a program runs: whether it is constant, its stored size in bytes,
 * and its range. For use inside src/ane/chip only.
 */
#ifndef ANE_CHIP_VALUE_FACTS_H
#define ANE_CHIP_VALUE_FACTS_H

#include "core/mil/ops.h"

/* Returns true if the value is a constant. This includes compressed constants (a palette, blocks with scales, a sparse
 * tensor) and values that follow only from constants, because compilers compute those before the program runs. */
bool chip_is_constant(const mil_value *v);
/* Returns the stored bytes of everything that a constant is made from, or 0 if the value is not constant. */
double chip_stored_bytes(const mil_value *v);

/* Returns true if an operation sums products of its operands: a convolution, linear or matmul. */
bool chip_is_product(mil_opcode code);
/* Returns the number of such operations in a function. counts[opcode] is the number of operations with that opcode. */
int chip_product_count(const int *counts);
/* Returns the constant operand of a matrix product: the weight of a convolution or linear, or one side of a matmul.
 * Returns NULL if there is none. */
const mil_value *chip_weight_of(const mil_op *op);

/* Returns true if the shape of a result or an operand follows from values that are known only at run time
 * (mil_function.late). Only the rules about such shapes apply to the operation, and its cost is not known. */
bool chip_op_is_open(const mil_op *op);

typedef struct chip_range {
    double low, high; /* infinite if no bound is known */
} chip_range;
/* Derives the range from constants and from the operations that made the value. The range is never narrower than exact
 * arithmetic allows. */
chip_range chip_range_of(const mil_value *v);

#endif
