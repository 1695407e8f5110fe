/* SPDX-License-Identifier: MIT
 * Emits local_response_norm. The squares of adjacent channels are summed in a window that slides over the channels. A
 * task handles a stretch of elements in one image. This file also emits random_categorical. Its numbers are drawn in
 * the order of the slow reference; then each row looks up its own numbers.
 */
#include <math.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/plan/emit.h"

enum { STRETCH = 64 };

typedef struct response_args {
    int64_t images, channels, inner, size;
    double alpha, beta, k;
    mil_dtype dtype;
    cpu_ref x, y;
} response_args;

typedef struct response_call {
    const response_args *a;
    const void *x;
    void *y;
} response_call;

/* Computes one stretch of all channels. Each window is summed from scratch, so that rounding errors do not
 * accumulate. */
static void emit_lrn_response_stretch(const response_call *c, int64_t image, int64_t first, int64_t count) {
    const response_args *a = c->a;
    const int64_t base = image * a->channels * a->inner + first;
    double line[STRETCH], sum[STRETCH];
    for (int64_t channel = 0; channel < a->channels; channel++) {
        const int64_t low = channel < a->size / 2 ? 0 : channel - a->size / 2;
        const int64_t high = channel + (a->size - 1) / 2 < a->channels ? channel + (a->size - 1) / 2 : a->channels - 1;
        memset(sum, 0, sizeof sum);
        for (int64_t j = low; j <= high; j++) {
            cpu_dense_load(line, a->dtype, c->x, base + j * a->inner, 1, count);
            for (int64_t i = 0; i < count; i++) sum[i] += line[i] * line[i];
        }
        cpu_dense_load(line, a->dtype, c->x, base + channel * a->inner, 1, count);
        for (int64_t i = 0; i < count; i++) {
            const double under = a->k + a->alpha / (double)a->size * sum[i];
            if (a->beta == 0.75) /* the value that networks use: two roots instead of a power */
                line[i] /= sqrt(under) * sqrt(sqrt(under));
            else
                line[i] /= pow(under, a->beta);
        }
        cpu_dense_store(c->y, a->dtype, base + channel * a->inner, 1, line, count);
    }
}

static void emit_lrn_response_part(const void *context, int64_t first, int64_t last, int worker) {
    const response_call *c = context;
    const int64_t each = (c->a->inner + STRETCH - 1) / STRETCH;
    (void)worker;
    for (int64_t t = first; t < last; t++) {
        const int64_t begin = t % each * STRETCH, left = c->a->inner - begin;
        emit_lrn_response_stretch(c, t / each, begin, left < STRETCH ? left : STRETCH);
    }
}

static propane_status emit_lrn_response_run(const cpu_run *run, const void *args, propane_error *err) {
    const response_args *a = args;
    const response_call c = {a, cpu_ref_at(run, a->x), cpu_ref_at(run, a->y)};
    (void)err;
    cpu_dense_each(run, a->images * ((a->inner + STRETCH - 1) / STRETCH),
                   cpu_dense_part(STRETCH * a->channels * a->size), emit_lrn_response_part, &c);
    return PROPANE_OK;
}

static propane_status emit_response(planner *p, const mil_op *op, propane_error *err) {
    static const char *const names[] = {"x", NULL};
    const mil_type *x = &mil_in(op, "x")->type;
    response_args *a = ARENA_NEW(p->arena, response_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_attr_int(op, "size", &a->size, err));
    PROPANE_TRY(mil_attr_float(op, "alpha", &a->alpha, err));
    PROPANE_TRY(mil_attr_float(op, "beta", &a->beta, err));
    PROPANE_TRY(mil_attr_float(op, "k", &a->k, err));
    PROPANE_TRY(cpu_emit_begin(p, op, names, &d, err));
    a->images = x->dim[0], a->channels = x->dim[1], a->inner = 1;
    for (int i = 2; i < x->rank; i++) a->inner *= x->dim[i];
    a->dtype = x->dtype;
    a->x = cpu_view_ref(&d.in[0]);
    a->y = cpu_view_ref(&d.out[0]);
    return cpu_emit_end(p, op, &d, emit_lrn_response_run, a, op->info->name, 20.0 * (double)mil_type_count(x), err);
}

const cpu_emitter cpu_emitter_response = {.emit = emit_response};

/* ---- random_categorical ------------------------------------------------------------------------------------------ */

typedef struct draw_args {
    int64_t rows, classes, size, seed;
    bool logits;
    mil_dtype dtype, out_type;
    cpu_ref x, y, numbers, sums; /* sums: the cumulative row of each worker */
} draw_args;

typedef struct draw_call {
    const draw_args *a;
    const void *x;
    void *y;
    const double *numbers;
    double *sums;
} draw_call;

/* Returns the first category whose cumulative weight is above the number, by bisection of the non-decreasing sums. */
static double emit_lrn_category(const double *sums, int64_t classes, double at) {
    int64_t low = 0, high = classes - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (at < sums[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return (double)low;
}

static void emit_lrn_draw_rows(const void *context, int64_t first, int64_t last, int worker) {
    const draw_call *c = context;
    const draw_args *a = c->a;
    double *sums = c->sums + worker * a->classes;
    for (int64_t row = first; row < last; row++) {
        double top = -INFINITY, total = 0.0;
        cpu_dense_load(sums, a->dtype, c->x, row * a->classes, 1, a->classes);
        for (int64_t k = 0; k < a->classes; k++) top = sums[k] > top ? sums[k] : top;
        for (int64_t k = 0; k < a->classes; k++) sums[k] = total += a->logits ? exp(sums[k] - top) : sums[k];
        for (int64_t s = 0; s < a->size; s++) {
            const double y = emit_lrn_category(sums, a->classes, c->numbers[row * a->size + s] * total);
            cpu_dense_store(c->y, a->out_type, row * a->size + s, 1, &y, 1);
        }
    }
}

static propane_status emit_lrn_draw_run(const cpu_run *run, const void *args, propane_error *err) {
    const draw_args *a = args;
    double *numbers = cpu_ref_at(run, a->numbers);
    const draw_call c = {a, cpu_ref_at(run, a->x), cpu_ref_at(run, a->y), numbers, cpu_ref_at(run, a->sums)};
    rng r;
    (void)err;
    rng_init(&r, (uint64_t)a->seed);
    for (int64_t i = 0; i < a->rows * a->size; i++) numbers[i] = rng_unit(&r);
    cpu_dense_each(run, a->rows, cpu_dense_part(a->classes * 8), emit_lrn_draw_rows, &c);
    return PROPANE_OK;
}

static propane_status emit_draw(planner *p, const mil_op *op, propane_error *err) {
    static const char *const names[] = {"x", NULL};
    const mil_type *x = &mil_in(op, "x")->type, *y = &op->results[0]->type;
    draw_args *a = ARENA_NEW(p->arena, draw_args);
    const char *mode = NULL;
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_attr_int(op, "seed", &a->seed, err));
    PROPANE_TRY(mil_attr_text(op, "mode", &mode, err));
    PROPANE_TRY(cpu_emit_begin(p, op, names, &d, err));
    a->logits = !strcmp(mode, "logits");
    a->size = y->dim[y->rank - 1];
    a->classes = x->dim[x->rank - 1];
    a->rows = mil_type_count(x) / a->classes;
    a->dtype = x->dtype, a->out_type = y->dtype;
    a->x = cpu_view_ref(&d.in[0]);
    a->y = cpu_view_ref(&d.out[0]);
    PROPANE_TRY(cpu_emit_scratch(p, a->rows * a->size * (int64_t)sizeof(double), &a->numbers, err));
    PROPANE_TRY(cpu_emit_scratch(p, a->classes * p->threads * (int64_t)sizeof(double), &a->sums, err));
    return cpu_emit_end(p, op, &d, emit_lrn_draw_run, a, op->info->name, 0, err);
}

const cpu_emitter cpu_emitter_draw = {.emit = emit_draw};
