/* SPDX-License-Identifier: MIT
 * Owns layers that give the same elements another shape or order. One idea: a shape that a layer computes is evaluated
 * while the network is read. If the shape cannot be known then, the operation that needs it reports the error.
 */
#include <string.h>

#include "core/mil/ir_edit.h"
#include "core/mil/neural_network/network.h"

#define X(value) NETWORK_IN("x", value)

static mil_value *shapes_ints(network *n, const int64_t *values, int count) {
    return mil_build_ints(&n->b, values, count);
}

/* ---- networks of five dimensions -------------------------------------------------------------------------------------------- */

/* Moves [.., C, H, W] to [.., H, W, C], or back. */
static mil_value *shapes_turn(network *n, mil_value *x, bool back) {
    int64_t perm[MIL_MAX_RANK];
    const int rank = network_rank(x), c = rank - 3;
    if (rank < 3) return x;
    for (int i = 0; i < rank; i++) perm[i] = i;
    perm[c] = back ? c + 2 : c + 1, perm[c + 1] = back ? c : c + 2, perm[c + 2] = back ? c + 1 : c;
    return mil_build_transpose(&n->b, x, perm, rank);
}

void network_flatten(network *n, network_layer *l) {
    int64_t dims[MIL_MAX_RANK];
    mil_value *x = l->in[0];
    const int rank = network_rank(x);
    l->out_count = 1;
    if (rank < 3) {
        network_fail(n, l, "its input has %d dimensions; it must have at least 3", rank);
        return;
    }
    for (int i = 0; i < rank; i++) dims[i] = x->type.dim[i];
    dims[rank - 3] *= dims[rank - 2] * dims[rank - 1];
    dims[rank - 2] = dims[rank - 1] = 1;
    if (wire_whole(l->params, 1, 0)) x = shapes_turn(n, x, false);
    l->out[0] = network_reshape(n, x, dims, rank);
}

/* Resolves a shape in which one dimension may be -1. */
static bool shapes_settle(network *n, const network_layer *l, const mil_value *x, int64_t *dims, int rank) {
    const bool waits = x && mil_type_is_open(&x->type); /* the operation reports a shape that does not fit */
    int64_t count = !x ? 1 : waits ? MIL_MAX_ELEMENTS : mil_type_count(&x->type), known = 1;
    int open = -1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == -1 && open < 0)
            open = i;
        else if (dims[i] < 1 || known > count / dims[i]) {
            network_fail(n, l, "its shape does not fit the %lld elements of its input", (long long)count);
            return false;
        } else
            known *= dims[i];
    }
    if (open >= 0 && !waits) dims[open] = count / known;
    return !network_failed(n);
}

static void shapes_reshape(network *n, network_layer *l, const int64_t *to, int count) {
    mil_value *x = network_five(n, l->in[0]);
    int64_t dims[5] = {network_dim(x, 0), network_dim(x, 1), 0, 0, 0};
    if (count == 4) dims[0] = to[0];
    memcpy(dims + 2, to + count - 3, 3 * sizeof *to);
    const bool last = wire_whole(l->params, 2, 0);
    if (last) x = shapes_turn(n, x, false);
    if (!x || !shapes_settle(n, l, x, dims, 5)) return;
    const int64_t turned[5] = {dims[0], dims[1], dims[3], dims[4], dims[2]};
    x = network_reshape(n, x, last ? turned : dims, 5);
    l->out[0] = network_fold(n, last ? shapes_turn(n, x, true) : x);
}

void network_reshape_old(network *n, network_layer *l) {
    int64_t to[4];
    const int count = wire_wholes(l->params, 1, to, 4);
    l->out_count = 1;
    if (count == 3 || count == 4)
        shapes_reshape(n, l, to, count);
    else
        network_fail(n, l, "its shape has %d dimensions; it must have 3 or 4", count);
}

/* The layer orders [sequence, channel, height, width]; the batch keeps its place. */
void network_permute(network *n, network_layer *l) {
    static const int64_t place[4] = {0, 2, 3, 4};
    int64_t axes[4], perm[5] = {0, 1, 2, 3, 4};
    const int count = wire_wholes(l->params, 1, axes, 4);
    l->out_count = 1;
    for (int i = 0; i < count; i++)
        if (count != 4 || axes[i] < 0 || axes[i] > 3) {
            network_fail(n, l, "its axes are not a permutation of 0, 1, 2, 3");
            return;
        }
    for (int i = 0; i < count; i++) perm[place[i]] = place[axes[i]];
    l->out[0] = network_fold(n, mil_build_transpose(&n->b, network_five(n, l->in[0]), perm, 5));
}

void network_sequence_repeat(network *n, network_layer *l) {
    const int64_t given = wire_whole(l->params, 1, 0), reps[5] = {given ? given : 1, 1, 1, 1, 1};
    l->out[0] =
        network_fold(n, NETWORK_DO(n, tile, X(network_five(n, l->in[0])), NETWORK_IN("reps", shapes_ints(n, reps, 5))));
    l->out_count = 1;
}

void network_concat(network *n, network_layer *l) {
    const bool sequence = wire_whole(l->params, 100, 0);
    for (int i = 0; sequence && i < l->in_count; i++) l->in[i] = network_five(n, l->in[i]);
    l->out[0] = network_fold(n, mil_build_concat(&n->b, l->in, l->in_count, sequence ? 0 : network_rank(l->in[0]) - 3));
    l->out_count = 1;
}

static void shapes_give(network_layer *l, const mil_op *op) {
    l->out_count = op ? op->result_count : 0;
    for (int i = 0; i < l->out_count; i++) l->out[i] = op->results[i];
}

void network_split(network *n, network_layer *l) {
    shapes_give(l, network_op(n, MIL_OP_split,
                              NETWORK_ARGS(X(l->in[0]), NETWORK_IN("num_splits", network_int(n, l->out_count)),
                                           NETWORK_IN("axis", network_int(n, -3)))));
}

/* ---- any rank --------------------------------------------------------------------------------------------------------------- */

/* An order of fewer axes than the input has applies to the last axes: images have a batch of 1 in front that a file may
 * not mention. */
void network_transpose(network *n, network_layer *l) {
    int64_t axes[MIL_MAX_RANK], perm[MIL_MAX_RANK];
    const int count = wire_wholes(l->params, 1, axes, MIL_MAX_RANK), rank = network_rank(l->in[0]), lead = rank - count;
    l->out_count = 1;
    for (int i = 0; i < rank; i++) perm[i] = i < lead ? i : axes[i - lead] + lead;
    for (int i = 0; i < lead; i++)
        if (l->in[0]->type.dim[i] != 1)
            network_fail(n, l, "it orders the last %d dimensions, but dimension %d of its input is %lld, not 1", count,
                         i, (long long)l->in[0]->type.dim[i]);
    if (count > rank || !count) network_fail(n, l, "it has %d axes, but its input has %d dimensions", count, rank);
    if (!network_failed(n)) l->out[0] = mil_build_transpose(&n->b, l->in[0], perm, rank);
}

void network_reshape_static(network *n, network_layer *l) {
    int64_t dims[MIL_MAX_RANK];
    const int rank = wire_wholes(l->params, 1, dims, MIL_MAX_RANK);
    l->out_count = 1;
    for (int i = 0; i < rank; i++)
        if (dims[i] == 0) dims[i] = network_dim(l->in[0], i);
    if (shapes_settle(n, l, l->in[0], dims, rank)) l->out[0] = network_reshape(n, l->in[0], dims, rank);
}

void network_rank_preserving_reshape(network *n, network_layer *l) { network_reshape_static(n, l); }

void network_reshape_dynamic(network *n, network_layer *l) {
    l->out[0] = NETWORK_DO(n, reshape, X(l->in[0]), NETWORK_IN("shape", network_list(n, l->in[1])));
    l->out_count = 1;
}

void network_reshape_like(network *n, network_layer *l) {
    l->out[0] = network_reshape(n, l->in[0], l->in[1]->type.dim, network_rank(l->in[1]));
    l->out_count = 1;
}

/* Removes dimensions of a value whose shape is known only at run time. */
static mil_value *shapes_without(network *n, mil_value *x, const bool *goes) {
    int64_t kept[MIL_MAX_RANK];
    int count = 0;
    for (int i = 0; i < network_rank(x); i++)
        if (!goes[i]) kept[count++] = i;
    mil_value *shape =
        NETWORK_DO(n, gather, X(NETWORK_DO(n, shape, X(x))), NETWORK_IN("indices", shapes_ints(n, kept, count)),
                   NETWORK_IN("axis", network_int(n, 0)));
    return NETWORK_DO(n, reshape, X(x), NETWORK_IN("shape", shape));
}

/* A network has no scalars, so at least one dimension stays. */
void network_squeeze(network *n, network_layer *l) {
    int64_t axes[MIL_MAX_RANK], dims[MIL_MAX_RANK];
    bool goes[MIL_MAX_RANK] = {false};
    const int rank = network_rank(l->in[0]), count = wire_wholes(l->params, 1, axes, MIL_MAX_RANK);
    const bool all = wire_whole(l->params, 2, 0);
    int left = 0;
    for (int i = 0; i < count && !all; i++) {
        const int64_t axis = network_axis(n, l, axes[i], rank);
        goes[axis] = true;
        if (network_dim(l->in[0], (int)axis) > 1 && !network_failed(n))
            network_fail(n, l, "axis %lld has %lld elements, not 1", (long long)axis,
                         (long long)network_dim(l->in[0], (int)axis));
    }
    for (int i = 0; i < rank; i++)
        if (!goes[i] && !(all && l->in[0]->type.dim[i] == 1)) dims[left++] = l->in[0]->type.dim[i];
    const bool open = l->in[0] && mil_type_is_open(&l->in[0]->type);
    l->out_count = 1;
    if (all && open) network_refuse(n, l, "which dimensions are 1 is known only at run time");
    /* Several of the dimensions that stay may be unknown, which a reshape cannot express. */
    if (open && left && left < rank) {
        l->out[0] = shapes_without(n, l->in[0], goes);
        return;
    }
    if (!left) dims[left++] = 1;
    l->out[0] = network_reshape(n, l->in[0], dims, left);
}

/* A slice that removes every dimension becomes a vector of one element (parts_slice), since most layers need a
 * dimension. For expandDims it is a scalar: coremltools' tests expect shape [1] of a scalar that gets axis 0. */
void network_expand_dims(network *n, network_layer *l) {
    int64_t axes[MIL_MAX_RANK];
    const int count = wire_wholes(l->params, 1, axes, MIL_MAX_RANK);
    mil_value *x = l->in[0];
    if (x && x->def && x->def->info->code == MIL_OP_reshape && network_rank(mil_in(x->def, "x")) == 0)
        x = mil_in(x->def, "x");
    l->out[0] = NETWORK_DO(n, expand_dims, X(x), NETWORK_IN("axes", shapes_ints(n, axes, count)));
    l->out_count = 1;
}

void network_flatten2d(network *n, network_layer *l) {
    int64_t dims[2] = {1, 1};
    const int rank = network_rank(l->in[0]);
    const int64_t given = wire_whole(l->params, 1, 0), axis = given == rank ? rank : network_axis(n, l, given, rank);
    for (int i = 0; i < rank; i++) dims[i >= axis] *= l->in[0]->type.dim[i];
    l->out[0] = network_reshape(n, l->in[0], dims, 2);
    l->out_count = 1;
}

/* Inputs of fewer dimensions get dimensions of 1 in front, as in broadcasting; the axis refers to the input of the
 * highest rank. Networks from ONNX join shapes [1, 1] and [1], as they have no scalars. */
void network_concat_nd(network *n, network_layer *l) {
    int64_t dims[MIL_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < l->in_count; i++)
        if (network_rank(l->in[i]) > rank) rank = network_rank(l->in[i]);
    for (int i = 0; i < l->in_count; i++) {
        const int has = network_rank(l->in[i]), lead = rank - has;
        if (has && lead) {
            for (int d = 0; d < rank; d++) dims[d] = d < lead ? 1 : l->in[i]->type.dim[d - lead];
            l->in[i] = network_reshape(n, l->in[i], dims, rank);
        }
    }
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), rank);
    const mil_argument a[] = {{"values", l->in_count, l->in},
                              NETWORK_IN("axis", network_int(n, axis)),
                              NETWORK_IN("interleave", mil_build_bool(&n->b, wire_whole(l->params, 2, 0)))};
    l->out[0] = network_do(n, MIL_OP_concat, a, 3);
    l->out_count = 1;
}

/* Makes parts as equal as possible; the first ones have one more element. */
static int shapes_equal_parts(network *n, const network_layer *l, int64_t size, int64_t parts, int64_t *sizes) {
    if (parts < 1 || parts > NETWORK_MOST_VALUES || parts > size)
        network_fail(n, l, "%lld elements in %lld parts", (long long)size, (long long)parts);
    if (network_failed(n)) return 0;
    for (int64_t i = 0; i < parts; i++) sizes[i] = size / parts + (i < size % parts);
    return (int)parts;
}

void network_split_nd(network *n, network_layer *l) {
    int64_t sizes[NETWORK_MOST_VALUES];
    int count = wire_wholes(l->params, 3, sizes, NETWORK_MOST_VALUES);
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), network_rank(l->in[0]));
    if (!count) count = shapes_equal_parts(n, l, network_dim(l->in[0], (int)axis), wire_whole(l->params, 2, 0), sizes);
    shapes_give(l, network_op(n, MIL_OP_split,
                              NETWORK_ARGS(X(l->in[0]), NETWORK_IN("split_sizes", shapes_ints(n, sizes, count)),
                                           NETWORK_IN("axis", network_int(n, axis)))));
}

void network_stack(network *n, network_layer *l) {
    const mil_argument a[] = {{"values", l->in_count, l->in},
                              NETWORK_IN("axis", network_int(n, wire_whole(l->params, 1, 0)))};
    l->out[0] = network_do(n, MIL_OP_stack, a, 2);
    l->out_count = 1;
}

/* Returns the repetitions that the input `given` holds. The first dimensions, for which it has no number, are repeated
 * once. */
static mil_value *shapes_repetitions(network *n, mil_value *given, int rank) {
    int64_t once[MIL_MAX_RANK];
    for (int i = 0; i < MIL_MAX_RANK; i++) once[i] = 1;
    mil_value *list = network_list(n, given);
    const int count = list && list->type.rank == 1 ? (int)list->type.dim[0] : rank;
    if (!list || count >= rank) return list;
    mil_value *both[2] = {shapes_ints(n, once, rank - count), list};
    return both[0] ? mil_build_concat(&n->b, both, 2, 0) : NULL;
}

void network_tile(network *n, network_layer *l) {
    int64_t given[MIL_MAX_RANK], reps[MIL_MAX_RANK];
    const int rank = network_rank(l->in[0]), count = wire_wholes(l->params, 1, given, MIL_MAX_RANK);
    for (int i = 0; i < rank; i++) reps[i] = i < rank - count ? 1 : given[i - rank + count];
    if (count > rank) network_fail(n, l, "%d repetitions of an input of %d dimensions", count, rank);
    mil_value *list = l->in_count == 2 ? shapes_repetitions(n, l->in[1], rank) : shapes_ints(n, reps, rank);
    l->out[0] = NETWORK_DO(n, tile, X(l->in[0]), NETWORK_IN("reps", list));
    l->out_count = 1;
}

void network_get_shape(network *n, network_layer *l) {
    l->out[0] = network_float(n, NETWORK_DO(n, shape, X(l->in[0])));
    l->out_count = 1;
}

void network_reverse(network *n, network_layer *l) {
    int64_t turn[MIL_MAX_RANK], axes[MIL_MAX_RANK];
    const int rank = wire_wholes(l->params, 1, turn, MIL_MAX_RANK);
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (turn[i]) axes[count++] = i;
    l->out[0] = count ? NETWORK_DO(n, reverse, X(l->in[0]), NETWORK_IN("axes", shapes_ints(n, axes, count))) : l->in[0];
    l->out_count = 1;
}

void network_reverse_seq(network *n, network_layer *l) {
    l->out[0] = NETWORK_DO(n, reverse_sequence, X(l->in[0]), NETWORK_IN("lengths", network_list(n, l->in[1])),
                           NETWORK_IN("seq_axis", network_int(n, wire_whole(l->params, 2, 0))),
                           NETWORK_IN("batch_axis", network_int(n, wire_whole(l->params, 1, 0))));
    l->out_count = 1;
}

/* Sets `dims` to the shape of the result and returns the rank. If flag is 0, `field` of the layer contains the
 * shape; if 1, it is the shape of `like`; if 2, it is the content of `holds`, which must be known. Returns 0
 * after a refusal. */
static int shapes_wanted(network *n, const network_layer *l, uint32_t field, const mil_value *like, mil_value *holds,
                         int64_t dims[MIL_MAX_RANK]) {
    int rank = 0;
    if (l->row->flag == 0) return wire_wholes(l->params, field, dims, MIL_MAX_RANK);
    if (l->row->flag == 1) {
        for (rank = 0; rank < network_rank(like); rank++) dims[rank] = like->type.dim[rank];
        return rank;
    }
    mil_value *v = network_list(n, holds);
    if (!v || !mil_know(v) || mil_type_count(&v->type) > MIL_MAX_RANK) {
        network_refuse(n, l, "its shape is computed at run time");
        return 0;
    }
    for (rank = 0; rank < mil_type_count(&v->type); rank++) dims[rank] = mil_const_i64(v->constant, rank);
    return rank;
}

/* Returns the shape if it is known only at run time, otherwise NULL. As in shapes_wanted, flag selects the shape or the
 * content of `of`. */
static mil_value *shapes_late(network *n, const network_layer *l, mil_value *of) {
    mil_value *shape = NULL;
    if (l->row->flag == 1 && of && mil_type_is_open(&of->type)) shape = NETWORK_DO(n, shape, X(of));
    if (l->row->flag == 2) shape = network_list(n, of);
    return shape && n->b.waits && !mil_know(shape) ? shape : NULL;
}

/* Returns the shape as a value, which may be known only at run time. */
static mil_value *shapes_wanted_value(network *n, const network_layer *l, uint32_t field) {
    int64_t dims[MIL_MAX_RANK];
    mil_value *late = shapes_late(n, l, l->in[0]);
    if (late) return late;
    const int rank = shapes_wanted(n, l, field, l->in[0], l->in[0], dims);
    return shapes_ints(n, dims, rank);
}

void network_fill(network *n, network_layer *l) {
    l->out[0] = NETWORK_DO(n, fill, NETWORK_IN("shape", shapes_wanted_value(n, l, 2)),
                           NETWORK_IN("value", network_real(n, wire_real(l->params, 1, 0))));
    l->out_count = 1;
}

/* Broadcasts as in NumPy: dimensions of 1 are repeated, and the two shapes may broadcast to a third. */
void network_broadcast(network *n, network_layer *l) {
    int64_t dims[MIL_MAX_RANK], from[MIL_MAX_RANK], reps[MIL_MAX_RANK];
    mil_value *x = l->in[0], *late = shapes_late(n, l, l->in[1]);
    bool same = true;
    l->out_count = 1;
    if (late) { /* a product with ones has both shapes, broadcast to each other */
        mil_value *ones = NETWORK_DO(n, fill, NETWORK_IN("shape", late), NETWORK_IN("value", network_real(n, 1)));
        l->out[0] = NETWORK_DO(n, mul, X(x), NETWORK_IN("y", ones));
        return;
    }
    const int rank = shapes_wanted(n, l, 1, l->in[1], l->in[1], dims), lead = rank - network_rank(x);
    if (lead < 0) network_fail(n, l, "%d dimensions cannot become %d", network_rank(x), rank);
    if (network_failed(n)) return;
    for (int i = 0; i < rank; i++) {
        from[i] = i < lead ? 1 : x->type.dim[i - lead];
        reps[i] = from[i] == 1 ? dims[i] : 1;
        same &= reps[i] == 1;
        if (from[i] != 1 && from[i] != dims[i] && dims[i] != 1)
            network_fail(n, l, "%lld elements cannot become %lld", (long long)from[i], (long long)dims[i]);
    }
    x = network_reshape(n, x, from, rank);
    l->out[0] = same ? x : NETWORK_DO(n, tile, X(x), NETWORK_IN("reps", shapes_ints(n, reps, rank)));
}

/* The shape of the result is in the layer if flag is 0, is the input's shape if flag is 1, and consists of the input's
 * elements if flag is 2. The random numbers differ from Core ML's. */
void network_random(network *n, network_layer *l) {
    const bool bernoulli = l->row->code == MIL_OP_random_bernoulli, normal = l->row->code == MIL_OP_random_normal;
    mil_value *shape = shapes_wanted_value(n, l, bernoulli ? 3 : 4),
              *seed = network_int(n, wire_whole(l->params, 1, -1));
    mil_value *a = network_real(n, wire_real(l->params, 2, 0)),
              *b = bernoulli ? NULL : network_real(n, wire_real(l->params, 3, 0));
    const mil_argument args[] = {NETWORK_IN("shape", shape), NETWORK_IN("seed", seed),
                                 NETWORK_IN(bernoulli ? "prob"
                                            : normal  ? "mean"
                                                      : "low",
                                            a),
                                 NETWORK_IN(normal ? "stddev" : "high", b)};
    l->out[0] = network_do(n, l->row->code, args, bernoulli ? 3 : 4);
    l->out_count = 1;
}
