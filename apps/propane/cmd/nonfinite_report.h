/* SPDX-License-Identifier: MIT
 * What run and diff say of outputs with numbers that are none: how many, and which operation makes the first.
 */
#ifndef APPS_PROPANE_CMD_NONFINITE_REPORT_H
#define APPS_PROPANE_CMD_NONFINITE_REPORT_H

#include "apps/propane/cli.h"
#include "core/base/json.h"
#include "propane.h"

typedef struct nonfinite_tally {
    const char *name;
    int64_t numbers, nan, infinite;
} nonfinite_tally;

/* Adds an output's numbers, after a run; an output without floats has none that is not finite. */
PROPANE_CHECK propane_status nonfinite_add_output(propane_session *s, const propane_io *io, nonfinite_tally *to,
                                                  propane_error *err);
/* "2 NaN, 1 infinity" */
void nonfinite_words(char out[80], int64_t nan, int64_t infinite);

/* Runs the model anew with every value kept, `runs` times at most, until an output is not finite, and reports why. Where
 * the device cannot, the cpu does. `out` has no such number: with every value kept there was none. */
PROPANE_CHECK propane_status nonfinite_trace(const char *model, const propane_session_options *options, int64_t seed,
                                             int64_t warmup, int64_t runs, propane_nonfinite *out, propane_error *err);

/* {"from", "name", "op", "made", "nan", "infinite", "text"}; null: all is finite. */
json_t *nonfinite_json(const propane_nonfinite *found);

#endif
