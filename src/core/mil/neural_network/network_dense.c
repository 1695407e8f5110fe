/* SPDX-License-Identifier: MIT
 * Owns layers with a matrix: inner products, matrix products, embeddings, dot products.
 */
#include "core/base/memory.h"
#include "core/mil/neural_network/network.h"

static mil_value *dense_bias(network *n, const network_layer *l, uint32_t has, uint32_t field, int64_t count) {
    if (!wire_whole(l->params, has, 0)) return NULL;
    return network_weights(n, l, l->params, field, "bias", 1, &count);
}

/* Returns the file's matrix [rows, columns], transposed. */
static mil_value *dense_turned(network *n, const network_layer *l, uint32_t field, const int64_t dims[2]) {
    float *data = network_numbers(n, l, l->params, field, "weight", 2, dims, 0);
    float *turned = data ? mem_array((size_t)(dims[0] * dims[1]), sizeof *turned) : NULL;
    mil_value *out = NULL;
    if (data && !turned) (void)!propane_fail_memory(&n->b.err, 0);
    for (int64_t i = 0; turned && i < dims[0]; i++)
        for (int64_t k = 0; k < dims[1]; k++) turned[k * dims[0] + i] = data[i * dims[1] + k];
    const mil_type type = mil_type_tensor(MIL_fp32, 2, (int64_t[]){dims[1], dims[0]});
    if (turned) out = mil_build_const(&n->b, network_weight_name(n, l, "weight"), &type, turned);
    mem_free(data);
    mem_free(turned);
    return out;
}

/* For ranks 1 to 3, multiplies along the last axis. For ranks 4 and 5, multiplies along the last three axes together,
 * which become [channels, 1, 1]. */
void network_inner_product(network *n, network_layer *l) {
    mil_value *x = l->in[0];
    const int rank = network_rank(x);
    const int64_t in = wire_whole(l->params, 1, 0), out = wire_whole(l->params, 2, 0);
    int64_t dims[MIL_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = x->type.dim[i];
    if (rank >= 4) {
        dims[rank - 3] *= dims[rank - 2] * dims[rank - 1];
        x = network_reshape(n, x, dims, rank - 2);
    }
    mil_value *weight = network_weights(n, l, l->params, 20, "weight", 2, (int64_t[]){out, in});
    mil_value *y = NETWORK_DO(n, linear, NETWORK_IN("x", x), NETWORK_IN("weight", weight),
                              NETWORK_IN("bias", dense_bias(n, l, 10, 21, out)));
    if (rank >= 4) {
        dims[rank - 3] = out, dims[rank - 2] = dims[rank - 1] = 1;
        y = network_reshape(n, y, dims, rank);
    }
    l->out[0] = y;
    l->out_count = 1;
}

static mil_value *dense_as_rank(network *n, mil_value *x, int rank, int axis) {
    if (network_rank(x) != 1 || rank != 2) return x;
    return NETWORK_DO(n, expand_dims, NETWORK_IN("x", x),
                      NETWORK_IN("axes", mil_build_ints(&n->b, &(int64_t){axis}, 1)));
}

void network_batched_matmul(network *n, network_layer *l) {
    const int64_t in = wire_whole(l->params, 5, 0), out = wire_whole(l->params, 6, 0);
    l->out_count = 1;
    if (l->in_count == 2) {
        l->out[0] = mil_build_matmul(&n->b, dense_as_rank(n, l->in[0], 2, 0), dense_as_rank(n, l->in[1], 2, 1),
                                     wire_whole(l->params, 1, 0), wire_whole(l->params, 2, 0));
        return;
    }
    /* [in, out] stored by columns is [out, in] stored by rows */
    mil_value *weight = network_weights(n, l, l->params, 8, "weight", 2, (int64_t[]){out, in});
    l->out[0] = NETWORK_DO(n, linear, NETWORK_IN("x", l->in[0]), NETWORK_IN("weight", weight),
                           NETWORK_IN("bias", dense_bias(n, l, 7, 9, out)));
}

/* Looks up rows of the table for indices of any shape. */
static mil_value *dense_rows(network *n, const network_layer *l, mil_value *indices, int64_t rows, int64_t size,
                             uint32_t has_bias) {
    mil_value *table = dense_turned(n, l, 20, (int64_t[]){size, rows});
    mil_value *y = NETWORK_DO(n, gather, NETWORK_IN("x", table), NETWORK_IN("indices", network_whole(n, indices)),
                              NETWORK_IN("axis", network_int(n, 0)));
    mil_value *bias = dense_bias(n, l, has_bias, 21, size);
    return bias ? NETWORK_DO(n, add, NETWORK_IN("x", y), NETWORK_IN("y", bias)) : y;
}

void network_embedding(network *n, network_layer *l) {
    int64_t dims[MIL_MAX_RANK], count = 1;
    const int rank = network_rank(l->in[0]);
    const int64_t size = wire_whole(l->params, 2, 0);
    l->out_count = 1;
    for (int i = 0; i < rank; i++) count *= dims[i] = l->in[0]->type.dim[i];
    if (rank < 4 || dims[rank - 1] != 1 || dims[rank - 2] != 1 || dims[rank - 3] != 1) {
        network_fail(n, l, "its input must have 4 or 5 dimensions, the last three of them 1");
        return;
    }
    mil_value *flat = network_reshape(n, l->in[0], &count, 1);
    mil_value *y = dense_rows(n, l, flat, wire_whole(l->params, 1, 0), size, 10);
    dims[rank - 3] = size;
    l->out[0] = network_reshape(n, y, dims, rank);
}

void network_embedding_nd(network *n, network_layer *l) {
    mil_value *x = l->in[0];
    const int rank = network_rank(x);
    l->out_count = 1;
    if (rank < 2 || network_dim(x, -1) != 1) {
        network_fail(n, l, "its input must have 2 dimensions or more, the last of them 1");
        return;
    }
    x = network_reshape(n, x, x->type.dim, rank - 1);
    l->out[0] = dense_rows(n, l, x, wire_whole(l->params, 1, 0), wire_whole(l->params, 2, 0), 3);
}

static mil_value *dense_unit(network *n, mil_value *x) {
    mil_value *sum = mil_build_reduce(&n->b, MIL_OP_reduce_sum_square, x, &(int64_t){-3}, 1, true);
    return NETWORK_DO(n, mul, NETWORK_IN("x", x), NETWORK_IN("y", NETWORK_DO(n, rsqrt, NETWORK_IN("x", sum))));
}

void network_dot(network *n, network_layer *l) {
    const bool cosine = wire_whole(l->params, 1, 0);
    mil_value *x = cosine ? dense_unit(n, l->in[0]) : l->in[0], *y = cosine ? dense_unit(n, l->in[1]) : l->in[1];
    mil_value *product = NETWORK_DO(n, mul, NETWORK_IN("x", x), NETWORK_IN("y", y));
    l->out[0] = mil_build_reduce(&n->b, MIL_OP_reduce_sum, product, &(int64_t){-3}, 1, true);
    l->out_count = 1;
}
