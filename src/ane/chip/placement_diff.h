/* SPDX-License-Identifier: MIT
 * A Core ML plan beside the rules: for each operation of a function where the plan puts it, and where check expects it.
 */
#ifndef ANE_CHIP_PLACEMENT_DIFF_H
#define ANE_CHIP_PLACEMENT_DIFF_H

#include "ane/chip/check.h"
#include "ane/chip/compute_plan.h"

typedef struct placement_row {
    const char *op;
    char name[96]; /* of its first result */
    const compute_row *plan;
    bool falls;     /* by the rules: it is not for the engine */
    char rules[64]; /* which; "" */
} placement_row;

typedef struct placement_diff {
    compute_plan plan;
    char function[64];
    placement_row *rows; /* where they differ */
    int count;
    int planned, on[COMPUTE_ENGINE + 1]; /* rows of the plan, by device */
    int same;                            /* operations of which both say the same */
    int strange;                         /* rows of the plan that are no operation of the function */
    int unplanned;                       /* operations of which the plan says nothing; constants apart */
} placement_diff;

/* Rows are paired by the names of results, else by order among the operations of one kind if the numbers of them
 * agree. */
PROPANE_CHECK propane_status placement_diff_make(const mil_module *m, const chip *c, int os, const char *path,
                                                 placement_diff *out, propane_error *err);
void placement_diff_deinit(placement_diff *d);
void placement_diff_print(const placement_diff *d, text *out);
json_t *placement_diff_json(const placement_diff *d); /* NULL: no memory */

#endif
