/* SPDX-License-Identifier: MIT
 * The report of run and diff about non-finite outputs: their counts, and the operation that makes the first of them.
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

/* Adds the counts of an output after a run. An output without floats has no non-finite values. */
PROPANE_CHECK propane_status nonfinite_add_output(propane_session *s, const propane_io *io, nonfinite_tally *to,
                                                  propane_error *err);
/* Writes the counts as words: "2 NaN, 1 infinity". */
void nonfinite_words(char out[80], int64_t nan, int64_t infinite);

/* Runs the model again with every value kept, at most `runs` times, until an output is not finite, and reports why.
 * If the device cannot keep every value, the cpu device is used. `out` has no such number if none appeared with
 * every value kept. */
PROPANE_CHECK propane_status nonfinite_trace(const char *model, const propane_session_options *options, int64_t seed,
                                             int64_t warmup, int64_t runs, propane_nonfinite *out, propane_error *err);

/* Returns {"from", "name", "op", "made", "nan", "infinite", "text"}, or null if all is finite. */
json_t *nonfinite_json(const propane_nonfinite *found);

#endif
