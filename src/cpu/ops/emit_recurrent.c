/* SPDX-License-Identifier: MIT
 * Emits lstm, gru and rnn. One matrix product multiplies the inputs of all steps by the input weights. Each step then
 * consists of a matrix product of the hidden state with the recurrent weights (two for a gru that resets first), and
 * the arithmetic of the gates. All intermediate values are fp32.
 */
#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/gemm/gemm.h"
#include "cpu/plan/emit.h"

/* An optional tensor. */
typedef struct cell_operand {
    bool there, half;
    cpu_ref at;
} cell_operand;

typedef struct cell_side {
    cell_operand ih, hh, bias, input_bias, peephole;
} cell_side;

typedef struct cell_args {
    mil_recurrent r;
    bool half;
    cell_operand x, h, c;
    cell_side side[2];
    cpu_gemm inputs, step, candidate; /* candidate: only the rows of a gru's o */
    cpu_ref y[3], scratch, gemm_scratch;
} cell_args;

/* fp32 memory for one run: all steps' inputs, one step's gates, states. */
typedef struct cell_memory {
    float *inputs, *gates, *h, *c, *reset, *candidate;
} cell_memory;

static float emit_recurrent_number(const void *data, bool half, int64_t i) {
    return half ? fp16_to_f32(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

static float emit_recurrent_at(const cpu_run *run, const cell_operand *o, int64_t i) {
    return o->there ? emit_recurrent_number(cpu_ref_at(run, o->at), o->half, i) : 0.0f;
}

static void emit_recurrent_put(const cpu_run *run, const cell_args *a, int which, int64_t i, float value) {
    void *y = cpu_ref_at(run, a->y[which]);
    if (a->half)
        ((uint16_t *)y)[i] = fp16_from_f32(value);
    else
        ((float *)y)[i] = value;
}

/* Clamps x; NaN stays NaN. */
static float emit_recurrent_within(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

static float emit_recurrent_activate(mil_recurrent_activation code, float x) {
    switch (code) {
    case MIL_RECURRENT_SIGMOID: return 1.0f / (1.0f + expf(-x));
    case MIL_RECURRENT_TANH: return tanhf(x);
    case MIL_RECURRENT_RELU: return x < 0.0f ? 0.0f : x;
    case MIL_RECURRENT_SIGMOID_HARD: return emit_recurrent_within(0.2f * x + 0.5f, 0.0f, 1.0f);
    default: return x;
    }
}

static void emit_recurrent_product(const cpu_run *run, const cell_args *a, const cpu_gemm *plan, const void *x,
                                   const void *weight, float *to) {
    cpu_gemm g = *plan;
    g.a.data = x;
    g.b.data = weight;
    g.c.data = to;
    g.threads = run->threads;
    cpu_gemm_run(&g, cpu_ref_at(run, a->gemm_scratch));
}

/* ---- one step of one sequence: `g` are its sums without the biases ----------------------------------------------- */

static void emit_recurrent_lstm_cell(const cpu_run *run, const cell_args *a, const cell_side *s, const float *g,
                                     float *c, float *h) {
    const mil_recurrent *r = &a->r;
    const int64_t n = r->hidden;
    for (int64_t j = 0; j < n; j++) {
        const float z = emit_recurrent_activate(r->cell, g[3 * n + j] + emit_recurrent_at(run, &s->bias, 3 * n + j));
        const float i = emit_recurrent_activate(r->gate, g[j] + emit_recurrent_at(run, &s->bias, j) +
                                                             emit_recurrent_at(run, &s->peephole, j) * c[j]);
        const float f = emit_recurrent_activate(r->gate, g[n + j] + emit_recurrent_at(run, &s->bias, n + j) +
                                                             emit_recurrent_at(run, &s->peephole, n + j) * c[j]);
        c[j] = f * c[j] + i * z;
        if (r->clipped) c[j] = emit_recurrent_within(c[j], -(float)r->clip, (float)r->clip);
        const float o = emit_recurrent_activate(r->gate, g[2 * n + j] + emit_recurrent_at(run, &s->bias, 2 * n + j) +
                                                             emit_recurrent_at(run, &s->peephole, 2 * n + j) * c[j]);
        h[j] = o * emit_recurrent_activate(r->output, c[j]);
    }
}

static void emit_recurrent_rnn_cell(const cpu_run *run, const cell_args *a, const cell_side *s, const float *g,
                                    float *h) {
    for (int64_t j = 0; j < a->r.hidden; j++)
        h[j] = emit_recurrent_activate(a->r.output, g[j] + emit_recurrent_at(run, &s->bias, j));
}

/* `g` are the products with h, `x` those with the input, and `o` the product of W_ho with reset * h, if the reset comes
 * first. */
static void emit_recurrent_gru_cell(const cpu_run *run, const cell_args *a, const cell_side *s, const float *g,
                                    const float *x, const float *reset, const float *o, float *h) {
    const mil_recurrent *r = &a->r;
    const int64_t n = r->hidden;
    for (int64_t j = 0; j < n; j++) {
        const int64_t k = n + j, l = 2 * n + j;
        const float bias = emit_recurrent_at(run, &s->bias, k);
        const float inner = r->reset_after ? reset[j] * (g[k] + bias) : o[j] + bias;
        const float z = emit_recurrent_activate(r->gate, x[l] + g[l] + emit_recurrent_at(run, &s->bias, l) +
                                                             emit_recurrent_at(run, &s->input_bias, l));
        const float y = emit_recurrent_activate(r->output, x[k] + emit_recurrent_at(run, &s->input_bias, k) + inner);
        h[j] = (1.0f - z) * y + z * h[j];
    }
}

static void emit_recurrent_gru_step(const cpu_run *run, const cell_args *a, const cell_side *s, const cell_memory *m,
                                    const float *x) {
    const mil_recurrent *r = &a->r;
    const int64_t n = r->hidden, width = r->gates * n;
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t j = 0; j < n; j++) {
            const float sum = x[b * width + j] + m->gates[b * width + j] + emit_recurrent_at(run, &s->bias, j) +
                              emit_recurrent_at(run, &s->input_bias, j);
            m->reset[b * n + j] = emit_recurrent_activate(r->gate, sum);
        }
    if (!r->reset_after) {
        for (int64_t i = 0; i < r->batch * n; i++) m->c[i] = m->reset[i] * m->h[i];
        const char *weight = cpu_ref_at(run, s->hh.at);
        emit_recurrent_product(run, a, &a->candidate, m->c, weight + n * n * (s->hh.half ? 2 : 4), m->candidate);
    }
    for (int64_t b = 0; b < r->batch; b++)
        emit_recurrent_gru_cell(run, a, s, m->gates + b * width, x + b * width, m->reset + b * n, m->candidate + b * n,
                                m->h + b * n);
}

static void emit_recurrent_one_step(const cpu_run *run, const cell_args *a, const cell_side *s, const cell_memory *m,
                                    float *x) {
    const mil_recurrent *r = &a->r;
    const int64_t n = r->hidden, width = r->gates * n;
    emit_recurrent_product(run, a, &a->step, m->h, cpu_ref_at(run, s->hh.at), m->gates);
    if (r->gates == 3) {
        emit_recurrent_gru_step(run, a, s, m, x);
        return;
    }
    for (int64_t i = 0; i < r->batch * width; i++) x[i] += m->gates[i];
    for (int64_t b = 0; b < r->batch; b++)
        if (r->gates == 4)
            emit_recurrent_lstm_cell(run, a, s, x + b * width, m->c + b * n, m->h + b * n);
        else
            emit_recurrent_rnn_cell(run, a, s, x + b * width, m->h + b * n);
}

static void emit_recurrent_run_side(const cpu_run *run, const cell_args *a, int which, const cell_memory *m) {
    const mil_recurrent *r = &a->r;
    const cell_side *s = &a->side[which];
    const int64_t n = r->hidden, offset = which * n, all = r->directions * n, width = r->gates * n;
    const bool backward = which ? true : r->reverse;
    emit_recurrent_product(run, a, &a->inputs, cpu_ref_at(run, a->x.at), cpu_ref_at(run, s->ih.at), m->inputs);
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t j = 0; j < n; j++) {
            m->h[b * n + j] = emit_recurrent_at(run, &a->h, b * all + offset + j);
            m->c[b * n + j] = emit_recurrent_at(run, &a->c, b * all + offset + j);
        }
    for (int64_t k = 0; k < r->steps; k++) {
        const int64_t t = backward ? r->steps - 1 - k : k;
        emit_recurrent_one_step(run, a, s, m, m->inputs + t * r->batch * width);
        if (!r->sequence && k + 1 < r->steps) continue;
        const int64_t place = mil_recurrent_place(r, t, k);
        for (int64_t b = 0; b < r->batch; b++)
            for (int64_t j = 0; j < n; j++)
                emit_recurrent_put(run, a, 0, (place * r->batch + b) * all + offset + j, m->h[b * n + j]);
    }
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t j = 0; j < n; j++) {
            emit_recurrent_put(run, a, 1, b * all + offset + j, m->h[b * n + j]);
            if (r->gates == 4) emit_recurrent_put(run, a, 2, b * all + offset + j, m->c[b * n + j]);
        }
}

static propane_status emit_recurrent_cell_run(const cpu_run *run, const void *args, propane_error *err) {
    const cell_args *a = args;
    const mil_recurrent *r = &a->r;
    const int64_t state = r->batch * r->hidden, width = r->gates * r->hidden;
    cell_memory m = {.inputs = cpu_ref_at(run, a->scratch)};
    (void)err;
    m.gates = m.inputs + r->steps * r->batch * width;
    m.h = m.gates + r->batch * width;
    m.c = m.h + state;
    m.reset = m.c + state;
    m.candidate = m.reset + state;
    for (int k = 0; k < r->directions; k++) emit_recurrent_run_side(run, a, k, &m);
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef struct cell_uses {
    int buffer[24], count;
} cell_uses;

static propane_status emit_recurrent_take(planner *p, const mil_op *op, const char *param, cell_operand *out,
                                          cell_uses *uses, propane_error *err) {
    const mil_value *v = mil_op_param(op->info, param) >= 0 ? mil_in(op, param) : NULL;
    cpu_view view;
    if (!v) return PROPANE_OK;
    PROPANE_TRY(cpu_emit_operand(p, v, &view, err));
    PROPANE_TRY(cpu_emit_dense(p, op->results[0], &view, &view, err));
    *out = (cell_operand){true, view.dtype == MIL_fp16, cpu_view_ref(&view)};
    uses->buffer[uses->count++] = view.buffer;
    return PROPANE_OK;
}

static cpu_gemm emit_recurrent_product_of(planner *p, int64_t m, int64_t n, int64_t k, bool half_x, bool half_w) {
    return (cpu_gemm){.kernels = p->g.options.kernels,
                      .m = m,
                      .n = n,
                      .k = k,
                      .batch = 1,
                      .alpha = 1,
                      .a = {.dtype = half_x ? CPU_F16 : CPU_F32, .row_stride = k, .col_stride = 1},
                      .b = {.dtype = half_w ? CPU_F16 : CPU_F32, .row_stride = 1, .col_stride = k},
                      .c = {.dtype = CPU_F32, .row_stride = n, .col_stride = 1}};
}

static propane_status emit_recurrent_plan_products(planner *p, cell_args *a, propane_error *err) {
    const mil_recurrent *r = &a->r;
    const int64_t n = r->hidden, width = r->gates * n;
    const bool half = a->side[0].ih.half;
    a->inputs = emit_recurrent_product_of(p, r->steps * r->batch, width, r->inputs, a->x.half, half);
    a->step = emit_recurrent_product_of(p, r->batch, width, n, false, a->side[0].hh.half);
    a->candidate = emit_recurrent_product_of(p, r->batch, n, n, false, a->side[0].hh.half);
    const cpu_gemm *all[] = {&a->inputs, &a->step, &a->candidate};
    size_t bytes = 0;
    for (int k = 0; k < 3; k++) {
        const size_t need = cpu_gemm_scratch_bytes(all[k], p->threads);
        if (need > bytes) bytes = need;
    }
    PROPANE_TRY(cpu_emit_scratch(p, (int64_t)bytes, &a->gemm_scratch, err));
    const int64_t floats = (r->steps + 1) * r->batch * width + 4 * r->batch * n;
    return cpu_emit_scratch(p, floats * (int64_t)sizeof(float), &a->scratch, err);
}

static propane_status emit_recurrent_take_operands(planner *p, const mil_op *op, cell_args *a, cell_uses *uses,
                                                   propane_error *err) {
    cell_side *s = a->side;
    PROPANE_TRY(emit_recurrent_take(p, op, "x", &a->x, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "initial_h", &a->h, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "initial_c", &a->c, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "weight_ih", &s->ih, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "weight_hh", &s->hh, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "bias", &s->bias, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "input_bias", &s->input_bias, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "peephole", &s->peephole, uses, err));
    if (a->r.directions < 2) return PROPANE_OK;
    PROPANE_TRY(emit_recurrent_take(p, op, "weight_ih_back", &s[1].ih, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "weight_hh_back", &s[1].hh, uses, err));
    PROPANE_TRY(emit_recurrent_take(p, op, "bias_back", &s[1].bias, uses, err));
    return emit_recurrent_take(p, op, "peephole_back", &s[1].peephole, uses, err);
}

static propane_status emit_cell(planner *p, const mil_op *op, propane_error *err) {
    cell_args *a = ARENA_NEW(p->arena, cell_args);
    cpu_view y[3], have[3];
    cell_uses uses = {.count = 0};
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_recurrent_read(op, &a->r, err));
    PROPANE_TRY(emit_recurrent_take_operands(p, op, a, &uses, err));
    a->half = op->results[0]->type.dtype == MIL_fp16;
    for (int k = 0; k < op->result_count; k++) {
        PROPANE_TRY(cpu_emit_result_dense(p, op->results[k], &y[k], &have[k], err));
        a->y[k] = cpu_view_ref(&have[k]);
        cpu_emit_touch(p, have[k].buffer);
    }
    for (int k = 0; k < uses.count; k++) cpu_emit_touch(p, uses.buffer[k]);
    PROPANE_TRY(emit_recurrent_plan_products(p, a, err));
    const mil_recurrent *r = &a->r;
    const double flops = 2.0 * (double)(r->steps * r->batch * r->directions) * (double)(r->gates * r->hidden) *
                         (double)(r->inputs + r->hidden);
    PROPANE_TRY(cpu_emit_step(p, emit_recurrent_cell_run, a, "recurrent", op->results[0], flops, 0, err));
    for (int k = 0; k < op->result_count; k++)
        if (!cpu_view_equal(&have[k], &y[k])) PROPANE_TRY(cpu_emit_copy(p, op->results[k], &have[k], &y[k], err));
    return PROPANE_OK;
}

/* The products are planned once for the weights of both directions and both kinds (weight_ih and weight_hh),
 * so these must have the same type. */
static bool emit_recurrent_takes_cell(const mil_op *op) {
    const mil_dtype weights = mil_in(op, "weight_ih")->type.dtype;
    if (mil_in(op, "weight_hh")->type.dtype != weights) return false;
    if (op->info->code != MIL_OP_lstm || !mil_in(op, "weight_ih_back")) return true;
    return mil_in(op, "weight_ih_back")->type.dtype == weights && mil_in(op, "weight_hh_back")->type.dtype == weights;
}

const cpu_emitter cpu_emitter_recurrent = {.emit = emit_cell, .takes = emit_recurrent_takes_cell};
