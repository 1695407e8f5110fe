/* SPDX-License-Identifier: MIT
 * Owns the meanings of lstm, gru and rnn, step by step. The gates are stored as i, f, o, z in the weights of lstm and
 * as r, o, z in the weights of gru. An lstm's peephole reads the cell before the step for i and f, and the cell after
 * the step for o; `clip` bounds the cell after each step. In reverse, the result holds the steps in the order in which
 * they were computed, beginning with the last element of x. With both directions, each step is stored at the place of
 * its element of x. A gru with reset_after applies the reset gate to the product of the matrix and the hidden state
 * plus the bias, otherwise to the hidden state before the product.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* Clamps x; NaN stays NaN. */
static double eval_recurrent_within(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static double eval_recurrent_activate(mil_recurrent_activation code, double x) {
    switch (code) {
    case MIL_RECURRENT_SIGMOID: return 1.0 / (1.0 + exp(-x));
    case MIL_RECURRENT_TANH: return tanh(x);
    case MIL_RECURRENT_RELU: return x < 0.0 ? 0.0 : x;
    case MIL_RECURRENT_SIGMOID_HARD: return eval_recurrent_within(0.2 * x + 0.5, 0.0, 1.0);
    default: return x;
    }
}

/* The parameters of one direction; NULL if left out. */
typedef struct unit {
    const double *ih, *hh, *bias, *input_bias, *peephole;
} unit;

static const double *eval_recurrent_data_of(const mil_eval_args *a, const char *param) {
    if (mil_op_param(a->op->info, param) < 0) return NULL;
    const mil_tensor *t = mil_eval_in(a, param);
    return t ? t->data : NULL;
}

static double eval_recurrent_product(const double *weight, const double *x, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += weight[i] * x[i];
    return sum;
}

/* Computes W_ih x + W_hh h + bias for one row. */
static double eval_recurrent_row_of(const mil_recurrent *r, const unit *u, int64_t row, const double *x,
                                    const double *h) {
    return eval_recurrent_product(u->ih + row * r->inputs, x, r->inputs) +
           eval_recurrent_product(u->hh + row * r->hidden, h, r->hidden) + (u->bias ? u->bias[row] : 0.0) +
           (u->input_bias ? u->input_bias[row] : 0.0);
}

static void eval_recurrent_lstm_step(const mil_recurrent *r, const unit *u, const double *x, const double *h, double *c,
                                     double *out) {
    const int64_t n = r->hidden;
    const double *p = u->peephole;
    for (int64_t j = 0; j < n; j++) {
        const double z = eval_recurrent_activate(r->cell, eval_recurrent_row_of(r, u, 3 * n + j, x, h));
        const double i =
            eval_recurrent_activate(r->gate, eval_recurrent_row_of(r, u, j, x, h) + (p ? p[j] * c[j] : 0.0));
        const double f =
            eval_recurrent_activate(r->gate, eval_recurrent_row_of(r, u, n + j, x, h) + (p ? p[n + j] * c[j] : 0.0));
        c[j] = f * c[j] + i * z;
        if (r->clipped) c[j] = eval_recurrent_within(c[j], -r->clip, r->clip);
        const double o = eval_recurrent_activate(r->gate, eval_recurrent_row_of(r, u, 2 * n + j, x, h) +
                                                              (p ? p[2 * n + j] * c[j] : 0.0));
        out[j] = o * eval_recurrent_activate(r->output, c[j]);
    }
}

/* `reset` has room for `hidden` numbers. */
static void eval_recurrent_gru_step(const mil_recurrent *r, const unit *u, const double *x, const double *h,
                                    double *reset, double *out) {
    const int64_t n = r->hidden;
    for (int64_t j = 0; j < n; j++) reset[j] = eval_recurrent_activate(r->gate, eval_recurrent_row_of(r, u, j, x, h));
    for (int64_t j = 0; j < n; j++) {
        const int64_t row = n + j;
        double o =
            eval_recurrent_product(u->ih + row * r->inputs, x, r->inputs) + (u->input_bias ? u->input_bias[row] : 0.0);
        if (r->reset_after) {
            o += reset[j] * (eval_recurrent_product(u->hh + row * n, h, n) + (u->bias ? u->bias[row] : 0.0));
        } else {
            for (int64_t k = 0; k < n; k++) o += u->hh[row * n + k] * reset[k] * h[k];
            o += u->bias ? u->bias[row] : 0.0;
        }
        const double z = eval_recurrent_activate(r->gate, eval_recurrent_row_of(r, u, 2 * n + j, x, h));
        out[j] = (1.0 - z) * eval_recurrent_activate(r->output, o) + z * h[j];
    }
}

static void eval_recurrent_rnn_step(const mil_recurrent *r, const unit *u, const double *x, const double *h,
                                    double *out) {
    for (int64_t j = 0; j < r->hidden; j++)
        out[j] = eval_recurrent_activate(r->output, eval_recurrent_row_of(r, u, j, x, h));
}

/* Runs one direction over sequence b of the batch. Results are stored from column `offset` of each row on. `h`, `next`
 * and `cell` have room for `hidden` numbers each. */
static void eval_recurrent_run_unit(const mil_eval_args *a, const mil_recurrent *r, const unit *u, int64_t b,
                                    int64_t offset, bool backward, double *h, double *next, double *cell) {
    const double *x = mil_eval_in(a, "x")->data, *h0 = eval_recurrent_data_of(a, "initial_h"),
                 *c0 = eval_recurrent_data_of(a, "initial_c");
    const int64_t n = r->hidden, width = r->directions * n;
    for (int64_t j = 0; j < n; j++) {
        h[j] = h0[b * width + offset + j];
        cell[j] = c0 ? c0[b * width + offset + j] : 0.0;
    }
    for (int64_t s = 0; s < r->steps; s++) {
        const int64_t t = backward ? r->steps - 1 - s : s;
        const double *in = x + (t * r->batch + b) * r->inputs;
        if (r->gates == 4)
            eval_recurrent_lstm_step(r, u, in, h, cell, next);
        else if (r->gates == 3)
            eval_recurrent_gru_step(r, u, in, h, cell, next);
        else
            eval_recurrent_rnn_step(r, u, in, h, next);
        for (int64_t j = 0; j < n; j++) h[j] = next[j];
        if (!r->sequence && s + 1 < r->steps) continue;
        const int64_t place = mil_recurrent_place(r, t, s);
        double *out = a->out[0].data + (place * r->batch + b) * width + offset;
        for (int64_t j = 0; j < n; j++) out[j] = h[j];
    }
    for (int64_t j = 0; j < n; j++) {
        a->out[1].data[b * width + offset + j] = h[j];
        if (r->gates == 4) a->out[2].data[b * width + offset + j] = cell[j];
    }
}

propane_status mil_eval_recurrent(const mil_eval_args *a, propane_error *err) {
    mil_recurrent r;
    PROPANE_TRY(mil_recurrent_read(a->op, &r, err));
    const unit forward = {eval_recurrent_data_of(a, "weight_ih"), eval_recurrent_data_of(a, "weight_hh"),
                          eval_recurrent_data_of(a, "bias"), eval_recurrent_data_of(a, "input_bias"),
                          eval_recurrent_data_of(a, "peephole")};
    const unit back = {eval_recurrent_data_of(a, "weight_ih_back"), eval_recurrent_data_of(a, "weight_hh_back"),
                       eval_recurrent_data_of(a, "bias_back"), NULL, eval_recurrent_data_of(a, "peephole_back")};
    double *memory = mem_array((size_t)r.hidden * 3, sizeof *memory);
    if (!memory) return propane_fail_memory(err, (size_t)r.hidden * 3 * sizeof *memory);
    for (int64_t b = 0; b < r.batch; b++) {
        double *h = memory, *next = h + r.hidden, *cell = next + r.hidden;
        eval_recurrent_run_unit(a, &r, &forward, b, 0, r.reverse, h, next, cell);
        if (r.directions == 2) eval_recurrent_run_unit(a, &r, &back, b, r.hidden, true, h, next, cell);
    }
    mem_free(memory);
    return PROPANE_OK;
}
