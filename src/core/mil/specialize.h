/* SPDX-License-Identifier: MIT
 * Declares the conversion of programs whose shapes follow from values that only a run determines: the count of a range,
 * the end of a slice, the number of nonzero elements. Such a function is late (mil_function.late), and everything that
 * depends on those values has open dimensions. The conversion has stages: the values needed next become the results of
 * a function that a run executes, and the rest is then resolved with these values as constants.
 */
#ifndef CORE_MIL_SPECIALIZE_H
#define CORE_MIL_SPECIALIZE_H

#include "core/mil/mil.h"

/* A value of the late function that a run has computed. */
typedef struct mil_known {
    int id; /* of the value in the late function */
    mil_type type;
    const void *data; /* dense elements */
} mil_known;

typedef struct mil_specialized {
    mil_function *function; /* has all parameters of the late function and no open dimensions */
    int *wanted;            /* the late function's ids of this function's results, in their order */
    int wanted_count;       /* 0 means that the function is complete, with the results of the late function */
} mil_specialized;

/* Copies `late` into `m`, as far as the values in `known` allow. Values that do not depend on each other are wanted at
 * the same time. */
PROPANE_CHECK propane_status mil_specialize(const mil_function *late, const mil_known *known, int known_count,
                                            mil_module *m, mil_specialized *out, propane_error *err);

/* Resolves a late function that waits only for inputs with defaults (mil_feature.standard), and builds the result in
 * `m`, another module. Sets *out to `f` if `f` is not late. Returns PROPANE_ERR_UNSUPPORTED if `f` waits for other
 * values. */
PROPANE_CHECK propane_status mil_settle_standard(const mil_function *f, mil_module *m, const mil_function **out,
                                                 propane_error *err);

/* Removes tensors without elements from a function just read, which must be the last of its module. If there were any,
 * *f becomes a new function of the module. Leaves a late function alone; it is resolved when it runs. */
PROPANE_CHECK propane_status mil_settle_constants(mil_function **f, propane_error *err);

/* Returns PROPANE_ERR_UNSUPPORTED for a late function, for callers that need its shapes. */
PROPANE_CHECK propane_status mil_settle_refuse(const mil_function *f, propane_error *err);

#endif
