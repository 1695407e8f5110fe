/* SPDX-License-Identifier: MIT
 * Programs whose shapes follow from values that only a run knows: the count of a range, the end of a slice, how many
 * elements are not zero. Such a function is late (mil_function.late): what depends on those values has open dimensions.
 * It becomes a function with numbers in stages: the values that are wanted next are results of a function that ends
 * before them; a run gives them, and the rest is settled with them as constants.
 */
#ifndef CORE_MIL_SPECIALIZE_H
#define CORE_MIL_SPECIALIZE_H

#include "core/mil/mil.h"

/* What a run gave for a value of the late function. */
typedef struct mil_known {
    int id; /* of the value there */
    mil_type type;
    const void *data; /* dense elements */
} mil_known;

typedef struct mil_specialized {
    mil_function *function; /* all parameters of the late one; no open dimensions */
    int *wanted;            /* ids in the late function: the values of the function's results, in their order */
    int wanted_count;       /* 0: it is the whole, with the results of the late function */
} mil_specialized;

/* Copies `late` into `m`, as far as it goes with the values in `known`. Several values that do not depend on each other
 * are wanted at once. */
PROPANE_CHECK propane_status mil_specialize(const mil_function *late, const mil_known *known, int known_count,
                                            mil_module *m, mil_specialized *out, propane_error *err);

/* A late function with the standards of its inputs (mil_feature.standard) where these are the values that it waits for:
 * built into `m`, another module. A function that is not late is its own *out. PROPANE_ERR_UNSUPPORTED where it waits
 * for others. */
PROPANE_CHECK propane_status mil_settle_standard(const mil_function *f, mil_module *m, const mil_function **out,
                                                 propane_error *err);

/* A function that was just read, the last one of its module, without the constants that have no elements and what
 * follows from them. *f becomes another function of the module where there are such; a late one is settled when it
 * runs. */
PROPANE_CHECK propane_status mil_settle_constants(mil_function **f, propane_error *err);

/* PROPANE_ERR_UNSUPPORTED for a late function: what needs its shapes cannot do with it. */
PROPANE_CHECK propane_status mil_settle_refuse(const mil_function *f, propane_error *err);

#endif
