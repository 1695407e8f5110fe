/* SPDX-License-Identifier: MIT
 * Declares what the readers of tabular models share. Private to src/core/mil/neural_network. One idea: every feature is
 * an array of fp32, and a number is an array of one element.
 */
#ifndef CORE_MIL_NEURAL_NETWORK_TABULAR_H
#define CORE_MIL_NEURAL_NETWORK_TABULAR_H

#include "core/base/text.h"
#include "core/mil/neural_network/interface_program.h"
#include "core/mil/neural_network/tabular_read.h"

#define ARGS(...)        (mil_argument[]){__VA_ARGS__}, (int)(sizeof((mil_argument[]){__VA_ARGS__}) / sizeof(mil_argument))
#define IN(name, value)  ((mil_argument){name, 1, (mil_value *const[]){value}})
#define DO(t, code, ...) tabular_do(t, MIL_OP_##code, ARGS(__VA_ARGS__))

typedef struct tabular {
    mil_builder b; /* holds the first error */
    mil_interface *seen;
    wire_view body;
    bool broken;
    mil_value **in; /* one per input, flattened */
} tabular;

/* Returns the first result, or NULL after an error. */
mil_value *tabular_do(tabular *t, mil_opcode code, const mil_argument *arguments, int count);
void tabular_fail(tabular *t, const char *format, ...) BASE_PRINTF(2, 3);
mil_value *tabular_real(tabular *t, double value); /* a scalar of fp32 */
mil_value *tabular_list(tabular *t, const char *name, const double *values, int64_t count);
int64_t tabular_count(const mil_value *v);
bool tabular_begin(tabular *t, mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                   const mil_read_options *options);
/* Ends the program. Unless NULL, `y` becomes the first output. */
PROPANE_CHECK propane_status tabular_end(tabular *t, mil_value *y, propane_error *err);
mil_value *tabular_joined(tabular *t); /* concatenates all inputs */
/* Returns [1 - p, p]. */
mil_value *tabular_two_classes(tabular *t, mil_value *p);

#endif
