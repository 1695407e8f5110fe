/* SPDX-License-Identifier: MIT
 * What is known of a value before anything runs: whether it is a constant, in how many bytes it is stored, and between
 * which numbers it lies. Inside src/ane/chip only.
 */
#ifndef ANE_CHIP_VALUE_FACTS_H
#define ANE_CHIP_VALUE_FACTS_H

#include "core/mil/mil.h"

/* A constant, also one that is stored compressed (a palette, blocks with scales, a sparse tensor), or that follows from
 * constants alone: compilers make it before the program runs. */
bool chip_is_constant(const mil_value *v);
/* Of a constant, the bytes of all that it is made from. 0: it is none. */
double chip_stored_bytes(const mil_value *v);

/* The operand of a product that is a constant: a convolution's or linear's weight, one side of a matmul; NULL: there is
 * none. */
const mil_value *chip_weight_of(const mil_op *op);

/* A shape of it, or of an operand, follows from values that only a run knows (mil_function.late). Of such an operation
 * no rule can be asked but the one about that, and its cost is not known. */
bool chip_op_is_open(const mil_op *op);

typedef struct chip_range {
    double low, high; /* infinite: no bound is known */
} chip_range;
/* From constants and from the operations that made it; never narrower than what is possible in exact arithmetic. */
chip_range chip_range_of(const mil_value *v);

#endif
