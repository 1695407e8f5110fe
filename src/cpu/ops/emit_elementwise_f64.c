/* SPDX-License-Identifier: MIT
 * Emits elementwise operations that fused loops do not support: the inverse and hyperbolic functions, quantize and
 * dequantize, and arithmetic, comparisons, selections and casts of integers. A task computes one stretch of the result
 * in doubles, which hold every int32.
 */
#include <math.h>
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/plan/emit.h"

enum { STRETCH = 256, OPERANDS = 3 };

typedef struct scalar_args scalar_args;
/* `x` are lines of the operands; the result is written to `y`. */
typedef void (*scalar_kernel)(const scalar_args *a, double *y, double *const *x, int64_t at, int64_t count);

struct scalar_args {
    scalar_kernel kernel;
    int operands, rank;
    /* Shape of the result, and the operands' strides over it. */
    int64_t count, dim[MIL_MAX_RANK], stride[OPERANDS][MIL_MAX_RANK];
    mil_dtype dtype[OPERANDS], out_type;
    int64_t inner, size;
    double *scale, *zero; /* quantize: one, or one per element of the axis */
    cpu_ref x[OPERANDS], y;
};

#define EACH(name, expression)                                                                                         \
    static void name(const scalar_args *a, double *y, double *const *x, int64_t at, int64_t count) {                   \
        (void)a;                                                                                                       \
        (void)at;                                                                                                      \
        for (int64_t i = 0; i < count; i++) y[i] = (expression);                                                       \
    }

/* These use the functions for fp32, whose results are rounded to fp32. */
EACH(map_tan, (double)tanf((float)x[0][i]))
EACH(map_asin, (double)asinf((float)x[0][i]))
EACH(map_acos, (double)acosf((float)x[0][i]))
EACH(map_atan, (double)atanf((float)x[0][i]))
EACH(map_sinh, (double)sinhf((float)x[0][i]))
EACH(map_cosh, (double)coshf((float)x[0][i]))
EACH(map_atanh, (double)atanhf((float)x[0][i]))

/* ---- integers ---------------------------------------------------------------------------------------------------- */

/* Exact for every int32. Division by zero matches the slow reference: the value is out of range and is clamped. */
static double emit_f64_floor_quotient(double x, double y) {
    if (y == 0.0) return x / y;
    const double q = x / y, whole = (double)(int64_t)q;
    return whole > q ? whole - 1.0 : whole;
}

EACH(map_copy, x[0][i])
EACH(map_add, x[0][i] + x[1][i])
EACH(map_sub, x[0][i] - x[1][i])
EACH(map_mul, x[0][i] * x[1][i])
EACH(map_div, x[0][i] / x[1][i])
EACH(map_floor_div, emit_f64_floor_quotient(x[0][i], x[1][i]))
EACH(map_mod, x[1][i] == 0.0 ? 0.0 : x[0][i] - x[1][i] * emit_f64_floor_quotient(x[0][i], x[1][i]))
EACH(map_pow, pow(x[0][i], x[1][i]))
EACH(map_max, x[0][i] > x[1][i] ? x[0][i] : x[1][i])
EACH(map_min, x[0][i] < x[1][i] ? x[0][i] : x[1][i])
EACH(map_eq, x[0][i] == x[1][i])
EACH(map_ne, x[0][i] != x[1][i])
EACH(map_lt, x[0][i] < x[1][i])
EACH(map_le, x[0][i] <= x[1][i])
EACH(map_gt, x[0][i] > x[1][i])
EACH(map_ge, x[0][i] >= x[1][i])
EACH(elementwise_select, x[0][i] != 0.0 ? x[1][i] : x[2][i])
EACH(map_abs, fabs(x[0][i]))
EACH(map_sign, (double)((x[0][i] > 0.0) - (x[0][i] < 0.0)))
EACH(map_square, x[0][i] * x[0][i])

/* ---- quantisation ------------------------------------------------------------------------------------------------ */

static void emit_f64_map_quantize(const scalar_args *a, double *y, double *const *x, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = a->size > 1 ? (at + i) / a->inner % a->size : 0;
        y[i] = nearbyint(x[0][i] / a->scale[k]) + a->zero[k];
    }
}

static void emit_f64_map_dequantize(const scalar_args *a, double *y, double *const *x, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = a->size > 1 ? (at + i) / a->inner % a->size : 0;
        y[i] = a->scale[k] * (x[0][i] - a->zero[k]);
    }
}

static const struct {
    mil_opcode code;
    scalar_kernel kernel;
    const char *operands[OPERANDS];
} kernels[] = {
    {MIL_OP_tan, map_tan, {"x"}},
    {MIL_OP_asin, map_asin, {"x"}},
    {MIL_OP_acos, map_acos, {"x"}},
    {MIL_OP_atan, map_atan, {"x"}},
    {MIL_OP_sinh, map_sinh, {"x"}},
    {MIL_OP_cosh, map_cosh, {"x"}},
    {MIL_OP_atanh, map_atanh, {"x"}},
    {MIL_OP_quantize, emit_f64_map_quantize, {"input"}},
    {MIL_OP_dequantize, emit_f64_map_dequantize, {"input"}},
    {MIL_OP_cast, map_copy, {"x"}},
    {MIL_OP_add, map_add, {"x", "y"}},
    {MIL_OP_sub, map_sub, {"x", "y"}},
    {MIL_OP_mul, map_mul, {"x", "y"}},
    {MIL_OP_real_div, map_div, {"x", "y"}},
    {MIL_OP_floor_div, map_floor_div, {"x", "y"}},
    {MIL_OP_mod, map_mod, {"x", "y"}},
    {MIL_OP_pow, map_pow, {"x", "y"}},
    {MIL_OP_maximum, map_max, {"x", "y"}},
    {MIL_OP_minimum, map_min, {"x", "y"}},
    {MIL_OP_equal, map_eq, {"x", "y"}},
    {MIL_OP_not_equal, map_ne, {"x", "y"}},
    {MIL_OP_less, map_lt, {"x", "y"}},
    {MIL_OP_less_equal, map_le, {"x", "y"}},
    {MIL_OP_greater, map_gt, {"x", "y"}},
    {MIL_OP_greater_equal, map_ge, {"x", "y"}},
    {MIL_OP_select, elementwise_select, {"cond", "a", "b"}},
    {MIL_OP_abs, map_abs, {"x"}},
    {MIL_OP_sign, map_sign, {"x"}},
    {MIL_OP_square, map_square, {"x"}},
};

static int emit_f64_kernel_of(const mil_op *op) {
    for (int k = 0; k < (int)(sizeof kernels / sizeof kernels[0]); k++)
        if (kernels[k].code == op->info->code) return k;
    return -1;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct scalar_call {
    const scalar_args *a;
    const void *x[OPERANDS];
    void *y;
} scalar_call;

/* Computes elements first .. last-1 of the result, split where a line ends. */
static void emit_f64_map_stretch(const void *context, int64_t first, int64_t last, int worker) {
    const scalar_call *c = context;
    const scalar_args *a = c->a;
    const int64_t width = a->dim[a->rank - 1];
    double memory[OPERANDS][STRETCH], y[STRETCH], *x[OPERANDS];
    (void)worker;
    for (int k = 0; k < OPERANDS; k++) x[k] = memory[k];
    for (int64_t at = first, count; at < last; at += count) {
        const int64_t column = at % width;
        count = last - at < STRETCH ? last - at : STRETCH;
        if (count > width - column) count = width - column;
        for (int k = 0; k < a->operands; k++) {
            int64_t from = column * a->stride[k][a->rank - 1], rest = at / width;
            for (int d = a->rank - 2; d >= 0; d--) {
                from += rest % a->dim[d] * a->stride[k][d];
                rest /= a->dim[d];
            }
            cpu_dense_load(x[k], a->dtype[k], c->x[k], from, a->stride[k][a->rank - 1], count);
        }
        a->kernel(a, y, x, at, count);
        cpu_dense_store(c->y, a->out_type, at, 1, y, count);
    }
}

static propane_status emit_f64_scalar_run(const cpu_run *run, const void *args, propane_error *err) {
    const scalar_args *a = args;
    scalar_call c = {.a = a, .y = cpu_ref_at(run, a->y)};
    (void)err;
    for (int k = 0; k < a->operands; k++) c.x[k] = cpu_ref_at(run, a->x[k]);
    cpu_dense_each(run, a->count, 8192, emit_f64_map_stretch, &c);
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Merges adjacent dimensions that are contiguous in every operand, for longer lines. */
static void emit_f64_collapse(scalar_args *a) {
    int rank = 0;
    for (int d = 0; d < a->rank; d++) {
        bool joins = rank > 0;
        if (a->dim[d] == 1) continue;
        for (int k = 0; k < a->operands && joins; k++) joins = a->stride[k][rank - 1] == a->stride[k][d] * a->dim[d];
        if (!joins) rank++;
        a->dim[rank - 1] = joins ? a->dim[rank - 1] * a->dim[d] : a->dim[d];
        for (int k = 0; k < a->operands; k++) a->stride[k][rank - 1] = a->stride[k][d];
    }
    a->rank = rank;
}

static propane_status emit_f64_read_numbers(planner *p, const mil_op *op, const char *param, int64_t size,
                                            double standard, double **out, propane_error *err) {
    const mil_value *v = mil_in(op, param);
    *out = ARENA_ARRAY(p->arena, size, double);
    if (!*out) return cpu_program_no_memory(err);
    for (int64_t i = 0; i < size; i++) (*out)[i] = v ? mil_const_f64(v->constant, v->type.rank ? i : 0) : standard;
    return PROPANE_OK;
}

static propane_status emit_f64_read_quantisation(planner *p, const mil_op *op, scalar_args *a, propane_error *err) {
    const mil_type *x = &mil_in(op, "input")->type;
    a->inner = a->size = 1;
    if (mil_in(op, "axis")) {
        int axis = 0;
        PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &axis, err));
        a->size = x->dim[axis];
        for (int d = axis + 1; d < x->rank; d++) a->inner *= x->dim[d];
    }
    PROPANE_TRY(emit_f64_read_numbers(p, op, "scale", a->size, 1, &a->scale, err));
    return emit_f64_read_numbers(p, op, "zero_point", a->size, 0, &a->zero, err);
}

static propane_status emit_scalar(planner *p, const mil_op *op, propane_error *err) {
    scalar_args *a = ARENA_NEW(p->arena, scalar_args);
    const mil_type *type = &op->results[0]->type;
    const int k = emit_f64_kernel_of(op);
    const char *names[OPERANDS + 1] = {NULL};
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    a->kernel = kernels[k].kernel;
    while (a->operands < OPERANDS && kernels[k].operands[a->operands]) {
        names[a->operands] = kernels[k].operands[a->operands];
        a->operands++;
    }
    if (op->info->code == MIL_OP_quantize || op->info->code == MIL_OP_dequantize)
        PROPANE_TRY(emit_f64_read_quantisation(p, op, a, err));
    PROPANE_TRY(cpu_emit_begin(p, op, names, &d, err));
    a->rank = type->rank;
    memcpy(a->dim, type->dim, sizeof a->dim);
    a->count = mil_type_count(type);
    for (int i = 0; i < a->operands; i++) {
        cpu_view_spread(&d.in[i], type->rank, type->dim, a->stride[i]);
        a->dtype[i] = d.in[i].dtype;
        a->x[i] = cpu_view_ref(&d.in[i]);
    }
    a->out_type = d.out[0].dtype;
    a->y = cpu_view_ref(&d.out[0]);
    emit_f64_collapse(a);
    if (!a->rank) a->rank = 1, a->dim[0] = 1; /* a scalar */
    return cpu_emit_end(p, op, &d, emit_f64_scalar_run, a, op->info->name, 0, err);
}

static bool emit_f64_has_numbers(const mil_op *op, const char *param) {
    const mil_value *v = mil_in(op, param);
    return !v || (v->constant && v->constant->data);
}

static bool emit_f64_takes_scalar(const mil_op *op) {
    const int k = emit_f64_kernel_of(op);
    if (k < 0 || op->result_count != 1 || mil_dtype_get(op->results[0]->type.dtype)->bits < 8) return false;
    for (int i = 0; i < OPERANDS && kernels[k].operands[i]; i++)
        if (mil_dtype_get(mil_in(op, kernels[k].operands[i])->type.dtype)->bits < 8) return false;
    return op->info->code != MIL_OP_quantize && op->info->code != MIL_OP_dequantize
               ? true
               : emit_f64_has_numbers(op, "scale") && emit_f64_has_numbers(op, "zero_point");
}

const cpu_emitter cpu_emitter_scalar = {.emit = emit_scalar, .takes = emit_f64_takes_scalar};
