/* SPDX-License-Identifier: MIT
 * Owns layers that take parts out of a value or insert them: slices, gathers, scatters, padding of any axis, triangles,
 * boxes.
 */
#include <string.h>

#include "core/mil/neural_network/network.h"

#define X(value) NETWORK_IN("x", value)

static mil_value *parts_ints(network *n, const int64_t *values, int count) {
    return mil_build_ints(&n->b, values, count);
}

static mil_value *parts_bools(network *n, const int64_t *values, int count) {
    uint8_t data[MIL_MAX_RANK];
    const mil_type type = mil_type_tensor(MIL_bool, 1, &(int64_t){count});
    for (int i = 0; i < count; i++) data[i] = values[i] != 0;
    return count && !network_failed(n) ? mil_build_const(&n->b, "mask", &type, data) : NULL;
}

/* ---- slices ----------------------------------------------------------------------------------------------------------------- */

/* Slices along one of the last three axes. */
void network_slice(network *n, network_layer *l) {
    int64_t begin[MIL_MAX_RANK] = {0}, end[MIL_MAX_RANK], stride[MIL_MAX_RANK], whole[MIL_MAX_RANK];
    const int rank = network_rank(l->in[0]);
    const int64_t given = wire_whole(l->params, 3, 0), axis = network_axis(n, l, wire_whole(l->params, 4, 0) - 3, rank);
    for (int i = 0; i < rank; i++) end[i] = l->in[0]->type.dim[i], stride[i] = 1, whole[i] = i != axis;
    l->out_count = 1;
    if (network_failed(n)) return;
    begin[axis] = wire_whole(l->params, 1, 0);
    end[axis] = wire_whole(l->params, 2, 0);
    stride[axis] = given ? given : 1;
    /* An end of -1 is the last element, and ends are exclusive. The slice therefore reaches the end of the axis only if
     * the file gives the axis's size. */
    l->out[0] =
        NETWORK_DO(n, slice_by_index, X(l->in[0]), NETWORK_IN("begin", parts_ints(n, begin, rank)),
                   NETWORK_IN("end", parts_ints(n, end, rank)), NETWORK_IN("stride", parts_ints(n, stride, rank)),
                   NETWORK_IN("end_mask", parts_bools(n, whole, rank)));
}

/* Reads a list from a field: beginIds 1, beginMasks 2, endIds 3, endMasks 4, strides 5 or squeezeMasks 6. coremltools
 * writes five entries into a sliceDynamic of any rank; entries beyond the rank are ignored. */
static mil_value *parts_list(network *n, const network_layer *l, uint32_t field, bool masks) {
    int64_t values[MIL_MAX_RANK];
    int count = wire_wholes(l->params, field, values, MIL_MAX_RANK);
    if (l->in_count > 1 && count > network_rank(l->in[0])) count = network_rank(l->in[0]);
    if (!count) return NULL;
    return masks ? parts_bools(n, values, count) : parts_ints(n, values, count);
}

/* Builds a slice; parameters that are not inputs are stored in the layer. */
static mil_value *parts_slice(network *n, network_layer *l, mil_value *const in[7]) {
    static const struct {
        const char *name;
        uint32_t field;
        bool masks;
    } lists[] = {{"begin", 1, false},     {"end", 3, false},     {"stride", 5, false},
                 {"begin_mask", 2, true}, {"end_mask", 4, true}, {"squeeze_mask", 6, true}};
    mil_value *values[7];
    mil_argument a[7] = {X(l->in[0])};
    for (int i = 0; i < 6; i++) {
        values[i] = !in[i + 1]       ? parts_list(n, l, lists[i].field, lists[i].masks)
                    : lists[i].masks ? network_bool(n, in[i + 1])
                                     : network_list(n, in[i + 1]);
        a[i + 1] = (mil_argument){lists[i].name, values[i] ? 1 : 0, &values[i]};
    }
    mil_value *y = network_do(n, MIL_OP_slice_by_index, a, 7);
    return y && network_rank(y) == 0 ? network_reshape(n, y, &(int64_t){1}, 1) : y;
}

void network_slice_static(network *n, network_layer *l) {
    mil_value *const none[7] = {NULL};
    l->out[0] = parts_slice(n, l, none);
    l->out_count = 1;
}

void network_slice_dynamic(network *n, network_layer *l) {
    mil_value *in[7] = {NULL};
    for (int i = 0; i < l->in_count; i++) in[i] = l->in[i];
    l->out[0] = parts_slice(n, l, in);
    l->out_count = 1;
}

/* Builds a gather. An input determines where the slice begins, but the size is known, so shapes do not depend on
 * values, even in loops and branches. */
void network_slice_by_size(network *n, network_layer *l) {
    mil_value *x = l->in[0];
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 3, 0), network_rank(x));
    const int64_t size = wire_whole(l->params, 2, 0), all = network_dim(x, (int)axis);
    mil_value *at = network_reshape(n, network_whole(n, l->in[1]), &(int64_t){1}, 1);
    l->out_count = 1;
    if (size < 1 || (all > 0 && size > all))
        network_fail(n, l, "its size is %lld; axis %lld of its input has %lld elements", (long long)size,
                     (long long)axis, (long long)all);
    if (network_failed(n)) return;
    const mil_argument range[] = {NETWORK_IN("start", network_int(n, 0)), NETWORK_IN("end", network_int(n, size)),
                                  NETWORK_IN("step", network_int(n, 1))};
    mil_value *offsets = network_do(n, MIL_OP_range_1d, range, 3);
    l->out[0] = NETWORK_DO(n, gather, X(x),
                           NETWORK_IN("indices", NETWORK_DO(n, add, NETWORK_IN("x", at), NETWORK_IN("y", offsets))),
                           NETWORK_IN("axis", network_int(n, axis)));
}

void network_sliding_windows(network *n, network_layer *l) {
    const int64_t step = wire_whole(l->params, 3, 0);
    l->out[0] =
        NETWORK_DO(n, sliding_windows, X(l->in[0]), NETWORK_IN("axis", network_int(n, wire_whole(l->params, 1, 0))),
                   NETWORK_IN("size", network_int(n, wire_whole(l->params, 2, 0))),
                   NETWORK_IN("stride", network_int(n, step ? step : 1)));
    l->out_count = 1;
}

/* ---- gathers and scatters --------------------------------------------------------------------------------------------------- */

void network_gather(network *n, network_layer *l) {
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), network_rank(l->in[0]));
    l->out[0] = network_do(n, l->row->code,
                           NETWORK_ARGS(X(l->in[0]), NETWORK_IN("indices", network_whole(n, l->in[1])),
                                        NETWORK_IN("axis", network_int(n, axis))));
    l->out_count = 1;
}

void network_gather_nd(network *n, network_layer *l) {
    mil_value *y = NETWORK_DO(n, gather_nd, X(l->in[0]), NETWORK_IN("indices", network_whole(n, l->in[1])));
    l->out[0] = y && network_rank(y) == 0 ? network_reshape(n, y, &(int64_t){1}, 1) : y;
    l->out_count = 1;
}

static mil_value *parts_mode(network *n, const network_layer *l, uint32_t field) {
    static const char *const modes[] = {"update", "add", "sub", "mul", "div", "max", "min"};
    const int64_t mode = wire_whole(l->params, field, 0);
    if (mode < 0 || mode > 6) network_refuse(n, l, "mode %lld", (long long)mode);
    return mil_build_text(&n->b, modes[mode < 0 || mode > 6 ? 0 : mode]);
}

void network_scatter(network *n, network_layer *l) {
    const int64_t axis = network_axis(n, l, wire_whole(l->params, 1, 0), network_rank(l->in[0]));
    l->out[0] = network_do(n, l->row->code,
                           NETWORK_ARGS(NETWORK_IN("data", l->in[0]), NETWORK_IN("indices", network_whole(n, l->in[1])),
                                        NETWORK_IN("updates", l->in[2]), NETWORK_IN("axis", network_int(n, axis)),
                                        NETWORK_IN("mode", parts_mode(n, l, 2))));
    l->out_count = 1;
}

void network_scatter_nd(network *n, network_layer *l) {
    l->out[0] =
        NETWORK_DO(n, scatter_nd, NETWORK_IN("data", l->in[0]), NETWORK_IN("indices", network_whole(n, l->in[1])),
                   NETWORK_IN("updates", l->in[2]), NETWORK_IN("mode", parts_mode(n, l, 1)));
    l->out_count = 1;
}

/* ---- others ----------------------------------------------------------------------------------------------------------------- */

/* If flag is set, the layer holds all numbers. Otherwise the end, and perhaps start and step, are inputs. */
void network_range(network *n, network_layer *l) {
    const uint32_t fields[3] = {1, 2, 3};
    mil_value *v[3];
    for (int i = 0; i < 3; i++) {
        const double standard = i == 2 ? 1 : 0;
        v[i] = i < l->in_count ? NETWORK_DO(n, squeeze, X(l->in[i]))
                               : network_real(n, wire_real(l->params, fields[i], standard));
        if (i < l->in_count && network_rank(l->in[i]) == 0) v[i] = l->in[i];
    }
    l->out[0] = NETWORK_DO(n, range_1d, NETWORK_IN("end", v[0]), NETWORK_IN("start", v[1]), NETWORK_IN("step", v[2]));
    l->out_count = 1;
}

/* Produces [count, rank]. */
void network_non_zero(network *n, network_layer *l) {
    l->out[0] = network_float(n, NETWORK_DO(n, non_zero, X(l->in[0])));
    l->out_count = 1;
}

void network_constant_pad(network *n, network_layer *l) {
    int64_t pad[MIL_MAX_RANK * 2];
    mil_value *x = l->in[0];
    const int count = wire_wholes(l->params, 2, pad, MIL_MAX_RANK * 2), rank = network_rank(x);
    l->out_count = 1;
    if (l->in_count == 1 && count != 2 * rank) {
        network_fail(n, l, "%d amounts for an input of %d dimensions", count, rank);
        return;
    }
    for (int i = 0; i < count && wire_whole(l->params, 3, 0); i++) /* the numbers are the result's sizes */
        if (pad[i]) pad[i] = pad[i] > x->type.dim[i / 2] ? pad[i] - x->type.dim[i / 2] : 0;
    mil_value *amounts = l->in_count == 2 ? network_list(n, l->in[1]) : parts_ints(n, pad, count);
    l->out[0] =
        NETWORK_DO(n, pad, X(x), NETWORK_IN("pad", amounts), NETWORK_IN("mode", mil_build_text(&n->b, "constant")),
                   NETWORK_IN("constant_val", network_real(n, wire_real(l->params, 1, 0))));
}

static mil_value *parts_band(network *n, mil_value *x, int64_t lower, int64_t upper) {
    return NETWORK_DO(n, band_part, X(x), NETWORK_IN("lower", network_int(n, lower)),
                      NETWORK_IN("upper", network_int(n, upper)));
}

/* Flag 0 is a band, -1 the triangle below diagonal k, and 1 the triangle above it. A triangle without the main diagonal
 * is computed as x minus the rest. */
void network_band(network *n, network_layer *l) {
    const int64_t k = wire_whole(l->params, 1, 0);
    mil_value *x = l->in[0];
    l->out_count = 1;
    if (l->row->flag == 0)
        l->out[0] = parts_band(n, x, k, wire_whole(l->params, 2, 0));
    else if (l->row->flag < 0)
        l->out[0] =
            k >= 0 ? parts_band(n, x, -1, k) : NETWORK_DO(n, sub, X(x), NETWORK_IN("y", parts_band(n, x, -k - 1, -1)));
    else
        l->out[0] =
            k <= 0 ? parts_band(n, x, -k, -1) : NETWORK_DO(n, sub, X(x), NETWORK_IN("y", parts_band(n, x, -1, k - 1)));
}

/* Returns an input as a parameter, which must be constant, or `standard` if the layer does not have that input. */
static mil_value *parts_known(network *n, const network_layer *l, int input, mil_value *standard, bool whole) {
    if (input >= l->in_count) return standard;
    mil_value *v = NETWORK_DO(n, squeeze, X(l->in[input]));
    return whole ? network_whole(n, v) : v;
}

void network_nms(network *n, network_layer *l) {
    const mil_op *op = network_op(
        n, MIL_OP_non_maximum_suppression,
        NETWORK_ARGS(
            NETWORK_IN("boxes", l->in[0]), NETWORK_IN("scores", l->in[1]),
            NETWORK_IN("iou_threshold", parts_known(n, l, 2, network_real(n, wire_real(l->params, 1, 0)), false)),
            NETWORK_IN("score_threshold", parts_known(n, l, 3, network_real(n, wire_real(l->params, 2, 0)), false)),
            NETWORK_IN("max_boxes", parts_known(n, l, 4, network_int(n, wire_whole(l->params, 3, 0)), true)),
            NETWORK_IN("per_class_suppression", mil_build_bool(&n->b, wire_whole(l->params, 4, 0)))));
    l->out_count = op ? op->result_count : 0;
    for (int i = 0; i < l->out_count; i++) l->out[i] = network_float(n, op->results[i]);
}
