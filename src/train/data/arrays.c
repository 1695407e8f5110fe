/* SPDX-License-Identifier: MIT
 * Owns samples in arrays. All shapes and types are checked when the arrays are opened, so that reading a sample is a
 * plain copy. Arrays of different lengths, arrays whose shapes differ from the program's, and labels that are not
 * integers are refused.
 */
#include "train/data/arrays.h"

#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/npy.h"
#include "core/base/rng.h"
#include "core/base/text.h"

#define SPLIT_SEED 20

typedef struct part {
    npz file;              /* storage of the arrays below */
    const npy *inputs[64]; /* per input of the program, in the program's order */
    const npy *y;
} part;

struct arrays {
    imported_model *model;
    part parts[2];
    bool split;    /* samples of both parts are in parts[0] */
    bool borrowed; /* the array data belong to the caller */
    sample_source source;
};

int64_t sample_split(int64_t index, int64_t count) { return rng_shuffled(SPLIT_SEED, (uint64_t)index, count); }
int64_t sample_held_count(double fraction, int64_t count) {
    const int64_t held = (int64_t)(fraction * (double)count + 0.5);
    return held < count ? held : count - 1;
}

const sample_source *arrays_source(const arrays *a) { return &a->source; }

/* ---- finding -------------------------------------------------------------------------------------------------------------- */

static bool arrays_there(const char *dir, const char *name) {
    text path = {0};
    text_printf(&path, "%s/%s", dir, name);
    const bool found = !path.failed && file_exists(path.data);
    text_deinit(&path);
    return found;
}

static bool arrays_is_archive(const char *path) {
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".npz") == 0;
}

bool arrays_here(const char *path) {
    return arrays_is_archive(path) || arrays_there(path, "train.npz") || arrays_there(path, "data.npz") ||
           arrays_there(path, "y.npy") || arrays_there(path, "x.npy") || arrays_there(path, "train/y.npy");
}

static propane_status arrays_add_array(npz *to, const char *dir, const char *name, propane_error *err) {
    text path = {0};
    text_printf(&path, "%s/%s.npy", dir, name);
    propane_status status = path.failed ? propane_fail_memory(err, 0) : PROPANE_OK;
    if (!status && file_exists(path.data)) {
        status = npy_read(path.data, &to->arrays[to->count], err);
        if (!status) to->names[to->count] = mem_copy_string(name);
        if (!status && !to->names[to->count++]) status = propane_fail_memory(err, 0);
    }
    text_deinit(&path);
    return status;
}

/* Reads the .npy files of a folder as if they were an archive. */
static propane_status arrays_read_folder(const imported_model *m, const char *dir, npz *out, propane_error *err) {
    const mil_function *f = m->base;
    out->names = mem_array((size_t)f->param_count + 2, sizeof *out->names);
    out->arrays = mem_array((size_t)f->param_count + 2, sizeof *out->arrays);
    if (!out->names || !out->arrays) return propane_fail_memory(err, 0);
    PROPANE_TRY(arrays_add_array(out, dir, "y", err));
    if (f->param_count == 1) PROPANE_TRY(arrays_add_array(out, dir, "x", err));
    for (int i = 0; i < f->param_count; i++) PROPANE_TRY(arrays_add_array(out, dir, f->params[i]->name, err));
    return PROPANE_OK;
}

static const npy *arrays_array_named(const npz *z, const char *name) {
    for (int i = 0; i < z->count; i++)
        if (strcmp(z->names[i], name) == 0) return &z->arrays[i];
    return NULL;
}

/* ---- checking ------------------------------------------------------------------------------------------------------------- */

static propane_status arrays_check_array(const char *source, const char *name, const npy *a, const mil_type *type,
                                         bool whole, int64_t count, propane_error *err) {
    char want[160], have[160];
    text_shape(want, type->rank, type->dim);
    text_shape(have, a->rank, a->dim);
    if (a->rank < 1 || a->dim[0] < 1)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: array %.60s %s contains no samples", source, name, have);
    if (!imported_same_shape(a->rank - 1, a->dim + 1, type->rank, type->dim))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: array %.60s is %s; each sample must be %s, with the number of samples as first dimension", source,
            name, have, want);
    if (whole && a->kind == 'f')
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: array %.60s contains floats, but integers are needed",
                            source, name);
    if (a->dim[0] == count) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: array %.60s has %lld samples, but y has %lld", source, name,
                        (long long)a->dim[0], (long long)count);
}

/* Returns the type of a sample's expected output: that of the program's output, for cross-entropy without the class
 * axis. */
static mil_type arrays_label_type(const imported_model *m) {
    mil_type type = m->base->results[0]->type;
    if (m->loss == IMPORTED_MSE) return type;
    for (int d = m->class_axis; d + 1 < type.rank; d++) type.dim[d] = type.dim[d + 1];
    type.rank--;
    return type;
}

static propane_status arrays_check_part(imported_model *m, part *p, const char *source, propane_error *err) {
    const mil_function *f = m->base;
    p->y = arrays_array_named(&p->file, "y");
    if (!p->y)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no array y (the expected outputs)", source);
    PROPANE_TRY(imported_model_choose_axis(m, source, p->y->rank, p->y->dim, err));
    const mil_type label = arrays_label_type(m);
    PROPANE_TRY(arrays_check_array(source, "y", p->y, &label, m->loss == IMPORTED_CROSS_ENTROPY,
                                   p->y->rank ? p->y->dim[0] : 0, err));
    for (int i = 0; i < f->param_count; i++) {
        const mil_value *v = f->params[i];
        p->inputs[i] = arrays_array_named(&p->file, v->name);
        if (!p->inputs[i] && f->param_count == 1) p->inputs[i] = arrays_array_named(&p->file, "x");
        if (!p->inputs[i])
            return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no array %.60s for the program's input%s",
                                source, v->name, f->param_count == 1 ? ", and no x" : "");
        PROPANE_TRY(arrays_check_array(source, v->name, p->inputs[i], &v->type, !mil_dtype_is_float(v->type.dtype),
                                       p->y->dim[0], err));
    }
    return PROPANE_OK;
}

/* ---- samples -------------------------------------------------------------------------------------------------------------- */

static void arrays_copy_floats(const npy *a, int64_t sample, float *to) {
    const int64_t count = a->count / a->dim[0];
    for (int64_t i = 0; i < count; i++) to[i] = (float)npy_element(a, sample * count + i);
}

static void arrays_copy_whole(const npy *a, int64_t sample, int32_t *to) {
    const int64_t count = a->count / a->dim[0];
    for (int64_t i = 0; i < count; i++) {
        const double v = npy_element(a, sample * count + i);
        to[i] = v >= 2147483647.0 ? INT32_MAX : v <= -2147483648.0 ? INT32_MIN : (int32_t)v;
    }
}

static propane_status arrays_get(void *context, int which, int64_t index, const sample_room *out, propane_error *err) {
    const arrays *a = context;
    const imported_model *m = a->model;
    const part *p = &a->parts[a->split ? 0 : which];
    (void)err;
    if (a->split && a->source.count[1])
        index = sample_split(index + (which ? a->source.count[0] : 0), a->source.count[0] + a->source.count[1]);
    for (int i = 0; i < m->base->param_count; i++)
        if (mil_dtype_is_float(m->base->params[i]->type.dtype))
            arrays_copy_floats(p->inputs[i], index, out->inputs[i]);
        else
            arrays_copy_whole(p->inputs[i], index, out->inputs[i]);
    if (m->loss == IMPORTED_MSE)
        arrays_copy_floats(p->y, index, out->values);
    else
        arrays_copy_whole(p->y, index, out->labels);
    return PROPANE_OK;
}

static uint64_t arrays_sum_of(const part *p, const imported_model *m) {
    uint64_t sum = 0;
    for (int i = -1; i < m->base->param_count; i++) {
        const npy *a = i < 0 ? p->y : p->inputs[i];
        const size_t bytes = (size_t)a->count * (size_t)a->size;
        for (size_t k = 0; k < bytes; k++) {
            sum = (sum ^ ((const unsigned char *)a->data)[k]) * 0x9e3779b97f4a7c15u;
            sum ^= sum >> 32;
        }
    }
    return sum;
}

/* ---- opening -------------------------------------------------------------------------------------------------------------- */

/* Opens PATH/NAME.npz or the folder PATH/NAME, and sets *found to whether one of them exists. */
static propane_status arrays_open_part(arrays *a, const char *path, const char *name, part *p, bool *found,
                                       propane_error *err) {
    text archive = {0}, folder = {0}, y = {0};
    text_printf(&archive, *name ? "%s/%s.npz" : "%s", path, name);
    text_printf(&folder, *name ? "%s/%s" : "%s", path, name);
    text_printf(&y, "%s/y.npy", folder.data ? folder.data : "");
    propane_status status = archive.failed || folder.failed || y.failed ? propane_fail_memory(err, 0) : PROPANE_OK;
    const char *source = NULL;
    if (!status && arrays_is_archive(archive.data) && file_exists(archive.data)) {
        source = archive.data;
        status = npz_read(source, &p->file, err);
    } else if (!status && file_exists(y.data)) {
        source = folder.data;
        status = arrays_read_folder(a->model, source, &p->file, err);
    }
    *found = source != NULL;
    if (!status && source) status = arrays_check_part(a->model, p, source, err);
    text_deinit(&archive);
    text_deinit(&folder);
    text_deinit(&y);
    return status;
}

static propane_status arrays_check_inputs(const imported_model *m, propane_error *err) {
    if (m->base->param_count <= 64) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT, "%d inputs; the maximum is 64", m->base->param_count);
}

/* Counts the samples in each part, after the parts are open. */
static void arrays_count_samples(arrays *a, double held_out, bool second) {
    const int64_t count = a->parts[0].y->dim[0];
    a->split = !second && a->split;
    a->source.count[1] = a->split ? sample_held_count(held_out, count) : second ? a->parts[1].y->dim[0] : 0;
    a->source.count[0] = a->split ? count - a->source.count[1] : count;
    a->source.sum = arrays_sum_of(&a->parts[0], a->model);
}

static propane_status arrays_open_all(arrays *a, const char *path, double held_out, propane_error *err) {
    bool found, second;
    PROPANE_TRY(arrays_check_inputs(a->model, err));
    PROPANE_TRY(arrays_open_part(a, path, "train", &a->parts[0], &found, err));
    if (found) {
        PROPANE_TRY(arrays_open_part(a, path, "val", &a->parts[1], &second, err));
    } else {
        a->split = true;
        second = false;
        PROPANE_TRY(arrays_open_part(a, path, "data", &a->parts[0], &found, err));
        if (!found) PROPANE_TRY(arrays_open_part(a, path, "", &a->parts[0], &found, err));
    }
    if (!found)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: there is no y.npy (the expected outputs) next to the other arrays", path);
    arrays_count_samples(a, held_out, second);
    return PROPANE_OK;
}

static propane_status arrays_take_all(arrays *a, double held_out, propane_error *err) {
    const bool second = a->parts[1].file.count > 0;
    PROPANE_TRY(arrays_check_inputs(a->model, err));
    PROPANE_TRY(arrays_check_part(a->model, &a->parts[0], "the data", err));
    if (second) PROPANE_TRY(arrays_check_part(a->model, &a->parts[1], "the validation data", err));
    a->split = !second;
    arrays_count_samples(a, held_out, second);
    return PROPANE_OK;
}

static arrays *arrays_make(imported_model *m) {
    arrays *a = mem_alloc(sizeof *a);
    if (!a) return NULL;
    a->model = m;
    a->source = (sample_source){.context = a, .get = arrays_get};
    return a;
}

static propane_status arrays_give(arrays *a, propane_status status, arrays **out) {
    if (status)
        arrays_close(a);
    else
        *out = a;
    return status;
}

propane_status arrays_open(const char *path, imported_model *m, double held_out, arrays **out, propane_error *err) {
    arrays *a = arrays_make(m);
    *out = NULL;
    return a ? arrays_give(a, arrays_open_all(a, path, held_out, err), out) : propane_fail_memory(err, sizeof *a);
}

static void arrays_forget_borrowed(npz *z) {
    for (int i = 0; i < z->count; i++) z->arrays[i].data = NULL;
}

propane_status arrays_take(npz parts[2], imported_model *m, double held_out, arrays **out, propane_error *err) {
    arrays *a = arrays_make(m);
    *out = NULL;
    for (int i = 0; i < 2; i++) {
        if (a)
            a->parts[i].file = parts[i];
        else
            arrays_forget_borrowed(&parts[i]), npz_free(&parts[i]);
        parts[i] = (npz){0};
    }
    if (!a) return propane_fail_memory(err, sizeof *a);
    a->borrowed = true;
    return arrays_give(a, arrays_take_all(a, held_out, err), out);
}

void arrays_close(arrays *a) {
    if (!a) return;
    for (int i = 0; i < 2; i++) {
        if (a->borrowed) arrays_forget_borrowed(&a->parts[i].file);
        npz_free(&a->parts[i].file);
    }
    mem_free(a);
}
