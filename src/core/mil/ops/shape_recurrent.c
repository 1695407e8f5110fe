/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of lstm, gru and rnn.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static propane_status shape_recurrent_expect(const mil_op *op, const char *param, int rank, int64_t d0, int64_t d1,
                                             propane_error *err) {
    const mil_value *v = mil_in(op, param);
    const mil_type want = {.rank = rank, .dim = {d0, d1}};
    char a[160], b[160];
    if (!v || mil_shape_equal(&v->type, &want)) return PROPANE_OK;
    return BAD("%s is %s; it must be %s", param, mil_shape_print(a, &v->type), mil_shape_print(b, &want));
}

/* Checks a state. Its rows past the batch are not read; coremltools makes such states from packed sequences. */
static propane_status shape_recurrent_state(const mil_op *op, const char *param, const mil_recurrent *r,
                                            propane_error *err) {
    const mil_value *v = mil_in(op, param);
    const int64_t width = r->directions * r->hidden;
    char text[160];
    if (!v || (v->type.rank == 2 && v->type.dim[0] >= r->batch && v->type.dim[1] == width)) return PROPANE_OK;
    return BAD("%s is %s; it must be [%lld, %lld], or have more rows", param, mil_shape_print(text, &v->type),
               (long long)r->batch, (long long)width);
}

static propane_status shape_recurrent_activation(const mil_op *op, const char *param, mil_recurrent_activation *out,
                                                 propane_error *err) {
    static const struct {
        const char *name;
        mil_recurrent_activation code;
    } names[] = {{"sigmoid", MIL_RECURRENT_SIGMOID},
                 {"tanh", MIL_RECURRENT_TANH},
                 {"relu", MIL_RECURRENT_RELU},
                 {"linear", MIL_RECURRENT_LINEAR},
                 {"scaled_tanh", MIL_RECURRENT_TANH}, /* scales of 1, as in coremltools' tests */
                 {"hard_sigmoid", MIL_RECURRENT_SIGMOID_HARD},
                 {"sigmoid_hard", MIL_RECURRENT_SIGMOID_HARD}};
    const char *text = NULL;
    PROPANE_TRY(mil_attr_text(op, param, &text, err));
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (!strcmp(text, names[k].name)) {
            *out = names[k].code;
            return PROPANE_OK;
        }
    return BAD("%s is \"%.40s\"; it must be sigmoid, tanh, relu, linear, scaled_tanh or hard_sigmoid", param, text);
}

static propane_status shape_recurrent_direction(const mil_op *op, mil_recurrent *out, propane_error *err) {
    const char *text = NULL;
    const bool lstm = op->info->code == MIL_OP_lstm;
    PROPANE_TRY(mil_attr_text(op, "direction", &text, err));
    out->directions = 1;
    if (!strcmp(text, "reverse")) {
        out->reverse = true;
    } else if (lstm && !strcmp(text, "bidirectional")) {
        out->directions = 2;
    } else if (strcmp(text, "forward") != 0) {
        return BAD("direction is \"%.40s\"; it must be forward%s reverse%s", text, lstm ? "," : " or",
                   lstm ? " or bidirectional" : "");
    }
    return PROPANE_OK;
}

/* Checks the parameters of one direction. */
static propane_status shape_recurrent_weights(const mil_op *op, const mil_recurrent *r, const char *ih, const char *hh,
                                              const char *bias, propane_error *err) {
    const int64_t rows = r->gates * r->hidden;
    PROPANE_TRY(shape_recurrent_expect(op, ih, 2, rows, r->inputs, err));
    PROPANE_TRY(shape_recurrent_expect(op, hh, 2, rows, r->hidden, err));
    return shape_recurrent_expect(op, bias, 1, rows, 0, err);
}

static propane_status shape_recurrent_read_lstm(const mil_op *op, mil_recurrent *r, propane_error *err) {
    PROPANE_TRY(shape_recurrent_activation(op, "recurrent_activation", &r->gate, err));
    PROPANE_TRY(shape_recurrent_activation(op, "cell_activation", &r->cell, err));
    PROPANE_TRY(shape_recurrent_activation(op, "activation", &r->output, err));
    PROPANE_TRY(shape_recurrent_state(op, "initial_c", r, err));
    PROPANE_TRY(shape_recurrent_expect(op, "peephole", 1, 3 * r->hidden, 0, err));
    r->clipped = mil_in(op, "clip") != NULL;
    if (r->clipped) PROPANE_TRY(mil_attr_float(op, "clip", &r->clip, err));
    if (r->directions == 1) return PROPANE_OK;
    if (!mil_in(op, "weight_ih_back") || !mil_in(op, "weight_hh_back"))
        return BAD("direction is bidirectional, which needs weight_ih_back and weight_hh_back");
    PROPANE_TRY(shape_recurrent_expect(op, "peephole_back", 1, 3 * r->hidden, 0, err));
    return shape_recurrent_weights(op, r, "weight_ih_back", "weight_hh_back", "bias_back", err);
}

propane_status mil_recurrent_read(const mil_op *op, mil_recurrent *out, propane_error *err) {
    const mil_opcode code = op->info->code;
    const mil_type *x = &mil_in(op, "x")->type, *hh = &mil_in(op, "weight_hh")->type;
    char text[160];
    *out = (mil_recurrent){.gates = code == MIL_OP_lstm ? 4 : code == MIL_OP_gru ? 3 : 1};
    if (x->rank != 3) return BAD("x is %s; it must be [steps, batch, inputs]", mil_shape_print(text, x));
    if (hh->rank != 2) return BAD("weight_hh is %s; it must be a matrix", mil_shape_print(text, hh));
    out->steps = x->dim[0], out->batch = x->dim[1], out->inputs = x->dim[2], out->hidden = hh->dim[1];
    PROPANE_TRY(shape_recurrent_direction(op, out, err));
    PROPANE_TRY(mil_attr_bool(op, "output_sequence", &out->sequence, err));
    PROPANE_TRY(shape_recurrent_weights(op, out, "weight_ih", "weight_hh", "bias", err));
    PROPANE_TRY(shape_recurrent_state(op, "initial_h", out, err));
    if (code == MIL_OP_lstm) return shape_recurrent_read_lstm(op, out, err);
    PROPANE_TRY(shape_recurrent_activation(op, "activation", &out->output, err));
    if (code == MIL_OP_rnn) return PROPANE_OK;
    PROPANE_TRY(shape_recurrent_activation(op, "recurrent_activation", &out->gate, err));
    PROPANE_TRY(mil_attr_bool(op, "reset_after", &out->reset_after, err));
    return shape_recurrent_expect(op, "input_bias", 1, 3 * out->hidden, 0, err);
}

int64_t mil_recurrent_place(const mil_recurrent *r, int64_t t, int64_t step) {
    if (!r->sequence) return 0;
    return r->directions == 2 ? t : step;
}

propane_status mil_shape_rule_recurrent(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_dtype dtype = mil_in(op, "x")->type.dtype;
    mil_recurrent r;
    PROPANE_TRY(mil_recurrent_read(op, &r, err));
    const int64_t width = r.directions * r.hidden;
    out[0] = (mil_type){.dtype = dtype, .rank = 3, .dim = {r.sequence ? r.steps : 1, r.batch, width}};
    out[1] = (mil_type){.dtype = dtype, .rank = 2, .dim = {r.batch, width}};
    out[2] = out[1];
    *out_count = op->info->code == MIL_OP_lstm ? 3 : 2;
    return PROPANE_OK;
}
