/* SPDX-License-Identifier: MIT
 * The values that propane diff compares, and the runs that they come from.
 */
#ifndef APPS_PROPANE_CMD_DIFF_VALUES_H
#define APPS_PROPANE_CMD_DIFF_VALUES_H

#include "apps/propane/cli.h"
#include "apps/propane/cmd/nonfinite_report.h"
#include "propane.h"

enum { DIFF_MAX_GIVEN = 64 };

/* One value that both sides have. */
typedef struct diff_row {
    char *name;                  /* the job owns it */
    const char *op;              /* the operation that makes it */
    double largest, mean, scale; /* largest and mean difference; the largest value of A */
    int64_t count;
    /* not a number on one side only; or infinite on one side, and small or of the other sign on the other */
    bool broken;
    bool output; /* an output even without keeping every value */
    int place;   /* in A's program, if it was run in parts */
    bool beyond; /* infinite on one side, while the other has a number too large for fp16: a mask of finfo.min */
    nonfinite_tally a, b;
} diff_row;

typedef struct diff_job {
    const char *a, *b, *html;
    const char *expect; /* recorded outputs, used instead of B */
    propane_session_options left, right;
    char *inputs[DIFF_MAX_GIVEN], *shapes[DIFF_MAX_GIVEN];
    cli_list input_list, shape_list;
    int64_t seed;
    double tolerance;
    bool all, resize, json;
    propane_nonfinite found_a, found_b;
    propane_shape chosen[DIFF_MAX_GIVEN];
    int64_t memory;     /* MB of values held at a time */
    propane_shape *ran; /* the shapes that A's inputs had */
    int ran_count;
    diff_row *rows;
    int row_count;
} diff_job;

/* Stores the difference and the counts of two arrays in the row. */
void diff_values_compare(const float *a, const float *b, int64_t count, diff_row *out);
/* Returns an output's numbers, freed with mem_free. */
PROPANE_CHECK propane_status diff_values_take(propane_session *s, const propane_io *io, float **out,
                                              propane_error *err);
const propane_io *diff_values_find(propane_session *s, const char *name); /* NULL if there is no such output */
/* Reads files, chosen shapes and other settings, for both sides. */
PROPANE_CHECK propane_status diff_values_prepare(diff_job *j, propane_error *err);
PROPANE_CHECK propane_status diff_values_open(const diff_job *j, const char *path,
                                              const propane_session_options *options, propane_session **out,
                                              propane_error *err);
/* Makes a row for every value that both sides have, in the order of A's program, and reports non-finite values. */
PROPANE_CHECK propane_status diff_values_run(diff_job *j, propane_error *err);
void diff_values_free(diff_job *j);

#endif
