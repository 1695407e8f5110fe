/* SPDX-License-Identifier: MIT
 * Owns convolutions, deconvolutions and pooling. One idea: every specification of padding becomes explicit numbers.
 * Refuses deconvolutions whose output is larger than their strides and kernels produce.
 */
#include <string.h>

#include "core/mil/neural_network/network.h"

enum { SPACE = 3 }; /* depth, height, width */

typedef struct windows {
    int axes; /* number of spatial axes, the last axes of the input */
    int64_t kernel[SPACE], stride[SPACE], dilation[SPACE], pad[SPACE * 2];
} windows;

/* Reads two numbers, or uses `standard` for both. */
static bool windows_pair(network *n, const network_layer *l, uint32_t field, int64_t standard, int64_t out[2]) {
    const int count = wire_wholes(l->params, field, out, 2);
    if (count == 0) out[0] = out[1] = standard;
    if ((count == 0 || count == 2) && out[0] >= 1 && out[1] >= 1 && out[0] <= INT32_MAX && out[1] <= INT32_MAX)
        return true;
    network_fail(n, l, "field %u must be two numbers of at least 1", field);
    return false;
}

static int64_t windows_spread(const windows *w, int i) { return (w->kernel[i] - 1) * w->dilation[i] + 1; }

/* Reads BorderAmounts: [{start, end}, {start, end}]. */
static void windows_borders(wire_view borders, int64_t out[4]) {
    wire_view edge;
    memset(out, 0, 4 * sizeof *out);
    for (int i = 0; i < 2 && wire_each(&borders, 10, &edge); i++) {
        out[2 * i] = wire_whole(edge, 1, 0);
        out[2 * i + 1] = wire_whole(edge, 2, 0);
    }
}

static void windows_halve(int64_t total, bool first_heavy, int64_t out[2]) {
    out[0] = total < 0 ? 0 : first_heavy ? total - total / 2 : total / 2;
    out[1] = total < 0 ? 0 : total - out[0];
}

static void windows_same(windows *w, const mil_value *x, bool first_heavy) {
    for (int i = 0; i < w->axes; i++) {
        const int64_t size = network_dim(x, i - w->axes), out = (size + w->stride[i] - 1) / w->stride[i];
        windows_halve((out - 1) * w->stride[i] + windows_spread(w, i) - size, first_heavy, w->pad + 2 * i);
    }
}

/* Reads the fields `valid` and `same` of a layer; neither means no padding. */
static void windows_padding(windows *w, const network_layer *l, const mil_value *x, uint32_t valid, uint32_t same) {
    wire_view how, borders;
    if (wire_part(l->params, same, &how))
        windows_same(w, x, wire_whole(how, 1, 0) == 1);
    else if (wire_part(l->params, valid, &how) && wire_part(how, 1, &borders))
        windows_borders(borders, w->pad);
}

static mil_value *windows_ints(network *n, const int64_t *values, int count) {
    return mil_build_ints(&n->b, values, count);
}

/* ---- convolutions ----------------------------------------------------------------------------------------------------------- */

static mil_value *windows_bias(network *n, const network_layer *l, uint32_t has, uint32_t field, int64_t channels) {
    if (!wire_whole(l->params, has, 0)) return NULL;
    return network_weights(n, l, l->params, field, "bias", 1, &channels);
}

static mil_value *windows_conv(network *n, const windows *w, mil_value *x, mil_value *weight, mil_value *bias,
                               int64_t groups) {
    return NETWORK_DO(n, conv, NETWORK_IN("x", x), NETWORK_IN("weight", weight), NETWORK_IN("bias", bias),
                      NETWORK_IN("strides", windows_ints(n, w->stride, w->axes)),
                      NETWORK_IN("pad_type", mil_build_text(&n->b, "custom")),
                      NETWORK_IN("pad", windows_ints(n, w->pad, 2 * w->axes)),
                      NETWORK_IN("dilations", windows_ints(n, w->dilation, w->axes)),
                      NETWORK_IN("groups", network_int(n, groups)));
}

/* Computes how much of the full result is cropped: as the padding specifies, or so that the result has the requested
 * size. */
static bool windows_crop(network *n, const network_layer *l, windows *w, const mil_value *x, uint32_t size,
                         uint32_t same) {
    wire_view how;
    int64_t wanted[SPACE];
    const bool is_same = wire_part(l->params, same, &how);
    const int count = wire_wholes(l->params, size, wanted, SPACE);
    if (!is_same && !count) return true;
    for (int i = 0; i < w->axes; i++) {
        const int64_t in = network_dim(x, i - w->axes),
                      full = (in - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        const int64_t out = count == w->axes ? wanted[i] : in * w->stride[i];
        if (out > full || out < 1) {
            network_refuse(n, l, "its output has size %lld on an axis where strides and kernel imply %lld",
                           (long long)out, (long long)full);
            return false;
        }
        windows_halve(full - out, is_same && wire_whole(how, 1, 0) == 1, w->pad + 2 * i);
    }
    return true;
}

static mil_value *windows_deconv(network *n, const windows *w, mil_value *x, mil_value *weight, mil_value *bias,
                                 int64_t groups) {
    return NETWORK_DO(n, conv_transpose, NETWORK_IN("x", x), NETWORK_IN("weight", weight), NETWORK_IN("bias", bias),
                      NETWORK_IN("strides", windows_ints(n, w->stride, w->axes)),
                      NETWORK_IN("pad_type", mil_build_text(&n->b, "custom")),
                      NETWORK_IN("pad", windows_ints(n, w->pad, 2 * w->axes)),
                      NETWORK_IN("dilations", windows_ints(n, w->dilation, w->axes)),
                      NETWORK_IN("groups", network_int(n, groups)));
}

void network_convolution(network *n, network_layer *l) {
    windows w = {.axes = 2};
    mil_value *x = network_four(n, l->in[0]), *y;
    const int64_t channels = wire_whole(l->params, 1, 0), given = wire_whole(l->params, 10, 0),
                  groups = given ? given : 1;
    const bool de = wire_whole(l->params, 60, 0);
    if (!x || !windows_pair(n, l, 20, 3, w.kernel) || !windows_pair(n, l, 30, 1, w.stride) ||
        !windows_pair(n, l, 40, 1, w.dilation))
        return;
    if (channels < 1 || groups < 1 || channels % groups) {
        network_fail(n, l, "%lld output channels in %lld groups", (long long)channels, (long long)groups);
        return;
    }
    if (network_rank(l->in[0]) < 4) {
        network_fail(n, l, "its input has %d dimensions; it must have at least 4", network_rank(l->in[0]));
        return;
    }
    const int64_t dims[4] = {de ? wire_whole(l->params, 2, 0) : channels,
                             de ? channels / groups : wire_whole(l->params, 2, 0), w.kernel[0], w.kernel[1]};
    mil_value *weight = l->in_count == 2 ? l->in[1] : network_weights(n, l, l->params, 90, "weight", 4, dims);
    mil_value *bias = windows_bias(n, l, 70, 91, channels);
    if (de) {
        windows_padding(&w, l, x, 50, 0);
        if (!windows_crop(n, l, &w, x, 100, 51)) return;
        y = windows_deconv(n, &w, x, weight, bias, groups);
    } else {
        windows_padding(&w, l, x, 50, 51);
        y = windows_conv(n, &w, x, weight, bias, groups);
    }
    l->out[0] = network_lead(n, y, l->in[0]);
    l->out_count = 1;
}

/* Reads the three fields from `first` on. */
static bool windows_triple(network *n, const network_layer *l, uint32_t first, int64_t out[SPACE]) {
    for (uint32_t i = 0; i < SPACE; i++) {
        out[i] = wire_whole(l->params, first + i, 1);
        if (out[i] >= 1 && out[i] <= INT32_MAX) continue;
        network_fail(n, l, "field %u must be from 1 to 2147483647", first + i);
        return false;
    }
    return true;
}

/* Reads padding of the type CUSTOM, VALID or SAME. */
static void windows_padding3d(windows *w, const network_layer *l, const mil_value *x, uint32_t type, uint32_t first) {
    const int64_t how = wire_whole(l->params, type, 0);
    for (uint32_t i = 0; i < 6 && how == 0; i++) w->pad[i] = wire_whole(l->params, first + i, 0);
    if (how == 2) windows_same(w, x, false);
}

void network_convolution3d(network *n, network_layer *l) {
    windows w = {.axes = 3};
    const int64_t channels = wire_whole(l->params, 1, 0), in = wire_whole(l->params, 2, 0),
                  given = wire_whole(l->params, 10, 0), groups = given ? given : 1;
    const bool de = wire_whole(l->params, 86, 0);
    if (!windows_triple(n, l, 20, w.kernel) || !windows_triple(n, l, 31, w.stride) ||
        !windows_triple(n, l, 40, w.dilation))
        return;
    if (channels < 1 || in < 1 || groups < 1 || channels % groups || in % groups) {
        network_fail(n, l, "%lld channels to %lld in %lld groups", (long long)in, (long long)channels,
                     (long long)groups);
        return;
    }
    windows_padding3d(&w, l, l->in[0], 70, 80);
    const int64_t dims[5] = {de ? in : channels, de ? channels / groups : in / groups, w.kernel[0], w.kernel[1],
                             w.kernel[2]};
    mil_value *weight = network_weights(n, l, l->params, 60, "weight", 5, dims),
              *bias = windows_bias(n, l, 50, 61, channels);
    if (de && !windows_crop(n, l, &w, l->in[0], 87, 0)) return;
    l->out[0] = de ? windows_deconv(n, &w, l->in[0], weight, bias, groups)
                   : windows_conv(n, &w, l->in[0], weight, bias, groups);
    l->out_count = 1;
}

/* ---- pooling ---------------------------------------------------------------------------------------------------------------- */

enum { MAXIMUM, AVERAGE, EUCLIDEAN };

static mil_value *windows_pool(network *n, const windows *w, mil_value *x, int64_t type, bool exclude, bool ceil) {
    mil_value *kernel = windows_ints(n, w->kernel, w->axes), *stride = windows_ints(n, w->stride, w->axes),
              *pad = windows_ints(n, w->pad, 2 * w->axes), *custom = mil_build_text(&n->b, "custom"),
              *up = mil_build_bool(&n->b, ceil), *without = type == AVERAGE ? mil_build_bool(&n->b, exclude) : NULL;
    const mil_opcode code = type == MAXIMUM ? MIL_OP_max_pool : type == AVERAGE ? MIL_OP_avg_pool : MIL_OP_l2_pool;
    const mil_argument a[] = {NETWORK_IN("x", x),
                              NETWORK_IN("kernel_sizes", kernel),
                              NETWORK_IN("strides", stride),
                              NETWORK_IN("pad_type", custom),
                              NETWORK_IN("pad", pad),
                              NETWORK_IN("ceil_mode", up),
                              NETWORK_IN("exclude_padding_from_average", without)};
    return network_do(n, code, a, type == AVERAGE ? 7 : 6);
}

static mil_value *windows_global(network *n, mil_value *x, int64_t type, int axes) {
    static const int64_t last[SPACE] = {-3, -2, -1};
    const mil_opcode code = type == MAXIMUM   ? MIL_OP_reduce_max
                            : type == AVERAGE ? MIL_OP_reduce_mean
                                              : MIL_OP_reduce_l2_norm;
    return mil_build_reduce(&n->b, code, x, last + SPACE - axes, axes, true);
}

void network_pooling(network *n, network_layer *l) {
    windows w = {.axes = 2, .dilation = {1, 1, 1}};
    wire_view last;
    const int64_t type = wire_whole(l->params, 1, 0);
    int64_t both[2] = {0, 0};
    l->out_count = 1;
    if (type < 0 || type > EUCLIDEAN) {
        network_refuse(n, l, "unknown pooling type %lld", (long long)type);
        return;
    }
    if (wire_whole(l->params, 60, 0)) {
        l->out[0] = windows_global(n, l->in[0], type, 2);
        return;
    }
    mil_value *x = network_four(n, l->in[0]);
    if (!x || !windows_pair(n, l, 10, 3, w.kernel) || !windows_pair(n, l, 20, 1, w.stride)) return;
    const bool complete = wire_part(l->params, 32, &last);
    if (complete && wire_wholes(last, 10, both, 2) == 2)
        for (int i = 0; i < 4; i++) w.pad[i] = both[i / 2];
    if (!complete) windows_padding(&w, l, x, 30, 31);
    l->out[0] = network_lead(n, windows_pool(n, &w, x, type, wire_whole(l->params, 50, 0), complete), l->in[0]);
}

void network_pooling3d(network *n, network_layer *l) {
    windows w = {.axes = 3, .dilation = {1, 1, 1}};
    if (!windows_triple(n, l, 2, w.kernel) || !windows_triple(n, l, 5, w.stride)) return;
    windows_padding3d(&w, l, l->in[0], 15, 8);
    l->out[0] = windows_pool(n, &w, l->in[0], wire_whole(l->params, 1, 0) ? AVERAGE : MAXIMUM,
                             wire_whole(l->params, 14, 0), false);
    l->out_count = 1;
}

void network_global_pooling3d(network *n, network_layer *l) {
    l->out[0] = windows_global(n, l->in[0], wire_whole(l->params, 1, 0) ? AVERAGE : MAXIMUM, 3);
    l->out_count = 1;
}
