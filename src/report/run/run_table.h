/* SPDX-License-Identifier: MIT
 * The table of runs that compare and the report show: a row for each fact or setting, a column for each run.
 */
#ifndef REPORT_RUN_RUN_TABLE_H
#define REPORT_RUN_RUN_TABLE_H

#include "report/run/run_set.h"

typedef struct run_row {
    char name[72];
    char (*cells)[160]; /* [count of runs] */
    int best;           /* the run with the best figure; -1: there is none, or it has no better and worse */
    bool setting;
} run_row;

typedef struct run_table {
    const run_set *set;
    run_row *rows;
    int count;
} run_table;

/* Facts first, then the settings that differ. run_table_free also after an error. */
PROPANE_CHECK propane_status run_table_make(const run_set *s, run_table *t, propane_error *err);
void run_table_free(run_table *t);
/* As text of at most `width` columns: what does not fit beside the rest comes below; 0: any width. */
void run_table_print(const run_table *t, int width, text *out);
/* {"runs": [{"run", "state", figures, "settings": {}}], "common_step", "differ": [names]}; json_decref it. NULL: no
 * memory. */
json_t *run_table_json(const run_set *s);

#endif
