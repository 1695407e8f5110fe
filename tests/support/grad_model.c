/* SPDX-License-Identifier: MIT
 * Owns the test layer of grad_model.h. Deliberately written independently of src/lm/arch.
 */
#include "support/grad_model.h"

#include <math.h>

#include "support/test.h"

typedef struct layer {
    mil_builder b;
    grad_model d;
    mil_dtype dtype;
} layer;

static mil_value *param(layer *l, const char *name, int rank, const int64_t *dim) {
    return mil_build_param(&l->b, name, mil_type_tensor(l->dtype, rank, dim));
}

static mil_value *normalise(layer *l, mil_value *x, mil_value *weight) {
    mil_builder *b = &l->b;
    mil_value *small = mil_build_binary_scalar(b, MIL_OP_mul, x, 1.0 / sqrt((double)l->d.width));
    mil_value *square = mil_build_binary(b, MIL_OP_mul, small, small);
    mil_value *sum = mil_build_reduce(b, MIL_OP_reduce_sum, square, (int64_t[]){1}, 1, true);
    mil_value *r = mil_build_binary_scalar(b, MIL_OP_pow, mil_build_binary_scalar(b, MIL_OP_add, sum, 1e-5), -0.5);
    return mil_build_binary(b, MIL_OP_mul, mil_build_binary(b, MIL_OP_mul, x, r), weight);
}

/* Multiplies weight [O,I] by x [B,I,1,S] to [B,1,O,S]. */
static mil_value *project(layer *l, mil_value *weight, mil_value *x, int64_t in) {
    mil_value *flat = mil_build_reshape(&l->b, x, (int64_t[]){l->d.batch, 1, in, l->d.positions}, 4);
    return mil_build_matmul(&l->b, weight, flat, false, false);
}

/* Turns [B,1,n*HD,S] into [B,n,S,HD]. */
static mil_value *heads(layer *l, mil_value *x, int64_t n) {
    x = mil_build_reshape(&l->b, x, (int64_t[]){l->d.batch, n, l->d.head, l->d.positions}, 4);
    return mil_build_transpose(&l->b, x, (int64_t[]){0, 1, 3, 2}, 4);
}

static mil_value *table(layer *l, int what) {
    double data[4096];
    int64_t s = l->d.positions, h = l->d.head, rows = what == 2 ? h : s;
    mil_type type = mil_type_tensor(l->dtype, 4, (int64_t[]){1, 1, rows, h});
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < h; k++) {
            double angle = (double)i * pow(100.0, -2.0 * (double)(k % (h / 2)) / (double)h);
            data[i * h + k] = what == 0 ? cos(angle) : what == 1 ? sin(angle) : 0;
        }
    for (int64_t k = 0; what == 2 && k < h / 2; k++) data[(k + h / 2) * h + k] = -1, data[k * h + k + h / 2] = 1;
    return mil_build_const_f64(&l->b, what == 0 ? "cos" : what == 1 ? "sin" : "turn", &type, data);
}

static mil_value *rotate(layer *l, mil_value *x) {
    mil_builder *b = &l->b;
    mil_value *turned = mil_build_matmul(b, x, table(l, 2), false, false);
    return mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, x, table(l, 0)),
                            mil_build_binary(b, MIL_OP_mul, turned, table(l, 1)));
}

/* Repeats each head of [B,G,S,HD] once per query head that uses it. */
static mil_value *repeat(layer *l, mil_value *x) {
    const grad_model *d = &l->d;
    int64_t times = d->heads / d->groups;
    if (times == 1) return x;
    x = mil_build_reshape(&l->b, x, (int64_t[]){d->batch, d->groups, 1, d->positions, d->head}, 5);
    mil_value *copies[16];
    for (int64_t i = 0; i < times; i++) copies[i] = x;
    x = mil_build_concat(&l->b, copies, (int)times, 2);
    return mil_build_reshape(&l->b, x, (int64_t[]){d->batch, d->heads, d->positions, d->head}, 4);
}

static mil_value *causal(layer *l) {
    double data[4096];
    int64_t s = l->d.positions;
    for (int64_t i = 0; i < s * s; i++) data[i] = i % s <= i / s ? 0 : -1e4;
    mil_type type = mil_type_tensor(l->dtype, 4, (int64_t[]){1, 1, s, s});
    return mil_build_const_f64(&l->b, "mask", &type, data);
}

static mil_value *attention(layer *l, mil_value *x, mil_value *const w[5]) {
    mil_builder *b = &l->b;
    const grad_model *d = &l->d;
    b->stage = "norm";
    mil_value *n = normalise(l, x, w[0]);
    b->stage = "qkv";
    mil_value *q = heads(l, project(l, w[1], n, d->width), d->heads),
              *k = heads(l, project(l, w[2], n, d->width), d->groups);
    mil_value *v = heads(l, project(l, w[3], n, d->width), d->groups);
    b->stage = "rope";
    q = rotate(l, q);
    k = rotate(l, k);
    b->stage = "scores";
    mil_value *scores = mil_build_matmul(b, q, repeat(l, k), false, true);
    scores = mil_build_binary_scalar(b, MIL_OP_mul, scores, 1.0 / sqrt((double)d->head));
    scores = mil_build_binary(b, MIL_OP_add, scores, causal(l));
    b->stage = "softmax";
    mil_value *p = mil_build_softmax(b, scores, -1);
    b->stage = "mix";
    mil_value *mixed =
        mil_build_transpose(b, mil_build_matmul(b, p, repeat(l, v), false, false), (int64_t[]){0, 1, 3, 2}, 4);
    b->stage = "out";
    mil_value *o = project(l, w[4], mixed, d->heads * d->head);
    return mil_build_reshape(b, o, (int64_t[]){d->batch, d->width, 1, d->positions}, 4);
}

static mil_value *feed_forward(layer *l, mil_value *x, mil_value *const w[4]) {
    mil_builder *b = &l->b;
    const grad_model *d = &l->d;
    b->stage = "norm2";
    mil_value *n = normalise(l, x, w[0]);
    b->stage = "up";
    mil_value *gate = project(l, w[1], n, d->width), *up = project(l, w[2], n, d->width);
    b->stage = "act";
    mil_value *g = mil_build_binary(b, MIL_OP_mul, mil_build_unary(b, MIL_OP_silu, gate), up);
    b->stage = "down";
    return mil_build_reshape(b, project(l, w[3], g, d->hidden), (int64_t[]){d->batch, d->width, 1, d->positions}, 4);
}

mil_function *grad_model_build(mil_module *m, const char *name, const grad_model *d, mil_dtype dtype) {
    layer l = {.d = *d, .dtype = dtype};
    propane_error err = {0};
    int64_t q = d->heads * d->head, kv = d->groups * d->head;
    mil_build_begin(&l.b, m, name, MIL_IOS18);
    mil_value *x = param(&l, "x", 4, (int64_t[]){d->batch, d->width, 1, d->positions});
    mil_value *a[5] = {param(&l, "norm1", 4, (int64_t[]){1, d->width, 1, 1}),
                       param(&l, "wq", 2, (int64_t[]){q, d->width}), param(&l, "wk", 2, (int64_t[]){kv, d->width}),
                       param(&l, "wv", 2, (int64_t[]){kv, d->width}), param(&l, "wo", 2, (int64_t[]){d->width, q})};
    mil_value *f[4] = {
        param(&l, "norm2", 4, (int64_t[]){1, d->width, 1, 1}), param(&l, "w1", 2, (int64_t[]){d->hidden, d->width}),
        param(&l, "w3", 2, (int64_t[]){d->hidden, d->width}), param(&l, "w2", 2, (int64_t[]){d->width, d->hidden})};
    mil_value *middle = mil_build_binary(&l.b, MIL_OP_add, x, attention(&l, x, a));
    mil_value *y = mil_build_binary(&l.b, MIL_OP_add, middle, feed_forward(&l, middle, f));
    mil_build_result(&l.b, y);
    EXPECT_OK(mil_build_end(&l.b, &err));
    EXPECT_OK(mil_rename(l.b.function, y, "y", &err));
    return l.b.function;
}
