/* SPDX-License-Identifier: MIT
 * Tables of the neural engine: 64 halfwords that stand for a function of one fp16 number.
 *
 *   x < low: below; x > high: above; on the grid of 32 steps: linear between knots; beside it: the line of that side
 *
 * Kind, low four bits: 1 the grid runs from -16 to 16 steps; 0 from 0; 10 2^x (knots of the fraction, the whole part
 * becomes the exponent); 9 log2, 5 square root, 6 its reciprocal, 7 reciprocal: x is brought to [0.5, 1) or [0.5, 2)
 * and its exponent put back. High four bits: 6 odd function; 12 nothing below 0. [inferred from the data; sigmoid(3)
 * and sigmoid(-5) are known from an M1, gelu(0) from an M2 Pro]
 *
 * On the way between two knots the product is rounded to fp16, then the sum: with that, outputs recorded on an M3 Max
 * come out bit for bit (tests/drivers/test_recorded.c).
 */
#ifndef ANE_H13_ACTIVATION_H
#define ANE_H13_ACTIVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mil/mil.h"

enum { ENGINE_TABLE_BYTES = 128, ENGINE_TABLE_HALVES = 64 };

typedef struct engine_table {
    const char *name;
    uint16_t scale, bias; /* fp16: what x is multiplied with, or what is added to it, before the table */
    int power;            /* the task's DPE */
    bool root;
    uint16_t half[ENGINE_TABLE_HALVES];
} engine_table;

/* "sigmoid", "tanh", "gelu", "silu", "exp", "log" (log2), "sqrt", "rsqrt", "recip"; NULL: there is none of that
 * name. */
const engine_table *engine_table_find(const char *name);
/* The table of an operation of one operand, with its epsilon; false: it has none. */
bool engine_table_of(const mil_op *op, engine_table *out);
/* x where it is positive, slope * x elsewhere. */
engine_table engine_table_leaky(double slope);
/* max(x, value) or min(x, value). */
engine_table engine_table_bound(double value, bool upper);

/* The function's value, not yet rounded to fp16. `half` has ENGINE_TABLE_HALVES halfwords. */
double engine_table_value(const uint16_t *half, double x);
/* Its kind is one that engine_table_value knows. */
bool engine_table_known(const uint16_t *half);

#endif
