/* SPDX-License-Identifier: MIT
 * Owns the published points. It turns a table with the columns of ane_perf.csv into calls for the model, and gives a
 * reason for each row that the model does not cover. A row is excluded only by its own description (such as a busy host
 * or data of zeros), never because its latency differs from a prediction. tools/fit_cost_model.py uses the same rules.
 *
 * Refuses a table without the needed columns. Also refuses, with the line number, unclosed quotes, rows whose
 * length differs from the header's, and figures that are not numbers.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ane/chip/cost_model.h"
#include "core/base/text.h"

typedef enum column {
    COL_id,
    COL_chip,
    COL_os,
    COL_path,
    COL_workload,
    COL_shape,
    COL_dtype,
    COL_flops,
    COL_bytes_in,
    COL_bytes_weights,
    COL_bytes_out,
    COL_latency_ms,
    COL_tflops,
    COL_source,
    COL_note,
    COL_COUNT
} column;

static const char *const column_names[COL_COUNT] = {"id",        "chip",       "os",     "path",     "workload",
                                                    "shape",     "dtype",      "flops",  "bytes_in", "bytes_weights",
                                                    "bytes_out", "latency_ms", "tflops", "source",   "note"};

/* ---- the table ------------------------------------------------------------------------------------------------------ */

#define MAX_FIELDS 64

/* Splits the record at *at into terminated fields, in place. A quote inside a quoted field is written twice. */
static propane_status cost_points_next_record(char **at, char *end, const char *name, int *line,
                                              char *fields[MAX_FIELDS], int *count, propane_error *err) {
    char *in = *at, *out = *at;
    int first = *line;
    *count = 0;
    for (;;) {
        if (*count == MAX_FIELDS)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s:%d: more than %d columns", name, first, MAX_FIELDS);
        char *start = out;
        bool quoted = in < end && *in == '"';
        if (quoted) in++;
        while (in < end && (quoted || (*in != ',' && *in != '\n'))) {
            if (quoted && *in == '"') {
                if (in + 1 < end && in[1] == '"') {
                    in++;
                } else {
                    quoted = false;
                    in++;
                    continue;
                }
            }
            if (*in == '\n') ++*line;
            if (*in != '\r' || quoted) *out++ = *in;
            in++;
        }
        if (quoted) return propane_fail(err, PROPANE_ERR_INVALID, "%s:%d: a quote is not closed", name, first);
        char stop = in < end ? *in : '\n';
        if (in < end) in++;
        *out++ = 0; /* never beyond `in`: the separator is gone, and the text ends with a zero */
        fields[(*count)++] = start;
        if (stop == '\n') break;
        if (out < in) out = in;
    }
    ++*line;
    *at = in;
    return PROPANE_OK;
}

/* ---- contents of a row ------------------------------------------------------------------------------------------- */

static bool cost_points_contains(const char *cell, const char *word) { return strcasestr(cell, word) != NULL; }

static bool cost_points_parse(const char *cell, double *out) {
    const char *end = text_read_real(cell, out);
    return end && !*end;
}

static double cost_points_number(const char *cell) {
    double v;
    return cost_points_parse(cell, &v) ? fmin(v, 1e18) : 0; /* no table has more, and products stay finite */
}

/* Returns the number after NAME=, as in "Cin=512", or `standard` if there is none. No letter may precede NAME. */
static double cost_points_field(const char *shape, const char *name, double standard) {
    size_t n = strlen(name);
    for (const char *at = shape; (at = strstr(at, name)); at++) {
        if (at[n] != '=' || (at > shape && isalpha((unsigned char)at[-1])) || !isdigit((unsigned char)at[n + 1]))
            continue;
        double v = 0, unit = 1;
        const char *d = at + n + 1;
        for (; isdigit((unsigned char)*d); d++) v = v * 10 + (*d - '0');
        if (*d == '.' && isdigit((unsigned char)d[1]))
            for (d++; isdigit((unsigned char)*d); d++) v += (unit /= 10) * (*d - '0');
        return fmin(v, 1e9);
    }
    return standard;
}

/* Returns true for "k=9x1" but not for "k=3x3". */
static bool cost_points_kernel_not_square(const char *shape) {
    const char *at = strstr(shape, "k=");
    if (!at) return false;
    at += 2;
    size_t digits = strspn(at, "0123456789");
    if (!digits || at[digits] != 'x' || !isdigit((unsigned char)at[digits + 1])) return false;
    const char *other = at + digits + 1;
    return strspn(other, "0123456789") != digits || strncmp(at, other, digits) != 0;
}

/* Returns the fraction of weights that are 0, such as 0.736 for "73.6% zeros". */
static double cost_points_zeros(const char *dtype) {
    const char *at = strcasestr(dtype, "% zero"), *start = at;
    if (!at) return 0;
    while (start > dtype && (isdigit((unsigned char)start[-1]) || start[-1] == '.')) start--;
    return fmin(1, fmax(0, text_strtod(start, NULL) / 100));
}

/* Returns the published latency in ms. If there is none, converts a published rate and size to a time. */
static double cost_points_published_ms(char *const row[COL_COUNT]) {
    double ms = cost_points_number(row[COL_latency_ms]), rate = cost_points_number(row[COL_tflops]);
    return ms > 0 || rate <= 0 ? ms : cost_points_number(row[COL_flops]) / (rate * 1e9);
}

/* Returns the bits of a look-up table: the number before "-bit lut", 4 for "int4-lut" and "4-bit w", or 0 if there is
 * none. */
static double cost_points_table_bits(const char *dtype) {
    const char *at = strcasestr(dtype, "-bit lut");
    if (!at) return cost_points_contains(dtype, "int4-lut") || cost_points_contains(dtype, "4-bit w") ? 4 : 0;
    const char *start = at;
    while (start > dtype && (isdigit((unsigned char)start[-1]) || start[-1] == '.')) start--;
    return fmin(text_strtod(start, NULL), 64);
}

static const struct {
    column column;
    const char *word, *reason;
} reasons[] = {
    {COL_note, "upper bound", "host-bound run"},
    {COL_note, "abnormally slow", "host-bound run"},
    {COL_note, "while other", "contention"},
    {COL_note, "while the gpu", "contention"},
    {COL_shape, "two processes", "contention"},
    {COL_note, "contention", "contention"},
    {COL_note, "jitter", "contention"},
    {COL_note, "not reach the engine", "doubtful: may not have run on the engine"},
    {COL_note, "possibly not on the engine", "doubtful: may not have run on the engine"},
    {COL_note, "all-zero", "zero data"},
    {COL_note, "cancels to zero", "zero data"},
    {COL_note, "zero-filled", "zero data"},
    {COL_note, "do not agree", "contradicts its own rate"},
    {COL_note, "printed latency", "contradicts its own rate"},
    {COL_dtype, "cast-only", "quantised mixture"},
    {COL_note, "split into", "quantised mixture"},
    {COL_shape, "dynamic", "weights passed at run time, packed with the activation"},
    {COL_shape, "programs", "several programs"},
    {COL_note, "weight staging", "several programs"},
    {COL_shape, "_norm", "normalisation"},
    {COL_shape, "kw=", "kernel not square"},
};

static int cost_points_index_of(const char *name, const char *(*get)(int), int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(name, get(i)) == 0) return i;
    return -1;
}

static const char *cost_points_path_at(int i) { return cost_path_name((cost_path)i); }
static const char *cost_points_kind_at(int i) { return cost_kind_name((cost_kind)i); }

/* Finds the chip with this title. "M1 Max (published as M1/H13)" is an M1 Max. */
static const chip *cost_points_chip_of(const char *name) {
    const chip *c = NULL;
    if (strncmp(name, "M1 Max", 6) == 0) name = "M1 Max";
    return chip_find(name, &c, NULL) == PROPANE_OK && strcasecmp(c->title, name) == 0 ? c : NULL;
}

static const char *cost_points_why_not(char *const row[COL_COUNT], const chip *c, int path, int kind, double ms) {
    if (strcmp(row[COL_workload], "sdpa") == 0) return "attention: the sources time different sets of operations";
    if (kind < 0) return "not a single program";
    if (!c || path < 0) return "chip or path unknown";
    if (ms <= 0) return "no latency published";
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (cost_points_contains(row[reasons[i].column], reasons[i].word)) return reasons[i].reason;
    if (cost_points_contains(row[COL_dtype], "lut") && path == COST_COREML &&
        cost_points_contains(row[COL_note], "core ml;"))
        return "quantised mixture";
    if (cost_points_kernel_not_square(row[COL_shape])) return "kernel not square";
    if (kind == COST_SOFTMAX && strstr(row[COL_shape], "channels")) return "normalisation";
    if (path == COST_DIRECT && strstr(row[COL_shape], "H=1,W=1,"))
        return "single pixel, published time below any possible minimum";
    bool stream = kind == COST_ELEMENTWISE || kind == COST_SOFTMAX;
    if ((stream ? cost_points_number(row[COL_bytes_in]) + cost_points_number(row[COL_bytes_out])
                : cost_points_number(row[COL_flops])) <= 0)
        return "no size published";
    if ((cost_points_contains(row[COL_note], "per-layer slope") ||
         cost_points_contains(row[COL_shape], "per-layer slope")) &&
        ms < 1e-3)
        return "below the resolution of the clock";
    return NULL;
}

static void cost_points_read_call(char *const row[COL_COUNT], cost_call *c) {
    const char *shape = row[COL_shape], *note = row[COL_note], *dtype = row[COL_dtype];
    bool stream = c->kind == COST_ELEMENTWISE || c->kind == COST_SOFTMAX;
    double k = cost_points_field(shape, "k", c->kind == COST_CONV3X3 ? 3 : 1);
    c->flops = cost_points_number(row[COL_flops]);
    c->weight_bytes = cost_points_number(row[COL_bytes_weights]);
    if (cost_points_contains(dtype, "folded") || cost_points_contains(note, "run-time weight dequant"))
        c->weight_bytes *= 2; /* the build turns int8 weights into fp16 */
    c->io_bytes = cost_points_number(row[COL_bytes_in]) + cost_points_number(row[COL_bytes_out]);
    c->cin = cost_points_field(shape, "Cin", 0);
    c->cout = cost_points_field(shape, "Cout", 0);
    c->pixels = cost_points_field(shape, "H", 1) * cost_points_field(shape, "W", 1) * cost_points_field(shape, "B", 1);
    if (c->cin <= 0 && cost_points_field(shape, "M", 0) > 0) {
        c->cin = cost_points_field(shape, "K", 0);
        c->cout = cost_points_field(shape, "N", 0);
        c->pixels = cost_points_field(shape, "M", 0);
    }
    if (c->cin <= 0) c->cin = c->cout = 0;
    c->kernel = k * k;
    c->layers = fmax(1, cost_points_field(shape, "depth", 1));
    c->dilation = cost_points_field(shape, "dil", 1);
    c->engines = cost_points_field(shape, "engines", 0);
    c->lut_bits = cost_points_table_bits(dtype);
    c->fp8 = cost_points_contains(dtype, "fp8");
    c->both_int8 =
        c->fp8 || cost_points_contains(dtype, "w8a8") || (cost_points_contains(dtype, "int8 act") && c->lut_bits > 0);
    c->zeros = cost_points_zeros(dtype);
    c->cold = cost_points_contains(note, "cold");
    c->slow_host = cost_points_contains(note, "host copies slower");
    c->quant = c->both_int8 ? 3 : c->lut_bits > 0 ? 2 : cost_points_contains(dtype, "int8") ? 1 : 0;
    c->slope = cost_points_contains(shape, "per-layer slope") || cost_points_contains(note, "per-layer slope");
    c->task = cost_points_contains(note, "task time") || cost_points_contains(note, "task end");
    c->shared = cost_points_contains(note, "one weight") || cost_points_contains(note, "shared by") ||
                cost_points_contains(note, "50 evals after 10") || (c->path == COST_DIRECT && c->kind == COST_CHAIN);
    c->runtime = cost_points_contains(note, "core ai") ? 1 : cost_points_contains(note, "mpsgraph") ? 2 : 0;
    c->os = cost_hash(row[COL_os], strlen(row[COL_os]));
    c->source = cost_hash(row[COL_source], strlen(row[COL_source]));
    c->sub = stream ? cost_hash(shape, strcspn(shape, " =")) : 0;
}

/* Refuses a figure that is not a number instead of silently leaving out its row, because the whole table may be
 * damaged. */
static propane_status cost_points_check_numbers(char *const row[COL_COUNT], const char *name, int line,
                                                propane_error *err) {
    static const column figures[] = {COL_flops,     COL_bytes_in,   COL_bytes_weights,
                                     COL_bytes_out, COL_latency_ms, COL_tflops};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const char *cell = row[figures[i]];
        double v;
        if (!*cell || (cost_points_parse(cell, &v) && (figures[i] == COL_latency_ms ? v > 0 : v >= 0))) continue;
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s:%d: %s is '%.40s'; it must be a %s number, or empty if nobody published it", name, line,
                            column_names[figures[i]], cell, figures[i] == COL_latency_ms ? "positive" : "non-negative");
    }
    return PROPANE_OK;
}

static void cost_points_read_point(char *const row[COL_COUNT], cost_point *p) {
    const chip *c = cost_points_chip_of(row[COL_chip]);
    int path = cost_points_index_of(row[COL_path], cost_points_path_at, COST_PATH_COUNT);
    int kind = cost_points_index_of(row[COL_workload], cost_points_kind_at, COST_KIND_COUNT);
    *p = (cost_point){.id = row[COL_id],
                      .chip = row[COL_chip],
                      .path = row[COL_path],
                      .workload = row[COL_workload],
                      .shape = row[COL_shape],
                      .note = row[COL_note]};
    p->published_ms = cost_points_published_ms(row);
    p->reason = cost_points_why_not(row, c, path, kind, p->published_ms);
    if (p->reason) return;
    p->covered = true;
    p->call = (cost_call){.chip = c->id, .path = (cost_path)path, .kind = (cost_kind)kind};
    cost_points_read_call(row, &p->call);
    cost_call_time(&p->call, &p->time);
    if (p->time.ms > 0 && isfinite(p->time.ms)) return;
    p->covered = false;
    p->reason = "sizes for which the model has no data";
}

static propane_status cost_points_read_header(char *const *fields, int count, const char *name, int where[COL_COUNT],
                                              propane_error *err) {
    for (int c = 0; c < COL_COUNT; c++) {
        where[c] = -1;
        for (int i = 0; i < count; i++)
            if (strcmp(fields[i], column_names[c]) == 0) where[c] = i;
        bool needed = c == COL_chip || c == COL_path || c == COL_workload || c == COL_shape || c == COL_latency_ms;
        if (needed && where[c] < 0)
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "%s: column '%s' is missing; the table needs id, chip, path, workload, shape and latency_ms, and may "
                "have os, dtype, flops, bytes_in, bytes_weights, bytes_out, tflops, source and note",
                name, column_names[c]);
    }
    return PROPANE_OK;
}

propane_status cost_points_read(char *table, size_t length, const char *name, arena *a, cost_point **out, int *count,
                                propane_error *err) {
    static char nothing[] = "";
    char *at = table, *end = table + length, *fields[MAX_FIELDS], *row[COL_COUNT];
    int where[COL_COUNT], n = 0, columns = 0, line = 1, rows = 0;
    *count = 0;
    if (length >= 3 && memcmp(table, "\xef\xbb\xbf", 3) == 0) at += 3;
    for (size_t i = 0; i < length; i++) rows += table[i] == '\n';
    *out = ARENA_ARRAY(a, rows + 1, cost_point);
    if (!*out) return propane_fail_memory(err, (size_t)rows * sizeof **out);
    PROPANE_TRY(cost_points_next_record(&at, end, name, &line, fields, &columns, err));
    PROPANE_TRY(cost_points_read_header(fields, columns, name, where, err));
    while (at < end) {
        const int first = line;
        PROPANE_TRY(cost_points_next_record(&at, end, name, &line, fields, &n, err));
        if (n == 1 && !*fields[0]) continue;
        if (n != columns)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s:%d: the row has %d columns, but the header has %d; a field with a comma needs "
                                "quotes",
                                name, first, n, columns);
        for (int c = 0; c < COL_COUNT; c++) row[c] = where[c] >= 0 ? fields[where[c]] : nothing;
        PROPANE_TRY(cost_points_check_numbers(row, name, first, err));
        cost_points_read_point(row, &(*out)[(*count)++]);
    }
    return PROPANE_OK;
}
