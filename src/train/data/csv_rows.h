/* SPDX-License-Identifier: MIT
 * Tables as objects. A file's first row names the columns, and each further row becomes an object {"column": "text",
 * ...}. Quoted cells may hold separators, line breaks and doubled quotes (RFC 4180).
 */
#ifndef TRAIN_DATA_CSV_ROWS_H
#define TRAIN_DATA_CSV_ROWS_H

#include "core/base/json.h"

typedef struct csv_rows {
    const char *data;
    size_t length, at;
    char separator;
    json_t *names;
    int64_t line, row; /* current line, and the line in which the latest row begins, counted from 1 */
} csv_rows;

/* Reads the first row. The data are borrowed until csv_rows_end. */
PROPANE_CHECK propane_status csv_rows_begin(const char *data, size_t length, char separator, csv_rows *out,
                                            propane_error *err);
/* Sets *row to the next row, which the caller releases, or to NULL at the end. Returns PROPANE_ERR_INVALID if the row
 * has more or fewer cells than the first row. */
PROPANE_CHECK propane_status csv_rows_next(csv_rows *c, json_t **row, propane_error *err);
void csv_rows_end(csv_rows *c);

#endif
