/* SPDX-License-Identifier: MIT
 * Owns the order of the cases and the values that a line does not specify. One line makes one program per element type;
 * op_cases.c explains the syntax.
 */
#include "support/op_lines.h"

const op_default op_defaults[] = {
    /* Required numbers, so that the lines for every elementwise op work. */
    {"leaky_relu", "alpha", "0.1"},
    {"elu", "alpha", "0.7"},
    {"sigmoid_hard", "alpha", "0.5"}, /* the kinks are at -1 and 1, which ~apart avoids */
    {"sigmoid_hard", "beta", "0.5"},
    {"clip", "alpha", "-1"},
    {"clip", "beta", "6"},
    {"linear_activation", "alpha", "-1.5"},
    {"linear_activation", "beta", "0.25"},
    {"scaled_tanh", "alpha", "1.5"},
    {"scaled_tanh", "beta", "0.75"},
    {"clamped_relu", "alpha", "0.25"},
    {"clamped_relu", "beta", "6"},
    {"thresholded_relu", "alpha", "1"},
    /* How to draw values. */
    {"ceil", "x", "fraction"},
    {"floor", "x", "fraction"},
    {"round", "x", "fraction"},
    {"mod", "x", "mod_x"},
    {"mod", "y", "mod_y"},
    {"floor_div", "x", "mod_x"},
    {"floor_div", "y", "mod_y"},
    {"reduce_prod", "x", "near_one"},
    {"batch_norm", "variance", "positive"},
};
const int op_default_count = sizeof op_defaults / sizeof op_defaults[0];

/* The place of a line in this order is the seed of its numbers: new lines go to the end of the last list. */
const op_line *op_line_at(int index) {
    static const op_line_list *const lists[] = {&op_lines_elements, &op_lines_products, &op_lines_layout};
    for (int i = 0; i < 3; index -= lists[i++]->count)
        if (index < lists[i]->count) return &lists[i]->lines[index];
    return NULL;
}
