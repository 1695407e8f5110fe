/* SPDX-License-Identifier: MIT
 * Owns recurrent layers. One idea: a layer has a matrix for each gate, whereas an operation has one matrix for all
 * gates, in another order. Values are [sequence, batch, size, 1, 1], and so are states; a state that is not given is
 * zero. Refuses coupled gates, and activations that the MIL operations do not support.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ir_edit.h"
#include "core/mil/neural_network/network.h"

typedef struct recurrent {
    network *n;
    network_layer *l;
    int64_t steps, batch, in, out;
    mil_value *x; /* [steps, batch, in] */
} recurrent;

static bool recurrent_begin(recurrent *r, network *n, network_layer *l) {
    mil_value *five = network_five(n, l->in[0]);
    const int64_t in = wire_whole(l->params, 1, 0), out = wire_whole(l->params, 2, 0);
    *r = (recurrent){n, l, network_dim(five, 0), network_dim(five, 1), in, out, NULL};
    const int64_t have = five ? mil_type_count(&five->type) / (r->steps * r->batch) : in;
    if (have != in || out < 1)
        network_fail(n, l, "it maps vectors of %lld to %lld, but its input has %lld", (long long)in, (long long)out,
                     (long long)have);
    r->x = network_reshape(n, five, (int64_t[]){r->steps, r->batch, in}, 3);
    return !network_failed(n);
}

/* Stacks the matrices of `fields` (vectors if columns is 0). Adds 1 to each element of gate number `ones`. */
static mil_value *recurrent_stacked(recurrent *r, wire_view message, const uint32_t *fields, int gates, int64_t columns,
                                    int ones, const char *name) {
    const int64_t dims[2] = {r->out, columns ? columns : 1}, each = dims[0] * dims[1];
    float *all = NULL;
    for (int i = 0; i < gates && !network_failed(r->n); i++) {
        float *one = network_numbers(r->n, r->l, message, fields[i], name, 2, dims, 0);
        if (one && !all && !(all = mem_array((size_t)(each * gates), sizeof *all)))
            (void)!propane_fail_memory(&r->n->b.err, 0);
        for (int64_t k = 0; one && all && k < each; k++) all[i * each + k] = one[k] + (i == ones ? 1.0F : 0.0F);
        mem_free(one);
    }
    mil_type type = mil_type_tensor(MIL_fp32, columns ? 2 : 1, (int64_t[]){gates * r->out, columns});
    mil_value *out = all && !network_failed(r->n)
                         ? mil_build_const(&r->n->b, network_weight_name(r->n, r->l, name), &type, all)
                         : NULL;
    mem_free(all);
    return out;
}

/* Returns input `index` as [batch, out], or zeros if there is no such input. Uses the first rows if there are more than
 * the batch has. */
static mil_value *recurrent_state(recurrent *r, int index) {
    const int64_t dims[2] = {r->batch, r->out};
    if (index < r->l->in_count) {
        mil_value *given = r->l->in[index];
        const bool same =
            !given || (!mil_type_is_open(&given->type) && mil_type_count(&given->type) == dims[0] * dims[1]);
        if (same) return network_reshape(r->n, given, dims, 2);
        mil_value *rows = network_reshape(r->n, given, (int64_t[]){-1, r->out}, 2);
        return mil_build_slice(&r->n->b, rows, (int64_t[]){0, 0}, dims);
    }
    return NETWORK_DO(r->n, fill, NETWORK_IN("shape", mil_build_ints(&r->n->b, dims, 2)),
                      NETWORK_IN("value", network_real(r->n, 0)));
}

/* Reshapes [steps or 1, batch, size] to the network's form. */
static mil_value *recurrent_back(recurrent *r, mil_value *v, int64_t size) {
    const int64_t count = v ? mil_type_count(&v->type) : 0, dims[5] = {count / (r->batch * size), r->batch, size, 1, 1};
    return v ? network_fold(r->n, network_reshape(r->n, v, dims, 5)) : NULL;
}

static mil_value *recurrent_text(recurrent *r, const char *text) { return mil_build_text(&r->n->b, text ? text : ""); }

static mil_value *recurrent_activation(recurrent *r, wire_view message, uint32_t field, int index) {
    wire_view one = {.broken = message.broken};
    for (int i = 0; i <= index; i++)
        if (!wire_each(&message, field, &one)) {
            network_fail(r->n, r->l, "it has %d activations", i);
            return NULL;
        }
    return recurrent_text(r, network_activation_name(r->n, r->l, one));
}

static void recurrent_give(recurrent *r, const mil_op *op) {
    r->l->out_count = op ? op->result_count : 0;
    for (int i = 0; i < r->l->out_count; i++) r->l->out[i] = recurrent_back(r, op->results[i], r->out);
}

static mil_value *recurrent_direction(recurrent *r) {
    return recurrent_text(r, wire_whole(r->l->params, 100, 0) ? "reverse" : "forward");
}

void network_simple_recurrent(network *n, network_layer *l) {
    static const uint32_t ih[] = {30}, hh[] = {31}, bias[] = {32};
    recurrent r;
    if (!recurrent_begin(&r, n, l)) return;
    mil_value *b = wire_whole(l->params, 20, 0) ? recurrent_stacked(&r, l->params, bias, 1, 0, -1, "bias") : NULL;
    recurrent_give(
        &r, network_op(
                n, MIL_OP_rnn,
                NETWORK_ARGS(NETWORK_IN("x", r.x), NETWORK_IN("initial_h", recurrent_state(&r, 1)),
                             NETWORK_IN("weight_ih", recurrent_stacked(&r, l->params, ih, 1, r.in, -1, "weight_ih")),
                             NETWORK_IN("weight_hh", recurrent_stacked(&r, l->params, hh, 1, r.out, -1, "weight_hh")),
                             NETWORK_IN("bias", b), NETWORK_IN("direction", recurrent_direction(&r)),
                             NETWORK_IN("output_sequence", mil_build_bool(&n->b, wire_whole(l->params, 15, 0))),
                             NETWORK_IN("activation", recurrent_activation(&r, l->params, 10, 0)))));
}

void network_gru(network *n, network_layer *l) {
    static const uint32_t ih[] = {31, 32, 30}, hh[] = {51, 52, 50}, bias[] = {71, 72, 70};
    recurrent r;
    if (!recurrent_begin(&r, n, l)) return;
    mil_value *b = wire_whole(l->params, 20, 0) ? recurrent_stacked(&r, l->params, bias, 3, 0, -1, "bias") : NULL;
    recurrent_give(
        &r, network_op(
                n, MIL_OP_gru,
                NETWORK_ARGS(NETWORK_IN("x", r.x), NETWORK_IN("initial_h", recurrent_state(&r, 1)),
                             NETWORK_IN("weight_ih", recurrent_stacked(&r, l->params, ih, 3, r.in, -1, "weight_ih")),
                             NETWORK_IN("weight_hh", recurrent_stacked(&r, l->params, hh, 3, r.out, -1, "weight_hh")),
                             NETWORK_IN("bias", b), NETWORK_IN("direction", recurrent_direction(&r)),
                             NETWORK_IN("output_sequence", mil_build_bool(&n->b, wire_whole(l->params, 15, 0))),
                             NETWORK_IN("recurrent_activation", recurrent_activation(&r, l->params, 10, 0)),
                             NETWORK_IN("activation", recurrent_activation(&r, l->params, 10, 1)))));
}

/* ---- lstm ------------------------------------------------------------------------------------------------------------------- */

/* The LSTMWeightParams of one direction. */
typedef struct recurrent_side {
    mil_value *ih, *hh, *bias, *peephole;
} recurrent_side;

static recurrent_side recurrent_weights(recurrent *r, wire_view params, wire_view weights) {
    static const uint32_t ih[] = {1, 2, 4, 3}, hh[] = {20, 21, 23, 22}, bias[] = {40, 41, 43, 42},
                          peephole[] = {60, 61, 62};
    recurrent_side s = {.ih = recurrent_stacked(r, weights, ih, 4, r->in, -1, "weight_ih"),
                        .hh = recurrent_stacked(r, weights, hh, 4, r->out, -1, "weight_hh")};
    const bool ones = wire_whole(params, 30, 0);
    if (wire_whole(params, 20, 0))
        s.bias = recurrent_stacked(r, weights, bias, 4, 0, ones ? 1 : -1, "bias");
    else if (ones)
        network_refuse(r->n, r->l, "ones for the forget gate, without biases");
    if (wire_whole(params, 40, 0)) s.peephole = recurrent_stacked(r, weights, peephole, 3, 0, -1, "peephole");
    return s;
}

static mil_op *recurrent_lstm(recurrent *r, wire_view params, const recurrent_side *front, const recurrent_side *back,
                              mil_value *h, mil_value *c, mil_value *direction) {
    network *n = r->n;
    const double given = wire_real(params, 60, 0);
    if (wire_whole(params, 50, 0)) network_refuse(n, r->l, "coupled input and forget gates");
    return network_op(n, MIL_OP_lstm,
                      NETWORK_ARGS(NETWORK_IN("x", r->x), NETWORK_IN("initial_h", h), NETWORK_IN("initial_c", c),
                                   NETWORK_IN("weight_ih", front->ih), NETWORK_IN("weight_hh", front->hh),
                                   NETWORK_IN("bias", front->bias), NETWORK_IN("peephole", front->peephole),
                                   NETWORK_IN("weight_ih_back", back->ih), NETWORK_IN("weight_hh_back", back->hh),
                                   NETWORK_IN("bias_back", back->bias), NETWORK_IN("peephole_back", back->peephole),
                                   NETWORK_IN("direction", direction),
                                   NETWORK_IN("output_sequence", mil_build_bool(&n->b, wire_whole(params, 10, 0))),
                                   NETWORK_IN("recurrent_activation", recurrent_activation(r, r->l->params, 10, 0)),
                                   NETWORK_IN("cell_activation", recurrent_activation(r, r->l->params, 10, 1)),
                                   NETWORK_IN("activation", recurrent_activation(r, r->l->params, 10, 2)),
                                   NETWORK_IN("clip", network_real(n, given == 0 ? 50 : given))));
}

void network_lstm(network *n, network_layer *l) {
    recurrent r;
    wire_view params, weights;
    const recurrent_side none = {NULL, NULL, NULL, NULL};
    if (!recurrent_begin(&r, n, l)) return;
    (void)wire_part(l->params, 15, &params);
    (void)wire_part(l->params, 20, &weights);
    const recurrent_side front = recurrent_weights(&r, params, weights);
    recurrent_give(&r, recurrent_lstm(&r, params, &front, &none, recurrent_state(&r, 1), recurrent_state(&r, 2),
                                      recurrent_direction(&r)));
}

/* Concatenates two state inputs. The inputs are x, h, c, reversed h, reversed c; the outputs are y, h, c, reversed h,
 * reversed c. */
static mil_value *recurrent_both(recurrent *r, int first, int second) {
    mil_value *two[2] = {recurrent_state(r, first), recurrent_state(r, second)};
    return mil_build_concat(&r->n->b, two, 2, 1);
}

static mil_value *recurrent_half(recurrent *r, mil_value *both, int64_t begin) {
    if (!both) return NULL;
    return recurrent_back(r, mil_build_slice(&r->n->b, both, (int64_t[]){0, begin}, (int64_t[]){r->batch, r->out}),
                          r->out);
}

void network_bi_lstm(network *n, network_layer *l) {
    recurrent r;
    wire_view params, weights, rest = l->params;
    recurrent_side side[2];
    if (!recurrent_begin(&r, n, l)) return;
    (void)wire_part(l->params, 15, &params);
    for (int i = 0; i < 2; i++) {
        if (!wire_each(&rest, 20, &weights)) network_fail(n, l, "weights of %d directions; it must have 2", i);
        if (network_failed(n)) return;
        side[i] = recurrent_weights(&r, params, weights);
    }
    const mil_op *op = recurrent_lstm(&r, params, &side[0], &side[1], recurrent_both(&r, 1, 3),
                                      recurrent_both(&r, 2, 4), recurrent_text(&r, "bidirectional"));
    if (!op) return;
    l->out[0] = recurrent_back(&r, op->results[0], 2 * r.out);
    for (int i = 1; i < l->out_count && i < 5; i++)
        l->out[i] = recurrent_half(&r, op->results[i == 2 || i == 4 ? 2 : 1], i > 2 ? r.out : 0);
    if (l->out_count > 5) l->out_count = 5;
}
