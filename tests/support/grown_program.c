/* SPDX-License-Identifier: MIT
 * Owns the generator of grown_program.h: a pool of float values, starting with the operation's results.
 */
#include "support/grown_program.h"

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "support/test.h"

enum { POOL = 24, MOST = 3000 /* the most elements in a value that others are made from */ };

typedef struct grower {
    rng r;
    mil_builder *b;
    mil_value *pool[POOL];
    int count;
} grower;

static int below(grower *g, int n) { return (int)rng_below(&g->r, (uint64_t)n); }

/* ---- before the operation ----------------------------------------------------------------------------------------------- */

static bool is_plain(const mil_type *t) { return t->container == MIL_TENSOR && t->rank > 0 && t->rank < 5; }

/* Concatenates the value with itself and takes the first half. */
static mil_value *half_of_pair(grower *g, mil_value *x) {
    const int axis = below(g, x->type.rank);
    int64_t begin[MIL_MAX_RANK] = {0};
    mil_value *both[2] = {x, x};
    return mil_build_slice(g->b, mil_build_concat(g->b, both, 2, axis), begin, x->type.dim);
}

static mil_value *there_and_back(grower *g, mil_value *x) {
    const int rank = x->type.rank, by = 1 + below(g, rank);
    int64_t there[MIL_MAX_RANK], back[MIL_MAX_RANK];
    for (int d = 0; d < rank; d++) there[d] = (d + by) % rank;
    for (int d = 0; d < rank; d++) back[there[d]] = d;
    x = mil_build_transpose(g->b, x, there, rank);
    if (x && below(g, 2) && mil_dtype_is_float(x->type.dtype))
        x = mil_build_binary_scalar(g->b, MIL_OP_mul, mil_build_binary_scalar(g->b, MIL_OP_mul, x, -2), -0.5);
    return x ? mil_build_transpose(g->b, x, back, rank) : NULL;
}

static mil_value *before(mil_builder *b, const char *name, mil_type type, void *context) {
    grower *g = context;
    g->b = b;
    const int64_t count = mil_type_count(&type);
    const bool real = type.dtype == MIL_fp32 || type.dtype == MIL_fp16;
    if (!is_plain(&type) || !count || count > MOST || !(real || type.dtype == MIL_int32))
        return mil_build_param(b, name, type);
    switch (below(g, real ? 6 : 4)) {
    case 0: {
        const mil_type flat = mil_type_tensor(type.dtype, 1, &count);
        return mil_build_reshape(b, mil_build_param(b, name, flat), type.dim, type.rank);
    }
    case 1: return half_of_pair(g, mil_build_param(b, name, type));
    case 2: return there_and_back(g, mil_build_param(b, name, type));
    case 3: return mil_build_param(b, name, type);
    default: {
        mil_value *x = mil_build_binary_scalar(b, MIL_OP_mul, mil_build_param(b, name, type), -2);
        return mil_build_binary_scalar(b, MIL_OP_mul, x, -0.5);
    }
    }
}

/* ---- after it ----------------------------------------------------------------------------------------------------------- */

static void keep(grower *g, mil_value *v) {
    if (v && g->count < POOL && mil_type_count(&v->type) <= MOST) g->pool[g->count++] = v;
}

static mil_value *any(grower *g) { return g->pool[below(g, g->count)]; }
static mil_value *calm(grower *g, mil_value *v) { return v ? mil_build_unary(g->b, MIL_OP_tanh, v) : NULL; }

/* Returns another value of that type, or a constant that broadcasts to it. */
static mil_value *partner(grower *g, const mil_value *x) {
    double data[MOST];
    mil_value *y = any(g);
    if (below(g, 2) && mil_type_equal(&x->type, &y->type)) return y;
    mil_type type = x->type;
    for (int d = 0; d < type.rank; d++)
        if (below(g, 2) || mil_type_count(&x->type) > MOST) type.dim[d] = 1;
    for (int64_t i = 0; i < mil_type_count(&type); i++) data[i] = mil_round(type.dtype, rng_normal(&g->r));
    return mil_build_const_f64(g->b, NULL, &type, data);
}

static mil_value *elementwise(grower *g, mil_value *x) {
    static const mil_opcode one[] = {MIL_OP_tanh,     MIL_OP_sigmoid, MIL_OP_silu, MIL_OP_gelu,    MIL_OP_erf,
                                     MIL_OP_softsign, MIL_OP_relu,    MIL_OP_abs,  MIL_OP_softplus};
    static const mil_opcode two[] = {MIL_OP_add, MIL_OP_sub, MIL_OP_mul, MIL_OP_maximum, MIL_OP_minimum};
    if (below(g, 2)) return mil_build_unary(g->b, one[below(g, 9)], x);
    mil_value *y = mil_build_binary(g->b, two[below(g, 5)], x, partner(g, x));
    return below(g, 3) ? y : calm(g, y);
}

static mil_value *reduced(grower *g, mil_value *x) {
    static const mil_opcode codes[] = {MIL_OP_reduce_mean, MIL_OP_reduce_sum, MIL_OP_reduce_max, MIL_OP_reduce_min,
                                       MIL_OP_reduce_sum_square};
    const int64_t axis = below(g, x->type.rank);
    return mil_build_reduce(g->b, codes[below(g, 5)], calm(g, x), &axis, 1, below(g, 2) || x->type.rank == 1);
}

/* Builds x (x - mean) / sqrt(var + 0.01) in basic operations: a norm. */
static mil_value *normed(grower *g, mil_value *x) {
    const int64_t axis = x->type.rank - 1;
    mil_builder *b = g->b;
    x = calm(g, x);
    mil_value *mean = x ? mil_build_reduce(b, MIL_OP_reduce_mean, x, &axis, 1, true) : NULL;
    mil_value *apart = mean ? mil_build_binary(b, MIL_OP_sub, x, mean) : NULL;
    mil_value *square = apart ? mil_build_binary(b, MIL_OP_mul, apart, apart) : NULL;
    mil_value *var = square ? mil_build_reduce(b, MIL_OP_reduce_mean, square, &axis, 1, true) : NULL;
    mil_value *sum = var ? mil_build_binary_scalar(b, MIL_OP_add, var, 0.25) : NULL;
    mil_value *root = sum ? mil_build_unary(b, MIL_OP_sqrt, sum) : NULL;
    return root ? mil_build_binary(b, MIL_OP_real_div, apart, root) : NULL;
}

static mil_value *moved(grower *g, mil_value *x) {
    const int rank = x->type.rank, axis = below(g, rank);
    int64_t list[MIL_MAX_RANK], begin[MIL_MAX_RANK] = {0};
    mil_value *both[2] = {x, x};
    switch (below(g, 4)) {
    case 0:
        for (int d = 0; d < rank; d++) list[d] = (d + axis) % rank;
        return mil_build_transpose(g->b, x, list, rank);
    case 1: list[0] = 1, list[1] = mil_type_count(&x->type); return mil_build_reshape(g->b, x, list, 2);
    case 2:
        memcpy(list, x->type.dim, sizeof list);
        begin[axis] = list[axis] > 2;
        list[axis] -= begin[axis];
        return mil_build_slice(g->b, x, begin, list);
    default: return mil_build_concat(g->b, both, 2, axis);
    }
}

static mil_value *product(grower *g, mil_value *x) {
    const int rank = x->type.rank;
    if (rank < 2 || x->type.dim[rank - 2] > 64 || x->type.dim[rank - 1] > 64) return calm(g, x);
    const bool first = below(g, 2);
    x = calm(g, x);
    mil_value *y = x ? mil_build_matmul(g->b, x, x, first, !first) : NULL;
    if (!y) return NULL;
    if (below(g, 2)) y = mil_build_binary(g->b, MIL_OP_add, y, partner(g, y));
    return y && below(g, 2) ? mil_build_unary(g->b, below(g, 2) ? MIL_OP_relu : MIL_OP_silu, y) : y;
}

static mil_value *next(grower *g) {
    mil_value *x = any(g);
    switch (below(g, 9)) {
    case 0: return reduced(g, x);
    case 1: return product(g, x);
    case 2: return normed(g, x);
    case 3: return moved(g, x);
    case 4: return mil_build_softmax(g->b, x, below(g, x->type.rank));
    case 5: return mil_build_cast(g->b, x, x->type.dtype == MIL_fp32 ? MIL_fp16 : MIL_fp32);
    default: return elementwise(g, x);
    }
}

/* Returns a value that others can be made from: a float tensor with an axis, or small integers converted to one. */
static mil_value *as_float(grower *g, mil_value *v) {
    const mil_dtype d = v->type.dtype;
    if (!is_plain(&v->type) || !mil_type_count(&v->type)) return NULL;
    if (d == MIL_fp32 || d == MIL_fp16) return v;
    return d == MIL_bool ? mil_build_cast(g->b, v, MIL_fp32) : NULL;
}

static void after(mil_builder *b, const mil_op *op, void *context) {
    grower *g = context;
    g->b = b;
    for (int k = 0; k < op->result_count; k++) keep(g, as_float(g, op->results[k]));
    const int steps = g->count ? below(g, 9) : 0, made = g->count;
    for (int i = 0; i < steps && !b->err.status; i++) keep(g, next(g));
    const bool grown = g->count > made;
    for (int k = 0; k < op->result_count; k++)
        if (!grown || below(g, 4)) mil_build_result(b, op->results[k]);
    for (int i = made; i < g->count && !b->err.status; i++)
        if (i == g->count - 1 || below(g, 4) == 0) mil_build_result(b, g->pool[i]);
}

op_case *grown_program(uint64_t seed, propane_error *err) {
    static op_case_row *rows; /* made once per process */
    static int count, first[MIL_OP_COUNT + 1], code_count;
    if (!rows) {
        count = op_cases_list(OP_CASES_ALL, NULL, 0);
        rows = mem_array((size_t)count, sizeof *rows);
        ck_assert(rows != NULL);
        op_cases_list(OP_CASES_ALL, rows, count);
        for (int i = 0; i < count; i++)
            if (i == 0 || rows[i].code != rows[i - 1].code) first[code_count++] = i;
        first[code_count] = count;
    }
    grower g = {.count = 0};
    rng_init(&g.r, seed);
    /* All rows in turn; callers use every fifth seed for another generator. */
    const int which = (int)((seed - seed / 5) % (uint64_t)code_count);
    const op_case_row *row = &rows[first[which] + below(&g, first[which + 1] - first[which])];
    return op_case_make_grown(row->code, row->dtype, row->line, seed,
                              &(op_case_growth){.before = before, .after = after, .context = &g}, err);
}
