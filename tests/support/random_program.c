/* SPDX-License-Identifier: MIT
 * Owns the generator of random_program.h: a pool of values of shape [A,B,C] or reductions of it. Each step takes values
 * from the pool and returns its result to it. Growth is damped with tanh, so that finite differences stay accurate.
 */
#include "support/random_program.h"

#include "core/base/rng.h"
#include "support/test.h"

enum { A = 2, B = 3, C = 4, POOL = 200 };

typedef struct maker {
    mil_builder b;
    rng r;
    mil_value *pool[POOL];
    int count;
} maker;

static int below(maker *m, int n) { return (int)rng_below(&m->r, (uint64_t)n); }
static mil_value *any(maker *m) { return m->pool[below(m, m->count)]; }
static void keep(maker *m, mil_value *v) {
    if (v && m->count < POOL) m->pool[m->count++] = v;
}

static bool full(const mil_value *v) {
    return v->type.rank == 3 && v->type.dim[0] == A && v->type.dim[1] == B && v->type.dim[2] == C;
}

/* Returns a value of the full shape: the chosen one, broadcast by a sum if it is smaller. */
static mil_value *whole(maker *m) {
    mil_value *v = any(m);
    return full(v) ? v : mil_build_binary(&m->b, MIL_OP_add, m->pool[0], v);
}

static mil_value *calm(maker *m, mil_value *v) { return mil_build_unary(&m->b, MIL_OP_tanh, v); }

static mil_value *constant(maker *m) {
    double data[A * B * C];
    int64_t dim[] = {below(m, 2) ? A : 1, below(m, 2) ? B : 1, C};
    mil_type type = mil_type_tensor(MIL_fp32, 3, dim);
    for (int64_t i = 0; i < mil_type_count(&type); i++) data[i] = rng_normal(&m->r);
    return mil_build_const_f64(&m->b, NULL, &type, data);
}

static mil_value *unary(maker *m) {
    static const mil_opcode codes[] = {MIL_OP_tanh, MIL_OP_sigmoid, MIL_OP_silu,     MIL_OP_gelu,    MIL_OP_erf,
                                       MIL_OP_sin,  MIL_OP_cos,     MIL_OP_softplus, MIL_OP_identity};
    return mil_build_unary(&m->b, codes[below(m, 9)], any(m));
}

static mil_value *binary(maker *m) {
    static const mil_opcode codes[] = {MIL_OP_add, MIL_OP_sub, MIL_OP_mul};
    mil_value *x = any(m), *y = below(m, 5) ? any(m) : constant(m);
    mil_value *v = mil_build_binary(&m->b, codes[below(m, 3)], x, y);
    if (below(m, 4) == 0) keep(m, mil_build_binary(&m->b, v->def->info->code, x, y)); /* the same operation again */
    return below(m, 3) ? calm(m, v) : v;
}

static mil_value *reduced(maker *m) {
    static const mil_opcode codes[] = {MIL_OP_reduce_sum, MIL_OP_reduce_mean, MIL_OP_reduce_log_sum_exp,
                                       MIL_OP_reduce_sum_square};
    int64_t axes[2] = {below(m, 3), 2};
    int count = axes[0] != 2 && below(m, 2) ? 2 : 1;
    return calm(m, mil_build_reduce(&m->b, codes[below(m, 4)], any(m), axes, count, true));
}

static mil_value *product(maker *m) {
    mil_value *x = calm(m, whole(m)), *y = calm(m, whole(m));
    mil_value *square = mil_build_matmul(&m->b, x, y, false, true); /* [A,B,B] */
    return mil_build_matmul(&m->b, below(m, 2) ? mil_build_softmax(&m->b, square, -1) : square, whole(m), below(m, 2),
                            false);
}

static mil_value *moved(maker *m) {
    mil_builder *b = &m->b;
    mil_value *x = whole(m), *halves[3];
    switch (below(m, 6)) {
    case 0: /* transpose there and back */
        x = mil_build_transpose(b, x, (int64_t[]){2, 0, 1}, 3);
        return mil_build_transpose(b, mil_build_unary(b, below(m, 2) ? MIL_OP_sin : MIL_OP_identity, x),
                                   (int64_t[]){1, 2, 0}, 3);
    case 1:
        x = mil_build_reshape(b, mil_build_reshape(b, x, (int64_t[]){A * B, C}, 2), (int64_t[]){C, B, A}, 3);
        return mil_build_reshape(b, x, (int64_t[]){A, B, C}, 3);
    case 2:
        halves[1] = mil_build_slice(b, x, (int64_t[]){0, 0, 0}, (int64_t[]){A, 1, C});
        halves[0] = mil_build_slice(b, whole(m), (int64_t[]){0, 1, 0}, (int64_t[]){A, 2, C});
        return mil_build_concat(b, halves, 2, 1);
    case 3: return mil_build_cast(b, mil_build_cast(b, x, MIL_fp32), MIL_fp32);
    case 4:
        return mil_build_binary_scalar(b, MIL_OP_mul, mil_build_binary_scalar(b, MIL_OP_add, x, 0),
                                       below(m, 2) ? 1 : 0.5);
    default: return mil_build_softmax(b, x, below(m, 3));
    }
}

/* Builds constants from constants, for folding. */
static mil_value *folded(maker *m) {
    mil_value *k = mil_build_unary(&m->b, MIL_OP_cos, mil_build_binary(&m->b, MIL_OP_add, constant(m), constant(m)));
    return mil_build_binary(&m->b, MIL_OP_mul, any(m), k);
}

mil_function *random_program(mil_module *module, const char *name, uint64_t seed, int ops) {
    maker m = {.count = 0};
    propane_error err = {0};
    rng_init(&m.r, seed);
    mil_build_begin(&m.b, module, name, MIL_IOS18);
    static const int64_t shapes[4][3] = {{A, B, C}, {A, B, C}, {1, B, 1}, {A, 1, C}};
    for (int i = 0; i < 4; i++) {
        char text[16];
        snprintf(text, sizeof text, "p%d", i);
        keep(&m, mil_build_param(&m.b, text, mil_type_tensor(MIL_fp32, 3, shapes[i])));
    }
    while (m.b.function->op_count < ops && !m.b.err.status) {
        switch (below(&m, 6)) {
        case 0: keep(&m, unary(&m)); break;
        case 1: keep(&m, reduced(&m)); break;
        case 2: keep(&m, product(&m)); break;
        case 3: keep(&m, moved(&m)); break;
        case 4: keep(&m, folded(&m)); break;
        default: keep(&m, binary(&m)); break;
        }
    }
    mil_value *last[3] = {mil_build_unary(&m.b, MIL_OP_tanh, m.pool[m.count - 1]), calm(&m, whole(&m)),
                          calm(&m, any(&m))};
    for (int i = 0; i < 1 + (int)(seed % 3); i++) mil_build_result(&m.b, last[i]);
    propane_status status = mil_build_end(&m.b, &err);
    EXPECT_MSG(status == PROPANE_OK, "random program %llu: %s", (unsigned long long)seed, err.text);
    return m.b.function;
}
