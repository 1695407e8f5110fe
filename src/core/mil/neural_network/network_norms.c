/* SPDX-License-Identifier: MIT
 * Owns normalisation: by stored or computed means and variances, over channels, over neighbours, and softmax.
 */
#include "core/mil/neural_network/network.h"

static double norms_epsilon(const network_layer *l, uint32_t field, double standard) {
    const double e = wire_real(l->params, field, 0);
    return e == 0 ? standard : e;
}

/* Computes (x - mean) / sqrt(variance + epsilon) over `axes`, or only x - mean if `divide` is false. */
static mil_value *norms_computed(network *n, mil_value *x, const int64_t *axes, int count, bool divide,
                                 double epsilon) {
    mil_value *mean = mil_build_reduce(&n->b, MIL_OP_reduce_mean, x, axes, count, true);
    mil_value *y = NETWORK_DO(n, sub, NETWORK_IN("x", x), NETWORK_IN("y", mean));
    if (!divide) return y;
    mil_value *square = NETWORK_DO(n, square, NETWORK_IN("x", y));
    mil_value *variance = mil_build_reduce(&n->b, MIL_OP_reduce_mean, square, axes, count, true);
    mil_value *scale = NETWORK_DO(n, rsqrt, NETWORK_IN("x", variance), NETWORK_IN("epsilon", network_real(n, epsilon)));
    return NETWORK_DO(n, mul, NETWORK_IN("x", y), NETWORK_IN("y", scale));
}

void network_batchnorm(network *n, network_layer *l) {
    static const int64_t batch[3] = {0, 2, 3};
    const int64_t channels = wire_whole(l->params, 1, 0), wide[3] = {channels, 1, 1};
    const bool computed = wire_whole(l->params, 5, 0), instance = wire_whole(l->params, 6, 0);
    const double epsilon = norms_epsilon(l, 10, 1e-5);
    mil_value *x = network_four(n, l->in[0]), *y;
    wire_view unused;
    const bool scaled = wire_part(l->params, 15, &unused), moved = wire_part(l->params, 16, &unused);
    const int rank = computed && !instance ? 3 : 1; /* of gamma and beta */
    mil_value *gamma =
        scaled ? network_weights(n, l, l->params, 15, "gamma", rank, rank == 3 ? wide : &channels) : NULL;
    mil_value *beta = moved ? network_weights(n, l, l->params, 16, "beta", rank, rank == 3 ? wide : &channels) : NULL;
    mil_value *e = network_real(n, epsilon);
    if (computed && instance) {
        y = NETWORK_DO(n, instance_norm, NETWORK_IN("x", x), NETWORK_IN("gamma", gamma), NETWORK_IN("beta", beta),
                       NETWORK_IN("epsilon", e));
    } else if (computed) {
        y = norms_computed(n, x, batch, 3, true, epsilon);
        if (gamma) y = NETWORK_DO(n, mul, NETWORK_IN("x", y), NETWORK_IN("y", gamma));
        if (beta) y = NETWORK_DO(n, add, NETWORK_IN("x", y), NETWORK_IN("y", beta));
    } else {
        mil_value *mean = network_weights(n, l, l->params, 17, "mean", 1, &channels);
        mil_value *variance = network_weights(n, l, l->params, 18, "variance", 1, &channels);
        y = NETWORK_DO(n, batch_norm, NETWORK_IN("x", x), NETWORK_IN("mean", mean), NETWORK_IN("variance", variance),
                       NETWORK_IN("gamma", gamma), NETWORK_IN("beta", beta), NETWORK_IN("epsilon", e));
    }
    l->out[0] = network_lead(n, y, l->in[0]);
    l->out_count = 1;
}

static const int64_t norms_last[3] = {-3, -2, -1};

void network_mvn(network *n, network_layer *l) {
    const bool across = wire_whole(l->params, 1, 0);
    l->out[0] = norms_computed(n, l->in[0], across ? norms_last : norms_last + 1, across ? 3 : 2,
                               wire_whole(l->params, 2, 0), norms_epsilon(l, 3, 1e-6));
    l->out_count = 1;
}

void network_l2normalize(network *n, network_layer *l) {
    mil_value *sum = mil_build_reduce(&n->b, MIL_OP_reduce_sum_square, l->in[0], norms_last, 3, true);
    mil_value *scale =
        NETWORK_DO(n, rsqrt, NETWORK_IN("x", sum), NETWORK_IN("epsilon", network_real(n, norms_epsilon(l, 1, 1e-6))));
    l->out[0] = NETWORK_DO(n, mul, NETWORK_IN("x", l->in[0]), NETWORK_IN("y", scale));
    l->out_count = 1;
}

void network_layer_norm(network *n, network_layer *l) {
    int64_t dims[MIL_MAX_RANK], axes[MIL_MAX_RANK];
    wire_view unused;
    const int count = wire_wholes(l->params, 1, dims, MIL_MAX_RANK);
    for (int i = 0; i < count; i++) axes[i] = i - count;
    l->out_count = 1;
    if (count < 1 || count > network_rank(l->in[0])) {
        network_fail(n, l, "a shape of %d dimensions to normalize over is not supported", count);
        return;
    }
    mil_value *gamma =
        wire_part(l->params, 3, &unused) ? network_weights(n, l, l->params, 3, "gamma", count, dims) : NULL;
    mil_value *beta =
        wire_part(l->params, 4, &unused) ? network_weights(n, l, l->params, 4, "beta", count, dims) : NULL;
    l->out[0] =
        NETWORK_DO(n, layer_norm, NETWORK_IN("x", l->in[0]), NETWORK_IN("axes", mil_build_ints(&n->b, axes, count)),
                   NETWORK_IN("gamma", gamma), NETWORK_IN("beta", beta),
                   NETWORK_IN("epsilon", network_real(n, wire_real(l->params, 2, 0))));
}

void network_lrn(network *n, network_layer *l) {
    const double k = wire_real(l->params, 4, 0);
    mil_value *y = NETWORK_DO(n, local_response_norm, NETWORK_IN("x", network_four(n, l->in[0])),
                              NETWORK_IN("size", network_int(n, wire_whole(l->params, 3, 0))),
                              NETWORK_IN("alpha", network_real(n, wire_real(l->params, 1, 0))),
                              NETWORK_IN("beta", network_real(n, wire_real(l->params, 2, 0))),
                              NETWORK_IN("k", network_real(n, k == 0 ? 1 : k)));
    l->out[0] = network_lead(n, y, l->in[0]);
    l->out_count = 1;
}

void network_softmax(network *n, network_layer *l) {
    const int rank = network_rank(l->in[0]);
    l->out[0] = mil_build_softmax(&n->b, l->in[0], rank >= 3 ? -3 : -1);
    l->out_count = 1;
}

void network_softmax_nd(network *n, network_layer *l) {
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), network_rank(l->in[0]));
    l->out[0] = mil_build_softmax(&n->b, l->in[0], (int)axis);
    l->out_count = 1;
}
