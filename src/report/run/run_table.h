/* SPDX-License-Identifier: MIT
 * Declares the table of runs in the comparison and the report. It has one row per fact or setting, and one column per
 * run.
 */
#ifndef REPORT_RUN_RUN_TABLE_H
#define REPORT_RUN_RUN_TABLE_H

#include "report/run/run_set.h"

typedef struct run_row {
    char name[72];
    char (*cells)[160]; /* [number of runs] */
    int best;           /* index of the run with the best value, or -1 if there is none or the values have no order */
    bool setting;
} run_row;

typedef struct run_table {
    const run_set *set;
    run_row *rows;
    int count;
} run_table;

/* Fills the table with the facts, followed by the settings that differ. Call run_table_free even after an error. */
PROPANE_CHECK propane_status run_table_make(const run_set *s, run_table *t, propane_error *err);
void run_table_free(run_table *t);
/* Appends the table as text of at most `width` columns (0 means any width). Runs that do not fit follow below. */
void run_table_print(const run_table *t, int width, text *out);
/* Returns {"runs": [{"run", "state", facts, "settings": {}}], "common_step", "differ": [names]}, or NULL if memory runs
 * out. Release the object with json_decref. */
json_t *run_table_json(const run_set *s);

#endif
