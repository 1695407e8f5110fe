/* SPDX-License-Identifier: MIT
 * Declares the job of propane diff: the runs of both sides, and the values that are compared.
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
    const char *op;              /* the operation that computes it */
    double largest, mean, scale; /* largest and mean difference; largest finite magnitude in A */
    int64_t count;
    /* An element is NaN on one side only; or it is infinite on one side, and on the other side it has the other sign or
     * is small enough for fp16. */
    bool broken;
    bool output; /* an output of the program itself */
    int place;   /* position in A's program */
    bool beyond; /* an element is infinite on one side, and too large for fp16 on the other, as in masks of finfo.min */
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
    int64_t memory;     /* MiB of values that are held at a time */
    propane_shape *ran; /* the shapes that A's inputs had */
    int ran_count;
    diff_row *rows;
    int row_count;
} diff_job;

/* Stores the differences and counts of two arrays in the row. */
void diff_values_compare(const float *a, const float *b, int64_t count, diff_row *out);
/* Returns an output's values in *out; free them with mem_free. */
PROPANE_CHECK propane_status diff_values_take(propane_session *s, const propane_io *io, float **out,
                                              propane_error *err);
const propane_io *diff_values_find(propane_session *s, const char *name); /* NULL if there is no such output */
/* Sets the options of both sides: input files, chosen shapes, and resizing. */
PROPANE_CHECK propane_status diff_values_prepare(diff_job *j, propane_error *err);
PROPANE_CHECK propane_status diff_values_open(const diff_job *j, const char *path,
                                              const propane_session_options *options, propane_session **out,
                                              propane_error *err);
/* Runs both sides. Makes a row for every value that both have, in the order of A's program, and finds non-finite
 * values. */
PROPANE_CHECK propane_status diff_values_run(diff_job *j, propane_error *err);
void diff_values_free(diff_job *j);

#endif
