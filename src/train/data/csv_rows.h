/* SPDX-License-Identifier: MIT
 * Tables as objects: a file's first row names the columns, and each further row becomes {"column": "text", ...} (RFC
 * 4180: quoted cells may hold commas, line breaks and doubled quotes).
 */
#ifndef TRAIN_DATA_CSV_ROWS_H
#define TRAIN_DATA_CSV_ROWS_H

#include "core/base/json.h"

typedef struct csv_rows {
    const char *data;
    size_t length, at;
    char separator;
    json_t *names;
    int64_t line, row; /* current line, and the line where the last row begins, counted from 1 */
} csv_rows;

/* Reads the first row; the data are borrowed. */
PROPANE_CHECK propane_status csv_rows_begin(const char *data, size_t length, char separator, csv_rows *out,
                                            propane_error *err);
/* Sets *row to NULL at the end. A row with more or fewer cells than there are names is an error. */
PROPANE_CHECK propane_status csv_rows_next(csv_rows *c, json_t **row, propane_error *err);
void csv_rows_end(csv_rows *c);

#endif
