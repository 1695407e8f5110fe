/* SPDX-License-Identifier: MIT
 * Owns what all layers do with values: building operations, ranks, and the forms of a network's values. One idea: after
 * the first error everything is NULL, so a layer is written as straight-line code.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/neural_network/network.h"

bool network_failed(const network *n) { return n->b.err.status != PROPANE_OK; }

static void values_fail(network *n, const network_layer *l, propane_status status, const char *format, va_list args) {
    char shown[80];
    if (network_failed(n)) return;
    (void)!propane_vfail(&n->b.err, status, format, args);
    (void)!propane_fail_prefix(&n->b.err, status, "%s: layer '%s' (%s)", n->b.module->source,
                               text_quote(shown, l->name, strlen(l->name)),
                               l->row ? l->row->name : "of an unknown type");
}

void network_fail(network *n, const network_layer *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    values_fail(n, l, PROPANE_ERR_INVALID, format, args);
    va_end(args);
}

void network_refuse(network *n, const network_layer *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    values_fail(n, l, PROPANE_ERR_UNSUPPORTED, format, args);
    va_end(args);
}

mil_op *network_op(network *n, mil_opcode code, const mil_argument *arguments, int count) {
    if (network_failed(n)) return NULL;
    return mil_build_op(&n->b, code, NULL, arguments, count);
}

mil_value *network_do(network *n, mil_opcode code, const mil_argument *arguments, int count) {
    const mil_op *op = network_op(n, code, arguments, count);
    return op && op->result_count ? op->results[0] : NULL;
}

int network_rank(const mil_value *v) { return v ? v->type.rank : 0; }

int64_t network_dim(const mil_value *v, int axis) {
    const int rank = network_rank(v), at = axis < 0 ? axis + rank : axis;
    return at >= 0 && at < rank ? v->type.dim[at] : 1;
}

mil_value *network_real(network *n, double value) { return mil_build_scalar(&n->b, MIL_fp32, value); }

mil_value *network_int(network *n, int64_t value) {
    const int32_t fits = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
    return mil_build_int(&n->b, fits);
}

mil_value *network_reshape(network *n, mil_value *x, const int64_t *dims, int rank) {
    if (!x || network_failed(n)) return NULL;
    bool same = x->type.rank == rank;
    for (int i = 0; same && i < rank; i++) same = x->type.dim[i] == dims[i];
    if (same) return x;
    if (rank == 0) return NETWORK_DO(n, squeeze, NETWORK_IN("x", x));
    return mil_build_reshape(&n->b, x, dims, rank);
}

mil_value *network_four(network *n, mil_value *x) {
    int64_t dims[4] = {1, network_dim(x, -3), network_dim(x, -2), network_dim(x, -1)};
    for (int i = 0; i < network_rank(x) - 3; i++) dims[0] *= x->type.dim[i];
    return network_rank(x) == 4 ? x : network_reshape(n, x, dims, 4);
}

mil_value *network_lead(network *n, mil_value *y, const mil_value *like) {
    int64_t dims[MIL_MAX_RANK];
    const int lead = network_rank(like) - 3;
    if (!y || lead == 1) return y;
    for (int i = 0; i < lead; i++) dims[i] = like->type.dim[i];
    for (int i = 0; i < 3; i++) dims[(lead > 0 ? lead : 0) + i] = network_dim(y, i - 3);
    return network_reshape(n, y, dims, (lead > 0 ? lead : 0) + 3);
}

mil_value *network_five(network *n, mil_value *x) {
    int64_t dims[5];
    const int rank = network_rank(x);
    if (!x || rank >= 5) return x;
    for (int i = 0; i < 5; i++) dims[i] = i < 5 - rank ? 1 : x->type.dim[i - 5 + rank];
    return network_reshape(n, x, dims, 5);
}

mil_value *network_fold(network *n, mil_value *x) {
    if (!n->folded || network_rank(x) != 5 || x->type.dim[0] != 1) return x;
    return network_reshape(n, x, x->type.dim + 1, 4);
}

/* Returns the value of type `dtype` from which x was cast, to avoid a conversion through floats, or NULL if there is
 * none. */
static mil_value *values_before(mil_value *x, mil_dtype dtype) {
    const mil_op *op = x->def;
    if (!op || op->info->code != MIL_OP_cast) return NULL;
    mil_value *from = mil_in(op, "x");
    return from->type.dtype == dtype ? from : NULL;
}

mil_value *network_bool(network *n, mil_value *x) {
    if (!x || network_failed(n)) return NULL;
    mil_value *before = values_before(x, MIL_bool);
    return before ? before : NETWORK_DO(n, not_equal, NETWORK_IN("x", x), NETWORK_IN("y", network_real(n, 0)));
}

mil_value *network_whole(network *n, mil_value *x) {
    if (!x || network_failed(n)) return NULL;
    mil_value *before = values_before(x, MIL_int32);
    return before ? before : mil_build_cast(&n->b, x, MIL_int32);
}

mil_value *network_list(network *n, mil_value *x) {
    mil_value *v = network_whole(n, x);
    return network_rank(v) == 1 ? v : network_reshape(n, v, &(int64_t){-1}, 1);
}

mil_value *network_float(network *n, mil_value *x) {
    if (!x || network_failed(n) || x->type.dtype == MIL_fp32) return x;
    return mil_build_cast(&n->b, x, MIL_fp32);
}

int64_t network_axis(network *n, const network_layer *l, int64_t axis, int rank) {
    if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
    network_fail(n, l, "axis is %lld, but its input has %d dimensions", (long long)axis, rank);
    return 0;
}
