/* SPDX-License-Identifier: MIT
 * Declares the comparison of a Core ML plan with the rules. For each operation of a function, it compares where the
 * plan puts the operation with where check expects it.
 */
#ifndef ANE_CHIP_PLACEMENT_DIFF_H
#define ANE_CHIP_PLACEMENT_DIFF_H

#include "ane/chip/check.h"
#include "ane/chip/compute_plan.h"

typedef struct placement_row {
    const char *op;
    char name[96]; /* name of its first result */
    const compute_row *plan;
    bool falls;     /* true if the rules keep the operation off the engine */
    char rules[64]; /* the ids of those rules, or "" */
} placement_row;

typedef struct placement_diff {
    compute_plan plan;
    char function[64];
    placement_row *rows; /* those that differ */
    int count;
    int planned, on[COMPUTE_ENGINE + 1]; /* rows of the plan, in total and by device */
    int same;                            /* operations on which both agree */
    int strange;                         /* rows of the plan that match no operation of the function */
    int unplanned;                       /* operations that the plan does not mention, not counting constants */
} placement_diff;

/* Pairs rows of the plan with operations by the names of results. If that fails, pairs the operations of one kind by
 * order, provided that plan and function have the same number of them. */
PROPANE_CHECK propane_status placement_diff_make(const mil_module *m, const chip *c, int os, const char *path,
                                                 placement_diff *out, propane_error *err);
void placement_diff_deinit(placement_diff *d);
void placement_diff_print(const placement_diff *d, text *out);
json_t *placement_diff_json(const placement_diff *d); /* NULL if memory runs out */

#endif
