/* SPDX-License-Identifier: MIT
 * Owns the imitation of an engine's known errors with numbers that fp16 can represent. They come from functions that
 * overflow internally, and from pairs of operations. The rows of limits.def about numbers list the affected chips. A
 * step that such a row names is first computed correctly. The engine's wrong values then replace the correct ones, so
 * that a run on sim: shows the faults that check warns about.
 *
 * If a report describes the wrong result, this file imitates that result: 0 (N1, N2), NaN (N10), or a comparison that
 * never finds NaN (N8). For N7, only the size of the error is known, which is 0.2. So N7 is imitated by a sigmoid_hard
 * with its default slope of 0.2 instead of 1/6, which is off by at most 0.208.
 */
#include <math.h>
#include <string.h>

#include "ane/chip/limit.h"
#include "ane/sim/sim.h"
#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"

typedef struct fault_data {
    const mil_op *op;
    const uint16_t *x; /* dense fp16 */
    const void *slope; /* from sim_fault_slope, dense */
    void *result;
    double most; /* the value of the limit's row */
} fault_data;

typedef struct fault_row {
    const char *limit;
    mil_opcode code;
    void (*apply)(const fault_data *d);
} fault_row;

static int64_t fault_count(const fault_data *d) { return mil_type_count(&d->op->results[0]->type); }

/* ---- elementwise ------------------------------------------------------------------------------------------------------------ */

static void fault_softplus(const fault_data *d) {
    uint16_t *y = d->result;
    for (int64_t i = 0; i < fault_count(d); i++)
        if ((double)fp16_to_f32(d->x[i]) > d->most) y[i] = 0;
}

static void fault_softplus_of_channels(const fault_data *d) {
    const mil_type *type = &d->op->results[0]->type;
    const mil_const beta = {.type = mil_in(d->op, "beta")->type, .data = d->slope};
    uint16_t *y = d->result;
    int64_t inner = 1;
    for (int k = 2; k < type->rank; k++) inner *= type->dim[k];
    for (int64_t i = 0; i < fault_count(d); i++) {
        const int64_t channel = i / inner % type->dim[1];
        if ((double)fp16_to_f32(d->x[i]) * mil_const_f64(&beta, channel) > d->most) y[i] = 0;
    }
}

static void fault_equal(const fault_data *d) { memset(d->result, 1, (size_t)fault_count(d)); }
static void fault_not_equal(const fault_data *d) { memset(d->result, 0, (size_t)fault_count(d)); }

static void fault_hardswish(const fault_data *d) {
    uint16_t *y = d->result;
    for (int64_t i = 0; i < fault_count(d); i++) {
        const float x = fp16_to_f32(d->x[i]);
        y[i] = fp16_from_f32(x * fminf(fmaxf(0.2f * x + 0.5f, 0), 1));
    }
}

/* ---- over axes -------------------------------------------------------------------------------------------------------------- */

typedef struct fault_axes { /* some axes of an array, and the current position of a walk over them */
    int count;
    int64_t dim[MIL_MAX_RANK], stride[MIL_MAX_RANK], index[MIL_MAX_RANK], elements;
} fault_axes;

/* Splits the axes of x into those in the attribute `axes` and the rest. Returns false if the attribute cannot be
 * read. */
static bool fault_split_axes(const mil_op *op, fault_axes *over, fault_axes *left) {
    const mil_type *type = &mil_in(op, "x")->type;
    bool member[MIL_MAX_RANK];
    int64_t stride[MIL_MAX_RANK], next = 1;
    *over = *left = (fault_axes){.elements = 1};
    if (mil_attr_axes(op, "axes", type->rank, member, NULL) != PROPANE_OK) return false;
    for (int k = type->rank - 1; k >= 0; k--) {
        stride[k] = next;
        next *= type->dim[k];
    }
    for (int k = 0; k < type->rank; k++) {
        fault_axes *a = member[k] ? over : left;
        a->dim[a->count] = type->dim[k];
        a->stride[a->count++] = stride[k];
        a->elements *= type->dim[k];
    }
    return true;
}

/* Returns the offset of the walk's next position after the one at offset `at`. The last axis changes fastest. After the
 * last position, the walk begins again. */
static int64_t fault_step(fault_axes *a, int64_t at) {
    for (int k = a->count - 1; k >= 0; k--) {
        at += a->stride[k];
        if (++a->index[k] < a->dim[k]) break;
        a->index[k] = 0;
        at -= a->stride[k] * a->dim[k];
    }
    return at;
}

static void fault_log_sum_exp(const fault_data *d) {
    fault_axes over, left;
    uint16_t *y = d->result;
    if (!fault_split_axes(d->op, &over, &left)) return;
    for (int64_t place = 0, from = 0; place < left.elements; place++, from = fault_step(&left, from)) {
        double sum = 0;
        for (int64_t i = 0, at = from; i < over.elements; i++, at = fault_step(&over, at))
            sum += exp((double)fp16_to_f32(d->x[at]));
        if (sum > d->most) y[place] = 0;
    }
}

static void fault_layer_norm(const fault_data *d) {
    fault_axes over, left;
    uint16_t *y = d->result;
    if (!fault_split_axes(d->op, &over, &left)) return;
    for (int64_t place = 0, from = 0; place < left.elements; place++, from = fault_step(&left, from)) {
        double sum = 0, low = INFINITY, high = -INFINITY;
        for (int64_t i = 0, at = from; i < over.elements; i++, at = fault_step(&over, at)) {
            const double v = (double)fp16_to_f32(d->x[at]);
            sum += v;
            low = fmin(low, v);
            high = fmax(high, v);
        }
        const double mean = sum / (double)over.elements;
        if (fmax(high - mean, mean - low) < d->most) continue;
        for (int64_t i = 0, at = from; i < over.elements; i++, at = fault_step(&over, at)) y[at] = fp16_from_f32(NAN);
    }
}

/* ---- which ------------------------------------------------------------------------------------------------------------------ */

static const fault_row fault_rows[] = {
    {"N1", MIL_OP_softplus, fault_softplus},
    {"N1", MIL_OP_softplus_parametric, fault_softplus_of_channels},
    {"N2", MIL_OP_reduce_log_sum_exp, fault_log_sum_exp},
    {"N7", MIL_OP_mul, fault_hardswish},
    {"N8", MIL_OP_equal, fault_equal},
    {"N8", MIL_OP_not_equal, fault_not_equal},
    {"N10", MIL_OP_layer_norm, fault_layer_norm},
};

/* Returns the operand whose values trigger the error. For a hardswish, that is the factor other than the sigmoid. */
static const mil_value *fault_operand(const mil_op *op) {
    const mil_value *x = mil_in(op, "x");
    if (op->info->code != MIL_OP_mul) return x;
    return x->def && x->def->info->code == MIL_OP_sigmoid_hard ? mil_in(op, "y") : x;
}

int sim_fault_of(const sim_numbers *n, const mil_op *op) {
    char message[CHIP_TEXT_BYTES];
    if (!n->switches->value[SIM_faults] || !op->result_count) return -1;
    for (int i = 0; i < (int)(sizeof fault_rows / sizeof fault_rows[0]); i++) {
        if (op->info->code != fault_rows[i].code) continue;
        const chip_limit *l = chip_limit_find(fault_rows[i].limit);
        const chip_view view = {.limit = l, .op = op};
        chip_severity severity;
        const bool on = chip_limit_on(l, n->chip, n->switches->value[SIM_os], CHIP_PATH_COREML, &severity);
        const mil_value *x = fault_operand(op);
        if (on && x->type.dtype == MIL_fp16 && l->check(&view, message)) return i;
    }
    return -1;
}

const mil_value *sim_fault_operand(const mil_op *op) { return fault_operand(op); }

const mil_value *sim_fault_slope(const mil_op *op) {
    return op->info->code == MIL_OP_softplus_parametric ? mil_in(op, "beta") : NULL;
}

void sim_fault_apply(int fault, const mil_op *op, const void *x, const void *slope, void *result) {
    const fault_data d = {
        .op = op, .x = x, .slope = slope, .result = result, .most = chip_limit_value(fault_rows[fault].limit)};
    fault_rows[fault].apply(&d);
}
