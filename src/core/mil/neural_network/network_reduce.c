/* SPDX-License-Identifier: MIT
 * Owns layers that reduce, sort or count along axes.
 */
#include "core/mil/neural_network/network.h"

#define X(value) NETWORK_IN("x", value)

/* For each choice of axes (CHW, HW, C, H, W): the first axis and the number of axes. */
static const struct {
    int first, count;
} reduce_axes[] = {{-3, 3}, {-2, 2}, {-3, 1}, {-2, 1}, {-1, 1}};
static const mil_opcode reduce_modes[] = {
    MIL_OP_reduce_sum,     MIL_OP_reduce_mean,    MIL_OP_reduce_prod, MIL_OP_reduce_log_sum, MIL_OP_reduce_sum_square,
    MIL_OP_reduce_l1_norm, MIL_OP_reduce_l2_norm, MIL_OP_reduce_max,  MIL_OP_reduce_min,     MIL_OP_reduce_argmax};
enum { LOG_SUM = 3, ARGMAX = 9 };

void network_reduce(network *n, network_layer *l) {
    const int64_t mode = wire_whole(l->params, 1, 0), over = wire_whole(l->params, 3, 0);
    const double given = wire_real(l->params, 2, 0);
    l->out_count = 1;
    if (mode < 0 || mode > ARGMAX || over < 0 || over > 4) {
        network_refuse(n, l, "mode %lld over axes of kind %lld", (long long)mode, (long long)over);
        return;
    }
    int64_t axes[3] = {reduce_axes[over].first, -2, -1};
    if (over == 1) axes[1] = -1;
    mil_value *x = l->in[0], *keep = mil_build_bool(&n->b, true);
    if (mode == ARGMAX) {
        x = NETWORK_DO(n, reduce_argmax, X(x), NETWORK_IN("axis", network_int(n, axes[0])),
                       NETWORK_IN("keep_dims", keep));
        l->out[0] = network_float(n, x);
        return;
    }
    if (mode == LOG_SUM) { /* sums logarithms */
        x = NETWORK_DO(n, log, X(x), NETWORK_IN("epsilon", network_real(n, given == 0 ? 1e-6 : given)));
        l->out[0] = mil_build_reduce(&n->b, MIL_OP_reduce_sum, x, axes, reduce_axes[over].count, true);
        return;
    }
    l->out[0] = mil_build_reduce(&n->b, reduce_modes[mode], x, axes, reduce_axes[over].count, true);
}

/* The fields are axes 1, keepDims 2 and reduceAll 3. */
void network_reduce_nd(network *n, network_layer *l) {
    int64_t axes[MIL_MAX_RANK];
    int count = wire_wholes(l->params, 1, axes, MIL_MAX_RANK);
    const int rank = network_rank(l->in[0]);
    const bool keep = wire_whole(l->params, 2, 0);
    if (wire_whole(l->params, 3, 0) || !count)
        for (count = 0; count < rank; count++) axes[count] = count;
    for (int i = 0; i < count; i++) axes[i] = network_axis(n, l, axes[i], rank);
    mil_value *y = rank ? mil_build_reduce(&n->b, l->row->code, l->in[0], axes, count, keep) : l->in[0];
    if (network_rank(y) == 0) y = network_reshape(n, y, &(int64_t){1}, 1); /* a network has no scalars */
    l->out[0] = y;
    l->out_count = 1;
}

void network_arg(network *n, network_layer *l) {
    const int rank = network_rank(l->in[0]);
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), rank);
    const bool keep = !wire_whole(l->params, 2, 0) || rank == 1;
    const mil_argument a[] = {X(l->in[0]), NETWORK_IN("axis", network_int(n, axis)),
                              NETWORK_IN("keep_dims", mil_build_bool(&n->b, keep))};
    l->out[0] = network_float(n, network_do(n, l->row->code, a, 3));
    l->out_count = 1;
}

void network_top_k(network *n, network_layer *l) {
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), network_rank(l->in[0]));
    mil_value *k = network_int(n, wire_whole(l->params, 2, 0));
    if (l->in_count == 2) k = NETWORK_DO(n, squeeze, X(network_whole(n, l->in[1])));
    const mil_argument a[] = {X(l->in[0]), NETWORK_IN("k", k), NETWORK_IN("axis", network_int(n, axis)),
                              NETWORK_IN("ascending", mil_build_bool(&n->b, wire_whole(l->params, 3, 0)))};
    const mil_op *op = network_op(n, MIL_OP_topk, a, 4);
    if (!op) return;
    l->out[0] = op->results[0];
    l->out[1] = l->out_count > 1 ? network_float(n, op->results[1]) : NULL;
    l->out_count = 2;
}

void network_arg_sort(network *n, network_layer *l) {
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), network_rank(l->in[0]));
    l->out[0] =
        network_float(n, NETWORK_DO(n, argsort, X(l->in[0]), NETWORK_IN("axis", network_int(n, axis)),
                                    NETWORK_IN("ascending", mil_build_bool(&n->b, !wire_whole(l->params, 2, 0)))));
    l->out_count = 1;
}

void network_cum_sum(network *n, network_layer *l) {
    mil_value *axis = network_int(n, network_axis(n, l, wire_whole(l->params, 1, 0), network_rank(l->in[0])));
    if (l->in_count == 2) axis = NETWORK_DO(n, squeeze, X(network_whole(n, l->in[1])));
    l->out[0] = NETWORK_DO(n, cumsum, X(l->in[0]), NETWORK_IN("axis", axis),
                           NETWORK_IN("exclusive", mil_build_bool(&n->b, wire_whole(l->params, 2, 0))),
                           NETWORK_IN("reverse", mil_build_bool(&n->b, wire_whole(l->params, 3, 0))));
    l->out_count = 1;
}

void network_one_hot(network *n, network_layer *l) {
    mil_value *size = network_int(n, wire_whole(l->params, 1, 0));
    if (l->in_count == 2) size = NETWORK_DO(n, squeeze, X(network_whole(n, l->in[1])));
    l->out[0] = NETWORK_DO(n, one_hot, NETWORK_IN("indices", network_whole(n, l->in[0])),
                           NETWORK_IN("one_hot_vector_size", size),
                           NETWORK_IN("axis", network_int(n, wire_whole(l->params, 2, 0))),
                           NETWORK_IN("on_value", network_real(n, wire_real(l->params, 3, 0))),
                           NETWORK_IN("off_value", network_real(n, wire_real(l->params, 4, 0))));
    l->out_count = 1;
}
