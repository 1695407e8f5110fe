/* SPDX-License-Identifier: MIT
 * The table of runs in the comparison and the report: one row per fact or setting, one column per run.
 */
#ifndef REPORT_RUN_RUN_TABLE_H
#define REPORT_RUN_RUN_TABLE_H

#include "report/run/run_set.h"

typedef struct run_row {
    char name[72];
    char (*cells)[160]; /* [number of runs] */
    int best;           /* the run with the best figure, or -1 if there is none or the row has no order */
    bool setting;
} run_row;

typedef struct run_table {
    const run_set *set;
    run_row *rows;
    int count;
} run_table;

/* Facts come first, then the settings that differ. Call run_table_free even after an error. */
PROPANE_CHECK propane_status run_table_make(const run_set *s, run_table *t, propane_error *err);
void run_table_free(run_table *t);
/* Prints text of at most `width` columns: runs that do not fit follow below. 0 means any width. */
void run_table_print(const run_table *t, int width, text *out);
/* Returns {"runs": [{"run", "state", figures, "settings": {}}], "common_step", "differ": [names]}, to release with
 * json_decref. NULL if memory runs out. */
json_t *run_table_json(const run_set *s);

#endif
