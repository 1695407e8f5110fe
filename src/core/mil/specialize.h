/* SPDX-License-Identifier: MIT
 * Programs whose shapes follow from values that only a run knows: the count of a range, the end of a slice, the number
 * of nonzero elements. Such a function is late (mil_function.late), and everything that depends on those values has
 * open dimensions. It is converted in stages. The values needed next become the results of a function that ends before
 * them; a run computes them, and the rest is resolved with them as constants.
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
    int *wanted;            /* ids in the late function of this function's results, in their order */
    int wanted_count;       /* 0 means that the function is complete, with the results of the late function */
} mil_specialized;

/* Copies `late` into `m`, as far as the values in `known` allow. Values that do not depend on each other are wanted at
 * the same time. */
PROPANE_CHECK propane_status mil_specialize(const mil_function *late, const mil_known *known, int known_count,
                                            mil_module *m, mil_specialized *out, propane_error *err);

/* Settles a late function with the defaults of its inputs (mil_feature.standard) if these are the values that it waits
 * for, and builds the result in `m`, another module. Sets *out to `f` if it is not late. Returns
 * PROPANE_ERR_UNSUPPORTED if it waits for other values. */
PROPANE_CHECK propane_status mil_settle_standard(const mil_function *f, mil_module *m, const mil_function **out,
                                                 propane_error *err);

/* Removes constants without elements, and what follows from them, from a function just read, which must be the last of
 * its module. If there were any, *f becomes another function of the module. A late function is resolved when it runs.
 * */
PROPANE_CHECK propane_status mil_settle_constants(mil_function **f, propane_error *err);

/* Returns PROPANE_ERR_UNSUPPORTED for a late function, on behalf of callers that need its shapes. */
PROPANE_CHECK propane_status mil_settle_refuse(const mil_function *f, propane_error *err);

#endif
