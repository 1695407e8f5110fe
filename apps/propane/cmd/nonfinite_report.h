/* SPDX-License-Identifier: MIT
 * Declares the report of run and diff about NaN and infinities in outputs: their counts, and the operation that makes
 * the first of them.
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

/* Adds the counts of an output to `to` after a run. An output that is not a float has no non-finite values. */
PROPANE_CHECK propane_status nonfinite_add_output(propane_session *s, const propane_io *io, nonfinite_tally *to,
                                                  propane_error *err);
/* Writes the counts as words: "2 NaN, 1 infinity". */
void nonfinite_words(char out[80], int64_t nan, int64_t infinite);

/* Opens the model again in a session that keeps every value, and runs it at most `warmup` + `runs` times, until an
 * output is not finite. *out then describes the first non-finite value. If no output of this session was NaN or
 * infinite, *out counts none. Uses the cpu device if the session fails on another one. */
PROPANE_CHECK propane_status nonfinite_trace(const char *model, const propane_session_options *options, int64_t seed,
                                             int64_t warmup, int64_t runs, propane_nonfinite *out, propane_error *err);

/* Returns {"from", "name", "op", "made", "nan", "infinite", "text"}, or null if all is finite. */
json_t *nonfinite_json(const propane_nonfinite *found);

#endif
