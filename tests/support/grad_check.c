/* SPDX-License-Identifier: MIT
 * Owns the finite differences. With h = 1e-5 their error is about h^2/6 of the third derivative (1e-11) plus 1e-16/h
 * (1e-11) of rounding. Constants of emitted ops are rounded to fp32 (6e-8), which dominates in practice.
 */
#include "support/grad_check.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "core/grad/grad.h"
#include "support/test.h"

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static bool near_kink(const grad_draws *d, double v) {
    static const double kinks[] = {0, 1, -1, 6, -6, 3, -3, 2.5, -2.5};
    for (size_t i = 0; i < sizeof kinks / sizeof kinks[0]; i++)
        if (fabs(v - kinks[i]) < 0.02) return true;
    for (int i = 0; i < d->taken_count; i++)
        if (fabs(v - d->taken[i]) < 0.002) return true;
    return false;
}

static double draw_one(grad_draws *d) {
    rng *r = &d->random;
    double sign = rng_below(r, 2) ? 1 : -1;
    switch (d->draw) {
    case MIL_DRAW_positive: return 0.2 + 2.8 * rng_unit(r);
    case MIL_DRAW_nonzero: return sign * (0.3 + 2.7 * rng_unit(r));
    case MIL_DRAW_unit: return 1.8 * rng_unit(r) - 0.9;
    case MIL_DRAW_apart: {
        double v;
        do v = 7 * (2 * rng_unit(r) - 1);
        while (near_kink(d, v));
        if (d->taken_count < 4096) d->taken[d->taken_count++] = v;
        return v;
    }
    default: return rng_normal(r);
    }
}

void grad_draw(grad_draws *d, const mil_type *type, double *out) {
    int64_t count = mil_type_count(type);
    for (int64_t i = 0; i < count; i++) {
        if (mil_dtype_is_float(type->dtype))
            out[i] = draw_one(d);
        else if (type->dtype == MIL_bool)
            out[i] = (double)rng_below(&d->random, 2);
        else
            out[i] = (double)rng_below(&d->random, (uint64_t)(d->below > 0 ? d->below : 3));
    }
}

/* ---- the check --------------------------------------------------------------------------------------------------- */

typedef struct loss {
    const mil_function *f;
    const double *const *weights; /* by result */
} loss;

static double loss_of(const loss *l, const mil_tensor *inputs) {
    propane_error err = {0};
    arena *a = arena_create();
    mil_tensor *out = NULL;
    EXPECT_OK(mil_eval_function(l->f, inputs, false, a, &out, &err));
    double sum = 0;
    for (int i = 0; i < l->f->result_count; i++) {
        if (!mil_dtype_is_float(out[i].type.dtype)) continue;
        for (int64_t k = 0; k < mil_type_count(&out[i].type); k++) sum += l->weights[i][k] * out[i].data[k];
    }
    arena_free(a);
    return sum;
}

static double check_param(const loss *l, mil_tensor *inputs, int param, const mil_tensor *gradient, rng *r,
                          double tolerance, const char *what) {
    int64_t count = mil_type_count(&inputs[param].type), tries = count < 60 ? count : 60;
    double worst = 0, largest = 1e-3, *x = inputs[param].data;
    EXPECT_MSG(mil_type_equal(&gradient->type, &inputs[param].type), "%s: d_%s has another type", what,
               l->f->params[param]->name);
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(gradient->data[i]));
    for (int64_t t = 0; t < tries; t++) {
        int64_t i = count <= 60 ? t : (int64_t)rng_below(r, (uint64_t)count);
        double at = x[i], h = 1e-5 * fmax(1, fabs(at));
        x[i] = at + h;
        double high = loss_of(l, inputs);
        x[i] = at - h;
        double low = loss_of(l, inputs);
        x[i] = at;
        double wanted = (high - low) / (2 * h),
               difference = fabs(wanted - gradient->data[i]) / fmax(largest, fabs(wanted));
        EXPECT_MSG(difference <= tolerance,
                   "%s: d_%s[%lld] is %.9g, finite differences give %.9g (%.2g apart, allowed %.2g)", what,
                   l->f->params[param]->name, (long long)i, gradient->data[i], wanted, difference, tolerance);
        worst = fmax(worst, difference);
    }
    return worst;
}

double grad_check(const mil_function *f, const mil_tensor *inputs, uint64_t seed, double tolerance, const char *what) {
    return grad_check_some(f, inputs, NULL, seed, tolerance, what);
}

double grad_check_some(const mil_function *f, const mil_tensor *inputs, const bool *smooth, uint64_t seed,
                       double tolerance, const char *what) {
    propane_error err = {0};
    arena *a = arena_create();
    rng r;
    rng_init(&r, seed);
    char *name = arena_printf(a, "%s_joint", f->name);
    mil_function *joint = NULL;
    propane_status status = grad_function(f, name, NULL, 0, &joint, &err);
    EXPECT_MSG(status == PROPANE_OK, "%s: %s", what, err.text);
    int seeds = 0;
    mil_tensor *in = ARENA_ARRAY(a, joint->param_count + 1, mil_tensor),
               *mine = ARENA_ARRAY(a, f->param_count + 1, mil_tensor);
    double **weights = ARENA_ARRAY(a, f->result_count, double *);
    for (int i = 0; i < f->param_count; i++) {
        in[i] = mine[i] = inputs[i];
        mine[i].data = arena_copy(a, inputs[i].data, (size_t)mil_type_count(&inputs[i].type) * sizeof(double));
    }
    for (int i = 0; i < f->result_count; i++) {
        if (!mil_dtype_is_float(f->results[i]->type.dtype)) continue;
        int64_t count = mil_type_count(&f->results[i]->type);
        weights[i] = ARENA_ARRAY(a, count, double);
        for (int64_t k = 0; k < count; k++) weights[i][k] = rng_normal(&r);
        in[f->param_count + seeds++] = (mil_tensor){f->results[i]->type, weights[i]};
    }
    EXPECT_MSG(joint->param_count == f->param_count + seeds, "%s: %d parameters", what, joint->param_count);
    mil_tensor *out = NULL;
    status = mil_eval_function(joint, in, false, a, &out, &err);
    EXPECT_MSG(status == PROPANE_OK, "%s: %s", what, err.text);
    loss l = {f, (const double *const *)weights};
    double worst = 0;
    int at = f->result_count;
    for (int i = 0; i < f->param_count; i++) {
        if (!mil_dtype_is_float(f->params[i]->type.dtype)) continue;
        at++;
        if (smooth && !smooth[i]) continue;
        double seen = check_param(&l, mine, i, &out[at - 1], &r, tolerance, what);
        worst = fmax(worst, seen);
    }
    EXPECT_MSG(at == joint->result_count, "%s: %d results", what, joint->result_count);
    arena_free(a);
    return worst;
}

double grad_check_drawn(const mil_function *f, mil_draw draw, int below, uint64_t seed, double tolerance,
                        const char *what) {
    arena *a = arena_create();
    grad_draws *d = ARENA_NEW(a, grad_draws);
    mil_tensor *inputs = ARENA_ARRAY(a, f->param_count + 1, mil_tensor);
    rng_init(&d->random, seed);
    d->draw = draw;
    d->below = below;
    for (int i = 0; i < f->param_count; i++) {
        inputs[i].type = f->params[i]->type;
        inputs[i].data = ARENA_ARRAY(a, mil_type_count(&inputs[i].type), double);
        grad_draw(d, &inputs[i].type, inputs[i].data);
    }
    double worst = grad_check(f, inputs, seed + 1, tolerance, what);
    arena_free(a);
    return worst;
}

/* ---- one-op functions -------------------------------------------------------------------------------------------- */

static mil_type read_shape(const char *p, mil_dtype dtype) {
    mil_type type = {.dtype = dtype};
    for (p++; *p != ']';) {
        char *end;
        type.dim[type.rank++] = strtoll(p, &end, 10);
        p = *end == ',' ? end + 1 : end;
    }
    return type;
}

static mil_value *read_list(mil_builder *b, const char *p) {
    int64_t numbers[32];
    unsigned char flags[32];
    int count = 0;
    bool flag = false;
    for (p++; *p && *p != '}'; p += *p == ',') {
        flag = *p == 't' || *p == 'f';
        flags[count] = *p == 't';
        char *end = NULL;
        if (!flag)
            numbers[count] = strtoll(p, &end, 10);
        else
            while (*p != ',' && *p != '}') p++;
        if (!flag) p = end;
        count++;
    }
    if (!flag) return mil_build_ints(b, numbers, count);
    int64_t length = count;
    mil_type type = mil_type_tensor(MIL_bool, 1, &length);
    return mil_build_const(b, NULL, &type, flags);
}

static mil_value *read_constant(mil_builder *b, const char *p) {
    char text[200] = "";
    if (*p == '{') return read_list(b, p);
    if (*p == '\'') {
        size_t length = strcspn(p + 1, "'");
        memcpy(text, p + 1, length);
        return mil_build_text(b, text);
    }
    if (*p == 't' || *p == 'f') return mil_build_bool(b, *p == 't');
    size_t length = strcspn(p, " ");
    memcpy(text, p, length);
    if (strpbrk(text, ".e")) return mil_build_scalar(b, MIL_fp32, atof(text));
    return mil_build_int(b, atoi(text));
}

static mil_value *read_value(mil_builder *b, const char *name, const char *p, int *below, int *taken) {
    static const double scale = 1.0;
    char own[80];
    snprintf(own, sizeof own, "%.40s_%d", name, (*taken)++);
    if (*p == '=') return read_constant(b, p + 1);
    if (*p == '[') return mil_build_param(b, own, read_shape(p, MIL_fp32));
    if (*p == '?') return mil_build_param(b, own, read_shape(p + 1, MIL_bool));
    if (*p == '%') {
        char *end;
        *below = (int)strtol(p + 1, &end, 10);
        return mil_build_param(b, own, read_shape(end, MIL_int32));
    }
    mil_type type = read_shape(p + 1, MIL_fp32); /* # */
    double data[512];
    rng r;
    rng_init(&r, 7);
    for (int64_t i = 0; i < mil_type_count(&type) && i < 512; i++) data[i] = scale * rng_normal(&r);
    return mil_build_const_f64(b, own, &type, data);
}

mil_function *grad_spec(mil_module *m, const char *name, mil_opcode code, const char *spec, int *below) {
    mil_builder b;
    mil_argument arguments[16];
    static char names[16][40];
    static mil_value *values[16][16];
    int count = 0, taken = 0;
    *below = 0;
    mil_build_begin(&b, m, name, MIL_IOS18);
    for (const char *p = spec; *p;) {
        if (*p == ' ') {
            p++;
            continue;
        }
        size_t length = strcspn(p, "[?%#= ");
        int at = 0;
        while (at < count && (strlen(names[at]) != length || strncmp(names[at], p, length) != 0)) at++;
        if (at == count) {
            snprintf(names[count++], sizeof names[0], "%.*s", (int)length, p);
            arguments[at] = (mil_argument){names[at], 0, values[at]};
        }
        values[at][arguments[at].count++] = read_value(&b, names[at], p + length, below, &taken);
        p += length;
        if (*p == '=' && p[1] == '\'') p += 2 + strcspn(p + 2, "'");
        p += strcspn(p, " ");
    }
    mil_op *op = mil_build_op(&b, code, "out", arguments, count);
    for (int i = 0; op && i < op->result_count; i++) mil_build_result(&b, op->results[i]);
    propane_error err = {0};
    propane_status status = mil_build_end(&b, &err);
    EXPECT_MSG(status == PROPANE_OK, "%s \"%s\": %s", name, spec, err.text);
    return b.function;
}
