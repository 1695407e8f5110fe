/* SPDX-License-Identifier: MIT
 * Owns the reading of tables. Unterminated quotes and rows with a different number of cells are refused, because later
 * cells would end up in the wrong columns.
 */
#include "train/data/csv_rows.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"

/* Reads one cell and sets *last to whether the cell ends its row. */
static propane_status csv_rows_cell(csv_rows *c, text *cell, bool *last, propane_error *err) {
    const int64_t begun = c->line;
    bool quoted = c->at < c->length && c->data[c->at] == '"';
    text_clear(cell);
    c->at += quoted;
    for (; c->at < c->length; c->at++) {
        const char ch = c->data[c->at];
        if (ch == '\n') c->line++;
        if (quoted && ch == '"') {
            if (c->at + 1 < c->length && c->data[c->at + 1] == '"')
                c->at++;
            else {
                quoted = false;
                continue;
            }
        } else if (!quoted && (ch == c->separator || ch == '\n')) {
            break;
        } else if (!quoted && ch == '\r') {
            continue;
        }
        text_append_n(cell, &ch, 1);
    }
    if (quoted) return propane_fail(err, PROPANE_ERR_INVALID, "line %lld: a quote is not closed", (long long)begun);
    *last = c->at >= c->length || c->data[c->at] == '\n';
    c->at += c->at < c->length;
    return cell->failed ? propane_fail_memory(err, cell->length) : PROPANE_OK;
}

/* Reads the cells of one row as an array of texts. */
static propane_status csv_rows_cells(csv_rows *c, json_t *out, propane_error *err) {
    text cell = {0};
    bool last = false;
    propane_status status = PROPANE_OK;
    while (status == PROPANE_OK && !last) {
        status = csv_rows_cell(c, &cell, &last, err);
        json_t *value = status == PROPANE_OK ? json_stringn(cell.data ? cell.data : "", cell.length) : NULL;
        if (status == PROPANE_OK && !value)
            status = propane_fail(err, PROPANE_ERR_INVALID, "line %lld: not UTF-8", (long long)c->line);
        if (value) json_add(out, value);
    }
    text_deinit(&cell);
    return status;
}

propane_status csv_rows_begin(const char *data, size_t length, char separator, csv_rows *out, propane_error *err) {
    /* byte order mark, as written by spreadsheets */
    const bool mark = length >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
    *out = (csv_rows){.data = data, .length = length, .at = mark ? 3 : 0, .separator = separator, .line = 1};
    out->names = json_array();
    return out->names ? csv_rows_cells(out, out->names, err) : propane_fail_memory(err, 0);
}

propane_status csv_rows_next(csv_rows *c, json_t **row, propane_error *err) {
    *row = NULL;
    while (c->at < c->length && strchr("\r\n", c->data[c->at])) c->line += c->data[c->at++] == '\n';
    if (c->at >= c->length) return PROPANE_OK;
    const int64_t line = c->row = c->line;
    const size_t names = json_array_size(c->names);
    json_t *cells = json_array();
    propane_status status = csv_rows_cells(c, cells, err);
    if (status == PROPANE_OK && json_array_size(cells) != names)
        status = propane_fail(err, PROPANE_ERR_INVALID, "line %lld: %zu columns, but the first line names %zu",
                              (long long)line, json_array_size(cells), names);
    if (status == PROPANE_OK) *row = json_object();
    for (size_t i = 0; *row && i < names; i++)
        json_put(*row, json_string_value(json_array_get(c->names, i)), json_incref(json_array_get(cells, i)));
    json_decref(cells);
    return status;
}

void csv_rows_end(csv_rows *c) {
    json_decref(c->names);
    c->names = NULL;
}
