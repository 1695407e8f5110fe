/* SPDX-License-Identifier: MIT
 * Owns how an engine's numbers differ from the cpu's: tables instead of functions, sums in fp16, saturation. Products are
 * the cpu driver's, fp16 added up in fp32, or those of products.c.
 *
 * The tables: nobody has published where the 33 points lie. They are placed here so that every piece has the same error
 * and shifted so that the error is balanced, over one half axis where the function is symmetric and over one binade where
 * it has a law over binades (exp, log, rsqrt). The sigmoid is then off by 0.9e-4 and 3.3e-4 in fp16; the worst that was
 * measured is 2.4e-4, half a unit of fp16 by itself, so that real tables are no worse than these.
 */
#include <math.h>
#include <string.h>

#include "base/float16.h"
#include "drivers/sim/sim.h"
#include "mil/ops/shape_util.h"

#define PIECES   32
#define HALF_MAX 65504.0f
/* log and rsqrt misbehave below it (C46, libane): their table ends there. */
#define SMALLEST 0x1.0cp-17f

static float numerics_half(float v) { return fp16_to_f32(fp16_from_f32(v)); }

/* ---- tables ---------------------------------------------------------------------------------------------------------- */

static double numerics_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double numerics_reciprocal_root(double x) { return 1 / sqrt(x); }

/* Points so that the integral of sqrt |f''| is the same over each piece; then each value moved by half the error of the
 * pieces beside it. */
static void numerics_build(sim_table *t, double (*f)(double), double low, double high) {
    enum { FINE = 4096 };
    double total = 0, sum = 0, h = (high - low) / FINE, density[FINE];
    for (int i = 0; i < FINE; i++) {
        double x = low + (i + 0.5) * h, e = 1e-3 * (high - low) / 16;
        density[i] = sqrt(fabs(f(x + e) - 2 * f(x) + f(x - e)) / (e * e)) + 1e-6;
        total += density[i];
    }
    t->x[0] = (float)low;
    t->x[PIECES] = (float)high;
    for (int i = 0, k = 1; i < FINE && k < PIECES; i++) {
        sum += density[i];
        while (k < PIECES && sum >= total * k / PIECES) t->x[k++] = (float)(low + (i + 1) * h);
    }
    double shift[PIECES + 1] = {0};
    for (int k = 0; k < PIECES; k++) {
        double a = (double)t->x[k], b = (double)t->x[k + 1];
        double error = f((a + b) / 2) - (f(a) + f(b)) / 2;
        shift[k] += error / 4;
        shift[k + 1] += error / 4;
    }
    for (int k = 0; k <= PIECES; k++) t->y[k] = (float)(f((double)t->x[k]) + shift[k]);
}

static float numerics_look_up(const sim_table *t, float x) {
    if (!(x > t->x[0])) return isnan(x) ? x : t->y[0];
    if (x >= t->x[PIECES]) return t->y[PIECES];
    int low = 0, high = PIECES;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (x < t->x[middle])
            high = middle;
        else
            low = middle;
    }
    float part = (x - t->x[low]) / (t->x[high] - t->x[low]);
    return t->y[low] + part * (t->y[high] - t->y[low]);
}

static float numerics_odd(const sim_table *t, float x) { return copysignf(numerics_look_up(t, fabsf(x)), x); }

static float numerics_table_sigmoid(const sim_tables *t, float x) {
    float y = numerics_look_up(&t->sigmoid, fabsf(x));
    return x < 0 ? 1 - y : y;
}

static float numerics_table_exp2(const sim_tables *t, float x) {
    if (isnan(x)) return x;
    if (x > 200) return INFINITY;
    if (x < -200) return 0;
    float whole = floorf(x);
    return ldexpf(numerics_look_up(&t->exp2, x - whole), (int)whole);
}

static float numerics_table_log(const sim_tables *t, float x) {
    int e;
    if (isnan(x)) return x;
    float m = frexpf(fmaxf(x, SMALLEST), &e);
    return (numerics_look_up(&t->log2, m * 2) + (float)(e - 1)) * 0.693147181f;
}

static float numerics_table_rsqrt(const sim_tables *t, float x) {
    int e;
    if (isnan(x)) return x;
    float m = 2 * frexpf(fmaxf(x, SMALLEST), &e);
    e--;
    if (e & 1) m *= 2, e--;
    return ldexpf(numerics_look_up(&t->rsqrt, m), -e / 2);
}

void sim_tables_build(sim_tables *t) {
    numerics_build(&t->sigmoid, numerics_sigmoid, 0, 11);
    numerics_build(&t->tanh, tanh, 0, 5);
    numerics_build(&t->erf, erf, 0, 3.5);
    numerics_build(&t->exp2, exp2, 0, 1);
    numerics_build(&t->log2, log2, 1, 2);
    numerics_build(&t->rsqrt, numerics_reciprocal_root, 1, 4);
    for (int i = 0; i < 65536; i++)
        t->exp_half[i] = numerics_half(numerics_table_exp2(t, fp16_to_f32((uint16_t)i) * 1.44269504f));
}

static float numerics_apply(const sim_tables *t, mil_opcode code, float x, float epsilon) {
    switch (code) {
    case MIL_OP_exp: return numerics_table_exp2(t, x * 1.44269504f);
    case MIL_OP_exp2: return numerics_table_exp2(t, x);
    case MIL_OP_log: return numerics_table_log(t, x + epsilon);
    case MIL_OP_rsqrt: return numerics_table_rsqrt(t, x + epsilon);
    case MIL_OP_tanh: return numerics_odd(&t->tanh, x);
    case MIL_OP_sigmoid: return numerics_table_sigmoid(t, x);
    case MIL_OP_silu: return x * numerics_table_sigmoid(t, x);
    case MIL_OP_erf: return numerics_odd(&t->erf, x);
    default: return 0.5f * x * (1 + numerics_odd(&t->erf, x * 0.707106781f)); /* gelu */
    }
}

static bool numerics_in_tables(mil_opcode code) {
    return code == MIL_OP_exp || code == MIL_OP_exp2 || code == MIL_OP_log || code == MIL_OP_rsqrt ||
           code == MIL_OP_tanh || code == MIL_OP_sigmoid || code == MIL_OP_silu || code == MIL_OP_erf ||
           code == MIL_OP_gelu || code == MIL_OP_softmax;
}

static bool numerics_in_sums(mil_opcode code) {
    return code == MIL_OP_reduce_sum || code == MIL_OP_reduce_mean || code == MIL_OP_reduce_sum_square;
}

bool sim_has_kernel(const sim_numbers *n, const mil_op *op) {
    if (!op->result_count || !mil_dtype_is_float(op->results[0]->type.dtype)) return false;
    return (n->switches->value[SIM_table] && numerics_in_tables(op->info->code)) ||
           (n->switches->value[SIM_sums] && numerics_in_sums(op->info->code));
}

bool sim_has_products(const sim_numbers *n, const mil_op *op) {
    const mil_opcode code = op->info->code;
    return n->switches->value[SIM_arithmetic] &&
           (code == MIL_OP_conv || code == MIL_OP_linear || code == MIL_OP_matmul) &&
           mil_dtype_is_float(op->results[0]->type.dtype);
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

/* One element after the other, the sum rounded to fp16 after each. */
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
    double epsilon = 0;
    if (code == MIL_OP_log || code == MIL_OP_rsqrt) PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    int64_t count = mil_type_count(&op->results[0]->type);
    for (int64_t i = 0; i < count; i++) y[i] = numerics_apply(n->tables, code, x[i], (float)epsilon);
    return PROPANE_OK;
}

bool sim_is_elementwise(const mil_op *op) {
    return !numerics_in_sums(op->info->code) && op->info->code != MIL_OP_softmax;
}

propane_status sim_kernel_map(const sim_numbers *n, const mil_op *op, uint16_t map[65536], propane_error *err) {
    double epsilon = 0;
    if (op->info->code == MIL_OP_log || op->info->code == MIL_OP_rsqrt)
        PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    for (int i = 0; i < 65536; i++)
        map[i] = fp16_from_f32(numerics_apply(n->tables, op->info->code, fp16_to_f32((uint16_t)i), (float)epsilon));
    return PROPANE_OK;
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

/* Whether one of four fp16 has an exponent of all ones: infinity or NaN. */
static bool numerics_any_overflow(const uint16_t *v) {
    const uint64_t exponents = 0x7c007c007c007c00u, ones = 0x0001000100010001u;
    uint64_t bits;
    memcpy(&bits, v, sizeof bits);
    uint64_t missing = (~bits & exponents) >> 10; /* five bits each, zero where all are set */
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
    if (cost.flops == 0 && !fault && op->info->code != MIL_OP_cast) return; /* moved, not computed */
    int64_t count = mil_type_count(type);
    const bool infinite = sim_has_products(n, op) && n->product_limit <= 0; /* what overflows there stays infinite */
    const bool saturate = on[SIM_saturate] && !infinite;
    if (type->dtype == MIL_fp16) numerics_store_half(data, count, limit, saturate, fault);
    if (type->dtype == MIL_fp32) numerics_store_float(data, count, limit, on[SIM_round], saturate, fault);
}
