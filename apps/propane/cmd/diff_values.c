/* SPDX-License-Identifier: MIT
 * Owns the runs of propane diff and the comparison of two arrays. A is run and closed before B is opened. Only as many
 * values are kept at a time as fit into the given memory. To compare the other values, both programs are run again.
 */
#include "apps/propane/cmd/diff_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

/* The number of values that are kept at a time if a device cannot keep all of them. Engines accept 256 outputs per
 * program, including the program's own outputs. */
enum { SAFE_OUTPUTS = 128 };

static void diff_values_count(nonfinite_tally *t, double v) {
    t->numbers++;
    t->nan += isnan(v) != 0;
    t->infinite += isinf(v) != 0;
}

/* Returns whether one value is infinite, and the other is a number with the same sign that fp16 rounds to infinity (its
 * magnitude is at least 65520). */
static bool diff_values_is_beyond(double x, double y) {
    const double finite = isinf(x) ? y : x;
    return isinf(x) != isinf(y) && fabs(finite) >= 65520 && (x < 0) == (y < 0);
}

void diff_values_compare(const float *a, const float *b, int64_t count, diff_row *out) {
    double sum = 0;
    out->count = count;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)a[i], y = (double)b[i], d = x == y ? 0 : fabs(x - y);
        diff_values_count(&out->a, x);
        diff_values_count(&out->b, y);
        if (isnan(d) && isnan(x) && isnan(y)) continue;
        if (diff_values_is_beyond(x, y)) {
            out->beyond = true;
            continue;
        }
        if (!isfinite(d)) out->broken = true;
        if (isfinite(x) && fabs(x) > out->scale) out->scale = fabs(x);
        if (d > out->largest) out->largest = d;
        sum += isfinite(d) ? d : 0;
    }
    out->mean = count ? sum / (double)count : 0;
}

propane_status diff_values_take(propane_session *s, const propane_io *io, float **out, propane_error *err) {
    const int64_t count = propane_io_count(io);
    *out = mem_array((size_t)count + 1, sizeof **out);
    if (!*out) return propane_fail_memory(err, (size_t)count * sizeof **out);
    return propane_session_get(s, io->name, PROPANE_FP32, *out, count, err);
}

const propane_io *diff_values_find(propane_session *s, const char *name) {
    const propane_program *p = propane_session_program(s);
    const propane_io *io = propane_program_find(p, name), *first = propane_program_output(p, 0);
    return first && io >= first && io < first + propane_program_output_count(p) ? io : NULL;
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------ */

propane_status diff_values_prepare(diff_job *j, propane_error *err) {
    for (int i = 0; i < j->shape_list.count; i++)
        PROPANE_TRY(propane_shape_parse(j->shape_list.items[i], &j->chosen[i], err));
    j->left.shapes = j->right.shapes = j->chosen;
    j->left.shape_count = j->right.shape_count = j->shape_list.count;
    j->left.files = j->right.files = (const char *const *)j->inputs;
    j->left.file_count = j->right.file_count = j->input_list.count;
    j->left.resize = j->right.resize = j->resize;
    return PROPANE_OK;
}

propane_status diff_values_open(const diff_job *j, const char *path, const propane_session_options *options,
                                propane_session **out, propane_error *err) {
    PROPANE_TRY(propane_session_open(path, options, out, err));
    if (j->seed >= 0) PROPANE_TRY(propane_session_randomize(*out, (uint64_t)j->seed, err));
    return propane_session_ready(*out, "--input NAME=FILE, or --seed N for random numbers", err);
}

/* One run of A and B. It holds A's values, for the rows from `first` to `end`, until B's values are known. */
typedef struct diff_pass {
    const char **names; /* names of the values to keep; NULL for all */
    int count;
    bool outputs; /* also compares the outputs, and counts their non-finite values */
    int first, end;
    float **taken; /* [end - first], indexed by row - first */
} diff_pass;

static propane_status diff_values_note_shapes(diff_job *j, const propane_session *a, propane_error *err) {
    const int count = j->input_list.count ? propane_session_input_count(a) : 0;
    mem_free(j->ran);
    j->ran_count = 0;
    j->ran = mem_array((size_t)count + 1, sizeof *j->ran);
    if (!j->ran) return propane_fail_memory(err, (size_t)count * sizeof *j->ran);
    for (int i = 0; i < count; i++) {
        const propane_io *io = propane_session_input(a, i);
        propane_shape *shape = &j->ran[j->ran_count++];
        *shape = (propane_shape){.name = mem_copy_string(io->name), .rank = io->rank};
        memcpy(shape->dim, io->dim, sizeof io->dim);
        if (!shape->name) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

static propane_status diff_values_room(diff_job *j, int more, propane_error *err) {
    diff_row *larger = mem_resize(j->rows, (size_t)(j->row_count + more + 1) * sizeof *j->rows);
    if (!larger) return propane_fail_memory(err, (size_t)more * sizeof *larger);
    j->rows = larger;
    return PROPANE_OK;
}

/* Takes A's values and adds their rows in the order of A's program. The session lists the program's own outputs before
 * the kept values, so its order cannot be used. */
static propane_status diff_values_take_all(diff_job *j, diff_pass *pass, propane_session *a, propane_error *err) {
    const propane_module *m = propane_session_module(a);
    const int most = propane_program_output_count(propane_session_program(a));
    const propane_value *v = NULL;
    PROPANE_TRY(diff_values_room(j, most, err));
    pass->taken = mem_array((size_t)most + 1, sizeof *pass->taken);
    if (!pass->taken) return propane_fail_memory(err, (size_t)most * sizeof *pass->taken);
    for (int place = 0; (v = propane_module_next_value(m, j->left.function, v)); place++) {
        const propane_io *io = diff_values_find(a, propane_value_name(v));
        const bool output = io && !propane_session_keeps(a, io->name);
        if (!io || (output && !pass->outputs)) continue;
        diff_row *r = &j->rows[j->row_count];
        *r = (diff_row){.name = mem_copy_string(io->name),
                        .op = propane_value_op(v),
                        .output = output,
                        .place = place,
                        .count = propane_io_count(io)};
        if (!r->name) return propane_fail_memory(err, 0);
        pass->end = ++j->row_count;
        PROPANE_TRY(diff_values_take(a, io, &pass->taken[pass->end - 1 - pass->first], err));
    }
    return PROPANE_OK;
}

static propane_status diff_values_run_a(diff_job *j, diff_pass *pass, propane_error *err) {
    propane_nonfinite ignored = {.size = sizeof ignored};
    propane_session *a = NULL;
    j->left.keep_names = pass->names;
    j->left.keep_count = pass->count;
    propane_status status = diff_values_open(j, j->a, &j->left, &a, err);
    if (!status) status = propane_session_run_counted(a, pass->outputs ? &j->found_a : &ignored, err);
    if (!status && pass->outputs) status = diff_values_note_shapes(j, a, err);
    if (!status) status = diff_values_take_all(j, pass, a, err);
    propane_session_close(a);
    return status;
}

/* Runs B and removes the rows that B does not have, or has in another size. */
static propane_status diff_values_run_b(diff_job *j, diff_pass *pass, propane_error *err) {
    propane_nonfinite ignored = {.size = sizeof ignored};
    propane_session *b = NULL;
    int kept = pass->first;
    j->right.keep_names = pass->names;
    j->right.keep_count = pass->count;
    propane_status status = diff_values_open(j, j->b ? j->b : j->a, &j->right, &b, err);
    if (!status) status = propane_session_run_counted(b, pass->outputs ? &j->found_b : &ignored, err);
    for (int i = pass->first; i < pass->end && !status; i++) {
        diff_row *r = &j->rows[i];
        const propane_io *io = diff_values_find(b, r->name);
        float **mine = &pass->taken[i - pass->first], *other = NULL;
        const bool same = io && propane_io_count(io) == r->count;
        if (same) status = diff_values_take(b, io, &other, err);
        if (same && !status) diff_values_compare(*mine, other, r->count, r);
        mem_free(other);
        mem_free(*mine);
        *mine = NULL;
        if (!same) {
            mem_free(r->name);
            r->name = NULL;
            continue;
        }
        const diff_row moved = *r;
        r->name = NULL;
        j->rows[kept++] = moved;
    }
    if (!status) j->row_count = kept;
    propane_session_close(b);
    return status;
}

static void diff_values_drop_rows(diff_job *j) {
    while (j->row_count > 0) mem_free(j->rows[--j->row_count].name);
}

static propane_status diff_values_pass_run(diff_job *j, const char **names, int count, bool outputs,
                                           propane_error *err) {
    diff_pass pass = {.names = names, .count = count, .outputs = outputs, .first = j->row_count, .end = j->row_count};
    propane_status status = diff_values_run_a(j, &pass, err);
    if (!status) status = diff_values_run_b(j, &pass, err);
    for (int i = pass.first; i < pass.end; i++) mem_free(pass.taken[i - pass.first]);
    mem_free(pass.taken);
    return status;
}

/* ---- in parts ---------------------------------------------------------------------------------------------------------------- */

static int diff_values_by_place(const void *a, const void *b) {
    const diff_row *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Compares the outputs in a first run. Compares the other values in further runs, with as many at a time as fit into
 * memory, but at least one and at most `most`. */
static propane_status diff_values_run_parts(diff_job *j, const propane_module *m, const char **names, int most,
                                            propane_error *err) {
    const int64_t room = (j->memory << 20) / (int64_t)sizeof(float);
    const propane_value *v = propane_module_next_value(m, j->left.function, NULL);
    names[0] = "";
    PROPANE_TRY(diff_values_pass_run(j, names, 1, true, err));
    while (v) {
        int count = 0;
        for (int64_t held = 0; v && (!count || (count < most && held + propane_value_count(v) <= room));
             v = propane_module_next_value(m, j->left.function, v)) {
            held += propane_value_count(v);
            names[count++] = propane_value_name(v);
        }
        PROPANE_TRY(diff_values_pass_run(j, names, count, false, err));
    }
    qsort(j->rows, (size_t)j->row_count, sizeof *j->rows, diff_values_by_place);
    for (int side = 0; side < 2; side++) {
        propane_nonfinite *found = side ? &j->found_b : &j->found_a;
        propane_session_options options = side ? j->right : j->left;
        options.keep_count = 0;
        if (found->nan || found->infinite)
            PROPANE_TRY(nonfinite_trace(side && j->b ? j->b : j->a, &options, j->seed, 0, 1, found, err));
    }
    return PROPANE_OK;
}

propane_status diff_values_run(diff_job *j, propane_error *err) {
    propane_module *m = NULL;
    const propane_value *v = NULL;
    int64_t numbers = 0;
    int count = 0;
    PROPANE_TRY(diff_values_prepare(j, err));
    if (propane_module_read_shaped(j->a, j->chosen, j->shape_list.count, &m, NULL) == PROPANE_OK)
        while ((v = propane_module_next_value(m, j->left.function, v))) numbers += propane_value_count(v), count++;
    const char **names = mem_array((size_t)count + 2, sizeof *names);
    propane_status status = names ? PROPANE_OK : propane_fail_memory(err, (size_t)count * sizeof *names);
    const bool fits = numbers <= (j->memory << 20) / (int64_t)sizeof(float);
    if (!status && fits) status = diff_values_pass_run(j, NULL, 0, true, err);
    if (!status && !fits) status = diff_values_run_parts(j, m, names, INT32_MAX, err);
    if (status == PROPANE_ERR_LIMIT && fits && count > SAFE_OUTPUTS) {
        diff_values_drop_rows(j);
        status = diff_values_run_parts(j, m, names, SAFE_OUTPUTS, err);
    }
    mem_free(names);
    propane_module_free(m);
    if (status || j->row_count) return status;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s and %s have no value of the same name and size", j->a,
                        j->b ? j->b : j->a);
}

void diff_values_free(diff_job *j) {
    diff_values_drop_rows(j);
    mem_free(j->rows);
    for (int i = 0; i < j->ran_count; i++) mem_free((void *)(uintptr_t)j->ran[i].name);
    mem_free(j->ran);
    for (int i = 0; i < DIFF_MAX_GIVEN; i++) propane_free((void *)(uintptr_t)j->chosen[i].name);
}
