/* SPDX-License-Identifier: MIT
 * Passes: rewrites of a function that keep its meaning. The list in pass.c is the order in which they run.
 */
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "mil/build.h"

typedef struct pass_options {
    bool fold;     /* constants; up to 1 Mi elements */
    bool simplify; /* x*1, x+0, identity, transposes that cancel, reshape of reshape, casts that cancel */
    bool share;    /* equal ops become one */
    bool drop_unused;
} pass_options;

extern const pass_options pass_all;

PROPANE_CHECK propane_status pass_run(mil_function *f, const pass_options *options, propane_error *err);

/* Renames parameters and results so that alphabetical order is declared order (constraint C12): i000_x, i001_w, ...;
 * o000_y, .... For the ane driver, which keeps the map to the old names itself: old names in declared order, in the
 * module's arena. */
PROPANE_CHECK propane_status pass_name_io(mil_function *f, const char ***old_params, const char ***old_results,
                                          propane_error *err);

/* Every fp16 of the program (all functions' types stay as they are but f's) becomes fp32, constants and blocks included. */
PROPANE_CHECK propane_status pass_retype_fp32(mil_function *f, propane_error *err);
/* Each state becomes a parameter (what it holds before) and, where it is written, a result NAME_out (what it holds after). */
PROPANE_CHECK propane_status pass_states(mil_function *f, propane_error *err);

#endif
