/* SPDX-License-Identifier: MIT
 * What other frameworks computed (tests/data/ops_reference.txt, written by tools/ops_reference.py): operations, whole
 * small programs and distributions, each with the expected results. Evaluation and drivers are tested with them:
 *
 *     static void check(const reference_case *c, void *context) { ... c->function, c->inputs, c->want ... }
 *     reference_each(check, NULL);
 */
#ifndef TESTS_SUPPORT_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_H

#include "core/mil/ops.h"

#define REFERENCE_VALUES 16

typedef struct reference_case {
    const char *label;
    mil_opcode rows[8]; /* rows of ops.def that it covers */
    int row_count;
    const mil_function *function;
    const mil_tensor *inputs; /* one per parameter */
    int want_count;
    mil_tensor want[REFERENCE_VALUES]; /* the results, then the states; dtype is not meaningful */
    /* A distribution: want[0] are the edges, want[1] the probabilities [rows, edges + 1] of the bins between them. */
    bool is_distribution;
} reference_case;

typedef void (*reference_visit)(const reference_case *c, void *context);

/* Visits every case of the file and returns their number. A case that cannot be built fails the running test. */
int reference_each(reference_visit visit, void *context);

#endif
