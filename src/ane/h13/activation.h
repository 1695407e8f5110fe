/* SPDX-License-Identifier: MIT
 * Finds, makes and evaluates tables of the neural engine: 64 halfwords that represent a function of one fp16 number.
 *
 *   x < low: `below`; x > high: `above`; on the grid of 32 steps: linear between knots; outside: that side's line
 *
 * The low four bits of the kind select the function's form. 0 is a grid that starts at 0, and 1 a grid from -16 to 16
 * steps. 10 is 2^x: the knots cover the fraction, and the integer part becomes the exponent. 9 is log2, 5 the square
 * root, 6 its reciprocal, and 7 the reciprocal. In these four, x is scaled to [0.5, 1) or [0.5, 2), and its exponent is
 * applied afterwards. The bits above are 6 for an odd function, and 12 for a function that is undefined below 0.
 * [inferred from the data; sigmoid(3) and sigmoid(-5) are known from an M1, gelu(0) from an M2 Pro]
 *
 * Between two knots, first the product is rounded to fp16, then the sum. This reproduces outputs recorded on an M3 Max
 * bit for bit (tests/drivers/test_recorded.c).
 */
#ifndef ANE_H13_ACTIVATION_H
#define ANE_H13_ACTIVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mil/mil.h"

enum { ENGINE_TABLE_BYTES = 128, ENGINE_TABLE_HALVES = 64 };

typedef struct engine_table {
    const char *name;
    uint16_t scale, bias; /* fp16: the factor and the summand that are applied to x before the table */
    int power;            /* the task's DPE */
    bool root;
    uint16_t half[ENGINE_TABLE_HALVES];
} engine_table;

/* Returns the table named "sigmoid", "tanh", "gelu", "silu", "exp", "log" (log2), "sqrt", "rsqrt" or "recip", or
 * NULL if no table has that name. */
const engine_table *engine_table_find(const char *name);
/* Sets *out to the table of an operation with one operand, including the operation's epsilon. Returns false if the
 * operation has no table, or its epsilon cannot be read. */
bool engine_table_of(const mil_op *op, engine_table *out);
/* Returns the table of the leaky ReLU: x for positive x, and slope * x otherwise. */
engine_table engine_table_leaky(double slope);
/* Returns the table of min(max(x, low), high), where either bound may be infinite. */
engine_table engine_table_clip(double low, double high);

/* Returns the function's value, not yet rounded to fp16. `half` has ENGINE_TABLE_HALVES halfwords. */
double engine_table_value(const uint16_t *half, double x);
/* Returns whether engine_table_value supports the table's kind. */
bool engine_table_known(const uint16_t *half);

#endif
