/* SPDX-License-Identifier: MIT
 * Owns the differences between an engine's arithmetic and the CPU's: tables instead of functions, sums in fp16, and
 * saturation. Matrix products are computed by products.c, or by the cpu driver, which sums fp16 in fp32.
 *
 * The tables are the engine's own (ane/h13/activation.h). Their inputs and outputs are fp16, rounded half away from
 * zero.
 */
#include <math.h>
#include <string.h>

#include "ane/h13/accumulate.h"
#include "ane/h13/activation.h"
#include "ane/sim/sim.h"
#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"

#define HALF_MAX 65504.0f
static float numerics_half(float v) { return fp16_to_f32(fp16_from_f32(v)); }

/* ---- tables ---------------------------------------------------------------------------------------------------------- */

/* Looks up the fp16 value x in a table, and returns an fp16 value. */
static float numerics_by_table(const engine_table *t, float x) {
    const float scale = fp16_to_f32(t->scale), bias = fp16_to_f32(t->bias);
    const float at = accumulate_round((double)(x + bias) * (double)scale);
    return isnan(x) ? x : accumulate_round(engine_table_value(t->half, (double)at));
}

/* Finds the op's table. Returns false if it has none. The table of log computes log2, which numerics_apply multiplies
 * by ln 2. */
static bool numerics_table_of(const mil_op *op, engine_table *out) {
    propane_error err;
    double epsilon;
    if (op->info->code != MIL_OP_log) return engine_table_of(op, out);
    *out = *engine_table_find("log");
    if (mil_attr_float(op, "epsilon", &epsilon, &err)) return false;
    out->bias = fp16_from_f64(epsilon);
    return true;
}

static float numerics_apply(const mil_op *op, const engine_table *t, float x) {
    const float y = numerics_by_table(t, numerics_half(x));
    return op->info->code == MIL_OP_log ? accumulate_round((double)y * 0x1.63p-1) : y; /* ln 2 as fp16 */
}

void sim_tables_build(sim_tables *t) {
    const engine_table *exp = engine_table_find("exp"), *silu = engine_table_find("silu");
    for (int i = 0; i < 65536; i++) {
        t->exp_half[i] = numerics_by_table(exp, fp16_to_f32((uint16_t)i));
        t->silu[i] = fp16_from_f32(numerics_by_table(silu, fp16_to_f32((uint16_t)i)));
    }
}

static bool numerics_in_tables(const mil_op *op) {
    engine_table t;
    return op->info->code == MIL_OP_softmax || numerics_table_of(op, &t);
}

static bool numerics_in_sums(mil_opcode code) {
    return code == MIL_OP_reduce_sum || code == MIL_OP_reduce_mean || code == MIL_OP_reduce_sum_square;
}

bool sim_has_kernel(const sim_numbers *n, const mil_op *op) {
    if (!op->result_count || !mil_dtype_is_float(op->results[0]->type.dtype)) return false;
    return (n->switches->value[SIM_table] && numerics_in_tables(op)) ||
           (n->switches->value[SIM_sums] && numerics_in_sums(op->info->code));
}

bool sim_has_products(const sim_numbers *n, const mil_op *op) {
    const mil_opcode code = op->info->code;
    if (!n->switches->value[SIM_arithmetic]) return false;
    if (code != MIL_OP_conv && code != MIL_OP_linear && code != MIL_OP_matmul) return false;
    const mil_dtype a = mil_in(op, "x")->type.dtype, b = mil_in(op, code == MIL_OP_matmul ? "y" : "weight")->type.dtype;
    return mil_dtype_is_float(a) && mil_dtype_is_float(b) && mil_dtype_is_float(op->results[0]->type.dtype);
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------- */

static propane_status numerics_run_softmax(const sim_numbers *n, const mil_op *op, const float *x, float *y,
                                           propane_error *err) {
    const mil_type *type = &op->results[0]->type;
    int axis;
    PROPANE_TRY(mil_attr_axis(op, "axis", type->rank, &axis, err));
    int64_t inner = 1, length = type->dim[axis], rows = mil_type_count(type);
    for (int d = axis + 1; d < type->rank; d++) inner *= type->dim[d];
    rows /= length;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r / inner * inner * length + r % inner;
        float most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < length; i++) most = fmaxf(most, x[at + i * inner]);
        for (int64_t i = 0; i < length; i++) {
            float e = n->tables->exp_half[fp16_from_f32(x[at + i * inner] - most)];
            y[at + i * inner] = e;
            sum += e;
        }
        for (int64_t i = 0; i < length; i++) y[at + i * inner] /= sum;
    }
    return PROPANE_OK;
}

/* Adds one element after the other, and rounds the sum to fp16 after each. */
static propane_status numerics_run_sum(const mil_op *op, const float *x, float *y, propane_error *err) {
    const mil_type *in = &op->operands[0].values[0]->type;
    bool member[MIL_MAX_RANK], squares = op->info->code == MIL_OP_reduce_sum_square;
    int64_t step[MIL_MAX_RANK], index[MIL_MAX_RANK] = {0}, stride = 1, count = mil_type_count(in), at = 0, terms = 1;
    PROPANE_TRY(mil_attr_axes(op, "axes", in->rank, member, err));
    for (int d = in->rank - 1; d >= 0; d--) {
        step[d] = member[d] ? 0 : stride;
        if (member[d])
            terms *= in->dim[d];
        else
            stride *= in->dim[d];
    }
    for (int64_t i = 0; i < stride; i++) y[i] = 0;
    for (int64_t i = 0; i < count; i++) {
        y[at] = numerics_half(y[at] + (squares ? numerics_half(x[i] * x[i]) : x[i]));
        for (int d = in->rank - 1; d >= 0; d--) {
            at += step[d];
            if (++index[d] < in->dim[d]) break;
            index[d] = 0;
            at -= step[d] * in->dim[d];
        }
    }
    if (op->info->code == MIL_OP_reduce_mean)
        for (int64_t i = 0; i < stride; i++) y[i] /= (float)terms;
    return PROPANE_OK;
}

propane_status sim_kernel_run(const sim_numbers *n, const mil_op *op, const float *x, float *y, propane_error *err) {
    mil_opcode code = op->info->code;
    if (numerics_in_sums(code)) return numerics_run_sum(op, x, y, err);
    if (code == MIL_OP_softmax) return numerics_run_softmax(n, op, x, y, err);
    engine_table t;
    if (!numerics_table_of(op, &t))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "no table for %s", op->info->name);
    int64_t count = mil_type_count(&op->results[0]->type);
    for (int64_t i = 0; i < count; i++) y[i] = numerics_apply(op, &t, x[i]);
    return PROPANE_OK;
}

bool sim_is_elementwise(const mil_op *op) {
    return !numerics_in_sums(op->info->code) && op->info->code != MIL_OP_softmax;
}

void sim_kernel_map(const mil_op *op, uint16_t map[65536]) {
    engine_table t;
    if (!numerics_table_of(op, &t)) return; /* sim_has_kernel has checked that there is one */
    for (int i = 0; i < 65536; i++) map[i] = fp16_from_f32(numerics_apply(op, &t, fp16_to_f32((uint16_t)i)));
}

/* ---- storing ---------------------------------------------------------------------------------------------------------------- */

void sim_load_f32(float *target, mil_dtype dtype, const void *source, int64_t count) {
    if (dtype == MIL_fp16)
        fp16_to_f32_array(target, source, (size_t)count);
    else
        memcpy(target, source, (size_t)count * sizeof *target);
}

void sim_store_f32(void *target, mil_dtype dtype, const float *source, int64_t count) {
    if (dtype == MIL_fp16)
        fp16_from_f32_array(target, source, (size_t)count);
    else
        memcpy(target, source, (size_t)count * sizeof *source);
}

static bool numerics_slices_width(const mil_op *op) {
    mil_slice s;
    if (op->info->code != MIL_OP_slice_by_size && op->info->code != MIL_OP_slice_by_index) return false;
    return mil_slice_read(op, &s, NULL) == PROPANE_OK && s.rank > 0 && s.begin[s.rank - 1] > 0;
}

/* Returns true if one of four fp16 values is infinity or NaN, whose exponents are all ones. */
static bool numerics_any_overflow(const uint16_t *v) {
    const uint64_t exponents = 0x7c007c007c007c00u, ones = 0x0001000100010001u;
    uint64_t bits;
    memcpy(&bits, v, sizeof bits);
    uint64_t missing = (~bits & exponents) >> 10; /* five bits each, zero if all exponent bits are set */
    return (((missing + 31 * ones) >> 5) & ones) != ones;
}

static void numerics_store_half(uint16_t *v, int64_t count, float limit, bool saturate, bool fault) {
    const uint16_t top = fp16_from_f32(limit), broken = fp16_from_f32(4094);
    bool rare = top == 0x7bff && !fault;
    for (int64_t i = 0; i < count; i++) {
        while (rare && i % 4 == 0 && i + 4 <= count && !numerics_any_overflow(v + i)) i += 4;
        if (i == count) return;
        uint16_t magnitude = v[i] & 0x7fff, sign = v[i] & 0x8000;
        if (fault && magnitude > broken && magnitude <= 0x7c00)
            v[i] = sign | 0x7c00;
        else if (saturate && magnitude > top && magnitude <= 0x7c00)
            v[i] = sign | top;
    }
}

static void numerics_store_float(float *v, int64_t count, float limit, bool round, bool saturate, bool fault) {
    for (int64_t i = 0; i < count; i++) {
        if (round) v[i] = numerics_half(v[i]);
        if (fault && fabsf(v[i]) > 4094)
            v[i] = copysignf(INFINITY, v[i]);
        else if (saturate && round && fabsf(v[i]) > limit)
            v[i] = copysignf(limit, v[i]);
    }
}

void sim_store(const sim_numbers *n, const mil_op *op, const mil_type *type, void *data) {
    mil_cost cost;
    mil_op_cost(op, &cost);
    const int *on = n->switches->value;
    float limit = cost.is_matrix && n->product_limit > 0 ? n->product_limit : HALF_MAX;
    bool fault = on[SIM_slice] && numerics_slices_width(op);
    if (cost.flops == 0 && !fault && op->info->code != MIL_OP_cast) return; /* the op only moves values */
    int64_t count = mil_type_count(type);
    /* Results of products.c that overflow stay infinite, unless the chip limits products. */
    const bool infinite = sim_has_products(n, op) && n->product_limit <= 0;
    const bool saturate = on[SIM_saturate] && !infinite;
    if (type->dtype == MIL_fp16) numerics_store_half(data, count, limit, saturate, fault);
    if (type->dtype == MIL_fp32) numerics_store_float(data, count, limit, on[SIM_round], saturate, fault);
}
